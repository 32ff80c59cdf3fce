//! Pods as they come over the wire, and what is kept of them.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::unsupported::{WireAffinity, unsupported};
use super::{
    Amounts, Ask, Facts, Member, Operator, Phase, Pod, Port, Requirement, Selector, Stamp, Term, Told,
    Toleration, TolerationOperator,
};
use crate::index::{self, Clues, IndexError, Owner};
use crate::names;

/// A pod as it comes over the wire.
#[derive(Deserialize)]
pub struct WirePod {
    metadata: WireMeta,
    #[serde(default)]
    spec: PodSpec,
    #[serde(default)]
    status: WireStatus,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WireMeta {
    #[serde(default)]
    name: String,
    generate_name: Option<serde::de::IgnoredAny>,
    #[serde(default)]
    namespace: String,
    #[serde(default)]
    uid: String,
    resource_version: Option<String>,
    creation_timestamp: Option<jiff::Timestamp>,
    deletion_timestamp: Option<serde::de::IgnoredAny>,
    #[serde(default)]
    labels: Labels,
    #[serde(default)]
    annotations: Annotations,
    #[serde(default)]
    owner_references: Vec<WireOwner>,
}

/// The labels that matter.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Labels {
    #[serde(rename = "apps.kubernetes.io/pod-index")]
    pod_index: Option<String>,
    #[serde(rename = "batch.kubernetes.io/job-completion-index")]
    completion_index: Option<String>,
}

/// The annotations that matter.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Annotations {
    #[serde(rename = "gpu-scheduling-map")]
    map: Option<Box<str>>,
    #[serde(rename = "gpu-scheduling-index")]
    index: Option<String>,
    #[serde(rename = "gpu-scheduling-gang")]
    gang: Option<String>,
    #[serde(rename = "gpu-scheduling-devices")]
    devices: Option<Box<str>>,
    #[serde(rename = "gpu-scheduling-shared")]
    shared: Option<Box<str>>,
    #[serde(rename = "batch.kubernetes.io/job-completion-index")]
    completion_index: Option<String>,
}

#[derive(Deserialize)]
struct WireOwner {
    kind: String,
    uid: Box<str>,
    #[serde(default)]
    controller: bool,
}

/// What matters of a pod's spec.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodSpec {
    scheduler_name: Box<str>,
    node_name: String,
    priority: i32,
    containers: Vec<WireContainer>,
    init_containers: Vec<WireContainer>,
    overhead: BTreeMap<String, String>,
    resources: WireResources,
    scheduling_gates: Vec<serde::de::IgnoredAny>,
    tolerations: Vec<WireToleration>,
    node_selector: BTreeMap<Box<str>, Box<str>>,
    pub(super) affinity: WireAffinity,
    pub(super) topology_spread_constraints: Vec<WireSpread>,
    pub(super) resource_claims: Vec<serde::de::IgnoredAny>,
    pub(super) scheduling_group: Option<serde::de::IgnoredAny>,
    pub(super) workload_ref: Option<serde::de::IgnoredAny>,
    volumes: Vec<WireVolume>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct WireSpread {
    #[serde(default)]
    pub(super) when_unsatisfiable: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct WireContainer {
    #[serde(default)]
    resources: WireResources,
    #[serde(default)]
    ports: Vec<WirePort>,
    restart_policy: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct WireResources {
    requests: BTreeMap<String, String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct WirePort {
    #[serde(default)]
    host_port: u16,
    #[serde(default, rename = "hostIP")]
    host_ip: Box<str>,
    #[serde(default)]
    protocol: Box<str>,
}

#[derive(Debug, Deserialize)]
struct WireToleration {
    #[serde(default)]
    key: Box<str>,
    #[serde(default)]
    operator: String,
    #[serde(default)]
    value: Box<str>,
    #[serde(default)]
    effect: Box<str>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct WireVolume {
    name: String,
    persistent_volume_claim: Option<WireClaimSource>,
    ephemeral: Option<serde::de::IgnoredAny>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct WireClaimSource {
    claim_name: Box<str>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct WireSelector {
    node_selector_terms: Vec<WireTerm>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct WireTerm {
    match_expressions: Vec<WireRequirement>,
    match_fields: Vec<WireRequirement>,
}

#[derive(Debug, Deserialize)]
struct WireRequirement {
    key: Box<str>,
    operator: String,
    #[serde(default)]
    values: Box<[Box<str>]>,
}

impl From<WireSelector> for Selector {
    fn from(wire: WireSelector) -> Self {
        let requirement = |of: WireRequirement| Requirement {
            key: of.key,
            operator: Operator::parse(&of.operator),
            values: of.values,
        };
        let term = |term: WireTerm| Term {
            labels: term.match_expressions.into_iter().map(requirement).collect(),
            fields: term.match_fields.into_iter().map(requirement).collect(),
        };
        Self(wire.node_selector_terms.into_iter().map(term).collect())
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct WireStatus {
    phase: String,
    conditions: Vec<WireCondition>,
}

#[derive(Deserialize)]
struct WireCondition {
    #[serde(rename = "type")]
    type_: String,
    status: String,
    #[serde(default)]
    reason: Box<str>,
    #[serde(default)]
    message: Box<str>,
}

impl Facts for Pod {
    type Wire = WirePod;

    fn take(wire: WirePod) -> (Stamp, Self) {
        let WirePod { metadata, spec, status } = wire;
        let stamp = Stamp {
            namespace: metadata.namespace.clone(),
            name: metadata.name.clone(),
            uid: None,
            version: metadata.resource_version.clone(),
        };
        let ended = matches!(status.phase.as_str(), "Succeeded" | "Failed");
        let bound = !spec.node_name.is_empty();
        let waits = !ended && !bound;
        let requests = if ended { Amounts::default() } else { spec.requests() };
        let ports = if ended { Box::default() } else { spec.ports() };
        let told = |condition: WireCondition| {
            Box::new(Told { reason: condition.reason, message: condition.message })
        };
        let is_told =
            |condition: &WireCondition| condition.type_ == "PodScheduled" && condition.status != "True";
        let devices = metadata.annotations.devices.clone().filter(|_| bound && !ended);
        let keeps_scheduler = waits || devices.is_some();
        let mut pod = Self {
            uid: metadata.uid.as_str().into(),
            namespace: metadata.namespace.as_str().into(),
            name: metadata.name.as_str().into(),
            scheduler: if keeps_scheduler { spec.scheduler_name.clone() } else { Box::default() },
            node: bound.then(|| spec.node_name.as_str().into()),
            phase: if ended { Phase::Ended } else { Phase::Live },
            terminating: metadata.deletion_timestamp.is_some(),
            requests,
            ports,
            shared: metadata.annotations.shared.clone().filter(|_| devices.is_some()),
            devices,
            uses: Box::default(),
            member: None,
            ask: None,
            told: None,
        };
        let gang = metadata.annotations.gang.as_deref() == Some("true") && !ended;
        let index = if waits || gang { Some(metadata.index()) } else { None };
        if let (true, Some(Ok(index)), Some(map)) = (gang, &index, &metadata.annotations.map) {
            let owner = metadata.controller().map_or("", |owner| &owner.uid);
            let gang = format!("{}/{owner}/{}", metadata.namespace, crate::map::hash(map)).into();
            pod.member = Some(Box::new(Member { gang, index: *index }));
        }
        if let (true, Some(index)) = (waits, index) {
            pod.told = status.conditions.into_iter().find(is_told).map(told);
            pod.ask = Some(Box::new(ask(metadata, spec, index)));
        } else if !ended {
            pod.uses = claims(&metadata.name, spec.volumes);
        }
        (stamp, pod)
    }
}

impl WireMeta {
    fn controller(&self) -> Option<&WireOwner> {
        self.owner_references.iter().find(|owner| owner.controller)
    }

    fn owner(&self) -> Owner {
        Owner::of_kind(self.controller().map(|owner| owner.kind.as_str()))
    }

    fn index(&self) -> Result<u32, IndexError> {
        index::of(&Clues {
            name: &self.name,
            generated_name: self.generate_name.is_some(),
            owner: self.owner(),
            annotation: self.annotations.index.as_deref(),
            pod_index: self.labels.pod_index.as_deref(),
            completion_label: self.labels.completion_index.as_deref(),
            completion_annotation: self.annotations.completion_index.as_deref(),
        })
    }
}

fn ask(metadata: WireMeta, spec: PodSpec, index: Result<u32, IndexError>) -> Ask {
    let unsupported = unsupported(&spec).into();
    let stateful = metadata.owner() == Owner::StatefulSet;
    Ask {
        index,
        stateful,
        gated: !spec.scheduling_gates.is_empty(),
        priority: spec.priority,
        created: metadata.creation_timestamp.map_or(0, jiff::Timestamp::as_second),
        tolerations: spec.tolerations.into_iter().map(toleration).collect(),
        node_selector: spec.node_selector,
        affinity: spec.affinity.into_node_selector().map(Into::into),
        claims: claims(&metadata.name, spec.volumes),
        unsupported,
        map: metadata.annotations.map,
    }
}

fn toleration(wire: WireToleration) -> Toleration {
    let operator = match wire.operator.as_str() {
        "" | "Equal" => TolerationOperator::Equal,
        "Exists" => TolerationOperator::Exists,
        "Lt" => TolerationOperator::Lt,
        "Gt" => TolerationOperator::Gt,
        _ => TolerationOperator::Unknown,
    };
    Toleration { key: wire.key, operator, value: wire.value, effect: wire.effect }
}

fn claims(pod: &str, volumes: Vec<WireVolume>) -> Box<[Box<str>]> {
    let claim = |volume: WireVolume| match volume.persistent_volume_claim {
        Some(claim) => Some(claim.claim_name),
        // Its claim is made under this name.
        None => volume.ephemeral.map(|_| format!("{pod}-{}", volume.name).into()),
    };
    volumes.into_iter().filter_map(claim).collect()
}

impl PodSpec {
    /// The scheduler that the pod asks for.
    pub fn scheduler_name(&self) -> &str {
        &self.scheduler_name
    }

    /// Whether the pod asks a device plugin for GPUs.
    pub fn asks_plugin(&self) -> bool {
        self.requests().get(names::GPU_RESOURCE) > 0
    }

    /// What the pod needs of a node at its most: its containers and sidecars, or one init container with the sidecars that
    /// started before it, whichever is more; and the overhead of its runtime.
    fn requests(&self) -> Amounts {
        fn read(all: &BTreeMap<String, String>) -> Amounts {
            Amounts::read(all.iter().map(|(name, text)| (name.as_str(), text.as_str())))
        }
        let mut running = Amounts::default();
        let mut starting = Amounts::default();
        for container in &self.init_containers {
            let own = read(&container.resources.requests);
            if container.restart_policy.as_deref() == Some("Always") {
                running.add(&own);
                starting.raise_to(&running);
            } else {
                let mut now = running.clone();
                now.add(&own);
                starting.raise_to(&now);
            }
        }
        for container in &self.containers {
            running.add(&read(&container.resources.requests));
        }
        let mut all = running;
        all.raise_to(&starting);
        // What is asked for the pod as a whole goes before the sum of its containers.
        for (name, amount) in read(&self.resources.requests).iter() {
            all.set(name, amount);
        }
        all.add(&read(&self.overhead));
        all
    }

    fn ports(&self) -> Box<[Port]> {
        let sidecar = |container: &&WireContainer| container.restart_policy.as_deref() == Some("Always");
        let containers = self.containers.iter().chain(self.init_containers.iter().filter(sidecar));
        let port = |port: &WirePort| Port {
            protocol: if port.protocol.is_empty() { "TCP".into() } else { port.protocol.clone() },
            ip: port.host_ip.clone(),
            port: port.host_port,
        };
        containers
            .flat_map(|container| &container.ports)
            .filter(|port| port.host_port != 0)
            .map(port)
            .collect()
    }
}
