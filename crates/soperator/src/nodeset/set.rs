//! A NodeSet of either group, as far as people are told about it.

use api::nebius::NodeSetUpdateStrategy;
use api::slinky::UpdateStrategyType;
use api::{nebius, slinky};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use render::labels;

use super::Api;

/// A NodeSet.
#[derive(Clone, Debug)]
pub(super) struct Set {
    pub(super) api: Api,
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) uid: String,
    /// The cluster that it names; none if it names none.
    pub(super) cluster: Option<String>,
    pub(super) replicas: i32,
    pub(super) update: Update,
    pub(super) is_deleted: bool,
    /// Whether the status is about the spec as it is now.
    pub(super) is_observed: bool,
    /// What it is doing, where its kind has a word for it.
    pub(super) phase: Option<String>,
    /// The label of the newest revision, where its kind tells.
    pub(super) hash: Option<String>,
    pub(super) conditions: Vec<Condition>,
}

/// How its pods come to a new revision.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Update {
    pub(super) on_delete: bool,
    pub(super) is_paused: bool,
    /// Workers with a lower ordinal keep their revision.
    pub(super) partition: u32,
    /// A number or a percentage.
    pub(super) max_unavailable: String,
}

impl Update {
    /// Whether not a single worker may be away.
    pub(super) fn stands_still(&self) -> bool {
        matches!(self.max_unavailable.as_str(), "0" | "0%")
    }
}

impl From<&nebius::NodeSet> for Set {
    fn from(set: &nebius::NodeSet) -> Self {
        let (meta, spec, status) = (&set.metadata, &set.spec, set.status.as_ref());
        let annotation = || meta.annotations.as_ref()?.get(labels::PARENTAL_CLUSTER).cloned();
        let generation = status.and_then(|status| status.observed_generation);
        Self {
            cluster: spec.cluster_name.clone().or_else(annotation).filter(|name| !name.is_empty()),
            replicas: spec.replicas,
            update: Update {
                on_delete: spec.update_strategy == Some(NodeSetUpdateStrategy::OnDelete),
                is_paused: spec.update_paused == Some(true),
                partition: spec.update_partition.and_then(|at| u32::try_from(at).ok()).unwrap_or(0),
                max_unavailable: text(&spec.max_unavailable),
            },
            phase: status.map(|status| status.phase.clone()),
            conditions: status.and_then(|status| status.conditions.clone()).unwrap_or_default(),
            ..Self::new(Api::Nebius, meta, generation)
        }
    }
}

impl From<&slinky::NodeSet> for Set {
    fn from(set: &slinky::NodeSet) -> Self {
        let (meta, spec, status) = (&set.metadata, &set.spec, set.status.as_ref());
        let strategy = &spec.update_strategy;
        let rolling = strategy.rolling_update.clone().unwrap_or_default();
        let generation = status.and_then(|status| status.observed_generation);
        Self {
            cluster: Some(spec.cluster_name.clone()),
            replicas: spec.replicas,
            update: Update {
                on_delete: strategy.type_ == UpdateStrategyType::OnDelete,
                is_paused: strategy.paused == Some(true),
                partition: rolling.partition.and_then(|at| u32::try_from(at).ok()).unwrap_or(0),
                max_unavailable: rolling.max_unavailable.as_ref().map_or_else(|| "1".into(), text),
            },
            hash: status.map(|status| status.node_set_hash.clone()).filter(|hash| !hash.is_empty()),
            conditions: status.and_then(|status| status.conditions.clone()).unwrap_or_default(),
            ..Self::new(Api::Slinky, meta, generation)
        }
    }
}

impl Set {
    fn new(api: Api, meta: &ObjectMeta, observed: Option<i64>) -> Self {
        Self {
            api,
            namespace: meta.namespace.clone().unwrap_or_default(),
            name: meta.name.clone().unwrap_or_default(),
            uid: meta.uid.clone().unwrap_or_default(),
            cluster: None,
            replicas: 0,
            update: Update::default(),
            is_deleted: meta.deletion_timestamp.is_some(),
            is_observed: observed.is_some() && observed == meta.generation,
            phase: None,
            hash: None,
            conditions: Vec::new(),
        }
    }

    /// `NodeSet a/b of slurm.nebius.ai`.
    pub(super) fn title(&self) -> String {
        format!("NodeSet {}/{} of {}", self.namespace, self.name, self.api.group())
    }
}

fn text(amount: &IntOrString) -> String {
    match amount {
        IntOrString::Int(count) => count.to_string(),
        IntOrString::String(text) => text.clone(),
    }
}
