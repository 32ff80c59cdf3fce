//! The variables that containers get.

use serde_json::{Value, json};

use super::Config;
use super::shape::{Shape, clues_of};
use crate::index;
use crate::map::{Map, Mode, Naming};
use crate::names::{CUDA_DEVICE_ORDER, CUDA_VISIBLE_DEVICES, DEVICES, NVIDIA_VISIBLE_DEVICES, PCI_BUS_ID};
use kube::core::DynamicObject;

/// What becomes of a variable that a container already has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Existing {
    /// Ours takes its place.
    Override,
    /// It stays.
    Keep,
    /// The pod is refused.
    Deny,
}

/// How containers get to their devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceMode {
    /// CUDA sees the devices that its variable names; the container may hold more.
    Env,
    /// NVIDIA's container runtime mounts the devices, and no others.
    Runtime,
}

/// A variable as every container shall have it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Wanted {
    pub(super) name: &'static str,
    /// Its entry in `env`; none if no container shall have it.
    pub(super) entry: Option<Value>,
}

impl Wanted {
    fn literal(name: &'static str, value: &str) -> Self {
        Self { name, entry: Some(json!({ "name": name, "value": value })) }
    }

    /// From the annotation that the scheduler writes when it binds the pod. A pod that it never bound has no device.
    fn late_bound(name: &'static str) -> Self {
        let path = format!("metadata.annotations['{DEVICES}']");
        let source = json!({ "fieldRef": { "apiVersion": "v1", "fieldPath": path } });
        Self { name, entry: Some(json!({ "name": name, "valueFrom": source })) }
    }

    /// Whether an entry of `env` comes to the same. The API server fills in defaults, and leaves an empty value out.
    pub(super) fn is(&self, found: &Value) -> bool {
        let Some(wanted) = &self.entry else { return false };
        let (ours, theirs) = (&wanted["valueFrom"]["fieldRef"], &found["valueFrom"]["fieldRef"]);
        if ours.is_null() {
            let same =
                wanted["value"].as_str().unwrap_or_default() == found["value"].as_str().unwrap_or_default();
            return found["valueFrom"].is_null() && same;
        }
        let version = &theirs["apiVersion"];
        let plain = found["value"].as_str().is_none_or(str::is_empty);
        plain && (version.is_null() || version == "v1") && ours["fieldPath"] == theirs["fieldPath"]
    }
}

/// What the containers of a pod shall have. `pod` is the pod itself where it is known, and none for a template.
pub(super) fn wanted(config: &Config, shape: &Shape<'_>, pod: Option<&DynamicObject>) -> Vec<Wanted> {
    // Nothing of the map is needed where the scheduler's word is taken for all devices.
    let map = if config.mode == Mode::Compat || config.devices == DeviceMode::Runtime {
        Map::parse(shape.map().unwrap_or_default(), config.mode).unwrap_or_default()
    } else {
        Map::default()
    };
    let devices = |name| match literal(config, shape, pod, &map) {
        Some(value) => Wanted::literal(name, &value),
        None => Wanted::late_bound(name),
    };
    let order = Wanted::literal(CUDA_DEVICE_ORDER, PCI_BUS_ID);
    match config.devices {
        DeviceMode::Env => vec![order, devices(CUDA_VISIBLE_DEVICES)],
        DeviceMode::Runtime => {
            // The runtime mounts the devices and numbers them anew from 0, so the node's indices would hide them again. Uuids stay.
            let numbered = map.is_empty()
                || map.entries().any(|(_, entry)| {
                    entry
                        .claims
                        .iter()
                        .any(|claim| matches!(claim.device.naming(), Naming::Index | Naming::Opaque))
                });
            let cuda = if numbered {
                Wanted { name: CUDA_VISIBLE_DEVICES, entry: None }
            } else {
                devices(CUDA_VISIBLE_DEVICES)
            };
            vec![order, cuda, devices(NVIDIA_VISIBLE_DEVICES)]
        }
    }
}

/// The devices of this very pod, in compat mode and where its index is known; as they stand in the map.
fn literal(config: &Config, shape: &Shape<'_>, pod: Option<&DynamicObject>, map: &Map) -> Option<String> {
    if config.mode != Mode::Compat {
        return None;
    }
    let index = index::of(&clues_of(pod?, shape)).ok()?;
    map.entry(index).map(|entry| entry.visible_devices().to_string())
}
