//! The look just before a pod is deleted or changed: law, rule 2. Unknown is busy. The look just before many Slurm nodes are changed.

use std::sync::Arc;
use std::time::{Duration, Instant};

use engine::view::MetaView;
use k8s_openapi::api::core::v1::Node;
use nodeset::{Action, Agent, Identity, LastLook, Proof};
use slurm_client::{Lookup, Snapshot};
use tokio::sync::Mutex;

use super::execute::Execution;
use super::{WorkerSet, agents, facts};

/// Slurm has so long for its answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// A look serves what is decided so soon after it; then Slurm is asked again.
const SERVES: Duration = Duration::from_secs(1);
/// What a look permits begins so soon after it, or not at all.
const BEGINS: Duration = Duration::from_secs(2);
/// The answer was asked for after the plan, and serves only for a moment.
const YOUNG: Duration = PATIENCE.saturating_add(BEGINS);

/// So many nodes are read by one list instead of one by one.
const MANY: usize = 8;

/// Looks at Slurm for actions of one kind. All that are decided in the same moment share one.
pub(super) struct Looks<'a> {
    group: &'a [Action],
    last: Mutex<Option<(Arc<Looked>, Instant)>>,
}

impl<'a> Looks<'a> {
    pub(super) fn new(group: &'a [Action]) -> Self {
        Self { group, last: Mutex::default() }
    }
}

/// What Slurm said just now.
pub(super) enum Looked {
    /// Nobody needs to look.
    NotNeeded,
    /// This.
    Fresh(Arc<Snapshot>, Identity),
    /// Nothing, and why.
    Nothing(String),
}

impl<S: WorkerSet> Execution<'_, S> {
    /// A look that serves now, and when it was made.
    pub(super) async fn fresh(&self, looks: &Looks<'_>) -> (Arc<Looked>, Instant) {
        let mut last = looks.last.lock().await;
        if let Some((looked, time)) = &*last
            && time.elapsed() < SERVES
        {
            return (Arc::clone(looked), *time);
        }
        let looked = Arc::new(self.look(looks.group).await);
        let time = Instant::now();
        *last = Some((Arc::clone(&looked), time));
        (looked, time)
    }

    /// Reads all nodes and then all jobs anew, if one of these actions needs it, or so many that each by itself would cost more.
    async fn look(&self, group: &[Action]) -> Looked {
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

    /// Whether the pod may go now, and by when that must begin. The error says why not.
    pub(super) async fn permits(
        &self,
        proof: Proof,
        pod: &str,
        node: &str,
        looks: &Looks<'_>,
    ) -> Result<Instant, String> {
        let mut looked_at = None;
        match proof.last_look() {
            LastLook::Nothing => {}
            LastLook::Free => {
                let (looked, time) = self.fresh(looks).await;
                drained(node, &looked)?;
                looked_at = Some(time);
            }
            LastLook::Absent => {
                self.absent(node, &self.fresh(looks).await.0)?;
                let link = self.seen.slurm.link().ok_or("Slurm does not answer")?;
                match link.client().node(node).await {
                    Ok(Lookup::Absent) => {}
                    Ok(Lookup::Found(_)) => return Err("its node has registered".into()),
                    Err(error) => return Err(error.to_string()),
                }
            }
            LastLook::Agent => {
                let seen = self.seen.pod(pod).ok_or("it is gone")?;
                match agents::ask(&seen.view).await {
                    Agent::Steps(0) => {}
                    Agent::Steps(steps) => return Err(format!("{steps} job steps live in it")),
                    Agent::Silent | Agent::Unasked => return Err("its agent does not answer".into()),
                }
            }
            LastLook::NodeGone => {
                let seen = self.seen.pod(pod).ok_or("it is gone")?;
                let name = seen.view.spec.node_name.as_deref().ok_or("it has no Kubernetes node")?;
                let found = engine::objects::get_global::<MetaView<Node>>(&self.context.client, name).await;
                match found {
                    Ok(None) => {}
                    Ok(Some(_)) => return Err("its Kubernetes node is there".into()),
                    Err(error) => return Err(error.to_string()),
                }
            }
        }
        Ok(looked_at.unwrap_or_else(Instant::now) + BEGINS)
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
