//! `soperator gpu-scheduler scheduler`.

use engine::error::chain;
use engine::settings::{self, Flags, World};
use gpu_scheduler::core;
use gpu_scheduler::map::Mode;
use gpu_scheduler::names;
use gpu_scheduler::server::{self, Options};

use crate::cli::Error;
use crate::role::Role;

const AFTER_HELP: &str = "\
It places pods with spec.schedulerName set to its name by their annotation gpu-scheduling-map. One process works at a time; \
the others stand by for its lease (--leader-elect). docs/gpu-scheduler.md tells the rest.

Exit codes: 0 told to stop, 1 failed or no leader any more, 2 wrong arguments.";

/// Its arguments.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// The name by which pods ask for this scheduler
    #[arg(long, env = "SCHEDULER_NAME", default_value = names::SCHEDULER, value_parser = name)]
    scheduler_name: String,
    /// The label of nodes that maps may call them by, besides their name
    #[arg(long, env = "GPU_NODE_LABEL", default_value = names::NODE_NAME_LABEL, value_parser = name)]
    node_label: String,
    /// Read maps as the original does: lines that it skipped are skipped, and none after them is lost
    #[arg(long)]
    compat: bool,
    /// Refuse nodes on which a device plugin serves nvidia.com/gpu: it gives out the same cards
    #[arg(long, env = "GPU_STRICT_NODES", num_args = 0..=1, require_equals = true, default_value_t = false, default_missing_value = "true", action = clap::ArgAction::Set)]
    strict_nodes: bool,
    /// How many binds may be under way at most
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u16).range(1..=512))]
    max_binds_in_flight: u16,
    /// Whether events about scheduled and unschedulable pods are sent
    #[arg(long, num_args = 0..=1, require_equals = true, default_value_t = true, default_missing_value = "true", action = clap::ArgAction::Set)]
    events: bool,
    #[command(flatten)]
    flags: Flags,
}

fn name(text: &str) -> Result<String, String> {
    let inner = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '/');
    if text.is_empty() || text.len() > 253 || !text.chars().all(inner) {
        return Err("use letters, digits, '-', '_', '.' and '/'".into());
    }
    Ok(text.into())
}

impl Args {
    fn options(&self) -> Options {
        let core = core::Options {
            scheduler: self.scheduler_name.clone(),
            node_label: self.node_label.clone(),
            mode: if self.compat { Mode::Compat } else { Mode::Strict },
            strict: self.strict_nodes,
        };
        Options {
            max_in_flight: usize::from(self.max_binds_in_flight),
            events: self.events,
            ..Options::new(core)
        }
    }
}

pub(super) fn run(args: &Args) -> Result<(), Error> {
    let settings = settings::load(&Role::GpuScheduler.profile(), &args.flags, &World::default())
        .map_err(Error::Settings)?;
    server::run(&settings, args.options()).map_err(|error| Error::Role(chain(&error)))
}
