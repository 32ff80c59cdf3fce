//! Devices of maps beside those of a device plugin, which gives out the same cards without telling which.

use super::{Reason, Usage};
use crate::facts::{Node, Pod};
use crate::names::GPU_RESOURCE;

const PLUGIN: &str = "Devices";

/// What a device plugin on the node says against giving the pod devices; `ours` is how many devices of the node maps would
/// then have given out. `strict` suffers no device plugin at all.
pub(crate) fn gpus(node: &Node, usage: &Usage, pod: &Pod, ours: usize, strict: bool) -> Vec<Reason> {
    let served = node.plugin_gpus();
    let asked = pod.requests.get(GPU_RESOURCE);
    let foreign = usage.plugin_gpus();
    let mut reasons = Vec::new();
    if strict && served > 0 {
        reasons.push(Reason::new(
            PLUGIN,
            format!("1 node(s) served {GPU_RESOURCE} by a device plugin, which strict mode does not allow beside maps"),
        ));
    } else if asked > 0 && asked != served {
        reasons.push(Reason::new(
            PLUGIN,
            format!(
                "pod asks for {asked} {GPU_RESOURCE}, which a device plugin would choose, and for devices by its map; ask \
                 for one of both, or for all {served} of the node"
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
