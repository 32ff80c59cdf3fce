//! Labels, annotations and other names on the objects of a Slinky NodeSet. Those of the original are spelled as it does, so that
//! either operator knows the other's pods.

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

/// Value of what is simply there.
pub const TRUE: &str = "true";

/// The finalizer of a NodeSet: its nodes are drained before it goes.
pub const FINALIZER: &str = "slinky.slurm.net/drain";
