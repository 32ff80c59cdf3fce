//! The look just before a pod is deleted or changed: law, rule 2. Unknown is busy. The look just before many Slurm nodes are changed.

use std::sync::Arc;
use std::time::Duration;

use engine::view::MetaView;
use k8s_openapi::api::core::v1::Node;
use nodeset::{Action, Agent, Identity, LastLook, Proof};
use slurm_client::{Lookup, Snapshot};

use super::execute::Execution;
use super::{WorkerSet, agents, facts};

/// Slurm has so long for its answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// The answer was asked for after the plan, so it is younger than this; the calls that follow take time, too.
const YOUNG: Duration = Duration::from_secs(30);

/// So many nodes are read by one list instead of one by one.
const MANY: usize = 8;

/// What Slurm said just now; one look serves a whole batch.
pub(super) enum Looked {
    /// Nobody needs to look.
    NotNeeded,
    /// This.
    Fresh(Arc<Snapshot>, Identity),
    /// Nothing, and why.
    Nothing(String),
}

impl<S: WorkerSet> Execution<'_, S> {
    /// Reads all nodes and then all jobs anew, if one of these actions needs it, or so many that each by itself would cost more.
    pub(super) async fn look(&self, group: &[Action]) -> Looked {
        let needs = |action: &Action| match action {
            Action::DeletePod { proof, .. } | Action::PatchImages { proof, .. } => {
                matches!(proof.last_look(), LastLook::Free | LastLook::Absent)
            }
            Action::Drain { .. } | Action::Undrain { .. } | Action::SetComment { .. } => group.len() >= MANY,
            _ => false,
        };
        if !group.iter().any(needs) {
            return Looked::NotNeeded;
        }
        let Some(link) = self.seen.slurm.link() else {
            return Looked::Nothing("Slurm does not answer".into());
        };
        match link.refresh(PATIENCE).await {
            Ok(snapshot) => {
                let identity = link.identity_of(&snapshot);
                Looked::Fresh(snapshot, identity)
            }
            Err(error) => Looked::Nothing(error.to_string()),
        }
    }

    /// Whether the pod may go now. The error says why not.
    pub(super) async fn permits(
        &self,
        proof: Proof,
        pod: &str,
        node: &str,
        looked: &Looked,
    ) -> Result<(), String> {
        match proof.last_look() {
            LastLook::Nothing => Ok(()),
            LastLook::Free => drained(node, looked),
            LastLook::Absent => {
                self.absent(node, looked)?;
                let link = self.seen.slurm.link().ok_or("Slurm does not answer")?;
                match link.client().node(node).await {
                    Ok(Lookup::Absent) => Ok(()),
                    Ok(Lookup::Found(_)) => Err("its node has registered".into()),
                    Err(error) => Err(error.to_string()),
                }
            }
            LastLook::Agent => {
                let seen = self.seen.pod(pod).ok_or("it is gone")?;
                match agents::ask(&seen.view).await {
                    Agent::Steps(0) => Ok(()),
                    Agent::Steps(steps) => Err(format!("{steps} job steps live in it")),
                    Agent::Silent | Agent::Unasked => Err("its agent does not answer".into()),
                }
            }
            LastLook::NodeGone => {
                let seen = self.seen.pod(pod).ok_or("it is gone")?;
                let name = seen.view.spec.node_name.as_deref().ok_or("it has no Kubernetes node")?;
                let found = engine::objects::get_global::<MetaView<Node>>(&self.context.client, name).await;
                match found {
                    Ok(None) => Ok(()),
                    Ok(Some(_)) => Err("its Kubernetes node is there".into()),
                    Err(error) => Err(error.to_string()),
                }
            }
        }
    }

    /// Whether the list of our own cluster lacks the node, and no job names it.
    fn absent(&self, node: &str, looked: &Looked) -> Result<(), String> {
        let (snapshot, identity) = believed(looked)?;
        if snapshot.node(node).is_some() {
            return Err("its node has registered".into());
        }
        let others = || self.seen.pods.iter().map(|pod| facts::slurm_node(&pod.view));
        if identity != Identity::Proven && !others().any(|other| snapshot.node(other).is_some()) {
            return Err("nobody can tell whether Slurm's list is the one of this cluster".into());
        }
        free(node, snapshot)
    }
}

fn drained(node: &str, looked: &Looked) -> Result<(), String> {
    let (snapshot, _) = believed(looked)?;
    if snapshot.node(node).is_none() {
        return Err("its node is not in Slurm's list any more".into());
    }
    free(node, snapshot)
}

fn believed(looked: &Looked) -> Result<(&Snapshot, Identity), String> {
    match looked {
        Looked::NotNeeded => Err("Slurm was not asked".into()),
        Looked::Nothing(why) => Err(why.clone()),
        Looked::Fresh(_, Identity::Foreign) => Err("another cluster answers".into()),
        Looked::Fresh(snapshot, _) if snapshot.nodes().is_empty() => Err("Slurm's list is empty".into()),
        Looked::Fresh(snapshot, identity) => Ok((&**snapshot, *identity)),
    }
}

fn free(node: &str, snapshot: &Snapshot) -> Result<(), String> {
    match snapshot.occupancy(node, YOUNG) {
        slurm::Occupancy::Free => Ok(()),
        slurm::Occupancy::Idle => Err("it is not drained any more".into()),
        slurm::Occupancy::Busy(reason) => Err(reason.to_string()),
    }
}
