//! From one `SlurmCluster` to the Kubernetes objects that it should be. Pure: no I/O, no clock, no randomness.
//!
//! ```text
//! validate(cluster, defaults) -> ValidatedCluster      what the user wrote, resolved and checked, part by part
//! render(validated, facts)    -> Vec<Rendered>         cannot fail; same input, same output
//! ```
//!
//! Each part of the cluster is valid or not by itself ([`ValidatedCluster`]): one that is not renders nothing, and whoever
//! prunes leaves its objects alone ([`ValidatedCluster::is_broken`]).

mod accounting;
mod amount;
mod app_armor;
pub mod check;
mod common;
mod controller;
mod database;
mod defaults;
mod facts;
pub mod labels;
mod login;
mod names;
mod node_set;
mod object;
mod pod;
mod populate_jail;
mod rest;
mod sconfig_controller;
mod secrets;
pub mod slurm_files;
mod small_files;
pub mod validate;
mod workers;
mod workload;

pub use check::problem::{Problem, Severity};
pub use defaults::Defaults;
pub use facts::{
    Facts, HeldImages, NodeSetFacts, PopulateFacts, PopulateMark, References, Running, Served, WorkerFacts,
};
pub use labels::Component;
pub use names::Names;
pub use node_set::{WorkerTemplate, node_set_objects, worker_template};
pub use object::{Dynamic, Object, Policy, Rendered};
pub use populate_jail::overwrites_jail;
pub use secrets::{GeneratedSecret, Material, SshHostKeys, generated_secrets};
pub use slurm_files::{config_hash, effective_set, slurm_configs};
pub use validate::{ValidatedCluster, validate};

/// Every object of the cluster as it should be now. Parts that are broken or turned off have none.
///
/// The order is that of the parts, then that in which a part writes them; objects that others need come first.
#[must_use]
pub fn render(cluster: &ValidatedCluster, facts: &Facts) -> Vec<Rendered> {
    let mut objects = common::render(cluster, facts);
    objects.extend(app_armor::render(cluster, facts));
    objects.extend(populate_jail::render(cluster, facts));
    objects.extend(sconfig_controller::render(cluster, facts));
    objects.extend(accounting::render(cluster, facts));
    objects.extend(controller::render(cluster, facts));
    objects.extend(rest::render(cluster, facts));
    objects.extend(workers::render(cluster, facts));
    objects.extend(login::render(cluster, facts));
    objects
}
