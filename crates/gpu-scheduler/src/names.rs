//! Annotations, labels and other words that the scheduler and its users agree on.

/// The scheduler's own name, unless a value says otherwise: pods ask for it in `spec.schedulerName`.
pub const SCHEDULER: &str = "gpu-scheduler";

/// On a pod: which index goes to which node and devices, one line each.
pub const MAP: &str = "gpu-scheduling-map";
/// On a pod: its index, where neither labels nor the name tell it.
pub const INDEX: &str = "gpu-scheduling-index";
/// On a pod: `"true"` places all members of the map or none.
pub const GANG: &str = "gpu-scheduling-gang";
/// On a bound pod: the devices it was given, as `CUDA_VISIBLE_DEVICES` wants them. Written by the scheduler with the binding.
pub const DEVICES: &str = "gpu-scheduling-devices";
/// On a bound pod: the hash of the map by which it was placed. Written by the scheduler with the binding.
pub const MAP_HASH: &str = "gpu-scheduling-map-hash";
/// On a bound pod: for each device that it shares, how many may: `3=2`. Written by the scheduler with the binding.
pub const SHARED: &str = "gpu-scheduling-shared";
/// What the scheduler alone writes: users may neither set nor change these.
pub const ASSIGNMENT: [&str; 3] = [DEVICES, MAP_HASH, SHARED];

/// On a node: another name by which maps may call it.
pub const NODE_NAME_LABEL: &str = "gpu-node-name";

/// On a pod of a StatefulSet: its ordinal.
pub const POD_INDEX_LABEL: &str = "apps.kubernetes.io/pod-index";
/// On a pod of an Indexed Job, as label and as annotation: its completion index.
pub const COMPLETION_INDEX: &str = "batch.kubernetes.io/job-completion-index";

/// On a claim: the node on which its volume is to be made, as schedulers say it.
pub const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";

/// The extended resource by which other pods ask the device plugin for whole GPUs.
pub const GPU_RESOURCE: &str = "nvidia.com/gpu";

/// The environment variable that hides devices from CUDA.
pub const CUDA_VISIBLE_DEVICES: &str = "CUDA_VISIBLE_DEVICES";
/// The environment variable that says in which order CUDA counts devices.
pub const CUDA_DEVICE_ORDER: &str = "CUDA_DEVICE_ORDER";
/// The order of `nvidia-smi`, which the indices of maps follow.
pub const PCI_BUS_ID: &str = "PCI_BUS_ID";
/// The environment variable by which NVIDIA's container runtime mounts devices.
pub const NVIDIA_VISIBLE_DEVICES: &str = "NVIDIA_VISIBLE_DEVICES";
