//! What is known of volumes: claims, the volumes that they are bound to, and the classes that make volumes.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::wire::WireSelector;
use super::{Facts, Selector, Stamp};
use crate::names::SELECTED_NODE;

/// The annotation that says that a claim's binding is complete.
const BIND_COMPLETED: &str = "pv.kubernetes.io/bind-completed";
/// The provisioner of classes whose volumes somebody makes by hand.
const NO_PROVISIONER: &str = "kubernetes.io/no-provisioner";

/// A PersistentVolumeClaim.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Claim {
    /// The volume that it is bound to.
    pub volume: Option<Box<str>>,
    /// Its class.
    pub class: Option<Box<str>>,
    /// The node on which its volume is to be made.
    pub selected_node: Option<Box<str>>,
    /// Whether its deletion has begun.
    pub terminating: bool,
    /// Whether one pod at most may use it (`ReadWriteOncePod`).
    pub one_pod: bool,
}

/// A PersistentVolume: where it can be used. None: everywhere.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Volume(pub Option<Selector>);

/// A StorageClass.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Class {
    /// Whether its volumes are made only when a pod says where.
    pub waits: bool,
    /// Whether somebody makes volumes of it at all.
    pub provisions: bool,
}

/// A claim as it comes over the wire.
#[derive(Deserialize)]
pub struct WireClaim {
    #[serde(default)]
    metadata: WireMeta,
    #[serde(default)]
    spec: WireClaimSpec,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct WireMeta {
    #[serde(default)]
    name: String,
    #[serde(default)]
    namespace: String,
    uid: Option<String>,
    resource_version: Option<String>,
    #[serde(default)]
    annotations: BTreeMap<String, Box<str>>,
    deletion_timestamp: Option<serde::de::IgnoredAny>,
}

impl WireMeta {
    fn stamp(&self) -> Stamp {
        Stamp {
            namespace: self.namespace.clone(),
            name: self.name.clone(),
            uid: self.uid.clone(),
            version: self.resource_version.clone(),
        }
    }
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct WireClaimSpec {
    volume_name: Box<str>,
    storage_class_name: Option<Box<str>>,
    access_modes: Vec<String>,
}

impl Facts for Claim {
    type Wire = WireClaim;

    fn take(mut wire: WireClaim) -> (Stamp, Self) {
        let stamp = wire.metadata.stamp();
        let bound =
            wire.metadata.annotations.contains_key(BIND_COMPLETED) && !wire.spec.volume_name.is_empty();
        let claim = Self {
            volume: bound.then_some(wire.spec.volume_name),
            class: wire.spec.storage_class_name.filter(|class| !class.is_empty()),
            selected_node: wire.metadata.annotations.remove(SELECTED_NODE),
            terminating: wire.metadata.deletion_timestamp.is_some(),
            one_pod: wire.spec.access_modes.iter().any(|mode| mode == "ReadWriteOncePod"),
        };
        (stamp, claim)
    }
}

/// A volume as it comes over the wire.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WireVolume {
    #[serde(default)]
    metadata: WireMeta,
    #[serde(default)]
    spec: WireVolumeSpec,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct WireVolumeSpec {
    node_affinity: Option<WireVolumeAffinity>,
}

#[derive(Deserialize)]
struct WireVolumeAffinity {
    required: Option<WireSelector>,
}

impl Facts for Volume {
    type Wire = WireVolume;

    fn take(wire: WireVolume) -> (Stamp, Self) {
        let stamp = wire.metadata.stamp();
        (stamp, Self(wire.spec.node_affinity.and_then(|affinity| affinity.required).map(Into::into)))
    }
}

/// A class as it comes over the wire.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WireClass {
    #[serde(default)]
    metadata: WireMeta,
    #[serde(default)]
    provisioner: String,
    volume_binding_mode: Option<String>,
}

impl Facts for Class {
    type Wire = WireClass;

    fn take(wire: WireClass) -> (Stamp, Self) {
        let stamp = wire.metadata.stamp();
        let class = Self {
            waits: wire.volume_binding_mode.as_deref() == Some("WaitForFirstConsumer"),
            provisions: wire.provisioner != NO_PROVISIONER,
        };
        (stamp, class)
    }
}
