//! What the core knows of objects: no more than it needs, decoded straight from their JSON.
//!
//! A pod that is bound and has no device keeps its name, node, requests and host ports; what placing needs is there only
//! until it is placed.

mod amounts;
mod claim;
mod node;
mod pod;
pub(crate) mod select;
mod unsupported;
mod wire;

pub use amounts::Amounts;
pub use claim::{Claim, Class, Volume};
pub use node::{Effect, Node, Taint};
pub use pod::{Ask, Member, Phase, Pod, Port, Told, Toleration, TolerationOperator};
pub use select::{Operator, Requirement, Selector, Term};
pub use unsupported::unsupported;
pub use wire::PodSpec;

/// The name of a node, or what a map calls it.
pub type Name = std::sync::Arc<str>;
/// The uid of a pod.
pub type Uid = std::sync::Arc<str>;

/// The name and version of an object, beside its facts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stamp {
    /// Its namespace; empty for none.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its uid, where the facts do not hold it.
    pub uid: Option<String>,
    /// Its version.
    pub version: Option<String>,
}

/// What is known of a kind of object, and how it comes over the wire.
pub trait Facts: Sized {
    /// What is read of the JSON.
    type Wire: serde::de::DeserializeOwned;

    /// What is kept of it.
    fn take(wire: Self::Wire) -> (Stamp, Self);
}

/// Reads facts straight from the JSON of an object.
macro_rules! deserialize_facts {
    ($($facts:ty),*) => {$(
        impl<'de> serde::Deserialize<'de> for $facts {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let wire = <<Self as Facts>::Wire as serde::Deserialize>::deserialize(deserializer)?;
                Ok(<Self as Facts>::take(wire).1)
            }
        }
    )*};
}

deserialize_facts!(Pod, Node, Claim, Volume, Class);
