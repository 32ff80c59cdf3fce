//! The webhook configurations of the chart soperator, rendered by Helm.

use std::net::SocketAddr;
use std::path::Path;

use anyhow::{Context as _, Result, bail};
use rig::cache::Cache;
use serde_json::{Value, json};
use tokio::sync::OnceCell;

/// The user that the operator is, by the chart.
pub const OPERATOR: &str = "system:serviceaccount:op:slurm-operator";

async fn rendered() -> Result<&'static Vec<Value>> {
    static RENDERED: OnceCell<Vec<Value>> = OnceCell::const_new();
    RENDERED
        .get_or_try_init(|| async {
            let chart = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../helm/soperator");
            let mut helm = rig::rig::helm(&Cache::open()?, None)?;
            helm.args(["template", "soperator", "--namespace", "op", "--kube-version", "1.31"]).arg(chart);
            helm.args(["--set", "controllerManager.manager.controllers={*}"]);
            let output = helm.output().context("helm runs")?;
            if !output.status.success() {
                bail!("helm: {}", String::from_utf8_lossy(&output.stderr));
            }
            let all: Vec<Value> = serde_saphyr::from_multiple(&String::from_utf8(output.stdout)?)?;
            Ok(all)
        })
        .await
}

/// The configuration of this kind, for the webhooks of a server at this address about one namespace.
pub async fn configuration(kind: &str, name: &str, address: SocketAddr, namespace: &str) -> Result<Value> {
    let found = rendered().await?.iter().find(|object| object["kind"] == kind);
    let mut object = found.with_context(|| format!("the chart has a {kind}"))?.clone();
    object["metadata"] = json!({ "name": name });
    for webhook in object["webhooks"].as_array_mut().context("webhooks")? {
        let path = webhook["clientConfig"]["service"]["path"].as_str().context("a path")?.to_string();
        webhook["clientConfig"] = json!({ "url": format!("https://{address}{path}") });
        webhook["namespaceSelector"] = json!({ "matchLabels": { "kubernetes.io/metadata.name": namespace } });
    }
    Ok(object)
}
