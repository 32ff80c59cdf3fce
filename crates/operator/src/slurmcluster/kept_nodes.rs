//! Nodes that stay in Slurm's files while their pods are replaced.
//!
//! Slurm forgets all that it knows of a node that leaves slurm.conf: also who drained it, and why. So the line of a worker that
//! is only replaced stays as it was until the next pod has an address. A node that registers itself stays in topology.conf: it
//! takes jobs again at once, while outside of that file Slurm refuses them. Both go when nobody wants the worker any more.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};

use api::nebius::NodeSet;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt as _;
use render::{NodeSetFacts, ValidatedCluster, WorkerFacts};
use slurm::conf::{Key, NoIncludes, Value, read};
use slurm::{HostList, NodeName};

use super::worker_lines::ordinal;
use crate::context::Context;
use crate::error::Error;

/// Nodes that Slurm's files name, and what slurm.conf says of them besides names and addresses; `None` where they register
/// themselves.
pub type KeptNodes = BTreeMap<NodeName, Option<Vec<(Key, Value)>>>;

/// Where a node is whose pod has no address: nowhere (RFC 5737). slurmctld would wait for a name that it cannot resolve, and
/// forget the node; and the address of the last pod may be another worker's by now.
const NOWHERE: IpAddr = IpAddr::V4(Ipv4Addr::new(203, 0, 113, 1));

/// Keys that are not the pod's.
const OURS: [&str; 3] = ["NodeName", "NodeHostname", "NodeAddr"];

/// The nodes that the files name now.
pub async fn in_place(context: &Context, cluster: &ValidatedCluster) -> Result<KeptNodes, Error> {
    let names = cluster.names();
    let key = engine::Key::new(names.namespace(), &names.slurm_configs());
    if context.caches.config_maps.get(&key).is_none() {
        return Ok(KeptNodes::new());
    }
    let map: Option<ConfigMap> = engine::objects::get(&context.client, &key)
        .await
        .map_err(|error| Error::call(format!("ConfigMap {key} cannot be read"), error))?;
    let mut data = map.and_then(|map| map.data).unwrap_or_default();
    let mut file = |name| data.remove(name).unwrap_or_default();
    Ok(nodes_in(&file(render::slurm_files::SLURM_CONF), &file(render::slurm_files::TOPOLOGY_CONF)))
}

fn nodes_in(slurm_conf: &str, topology_conf: &str) -> KeptNodes {
    let is = |key: &Key, name: &str| key.as_str().eq_ignore_ascii_case(name);
    let document = read(render::slurm_files::TOPOLOGY_CONF, topology_conf, &mut NoIncludes);
    let lists = document.lines.into_iter().flat_map(|line| line.pairs).filter(|pair| is(&pair.key, "Nodes"));
    let lists = lists.filter_map(|pair| HostList::parse(pair.value.as_str()).ok());
    let mut nodes: KeptNodes = lists
        .flat_map(|list| list.names().filter_map(|name| NodeName::new(name).ok()).collect::<Vec<_>>())
        .map(|node| (node, None))
        .collect();
    let document = read(render::slurm_files::SLURM_CONF, slurm_conf, &mut NoIncludes);
    for line in document.lines {
        let Some(first) = line.pairs.first().filter(|pair| is(&pair.key, OURS[0])) else { continue };
        let Ok(node) = NodeName::new(first.value.as_str()) else { continue };
        let pairs = line.pairs.into_iter().filter(|pair| OURS.iter().all(|name| !is(&pair.key, name)));
        nodes.insert(node, Some(pairs.map(|pair| (pair.key, pair.value)).collect()));
    }
    nodes
}

/// The nodes that the files name with these facts.
pub fn nodes_of(sets: &BTreeMap<String, NodeSetFacts>) -> KeptNodes {
    let workers = sets.values().flat_map(|set| &set.workers).filter(|worker| worker.is_known());
    workers.map(|worker| (worker.node.clone(), worker.line.clone())).collect()
}

/// Keeps nodes that were there before: of pods that are not up yet, and of workers that are wanted and have no pod.
pub fn keep<'a>(
    sets: &mut BTreeMap<String, NodeSetFacts>,
    before: &KeptNodes,
    wanted: impl Iterator<Item = &'a NodeSet>,
    cluster: &ValidatedCluster,
) {
    let mut present: BTreeSet<NodeName> = BTreeSet::new();
    for worker in sets.values_mut().flat_map(|set| &mut set.workers) {
        match (&worker.line, before.get(&worker.node)) {
            (Some(_), Some(Some(_))) => worker.address = worker.address.or(Some(NOWHERE)),
            (None, Some(None)) => worker.registered = true,
            _ => {}
        }
        present.insert(worker.node.clone());
    }
    let away: Vec<_> = before.iter().filter(|(node, _)| !present.contains(*node)).collect();
    if away.is_empty() {
        return;
    }
    for set in wanted.filter(|set| set.metadata.deletion_timestamp.is_none()) {
        let Some(facts) = sets.get_mut(&set.name_any()) else { continue };
        // Nodes of `slurmNodes.worker` have names of their own.
        let name = set.name_any();
        let prefix = if name == cluster.names().worker() { "worker" } else { &name };
        let replicas = u32::try_from(set.spec.replicas).unwrap_or(0);
        let is_wanted = |node: &NodeName| {
            // Not the last number of the name: `gpu-big-1` is none of the set `gpu`.
            let rest = node.as_str().strip_prefix(prefix).and_then(|rest| rest.strip_prefix('-'));
            rest.and_then(|rest| rest.parse::<u32>().ok()).is_some_and(|ordinal| ordinal < replicas)
        };
        for (node, line) in away.iter().filter(|(node, _)| is_wanted(node)) {
            facts.workers.push(WorkerFacts {
                line: (*line).clone(),
                address: Some(NOWHERE),
                registered: true,
                ..WorkerFacts::new((*node).clone())
            });
        }
        facts.workers.sort_by_key(|worker| ordinal(worker.node.as_str()));
    }
}

#[cfg(test)]
mod tests {
    use slurm::conf::user_pairs;

    use super::*;

    const CONF: &str = "ClusterName=a\n\
        NodeName=gpu-0 NodeHostname=gpu-0 NodeAddr=10.0.0.1 CPUs=4 Feature=a,b\n\
        NodeName=gpu-1 NodeHostname=gpu-1 NodeAddr=10.0.0.2 CPUs=8\n\
        NodeName=gpu-big-0 NodeHostname=gpu-big-0 NodeAddr=10.0.0.3 CPUs=8\n\
        PartitionName=main Nodes=ALL\n\
        include custom_slurm.conf\n";
    const TOPOLOGY: &str = "SwitchName=unknown Nodes=gpu-[0-1,4],gpu-big-0\n";

    fn cluster() -> ValidatedCluster {
        let text = include_str!("../../../../examples/api/slurm.nebius.ai/slurmcluster.yaml");
        let mut cluster: api::nebius::SlurmCluster = serde_saphyr::from_str(text).unwrap();
        cluster.metadata.namespace = Some("ns".into());
        render::validate(&cluster, &render::Defaults::default()).unwrap()
    }

    fn set(replicas: i32) -> NodeSet {
        let text = include_str!("../../../../examples/api/slurm.nebius.ai/nodeset.yaml");
        let mut set: NodeSet = serde_saphyr::from_str(text).unwrap();
        (set.metadata.name, set.spec.replicas) = (Some("gpu".into()), replicas);
        set
    }

    fn worker(node: &str, line: &str, address: Option<&str>) -> WorkerFacts {
        WorkerFacts {
            line: Some(user_pairs("line", line, &[]).unwrap()),
            address: address.map(|address| address.parse().unwrap()),
            ..WorkerFacts::new(node.parse().unwrap())
        }
    }

    fn kept(workers: Vec<WorkerFacts>, replicas: i32) -> Vec<(String, String, String)> {
        let mut sets =
            BTreeMap::from([("gpu".to_owned(), NodeSetFacts { workers, ..NodeSetFacts::default() })]);
        keep(&mut sets, &nodes_in(CONF, TOPOLOGY), [set(replicas)].iter(), &cluster());
        let text = |worker: &WorkerFacts| {
            let line = worker.line.iter().flatten().map(|(key, value)| format!("{key}={value}"));
            let address = worker.address.map(|address| address.to_string()).unwrap_or_default();
            (worker.node.as_str().to_owned(), address, line.collect::<Vec<_>>().join(" "))
        };
        sets["gpu"].workers.iter().map(text).collect()
    }

    fn line(node: &str, address: &str, text: &str) -> (String, String, String) {
        (node.into(), address.into(), text.into())
    }

    #[test]
    fn a_worker_that_is_replaced_keeps_its_line_until_the_next_pod_has_an_address() {
        let other = || worker("gpu-1", "CPUs=8", Some("10.0.0.2"));
        let nowhere = NOWHERE.to_string();
        let stays = line("gpu-1", "10.0.0.2", "CPUs=8");
        assert_eq!(kept(vec![other()], 2), [line("gpu-0", &nowhere, "CPUs=4 Feature=a,b"), stays.clone()]);
        let next = worker("gpu-0", "CPUs=16", None);
        assert_eq!(kept(vec![next, other()], 2), [line("gpu-0", &nowhere, "CPUs=16"), stays.clone()]);
        let next = worker("gpu-0", "CPUs=16", Some("10.0.0.9"));
        assert_eq!(kept(vec![next, other()], 2), [line("gpu-0", "10.0.0.9", "CPUs=16"), stays]);
    }

    #[test]
    fn a_node_that_registers_itself_stays_known_while_its_pod_is_replaced() {
        let known = |workers, replicas| {
            let mut sets =
                BTreeMap::from([("gpu".to_owned(), NodeSetFacts { workers, ..NodeSetFacts::default() })]);
            keep(
                &mut sets,
                &nodes_in("", "SwitchName=unknown Nodes=gpu-[0-1]"),
                [set(replicas)].iter(),
                &cluster(),
            );
            let known = sets["gpu"].workers.iter().filter(|worker| worker.is_known());
            known.map(|worker| worker.node.as_str().to_owned()).collect::<Vec<_>>()
        };
        let new = |node: &str| WorkerFacts::new(node.parse().unwrap());
        assert_eq!(known(vec![], 2), ["gpu-0", "gpu-1"], "no pods yet");
        assert_eq!(known(vec![new("gpu-0"), new("gpu-1")], 2), ["gpu-0", "gpu-1"], "they start");
        assert_eq!(known(vec![new("gpu-0")], 1), ["gpu-0"], "a worker that nobody wants any more");
        assert_eq!(
            known(vec![new("gpu-0"), new("gpu-2")], 3),
            ["gpu-0", "gpu-1"],
            "one that Slurm never had"
        );
        assert_eq!(
            known(vec![worker("gpu-0", "CPUs=4", None)], 1),
            [""; 0],
            "a node that gets a line waits for its address"
        );
    }

    #[test]
    fn a_worker_that_nobody_wants_any_more_leaves_with_its_pod() {
        let first = || worker("gpu-0", "CPUs=4 Feature=a,b", Some("10.0.0.1"));
        assert_eq!(kept(vec![first()], 1).len(), 1);
        assert_eq!(kept(vec![], 0), []);
        // One that Slurm never knew waits for its address.
        let new = worker("gpu-2", "CPUs=4", None);
        assert_eq!(kept(vec![first(), new], 1)[1], line("gpu-2", "", "CPUs=4"));
    }

    #[test]
    fn what_is_written_is_what_is_read_again() {
        let nodes = nodes_in(CONF, TOPOLOGY);
        let names: Vec<&str> = nodes.keys().map(NodeName::as_str).collect();
        assert_eq!(names, ["gpu-0", "gpu-1", "gpu-4", "gpu-big-0"]);
        let workers = vec![
            worker("gpu-big-0", "CPUs=8", Some("10.0.0.3")),
            worker("gpu-0", "CPUs=4 Feature=a,b", Some("10.0.0.1")),
            worker("gpu-1", "CPUs=8", Some("10.0.0.2")),
            worker("gpu-2", "CPUs=8", None),
            WorkerFacts { registered: true, ..WorkerFacts::new("gpu-4".parse().unwrap()) },
            WorkerFacts::new("gpu-5".parse().unwrap()),
        ];
        let sets = BTreeMap::from([("gpu".to_owned(), NodeSetFacts { workers, ..NodeSetFacts::default() })]);
        assert_eq!(nodes_of(&sets), nodes);
    }
}
