//! The pods of the set, each with what Slurm says of it.

use std::collections::BTreeMap;
use std::time::Duration;

use slurm::{Node, Occupancy};

use crate::comment;
use crate::drain;
use crate::facts::{Api, Cordon, Facts, Owner, Phase, Pod, Selector};
use crate::plan::{PodRef, Proof};
use crate::time::UnixTime;
use crate::trust::{Lists, Until};

/// Times of the kubelet and of slurmd may differ by so many seconds.
const CLOCKS_DIFFER: u64 = 2;

/// What can be alive in a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Life {
    /// Nothing ever was.
    NeverStarted,
    /// slurmd, and what it started.
    Running,
    /// Nothing any more.
    Ended,
    /// Its machine is gone.
    NodeGone,
}

/// A pod of the set.
#[derive(Debug)]
pub(crate) struct Worker<'f> {
    pub(crate) pod: &'f Pod<'f>,
    pub(crate) ordinal: u32,
    pub(crate) life: Life,
    /// Its Slurm node, from a list that is young enough to act on.
    pub(crate) node: Option<&'f Node>,
    pub(crate) occupancy: Occupancy,
    pub(crate) until: Until,
}

/// All that concerns the set.
#[derive(Debug)]
pub(crate) struct View<'f> {
    pub(crate) facts: &'f Facts<'f>,
    pub(crate) lists: Lists<'f>,
    /// The pods of the set by ordinal, also those that terminate.
    pub(crate) workers: Vec<Worker<'f>>,
    /// Pods that have names of ours and are not ours, or not yet.
    pub(crate) strangers: BTreeMap<u32, &'f Pod<'f>>,
    /// Pods that nobody owns, and that match.
    pub(crate) orphans: Vec<&'f Pod<'f>>,
    /// Pods that we own, and that do not match.
    pub(crate) misfits: Vec<&'f Pod<'f>>,
}

impl<'f> View<'f> {
    pub(crate) fn new(facts: &'f Facts<'f>) -> Self {
        let lists = Lists::new(facts);
        let (mut workers, mut strangers) = (Vec::new(), BTreeMap::new());
        let (mut orphans, mut misfits) = (Vec::new(), Vec::new());
        // The labels of `slurm.nebius.ai` are ours to restore; those of `slinky.slurm.net` are the user's to change. By a wrong
        // selector no pod is let go: what the set owns stays its own until the set ends.
        let all = facts.set.api == Api::Nebius || facts.set.selector != Selector::Usable;
        for pod in &facts.pods {
            let ordinal = facts.set.ordinal_of(pod.name);
            match (pod.owner, ordinal) {
                (Owner::Set, Some(ordinal)) if pod.selected || all => {
                    workers.push(Worker::new(&lists, pod, ordinal));
                }
                (Owner::Set, _) => {
                    misfits.push(pod);
                    strangers.extend(ordinal.map(|ordinal| (ordinal, pod)));
                }
                (_, Some(ordinal)) => {
                    strangers.insert(ordinal, pod);
                    if pod.owner == Owner::Nobody && pod.selected && !pod.terminating {
                        orphans.push(pod);
                    }
                }
                (_, None) => {}
            }
        }
        workers.sort_by_key(|worker| worker.ordinal);
        orphans.sort_by_key(|pod| pod.name);
        misfits.sort_by_key(|pod| pod.name);
        Self { facts, lists, workers, strangers, orphans, misfits }
    }
}

/// Why a pod must stay for now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Hold {
    pub(crate) why: String,
    /// The hold ends by itself after this time.
    pub(crate) ends: Option<Duration>,
}

impl Hold {
    pub(crate) const fn because(why: String) -> Self {
        Self { why, ends: None }
    }
}

impl<'f> Worker<'f> {
    fn new(lists: &Lists<'f>, pod: &'f Pod<'f>, ordinal: u32) -> Self {
        let life = match pod.phase {
            Phase::Succeeded | Phase::Failed => Life::Ended,
            _ if pod.kube_node.as_ref().is_some_and(|node| node.gone) => Life::NodeGone,
            Phase::Pending if pod.started.is_none() => Life::NeverStarted,
            Phase::Pending | Phase::Running | Phase::Unknown => Life::Running,
        };
        let occupancy = lists.occupancy(pod.slurm_node);
        let until = lists.until(pod.slurm_node, &occupancy);
        let node = lists.node(pod.slurm_node).filter(|_| lists.is_fresh());
        Self { pod, ordinal, life, node, occupancy, until }
    }

    /// Whether the pod may be taken away, by the law.
    pub(crate) fn may_go(&self, facts: &Facts<'_>) -> Result<Proof, Hold> {
        if self.pod.forced || facts.set.forced {
            return Ok(Proof::Forced);
        }
        match self.life {
            Life::NeverStarted => return Ok(Proof::NeverStarted),
            Life::Ended => return Ok(Proof::Ended),
            Life::NodeGone => return Ok(Proof::NodeGone),
            Life::Running => {}
        }
        match (&self.occupancy, self.node) {
            (Occupancy::Busy(reason), _) => Err(Hold::because(reason.to_string())),
            (Occupancy::Idle, _) => Err(Hold::because("it is not drained yet".into())),
            // The stop script of a pod may write over the reason; somebody else's must not get lost by that.
            (Occupancy::Free, Some(_)) if !comment::is_kept(&facts.set, self) => {
                Err(Hold::because("who drained its node is being written down".into()))
            }
            (Occupancy::Free, Some(_)) => Ok(Proof::Drained),
            (Occupancy::Free, None) => {
                let grace = facts.set.registration_grace;
                match facts.now.wait_until(self.started().plus(grace)) {
                    None => Ok(Proof::Absent),
                    ends => {
                        Err(Hold { why: "it has started and may still register with Slurm".into(), ends })
                    }
                }
            }
        }
    }

    /// Whether it is one of the pods that count: a pod that terminates or has ended is not.
    pub(crate) fn is_live(&self) -> bool {
        !self.pod.terminating && self.life != Life::Ended
    }

    /// Whether Kubernetes calls it healthy.
    pub(crate) fn is_healthy(&self) -> bool {
        self.is_live() && self.pod.phase == Phase::Running && self.pod.ready.is_some()
    }

    /// Whether it has been ready for long enough.
    pub(crate) fn is_available(&self, facts: &Facts<'_>) -> bool {
        self.is_healthy() && self.available_in(facts).is_none()
    }

    /// How long it takes until a ready pod counts as available.
    pub(crate) fn available_in(&self, facts: &Facts<'_>) -> Option<Duration> {
        facts.now.wait_until(self.pod.ready?.plus(facts.set.min_ready))
    }

    /// When its slurmd may have started at the earliest, as far as is known.
    pub(crate) fn started(&self) -> UnixTime {
        self.pod.started.unwrap_or_default().max(self.pod.created)
    }

    /// Whether the slurmd that runs in it now has registered: the record may still be about the pod before it.
    pub(crate) fn is_registered(&self) -> bool {
        let started = self.started().0;
        // Not every Slurm tells when slurmd started.
        let since =
            |node: &Node| node.slurmd_start_time == 0 || node.slurmd_start_time + CLOCKS_DIFFER >= started;
        self.node.is_some_and(since)
    }

    /// Whether its node is drained by us.
    pub(crate) fn drained_by_us(&self) -> bool {
        self.node.is_some_and(|node| node.state.is_drain() && drain::is_ours(node))
    }

    /// Whether it is marked as cordoned.
    pub(crate) fn is_cordoned(&self) -> bool {
        self.pod.cordon != Cordon::None
    }

    /// Its Kubernetes node is cordoned.
    pub(crate) fn on_cordoned_node(&self) -> bool {
        self.pod.kube_node.as_ref().is_some_and(|node| node.cordoned)
    }

    pub(crate) fn reference(&self) -> PodRef {
        reference(self.pod)
    }
}

pub(crate) fn reference(pod: &Pod<'_>) -> PodRef {
    PodRef { name: pod.name.into(), uid: pod.uid.into(), resource_version: pod.resource_version.into() }
}
