//! Facts from caches, from the link to Slurm, and from agents where nobody else is left to ask.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use engine::Key;
use engine::view::{ClaimView, PodView, RevisionView};
use jiff::Timestamp;
use kube::{Resource as _, ResourceExt as _};
use nodeset::{
    Agent, Answer, Claim, ClaimRef, Content, Facts, Identity, Jobs, Owner, RefTarget, Revision, Set, Slurm,
    UnixTime,
};
use slurm::Moment;
use slurm_client::Snapshot;

use super::facts::{self, SeenPod, unix};
use super::memory::Memory;
use super::{Connection, WorkerSet, agents};
use crate::caches::Caches;
use crate::slurm_links::Link;
use crate::worker_pods::is_forced;

/// How the link to Slurm is, besides what it told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LinkState {
    /// There is none, or it answers.
    Settled,
    /// Its first answer has not come yet.
    First,
    /// The last look failed.
    Failing,
}

impl LinkState {
    fn of(connection: &Connection) -> Self {
        let Connection::Link(link) = connection else { return Self::Settled };
        let health = link.health();
        if health.error.is_some() {
            Self::Failing
        } else if link.snapshot().is_none() {
            Self::First
        } else {
            Self::Settled
        }
    }
}

/// Everything that was seen of one set at one moment. [`Seen::facts`] borrows from it.
pub(super) struct Seen {
    pub(super) now: Timestamp,
    pub(super) pods: Vec<SeenPod>,
    pub(super) claims: Vec<Arc<ClaimView>>,
    pub(super) revisions: Vec<(Arc<RevisionView>, Arc<Content>)>,
    pub(super) slurm: SeenSlurm,
    pub(super) link: LinkState,
    namespace_ends: bool,
    namespace_forced: bool,
    kept: Option<String>,
}

/// What Slurm said.
pub(super) enum SeenSlurm {
    NoCluster,
    Silent(String),
    Answer { link: Arc<Link>, snapshot: Arc<Snapshot>, identity: Identity, not_before: Moment },
}

impl SeenSlurm {
    /// The last answer of the link, if there is one that is of use.
    fn of(connection: &Connection) -> Self {
        let link = match connection {
            Connection::NoCluster => return Self::NoCluster,
            Connection::Silent(why) => return Self::Silent(why.clone()),
            Connection::Link(link) => link,
        };
        let health = link.health();
        match (link.snapshot(), health.error) {
            (Some(snapshot), None) => Self::answer(link, snapshot),
            // One failure may pass; the answer before it is still young.
            (Some(snapshot), Some(_)) if health.failures < 2 && snapshot.asked() >= link.not_before() => {
                Self::answer(link, snapshot)
            }
            (_, Some(error)) => Self::Silent(error.to_string()),
            (None, None) => Self::Silent("Slurm is being asked for the first time".into()),
        }
    }

    fn answer(link: &Arc<Link>, snapshot: Arc<Snapshot>) -> Self {
        let (identity, not_before) = (link.identity_of(&snapshot), link.not_before());
        Self::Answer { link: Arc::clone(link), snapshot, identity, not_before }
    }

    /// The link, if it answers.
    pub(super) fn link(&self) -> Option<&Arc<Link>> {
        match self {
            Self::Answer { link, .. } => Some(link),
            Self::NoCluster | Self::Silent(_) => None,
        }
    }

    /// The snapshot that was planned with.
    pub(super) fn snapshot(&self) -> Option<&Arc<Snapshot>> {
        match self {
            Self::Answer { snapshot, .. } => Some(snapshot),
            Self::NoCluster | Self::Silent(_) => None,
        }
    }
}

impl Seen {
    /// Looks at everything.
    pub(super) async fn gather<S: WorkerSet>(caches: &Caches, set: &S, memory: &Memory) -> Self {
        let wanted = set.set();
        let mut pods = pods(caches, set, &wanted, memory);
        let slurm = SeenSlurm::of(set.connection());
        let ends = wanted.deletion.is_some();
        let claims = claims(caches, &wanted, &pods, slurm.snapshot());
        let namespace = caches.namespaces.get(&Key::cluster_scoped(wanted.namespace));
        if ends && matches!(slurm, SeenSlurm::NoCluster) {
            ask_agents(set, &mut pods).await;
        }
        Self {
            now: Timestamp::now(),
            pods,
            claims,
            revisions: revisions(set, memory),
            slurm,
            link: LinkState::of(set.connection()),
            namespace_ends: namespace
                .as_ref()
                .is_some_and(|namespace| namespace.meta().deletion_timestamp.is_some()),
            namespace_forced: namespace.is_some_and(|namespace| is_forced(&*namespace)),
            kept: memory.kept(),
        }
    }

    /// What the planner is told, with these conditions of Kubernetes nodes.
    pub(super) fn facts<'a, S: WorkerSet>(
        &'a self,
        set: &'a S,
        memory: &Memory,
        conditions: &[String],
    ) -> Facts<'a> {
        let mut wanted = set.set();
        wanted.namespace_ends |= self.namespace_ends;
        wanted.forced |= self.namespace_forced;
        wanted.kept = self.kept.as_deref();
        wanted.collisions = wanted.collisions.max(memory.collisions());
        let (keys, main, uid) = (set.keys(), set.main_container(), wanted.uid);
        Facts {
            now: self.now(),
            pods: self.pods.iter().map(|pod| pod.fact(uid, keys, main, conditions)).collect(),
            claims: self.claims.iter().map(|claim| claim_fact(claim, set)).collect(),
            revisions: self
                .revisions
                .iter()
                .map(|(view, content)| revision_fact(view, content, uid, keys.hash))
                .collect(),
            slurm: self.slurm_fact(),
            set: wanted,
        }
    }

    pub(super) fn now(&self) -> UnixTime {
        facts::of_timestamp(self.now)
    }

    /// The pod with this name.
    pub(super) fn pod(&self, name: &str) -> Option<&SeenPod> {
        self.pods.iter().find(|pod| facts::name(&*pod.view) == name)
    }

    /// The pods that belong to the set.
    pub(super) fn own_pods(&self, uid: &str) -> Vec<Arc<PodView>> {
        let own = self.pods.iter().filter(|pod| facts::owner(&*pod.view, uid) == Owner::Set);
        own.map(|pod| Arc::clone(&pod.view)).collect()
    }

    fn slurm_fact(&self) -> Slurm<'_> {
        match &self.slurm {
            SeenSlurm::NoCluster => Slurm::NoCluster,
            SeenSlurm::Silent(why) => Slurm::Silent(why),
            SeenSlurm::Answer { snapshot, identity, not_before, .. } => Slurm::Answer(Answer {
                identity: *identity,
                nodes: snapshot.nodes(),
                nodes_read: snapshot.nodes_read(),
                jobs: Some(Jobs {
                    holders: snapshot.holders(),
                    list: snapshot.jobs(),
                    read: snapshot.jobs_read(),
                }),
                not_before: *not_before,
            }),
        }
    }
}

/// Pods that the set owns, and those that have names which it may want.
fn pods<S: WorkerSet>(caches: &Caches, set: &S, wanted: &Set<'_>, memory: &Memory) -> Vec<SeenPod> {
    let cache = set.pods();
    let mut views: BTreeMap<String, Arc<PodView>> =
        cache.owned_by(wanted.uid).into_iter().map(|pod| (pod.name_any(), pod)).collect();
    let strays = set.strays().into_iter().chain(memory.unseen());
    let strays: HashMap<String, Arc<PodView>> = strays.map(|pod| (pod.name_any(), pod)).collect();
    // Pods that take names away make the set want others, so for each of them one more name is looked at.
    let count = |pods: usize| u32::try_from(pods).unwrap_or(u32::MAX);
    let (mut ordinal, mut end) = (0, wanted.replicas.saturating_add(count(views.len() + strays.len())));
    while ordinal < end {
        let name = wanted.pod_name(ordinal);
        if !views.contains_key(&name)
            && let Some(pod) = cache.get(&Key::new(wanted.namespace, &name))
        {
            views.insert(name, pod);
            end = end.saturating_add(1);
        }
        ordinal += 1;
    }
    for (name, pod) in strays {
        if cache.get(&Key::new(wanted.namespace, &name)).is_none() {
            views.entry(name).or_insert(pod);
        }
    }
    views.into_values().map(|view| seen(caches, set, wanted, view)).collect()
}

fn seen<S: WorkerSet>(caches: &Caches, set: &S, wanted: &Set<'_>, view: Arc<PodView>) -> SeenPod {
    let node = view.spec.node_name.as_deref().and_then(|name| caches.nodes.get(&Key::cluster_scoped(name)));
    let name = facts::name(&*view);
    let identity_kept = wanted.ordinal_of(name).is_none_or(|ordinal| {
        let labels = view.metadata.labels.as_ref();
        set.identity(name, ordinal)
            .iter()
            .all(|(key, value)| labels.and_then(|labels| labels.get(key)) == Some(value))
    });
    let selected = set.selects(&view);
    SeenPod { view, node, agent: Agent::Unasked, selected, identity_kept }
}

async fn ask_agents<S: WorkerSet>(set: &S, pods: &mut [SeenPod]) {
    let asked: Vec<usize> =
        (0..pods.len()).filter(|at| pods.get(*at).is_some_and(|pod| set.has_agent(&pod.view))).collect();
    let views = asked.iter().filter_map(|at| pods.get(*at)).map(|pod| Arc::clone(&pod.view)).collect();
    let answers = agents::ask_all(views).await;
    for (at, answer) in asked.into_iter().zip(answers) {
        if let Some(pod) = pods.get_mut(at) {
            pod.agent = answer;
        }
    }
}

/// The claims of all pods that are there or may be made.
fn claims(
    caches: &Caches,
    wanted: &Set<'_>,
    pods: &[SeenPod],
    slurm: Option<&Arc<Snapshot>>,
) -> Vec<Arc<ClaimView>> {
    if wanted.claim_templates.is_empty() {
        return Vec::new();
    }
    let most = u32::try_from(pods.len()).unwrap_or(u32::MAX);
    let mut ordinals: BTreeSet<u32> = (0..wanted.replicas.saturating_add(most)).collect();
    ordinals.extend(pods.iter().filter_map(|pod| wanted.ordinal_of(facts::name(&*pod.view))));
    // A new pod may take over the name of a node whose pod is gone.
    let nodes = slurm.into_iter().flat_map(|snapshot| snapshot.nodes());
    ordinals.extend(nodes.filter_map(|node| wanted.ordinal_of_node(&node.name)));
    let names = wanted
        .claim_templates
        .iter()
        .flat_map(|template| ordinals.iter().map(move |ordinal| wanted.claim_name(template, *ordinal)));
    names.filter_map(|name| caches.claims.get(&Key::new(wanted.namespace, &name))).collect()
}

fn claim_fact<'a, S: WorkerSet>(claim: &'a ClaimView, set: &S) -> Claim<'a> {
    let meta = &claim.metadata;
    let own = set.object().meta().name.as_deref();
    let (kind, group) = (S::Object::kind(&()), S::Object::group(&()));
    let owners = meta.owner_references.iter().flatten().map(|owner| {
        let of_our_kind = owner.kind == kind && owner.api_version.split('/').next() == Some(&*group);
        let target = if of_our_kind && Some(owner.name.as_str()) == own {
            RefTarget::Set { uid: &owner.uid }
        } else if owner.kind == "Pod" && owner.api_version == "v1" {
            RefTarget::Pod { name: &owner.name, uid: &owner.uid }
        } else {
            RefTarget::Other
        };
        ClaimRef { target, controller: owner.controller == Some(true) }
    });
    Claim {
        name: facts::name(claim),
        uid: meta.uid.as_deref().unwrap_or_default(),
        deleting: meta.deletion_timestamp.is_some(),
        owners: owners.collect(),
    }
}

fn revisions<S: WorkerSet>(set: &S, memory: &Memory) -> Vec<(Arc<RevisionView>, Arc<Content>)> {
    let views = set.revisions();
    memory.keep_contents(&views);
    views
        .into_iter()
        .map(|view| {
            let content = memory.content(&view, || set.content(&view.data()));
            (view, content)
        })
        .collect()
}

fn revision_fact<'a>(view: &'a RevisionView, content: &'a Content, uid: &str, hash: &str) -> Revision<'a> {
    Revision {
        name: facts::name(view),
        uid: view.metadata.uid.as_deref().unwrap_or_default(),
        number: view.revision,
        created: unix(view.metadata.creation_timestamp.as_ref()),
        hash: crate::owner::label(view, hash),
        owner: facts::owner(view, uid),
        content,
    }
}
