//! What the API server knows about a cluster.

use std::collections::BTreeMap;

use api::nebius::slurm_cluster::phase;
use api::nebius::{NodeSet, SlurmCluster};
use engine::ask;
use engine::client::Client;
use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta};
use render::{Component, labels};

use super::view::{Part, View, Wait};
use crate::cli::Error;
use crate::place::untold;
use crate::unmet::is_unmet;

/// Parts in the order in which they start.
const ORDER: [Component; 7] = [
    Component::SConfigController,
    Component::Database,
    Component::Accounting,
    Component::Controller,
    Component::Rest,
    Component::Login,
    Component::NodeSet,
];

/// Which clusters are looked at.
#[derive(Clone, Debug)]
pub(super) struct Wanted {
    /// None: all namespaces.
    pub(super) namespace: Option<String>,
    /// None: all clusters there.
    pub(super) name: Option<String>,
}

/// The clusters that are wanted, without Slurm's own words.
pub(super) async fn look(client: &Client, wanted: &Wanted) -> Result<Vec<View>, Error> {
    let namespace = wanted.namespace.as_deref();
    let clusters: Vec<SlurmCluster> = ask::list(client, namespace, "").await.map_err(untold)?;
    let sets: Vec<NodeSet> = ask::list(client, namespace, "").await.map_err(untold)?;
    let ours = format!("{}={}", labels::NAME, labels::NAME_VALUE);
    let stateful: Vec<StatefulSet> = ask::list(client, namespace, &ours).await.map_err(untold)?;
    let deployments: Vec<Deployment> = ask::list(client, namespace, &ours).await.map_err(untold)?;
    let workloads: Vec<Workload> =
        stateful.iter().map(Workload::from).chain(deployments.iter().map(Workload::from)).collect();

    let chosen = |cluster: &&SlurmCluster| {
        wanted.name.as_deref().is_none_or(|name| Some(name) == cluster.metadata.name.as_deref())
    };
    let found: Vec<View> = clusters
        .iter()
        .filter(chosen)
        .map(|cluster| view(cluster, &workloads, &sets_of(cluster, &clusters, &sets)))
        .collect();
    if found.is_empty() {
        let place =
            namespace.map_or("any namespace".into(), |namespace| format!("the namespace {namespace}"));
        let names: Vec<String> = clusters.iter().map(|cluster| name(&cluster.metadata)).collect();
        return Err(Error::Refused(match &wanted.name {
            Some(name) if names.is_empty() => {
                format!("there is no SlurmCluster {name}, nor any other, in {place}; name another with -n")
            }
            Some(name) => {
                format!("there is no SlurmCluster {name} in {place}; there is {}", names.join(", "))
            }
            None => format!("there is no SlurmCluster in {place}; name another with -n, or all with -A"),
        }));
    }
    Ok(found)
}

/// A StatefulSet or Deployment, as far as it is shown.
struct Workload {
    namespace: String,
    labels: BTreeMap<String, String>,
    ready: i32,
    wanted: i32,
}

impl From<&StatefulSet> for Workload {
    fn from(set: &StatefulSet) -> Self {
        Self::new(
            &set.metadata,
            set.status.as_ref().and_then(|status| status.ready_replicas),
            set.spec.as_ref().and_then(|spec| spec.replicas),
        )
    }
}

impl From<&Deployment> for Workload {
    fn from(deployment: &Deployment) -> Self {
        Self::new(
            &deployment.metadata,
            deployment.status.as_ref().and_then(|status| status.ready_replicas),
            deployment.spec.as_ref().and_then(|spec| spec.replicas),
        )
    }
}

impl Workload {
    fn new(meta: &ObjectMeta, ready: Option<i32>, wanted: Option<i32>) -> Self {
        Self {
            namespace: meta.namespace.clone().unwrap_or_default(),
            labels: meta.labels.clone().unwrap_or_default(),
            ready: ready.unwrap_or(0),
            wanted: wanted.unwrap_or(1),
        }
    }

    fn is(&self, namespace: &str, cluster: &str, component: Component) -> bool {
        let has = |label: &str, value: &str| self.labels.get(label).is_some_and(|found| found == value);
        self.namespace == namespace
            && has(labels::INSTANCE, cluster)
            && has(labels::COMPONENT, component.as_str())
    }
}

fn name(meta: &ObjectMeta) -> String {
    meta.name.clone().unwrap_or_default()
}

/// The NodeSets that join a cluster: by their field, by their annotation, or because it is the only one there.
fn sets_of<'a>(cluster: &SlurmCluster, clusters: &[SlurmCluster], sets: &'a [NodeSet]) -> Vec<&'a NodeSet> {
    let here = |meta: &ObjectMeta| meta.namespace == cluster.metadata.namespace;
    let alone = clusters.iter().filter(|other| here(&other.metadata)).count() == 1;
    let joins = |set: &&NodeSet| {
        let annotation = || set.metadata.annotations.as_ref()?.get(labels::PARENTAL_CLUSTER);
        let named = set.spec.cluster_name.as_ref().or_else(annotation);
        here(&set.metadata) && named.map_or(alone, |named| *named == name(&cluster.metadata))
    };
    sets.iter().filter(joins).collect()
}

fn view(cluster: &SlurmCluster, workloads: &[Workload], sets: &[&NodeSet]) -> View {
    let (namespace, name) = (cluster.metadata.namespace.clone().unwrap_or_default(), name(&cluster.metadata));
    let status = cluster.status.as_ref();
    let phase_now = status.and_then(|status| status.phase.clone()).unwrap_or_default();
    let observed = status.and_then(|status| status.observed_generation);
    let mut parts = Vec::new();
    for component in ORDER {
        for workload in workloads.iter().filter(|workload| workload.is(&namespace, &name, component)) {
            let name = if component == Component::Database { "database" } else { component.as_str() };
            parts.push(Part {
                name: name.into(),
                ready: workload.ready,
                wanted: workload.wanted,
                phase: None,
            });
        }
    }
    let mut waits = unmet(None, status.and_then(|status| status.conditions.as_deref()));
    for set in sets {
        let name = format!("nodeset {}", self::name(&set.metadata));
        let status = set.status.clone().unwrap_or_default();
        waits.extend(unmet(Some(&name), status.conditions.as_deref()));
        parts.push(Part {
            name,
            ready: status.replicas.unwrap_or(0),
            wanted: set.spec.replicas,
            phase: Some(status.phase),
        });
    }
    // A status about an older spec says nothing about this one.
    let current = observed.is_none() || observed == cluster.metadata.generation;
    if !current {
        waits.insert(
            0,
            Wait {
                condition: "Observed".into(),
                reason: "NewGeneration".into(),
                message: "the operator has not looked at the latest change yet".into(),
                ..Wait::default()
            },
        );
    }
    View {
        available: current && phase_now == phase::AVAILABLE,
        namespace,
        name,
        phase: phase_now,
        parts,
        waits,
        ..View::default()
    }
}

/// Conditions that do not hold.
fn unmet(object: Option<&str>, conditions: Option<&[Condition]>) -> Vec<Wait> {
    let all = conditions.unwrap_or_default().iter();
    all.filter(|condition| is_unmet(condition))
        .map(|condition| Wait {
            object: object.map(Into::into),
            condition: condition.type_.clone(),
            reason: condition.reason.clone(),
            message: condition.message.clone(),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn cluster(name: &str, status: serde_json::Value) -> SlurmCluster {
        let text = std::fs::read_to_string("../../examples/api/slurm.nebius.ai/slurmcluster.yaml").unwrap();
        let mut cluster: SlurmCluster = serde_saphyr::from_str(&text).unwrap();
        cluster.metadata.name = Some(name.into());
        cluster.metadata.namespace = Some("a".into());
        cluster.metadata.generation = Some(2);
        cluster.status = serde_json::from_value(status).unwrap();
        cluster
    }

    fn set(name: &str, namespace: &str, joins: Option<&str>) -> NodeSet {
        let text = std::fs::read_to_string("../../examples/api/slurm.nebius.ai/nodeset.yaml").unwrap();
        let mut set: NodeSet = serde_saphyr::from_str(&text).unwrap();
        set.metadata.name = Some(name.into());
        set.metadata.namespace = Some(namespace.into());
        set.spec.cluster_name = joins.map(Into::into);
        set
    }

    fn workload(cluster: &str, component: Component, ready: i32) -> Workload {
        Workload { namespace: "a".into(), labels: labels::object(cluster, component), ready, wanted: 1 }
    }

    #[test]
    fn only_what_belongs_to_the_cluster_is_shown_and_in_order() {
        let one = cluster("one", json!({"phase": "Available", "observedGeneration": 2}));
        let workloads = [
            workload("one", Component::Login, 1),
            workload("two", Component::Login, 0),
            workload("one", Component::Database, 1),
        ];
        let view = view(&one, &workloads, &[&set("gpu", "a", Some("one"))]);
        let names: Vec<&str> = view.parts.iter().map(|part| part.name.as_str()).collect();
        assert_eq!(names, ["database", "login", "nodeset gpu"]);
        assert!(view.available);
    }

    #[test]
    fn a_set_that_names_no_cluster_joins_the_only_one() {
        let (one, two) = (cluster("one", json!({})), cluster("two", json!({})));
        let sets = [set("x", "a", None), set("y", "a", Some("one")), set("z", "b", Some("one"))];
        let found = |clusters: &[SlurmCluster]| {
            sets_of(&one, clusters, &sets).into_iter().map(|set| name(&set.metadata)).collect::<Vec<_>>()
        };
        assert_eq!(found(std::slice::from_ref(&one)), ["x", "y"]);
        assert_eq!(found(&[one.clone(), two]), ["y"]);
    }

    #[test]
    fn a_status_of_an_older_spec_is_not_believed() {
        let old = cluster("one", json!({"phase": "Available", "observedGeneration": 1}));
        let view = view(&old, &[], &[]);
        assert!(!view.available);
        assert!(view.wait_lines()[0].contains("has not looked at the latest change"), "{view:?}");
    }

    #[test]
    fn conditions_that_do_not_hold_are_what_it_waits_for() {
        let waits = cluster(
            "one",
            json!({"phase": "Pending", "observedGeneration": 2, "conditions": [
                {"type": "CommonAvailable", "status": "True", "reason": "Available", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"},
                {"type": "LoginAvailable", "status": "False", "reason": "ImagePull", "message": "no such image", "lastTransitionTime": "2026-01-01T00:00:00Z"},
            ]}),
        );
        assert_eq!(view(&waits, &[], &[]).wait_lines(), ["LoginAvailable: no such image"]);
    }
}
