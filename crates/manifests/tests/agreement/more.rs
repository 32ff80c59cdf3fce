//! Manifests that the tests of `api` do not have.

use anyhow::Result;
use serde_json::{Value, json};

use crate::manifests::{self, with};
use crate::server::Server;

/// Asks for each change of a manifest, and tells all disagreements at once. The flag says what the answer must be.
async fn agree(prefix: &str, manifest: Value, cases: Vec<(&str, Value, bool)>) -> Result<()> {
    let server = Server::new(prefix).await?;
    let mut wrong = Vec::new();
    for (pointer, value, good) in cases {
        let changed = with(manifest.clone(), pointer, value.clone());
        match server.create(&changed).await {
            Err(disagreement) => wrong.push(format!("{pointer} = {value}: {disagreement}")),
            Ok(answer) if answer.is_ok() != good => wrong.push(format!("{pointer} = {value}: {answer:?}")),
            Ok(answer) => {
                if let Ok(object) = answer {
                    let name = object["metadata"]["name"].as_str().unwrap_or_default();
                    let path = format!("{}/{name}", server.path(&changed));
                    let _ = server.send("DELETE", &path, "application/json", &json!({})).await?;
                }
            }
        }
    }
    assert!(wrong.is_empty(), "\n{}\n", wrong.join("\n"));
    Ok(())
}

#[tokio::test]
async fn types_bounds_and_formats() -> Result<()> {
    agree(
        "agree-types",
        manifests::slinky_node_set(),
        vec![
            ("/spec/replicas", json!(3), true),
            ("/spec/replicas", json!("3"), false),
            ("/spec/replicas", json!(3.0), true),
            ("/spec/replicas", json!(3.5), false),
            ("/spec/minReadySeconds", json!(3.0), true),
            ("/spec/template/spec/containers/0/securityContext", json!({ "runAsUser": 1e30 }), false),
            ("/spec/template/spec/containers/0/securityContext", json!({ "runAsUser": 1e16 }), true),
            ("/spec/template/spec/containers/0/securityContext", json!({ "runAsUser": 1e15 }), true),
            ("/spec/template/spec/containers/0/securityContext", json!({ "runAsUser": 1000.0 }), true),
            ("/spec/updateStrategy", json!({ "rollingUpdate": { "maxUnavailable": 2.0 } }), true),
            ("/spec/updateStrategy", json!({ "rollingUpdate": { "partition": 2.0 } }), true),
            ("/spec/template/metadata/creationTimestamp", json!("2026-01-02T03:04:05.678+01:00"), true),
            ("/spec/template/metadata/creationTimestamp", json!("2026-01-02T03:04Z"), false),
            ("/spec/template/metadata/creationTimestamp", json!("2026-01-02 03:04:05Z"), false),
            ("/spec/template/metadata/creationTimestamp", json!("2026-01-02T03:04:05"), false),
            ("/spec/template/metadata/creationTimestamp", json!("2026-13-02T03:04:05Z"), false),
            ("/spec/minReadySeconds", json!(3.5), false),
            ("/spec/replicas", json!(2_147_483_648_i64), false),
            ("/spec/replicas", json!(2_147_483_647_i64), true),
            ("/spec/replicas", json!(true), false),
            ("/spec/clusterName", json!(7), false),
            ("/spec/template/spec/containers", json!({}), false),
            ("/spec/template/spec/containers", json!([{ "image": "x" }]), false),
            ("/spec/template/spec/containers", json!([{ "name": "a" }, { "name": "a" }]), false),
            ("/spec/template/spec/containers", json!([{ "name": "a" }, { "name": "b" }]), true),
            ("/spec/template/spec/containers/0/imagee", json!("x"), false),
            (
                "/spec/template/spec/containers/0/ports",
                json!([{ "containerPort": 1 }, { "containerPort": 1, "protocol": "TCP" }]),
                false,
            ),
            (
                "/spec/template/spec/containers/0/ports",
                json!([{ "containerPort": 1 }, { "containerPort": 1, "protocol": "UDP" }]),
                true,
            ),
            ("/spec/template/spec/containers/0/resources", json!({ "limits": { "cpu": 1 } }), true),
            ("/spec/template/spec/containers/0/resources", json!({ "limits": { "cpu": "1" } }), true),
            ("/spec/template/spec/containers/0/resources", json!({ "limits": { "cpu": true } }), false),
            ("/spec/template/spec/containers/0/resources", json!({ "limits": { "cpu": [] } }), false),
            ("/spec/template/spec/nodeSelector", json!({ "a": 1 }), false),
            ("/spec/template/spec/nodeSelector", json!({ "a": "1" }), true),
            ("/spec/template/metadata/creationTimestamp", json!("2026-01-02T03:04:05Z"), true),
            ("/spec/template/metadata/creationTimestamp", json!("yesterday"), false),
            ("/spec/updateStrategy", json!({ "rollingUpdate": { "maxUnavailable": "20%" } }), true),
            ("/spec/updateStrategy", json!({ "rollingUpdate": { "maxUnavailable": 2 } }), true),
            ("/spec/drainOnDelete", json!({ "deadline": "1h30m" }), true),
            ("/status", json!({ "replicas": "many" }), true),
            ("/status", json!({ "replcas": 1 }), false),
        ],
    )
    .await
}

/// Numbers that rules look at.
#[tokio::test]
async fn integers_with_a_point_in_rules() -> Result<()> {
    agree(
        "agree-numbers",
        manifests::slurm_cluster(),
        vec![
            ("/spec/slurmNodes/login/sshdServiceNodePort", json!(30022.0), true),
            ("/spec/slurmNodes/login/sshdServiceNodePort", json!(22.0), false),
            ("/spec/slurmNodes/worker/size", json!(0.0), true),
            ("/spec/sConfigController", json!({ "reconfigureWaitTimeout": "1.5m" }), true),
            ("/spec/sConfigController", json!({ "reconfigureWaitTimeout": "19999ms" }), false),
            ("/spec/sConfigController", json!({ "reconfigureWaitTimeout": "9999999h" }), false),
        ],
    )
    .await?;
    agree(
        "agree-sizes",
        manifests::topology_config(),
        vec![
            (
                "/spec",
                json!({ "clusterName": "a", "plugin": "block", "nodeLabels": {}, "blockSizes": [18.0, 36] }),
                true,
            ),
            (
                "/spec",
                json!({ "clusterName": "a", "plugin": "block", "nodeLabels": {}, "blockSizes": [18.0, 35] }),
                false,
            ),
        ],
    )
    .await
}

#[tokio::test]
async fn what_every_object_has() -> Result<()> {
    agree(
        "agree-meta",
        manifests::topology_config(),
        vec![
            ("/metadata", json!({}), false),
            ("/metadata", json!({ "generateName": "net-" }), true),
            ("/metadata/name", json!("Upper"), false),
            ("/metadata/name", json!("with.dot"), true),
            ("/metadata/name", json!(""), false),
            ("/metadata/name", json!("-a"), false),
            ("/metadata/name", json!(5), false),
            ("/metadata/nam", json!("x"), false),
            ("/metadata/labels", json!({ "a": "b" }), true),
            ("/metadata/labels", json!({ "example.com/a": "" }), true),
            ("/metadata/labels", json!({ "a b": "b" }), false),
            ("/metadata/labels", json!({ "a": "b c" }), false),
            ("/metadata/labels", json!({ "a": 1 }), false),
            ("/metadata/annotations", json!({ "a": "any thing" }), true),
            ("/metadata/annotations", json!({ "a": true }), false),
            ("/metadata/creationTimestamp", json!("2026-01-02T03:04:05Z"), true),
            ("/spec", json!(null), false),
            ("/spec", json!("text"), false),
            ("/spec", json!([]), false),
            ("/extra", json!(1), false),
            ("/spec/unknownSwitch", json!({}), true),
        ],
    )
    .await
}

#[tokio::test]
async fn nulls() -> Result<()> {
    let server = Server::new("agree-null").await?;
    let mut wrong = Vec::new();
    for (manifest, place, field) in [
        (manifests::slinky_node_set(), "/spec", "replicas"),
        (manifests::slinky_node_set(), "/spec", "serviceName"),
        (manifests::slinky_node_set(), "/spec", "minReadySeconds"),
        (manifests::slinky_node_set(), "/spec", "updateStrategy"),
        (manifests::slinky_node_set(), "/spec/template/spec", "nodeSelector"),
        (manifests::slinky_node_set(), "/spec/template/metadata", "creationTimestamp"),
        (manifests::slinky_node_set(), "/metadata", "labels"),
        (manifests::slinky_node_set(), "/metadata", "creationTimestamp"),
        (manifests::topology_config(), "/spec", "plugin"),
        (manifests::topology_config(), "/spec", "nodeLabels"),
        (manifests::topology_config(), "/spec", "switches"),
        (manifests::node_set(), "/spec", "maxUnavailable"),
        (manifests::slurm_cluster(), "/spec", "partitionConfiguration"),
        (manifests::slurm_cluster(), "/spec/slurmNodes/login", "sshdServiceType"),
    ] {
        let mut manifest = manifest;
        manifest.pointer_mut(place).unwrap()[field] = Value::Null;
        if let Err(disagreement) = server.create(&manifest).await {
            wrong.push(format!("{place}/{field}: {disagreement}"));
        }
        let name = manifest["metadata"]["name"].as_str().unwrap();
        let path = format!("{}/{name}", server.path(&manifest));
        let _ = server.send("DELETE", &path, "application/json", &json!({})).await?;
    }
    assert!(wrong.is_empty(), "\n{}\n", wrong.join("\n"));
    Ok(())
}

/// Both read the text themselves.
#[tokio::test]
async fn yaml_is_read_the_same_way() -> Result<()> {
    let server = Server::new("agree-yaml").await?;
    let like = manifests::jailed_config();
    let head = "apiVersion: slurm.nebius.ai/v1alpha1\nkind: JailedConfig\nmetadata:\n  name: motd\n";
    let spec = "spec:\n  configMap: {name: motd}\n  items:\n";
    let mut wrong = Vec::new();
    for (body, good) in [
        (format!("{spec}  - {{key: a, path: /a, mode: 0644}}\n"), true),
        (format!("{spec}  - {{key: a, path: /a, mode: 0x1ff}}\n"), true),
        (format!("{spec}  - {{key: a, path: /a, mode: 420.0}}\n"), true),
        (format!("{spec}  - {{key: a, path: /a, mode: 4.2e2}}\n"), true),
        (format!("{spec}  - {{key: a, path: /a, mode: 420.5}}\n"), false),
        (format!("{spec}  - {{key: a, path: /a, mode: 1000}}\n"), false),
        (format!("{spec}  - {{key: a, path: /a, mode: '0644'}}\n"), false),
        (format!("{spec}  - {{key: yes, path: /a}}\n"), false),
        (format!("{spec}  - {{key: 'yes', path: /a}}\n"), true),
        (format!("{spec}  - {{key: on, path: /a}}\n"), false),
        (format!("{spec}  - {{key: ~, path: /a}}\n"), false),
        (format!("{spec}  - {{key: 2026-01-02, path: /a}}\n"), true),
        (format!("{spec}  - {{key: 1_0, path: /a}}\n"), false),
        (format!("{spec}  - {{key: 1.2.3, path: /a}}\n"), true),
        (format!("{spec}  - {{key: !!str 5, path: /a}}\n"), true),
        // A merged field that is written again is refused here, but not by kubectl, which reads the file itself.
        (format!("{spec}  - &i {{key: a, path: /a}}\n  - {{<<: *i, mode: 1}}\n"), true),
        (format!("{spec}  - &i {{key: a, path: a}}\n  - {{<<: *i, mode: 1}}\n"), false),
        (format!("{spec}  - key: a\n    path: |-\n      /a\n"), true),
        (format!("{spec}  - key: a\n    path: /a\n    key: b\n"), false),
        (format!("{spec}  - key: a\n    path: [/a\n"), false),
    ] {
        let text = format!("{head}{body}");
        match server.create_yaml(&like, &text).await {
            Err(disagreement) => wrong.push(format!("{body}{disagreement}")),
            Ok(answer) if answer.is_ok() != good => wrong.push(format!("{body}{answer:?}")),
            Ok(_) => {}
        }
    }
    assert!(wrong.is_empty(), "\n{}\n", wrong.join("\n"));
    Ok(())
}

#[tokio::test]
async fn the_smallest_of_each_kind() -> Result<()> {
    let server = Server::new("agree-smallest").await?;
    for manifest in manifests::all() {
        server.created(&manifest).await?;
    }
    Ok(())
}
