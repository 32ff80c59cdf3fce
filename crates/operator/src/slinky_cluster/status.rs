//! From what was found to the status. Pure.

use api::slinky::{Cluster, ClusterStatus};
use engine::condition;
use jiff::Timestamp;

use super::judge::{READY, Trouble};

/// The status of a Cluster for what was found. `name` is how Slurm calls it, if it answered and that is believed.
pub(super) fn fold(
    cluster: &Cluster,
    found: &Result<(), Trouble>,
    server: &str,
    name: Option<&str>,
    now: Timestamp,
) -> ClusterStatus {
    let before = cluster.status.clone().unwrap_or_default();
    let generation = cluster.metadata.generation;
    let is_new = before.observed_generation != generation;
    // After a restart of ours the first answer takes a moment. That is no news about the cluster.
    if matches!(found, Err(Trouble::Connecting)) && before.is_ready == Some(true) && !is_new {
        return before;
    }
    let (reason, message) = match found {
        Ok(()) => ("Answering", format!("Slurm answers at {server}")),
        Err(trouble) => (trouble.reason(), trouble.message()),
    };
    let mut conditions = before.conditions.unwrap_or_default();
    // Of an object that could not be read before, and can be now.
    conditions.retain(|condition| condition.type_ != engine::malformed::VALID);
    condition::set(&mut conditions, READY, found.is_ok(), reason, &message, generation, now);
    ClusterStatus {
        is_ready: Some(found.is_ok()),
        slurm_cluster_name: name.map(String::from).or(before.slurm_cluster_name),
        observed_generation: generation,
        conditions: Some(conditions),
    }
}

#[cfg(test)]
mod tests {
    use api::slinky::{ClusterSpec, ClusterToken};

    use super::*;

    fn cluster(status: Option<ClusterStatus>) -> Cluster {
        let token = ClusterToken { secret_ref: "s".into() };
        let mut cluster = Cluster::new("c", ClusterSpec { server: "http://x".into(), token });
        cluster.metadata.generation = Some(1);
        cluster.status = status;
        cluster
    }

    fn folded(status: Option<ClusterStatus>, found: &Result<(), Trouble>) -> ClusterStatus {
        fold(&cluster(status), found, "http://x:6820", Some("slurm"), Timestamp::UNIX_EPOCH)
    }

    #[test]
    fn nothing_changes_while_nothing_happens_and_the_name_is_kept() {
        let first = folded(None, &Ok(()));
        assert_eq!((first.is_ready, first.slurm_cluster_name.as_deref()), (Some(true), Some("slurm")));
        assert_eq!(folded(Some(first.clone()), &Ok(())), first);
        let lost = fold(
            &cluster(Some(first)),
            &Err(Trouble::NoSecret("s".into())),
            "x",
            None,
            Timestamp::UNIX_EPOCH,
        );
        assert_eq!((lost.is_ready, lost.slurm_cluster_name.as_deref()), (Some(false), Some("slurm")));
    }

    #[test]
    fn a_restart_of_ours_does_not_make_a_ready_cluster_unready() {
        let ready = folded(None, &Ok(()));
        assert_eq!(folded(Some(ready.clone()), &Err(Trouble::Connecting)), ready);
        let changed = ClusterStatus { observed_generation: Some(0), ..ready };
        assert_eq!(folded(Some(changed), &Err(Trouble::Connecting)).is_ready, Some(false));
        let broken = folded(None, &Err(Trouble::NoSecret("s".into())));
        let mended = folded(Some(broken), &Err(Trouble::Connecting));
        assert_eq!(mended.conditions.unwrap()[0].reason, "Connecting", "the Secret is there now");
    }
}
