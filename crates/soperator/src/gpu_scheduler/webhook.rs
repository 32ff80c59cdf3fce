//! `soperator gpu-scheduler webhook`.

use std::path::PathBuf;

use clap::ValueEnum;
use engine::admission::OnFailure;
use engine::error::chain;
use engine::settings::{self, Flags, World};
use gpu_scheduler::map::Mode;
use gpu_scheduler::names::SCHEDULER;
use gpu_scheduler::webhook::{self, Config, DeviceMode, Existing, Options, Rules};

use crate::cli::Error;
use crate::role::Role;

/// Its arguments.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    flags: Flags,
    /// Pods with this schedulerName are looked at
    #[arg(long, value_name = "NAME", env = "SCHEDULER_NAME", default_value = SCHEDULER)]
    scheduler_name: String,
    /// Read maps as the original does, and write devices into pods as they stand in the map
    #[arg(long)]
    compat: bool,
    /// What becomes of a variable that a container already has
    #[arg(long, value_enum, default_value_t = ExistingEnv::Override)]
    existing_env: ExistingEnv,
    /// How containers get to their devices
    #[arg(long, value_enum, default_value_t = Devices::Env)]
    device_mode: Devices,
    /// What becomes of a review that could not be decided; the same as failurePolicy of the webhook configurations
    #[arg(long, value_enum, default_value_t = FailurePolicy::Ignore, ignore_case = true)]
    failure_policy: FailurePolicy,
    /// Whether to keep caBundle of the webhook configurations; false where you do
    #[arg(long, num_args = 0..=1, require_equals = true, default_value_t = true, default_missing_value = "true", action = clap::ArgAction::Set)]
    keep_ca_bundle: bool,
    /// File (YAML) that says which namespaces may name which nodes and devices
    #[arg(long, value_name = "FILE")]
    rules: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ExistingEnv {
    /// Ours takes its place
    Override,
    /// It stays
    Keep,
    /// The pod is refused
    Deny,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Devices {
    /// CUDA_VISIBLE_DEVICES hides the others
    Env,
    /// NVIDIA_VISIBLE_DEVICES too, by which NVIDIA's runtime mounts no others
    Runtime,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "PascalCase")]
enum FailurePolicy {
    /// It passes, with a warning
    Ignore,
    /// It is denied
    Fail,
}

pub(super) fn run(args: &Args) -> Result<(), Error> {
    let settings = settings::load(&Role::GpuScheduler.profile(), &args.flags, &World::default())
        .map_err(Error::Settings)?;
    webhook::run(&settings, args.options()?).map_err(|error| Error::Role(chain(&error)))
}

impl Args {
    fn options(&self) -> Result<Options, Error> {
        let rules = match &self.rules {
            None => Rules::default(),
            Some(path) => {
                let text =
                    std::fs::read_to_string(path).map_err(|error| Error::Unreadable(path.clone(), error))?;
                Rules::parse(&text).map_err(|error| Error::Refused(format!("{}: {error}", path.display())))?
            }
        };
        let config = Config {
            scheduler: self.scheduler_name.clone(),
            mode: if self.compat { Mode::Compat } else { Mode::Strict },
            existing: match self.existing_env {
                ExistingEnv::Override => Existing::Override,
                ExistingEnv::Keep => Existing::Keep,
                ExistingEnv::Deny => Existing::Deny,
            },
            devices: match self.device_mode {
                Devices::Env => DeviceMode::Env,
                Devices::Runtime => DeviceMode::Runtime,
            },
            rules,
        };
        let on_failure = match self.failure_policy {
            FailurePolicy::Ignore => OnFailure::Allow,
            FailurePolicy::Fail => OnFailure::Deny,
        };
        Ok(Options { config, on_failure, keep_ca_bundle: self.keep_ca_bundle })
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Program {
        #[command(flatten)]
        args: Args,
    }

    fn args(words: &[&str]) -> Args {
        Program::try_parse_from([&["webhook"], words].concat()).unwrap().args
    }

    #[test]
    fn the_flags_of_the_chart_are_read() {
        let options = args(&[
            "--compat",
            "--existing-env=deny",
            "--device-mode=runtime",
            "--failure-policy=Fail",
            "--keep-ca-bundle=false",
            "--webhook-bind-address=:8443",
        ])
        .options()
        .unwrap();
        assert_eq!((options.config.mode, options.config.existing), (Mode::Compat, Existing::Deny));
        assert_eq!((options.config.devices, options.on_failure), (DeviceMode::Runtime, OnFailure::Deny));
        assert!(!options.keep_ca_bundle);
        let usual = args(&[]).options().unwrap();
        assert_eq!((usual.config.mode, usual.on_failure), (Mode::Strict, OnFailure::Allow));
        assert!(usual.keep_ca_bundle);
    }

    #[test]
    fn rules_that_cannot_be_used_name_their_file() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("rules.yaml");
        let rules = |text: &str| {
            std::fs::write(&file, text).unwrap();
            args(&["--rules", &file.to_string_lossy()]).options().map(|options| options.config.rules)
        };
        assert!(rules("strict: true\nrules: []\n").unwrap().strict);
        let error = rules("rules: [{nodes: [a]}]").unwrap_err().to_string();
        assert!(error.contains("rules.yaml: rules[0].namespaces is empty"), "{error}");
    }
}
