//! The workers of a NodeSet: what the NodeSet's controller makes for it.

mod pod;
mod slurm_node;

use std::collections::BTreeMap;
use std::fmt::Write as _;

use api::nebius::NodeSet;
use k8s_openapi::api::core::v1::{
    ConfigMap, PersistentVolumeClaim, PersistentVolumeClaimSpec, PersistentVolumeClaimVolumeSource, Pod,
    PodTemplateSpec, Volume,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use sha2::{Digest as _, Sha256};
use slurm::agent::env;

use crate::labels::{self, Component};
use crate::pod::var;
use crate::validate::Workers;
use crate::{Rendered, ValidatedCluster, workload};

/// Name of the container of slurmd, and of its port.
pub(crate) const CONTAINER: &str = "slurmd";

/// A NodeSet and the cluster that its workers join.
#[derive(Clone, Copy, Debug)]
struct Set<'a> {
    cluster: &'a ValidatedCluster,
    node_set: &'a NodeSet,
    name: &'a str,
    /// The section of the cluster, where the NodeSet stands for it.
    workers: Option<&'a Workers>,
}

impl<'a> Set<'a> {
    fn new(cluster: &'a ValidatedCluster, node_set: &'a NodeSet) -> Self {
        let name = node_set.metadata.name.as_deref().unwrap_or_default();
        let workers = cluster.workers.as_ref().ok().and_then(Option::as_ref);
        Self { cluster, node_set, name, workers: workers.filter(|_| name == cluster.names.worker()) }
    }

    /// What stands before the ordinal in the names of Slurm nodes: those of `slurmNodes.worker` are `worker-N`.
    fn node_prefix(&self) -> &'a str {
        if self.name == self.cluster.names.worker() { "worker" } else { self.name }
    }

    /// The headless Service under which the workers have their DNS names. Users' NodeSets share one, so that login pods
    /// need not know which there are.
    fn service(&self) -> String {
        let names = &self.cluster.names;
        if self.name == names.worker() { names.worker_service() } else { names.node_sets_service() }
    }

    fn security_limits(&self) -> String {
        let names = &self.cluster.names;
        if self.name == names.worker() {
            names.security_limits(Component::Worker)
        } else {
            names.node_set_security_limits(self.name)
        }
    }

    fn port(&self) -> u16 {
        let port = self.node_set.spec.slurmd.port.and_then(|port| u16::try_from(port).ok());
        port.filter(|port| *port > 0).unwrap_or(self.cluster.ports.slurmd)
    }

    /// The name of a thing with an ordinal, padded as the NodeSet says.
    fn ordinal(&self, prefix: &str, ordinal: u32) -> String {
        let width = self.node_set.spec.care.ordinal_padding.unwrap_or_default();
        let width = usize::try_from(width).unwrap_or_default();
        format!("{prefix}-{ordinal:0width$}")
    }

    fn selector(&self) -> BTreeMap<String, String> {
        labels::node_set_selector(self.cluster.names.cluster(), self.name)
    }

    fn metadata(&self, name: String) -> ObjectMeta {
        let mut metadata = self.cluster.metadata(name, Component::NodeSet);
        metadata.labels.get_or_insert_default().insert(labels::NODE_SET.into(), self.name.into());
        metadata
    }
}

/// The objects that a NodeSet has besides its pods and claims: limits.conf and its headless Service. The NodeSet owns them.
#[must_use]
pub fn node_set_objects(cluster: &ValidatedCluster, node_set: &NodeSet) -> Vec<Rendered> {
    let set = Set::new(cluster, node_set);
    let text = node_set.spec.slurmd.security.as_ref().and_then(|security| security.limits_config.clone());
    let text = text.filter(|text| !text.is_empty()).unwrap_or_else(default_limits);
    let limits = ConfigMap {
        metadata: set.metadata(set.security_limits()),
        data: Some(BTreeMap::from([("limits.conf".into(), text)])),
        ..ConfigMap::default()
    };
    let name = if set.workers.is_some() {
        cluster.names.worker_service()
    } else {
        cluster.names.node_set_service(set.name)
    };
    let mut service = workload::headless(workload::service(
        cluster,
        Component::NodeSet,
        name.clone(),
        CONTAINER,
        set.port(),
    ));
    service.metadata = set.metadata(name);
    if let Some(spec) = &mut service.spec {
        spec.selector = Some(set.selector());
    }
    vec![Rendered::apply(Component::NodeSet, limits), Rendered::apply(Component::NodeSet, service)]
}

/// limits.conf of workers where the user wrote none: jobs are limited by Slurm.
fn default_limits() -> String {
    const UNLIMITED: [&str; 13] = [
        "core",
        "data",
        "fsize",
        "sigpending",
        "memlock",
        "rss",
        "msgqueue",
        "rtprio",
        "stack",
        "cpu",
        "nproc",
        "as",
        "locks",
    ];
    let unlimited = UNLIMITED.iter().map(|item| (*item, "unlimited"));
    let limits = unlimited.chain([("nofile", "1048576"), ("nice", "-20")]);
    limits.fold(String::new(), |mut text, (item, value)| {
        let _ = writeln!(text, "* soft {item} {value}\n* hard {item} {value}");
        text
    })
}

/// All workers of a NodeSet before each gets its ordinal.
#[derive(Clone, Debug)]
pub struct WorkerTemplate<'a> {
    set: Set<'a>,
    template: PodTemplateSpec,
    claims: BTreeMap<String, PersistentVolumeClaimSpec>,
}

/// The workers of a NodeSet as they should be.
#[must_use]
pub fn worker_template<'a>(cluster: &'a ValidatedCluster, node_set: &'a NodeSet) -> WorkerTemplate<'a> {
    let set = Set::new(cluster, node_set);
    let built = pod::template(&set);
    WorkerTemplate { set, template: built.template, claims: built.claims }
}

impl WorkerTemplate<'_> {
    /// The template that all pods share.
    #[must_use]
    pub const fn template(&self) -> &PodTemplateSpec {
        &self.template
    }

    /// A hash of all that replaces pods when it changes: the same for all ordinals.
    #[must_use]
    pub fn hash(&self) -> String {
        // Types of Kubernetes always become JSON, with keys in order.
        let text = serde_json::to_vec(&(&self.template, &self.claims)).unwrap_or_default();
        Sha256::digest(text).iter().take(8).fold(String::new(), |mut hex, byte| {
            let _ = write!(hex, "{byte:02x}");
            hex
        })
    }

    /// Labels that select the pods.
    #[must_use]
    pub fn selector(&self) -> BTreeMap<String, String> {
        self.set.selector()
    }

    /// The name of a pod.
    #[must_use]
    pub fn pod_name(&self, ordinal: u32) -> String {
        self.set.ordinal(self.set.name, ordinal)
    }

    /// The Slurm node that a pod is, which is its host name too.
    #[must_use]
    pub fn node_name(&self, ordinal: u32) -> String {
        self.set.ordinal(self.set.node_prefix(), ordinal)
    }

    /// The pod with this ordinal.
    #[must_use]
    pub fn pod(&self, ordinal: u32) -> Pod {
        let (pod_name, node_name) = (self.pod_name(ordinal), self.node_name(ordinal));
        let PodTemplateSpec { metadata, spec } = self.template.clone();
        let mut metadata = metadata.unwrap_or_default();
        let mut spec = spec.unwrap_or_default();
        if self.set.cluster.static_nodes {
            let line = slurm_node::line(&self.set, &node_name);
            metadata.annotations.get_or_insert_default().insert(labels::NODE_LINE.into(), line);
        }
        spec.hostname = Some(node_name.clone());
        for container in spec.containers.iter_mut().filter(|container| container.name == CONTAINER) {
            container.env.get_or_insert_default().push(var(env::NODE_NAME, node_name.clone()));
        }
        let claims = self.claims.keys().map(|name| Volume {
            name: name.clone(),
            persistent_volume_claim: Some(PersistentVolumeClaimVolumeSource {
                claim_name: claim_name(name, &pod_name),
                read_only: None,
            }),
            ..Volume::default()
        });
        spec.volumes.get_or_insert_default().extend(claims);
        metadata.name = Some(pod_name);
        metadata.namespace = Some(self.set.cluster.names.namespace().to_owned());
        Pod { metadata, spec: Some(spec), status: None }
    }

    /// The claims of the pod with this ordinal. They are made before it, and outlive it.
    #[must_use]
    pub fn claims(&self, ordinal: u32) -> Vec<PersistentVolumeClaim> {
        let pod_name = self.pod_name(ordinal);
        let claim = |(name, spec): (&String, &PersistentVolumeClaimSpec)| {
            let mut metadata = self.set.metadata(claim_name(name, &pod_name));
            metadata.labels.get_or_insert_default().extend(self.set.selector());
            PersistentVolumeClaim { metadata, spec: Some(spec.clone()), status: None }
        };
        self.claims.iter().map(claim).collect()
    }
}

/// The claim of a pod for one of its volumes, named as StatefulSets name theirs.
fn claim_name(volume: &str, pod: &str) -> String {
    format!("{volume}-{pod}")
}
