//! Why a worker is replaced or leaves, and why not. No I/O.
//!
//! The operator decides; this says the same in words, from the same facts.

use slurm::Occupancy;

use super::Api;
use super::pod::Pod;
use super::set::Set;
use super::whose::{Whose, plain, whose};
use super::word::Word;

/// What a drain of the operator for a pod that is to leave says.
const LEAVES: &str = "pending termination";

/// What becomes of the worker; empty when nothing does. `newest` is the revision that pods are made from now.
pub(super) fn next(set: &Set, pod: &Pod, newest: Option<&str>, word: &Word<'_>) -> String {
    if pod.is_terminating {
        return "its pod stops".into();
    }
    if let Some(cause) = leaves(set, pod, word) {
        return format!("leaves {}: {cause}", when(word));
    }
    update(set, pod, newest, word).unwrap_or_else(|| stays(pod, word))
}

/// Why it is to leave for good.
fn leaves(set: &Set, pod: &Pod, word: &Word<'_>) -> Option<&'static str> {
    if set.is_deleted {
        return Some("the NodeSet is being deleted");
    }
    // Ordinals of slinky.slurm.net say nothing; there the drain tells who leaves.
    let is_surplus = set.api == Api::Nebius
        && pod.ordinal.is_some_and(|ordinal| i64::from(ordinal) >= i64::from(set.replicas));
    let is_marked = is_operators(word, LEAVES);
    (is_surplus || is_marked).then_some("there are fewer replicas")
}

/// Whether the operator drained the node, with these words in its reason.
fn is_operators(word: &Word<'_>, part: &str) -> bool {
    word.node().is_some_and(|node| whose(node) == Some(Whose::Operator) && node.reason.contains(part))
}

/// What an update does with it, if it has an old revision.
fn update(set: &Set, pod: &Pod, newest: Option<&str>, word: &Word<'_>) -> Option<String> {
    let (own, newest) = (pod.revision.as_deref()?, newest?);
    if own == newest {
        return None;
    }
    let update = &set.update;
    let what = if update.on_delete {
        "replaced when somebody deletes its pod, as OnDelete wants".into()
    } else if pod.ordinal.is_some_and(|ordinal| ordinal < update.partition) {
        format!("kept, because only ordinals from {} on (partition) change", update.partition)
    } else if update.is_paused {
        "the update is paused".into()
    } else if is_operators(word, "") {
        format!("replaced {}", when(word))
    } else if update.stands_still() {
        "the update stands still, because maxUnavailable is 0".into()
    } else if matches!(word, Word::Silent) {
        format!("replaced {}", when(word))
    } else {
        format!("replaced in its turn (maxUnavailable is {})", update.max_unavailable)
    };
    Some(format!("has an old revision: {what}"))
}

/// When a worker that is to go can.
fn when(word: &Word<'_>) -> String {
    match word {
        Word::Silent => "when Slurm answers (until then it may have jobs)".into(),
        Word::Absent => "soon (Slurm has no such node)".into(),
        Word::Told { occupancy: Occupancy::Busy(reason), .. } => format!("when it is free ({reason})"),
        Word::Told { occupancy: Occupancy::Idle, .. } => "as soon as it is drained".into(),
        Word::Told { occupancy: Occupancy::Free, .. } => "now (it is drained, and no job is on it)".into(),
    }
}

/// What is to be said of a worker that stays.
fn stays(pod: &Pod, word: &Word<'_>) -> String {
    let drain = word.node().and_then(|node| Some((node, whose(node)?)));
    match drain {
        Some((node, Whose::Operator)) => format!("stays; drained by the operator: {}", plain(&node.reason)),
        Some((_, Whose::Pod)) => "stays; drained when its last pod stopped, takes jobs again soon".into(),
        Some((_, Whose::Person)) => "stays; drained by somebody, until `soperator nodeset undrain`".into(),
        None if !pod.is_ready => format!("its pod is not ready ({})", pod.phase),
        None if matches!(word, Word::Absent) => "has not registered with Slurm yet".into(),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use slurm::{JobId, Node, NodeState, Reason};

    use super::super::set::Update;
    use super::*;

    fn set(api: Api) -> Set {
        let update = Update { max_unavailable: "1".into(), ..Update::default() };
        Set {
            api,
            namespace: "a".into(),
            name: "gpu".into(),
            uid: "u".into(),
            cluster: None,
            replicas: 2,
            update,
            is_deleted: false,
            is_observed: true,
            phase: None,
            hash: None,
            conditions: Vec::new(),
        }
    }

    fn pod(ordinal: u32, revision: &str) -> Pod {
        Pod {
            name: format!("gpu-{ordinal}"),
            ordinal: Some(ordinal),
            phase: "Running".into(),
            is_ready: true,
            revision: Some(revision.into()),
            ..Pod::default()
        }
    }

    fn node(state: &str, reason: &str) -> Node {
        Node {
            name: "gpu-0".into(),
            state: NodeState::from_words(state.split('+')),
            reason: Arc::from(reason),
            ..Node::default()
        }
    }

    fn told(node: &Node, occupancy: Occupancy) -> Word<'_> {
        Word::Told { node, occupancy, jobs: Vec::new() }
    }

    const BUSY: Occupancy = Occupancy::Busy(Reason::Job(JobId(17)));

    #[test]
    fn a_worker_with_nothing_to_tell_says_nothing() {
        let idle = node("IDLE", "");
        assert_eq!(next(&set(Api::Nebius), &pod(0, "new"), Some("new"), &told(&idle, Occupancy::Idle)), "");
    }

    #[test]
    fn the_highest_ordinals_leave_and_say_which_job_they_wait_for() {
        let busy = node("MIXED+DRAIN", "slurm-operator: Pod (a/gpu-2) is pending termination for scale-in");
        assert_eq!(
            next(&set(Api::Nebius), &pod(2, "new"), Some("new"), &told(&busy, BUSY)),
            "leaves when it is free (job 17 is on it): there are fewer replicas"
        );
        assert_eq!(
            next(&set(Api::Nebius), &pod(2, "new"), Some("new"), &Word::Silent),
            "leaves when Slurm answers (until then it may have jobs): there are fewer replicas"
        );
        // slinky.slurm.net chooses by rank: here the one that the operator marked leaves, whatever its ordinal.
        let idle = node("IDLE", "");
        assert_eq!(next(&set(Api::Slinky), &pod(2, "new"), Some("new"), &told(&idle, Occupancy::Idle)), "");
        assert_eq!(
            next(&set(Api::Slinky), &pod(0, "new"), Some("new"), &told(&busy, BUSY)),
            "leaves when it is free (job 17 is on it): there are fewer replicas"
        );
    }

    #[test]
    fn a_persons_words_do_not_pass_for_the_operators() {
        let drained = node("IDLE+DRAIN", "pending termination of my contract");
        assert_eq!(
            next(&set(Api::Slinky), &pod(0, "new"), Some("new"), &told(&drained, Occupancy::Free)),
            "stays; drained by somebody, until `soperator nodeset undrain`"
        );
    }

    #[test]
    fn an_old_revision_says_why_it_is_or_is_not_replaced() {
        let (idle, drained) =
            (node("IDLE", ""), node("MIXED+DRAIN", "slurm-operator: Pod (a/gpu-0) is pending replacement"));
        let say = |change: &dyn Fn(&mut Update), word: &Word<'_>| {
            let mut set = set(Api::Nebius);
            change(&mut set.update);
            next(&set, &pod(0, "old"), Some("new"), word)
        };
        let idle = told(&idle, Occupancy::Idle);
        assert_eq!(say(&|_| {}, &idle), "has an old revision: replaced in its turn (maxUnavailable is 1)");
        assert_eq!(
            say(&|_| {}, &told(&drained, BUSY)),
            "has an old revision: replaced when it is free (job 17 is on it)"
        );
        assert_eq!(
            say(&|update| update.is_paused = true, &idle),
            "has an old revision: the update is paused"
        );
        assert_eq!(
            say(&|update| update.on_delete = true, &idle),
            "has an old revision: replaced when somebody deletes its pod, as OnDelete wants"
        );
        assert_eq!(
            say(&|update| update.partition = 1, &idle),
            "has an old revision: kept, because only ordinals from 1 on (partition) change"
        );
        assert_eq!(
            say(&|update| update.max_unavailable = "0%".into(), &idle),
            "has an old revision: the update stands still, because maxUnavailable is 0"
        );
        assert!(say(&|_| {}, &Word::Silent).contains("when Slurm answers"));
    }

    #[test]
    fn a_worker_that_stays_says_what_is_wrong_with_it() {
        let set = set(Api::Nebius);
        let mut sick = pod(0, "new");
        sick.is_ready = false;
        assert_eq!(next(&set, &sick, Some("new"), &Word::Absent), "its pod is not ready (Running)");
        assert_eq!(
            next(&set, &pod(0, "new"), Some("new"), &Word::Absent),
            "has not registered with Slurm yet"
        );
        let cordoned = node("IDLE+DRAIN", "slurm-operator: Node (m) was cordoned");
        assert_eq!(
            next(&set, &pod(0, "new"), Some("new"), &told(&cordoned, Occupancy::Free)),
            "stays; drained by the operator: Node (m) was cordoned"
        );
        let mut ends = pod(0, "new");
        ends.is_terminating = true;
        assert_eq!(next(&set, &ends, Some("new"), &Word::Silent), "its pod stops");
    }
}
