//! What controllers read of a Pod.

use std::borrow::Cow;

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube::Resource;
use serde::Deserialize;

use super::light_meta;

/// A Pod as caches hold it.
#[derive(Clone, Debug, Deserialize)]
pub struct PodView {
    /// Name, labels, owners and the like.
    #[serde(deserialize_with = "light_meta")]
    pub metadata: ObjectMeta,
    /// Where and what it runs.
    #[serde(default)]
    pub spec: PodSpecView,
    /// How it is.
    #[serde(default)]
    pub status: PodStatusView,
}

/// Where and what a pod runs.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodSpecView {
    /// The Kubernetes node, once scheduled.
    pub node_name: Option<Box<str>>,
    /// The host name inside, if it is not the pod's name.
    pub hostname: Option<Box<str>>,
    /// The containers, without init containers.
    pub containers: Vec<ContainerView>,
}

/// A container's name and image.
#[derive(Clone, Debug, Deserialize)]
pub struct ContainerView {
    /// Its name.
    pub name: Box<str>,
    /// The image it should run.
    #[serde(default)]
    pub image: Option<Box<str>>,
}

/// How a pod is.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodStatusView {
    /// Pending, Running, Succeeded, Failed or Unknown.
    pub phase: Option<Box<str>>,
    /// Why, for example Evicted.
    pub reason: Option<Box<str>>,
    /// Its address.
    #[serde(rename = "podIP")]
    pub pod_ip: Option<Box<str>>,
    /// When the kubelet took it.
    pub start_time: Option<Time>,
    /// Its conditions.
    pub conditions: Vec<ConditionView>,
    /// Its containers' states.
    pub container_statuses: Vec<ContainerStatusView>,
    /// The states of its init containers and sidecars.
    pub init_container_statuses: Vec<ContainerStatusView>,
}

/// One condition of a pod or node.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ConditionView {
    /// Which one.
    #[serde(rename = "type")]
    pub type_: Box<str>,
    /// True, False or Unknown.
    pub status: Box<str>,
    /// A word for why.
    #[serde(default)]
    pub reason: Option<Box<str>>,
    /// The same as a sentence.
    #[serde(default)]
    pub message: Option<Box<str>>,
    /// Since when.
    #[serde(default)]
    pub last_transition_time: Option<Time>,
}

/// One container's state.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ContainerStatusView {
    /// Its name.
    pub name: Box<str>,
    /// The image that it runs.
    #[serde(default)]
    pub image: Option<Box<str>>,
    /// Which container it is: another one after each start.
    #[serde(default, rename = "containerID")]
    pub container_id: Option<Box<str>>,
    /// Whether it passes its readiness probe.
    #[serde(default)]
    pub ready: bool,
    /// Whether its startup probe has passed.
    #[serde(default)]
    pub started: Option<bool>,
    /// How often it was started again.
    #[serde(default)]
    pub restart_count: i32,
    /// What it does now.
    #[serde(default)]
    pub state: ContainerStateView,
    /// What it did before it was started again.
    #[serde(default)]
    pub last_state: ContainerStateView,
}

/// What a container does, or did: at most one of these.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct ContainerStateView {
    /// It runs.
    #[serde(default)]
    pub running: Option<RunningView>,
    /// It waits, for its image for example.
    #[serde(default)]
    pub waiting: Option<WaitingView>,
    /// It has ended.
    #[serde(default)]
    pub terminated: Option<TerminatedView>,
}

/// That a container runs.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunningView {
    /// Since when.
    #[serde(default)]
    pub started_at: Option<Time>,
}

/// Why a container waits.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct WaitingView {
    /// A word, for example ImagePullBackOff.
    #[serde(default)]
    pub reason: Option<Box<str>>,
    /// A sentence.
    #[serde(default)]
    pub message: Option<Box<str>>,
}

/// How a container ended.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TerminatedView {
    /// Its exit code.
    #[serde(default)]
    pub exit_code: i32,
    /// A word, for example OOMKilled.
    #[serde(default)]
    pub reason: Option<Box<str>>,
    /// The end of what it said, if it writes that down.
    #[serde(default)]
    pub message: Option<Box<str>>,
    /// When it had started.
    #[serde(default)]
    pub started_at: Option<Time>,
}

impl PodView {
    /// The condition of this type, if it is there.
    pub fn condition(&self, type_: &str) -> Option<&ConditionView> {
        self.status.conditions.iter().find(|condition| &*condition.type_ == type_)
    }

    /// Whether the pod is Ready.
    pub fn is_ready(&self) -> bool {
        self.condition("Ready").is_some_and(|condition| &*condition.status == "True")
    }

    /// Whether its deletion has begun.
    pub fn is_terminating(&self) -> bool {
        self.metadata.deletion_timestamp.is_some()
    }
}

impl Resource for PodView {
    type DynamicType = ();
    type Scope = <Pod as Resource>::Scope;

    fn kind((): &()) -> Cow<'_, str> {
        "Pod".into()
    }

    fn group((): &()) -> Cow<'_, str> {
        "".into()
    }

    fn version((): &()) -> Cow<'_, str> {
        "v1".into()
    }

    fn plural((): &()) -> Cow<'_, str> {
        "pods".into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}
