//! The flags of the role's own, by the names of the original.

use std::path::PathBuf;
use std::time::Duration;

use engine::settings::Time;

/// The flags of the role's own.
#[derive(Clone, Debug, clap::Args)]
pub struct Flags {
    /// Namespace of the SlurmCluster
    #[arg(long, value_name = "NAME", default_value = "default")]
    pub cluster_namespace: String,
    /// Name of the SlurmCluster
    #[arg(long, value_name = "NAME", default_value = "soperator")]
    pub cluster_name: String,
    /// Where the jail is mounted
    #[arg(long, value_name = "DIRECTORY", default_value = "/mnt/jail")]
    pub jail_path: PathBuf,
    /// Accepted for the sake of the original; has no effect: slurmctld's own agent calls reconfigure
    #[arg(long, value_name = "URL")]
    pub slurmapiserver: Option<String>,
    /// Accepted for the sake of the original; has no effect: nothing is polled
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub reconfigure_poll_interval: Option<Duration>,
    /// How long files below /etc/slurm wait for slurmctld to run with them before the jail gets them nevertheless
    #[arg(long, value_name = "DURATION", default_value = "1m", value_parser = duration)]
    pub reconfigure_wait_timeout: Duration,
}

fn duration(text: &str) -> Result<Duration, String> {
    Time::parse(text).map(|time| time.0)
}

impl Flags {
    /// What works otherwise than the user may think; to be logged once.
    #[must_use]
    pub fn warnings(&self) -> Vec<&'static str> {
        let given = [
            (
                self.slurmapiserver.is_some(),
                "--slurmapiserver has no effect: slurmctld's own agent calls reconfigure",
            ),
            (
                self.reconfigure_poll_interval.is_some(),
                "--reconfigure-poll-interval has no effect: nothing is polled, the status of the SlurmCluster is watched",
            ),
        ];
        given.into_iter().filter_map(|(is_given, warning)| is_given.then_some(warning)).collect()
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    #[derive(Debug, clap::Parser)]
    struct Role {
        #[command(flatten)]
        common: engine::settings::Flags,
        #[command(flatten)]
        own: Flags,
    }

    #[test]
    fn flags_of_the_original_are_taken_and_those_without_meaning_are_told() {
        let role = Role::try_parse_from([
            "sconfigcontroller",
            "--cluster-namespace=slurm",
            "--cluster-name=c",
            "--jail-path=/jail",
            "--slurmapiserver=http://c-rest-svc:6820",
            "--reconfigure-poll-interval=20s",
            "--reconfigure-wait-timeout=90s",
            "--max-concurrent-reconciles=2",
            "--cache-sync-timeout=1m",
            "--leader-elect",
            "--log-level=debug",
        ])
        .unwrap();
        assert_eq!((role.own.cluster_name.as_str(), role.own.jail_path), ("c", "/jail".into()));
        let role = Role::try_parse_from(["sconfigcontroller", "--slurmapiserver=http://x"]).unwrap();
        assert_eq!(role.own.warnings().len(), 1);
        assert_eq!(role.own.reconfigure_wait_timeout, Duration::from_secs(60));
        assert_eq!(
            (role.own.cluster_namespace.as_str(), role.own.cluster_name.as_str()),
            ("default", "soperator")
        );
        assert!(Role::try_parse_from(["sconfigcontroller", "--reconfigure-wait-timeout=soon"]).is_err());
    }
}
