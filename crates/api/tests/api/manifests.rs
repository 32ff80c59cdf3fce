//! Small manifests that the API server accepts. Tests break them on purpose.

use serde_json::{Value, json};

pub(crate) fn all() -> Vec<Value> {
    vec![
        slinky_cluster(),
        slinky_node_set(),
        slurm_cluster(),
        node_set(),
        node_configurator(),
        active_check(),
        jailed_config(),
        topology_config(),
    ]
}

pub(crate) fn slinky_cluster() -> Value {
    json!({
        "apiVersion": "slinky.slurm.net/v1alpha1",
        "kind": "Cluster",
        "metadata": { "name": "slurm" },
        "spec": { "server": "http://slurm-restapi:6820", "token": { "secretRef": "slurm-token" } },
    })
}

pub(crate) fn slinky_node_set() -> Value {
    json!({
        "apiVersion": "slinky.slurm.net/v1alpha1",
        "kind": "NodeSet",
        "metadata": { "name": "slurm-compute-debug" },
        "spec": {
            "clusterName": "slurm",
            "serviceName": "slurm-compute",
            "selector": { "matchLabels": { "app.kubernetes.io/name": "slurmd" } },
            "template": {
                "metadata": { "labels": { "app.kubernetes.io/name": "slurmd", "more": "here" } },
                "spec": { "containers": [{ "name": "slurmd", "image": "slurmd:25.05" }] },
            },
        },
    })
}

fn container() -> Value {
    json!({ "image": "soperator/slurm:1", "resources": { "cpu": 1, "memory": "1Gi" } })
}

fn volume(name: &str) -> Value {
    json!({ "volumeSourceName": name })
}

pub(crate) fn slurm_cluster() -> Value {
    json!({
        "apiVersion": "slurm.nebius.ai/v1",
        "kind": "SlurmCluster",
        "metadata": { "name": "slurm1" },
        "spec": {
            "populateJail": { "image": "soperator/jail:1", "k8sNodeFilterName": "all" },
            "k8sNodeFilters": [{ "name": "all" }],
            "volumeSources": [{ "name": "jail", "persistentVolumeClaim": { "claimName": "jail-pvc" } }],
            "secrets": {},
            "slurmNodes": {
                "accounting": { "k8sNodeFilterName": "all" },
                "controller": {
                    "k8sNodeFilterName": "all",
                    "slurmctld": container(),
                    "munge": container(),
                    "volumes": { "spool": volume("spool"), "jail": volume("jail") },
                },
                "login": {
                    "k8sNodeFilterName": "all",
                    "size": 2,
                    "sshd": container(),
                    "munge": container(),
                    "sshdServiceType": "NodePort",
                    "sshRootPublicKeys": ["ssh-ed25519 AAAA root"],
                    "volumes": { "jail": volume("jail") },
                },
                "exporter": { "k8sNodeFilterName": "all" },
                "rest": { "k8sNodeFilterName": "all" },
                "worker": {
                    "k8sNodeFilterName": "all",
                    "size": 2,
                    "slurmd": container(),
                    "munge": container(),
                    "volumes": {
                        "spool": { "volumeClaimTemplateSpec": { "accessModes": ["ReadWriteOnce"] } },
                        "jail": volume("jail"),
                    },
                },
            },
        },
    })
}

pub(crate) fn node_set() -> Value {
    json!({
        "apiVersion": "slurm.nebius.ai/v1alpha1",
        "kind": "NodeSet",
        "metadata": { "name": "gpu" },
        "spec": {
            "slurmd": {
                "image": { "repository": "soperator/slurm" },
                "resources": { "cpu": 4, "nvidia.com/gpu": 8 },
                "volumes": {
                    "spool": { "emptyDir": {} },
                    "jail": { "persistentVolumeClaim": { "claimName": "jail-pvc" } },
                },
            },
            "munge": { "image": { "repository": "soperator/munge" }, "resources": { "cpu": "500m" } },
        },
    })
}

pub(crate) fn node_configurator() -> Value {
    json!({
        "apiVersion": "slurm.nebius.ai/v1alpha1",
        "kind": "NodeConfigurator",
        "metadata": { "name": "nodes" },
        "spec": {},
    })
}

pub(crate) fn active_check() -> Value {
    json!({
        "apiVersion": "slurm.nebius.ai/v1alpha1",
        "kind": "ActiveCheck",
        "metadata": { "name": "ssh-check" },
        "spec": { "name": "ssh-check", "slurmClusterRefName": "slurm1", "k8sJobSpec": {} },
    })
}

pub(crate) fn jailed_config() -> Value {
    json!({
        "apiVersion": "slurm.nebius.ai/v1alpha1",
        "kind": "JailedConfig",
        "metadata": { "name": "motd" },
        "spec": {
            "configMap": { "name": "motd" },
            "items": [{ "key": "motd", "path": "/etc/motd" }],
        },
    })
}

pub(crate) fn topology_config() -> Value {
    json!({
        "apiVersion": "slurm.nebius.ai/v1alpha1",
        "kind": "TopologyConfig",
        "metadata": { "name": "network" },
        "spec": { "clusterName": "slurm1", "nodeLabels": {} },
    })
}

/// Puts `value` at the place that a JSON pointer names; objects on the way are made. `null` takes the field away.
pub(crate) fn with(mut manifest: Value, pointer: &str, value: Value) -> Value {
    let mut place = &mut manifest;
    let mut parts: Vec<String> = pointer.split('/').skip(1).map(|part| part.replace("~1", "/")).collect();
    let last = parts.pop().expect("a pointer");
    for part in parts {
        place = match part.parse::<usize>() {
            Ok(index) => &mut place[index],
            Err(_) => &mut place[part],
        };
    }
    match (last.parse::<usize>(), value) {
        (Ok(index), value) => place[index] = value,
        (_, Value::Null) => {
            place.as_object_mut().expect("an object").remove(&last);
        }
        (_, value) => place[last] = value,
    }
    manifest
}
