//! The GPUs that NVIDIA's driver shows in `/proc`. No library of NVIDIA's is needed for that.

use std::fs;
use std::path::Path;

use crate::map::Device;

/// A GPU as the driver shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gpu {
    /// Its place on the PCI bus.
    pub bus: String,
    /// Its uuid, `GPU-` and all.
    pub uuid: String,
    /// Whether its device file is there.
    pub has_device_file: bool,
}

/// All GPUs, sorted by their place on the bus, as `CUDA_DEVICE_ORDER=PCI_BUS_ID` has them; none without a driver.
pub(super) fn read(proc: &Path, dev: &Path) -> Option<Vec<Gpu>> {
    let folders = fs::read_dir(proc.join("driver/nvidia/gpus")).ok()?;
    let mut gpus: Vec<Gpu> = folders
        .filter_map(|folder| {
            let folder = folder.ok()?;
            let text = fs::read_to_string(folder.path().join("information")).ok()?;
            let value = |key: &str| {
                let line = text.lines().find_map(|line| line.strip_prefix(key))?;
                Some(line.trim().to_string())
            };
            let minor = value("Device Minor:");
            Some(Gpu {
                bus: folder.file_name().to_string_lossy().into_owned(),
                uuid: value("GPU UUID:").unwrap_or_default(),
                has_device_file: minor.is_some_and(|minor| dev.join(format!("nvidia{minor}")).exists()),
            })
        })
        .collect();
    gpus.sort_by(|one, other| one.bus.cmp(&other.bus));
    Some(gpus)
}

/// How real devices differ from those that were promised. `mounted`: the runtime mounted them, and no others.
pub(super) fn differences(promised: &[Device], gpus: &[Gpu], mounted: bool) -> Vec<String> {
    let known: Vec<&Device> =
        promised.iter().filter(|device| matches!(device, Device::Index(_) | Device::Gpu(_))).collect();
    let mut found = Vec::new();
    // Parts of cards are not to be seen here.
    if mounted && known.len() == promised.len() && gpus.len() != known.len() {
        let (seen, promised) = (gpus.len(), known.len());
        found.push(format!("{seen} GPUs are mounted, and {promised} was promised"));
        return found;
    }
    for device in known {
        let gpu = match device {
            Device::Index(index) if !mounted => gpus.get(usize::from(*index)),
            Device::Index(_) => continue,
            device => {
                let uuid = device.to_string();
                gpus.iter().find(|gpu| gpu.uuid.eq_ignore_ascii_case(&uuid))
            }
        };
        match gpu {
            None => found.push(format!(
                "device {device} was promised, and the driver shows {} GPUs without it",
                gpus.len()
            )),
            Some(gpu) if !gpu.has_device_file => found.push(format!(
                "device {device} was promised, and its file below /dev is missing ({}): the container runtime did not mount it",
                gpu.bus
            )),
            Some(_) => {}
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gpus_are_read_in_the_order_of_the_bus() {
        let dir = tempfile::tempdir().unwrap();
        let (proc, dev) = (dir.path().join("proc"), dir.path().join("dev"));
        fs::create_dir_all(&dev).unwrap();
        assert_eq!(read(&proc, &dev), None);
        for (bus, uuid, minor) in [("0000:81:00.0", "GPU-b", 0), ("0000:01:00.0", "GPU-a", 1)] {
            let folder = proc.join("driver/nvidia/gpus").join(bus);
            fs::create_dir_all(&folder).unwrap();
            let text = format!("Model: \t\t NVIDIA X\nGPU UUID: \t {uuid}\nDevice Minor: \t {minor}\n");
            fs::write(folder.join("information"), text).unwrap();
        }
        fs::write(dev.join("nvidia0"), "").unwrap();
        let gpus = read(&proc, &dev).unwrap();
        assert_eq!(gpus.iter().map(|gpu| gpu.uuid.as_str()).collect::<Vec<_>>(), ["GPU-a", "GPU-b"]);
        assert_eq!(gpus.iter().map(|gpu| gpu.has_device_file).collect::<Vec<_>>(), [false, true]);
    }
}
