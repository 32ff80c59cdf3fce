//! StatefulSets, Deployments, Services and budgets around pods.

use k8s_openapi::api::apps::v1::{
    Deployment, DeploymentSpec, DeploymentStrategy, StatefulSet,
    StatefulSetPersistentVolumeClaimRetentionPolicy, StatefulSetSpec, StatefulSetUpdateStrategy,
};
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Service, ServiceAccount, ServicePort, ServiceSpec};
use k8s_openapi::api::policy::v1::{PodDisruptionBudget, PodDisruptionBudgetSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use crate::labels::{self, Component};
use crate::pod::{BuiltPod, some};
use crate::validate::ValidatedCluster;

/// When the pods of a StatefulSet are replaced after its template changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Replace {
    /// At once.
    AtOnce,
    /// When somebody deletes them.
    WhenDeleted,
}

/// A StatefulSet whose pods start and stop side by side. Its claims outlive it: they hold state that cannot be made again.
pub(crate) fn stateful_set(
    cluster: &ValidatedCluster,
    component: Component,
    name: String,
    service: String,
    replicas: i32,
    replace: Replace,
    pod: BuiltPod,
) -> StatefulSet {
    let selector = labels::selector(cluster.names.cluster(), component);
    let claims = pod
        .claims
        .into_iter()
        .map(|(name, spec)| PersistentVolumeClaim {
            metadata: ObjectMeta {
                name: Some(name),
                labels: Some(selector.clone()),
                ..ObjectMeta::default()
            },
            spec: Some(spec),
            status: None,
        })
        .collect();
    let update = match replace {
        Replace::AtOnce => "RollingUpdate",
        Replace::WhenDeleted => "OnDelete",
    };
    StatefulSet {
        metadata: cluster.metadata(name, component),
        spec: Some(StatefulSetSpec {
            replicas: Some(replicas),
            service_name: Some(service),
            pod_management_policy: Some("Parallel".into()),
            update_strategy: Some(StatefulSetUpdateStrategy {
                type_: Some(update.into()),
                ..StatefulSetUpdateStrategy::default()
            }),
            persistent_volume_claim_retention_policy: Some(StatefulSetPersistentVolumeClaimRetentionPolicy {
                when_deleted: Some("Retain".into()),
                when_scaled: Some("Retain".into()),
            }),
            selector: LabelSelector { match_labels: Some(selector.clone()), ..LabelSelector::default() },
            template: pod.template,
            volume_claim_templates: some(claims),
            ..StatefulSetSpec::default()
        }),
        status: None,
    }
}

/// How a Deployment goes from old pods to new ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Roll {
    /// New ones start before old ones end.
    Overlapping,
    /// Old ones end before new ones start, because two at once would be wrong.
    OneAfterTheOther,
}

/// A Deployment.
pub(crate) fn deployment(
    cluster: &ValidatedCluster,
    component: Component,
    name: String,
    replicas: i32,
    roll: Roll,
    pod: BuiltPod,
) -> Deployment {
    let selector = labels::selector(cluster.names.cluster(), component);
    let strategy = match roll {
        Roll::Overlapping => "RollingUpdate",
        Roll::OneAfterTheOther => "Recreate",
    };
    Deployment {
        metadata: cluster.metadata(name, component),
        spec: Some(DeploymentSpec {
            replicas: Some(replicas),
            strategy: Some(DeploymentStrategy {
                type_: Some(strategy.into()),
                ..DeploymentStrategy::default()
            }),
            selector: LabelSelector { match_labels: Some(selector), ..LabelSelector::default() },
            template: pod.template,
            ..DeploymentSpec::default()
        }),
        status: None,
    }
}

/// A Service inside the Kubernetes cluster for one port of a part, which containers have under the same name.
pub(crate) fn service(
    cluster: &ValidatedCluster,
    component: Component,
    name: String,
    port_name: &str,
    port: u16,
) -> Service {
    Service {
        metadata: cluster.metadata(name, component),
        spec: Some(ServiceSpec {
            type_: Some("ClusterIP".into()),
            selector: Some(labels::selector(cluster.names.cluster(), component)),
            ports: Some(vec![service_port(port_name, port)]),
            ..ServiceSpec::default()
        }),
        status: None,
    }
}

/// A Service that only gives pods names, also those that are not ready: daemons look each other up before they are.
pub(crate) fn headless(mut service: Service) -> Service {
    if let Some(spec) = &mut service.spec {
        spec.cluster_ip = Some("None".into());
        spec.publish_not_ready_addresses = Some(true);
    }
    service
}

fn service_port(name: &str, port: u16) -> ServicePort {
    ServicePort {
        name: Some(name.into()),
        port: port.into(),
        protocol: Some("TCP".into()),
        target_port: Some(IntOrString::String(name.into())),
        ..ServicePort::default()
    }
}

/// A service account without rights, whose token no pod gets.
pub(crate) fn service_account(
    cluster: &ValidatedCluster,
    component: Component,
    name: String,
) -> ServiceAccount {
    ServiceAccount {
        metadata: cluster.metadata(name, component),
        automount_service_account_token: Some(false),
        ..ServiceAccount::default()
    }
}

/// A budget that lets nodes be emptied one pod of the part after the other, so that one always answers. A part with a single
/// pod has none: it could only stand in the way of whoever empties a node.
pub(crate) fn one_at_a_time(
    cluster: &ValidatedCluster,
    component: Component,
    name: String,
    replicas: i32,
) -> Option<PodDisruptionBudget> {
    let selector = labels::selector(cluster.names.cluster(), component);
    (replicas > 1).then(|| PodDisruptionBudget {
        metadata: cluster.metadata(name, component),
        spec: Some(PodDisruptionBudgetSpec {
            max_unavailable: Some(IntOrString::Int(1)),
            selector: Some(LabelSelector { match_labels: Some(selector), ..LabelSelector::default() }),
            // A pod that is not ready anyway may go.
            unhealthy_pod_eviction_policy: Some("AlwaysAllow".into()),
            ..PodDisruptionBudgetSpec::default()
        }),
        status: None,
    })
}
