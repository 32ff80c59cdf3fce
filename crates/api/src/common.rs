//! Shapes that kinds of both groups share.

use std::borrow::Cow;

use k8s_openapi::api::core::v1::Volume;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize, Serializer};
use serde_json::Value;

/// A duration as Kubernetes writes it, such as `90s` or `1h30m`.
pub const DURATION: &str = r"^([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+$";

pub(crate) const fn yes() -> bool {
    true
}

/// What we add to the node sets of both groups for the sake of running jobs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct JobCare {
    /// How many digits the ordinals in the names of workers have at least: 3 makes `gpu-007`. Absent or 0 means no padding.
    /// It cannot be changed, because names of nodes would.
    #[schemars(range(min = 0, max = 8))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ordinal_padding: Option<i32>,
    /// Whether a PodDisruptionBudget guards workers with running jobs against eviction.
    #[serde(default = "yes")]
    pub workload_disruption_protection: bool,
    /// What happens to running jobs when this object is deleted. Absent means to wait for them without end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub drain_on_delete: Option<DrainOnDelete>,
}

impl Default for JobCare {
    fn default() -> Self {
        Self { ordinal_padding: None, workload_disruption_protection: true, drain_on_delete: None }
    }
}

/// How a node set ends when it is deleted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct DrainOnDelete {
    /// Whether the Slurm nodes are drained, and their jobs waited for, before the pods go. Off means that deleting the
    /// object ends running jobs.
    pub enabled: bool,
    /// How long to wait for running jobs, such as `2h`. Without it the wait has no end.
    #[schemars(regex(pattern = DURATION), length(max = 64))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deadline: Option<String>,
    /// What happens when the deadline has passed: `wait` goes on waiting and says so in a condition, `force` deletes the
    /// pods although jobs still run.
    pub on_deadline: OnDeadline,
}

impl Default for DrainOnDelete {
    fn default() -> Self {
        Self { enabled: true, deadline: None, on_deadline: OnDeadline::Wait }
    }
}

/// What happens when the deadline of a drain has passed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum OnDeadline {
    /// Go on waiting.
    #[default]
    Wait,
    /// Delete the pods although jobs still run.
    Force,
}

/// When a container image is pulled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum PullPolicy {
    /// Before each start.
    Always,
    /// Never; the image must be on the node already.
    Never,
    /// When the node does not have it.
    #[default]
    IfNotPresent,
}

/// Whether claims stay when the pods that use them go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum RetentionPolicy {
    /// The claims stay.
    #[default]
    Retain,
    /// The claims are deleted.
    Delete,
}

/// The source of a volume, as a pod has it, but without the name.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct VolumeSource(Volume);

impl VolumeSource {
    /// The volume of a pod with this source.
    #[must_use]
    pub fn into_volume(self, name: &str) -> Volume {
        Volume { name: name.to_owned(), ..self.0 }
    }

    /// The source; its name means nothing.
    pub const fn as_volume(&self) -> &Volume {
        &self.0
    }
}

impl From<Volume> for VolumeSource {
    fn from(volume: Volume) -> Self {
        Self(Volume { name: String::new(), ..volume })
    }
}

impl<'de> Deserialize<'de> for VolumeSource {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Volume::deserialize(deserializer).map(Self::from)
    }
}

impl Serialize for VolumeSource {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut value = serde_json::to_value(&self.0).map_err(serde::ser::Error::custom)?;
        if let Value::Object(fields) = &mut value {
            fields.remove("name");
        }
        value.serialize(serializer)
    }
}

impl JsonSchema for VolumeSource {
    // Named like Kubernetes' own type, so that it is treated as one.
    fn schema_name() -> Cow<'static, str> {
        "io.k8s.api.core.v1.VolumeSource".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let mut schema = Volume::json_schema(generator);
        if let Some(Value::Object(properties)) = schema.get_mut("properties") {
            properties.remove("name");
        }
        schema.remove("required");
        schema
    }
}

/// Any value: a field whose shape another project decides.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Open(pub Value);

impl JsonSchema for Open {
    fn schema_name() -> Cow<'static, str> {
        "Open".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        schemars::json_schema!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true })
    }
}
