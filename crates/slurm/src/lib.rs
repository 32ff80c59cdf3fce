//! Everything Slurm, pure: names, states, configuration text, keys and tokens, REST wire and domain types.
//!
//! No I/O, no clock, no randomness: time and entropy are passed in. Nothing here knows Kubernetes.

pub mod conf;
mod hostlist;
mod memory;
mod node_name;
mod time_limit;
mod tres;

pub use hostlist::{HostList, HostListError};
pub use memory::{Memory, MemoryError};
pub use node_name::{NodeName, NodeNameError};
pub use time_limit::{TimeLimit, TimeLimitError};
pub use tres::{Tres, TresError};
