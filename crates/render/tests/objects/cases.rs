//! Manifests to render.

use std::fs;
use std::path::{Path, PathBuf};

use api::nebius::{NodeSet, SlurmCluster};
use render::{
    Defaults, Facts, GeneratedSecret, Material, Object, Rendered, Served, SshHostKeys, ValidatedCluster,
    node_set_objects, render, validate,
};
use serde_json::Value;
use slurm::Secret;

/// A cluster, and NodeSets of the user that belong to it.
pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) cluster: SlurmCluster,
    pub(crate) node_sets: Vec<NodeSet>,
    pub(crate) facts: Facts,
}

/// The manifest without GPUs and accounting that users begin with, and its NodeSet.
pub(crate) const SMALL: &str = "small";
/// Every field is set.
pub(crate) const FULL: &str = "full";
/// Claims instead of volumes that have a name.
pub(crate) const CLAIMS: &str = "claims";
/// No GPUs, workers in the cluster, a plain database.
pub(crate) const CPU: &str = "cpu";
/// As the original's chart writes it, with GPUs.
pub(crate) const GPU: &str = "gpu";

pub(crate) const ALL: [&str; 5] = [SMALL, FULL, CLAIMS, CPU, GPU];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn documents(path: &str) -> Vec<Value> {
    let text = fs::read_to_string(root().join(path)).unwrap();
    serde_saphyr::from_multiple(&text).unwrap()
}

pub(crate) fn case(name: &'static str) -> Case {
    let examples = "examples/api/slurm.nebius.ai";
    let (path, index, node_sets) = match name {
        SMALL => (format!("{examples}/slurmcluster.yaml"), 0, Some(format!("{examples}/nodeset.yaml"))),
        FULL => {
            (format!("{examples}/full/slurmcluster.yaml"), 0, Some(format!("{examples}/full/nodeset.yaml")))
        }
        CLAIMS => (format!("{examples}/full/slurmcluster.yaml"), 1, None),
        CPU => ("crates/render/tests/objects/cpu.yaml".into(), 0, None),
        GPU => ("examples/api/drop-in/soperator-1.23.yaml".into(), 0, None),
        other => panic!("no case {other}"),
    };
    let mut cluster: SlurmCluster = serde_json::from_value(documents(&path)[index].clone()).unwrap();
    cluster.metadata.namespace = Some("slurm".into());
    let node_sets = node_sets.map(|path| documents(&path)).unwrap_or_default();
    let node_sets = node_sets.into_iter().map(|node_set| serde_json::from_value(node_set).unwrap()).collect();
    let programs = ["scontrol", "slurmctld", "slurmrestd"].map(str::to_owned);
    let keys = |kind: &str| (Secret::from(format!("private {kind}")), format!("public {kind}"));
    let bytes = |text: &str| Material::Bytes(Secret::from(text.to_owned()));
    let new_secrets = [
        (GeneratedSecret::Munge, bytes("munge")),
        (GeneratedSecret::Jwt, bytes("jwt")),
        (GeneratedSecret::DatabasePassword, bytes("password")),
        (GeneratedSecret::DatabaseRootPassword, bytes("root password")),
        (
            GeneratedSecret::SshdKeys,
            Material::SshHostKeys(SshHostKeys {
                ecdsa: keys("ecdsa"),
                ed25519: keys("ed25519"),
                rsa: keys("rsa"),
            }),
        ),
    ];
    let facts = Facts {
        database_password: Some(Secret::from("password".to_owned())),
        new_secrets: new_secrets.into(),
        slurmctld_programs: Some(programs.into()),
        served: Served { mariadb: true, app_armor_profile: true, monitors: false },
        ..Facts::default()
    };
    Case { name, cluster, node_sets, facts }
}

pub(crate) fn defaults() -> Defaults {
    Defaults {
        agent_image: "soperator.local/soperator:0.1.0".into(),
        mariadb_image: Some("soperator.local/mariadb:0.1.0".into()),
        ..Defaults::default()
    }
}

impl Case {
    pub(crate) fn validated(&self) -> ValidatedCluster {
        validate(&self.cluster, &defaults()).unwrap()
    }

    pub(crate) fn rendered(&self) -> Vec<Rendered> {
        render(&self.validated(), &self.facts)
    }

    /// The object of this kind and name.
    pub(crate) fn find(&self, kind: &str, name: &str) -> Option<Object> {
        let is = |object: &Object| object.kind() == kind && object.name() == name;
        self.rendered().into_iter().map(|rendered| rendered.object).find(is)
    }

    /// The object of this kind and name as JSON.
    pub(crate) fn value(&self, kind: &str, name: &str) -> Value {
        match self.find(kind, name) {
            Some(object) => object.to_value(),
            None => panic!("{}: no {kind} {name}", self.name),
        }
    }

    /// All NodeSets: those of the user, and the one that stands for a section of the cluster.
    pub(crate) fn all_node_sets(&self) -> Vec<NodeSet> {
        let owned = self.rendered().into_iter().filter_map(|rendered| match rendered.object {
            Object::NodeSet(node_set) => Some(node_set),
            _ => None,
        });
        owned.chain(self.node_sets.clone()).collect()
    }

    /// What the controller of NodeSets makes: objects, claims, and the second pod of each.
    pub(crate) fn node_set_values(&self) -> Vec<Value> {
        let validated = self.validated();
        let mut values = Vec::new();
        for node_set in self.all_node_sets() {
            let objects = node_set_objects(&validated, &node_set);
            values.extend(objects.iter().map(|rendered| rendered.object.to_value()));
            let template = render::worker_template(&validated, &node_set).unwrap();
            values.extend(template.claims(1).iter().map(|claim| serde_json::to_value(claim).unwrap()));
            values.push(serde_json::to_value(template.pod(1)).unwrap());
        }
        values
    }
}
