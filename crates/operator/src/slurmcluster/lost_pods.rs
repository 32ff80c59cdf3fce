//! Workers that no cache shows: somebody took the labels from them by which pods are found.
//!
//! Until their NodeSet has given the labels back, their nodes stay in Slurm's files as they are: a node leaves only after its pod
//! is gone (law, rule 4), and that the caches do not show it does not say so.

use std::collections::BTreeSet;
use std::sync::Arc;

use engine::Key;
use engine::view::PodView;
use futures::{FutureExt as _, StreamExt as _, TryStreamExt as _, stream};
use render::{Names, labels};
use slurm::NodeName;

use super::kept_nodes::KeptNodes;
use super::live::Live;
use crate::context::Context;
use crate::error::Error;
use crate::nodeset::slurm_node;
use crate::owner::{label, set_of_pod};

/// Pods that are asked for at the same time.
const PARALLEL: usize = 8;

/// The pods of nodes that Slurm's files name and that no worker in `live` is. `gone` are nodes whose pods are known to be gone.
pub async fn find(
    context: &Context,
    names: &Names,
    live: &Live,
    before: &KeptNodes,
    gone: &mut BTreeSet<NodeName>,
) -> Result<Vec<Arc<PodView>>, Error> {
    let present: BTreeSet<String> = live.workers().map(|pod| slurm_node(pod)).collect();
    gone.retain(|node| !present.contains(node.as_str()) && before.contains_key(node));
    // Owned, or the compiler does not see that the future can be sent.
    let away: Vec<(NodeName, bool)> = before
        .keys()
        .filter(|node| !present.contains(node.as_str()))
        .map(|node| (node.clone(), gone.contains(node)))
        .collect();
    let found: Vec<(NodeName, Option<Arc<PodView>>)> = stream::iter(away)
        .map(|(node, is_gone)| asked(context, names, node, is_gone).boxed())
        .buffer_unordered(PARALLEL)
        .try_collect()
        .await?;
    let mut pods = Vec::new();
    for (node, pod) in found {
        match pod {
            Some(pod) => pods.push(pod),
            None => {
                gone.insert(node);
            }
        }
    }
    Ok(pods)
}

async fn asked(
    context: &Context,
    names: &Names,
    node: NodeName,
    is_gone: bool,
) -> Result<(NodeName, Option<Arc<PodView>>), Error> {
    let pod = pod_of(context, names, &node, is_gone).await?;
    Ok((node, pod))
}

/// The pod of a node, where it is there.
async fn pod_of(
    context: &Context,
    names: &Names,
    node: &NodeName,
    is_gone: bool,
) -> Result<Option<Arc<PodView>>, Error> {
    // Nodes of `slurmNodes.worker` have names of their own.
    let of_cluster =
        node.as_str().strip_prefix("worker-").map(|number| format!("{}-{number}", names.worker()));
    for name in of_cluster.into_iter().chain([node.to_string()]) {
        let key = Key::new(names.namespace(), &name);
        let pod = match context.caches.pods.get(&key) {
            Some(pod) => Some(pod),
            None if is_gone => None,
            None => engine::objects::get::<PodView>(&context.client, &key)
                .await
                .map_err(|error| Error::call(format!("pod {name} could not be looked for"), error))?
                .map(Arc::new),
        };
        if let Some(pod) = pod.filter(|pod| is_of(pod, names, node)) {
            return Ok(Some(pod));
        }
    }
    Ok(None)
}

/// Whether the pod is this node of this cluster, as far as it still tells.
fn is_of(pod: &PodView, names: &Names, node: &NodeName) -> bool {
    set_of_pod(pod).is_some()
        && slurm_node(pod) == node.as_str()
        && label(pod, labels::INSTANCE).is_none_or(|cluster| cluster == names.cluster())
}
