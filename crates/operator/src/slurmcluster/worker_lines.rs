//! What Slurm's files say of workers. It comes from the pods that exist and from what each of them was made of, never from
//! what a NodeSet asks for: Slurm fails the jobs of a node that it does not find in its files any more, and of one whose CPUs
//! or GRES changed (law, rule 4).

use std::collections::BTreeMap;
use std::sync::Arc;

use api::nebius::NodeSet;
use engine::view::PodView;
use kube::ResourceExt as _;
use render::{NodeSetFacts, WorkerFacts, labels};
use slurm::NodeName;

use crate::nodeset::slurm_node;
use crate::owner::{annotation, set_of_pod};
use crate::planted::planted;

const SLURMD: &str = "slurmd";

/// The NodeSets, and their pods as they are. A set that is gone, that cannot be read any more, or that names another cluster now
/// stays here as long as it has pods in this one.
pub fn of_pods<'a>(
    sets: impl Iterator<Item = &'a NodeSet>,
    pods: impl Iterator<Item = &'a Arc<PodView>>,
) -> BTreeMap<String, NodeSetFacts> {
    let facts = |set: &NodeSet| NodeSetFacts {
        gpu: set.spec.gpu.is_some_and(|gpu| gpu.enabled),
        workers: Vec::new(),
    };
    let sets: Vec<&NodeSet> = sets.collect();
    let mut all: BTreeMap<String, NodeSetFacts> =
        sets.iter().map(|set| (set.name_any(), facts(set))).collect();
    let mut pods: Vec<&Arc<PodView>> = pods.collect();
    pods.sort_by_key(|pod| ordinal(&pod.name_any()));
    for pod in pods {
        let Some(name) = set_of_pod(&**pod) else { continue };
        if planted!(LinesFromReplicas)
            && sets.iter().any(|set| {
                set.name_any() == name
                    && ordinal(&pod.name_any()).map(i64::from) >= Some(set.spec.replicas.into())
            })
        {
            continue;
        }
        if planted!(LeavesBeforeItsPod) && pod.is_terminating() {
            continue;
        }
        let set = all.entry(name.to_owned()).or_default();
        set.gpu |= annotation(&**pod, labels::GPUS) == Some("true");
        set.workers.extend(worker(pod));
    }
    if planted!(LinesOfTheNewest) {
        for workers in all.values_mut().map(|set| &mut set.workers) {
            let newest = workers.last().and_then(|worker| worker.line.clone());
            workers.iter_mut().for_each(|worker| worker.line.clone_from(&newest));
        }
    }
    all
}

/// The number at the end of a worker's name.
pub(super) fn ordinal(pod: &str) -> Option<u32> {
    pod.rsplit_once('-')?.1.parse().ok()
}

/// A worker that Slurm can know; a pod whose name Slurm would not take cannot be one.
fn worker(pod: &PodView) -> Option<WorkerFacts> {
    let line = annotation(pod, labels::NODE_LINE)
        .and_then(|text| slurm::conf::user_pairs(labels::NODE_LINE, text, &[]).ok());
    let gres = annotation(pod, labels::GRES_LINES).unwrap_or_default();
    let slurmd = pod.status.container_statuses.iter().find(|status| &*status.name == SLURMD);
    Some(WorkerFacts {
        node: NodeName::new(slurm_node(pod)).ok()?,
        line,
        gres: gres.lines().map(String::from).collect(),
        address: pod.status.pod_ip.as_deref().and_then(|address| address.parse().ok()),
        registered: slurmd.is_some_and(|slurmd| slurmd.started == Some(true)),
    })
}

#[cfg(test)]
mod tests {
    use render::Defaults;
    use serde_json::{Value, json};

    use super::*;
    use crate::planted::{Bug, plant};
    use crate::slurmcluster::kept_nodes;

    /// A set of the user that asks for so many workers.
    fn set(replicas: i32) -> NodeSet {
        let text = include_str!("../../../../examples/api/slurm.nebius.ai/nodeset.yaml");
        let mut set: NodeSet = serde_saphyr::from_str(text).unwrap();
        (set.metadata.name, set.spec.replicas) = (Some("gpu".into()), replicas);
        set
    }

    fn pod(number: u32, line: &str, change: impl FnOnce(&mut Value)) -> Arc<PodView> {
        let mut pod = json!({
            "metadata": {
                "name": format!("gpu-{number}"),
                "labels": { labels::NODE_SET: "gpu" },
                "annotations": { labels::NODE_LINE: line },
            },
            "status": { "podIP": format!("10.0.0.{number}") },
        });
        change(&mut pod);
        Arc::new(serde_json::from_value(pod).unwrap())
    }

    fn cluster() -> render::ValidatedCluster {
        let text = include_str!("../../../../examples/api/slurm.nebius.ai/slurmcluster.yaml");
        let mut cluster: api::nebius::SlurmCluster = serde_saphyr::from_str(text).unwrap();
        cluster.metadata.namespace = Some("ns".into());
        render::validate(&cluster, &Defaults::default()).unwrap()
    }

    /// Nodes with their lines: those of these pods, and those that are kept of the ones before.
    fn lines(set: &NodeSet, before: &[Arc<PodView>], pods: &[Arc<PodView>]) -> Vec<(String, String)> {
        let sets = || [set].into_iter();
        let before = kept_nodes::nodes_of(&of_pods(sets(), before.iter()));
        let mut now = of_pods(sets(), pods.iter());
        kept_nodes::keep(&mut now, &before, sets(), &cluster());
        let text = |worker: &WorkerFacts| {
            let line = worker.line.iter().flatten().map(|(key, value)| format!("{key}={value}"));
            (worker.node.to_string(), line.collect::<Vec<_>>().join(" "))
        };
        now.values().flat_map(|set| &set.workers).map(text).collect()
    }

    /// A set that was made smaller and given other workers. One of those that ran before terminates, one waits for its job, and
    /// one is of the new kind.
    fn world() -> (NodeSet, Vec<Arc<PodView>>) {
        let new = pod(0, "CPUs=8", |_| {});
        let waits = pod(1, "CPUs=4", |_| {});
        let terminates = pod(2, "CPUs=4 Gres=gpu:1", |pod| {
            pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
        });
        (set(1), vec![new, waits, terminates])
    }

    /// Law 4 for this world.
    fn holds() -> Result<(), String> {
        let (set, pods) = world();
        let wanted = [("gpu-0", "CPUs=8"), ("gpu-1", "CPUs=4"), ("gpu-2", "CPUs=4 Gres=gpu:1")];
        let found = lines(&set, &pods, &pods);
        let same = found.iter().map(|(node, line)| (&**node, &**line)).eq(wanted);
        if same { Ok(()) } else { Err(format!("{found:?}")) }
    }

    #[test]
    fn every_pod_that_exists_has_the_line_that_it_was_made_with() {
        holds().unwrap();
        let (set, pods) = world();
        assert_eq!(
            lines(&set, &pods, &pods[..2]),
            [("gpu-0".into(), "CPUs=8".into()), ("gpu-1".into(), "CPUs=4".into())],
            "its pod is gone, and nobody wants another"
        );
    }

    #[test]
    fn planted_bugs_of_lines_are_found() {
        for bug in Bug::ALL {
            plant(Some(*bug));
            let found = holds();
            plant(None);
            assert!(found.is_err(), "{bug:?} was not found");
        }
    }
}
