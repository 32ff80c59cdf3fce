//! The checker: compares what a pod was promised with what it sees, and fails loudly when they differ.
//!
//! The promise is the annotation that the scheduler wrote with the binding, read from a downward API volume. The sight is the
//! environment, and where NVIDIA's driver is present the devices themselves.

mod annotations;
mod gpus;
mod run;

use crate::map::Device;
use crate::names::{CUDA_DEVICE_ORDER, CUDA_VISIBLE_DEVICES, DEVICES, NVIDIA_VISIBLE_DEVICES, PCI_BUS_ID};
pub use gpus::Gpu;
pub use run::{CheckError, Options, Places, run};

/// What a pod sees.
#[derive(Clone, Debug, Default)]
pub struct Sight {
    /// The node that it runs on.
    pub node: Option<String>,
    /// Its `CUDA_VISIBLE_DEVICES`.
    pub cuda: Option<String>,
    /// Its `NVIDIA_VISIBLE_DEVICES`.
    pub nvidia: Option<String>,
    /// Its `CUDA_DEVICE_ORDER`.
    pub order: Option<String>,
    /// The GPUs that the driver shows it, sorted by their place on the bus; none without a driver.
    pub gpus: Option<Vec<Gpu>>,
}

impl Sight {
    /// The line that the original logs.
    #[must_use]
    pub fn line(&self) -> String {
        let word = |value: &Option<String>| match value.as_deref() {
            None => "not-set".to_string(),
            Some("") => "empty".to_string(),
            Some(value) => value.to_string(),
        };
        format!("Node: {}, {CUDA_VISIBLE_DEVICES}: {}", word(&self.node), word(&self.cuda))
    }
}

/// How a pod's sight differs from what it was promised; empty if it does not.
#[must_use]
pub fn differences(promise: Option<&str>, sight: &Sight) -> Vec<String> {
    let Some(promise) = promise else {
        return vec![format!(
            "the pod has no annotation {DEVICES}: it was not bound by the GPU scheduler; check its schedulerName"
        )];
    };
    let mut found = Vec::new();
    let devices: Vec<Device> = promise
        .split(',')
        .map(str::trim)
        .filter(|device| !device.is_empty())
        .map(|device| Device::parse(device).unwrap_or_else(|_| Device::Opaque(device.into())))
        .collect();
    let mounted = sight.nvidia.as_deref() == Some(promise) && sight.cuda.is_none();
    match sight.cuda.as_deref() {
        Some(seen) if seen != promise => {
            found.push(format!("{CUDA_VISIBLE_DEVICES} is {seen:?}, and {promise:?} was promised"));
        }
        None if !mounted => found.push(format!(
            "{CUDA_VISIBLE_DEVICES} is not set, and {promise:?} was promised: the webhook was not asked when the pod was created"
        )),
        _ => {}
    }
    if sight.cuda.is_some()
        && let Some(seen) = &sight.nvidia
        && Device::parse(seen.split(',').next().unwrap_or_default()).is_ok()
        && seen != promise
    {
        found.push(format!("{NVIDIA_VISIBLE_DEVICES} is {seen:?}, and {promise:?} was promised"));
    }
    let numbered = devices.iter().any(|device| matches!(device, Device::Index(_)));
    if numbered && !mounted && sight.order.as_deref() != Some(PCI_BUS_ID) {
        let seen = sight.order.as_deref().unwrap_or("not set");
        found.push(format!(
            "{CUDA_DEVICE_ORDER} is {seen}: the numbers can mean other cards than those of nvidia-smi"
        ));
    }
    if let Some(gpus) = &sight.gpus {
        found.extend(gpus::differences(&devices, gpus, mounted));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const UUID: &str = "GPU-8932f937-d72c-4106-c12f-20bd9faed9f6";

    fn sight(cuda: Option<&str>) -> Sight {
        Sight {
            node: Some("node1".into()),
            cuda: cuda.map(str::to_string),
            order: Some(PCI_BUS_ID.into()),
            ..Sight::default()
        }
    }

    fn gpu(uuid: &str) -> Gpu {
        Gpu { bus: "0000:01:00.0".into(), uuid: uuid.into(), has_device_file: true }
    }

    #[test]
    fn the_line_is_the_originals() {
        assert_eq!(sight(Some("0,1")).line(), "Node: node1, CUDA_VISIBLE_DEVICES: 0,1");
        assert_eq!(sight(Some("")).line(), "Node: node1, CUDA_VISIBLE_DEVICES: empty");
        assert_eq!(Sight::default().line(), "Node: not-set, CUDA_VISIBLE_DEVICES: not-set");
    }

    #[test]
    fn a_promise_that_is_kept_has_no_differences() {
        assert!(differences(Some("0,1"), &sight(Some("0,1"))).is_empty());
        assert!(differences(Some(""), &sight(Some(""))).is_empty());
        let seen = Sight { gpus: Some(vec![gpu(UUID), gpu("GPU-other")]), ..sight(Some("1")) };
        assert!(differences(Some("1"), &seen).is_empty());
        let seen = Sight { gpus: Some(vec![gpu(UUID)]), order: None, ..sight(Some(UUID)) };
        assert!(differences(Some(UUID), &seen).is_empty());
        let mounted =
            Sight { nvidia: Some("2,3".into()), gpus: Some(vec![gpu("a"), gpu("b")]), ..sight(None) };
        assert!(differences(Some("2,3"), &mounted).is_empty());
        let all = Sight { nvidia: Some("all".into()), ..sight(Some("0")) };
        assert!(differences(Some("0"), &all).is_empty(), "the runtime mounts all, and CUDA sees the one");
    }

    #[test]
    fn each_way_to_break_a_promise_is_told() {
        let told = |promise: Option<&str>, sight: &Sight, words: &str| {
            let found = differences(promise, sight);
            assert!(found.len() == 1 && found[0].contains(words), "{words}: {found:?}");
        };
        told(None, &sight(Some("0")), "not bound by the GPU scheduler");
        told(Some("0,1"), &sight(Some("0")), "is \"0\", and \"0,1\" was promised");
        told(Some("0"), &sight(None), "is not set");
        told(Some("0"), &Sight { order: None, ..sight(Some("0")) }, "CUDA_DEVICE_ORDER");
        told(Some("0"), &Sight { nvidia: Some("3".into()), ..sight(Some("0")) }, "NVIDIA_VISIBLE_DEVICES");
        let two = Some(vec![gpu(UUID), gpu("GPU-other")]);
        told(Some("2"), &Sight { gpus: two.clone(), ..sight(Some("2")) }, "device 2");
        let strange = "GPU-00000000-d72c-4106-c12f-20bd9faed9f6";
        told(Some(strange), &Sight { gpus: two.clone(), ..sight(Some(strange)) }, strange);
        let lost = vec![Gpu { has_device_file: false, ..gpu(UUID) }];
        told(Some("0"), &Sight { gpus: Some(lost), ..sight(Some("0")) }, "/dev");
        let mounted = Sight { nvidia: Some("2".into()), gpus: two, ..sight(None) };
        told(Some("2"), &mounted, "2 GPUs are mounted, and 1 was promised");
    }
}
