//! The end of a set: law, rule 5.

use crate::facts::{Agent, Deletion, Facts, Slurm};
use crate::plan::Proof;
use crate::time::UnixTime;
use crate::view::{Hold, Worker};

/// Whether a pod of a set that is being deleted may go.
pub(crate) fn may_go(facts: &Facts<'_>, deletion: Deletion, worker: &Worker<'_>) -> Result<Proof, Hold> {
    let drain = &facts.set.drain_on_delete;
    if !drain.enabled {
        return Ok(Proof::DrainOff);
    }
    let mut hold = match worker.may_go(facts) {
        Ok(proof) => return Ok(proof),
        Err(_) if planted!(DeletionKills) => return Ok(Proof::Drained),
        Err(hold) => hold,
    };
    if matches!(facts.slurm, Slurm::NoCluster) {
        hold = match (worker.pod.agent, over(facts, deletion, drain.without_slurm)) {
            (Agent::Steps(0), _) => return Ok(Proof::NoSteps),
            (Agent::Steps(steps), _) => {
                Hold::because(format!("{steps} job steps live in it, and its cluster is gone"))
            }
            (Agent::Unasked | Agent::Silent, Over::Yes) => return Ok(Proof::NobodyToAsk),
            (Agent::Unasked | Agent::Silent, over) => Hold {
                why: "its cluster is gone, and nobody else can tell whether jobs are on it".into(),
                ends: over.time(facts),
            },
        };
    }
    match over(facts, deletion, drain.deadline) {
        Over::Yes if drain.force || planted!(DeadlineAlwaysKills) => Ok(Proof::Deadline),
        Over::Yes => {
            hold.why += "; the deadline is over, and the user wants to wait on";
            Err(hold)
        }
        over => {
            hold.ends = hold.ends.into_iter().chain(over.time(facts)).min();
            Err(hold)
        }
    }
}

enum Over {
    Yes,
    At(UnixTime),
    Never,
}

impl Over {
    fn time(&self, facts: &Facts<'_>) -> Option<std::time::Duration> {
        match self {
            Self::At(time) => facts.now.wait_until(*time),
            Self::Yes | Self::Never => None,
        }
    }
}

fn over(facts: &Facts<'_>, deletion: Deletion, limit: Option<std::time::Duration>) -> Over {
    let Some(limit) = limit else { return Over::Never };
    let end = deletion.asked.plus(limit);
    if facts.now >= end { Over::Yes } else { Over::At(end) }
}
