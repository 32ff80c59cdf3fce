//! A real API server takes every object of every case, without a field that it does not know.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use http::Request;
use k8s_openapi::api::scheduling::v1::PriorityClass;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Client;
use kube::api::{Api, PostParams};
use rig::ControlPlane;
use serde_json::{Value, json};

use crate::cases::{ALL, case};

/// Kinds of other projects: any content is taken.
const FOREIGN: [(&str, &str, &str); 3] = [
    ("k8s.mariadb.com", "MariaDB", "mariadbs"),
    ("k8s.mariadb.com", "Grant", "grants"),
    ("security-profiles-operator.x-k8s.io", "AppArmorProfile", "apparmorprofiles"),
];

async fn install(client: &Client) -> Result<()> {
    let crds: Api<CustomResourceDefinition> = Api::all(client.clone());
    let mut paths = Vec::new();
    let mut all: Vec<CustomResourceDefinition> = api::crds();
    for (group, kind, plural) in FOREIGN {
        all.push(serde_json::from_value(json!({
            "metadata": { "name": format!("{plural}.{group}") },
            "spec": {
                "group": group, "scope": "Namespaced",
                "names": { "kind": kind, "plural": plural, "singular": kind.to_lowercase() },
                "versions": [{
                    "name": "v1alpha1", "served": true, "storage": true,
                    "schema": { "openAPIV3Schema": { "type": "object", "x-kubernetes-preserve-unknown-fields": true } },
                }],
            },
        }))?);
    }
    for crd in all {
        paths.push(format!(
            "/apis/{}/{}/{}",
            crd.spec.group, crd.spec.versions[0].name, crd.spec.names.plural
        ));
        match crds.create(&PostParams::default(), &crd).await {
            Err(kube::Error::Api(status)) if status.code == 409 => {}
            other => drop(other?),
        }
    }
    for path in paths {
        let mut tries = 0;
        while client.request::<Value>(Request::get(&path).body(Vec::new())?).await.is_err() {
            tries += 1;
            if tries > 300 {
                bail!("{path} is not served after 30 s");
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
    Ok(())
}

/// Where an object is on the API server.
fn path(object: &Value, namespace: &str) -> Result<String> {
    let text = |value: &Value| value.as_str().map(str::to_owned).context("a text");
    let (version, kind) = (text(&object["apiVersion"])?, text(&object["kind"])?);
    let group = if version == "v1" { "/api/v1".to_owned() } else { format!("/apis/{version}") };
    let plural = format!("{}s", kind.to_lowercase());
    Ok(format!("{group}/namespaces/{namespace}/{plural}/{}", text(&object["metadata"]["name"])?))
}

/// Applies an object as the operator does; a warning is an error, too.
async fn apply(client: &Client, namespace: &str, object: &Value) -> Result<()> {
    let mut object = object.clone();
    object["metadata"]["namespace"] = namespace.into();
    // Two cases want the same port on nodes.
    let dry_run = if object["kind"] == "Service" { "&dryRun=All" } else { "" };
    let path = format!(
        "{}?fieldManager=render&fieldValidation=Strict&force=true{dry_run}",
        path(&object, namespace)?
    );
    let request = Request::patch(path)
        .header("Content-Type", "application/apply-patch+yaml")
        .body(kube::client::Body::from(serde_json::to_vec(&object)?))?;
    let response = client.send(request).await?;
    let (head, body) = response.into_parts();
    let answer: Value = serde_json::from_slice(&body.collect_bytes().await?)?;
    let what = format!("{} {}", object["kind"], object["metadata"]["name"]);
    if !head.status.is_success() {
        bail!("{what}: {}", answer["message"]);
    }
    let warnings: Vec<_> = head.headers.get_all("Warning").iter().collect();
    if !warnings.is_empty() {
        bail!("{what}: {warnings:?}");
    }
    Ok(())
}

/// Pods need their priority classes.
async fn prioritize(client: &Client, object: &Value) -> Result<()> {
    let Some(name) = object["spec"]["priorityClassName"].as_str() else { return Ok(()) };
    let classes: Api<PriorityClass> = Api::all(client.clone());
    let class = serde_json::from_value(json!({ "metadata": { "name": name }, "value": 1 }))?;
    match classes.create(&PostParams::default(), &class).await {
        Err(kube::Error::Api(status)) if status.code == 409 => {}
        other => drop(other?),
    }
    Ok(())
}

#[tokio::test]
async fn an_api_server_takes_every_object_of_every_case() -> Result<()> {
    let plane = ControlPlane::shared().await?;
    let client = plane.client().await?;
    install(&client).await?;
    let mut refused = Vec::new();
    for name in ALL {
        let case = case(name);
        let namespace = plane.namespace(name).await?;
        let mut objects: Vec<Value> =
            case.rendered().into_iter().map(|rendered| rendered.object.to_value()).collect();
        assert!(objects.len() > 5, "{name}: {}", objects.len());
        objects.extend(case.node_set_values());
        for object in objects {
            prioritize(&client, &object).await?;
            if let Err(error) = apply(&client, namespace.name(), &object).await {
                refused.push(format!("{name}: {error:#}"));
            }
        }
    }
    assert!(refused.is_empty(), "{refused:#?}");
    Ok(())
}
