//! The roles of the control plane, and the two names that each of them has.

use std::ffi::OsStr;
use std::path::Path;

use engine::logging::Level;
use engine::settings::Profile;

/// The controllers of the operator, as `--controllers` names them.
const OPERATOR_CONTROLLERS: &[&str] =
    &["nodeconfigurator", "nodeset", "slinky-cluster", "slinky-nodeset", "slurmcluster", "topology"];

/// A long-running part of the control plane that this program can be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// Reconciles clusters and node sets, and serves their admission webhooks.
    Operator,
    /// Runs active checks and watches the health of nodes.
    SoperatorChecks,
    /// Writes configuration files into the jail.
    SconfigController,
    /// Drains and reboots the Kubernetes node that it runs on.
    Rebooter,
    /// Serves Slurm metrics for Prometheus.
    Exporter,
    /// Pins pods to devices; it has programs of its own below it.
    GpuScheduler,
}

impl Role {
    /// Every role, in the order in which help lists them.
    pub(crate) const ALL: [Self; 6] = [
        Self::Operator,
        Self::SoperatorChecks,
        Self::SconfigController,
        Self::Rebooter,
        Self::Exporter,
        Self::GpuScheduler,
    ];

    /// The name of the role as a subcommand: `soperator NAME`.
    pub(crate) const fn subcommand(self) -> &'static str {
        match self {
            Self::Operator => "operator",
            Self::SoperatorChecks => "soperatorchecks",
            Self::SconfigController => "sconfigcontroller",
            Self::Rebooter => "rebooter",
            Self::Exporter => "exporter",
            Self::GpuScheduler => "gpu-scheduler",
        }
    }

    /// The name of the program that picks the role when this binary is called by it.
    ///
    /// Manifests written for the original name these programs, so they must not change.
    pub(crate) const fn program(self) -> &'static str {
        match self {
            Self::Operator => "slurm_operator",
            Self::SoperatorChecks
            | Self::SconfigController
            | Self::Rebooter
            | Self::Exporter
            | Self::GpuScheduler => self.subcommand(),
        }
    }

    /// What is special about its settings. The leases differ, so that roles can share a namespace.
    pub(crate) const fn profile(self) -> Profile {
        let name = self.subcommand();
        match self {
            Self::Operator => Profile::new(name, "slurm-operator").with_controllers(OPERATOR_CONTROLLERS),
            // The names of its webhook, its Secret and its lease all follow from this one, as the chart has them.
            Self::GpuScheduler => Profile::new(name, name),
            _ => Profile::new(name, name).without_leader_election().with_log_level(Level::Debug),
        }
    }

    /// The role that `argv0` picks. Only its file name counts, so a full path does as well.
    pub(crate) fn from_argv0(argv0: &OsStr) -> Option<Self> {
        let name = Path::new(argv0).file_name()?;
        Self::ALL.into_iter().find(|role| name == role.program())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn role(argv0: &str) -> Option<Role> {
        Role::from_argv0(OsStr::new(argv0))
    }

    #[test]
    fn each_program_name_picks_its_role() {
        assert_eq!(role("slurm_operator"), Some(Role::Operator));
        assert_eq!(role("soperatorchecks"), Some(Role::SoperatorChecks));
        assert_eq!(role("sconfigcontroller"), Some(Role::SconfigController));
        assert_eq!(role("rebooter"), Some(Role::Rebooter));
        assert_eq!(role("exporter"), Some(Role::Exporter));
        assert_eq!(role("gpu-scheduler"), Some(Role::GpuScheduler));
    }

    #[test]
    fn only_the_file_name_of_argv0_counts() {
        assert_eq!(role("/usr/bin/slurm_operator"), Some(Role::Operator));
        assert_eq!(role("./exporter"), Some(Role::Exporter));
        assert_eq!(role("/exporter/soperator"), None);
    }

    #[test]
    fn other_names_pick_no_role() {
        for name in ["", "/", "soperator", "operator", "slurm-operator", "Rebooter", "exporter2"] {
            assert_eq!(role(name), None, "{name:?}");
        }
    }
}
