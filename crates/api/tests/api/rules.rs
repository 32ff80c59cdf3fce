//! Bad manifests: each is refused, and the message names the field and what to write instead.

use anyhow::Result;
use serde_json::{Value, json};

use crate::manifests::{self, with};
use crate::server::Server;

/// A change that makes a manifest bad, and what the message must say.
pub(crate) type Case = (&'static str, Value, &'static [&'static str]);

pub(crate) async fn refuse(prefix: &str, manifest: Value, cases: Vec<Case>) -> Result<()> {
    let server = Server::new(prefix).await?;
    let mut wrong = Vec::new();
    for (pointer, value, parts) in cases {
        let bad = with(manifest.clone(), pointer, value.clone());
        match server.create(&bad).await? {
            Ok(_) => wrong.push(format!("{pointer} = {value} was accepted")),
            Err(message) => {
                for part in parts {
                    if !message.contains(part) {
                        wrong.push(format!("{pointer} = {value}: no {part:?} in: {message}"));
                    }
                }
            }
        }
        // So that an accepted one is no conflict for the next.
        let name = bad["metadata"]["name"].as_str().unwrap_or_default();
        let _ = server
            .send("DELETE", &format!("{}/{name}", server.path(&bad)), "application/json", &json!({}))
            .await?;
    }
    assert!(wrong.is_empty(), "\n{}\n", wrong.join("\n"));
    server.created(&manifest).await?;
    Ok(())
}

/// Changes an object that exists in a way that must be refused.
pub(crate) async fn keep(prefix: &str, manifest: Value, patch: Value, parts: &[&str]) -> Result<()> {
    let server = Server::new(prefix).await?;
    let object = server.created(&manifest).await?;
    let message = server.patch(&object, "", &patch).await?.expect_err("the change was accepted");
    for part in parts {
        assert!(message.contains(part), "no {part:?} in: {message}");
    }
    Ok(())
}

#[tokio::test]
async fn slinky_clusters() -> Result<()> {
    refuse(
        "rules-slinky-cluster",
        manifests::slinky_cluster(),
        vec![
            ("/spec/server", json!(""), &["spec.server", "at least 1 char"]),
            ("/spec/server", json!("slurm-restapi:6820"), &["spec.server", "http://slurm-restapi:6820"]),
            ("/spec/server", Value::Null, &["spec.server", "Required"]),
            ("/spec/token", Value::Null, &["spec.token", "Required"]),
            ("/spec/token/secretRef", json!(""), &["spec.token.secretRef", "at least 1 char"]),
            ("/spec/tokn", json!({}), &["unknown field \"spec.tokn\""]),
        ],
    )
    .await
}

#[tokio::test]
async fn slinky_node_sets() -> Result<()> {
    refuse(
        "rules-slinky-set",
        manifests::slinky_node_set(),
        vec![
            ("/metadata/name", json!("with.dot"), &["metadata.name", "choose another name"]),
            ("/spec/clusterName", Value::Null, &["spec.clusterName", "Required"]),
            ("/spec/serviceName", json!(""), &["spec.serviceName", "at least 1 char"]),
            ("/spec/template", Value::Null, &["spec.template", "Required"]),
            ("/spec/template/spec/containers", Value::Null, &["spec.template.spec.containers", "Required"]),
            ("/spec/selector", json!({}), &["spec.selector", "write matchLabels"]),
            (
                "/spec/selector/matchLabels",
                json!({ "other": "label" }),
                &["spec.selector", "write the same labels to spec.template.metadata.labels"],
            ),
            ("/spec/template/metadata/labels", json!({}), &["spec.template.metadata.labels"]),
            ("/spec/template/metadata", Value::Null, &["spec.template.metadata.labels"]),
            ("/spec/replicas", json!(-1), &["spec.replicas", "greater than or equal to 0"]),
            (
                "/spec/revisionHistoryLimit",
                json!(-1),
                &["spec.revisionHistoryLimit", "greater than or equal to 0"],
            ),
            ("/spec/minReadySeconds", json!(-1), &["spec.minReadySeconds", "greater than or equal to 0"]),
            ("/spec/ordinalPadding", json!(9), &["spec.ordinalPadding", "less than or equal to 8"]),
            (
                "/spec/updateStrategy",
                json!({ "type": "Recreate" }),
                &["spec.updateStrategy.type", "\"RollingUpdate\", \"OnDelete\", \"InPlaceIfPossible\""],
            ),
            (
                "/spec/updateStrategy",
                json!({ "rollingUpdate": { "maxUnavailable": "lots" } }),
                &["spec.updateStrategy.rollingUpdate.maxUnavailable", "such as 20%"],
            ),
            (
                "/spec/updateStrategy",
                json!({ "rollingUpdate": { "maxUnavailable": -1 } }),
                &["spec.updateStrategy.rollingUpdate.maxUnavailable", "such as 1"],
            ),
            (
                "/spec/updateStrategy",
                json!({ "rollingUpdate": { "partition": -1 } }),
                &["spec.updateStrategy.rollingUpdate.partition", "greater than or equal to 0"],
            ),
            (
                "/spec/persistentVolumeClaimRetentionPolicy",
                json!({ "whenDeleted": "Keep" }),
                &["whenDeleted", "\"Retain\", \"Delete\""],
            ),
            (
                "/spec/volumeClaimTemplates",
                json!([{}]),
                &["spec.volumeClaimTemplates[0]", "metadata.name is missing"],
            ),
            (
                "/spec/drainOnDelete",
                json!({ "deadline": "soon" }),
                &["spec.drainOnDelete.deadline", "should match"],
            ),
            (
                "/spec/drainOnDelete",
                json!({ "onDeadline": "kill" }),
                &["spec.drainOnDelete.onDeadline", "\"wait\", \"force\""],
            ),
        ],
    )
    .await
}

#[tokio::test]
async fn what_a_slinky_node_set_cannot_change() -> Result<()> {
    for (prefix, field, value) in [
        ("keep-cluster", "clusterName", json!("other")),
        ("keep-service", "serviceName", json!("other")),
        ("keep-padding", "ordinalPadding", json!(4)),
    ] {
        let manifest = with(manifests::slinky_node_set(), "/spec/ordinalPadding", json!(3));
        let expected = format!("spec.{field}");
        keep(
            prefix,
            manifest,
            json!({ "spec": { field: value } }),
            &[&expected, "cannot be changed", "make a new NodeSet"],
        )
        .await?;
    }
    Ok(())
}

#[tokio::test]
async fn what_may_change_can() -> Result<()> {
    let server = Server::new("change").await?;
    let set = server.created(&manifests::slinky_node_set()).await?;
    for patch in [
        json!({ "spec": { "replicas": 0 } }),
        json!({ "spec": { "template": { "metadata": { "labels": { "new": "label" } } } } }),
        json!({ "spec": { "updateStrategy": { "type": "OnDelete" } } }),
    ] {
        server.patch(&set, "", &patch).await?.unwrap();
    }
    // The name of the cluster may come later.
    let set = server.created(&manifests::node_set()).await?;
    server.patch(&set, "", &json!({ "spec": { "clusterName": "slurm1" } })).await?.unwrap();
    Ok(())
}

#[tokio::test]
async fn node_sets() -> Result<()> {
    refuse(
        "rules-set",
        manifests::node_set(),
        vec![
            ("/metadata/name", json!("with.dot"), &["metadata.name", "choose another name"]),
            ("/spec/slurmd", Value::Null, &["spec.slurmd", "Required"]),
            ("/spec/munge/image/repository", Value::Null, &["spec.munge.image.repository", "Required"]),
            ("/spec/slurmd/resources", Value::Null, &["spec.slurmd.resources", "Required"]),
            ("/spec/slurmd/volumes/jail", Value::Null, &["spec.slurmd.volumes.jail", "Required"]),
            ("/spec/slurmd/cgroupVersion", json!("v0"), &["spec.slurmd.cgroupVersion", "\"v1\", \"v2\""]),
            (
                "/spec/slurmd/volumes/jailSubMounts",
                json!([{ "name": "a", "mountPath": "/a" }]),
                &["spec.slurmd.volumes.jailSubMounts[0]", "exactly one of volumeSource"],
            ),
            ("/spec/replicas", json!(-1), &["spec.replicas", "greater than or equal to 0"]),
            ("/spec/maxUnavailable", json!("x%"), &["spec.maxUnavailable", "such as 20%"]),
            (
                "/spec/updateStrategy",
                json!("recreate"),
                &["spec.updateStrategy", "\"rollingUpdate\"", "\"onDelete\", \"inPlaceIfPossible\""],
            ),
            ("/spec/updatePartition", json!(-1), &["spec.updatePartition", "greater than or equal to 0"]),
            (
                "/spec/ephemeralTopologyWaitTimeout",
                json!(5),
                &["spec.ephemeralTopologyWaitTimeout", "greater than or equal to 60"],
            ),
            ("/spec/sssdDebugLevel", json!(11), &["spec.sssdDebugLevel", "less than or equal to 10"]),
            (
                "/spec/slurmd/volumes/persistentVolumeClaimRetentionPolicy",
                json!({ "whenScaled": "Keep" }),
                &[
                    "spec.slurmd.volumes.persistentVolumeClaimRetentionPolicy.whenScaled",
                    "\"Retain\", \"Delete\"",
                ],
            ),
        ],
    )
    .await?;
    for (prefix, field, before, after) in [
        ("keep-nebius-cluster", "clusterName", json!("a"), json!("b")),
        ("keep-nebius-cluster-gone", "clusterName", json!("a"), Value::Null),
        ("keep-nebius-padding", "ordinalPadding", json!(2), json!(3)),
        ("keep-nebius-padding-gone", "ordinalPadding", json!(2), Value::Null),
        ("keep-nebius-padding-new", "ordinalPadding", Value::Null, json!(2)),
    ] {
        let manifest = with(manifests::node_set(), &format!("/spec/{field}"), before);
        let expected = format!("spec.{field}");
        keep(prefix, manifest, json!({ "spec": { field: after } }), &[&expected, "make a new NodeSet"])
            .await?;
    }
    Ok(())
}

/// One of each type of bound; a test of the definitions sees to it that everything has one.
#[tokio::test]
async fn what_is_too_long_is_refused() -> Result<()> {
    let many = |count: usize| (0..count).map(|number| format!("n{number}")).collect::<Vec<_>>();
    let entries = |count: usize| {
        many(count).into_iter().map(|key| (key, json!("v"))).collect::<serde_json::Map<_, _>>()
    };
    refuse(
        "rules-bounds",
        manifests::node_set(),
        vec![
            (
                "/spec/priorityClass",
                json!("x".repeat(254)),
                &["spec.priorityClass", "may not be more than 253"],
            ),
            (
                "/spec/slurmd/security",
                json!({ "limitsConfig": "x".repeat(65_537) }),
                &["spec.slurmd.security.limitsConfig", "may not be more than 65536"],
            ),
            (
                "/spec/nodeConfig",
                json!({ "features": many(257) }),
                &["spec.nodeConfig.features", "at most 256 items"],
            ),
            (
                "/spec/nodeConfig",
                json!({ "features": ["x".repeat(254)] }),
                &["spec.nodeConfig.features[0]", "may not be more than 253"],
            ),
            (
                "/spec/workerAnnotations",
                json!(entries(513)),
                &["spec.workerAnnotations", "at most 512 items"],
            ),
            (
                "/spec/workerAnnotations",
                json!({ "a": "x".repeat(65_537) }),
                &["spec.workerAnnotations.a", "may not be more than 65536"],
            ),
            ("/spec/slurmd/resources", json!(entries(65)), &["spec.slurmd.resources", "at most 64 items"]),
            (
                "/spec/maxUnavailable",
                json!("1".repeat(17)),
                &["spec.maxUnavailable", "may not be more than 16"],
            ),
        ],
    )
    .await
}

#[tokio::test]
async fn node_configurators() -> Result<()> {
    refuse(
        "rules-configurator",
        manifests::node_configurator(),
        vec![
            (
                "/spec",
                json!({ "nodeConfigurator": { "enabled": true } }),
                &["spec", "enable exactly one of spec.rebooter and spec.nodeConfigurator"],
            ),
            ("/spec", json!({ "rebooter": { "enabled": false } }), &["spec", "exactly one"]),
            (
                "/spec",
                json!({ "rebooter": { "enabled": true, "evictionMethod": "drain" } }),
                &["spec.rebooter.evictionMethod", "\"evict\""],
            ),
            (
                "/spec",
                json!({ "rebooter": { "enabled": true, "logLevel": "trace" } }),
                &["spec.rebooter.logLevel", "\"debug\", \"info\", \"warn\", \"error\""],
            ),
            ("/spec", json!({ "rebooter": {} }), &["spec.rebooter.enabled", "Required"]),
        ],
    )
    .await
}

#[tokio::test]
async fn active_checks() -> Result<()> {
    refuse(
        "rules-check",
        manifests::active_check(),
        vec![
            ("/spec/name", json!("With Space"), &["spec.name", "a-z, 0-9 and '-'"]),
            ("/spec/slurmClusterRefName", Value::Null, &["spec.slurmClusterRefName", "Required"]),
            ("/spec/k8sJobSpec", Value::Null, &["spec.k8sJobSpec", "checkType k8sJob needs it"]),
            (
                "/spec/checkType",
                json!("slurmJob"),
                &["spec.slurmJobSpec", "sbatchScript or sbatchScriptRefName"],
            ),
            ("/spec/checkType", json!("job"), &["spec.checkType", "\"k8sJob\", \"slurmJob\""]),
            ("/spec/schedule", json!(""), &["spec.schedule", "at least 1 char"]),
            (
                "/spec/activeDeadlineSeconds",
                json!(-1),
                &["spec.activeDeadlineSeconds", "greater than or equal to 0"],
            ),
        ],
    )
    .await
}

#[tokio::test]
async fn jailed_configs() -> Result<()> {
    refuse(
        "rules-jailed",
        manifests::jailed_config(),
        vec![
            ("/spec/configMap", Value::Null, &["spec.configMap", "Required"]),
            ("/spec/configMap/name", json!(""), &["spec.configMap.name", "at least 1 char"]),
            ("/spec/items/0/path", json!("etc/motd"), &["spec.items[0].path", "must be absolute"]),
            ("/spec/items/0/path", json!("/etc/../motd"), &["spec.items[0].path", "without '.' and '..'"]),
            ("/spec/items/0/path", json!("/etc/./motd"), &["spec.items[0].path", "without '.' and '..'"]),
            ("/spec/items/0/mode", json!(512), &["spec.items[0].mode", "less than or equal to 511"]),
            ("/spec/defaultMode", json!(-1), &["spec.defaultMode", "greater than or equal to 0"]),
            ("/spec/updateActions", json!(["Restart"]), &["spec.updateActions[0]", "\"Reconfigure\""]),
        ],
    )
    .await
}

#[tokio::test]
async fn topology_configs() -> Result<()> {
    let spec = |fields: Value| {
        let mut spec = json!({ "clusterName": "slurm1" });
        spec.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        spec
    };
    let switch = json!([{ "name": "a", "nodeNames": ["n"] }]);
    refuse(
        "rules-topology",
        manifests::topology_config(),
        vec![
            ("/spec", spec(json!({})), &["spec", "exactly one of nodeLabels, switches and blocks"]),
            (
                "/spec",
                spec(json!({ "nodeLabels": {}, "switches": switch })),
                &["spec", "exactly one of nodeLabels, switches and blocks"],
            ),
            (
                "/spec",
                spec(json!({ "plugin": "flat", "nodeLabels": {} })),
                &["spec", "plugin flat has no switches"],
            ),
            (
                "/spec",
                spec(json!({ "plugin": "mesh", "nodeLabels": {} })),
                &["spec.plugin", "\"tree\", \"block\", \"flat\""],
            ),
            (
                "/spec",
                spec(json!({ "plugin": "block", "switches": switch })),
                &["spec.switches", "plugin: tree"],
            ),
            ("/spec", spec(json!({ "blocks": switch })), &["spec.blocks", "plugin: block"]),
            (
                "/spec",
                spec(json!({ "nodeLabels": {}, "blockSizes": [4] })),
                &["spec.blockSizes", "plugin: block"],
            ),
            (
                "/spec",
                spec(json!({ "plugin": "block", "nodeLabels": {}, "blockSizes": [4, 6] })),
                &["spec.blockSizes", "multiple of the first"],
            ),
            (
                "/spec",
                spec(json!({ "plugin": "block", "nodeLabels": {}, "blockSizes": [0] })),
                &["spec.blockSizes[0]", "greater than or equal to 1"],
            ),
            (
                "/spec",
                spec(json!({ "switches": [{ "name": "a" }] })),
                &["spec.switches[0]", "either children"],
            ),
            (
                "/spec",
                spec(json!({ "switches": [{ "name": "a", "children": ["b"], "nodeNames": ["n"] }] })),
                &["spec.switches[0]", "either children"],
            ),
            (
                "/spec",
                spec(json!({ "plugin": "block", "blocks": [{ "name": "a" }] })),
                &["spec.blocks[0]", "a block needs nodes"],
            ),
            (
                "/spec",
                spec(json!({ "nodeLabels": {}, "unknownSwitch": { "policy": "fail" } })),
                &["spec.unknownSwitch.policy", "\"place\", \"omit\""],
            ),
        ],
    )
    .await?;
    let server = Server::new("flat").await?;
    server.created(&with(manifests::topology_config(), "/spec", spec(json!({ "plugin": "flat" })))).await?;
    Ok(())
}
