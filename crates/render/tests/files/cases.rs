//! Manifests, and what is known of their pods.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use api::nebius::SlurmCluster;
use render::{Defaults, Facts, NodeSetFacts, Object, ValidatedCluster, WorkerFacts, render, validate};
use serde_json::Value;
use slurm::conf::user_pairs;
use slurm::{NodeName, Secret};

pub(crate) struct Case {
    pub(crate) cluster: SlurmCluster,
    pub(crate) facts: Facts,
}

/// Nothing is written that has a default, and there are no workers.
pub(crate) const DEFAULT: &str = "default";
/// Every field is set; partitions are structured, and the NodeSet of one has two pods.
pub(crate) const FULL: &str = "full";
/// No GPUs, workers in the cluster, accounting with a database of ours.
pub(crate) const CPU: &str = "cpu";
/// As the original's chart writes it, with GPUs.
pub(crate) const GPU: &str = "gpu";

pub(crate) const ALL: [&str; 4] = [DEFAULT, FULL, CPU, GPU];

pub(crate) fn tests() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests")
}

pub(crate) fn case(name: &str) -> Case {
    let path = match name {
        DEFAULT => "files/default.yaml",
        FULL => "../../../examples/api/slurm.nebius.ai/full/slurmcluster.yaml",
        CPU => "files/cpu.yaml",
        GPU => "../../../examples/api/drop-in/soperator-1.23.yaml",
        other => panic!("no case {other}"),
    };
    let documents: Vec<Value> =
        serde_saphyr::from_multiple(&fs::read_to_string(tests().join(path)).unwrap()).unwrap();
    let mut cluster: SlurmCluster = serde_json::from_value(documents[0].clone()).unwrap();
    cluster.metadata.namespace = Some("slurm".into());
    let mut facts =
        Facts { database_password: Some(Secret::from("pass#word".to_owned())), ..Facts::default() };
    if name == FULL {
        let set = NodeSetFacts {
            gpu: true,
            workers: ["gpu-0", "gpu-1"].map(gpu_worker).into(),
        };
        facts.node_sets.insert("gpu".into(), set);
    }
    Case { cluster, facts }
}

pub(crate) fn worker(node: &str, line: Option<&str>) -> WorkerFacts {
    let line = line.map(|line| user_pairs("line", line, &[]).unwrap());
    let address = Some("10.0.0.7".parse().unwrap());
    WorkerFacts { line, address, registered: true, ..WorkerFacts::new(NodeName::new(node).unwrap()) }
}

/// A worker with a line in slurm.conf and one in gres.conf.
fn gpu_worker(node: &str) -> WorkerFacts {
    WorkerFacts {
        gres: vec!["Name=gpu Type=h100 File=/dev/nvidia[0-7]".into()],
        ..worker(node, Some("CPUs=16 RealMemory=64000 Gres=gpu:8 Feature=h100"))
    }
}

impl Case {
    pub(crate) fn validated(&self) -> ValidatedCluster {
        validate(&self.cluster, &Defaults::default()).unwrap()
    }

    /// The effective set.
    pub(crate) fn files(&self) -> BTreeMap<String, String> {
        render::slurm_configs(&self.validated(), &self.facts).unwrap()
    }

    pub(crate) fn slurm_conf(&self) -> String {
        self.files().remove("slurm.conf").unwrap()
    }

    /// Every file in every ConfigMap and Secret, as `NAME/KEY`.
    pub(crate) fn all_files(&self) -> BTreeMap<String, String> {
        let mut files = BTreeMap::new();
        for rendered in render(&self.validated(), &self.facts) {
            match rendered.object {
                Object::ConfigMap(map) => {
                    let name = map.metadata.name.unwrap();
                    files.extend(
                        map.data.into_iter().flatten().map(|(key, text)| (format!("{name}/{key}"), text)),
                    );
                }
                Object::Secret(secret) => {
                    let name = secret.metadata.name.unwrap();
                    files.extend(
                        secret.data.into_iter().flatten().map(|(key, bytes)| {
                            (format!("{name}/{key}"), String::from_utf8(bytes.0).unwrap())
                        }),
                    );
                }
                _ => {}
            }
        }
        files
    }
}
