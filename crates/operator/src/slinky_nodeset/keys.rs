//! Labels, annotations and other names on the objects of a Slinky NodeSet. Those of the original are spelled as it does, so that
//! either operator knows the other's pods.

use crate::workers::{CordonKeys, Keys};

/// Label of a pod: its name. Every worker pod of either operator has it, so this is how pods are watched.
pub const POD_NAME: &str = "nodeset.slinky.slurm.net/pod-name";
/// Label of a pod: its ordinal.
pub const POD_INDEX: &str = "nodeset.slinky.slurm.net/pod-index";
/// Label of a pod: its host name, which is the name of its Slurm node.
pub const POD_HOSTNAME: &str = "nodeset.slinky.slurm.net/pod-hostname";
/// Label of a pod and of a ControllerRevision: the hash of what the pod was made from.
pub const HASH: &str = "controller.kubernetes.io/hash";
/// Label of a pod that the set's PodDisruptionBudget selects.
pub const PROTECTED: &str = "nodeset.slinky.slurm.net/pod-protect";

/// Annotation of a pod: `true` drains its Slurm node.
pub const CORDON: &str = "nodeset.slinky.slurm.net/pod-cordon";
/// Annotation of a pod beside [`CORDON`]: that one is ours, not a user's, and we take it back.
pub const CORDON_BY: &str = "nodeset.slinky.slurm.net/pod-cordon-by";
/// Annotation of a pod: a number; those with a lower one leave first.
pub const DELETION_COST: &str = "nodeset.slinky.slurm.net/pod-deletion-cost";
/// Annotation of a pod: when the last of its jobs must have ended.
pub const DEADLINE: &str = "nodeset.slinky.slurm.net/pod-deadline";

/// The finalizer of a NodeSet: its nodes are drained before it goes.
pub const FINALIZER: &str = "slinky.slurm.net/drain";

/// Annotation of a Kubernetes node: why it is cordoned.
pub const NODE_CORDON_REASON: &str = "nodeset.slinky.slurm.net/node-cordon-reason";
/// Annotation of a pod whose images were changed in place: the containers that ran before.
pub const IN_PLACE: &str = "nodeset.slinky.slurm.net/in-place";

/// The same, as [`crate::workers`] takes them.
pub static OF_PODS: Keys = Keys {
    hash: HASH,
    protect: PROTECTED,
    deadline: DEADLINE,
    in_place: IN_PLACE,
    cordon: Some(CordonKeys { cordoned: CORDON, ours: CORDON_BY }),
    deletion_cost: Some(DELETION_COST),
    cordon_reasons: &[NODE_CORDON_REASON],
    budget_suffix: "-workers",
};
