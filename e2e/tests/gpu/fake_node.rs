//! A node without a kubelet: pods can be bound to it by the hundred, and cost nothing.

use anyhow::Result;
use k8s_openapi::api::core::v1::Node;
use kube::Client;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use serde_json::json;
use tokio::task::JoinHandle;

/// The node; it is gone with this.
pub(crate) struct FakeNode {
    nodes: Api<Node>,
    name: String,
    heart: JoinHandle<()>,
}

impl FakeNode {
    pub(crate) async fn new(client: Client, name: &str) -> Result<Self> {
        let nodes = Api::<Node>::all(client);
        // Nobody else's pods shall come here.
        let taint = json!({ "key": "gpu-test", "value": name, "effect": "NoSchedule" });
        let node = json!({ "metadata": { "name": name }, "spec": { "taints": [taint] } });
        nodes.create(&PostParams::default(), &serde_json::from_value(node)?).await?;
        beat(&nodes, name).await?;
        let (own, called) = (nodes.clone(), name.to_string());
        let heart = tokio::spawn(async move {
            loop {
                tokio::time::sleep(std::time::Duration::from_secs(2)).await;
                let _ = beat(&own, &called).await;
            }
        });
        Ok(Self { nodes, name: name.into(), heart })
    }

    pub(crate) async fn remove(self) -> Result<()> {
        self.heart.abort();
        self.nodes.delete(&self.name, &DeleteParams::default()).await?;
        Ok(())
    }
}

impl Drop for FakeNode {
    fn drop(&mut self) {
        self.heart.abort();
    }
}

/// What a kubelet would say every few seconds.
async fn beat(nodes: &Api<Node>, name: &str) -> Result<()> {
    let room = json!({ "cpu": "100", "memory": "100Gi", "pods": "1000", "ephemeral-storage": "100Gi" });
    let now = k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(k8s_openapi::jiff::Timestamp::now());
    let status = json!({ "status": {
        "capacity": room, "allocatable": room,
        "conditions": [{
            "type": "Ready", "status": "True", "reason": "KubeletReady", "message": "fake",
            "lastHeartbeatTime": now, "lastTransitionTime": now,
        }],
    } });
    nodes.patch_status(name, &PatchParams::default(), &Patch::Merge(status)).await?;
    Ok(())
}
