//! Volumes: provisioned claims, local volumes and host directories.

use anyhow::Result;
use e2e::{IDLE, Kubectl, output_of, pod};
use rig::Rig;
use serde_json::{Value, json};

fn claim(name: &str, mode: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name},
        "spec": {"accessModes": [mode], "resources": {"requests": {"storage": "10Mi"}}},
    })
}

fn with_claim(mut pod: Value, claim: &str) -> Value {
    pod["spec"]["volumes"] = json!([{"name": "data", "persistentVolumeClaim": {"claimName": claim}}]);
    pod["spec"]["containers"][0]["volumeMounts"] = json!([{"name": "data", "mountPath": "/data"}]);
    pod
}

#[tokio::test]
async fn a_shared_claim_is_one_directory_on_every_node() -> Result<()> {
    let rig = Rig::shared().await?;
    let kubectl = Kubectl::in_fresh_namespace(rig, "rwx").await?;
    kubectl.apply(&claim("shared", "ReadWriteMany").to_string())?;
    kubectl.apply(&with_claim(pod("writer", Some("node-1"), IDLE)?, "shared").to_string())?;
    kubectl.apply(&with_claim(pod("reader", Some("node-2"), IDLE)?, "shared").to_string())?;
    kubectl.wait_ready(&["writer", "reader"])?;
    kubectl.exec("writer", &["bash", "-c", "echo from-node-1 > /data/file"])?;
    assert_eq!(kubectl.exec("reader", &["cat", "/data/file"])?, "from-node-1\n");
    Ok(())
}

#[tokio::test]
async fn a_claim_keeps_its_content_over_pods_and_its_volume_goes_with_it() -> Result<()> {
    let rig = Rig::shared().await?;
    let kubectl = Kubectl::in_fresh_namespace(rig, "rwo").await?;
    kubectl.apply(&claim("own", "ReadWriteOnce").to_string())?;
    kubectl.apply(
        &with_claim(pod("first", None, "echo kept > /data/file; exec sleep infinity")?, "own").to_string(),
    )?;
    kubectl.wait_ready(&["first"])?;
    kubectl.wait_until("the file is written", || {
        Ok(kubectl.exec("first", &["cat", "/data/file"])? == "kept\n")
    })?;
    kubectl.run(&["delete", "pod", "first"])?;
    kubectl.apply(&with_claim(pod("second", None, IDLE)?, "own").to_string())?;
    kubectl.wait_ready(&["second"])?;
    assert_eq!(kubectl.exec("second", &["cat", "/data/file"])?, "kept\n");

    let volume = kubectl.run(&["get", "pvc", "own", "--output", "jsonpath={.spec.volumeName}"])?;
    let directory = format!("/var/lib/rig/volumes/{volume}");
    assert!(output_of(rig.exec("node-1", "ls")?.arg(&directory), None).is_ok());
    kubectl.run(&["delete", "pod/second", "pvc/own"])?;
    kubectl.wait_until("the volume is gone", || Ok(kubectl.run(&["get", "pv", &volume]).is_err()))?;
    assert!(output_of(rig.exec("node-1", "ls")?.arg(&directory), None).is_err(), "its content, too");
    Ok(())
}

#[tokio::test]
async fn local_volumes_and_host_directories_work() -> Result<()> {
    let rig = Rig::shared().await?;
    let kubectl = Kubectl::in_fresh_namespace(rig, "local").await?;
    let name = format!("local-{}", kubectl.namespace());
    output_of(rig.exec("node-2", "mkdir")?.args(["-p", &format!("/var/lib/{name}")]), None)?;
    kubectl.apply(
        &json!({
            "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name},
            "spec": {
                "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": name,
                "persistentVolumeReclaimPolicy": "Retain",
                "local": {"path": format!("/var/lib/{name}")},
                "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [
                    {"key": "kubernetes.io/hostname", "operator": "In", "values": ["node-2"]},
                ]}]}},
            },
        })
        .to_string(),
    )?;
    let mut own = claim("local", "ReadWriteOnce");
    own["spec"]["storageClassName"] = json!(name);
    kubectl.apply(&own.to_string())?;
    let mut writer =
        with_claim(pod("writer", None, "echo local > /data/file; exec sleep infinity")?, "local");
    let push = |list: &mut Value, item: Value| list.as_array_mut().unwrap().push(item);
    push(&mut writer["spec"]["volumes"], json!({"name": "host", "hostPath": {"path": "/var/lib"}}));
    push(&mut writer["spec"]["containers"][0]["volumeMounts"], json!({"name": "host", "mountPath": "/host"}));
    kubectl.apply(&writer.to_string())?;
    kubectl.wait_ready(&["writer"])?;
    let node = kubectl.run(&["get", "pod", "writer", "--output", "jsonpath={.spec.nodeName}"])?;
    assert_eq!(node, "node-2", "the volume's node");
    let seen = || kubectl.exec("writer", &["cat", &format!("/host/{name}/file")]);
    kubectl.wait_until("the file is seen through the host directory", || Ok(seen()? == "local\n"))?;
    kubectl.run(&["delete", "pod/writer", "pvc/local", &format!("pv/{name}")])?;
    Ok(())
}
