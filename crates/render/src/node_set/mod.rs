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
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use slurm::agent::env;

use crate::labels::{self, Component};
use crate::pod::var;
use crate::validate::Workers;
use crate::{Rendered, ValidatedCluster, small_files, workload};

/// Name of the container of slurmd, and of its port.
pub(crate) const CONTAINER: &str = "slurmd";

/// A NodeSet and the cluster that its workers join.
#[derive(Clone, Copy, Debug)]
struct Set<'a> {
    cluster: &'a ValidatedCluster,
    node_set: &'a NodeSet,
    name: &'a str,
    /// The section `slurmNodes.worker`, where the NodeSet stands for it.
    workers: Option<&'a Workers>,
}

impl<'a> Set<'a> {
    /// `None`: the NodeSet stands for a section that has problems.
    fn new(cluster: &'a ValidatedCluster, node_set: &'a NodeSet) -> Option<Self> {
        let name = node_set.metadata.name.as_deref().unwrap_or_default();
        let workers = match &cluster.workers {
            _ if name != cluster.names.worker() => None,
            Ok(workers) => workers.as_ref(),
            Err(_) => return None,
        };
        Some(Self { cluster, node_set, name, workers })
    }

    /// What stands before the ordinal in the names of Slurm nodes: those of `slurmNodes.worker` are `worker-N`.
    fn node_prefix(&self) -> &'a str {
        if self.workers.is_some() { "worker" } else { self.name }
    }

    /// The headless Service under which the workers have their DNS names.
    fn domain_service(&self) -> String {
        self.cluster.names.domain_service(self.name)
    }

    /// The headless Service of these workers alone.
    fn own_service(&self) -> String {
        let names = &self.cluster.names;
        if self.workers.is_some() { names.worker_service() } else { names.node_set_service(self.name) }
    }

    fn security_limits(&self) -> String {
        let names = &self.cluster.names;
        if self.workers.is_some() {
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
/// None where the NodeSet stands for a section that has problems: what is there stays.
#[must_use]
pub fn node_set_objects(cluster: &ValidatedCluster, node_set: &NodeSet) -> Vec<Rendered> {
    let Some(set) = Set::new(cluster, node_set) else { return Vec::new() };
    let custom =
        node_set.spec.slurmd.security.as_ref().and_then(|security| security.limits_config.as_deref());
    let custom = custom.filter(|text| !text.is_empty());
    let text = custom.map_or_else(default_limits, |text| small_files::limits(Some(text)));
    let limits = ConfigMap {
        metadata: set.metadata(set.security_limits()),
        data: Some(BTreeMap::from([(small_files::LIMITS.into(), text)])),
        ..ConfigMap::default()
    };
    let name = set.own_service();
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
    revision: Revision,
}

/// What makes a new revision of workers when it changes: all that depends neither on the ordinal nor on names.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Revision {
    template: PodTemplateSpec,
    #[serde(default)]
    claims: BTreeMap<String, PersistentVolumeClaimSpec>,
}

/// The data of a ControllerRevision.
#[derive(Serialize, Deserialize)]
struct RevisionData<R> {
    spec: R,
}

/// The workers of a NodeSet as they should be. `None` where the NodeSet stands for `slurmNodes.worker` and that section has
/// problems: workers stay as they are.
#[must_use]
pub fn worker_template<'a>(
    cluster: &'a ValidatedCluster,
    node_set: &'a NodeSet,
) -> Option<WorkerTemplate<'a>> {
    let set = Set::new(cluster, node_set)?;
    let built = pod::template(&set);
    Some(WorkerTemplate { set, revision: Revision { template: built.template, claims: built.claims } })
}

impl WorkerTemplate<'_> {
    /// The template that all pods share.
    #[must_use]
    pub const fn template(&self) -> &PodTemplateSpec {
        &self.revision.template
    }

    /// What a revision of the set holds: `{"spec": {"template": ..., "claims": ...}}`. What Slurm's files say of the workers is in the
    /// template, as annotations.
    #[must_use]
    pub fn content(&self) -> Value {
        // Types of Kubernetes always become JSON.
        serde_json::to_value(RevisionData { spec: &self.revision }).unwrap_or_default()
    }

    /// The same set with the [content](Self::content) of another revision. `None` if that is not one of ours.
    #[must_use]
    pub fn of_revision(&self, content: &Value) -> Option<Self> {
        let data = RevisionData::<Revision>::deserialize(content).ok()?;
        Some(Self { set: self.set, revision: data.spec })
    }

    /// Names of the claims that each pod has, without that of the pod.
    pub fn claim_names(&self) -> impl Iterator<Item = &str> {
        self.revision.claims.keys().map(String::as_str)
    }

    /// A hash of all that replaces pods when it changes: the same for all ordinals.
    #[must_use]
    pub fn hash(&self) -> String {
        // Types of Kubernetes always become JSON, with keys in order. The pod is that of one ordinal, whichever.
        let text = serde_json::to_vec(&(self.pod(0), self.claims(0))).unwrap_or_default();
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
        let PodTemplateSpec { metadata, spec } = self.revision.template.clone();
        let mut metadata = metadata.unwrap_or_default();
        let mut spec = spec.unwrap_or_default();
        for container in spec.containers.iter_mut().filter(|container| container.name == CONTAINER) {
            let variables = container.env.get_or_insert_default();
            if let Some(line) = metadata.annotations.get_or_insert_default().get_mut(labels::NODE_LINE) {
                *line = slurm_node::line_of(line, &slurm_node::features_by_host_list(&node_name, &*variables));
            }
            // Images of the original take the name of the pod for that of its host and of its Slurm node.
            let names = [var(env::POD_NAME, &node_name), var(env::NODE_NAME, &node_name)];
            variables.retain(|variable| names.iter().all(|own| own.name != variable.name));
            // First, because variables can refer to those before them.
            variables.splice(0..0, names);
        }
        spec.hostname = Some(node_name);
        let claims = self.revision.claims.keys().map(|name| Volume {
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
        self.revision.claims.iter().map(claim).collect()
    }
}

/// The claim of a pod for one of its volumes, named as StatefulSets name theirs.
fn claim_name(volume: &str, pod: &str) -> String {
    format!("{volume}-{pod}")
}
