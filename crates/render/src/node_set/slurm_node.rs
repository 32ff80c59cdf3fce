//! What Slurm is told about a worker.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::EnvVar;
use slurm::agent::env;
use slurm::conf::{Key, Name, Value, user_pairs};
use slurm::{HostList, Memory, key};

use super::Set;
use crate::{amount, labels};

/// Keys of a node's line that are ours.
const OURS: [&str; 3] = ["NodeName", "NodeHostname", "NodeAddr"];
/// Keys that say which CPUs a node has.
const CPUS: [&str; 8] =
    ["Boards", "CPUs", "CoresPerSocket", "CpuBind", "Procs", "Sockets", "SocketsPerBoard", "ThreadsPerCore"];

/// What stands behind `NodeName=` and the addresses in slurm.conf, the same for all workers of the set.
pub(super) fn line(set: &Set<'_>) -> String {
    let users = Users::of(set);
    let mut pairs = vec![];
    port(set, &users, &mut pairs);
    hardware(set, &users, &mut pairs);
    let features = users.all_features(set);
    if !features.is_empty() {
        pairs.push((key!("Feature"), Value::list(features)));
    }
    pairs.extend(users.pairs);
    text(&pairs)
}

/// The line of one node: that of the set, with the features that only some of its nodes have.
pub(super) fn line_of(line: &str, features: &[Name]) -> String {
    let mut pairs = match user_pairs(labels::NODE_LINE, line, &[]) {
        Ok(pairs) if !features.is_empty() => pairs,
        _ => return line.to_owned(),
    };
    let with = |known: &str| {
        let mut all: Vec<Name> = known.split(',').filter_map(name).collect();
        let more: Vec<Name> = features.iter().filter(|feature| !all.contains(feature)).cloned().collect();
        all.extend(more);
        Value::list(all)
    };
    match pairs.iter_mut().find(|(key, _)| *key == key!("Feature")) {
        Some((_, value)) => *value = with(value.as_str()),
        None => pairs.push((key!("Feature"), with(""))),
    }
    text(&pairs)
}

/// Features that a node has because a variable names it in a host list (`workerFeatures` of the cluster), sorted.
pub(super) fn features_by_host_list<'a>(
    node: &str,
    variables: impl IntoIterator<Item = &'a EnvVar>,
) -> Vec<Name> {
    let has = |hosts: &str| HostList::parse(hosts).is_ok_and(|hosts| hosts.contains(node));
    let of_it = variables.into_iter().filter(|var| var.value.as_deref().is_some_and(has));
    let features: BTreeSet<&str> =
        of_it.filter_map(|var| var.name.strip_prefix(env::FEATURE_PREFIX)).collect();
    features.into_iter().filter_map(name).collect()
}

/// What stands behind `NodeName=` in gres.conf, one line each. Lines that Slurm would not understand are told as a problem of the
/// NodeSet, and left out.
pub(super) fn gres_lines(set: &Set<'_>) -> String {
    let config = set.node_set.spec.node_config.as_ref();
    let lines = config.and_then(|config| config.gres_config.as_deref()).unwrap_or_default();
    let lines = lines.iter().filter_map(|line| user_pairs("spec.nodeConfig.gresConfig", line, &["NodeName"]).ok());
    lines.filter(|pairs| !pairs.is_empty()).map(|pairs| text(&pairs)).collect::<Vec<_>>().join("\n")
}

/// What a node that registers itself says besides its name, its address, its features and its memory. It finds CPUs and GPUs
/// by itself.
pub(super) fn registered(set: &Set<'_>) -> String {
    let users = Users::of(set);
    let mut pairs = vec![];
    port(set, &users, &mut pairs);
    pairs.extend(users.pairs);
    text(&pairs)
}

/// Features of a node that registers itself. The name of its NodeSet is one of them: partitions refer to it.
pub(super) fn features(set: &Set<'_>) -> BTreeSet<String> {
    let users = Users::of(set).all_features(set);
    users.iter().map(|name| name.as_str().to_owned()).chain([set.name.to_owned()]).collect()
}

fn text(pairs: &[(Key, Value)]) -> String {
    pairs.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(" ")
}

/// MiB of memory of a worker.
pub(super) fn memory(set: &Set<'_>) -> Option<Memory> {
    let memory = set.node_set.spec.slurmd.resources.get("memory")?;
    amount::whole(memory).map(Memory::from_bytes).filter(|memory| memory.mib() > 0)
}

/// What the user wrote for the nodes of a set (`nodeConfig.static`). It wins over what we would say.
struct Users {
    pairs: Vec<(Key, Value)>,
    features: Vec<Name>,
}

impl Users {
    fn of(set: &Set<'_>) -> Self {
        let config = set.node_set.spec.node_config.as_ref();
        let text = config.map(|config| config.static_.as_str()).unwrap_or_default();
        // Text that Slurm would not understand is refused before, or else told as a problem of the NodeSet.
        let pairs = user_pairs("spec.nodeConfig.static", text, &OURS).unwrap_or_default();
        let (features, pairs): (Vec<_>, Vec<_>) = pairs
            .into_iter()
            .partition(|(key, _)| ["feature", "features"].contains(&&*key.as_str().to_ascii_lowercase()));
        let features = features.iter().flat_map(|(_, value)| value.as_str().split(',')).filter_map(name);
        Self { features: features.collect(), pairs }
    }

    /// Whether the user set none of these keys.
    fn leave(&self, keys: &[&str]) -> bool {
        let is = |key: &Key| keys.iter().any(|other| key.as_str().eq_ignore_ascii_case(other));
        !self.pairs.iter().any(|(key, _)| is(key))
    }

    /// Features of both fields, each once.
    fn all_features(&self, set: &Set<'_>) -> Vec<Name> {
        let config = set.node_set.spec.node_config.as_ref();
        let listed = config.and_then(|config| config.features.as_deref()).unwrap_or_default();
        let mut features: Vec<Name> = listed.iter().filter_map(|feature| name(feature)).collect();
        for feature in &self.features {
            if !features.contains(feature) {
                features.push(feature.clone());
            }
        }
        features
    }
}

fn name(feature: &str) -> Option<Name> {
    Name::new("spec.nodeConfig.features", feature).ok()
}

fn port(set: &Set<'_>, users: &Users, pairs: &mut Vec<(Key, Value)>) {
    if set.port() != set.cluster.ports.slurmd && users.leave(&["Port"]) {
        pairs.push((key!("Port"), set.port().into()));
    }
}

/// What the worker asks for. A node has what its line says, whatever slurmd finds.
fn hardware(set: &Set<'_>, users: &Users, pairs: &mut Vec<(Key, Value)>) {
    let spec = &set.node_set.spec;
    let whole = |name: &str| spec.slurmd.resources.get(name).and_then(amount::whole);
    if users.leave(&CPUS)
        && let Some(cpus) = whole("cpu").and_then(|cpus| u32::try_from(cpus.max(1)).ok())
    {
        pairs.push((key!("CPUs"), cpus.into()));
    }
    if users.leave(&["RealMemory"])
        && let Some(memory) = memory(set)
    {
        pairs.push((key!("RealMemory"), memory.into()));
    }
    if users.leave(&["Gres"])
        && spec.gpu.is_some_and(|gpu| gpu.enabled)
        && let Some(gpus) = whole("nvidia.com/gpu").filter(|gpus| *gpus > 0)
        && let Ok(gres) = Value::new("spec.slurmd.resources", format!("gpu:{gpus}"))
    {
        pairs.push((key!("Gres"), gres));
    }
}
