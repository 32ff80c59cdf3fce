//! Slurm's configuration files: typed lines that print themselves, a reader for the same syntax, and a check.
//!
//! | File | To write it | To read it |
//! |---|---|---|
//! | slurm.conf | [`ConfFile`] with [`NodeLine`], [`NodeSetLine`], [`DownNodesLine`], [`PartitionLine`] | [`read`] |
//! | slurmdbd.conf, cgroup.conf, mpi.conf, job_container.conf | [`ConfFile`] | [`read`] |
//! | gres.conf | [`ConfFile`] with [`GresLine`] and [`AutoDetect`] | [`read`] |
//! | topology.conf | [`TreeTopology`], [`BlockTopology`] | [`read`] |
//! | topology.yaml | [`TopologyYaml`] | |
//! | plugstack.conf | [`Plugstack`] | [`read_plugstack`] |
//!
//! Printing never fails and never says more than was meant: each piece is checked when it is made (see [`Value`]), and
//! text of users comes in only through the reader ([`ConfFile::append`], [`user_pairs`]).

mod check;
mod file_kind;
mod gres_line;
mod known;
mod node_line;
mod partition_line;
mod plugstack;
mod reader;
mod text;
mod topology;
mod user_pairs;
mod value;

pub use check::{Check, DefinedNodes, Finding, Severity};
pub use file_kind::{FileKind, SlurmVersion};
pub use gres_line::{AutoDetect, GresLine};
pub use known::{known_keys, known_keys_behind};
pub use node_line::{DownNodesLine, Gres, Members, NodeLine, NodeLineState, NodeSetLine, SomeNodes};
pub use partition_line::{OverSubscribe, PartitionLine, PartitionNodes, PartitionState, PreemptMode};
pub use plugstack::{Plugin, Plugstack, PlugstackLine, Word, read_plugstack};
pub use reader::{
    Document, Line, MAX_BYTES, MAX_DEPTH, MAX_FILES, NoIncludes, Pair, Place, Resolve, SyntaxError, read,
};
pub use text::{Comment, ConfFile, IncludePath, Pairs};
pub use topology::{Below, BlockTopology, Switch, Topology, TopologyError, TopologyYaml, TreeTopology};
pub use user_pairs::{UserPairsError, user_pairs};
pub use value::{Key, Name, Problem, Value, ValueError};
#[doc(hidden)]
pub use value::{is_key, is_value};

#[cfg(test)]
mod tests;
