//! Devices of maps beside those of a device plugin, which gives out the same cards without telling which.

use super::{Reason, Usage};
use crate::facts::{Amounts, Node, Pod};
use crate::names::GPU_RESOURCE;

const PLUGIN: &str = "Devices";

/// What a device plugin on the node says against giving the pod devices; `ours` is how many devices of the node maps would
/// then have given out. `strict` suffers no device plugin at all.
pub(crate) fn gpus(node: &Node, usage: &Usage, pod: &Pod, ours: usize, strict: bool) -> Vec<Reason> {
    let served = node.plugin_gpus();
    let (asked, whole) = (pod.requests.plugin_gpus(), pod.requests.get(GPU_RESOURCE));
    // Who has all whole cards has those of its map too.
    let all = asked == whole && whole == node.allocatable.get(GPU_RESOURCE);
    let foreign = usage.plugin_gpus();
    let mut reasons = Vec::new();
    let resource =
        |amounts: &Amounts| amounts.of_plugins().next().map_or(GPU_RESOURCE, |(name, _)| name).to_string();
    if strict && served > 0 {
        let resource = resource(&node.allocatable);
        reasons.push(Reason::new(
            PLUGIN,
            format!(
                "1 node(s) served {resource} by a device plugin, which strict mode does not allow beside maps"
            ),
        ));
    } else if asked > 0 && !all {
        let (resource, whole) = (resource(&pod.requests), node.allocatable.get(GPU_RESOURCE));
        reasons.push(Reason::new(
            PLUGIN,
            format!(
                "pod asks for {asked} {resource}, which a device plugin would choose, and for devices by its map; ask \
                 for one of both, or for all {whole} {GPU_RESOURCE} of the node"
            ),
        ));
    }
    let ours = i64::try_from(ours).unwrap_or(i64::MAX);
    if foreign > 0 && ours.saturating_add(foreign) > served {
        reasons.push(Reason::new(
            PLUGIN,
            format!(
                "1 Insufficient {GPU_RESOURCE}: pods of other schedulers have {foreign} of {served}, and maps would have {ours}"
            ),
        ));
    }
    reasons
}
