//! What a pod that cannot be placed waits for.

use std::sync::Arc;

use crate::facts::Name;
use crate::filter::WaitsFor;
use crate::map::Device;

/// What a pod that cannot be placed waits for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Key {
    /// A change of a node that maps call so.
    Node(Name),
    /// That a pod leaves a node.
    Room(Name),
    /// That a device of a node becomes free.
    Device(Name, Device),
    /// A change of volumes.
    Volumes(WaitsFor),
    /// A change among the members of a gang.
    Gang(Arc<str>),
}

impl Key {
    /// What changed, as metrics name it.
    pub(super) fn event(&self) -> &'static str {
        match self {
            Self::Node(_) => "NodeUpdate",
            Self::Room(_) | Self::Device(..) => "AssignedPodDelete",
            Self::Volumes(WaitsFor::Claim(_)) => "PvcUpdate",
            Self::Volumes(WaitsFor::Volume(_)) => "PvUpdate",
            Self::Volumes(WaitsFor::Class(_)) => "StorageClassUpdate",
            Self::Gang(_) => "GangUpdate",
        }
    }
}
