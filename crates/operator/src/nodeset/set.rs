//! A NodeSet of `slurm.nebius.ai` as a set of workers.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use ::nodeset::{
    Amount, Api, Content, Deletion, DrainOnDelete, Retention, Selector, Set, Strategy, UnixTime,
};
use api::common::{OnDeadline, RetentionPolicy};
use api::nebius::{NodeSet, NodeSetStatus, NodeSetUpdateStrategy};
use engine::Key;
use engine::apply::DesiredObject;
use engine::cache::Cache;
use engine::view::{Guarded, PodView, RevisionView};
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::Resource as _;
use render::check::duration;
use render::{Component, WorkerTemplate, labels, node_set_objects, worker_template};
use serde_json::Value;

use super::home::{End, Here, Home};
use super::keys::{FINALIZER, KEYS, POD_INDEX, POD_NAME};
use super::status;
use crate::caches::{BY_NODE_SET, Caches};
use crate::slurmcluster::desired;
use crate::worker_pods::{NEBIUS, WORKER, is_forced};
use crate::workers::{Connection, Keys, Outcome, WITHOUT_SLURM, Wanted, WorkerSet};

/// The container of slurmd.
const SLURMD: &str = "slurmd";
/// Revisions that nobody uses and that are kept all the same.
const HISTORY: usize = 3;
/// A worker that has started registers with Slurm in this time.
const REGISTRATION: Duration = Duration::from_secs(300);
/// Pods that one plan makes.
const BURST: usize = 500;

/// One look at a NodeSet.
pub struct NebiusSet<'a> {
    pub(super) caches: &'a Caches,
    pub(super) object: &'a NodeSet,
    pub(super) here: Option<&'a Here>,
    cluster_end: Option<End>,
    pub(super) connection: Connection,
    /// What workers are made from; none if that is not known, while the set or its cluster is being deleted.
    pub(super) template: Option<WorkerTemplate<'a>>,
    data: Value,
    content: Content,
    host_prefix: Option<String>,
}

impl<'a> NebiusSet<'a> {
    /// Puts it together.
    pub fn new(caches: &'a Caches, object: &'a NodeSet, home: &'a Home, connection: Connection) -> Self {
        let here = home.here();
        let template = here.and_then(|here| worker_template(&here.cluster, object));
        let data = template.as_ref().map(WorkerTemplate::content).unwrap_or_default();
        let mut set = Self {
            caches,
            object,
            here,
            cluster_end: home.end(),
            connection,
            content: Content::new(&data),
            data,
            host_prefix: None,
            template,
        };
        set.host_prefix = set.template.as_ref().and_then(|template| set.prefix(template));
        set
    }

    /// What stands before the ordinal in the names of Slurm nodes, if that is not the name of the set.
    fn prefix(&self, template: &WorkerTemplate<'_>) -> Option<String> {
        let (pod, node) = (template.pod_name(0), template.node_name(0));
        let zero = format!("{:0width$}", 0, width = self.padding());
        (pod != node).then(|| node.strip_suffix(&zero).unwrap_or(&node).to_owned())
    }

    fn meta_text(text: &Option<String>) -> &str {
        text.as_deref().unwrap_or_default()
    }

    fn name(&self) -> &str {
        Self::meta_text(&self.object.metadata.name)
    }

    fn namespace(&self) -> &str {
        Self::meta_text(&self.object.metadata.namespace)
    }

    fn padding(&self) -> usize {
        self.object.spec.care.ordinal_padding.and_then(|padding| usize::try_from(padding).ok()).unwrap_or(0)
    }

    /// Whether the cluster is stopped for maintenance.
    pub(super) fn in_maintenance(&self) -> bool {
        self.here.is_some_and(|here| here.cluster.in_maintenance())
    }

    /// Workers that there should be now.
    pub(super) fn replicas(&self) -> u32 {
        if self.in_maintenance() || self.start_waits().is_some() {
            return 0;
        }
        u32::try_from(self.object.spec.replicas).unwrap_or(0)
    }

    /// Why no workers are made for now.
    pub(super) fn start_waits(&self) -> Option<&'static str> {
        self.here.and_then(|here| here.about.start_waits)
    }

    /// Why workers keep their revision for now.
    pub(super) fn update_waits(&self) -> Option<&'static str> {
        self.here.and_then(|here| here.about.update_waits)
    }

    fn is_ending(&self) -> bool {
        self.object.metadata.deletion_timestamp.is_some() || self.cluster_end.is_some()
    }

    /// When the set, or its cluster, was asked to go.
    fn deletion(&self) -> Option<Deletion> {
        let own = self.object.metadata.deletion_timestamp.as_ref().map(|time| time.0);
        let asked = own.or_else(|| self.cluster_end.map(|end| end.asked))?;
        Some(Deletion { asked: UnixTime(u64::try_from(asked.as_second()).unwrap_or_default()) })
    }

    /// Labels that select the pods.
    pub(super) fn labels(&self) -> BTreeMap<String, String> {
        match &self.template {
            Some(template) => template.selector(),
            None => BTreeMap::from([(labels::NODE_SET.into(), self.name().into())]),
        }
    }
}

/// How many, as the field says it. What cannot be read is none: an update then waits, and says so.
fn amount(value: &IntOrString) -> Amount {
    match value {
        IntOrString::Int(count) => Amount::Count(u32::try_from(*count).unwrap_or(0)),
        IntOrString::String(text) => match text.strip_suffix('%').map(str::parse) {
            Some(Ok(percent)) => Amount::Percent(percent),
            Some(Err(_)) => Amount::Count(0),
            None => Amount::Count(text.parse().unwrap_or(0)),
        },
    }
}

fn drain_on_delete(set: &NodeSet) -> DrainOnDelete {
    let asked = set.spec.care.drain_on_delete.clone().unwrap_or_default();
    // Admission refuses what is no duration; where it came in all the same, nobody is in a hurry.
    let deadline = asked.deadline.as_deref().and_then(|text| duration::go(text).ok());
    DrainOnDelete {
        enabled: asked.enabled,
        deadline,
        force: asked.on_deadline == OnDeadline::Force,
        without_slurm: Some(deadline.unwrap_or(WITHOUT_SLURM)),
    }
}

/// What becomes of claims: they go with the set, and stay when it shrinks, unless the user says otherwise.
fn retention(set: &NodeSet) -> Retention {
    let asked = set.spec.slurmd.volumes.persistent_volume_claim_retention_policy.as_ref();
    let (deleted, scaled) = asked.map_or((None, None), |asked| (asked.when_deleted, asked.when_scaled));
    Retention {
        delete_with_set: deleted != Some(RetentionPolicy::Retain),
        delete_when_scaled: scaled == Some(RetentionPolicy::Delete),
    }
}

const fn strategy(asked: Option<NodeSetUpdateStrategy>) -> Strategy {
    match asked {
        None
        | Some(NodeSetUpdateStrategy::RollingUpdate | NodeSetUpdateStrategy::SlurmAwareRollingUpdate) => {
            Strategy::RollingUpdate
        }
        Some(NodeSetUpdateStrategy::OnDelete) => Strategy::OnDelete,
        Some(NodeSetUpdateStrategy::InPlaceIfPossible) => Strategy::InPlaceIfPossible,
    }
}

impl WorkerSet for NebiusSet<'_> {
    type Object = NodeSet;
    type Status = NodeSetStatus;

    fn object(&self) -> &NodeSet {
        self.object
    }

    fn cache(&self) -> &Cache<Guarded<NodeSet>> {
        &self.caches.node_sets
    }

    fn finalizer(&self) -> &'static str {
        FINALIZER
    }

    fn keys(&self) -> &'static Keys {
        &KEYS
    }

    fn set(&self) -> Set<'_> {
        let spec = &self.object.spec;
        let delay = spec.worker_init_random_delay_seconds.and_then(|delay| u64::try_from(delay).ok());
        Set {
            namespace: self.namespace(),
            name: self.name(),
            uid: Self::meta_text(&self.object.metadata.uid),
            api: Api::Nebius,
            replicas: self.replicas(),
            padding: self.padding(),
            host_prefix: self.host_prefix.as_deref(),
            content: &self.content,
            collisions: 0,
            history_limit: HISTORY,
            strategy: strategy(spec.update_strategy),
            max_unavailable: amount(&spec.max_unavailable),
            partition: spec.update_partition.and_then(|number| u32::try_from(number).ok()).unwrap_or(0),
            // Whoever gathers the facts knows.
            kept: None,
            paused: spec.update_paused == Some(true) || self.update_waits().is_some(),
            min_ready: Duration::ZERO,
            claim_templates: self.template.iter().flat_map(|template| template.claim_names()).collect(),
            retention: retention(self.object),
            selector: Selector::Usable,
            protect: spec.care.workload_disruption_protection,
            has_finalizer: engine::finalizer::has(self.object.meta(), FINALIZER),
            deletion: self.deletion(),
            drain_on_delete: drain_on_delete(self.object),
            forced: is_forced(self.object)
                || self.here.is_some_and(|here| here.about.forced)
                || self.cluster_end.is_some_and(|end| end.forced),
            namespace_ends: false,
            registration_grace: REGISTRATION + Duration::from_secs(delay.unwrap_or(0)),
            burst: BURST,
        }
    }

    fn connection(&self) -> &Connection {
        &self.connection
    }

    fn not_yet(&self) -> Option<String> {
        let name = self.here?.cluster.names().worker_service_account();
        let account = self.caches.service_accounts.get(&Key::new(self.namespace(), &name));
        account.is_none().then(|| format!("waiting for ServiceAccount {name}, which the cluster makes"))
    }

    fn pods(&self) -> &Cache<PodView> {
        &self.caches.pods
    }

    fn selects(&self, pod: &PodView) -> bool {
        let known = pod.metadata.labels.as_ref();
        self.labels().iter().all(|(key, value)| known.and_then(|known| known.get(key)) == Some(value))
    }

    fn identity(&self, name: &str, ordinal: u32) -> BTreeMap<String, String> {
        if self.template.is_none() {
            return BTreeMap::new();
        }
        let mut labels = self.labels();
        labels.insert(POD_NAME.into(), name.into());
        labels.insert(POD_INDEX.into(), ordinal.to_string());
        labels.insert(WORKER.into(), NEBIUS.into());
        labels
    }

    fn main_container(&self) -> Option<&str> {
        Some(SLURMD)
    }

    fn has_agent(&self, _: &PodView) -> bool {
        true
    }

    fn revision_cache(&self) -> &Cache<RevisionView> {
        &self.caches.revisions
    }

    fn revisions(&self) -> Vec<Arc<RevisionView>> {
        let set = Key::new(self.namespace(), self.name());
        self.caches.revisions.by_index(BY_NODE_SET, &set.to_string())
    }

    fn wanted(&self) -> Wanted {
        let cluster = self.here.map_or("", |here| here.cluster.names().cluster());
        let mut labels = labels::object(cluster, Component::NodeSet);
        labels.insert(labels::NODE_SET.into(), self.name().into());
        Wanted { data: self.data.clone(), labels, annotations: BTreeMap::new() }
    }

    fn pod(&self, ordinal: u32, _: &str, data: Option<&Value>) -> Option<Pod> {
        let template = self.template.as_ref()?;
        match data {
            None => Some(template.pod(ordinal)),
            Some(data) => Some(template.of_revision(data)?.pod(ordinal)),
        }
    }

    fn claim(&self, template: &str, ordinal: u32) -> Option<PersistentVolumeClaim> {
        let workers = self.template.as_ref()?;
        let name = format!("{template}-{}", workers.pod_name(ordinal));
        let mut claims = workers.claims(ordinal).into_iter();
        claims.find(|claim| claim.metadata.name.as_deref() == Some(&name))
    }

    fn selector(&self) -> LabelSelector {
        LabelSelector { match_labels: Some(self.labels()), match_expressions: None }
    }

    fn objects(&self) -> Result<Option<Vec<DesiredObject>>, serde_json::Error> {
        match self.here {
            Some(here) if !self.is_ending() => {
                let objects = node_set_objects(&here.cluster, self.object);
                objects.iter().map(desired).collect::<Result<_, _>>().map(Some)
            }
            _ => Ok(None),
        }
    }

    fn current_status(&self) -> Option<&NodeSetStatus> {
        self.object.status.as_ref()
    }

    fn status(&self, outcome: &Outcome<'_>) -> NodeSetStatus {
        status::planned(self, outcome)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_numbers_or_percentages_and_nothing_else_moves_anything() {
        let text = |text: &str| amount(&IntOrString::String(text.into()));
        assert_eq!(amount(&IntOrString::Int(3)), Amount::Count(3));
        assert_eq!(amount(&IntOrString::Int(-3)), Amount::Count(0));
        assert_eq!(text("20%"), Amount::Percent(20));
        assert_eq!(text("5"), Amount::Count(5));
        assert_eq!(text("x%"), Amount::Count(0));
        assert_eq!(text(""), Amount::Count(0));
    }

    #[test]
    fn the_deadline_of_a_set_also_counts_where_nobody_is_left_to_ask() {
        let text = include_str!("../../../../examples/api/slurm.nebius.ai/nodeset.yaml");
        let mut set: NodeSet = serde_saphyr::from_str(text).unwrap();
        set.spec.care.drain_on_delete = None;
        let default = drain_on_delete(&set);
        assert!(default.enabled && default.deadline.is_none() && !default.force);
        assert_eq!(default.without_slurm, Some(WITHOUT_SLURM));
        set.spec.care.drain_on_delete = Some(api::common::DrainOnDelete {
            deadline: Some("1h30m".into()),
            on_deadline: OnDeadline::Force,
            ..api::common::DrainOnDelete::default()
        });
        let asked = drain_on_delete(&set);
        let deadline = Some(Duration::from_secs(5400));
        assert!(asked.force && asked.deadline == deadline && asked.without_slurm == deadline);
    }
}
