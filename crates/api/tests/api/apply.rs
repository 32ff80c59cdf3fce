//! Scaling, and several writers of one object.

use anyhow::Result;
use serde_json::{Value, json};

use crate::manifests;
use crate::server::Server;

#[tokio::test]
async fn both_kinds_of_node_sets_scale() -> Result<()> {
    let server = Server::new("scale").await?;
    for (manifest, status) in [
        (manifests::slinky_node_set(), json!({ "replicas": 1, "selector": "a=b", "nodeSetHash": "h" })),
        (manifests::node_set(), json!({ "replicas": 1, "labelSelector": "a=b" })),
    ] {
        let object = server.created(&manifest).await?;
        assert_eq!(object["spec"]["replicas"], 1, "the default");
        server.patch(&object, "/status", &json!({ "status": status })).await?.unwrap();
        let scale = server.patch(&object, "/scale", &json!({ "spec": { "replicas": 5 } })).await?.unwrap();
        assert_eq!(scale["spec"]["replicas"], 5);
        assert_eq!(scale["status"], json!({ "replicas": 1, "selector": "a=b" }));
        let name = object["metadata"]["name"].as_str().unwrap();
        let object = server.get(&format!("{}/{name}", server.path(&manifest))).await?;
        assert_eq!(object["spec"]["replicas"], 5);
    }
    Ok(())
}

#[tokio::test]
async fn two_managers_of_different_containers_do_not_fight() -> Result<()> {
    let server = Server::new("managers").await?;
    let manifest = manifests::slinky_node_set();
    let apply = async |manager: &str, containers: Value| {
        let object = manifests::with(manifest.clone(), "/spec/template/spec/containers", containers);
        let path = format!(
            "{}/slurm-compute-debug?fieldManager={manager}&fieldValidation=Strict",
            server.path(&manifest)
        );
        server.send("PATCH", &path, "application/apply-patch+yaml", &object).await
    };
    apply("one", json!([{ "name": "slurmd", "image": "slurmd:1", "env": [{ "name": "A", "value": "1" }] }]))
        .await?
        .unwrap();
    apply(
        "two",
        json!([
            { "name": "logger", "image": "logger:1" },
            { "name": "slurmd", "env": [{ "name": "B", "value": "2" }] },
        ]),
    )
    .await?
    .unwrap();
    let merged = apply(
        "one",
        json!([{ "name": "slurmd", "image": "slurmd:2", "env": [{ "name": "A", "value": "3" }] }]),
    )
    .await?
    .unwrap();
    let containers = merged["spec"]["template"]["spec"]["containers"].as_array().unwrap();
    let find = |name: &str| containers.iter().find(|one| one["name"] == name).unwrap();
    assert_eq!(containers.len(), 2, "{containers:#?}");
    assert_eq!(find("logger")["image"], "logger:1");
    assert_eq!(find("slurmd")["image"], "slurmd:2");
    let mut env: Vec<String> =
        find("slurmd")["env"].as_array().unwrap().iter().map(Value::to_string).collect();
    env.sort();
    assert_eq!(env, [r#"{"name":"A","value":"3"}"#, r#"{"name":"B","value":"2"}"#]);
    Ok(())
}

#[tokio::test]
async fn a_port_without_protocol_is_the_tcp_port() -> Result<()> {
    let server = Server::new("ports").await?;
    let ports = json!([{ "containerPort": 6818 }, { "containerPort": 6818, "protocol": "UDP" }]);
    let manifest =
        manifests::with(manifests::slinky_node_set(), "/spec/template/spec/containers/0/ports", ports);
    let object = server.created(&manifest).await?;
    assert_eq!(object["spec"]["template"]["spec"]["containers"][0]["ports"][0]["protocol"], "TCP");
    Ok(())
}
