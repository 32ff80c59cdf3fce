//! One look at one set, for [`crate::workers`].

use std::collections::BTreeMap;
use std::sync::Arc;

use api::slinky::{NodeSet, NodeSetStatus};
use engine::apply::DesiredObject;
use engine::cache::Cache;
use engine::finalizer;
use engine::view::{Guarded, PodView, RevisionView};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::ResourceExt as _;
use nodeset::{Api, Content, Deletion, Set, UnixTime};
use serde_json::Value;

use super::selector::PodSelector;
use super::{claim, end, keys, pod, revision, spec, status};
use crate::caches::Caches;
use crate::slurmcluster::pod_trouble;
use crate::worker_pods::is_forced;
use crate::workers::{Connection, Keys, Outcome, Wanted, WorkerSet};

/// The container of slurmd, in the pods of the original's chart.
const SLURMD: &str = "slurmd";
/// The init container that brings our agent, if the user's template has it.
const AGENT: &str = "agent";

/// A set, with what was found out about it.
pub struct SlinkySet<'a> {
    caches: &'a Caches,
    object: &'a NodeSet,
    name: String,
    namespace: String,
    uid: String,
    selector: PodSelector,
    data: Value,
    content: Content,
    connection: Connection,
    strays: Vec<Arc<PodView>>,
    forced: bool,
}

impl<'a> SlinkySet<'a> {
    /// Puts together what caches know.
    pub fn new(
        caches: &'a Caches,
        object: &'a NodeSet,
        selector: PodSelector,
        connection: Connection,
        strays: Vec<Arc<PodView>>,
    ) -> Self {
        let data = revision::data(&object.spec.template);
        let content = revision::content(&data);
        let namespace = object.namespace().unwrap_or_default();
        let cluster = caches.slinky_clusters.get(&spec::cluster(object));
        let forced = is_forced(object) || cluster.is_some_and(|cluster| is_forced(&*cluster));
        Self {
            caches,
            object,
            name: object.name_any(),
            uid: object.uid().unwrap_or_default(),
            selector,
            data,
            content,
            connection,
            strays,
            forced,
            namespace,
        }
    }
}

impl WorkerSet for SlinkySet<'_> {
    type Object = NodeSet;
    type Status = NodeSetStatus;

    fn object(&self) -> &NodeSet {
        self.object
    }

    fn cache(&self) -> &Cache<Guarded<NodeSet>> {
        &self.caches.slinky_node_sets
    }

    fn finalizer(&self) -> &'static str {
        keys::FINALIZER
    }

    fn keys(&self) -> &'static Keys {
        &keys::OF_PODS
    }

    fn set(&self) -> Set<'_> {
        let wanted = &self.object.spec;
        let meta = &self.object.metadata;
        let asked = meta
            .deletion_timestamp
            .as_ref()
            .map(|time| UnixTime(u64::try_from(time.0.as_second()).unwrap_or(0)));
        Set {
            namespace: &self.namespace,
            name: &self.name,
            uid: &self.uid,
            api: Api::Slinky,
            replicas: spec::replicas(wanted),
            padding: spec::padding(wanted),
            host_prefix: spec::host_prefix(wanted),
            content: &self.content,
            collisions: spec::collisions(self.object),
            history_limit: spec::history_limit(wanted),
            strategy: spec::strategy(wanted),
            max_unavailable: spec::max_unavailable(wanted),
            partition: spec::partition(wanted),
            // Whoever gathers the facts knows.
            kept: None,
            paused: wanted.update_strategy.paused.unwrap_or(false),
            min_ready: spec::min_ready(wanted),
            claim_templates: claim::template_names(self.object),
            retention: spec::retention(wanted),
            selector: self.selector.verdict(),
            protect: wanted.care.workload_disruption_protection,
            has_finalizer: finalizer::has(meta, keys::FINALIZER),
            deletion: asked.map(|asked| Deletion { asked }),
            drain_on_delete: spec::drain_on_delete(
                &wanted.care,
                end::without_slurm(self.object, Timestamp::now()),
            ),
            forced: self.forced,
            // The same.
            namespace_ends: false,
            registration_grace: spec::REGISTRATION_GRACE,
            burst: spec::BURST,
        }
    }

    fn connection(&self) -> &Connection {
        &self.connection
    }

    fn pods(&self) -> &Cache<PodView> {
        // Not those of `slurm.nebius.ai`.
        let Caches { slinky_pods, .. } = self.caches;
        slinky_pods
    }

    fn strays(&self) -> Vec<Arc<PodView>> {
        self.strays.clone()
    }

    fn selects(&self, pod: &PodView) -> bool {
        self.selector.selects(pod.metadata.labels.as_ref())
    }

    fn identity(&self, name: &str, ordinal: u32) -> BTreeMap<String, String> {
        pod::identity(name, ordinal)
    }

    fn main_container(&self) -> Option<&str> {
        let containers = &self.object.spec.template.spec.as_ref()?.containers;
        containers.iter().any(|container| container.name == SLURMD).then_some(SLURMD)
    }

    fn has_agent(&self, pod: &PodView) -> bool {
        pod.status.init_container_statuses.iter().any(|container| &*container.name == AGENT)
    }

    fn revision_cache(&self) -> &Cache<RevisionView> {
        &self.caches.slinky_revisions
    }

    fn revisions(&self) -> Vec<Arc<RevisionView>> {
        let mut of_namespace = self.caches.slinky_revisions.list();
        of_namespace.retain(|revision| {
            revision.metadata.namespace.as_deref() == Some(&*self.namespace)
                && match revision.owner_references().iter().find(|owner| owner.controller == Some(true)) {
                    Some(owner) => owner.uid == self.uid,
                    None => self.selector.selects(revision.metadata.labels.as_ref()),
                }
        });
        of_namespace
    }

    fn wanted(&self) -> Wanted {
        let labels = self.object.spec.template.metadata.as_ref().and_then(|meta| meta.labels.clone());
        let mut annotations = self.object.metadata.annotations.clone().unwrap_or_default();
        // A copy of the whole object is of no use there.
        annotations.remove("kubectl.kubernetes.io/last-applied-configuration");
        Wanted { data: self.data.clone(), labels: labels.unwrap_or_default(), annotations }
    }

    fn content(&self, data: &Value) -> Content {
        revision::content(data)
    }

    fn pod(&self, ordinal: u32, node: &str, data: Option<&Value>) -> Option<Pod> {
        let name = self.set().pod_name(ordinal);
        match data {
            Some(data) => Some(pod::pod(self.object, &revision::template(data)?, &name, node)),
            None => Some(pod::pod(self.object, &self.object.spec.template, &name, node)),
        }
    }

    fn claim(&self, template: &str, ordinal: u32) -> Option<PersistentVolumeClaim> {
        claim::claim(self.object, &self.set().claim_name(template, ordinal), template)
    }

    fn selector(&self) -> LabelSelector {
        self.object.spec.selector.clone()
    }

    fn objects(&self) -> Result<Option<Vec<DesiredObject>>, serde_json::Error> {
        Ok(Some(Vec::new()))
    }

    fn current_status(&self) -> Option<&NodeSetStatus> {
        self.object.status.as_ref()
    }

    fn status(&self, outcome: &Outcome<'_>) -> NodeSetStatus {
        let troubled = || outcome.pods.iter().filter(|pod| !pod.is_ready()).find_map(|pod| pod_trouble(pod));
        let trouble = outcome.failed.map(str::to_owned).or_else(|| troubled().map(|trouble| trouble.message));
        let (plan, now) = (outcome.plan, outcome.now);
        let mut status = status::fold(self.object, &self.selector, &plan.status, trouble.as_deref(), now);
        let waits = matches!(self.connection, Connection::NoCluster) && !plan.waits.is_empty();
        end::show(&mut status, self.object, waits, now);
        status
    }
}
