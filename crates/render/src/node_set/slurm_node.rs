//! What Slurm is told about a worker.

use std::collections::BTreeSet;

use slurm::conf::{Key, Name, Value, user_pairs};
use slurm::{Memory, key};

use super::Set;
use crate::amount;

/// Keys of a node's line that are ours.
const OURS: [&str; 3] = ["NodeName", "NodeHostname", "NodeAddr"];
/// Keys that say which CPUs a node has.
const CPUS: [&str; 8] =
    ["Boards", "CPUs", "CoresPerSocket", "CpuBind", "Procs", "Sockets", "SocketsPerBoard", "ThreadsPerCore"];

/// What stands behind `NodeName=` in slurm.conf.
pub(super) fn line(set: &Set<'_>, node: &str) -> String {
    let address = format!("{node}.{}.{}.svc", set.service(), set.cluster.names.namespace());
    let mut pairs = vec![format!("NodeHostname={node}"), format!("NodeAddr={address}")];
    pairs.extend(written(set, true));
    pairs.join(" ")
}

/// What a node that registers itself says besides its name, its address and its memory.
pub(super) fn registered(set: &Set<'_>) -> String {
    written(set, false).join(" ")
}

/// MiB of memory of a worker.
pub(super) fn memory(set: &Set<'_>) -> Option<Memory> {
    let memory = set.node_set.spec.slurmd.resources.get("memory")?;
    amount::whole(memory).map(Memory::from_bytes).filter(|memory| memory.mib() > 0)
}

/// Pairs of a node, those of the user last. What the user sets we leave out. A node that registers itself finds its CPUs, its
/// memory and its GPUs by itself; one with a line has what the line says, so the line says what the worker asks for.
fn written(set: &Set<'_>, with_hardware: bool) -> Vec<String> {
    let config = set.node_set.spec.node_config.as_ref();
    let text = config.map(|config| config.static_.as_str()).unwrap_or_default();
    // Text that Slurm would not understand is refused before, or else told as a problem of the NodeSet.
    let users = user_pairs("spec.nodeConfig.static", text, &OURS).unwrap_or_default();
    let taken: BTreeSet<String> = users.iter().map(|(key, _)| key.as_str().to_ascii_lowercase()).collect();
    let is_free = |keys: &[&str]| keys.iter().all(|key| !taken.contains(&key.to_ascii_lowercase()));
    let mut pairs: Vec<(Key, Value)> = Vec::new();
    if set.port() != set.cluster.ports.slurmd && is_free(&["Port"]) {
        pairs.push((key!("Port"), set.port().into()));
    }
    if with_hardware {
        hardware(set, &is_free, &mut pairs);
    }
    let features = config.and_then(|config| config.features.as_deref()).unwrap_or_default();
    let features: Vec<Name> =
        features.iter().filter_map(|feature| Name::new("spec.nodeConfig.features", feature).ok()).collect();
    if !features.is_empty() && is_free(&["Feature", "Features"]) {
        pairs.push((key!("Feature"), Value::list(features)));
    }
    pairs.extend(users);
    pairs.into_iter().map(|(key, value)| format!("{key}={value}")).collect()
}

fn hardware(set: &Set<'_>, is_free: &impl Fn(&[&str]) -> bool, pairs: &mut Vec<(Key, Value)>) {
    let spec = &set.node_set.spec;
    let whole = |name: &str| spec.slurmd.resources.get(name).and_then(amount::whole);
    if is_free(&CPUS)
        && let Some(cpus) = whole("cpu").and_then(|cpus| u32::try_from(cpus.max(1)).ok())
    {
        pairs.push((key!("CPUs"), cpus.into()));
    }
    if is_free(&["RealMemory"])
        && let Some(memory) = memory(set)
    {
        pairs.push((key!("RealMemory"), memory.into()));
    }
    if is_free(&["Gres"])
        && spec.gpu.is_some_and(|gpu| gpu.enabled)
        && let Some(gpus) = whole("nvidia.com/gpu").filter(|gpus| *gpus > 0)
        && let Ok(gres) = Value::new("spec.slurmd.resources", format!("gpu:{gpus}"))
    {
        pairs.push((key!("Gres"), gres));
    }
}
