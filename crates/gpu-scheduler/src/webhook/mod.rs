//! The admission webhook: gives containers their devices, and tells users what is wrong with a map when they apply it.
//!
//! [`mutate`] and [`validate`] are pure: a review in, a decision out. [`run`] serves them.

mod env;
mod frozen;
mod inject;
mod problem;
mod requests;
mod rules;
mod run;
mod shape;
mod unsupported;
mod verdict;
mod workload;

use std::sync::Arc;

use engine::admission::{OnFailure, Webhooks};

use crate::map::Mode;
pub use env::{DeviceMode, Existing};
pub use inject::mutate;
pub use rules::{Rule, Rules, RulesError};
pub use run::{Options, WebhookError, run};
pub use verdict::validate;

/// Where new pods of ours are checked and get their variables; the original's path.
pub const MUTATE: &str = "/mutate";
/// Where changes of pods, templates, and pods that are not quite ours are checked.
pub const VALIDATE: &str = "/validate";

/// What the webhook decides by.
#[derive(Clone, Debug)]
pub struct Config {
    /// Pods with this `schedulerName` are ours.
    pub scheduler: String,
    /// How maps are read. In compat mode devices are written into the pod as they stand in the map.
    pub mode: Mode,
    /// What becomes of variables that a container already has.
    pub existing: Existing,
    /// How containers get to their devices.
    pub devices: DeviceMode,
    /// Who may name which nodes and devices.
    pub rules: Rules,
}

impl Config {
    /// The usual settings.
    pub fn new(scheduler: &str) -> Self {
        Self {
            scheduler: scheduler.into(),
            mode: Mode::Strict,
            existing: Existing::Override,
            devices: DeviceMode::Env,
            rules: Rules::default(),
        }
    }
}

/// Both webhooks. `on_failure` is what their `failurePolicy` says.
pub fn webhooks(config: Config, on_failure: OnFailure) -> Webhooks {
    let config = Arc::new(config);
    let of_mutate = Arc::clone(&config);
    Webhooks::new().on(MUTATE, on_failure, move |request| mutate(&of_mutate, request)).on(
        VALIDATE,
        on_failure,
        move |request| validate(&config, request),
    )
}

#[cfg(test)]
mod tests;
