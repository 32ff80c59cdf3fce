//! Labels and annotations of workers of `slurm.nebius.ai`, as users of the original know them where it has them.

use crate::workers::Keys;

/// Our finalizer on NodeSets: workers are drained before the set goes.
pub const FINALIZER: &str = "slurm.nebius.ai/drain";

/// Label of a worker's pod: its name.
pub const POD_NAME: &str = "statefulset.kubernetes.io/pod-name";
/// Label of a worker's pod: its ordinal.
pub const POD_INDEX: &str = "apps.kubernetes.io/pod-index";
/// Label of a worker's pod and of its revision: the hash of the revision.
pub const REVISION: &str = "controller-revision-hash";
/// Label of a worker's pod, `true`: it is not evicted.
pub const PROTECT: &str = "slurm.nebius.ai/pod-protect";

/// All of them.
pub static KEYS: Keys = Keys {
    hash: REVISION,
    protect: PROTECT,
    deadline: "slurm.nebius.ai/pod-deadline",
    in_place: "slurm.nebius.ai/containers-before",
    cordon: None,
    deletion_cost: None,
    cordon_reasons: &["slurm.nebius.ai/node-cordon-reason", "nodeset.slinky.slurm.net/node-cordon-reason"],
    budget_suffix: "-workers",
};
