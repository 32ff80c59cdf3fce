//! What is known of a pod.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Amounts, Name, Selector, Uid};
use crate::index::IndexError;

/// How far a pod is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// It has not ended.
    Live,
    /// It has, and holds nothing any more.
    Ended,
}

/// A port of the node that a pod takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Port {
    /// `TCP`, `UDP` or `SCTP`.
    pub protocol: Box<str>,
    /// The address; empty for all.
    pub ip: Box<str>,
    /// The port.
    pub port: u16,
}

impl Port {
    /// Whether a pod with one and a pod with the other cannot be on one node.
    pub fn conflicts(&self, other: &Self) -> bool {
        let everywhere = |port: &Self| port.ip.is_empty() || &*port.ip == "0.0.0.0";
        self.port == other.port
            && self.protocol == other.protocol
            && (everywhere(self) || everywhere(other) || self.ip == other.ip)
    }
}

/// How a toleration compares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TolerationOperator {
    /// The taint has this value.
    Equal,
    /// The taint has any value.
    Exists,
    /// The taint's value is a smaller whole number than this.
    Lt,
    /// The taint's value is a larger whole number than this.
    Gt,
    /// Something that we do not know: it tolerates nothing.
    Unknown,
}

/// A taint that a pod does not mind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Toleration {
    /// The taint's key; empty for all.
    pub key: Box<str>,
    /// How it compares.
    pub operator: TolerationOperator,
    /// With what.
    pub value: Box<str>,
    /// The taint's effect; empty for all.
    pub effect: Box<str>,
}

/// What a pod's condition `PodScheduled` says while it is not bound.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    /// A word.
    pub reason: Box<str>,
    /// A sentence.
    pub message: Box<str>,
}

/// What a pod that waits for a node asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ask {
    /// The annotation with its map.
    pub map: Option<Box<str>>,
    /// Its index, or why it has none.
    pub index: Result<u32, IndexError>,
    /// Whether a StatefulSet did.
    pub stateful: bool,
    /// Whether something must happen before it may be scheduled.
    pub gated: bool,
    /// The higher goes first.
    pub priority: i32,
    /// Seconds since the epoch.
    pub created: i64,
    /// What it does not mind.
    pub tolerations: Box<[Toleration]>,
    /// Labels that the node must have.
    pub node_selector: BTreeMap<Box<str>, Box<str>>,
    /// Terms of which the node must match one.
    pub affinity: Option<Selector>,
    /// The claims whose volumes it mounts.
    pub claims: Box<[Box<str>]>,
    /// The fields of it that we cannot do justice to.
    pub unsupported: Box<[&'static str]>,
}

/// That all members of a map are to be placed together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Which gang: the same for all pods of one owner with one map.
    pub gang: Arc<str>,
    /// Its index in the map.
    pub index: u32,
}

/// What is known of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pod {
    /// Its uid.
    pub uid: Uid,
    /// Its namespace.
    pub namespace: Box<str>,
    /// Its name.
    pub name: Box<str>,
    /// The scheduler it asks for. Empty where that does not matter: a bound pod without devices.
    pub scheduler: Box<str>,
    /// The node that it is bound to.
    pub node: Option<Name>,
    /// Whether it has ended.
    pub phase: Phase,
    /// Whether its deletion has begun.
    pub terminating: bool,
    /// What it asks for of a node.
    pub requests: Amounts,
    /// The ports of the node that it takes.
    pub ports: Box<[Port]>,
    /// The devices it was given, as its annotation says.
    pub devices: Option<Box<str>>,
    /// Which of them it shares, as its annotation says.
    pub shared: Option<Box<str>>,
    /// The claims whose volumes it uses, once it is bound.
    pub uses: Box<[Box<str>]>,
    /// The gang that it belongs to.
    pub member: Option<Box<Member>>,
    /// What it asks for; none once it is bound or has ended.
    pub ask: Option<Box<Ask>>,
    /// What its condition says; none once it is bound.
    pub told: Option<Box<Told>>,
}

impl Pod {
    /// Whether it holds what it was given: it is bound and has not ended.
    pub fn holds(&self) -> bool {
        self.node.is_some() && self.phase == Phase::Live
    }

    /// The claims whose volumes it mounts.
    pub fn claims(&self) -> &[Box<str>] {
        self.ask.as_ref().map_or(&self.uses, |ask| &ask.claims)
    }

    /// Whether it differs from another in anything but what its condition says.
    pub fn differs(&self, other: &Self) -> bool {
        let rest = |pod: &Self| (pod.node.clone(), pod.phase, pod.terminating);
        rest(self) != rest(other)
            || self.ask != other.ask
            || self.requests != other.requests
            || self.ports != other.ports
            || self.scheduler != other.scheduler
            || self.devices != other.devices
            || self.shared != other.shared
            || self.member != other.member
    }
}
