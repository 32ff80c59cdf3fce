//! A Kubernetes node without a kubelet, and what a cordon of it does to the worker on it.

use anyhow::Result;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::ResourceExt as _;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use rig::SlurmMachine;
use serde_json::{Value, json};

use crate::place::Place;

/// The type of the condition that is passed on to Slurm in these tests.
pub const CONDITION: &str = "GpuUnhealthy";

/// A Kubernetes node without a kubelet. It is called like the namespace, so that no other test has it.
pub struct KubeNode<'a>(&'a Place);

impl<'a> KubeNode<'a> {
    pub async fn make(place: &'a Place) -> Result<Self> {
        let node: Node = serde_json::from_value(json!({ "metadata": { "name": place.name() } }))?;
        let made = Self(place);
        made.api().create(&PostParams::default(), &node).await?;
        Ok(made)
    }

    fn api(&self) -> Api<Node> {
        Api::all(self.0.client.clone())
    }

    /// Puts a pod on it, as the scheduler does.
    pub async fn bind(&self, pod: &str) -> Result<()> {
        let binding = json!({
            "apiVersion": "v1", "kind": "Binding", "metadata": { "name": pod },
            "target": { "apiVersion": "v1", "kind": "Node", "name": self.0.name() },
        });
        let pods = self.0.api::<Pod>();
        let _: Value = pods.create_subresource("binding", pod, &PostParams::default(), &binding).await?;
        Ok(())
    }

    /// Cordons it, with this annotation; the old one goes.
    async fn cordon(&self, key: &str, reason: Option<&str>) -> Result<()> {
        let patch = json!({
            "metadata": { "annotations": { key: reason } }, "spec": { "unschedulable": true },
        });
        self.api().patch(self.0.name(), &PatchParams::default(), &Patch::Merge(&patch)).await?;
        Ok(())
    }

    async fn uncordon(&self) -> Result<()> {
        let patch = json!({ "spec": { "unschedulable": null } });
        self.api().patch(self.0.name(), &PatchParams::default(), &Patch::Merge(&patch)).await?;
        Ok(())
    }

    /// Gives it the condition.
    async fn tell(&self, status: &str) -> Result<()> {
        let condition =
            json!({ "type": CONDITION, "status": status, "reason": "Xid", "message": "GPU 3 is lost" });
        let patch = json!({ "status": { "conditions": [condition] } });
        self.api().patch_status(self.0.name(), &PatchParams::default(), &Patch::Strategic(&patch)).await?;
        Ok(())
    }

    pub async fn delete(&self) -> Result<()> {
        self.api().delete(self.0.name(), &DeleteParams::default()).await?;
        Ok(())
    }
}

/// What Slurm says of a node.
fn shown(slurm: &SlurmMachine, node: &str) -> Result<String> {
    slurm.exec(&["scontrol", "show", "node", node, "--oneliner"])
}

/// A set with the workers `w-0`, on whose node a job runs, and `w-1`. The Kubernetes node of the first is cordoned and
/// uncordoned, for reasons that are told in three ways.
pub async fn a_cordon_drains_and_its_end_takes_the_drain_back(
    place: &Place,
    slurm: &SlurmMachine,
    annotation: &str,
) -> Result<()> {
    let (pods, node) = (place.api::<Pod>(), KubeNode::make(place).await?);
    node.bind("w-0").await?;
    let before = (pods.get("w-0").await?.uid(), pods.get("w-1").await?.uid());
    let job =
        slurm.exec(&["sbatch", "--parsable", "-w", "w-0", "-o", "/dev/null", "--wrap", "sleep 1000"])?;
    slurm.wait_for_job(job.trim(), &["RUNNING"])?;
    let plain = format!("Node ({}) was cordoned, Pod ({}/w-0) must be cordoned", place.name(), place.name());
    let cases = [
        ("True", Some("bad\tfan"), "Reason=slurm-operator: bad fan ["),
        ("True", None, "Reason=slurm-operator: (Xid: GPU 3 is lost) ["),
        ("False", None, &format!("Reason=slurm-operator: {plain} [")),
    ];
    for (condition, reason, told) in cases {
        node.tell(condition).await?;
        node.cordon(annotation, reason).await?;
        place
            .until(&format!("w-0 is drained: {told}"), async || {
                let shown = shown(slurm, "w-0")?;
                Ok((shown.contains("DRAIN") && shown.contains(told)).then_some(()))
            })
            .await?;
        let has_condition = async |type_: &str| -> Result<bool> {
            let status = pods.get("w-0").await?.status.unwrap_or_default();
            Ok(status.conditions.into_iter().flatten().any(|it| it.type_ == type_ && it.status == "True"))
        };
        place
            .until("the pod tells it", async || Ok(has_condition("SlurmNodeStateDrain").await?.then_some(())))
            .await?;
        assert!(has_condition("Ready").await?, "what the kubelet wrote stays");
        let other = shown(slurm, "w-1")?;
        assert!(!other.contains("DRAIN"), "it is on no node that is cordoned: {other}");
        node.uncordon().await?;
        place
            .until("w-0 takes jobs again", async || {
                Ok((!shown(slurm, "w-0")?.contains("DRAIN")).then_some(()))
            })
            .await?;
    }
    assert_eq!((pods.get("w-0").await?.uid(), pods.get("w-1").await?.uid()), before);
    assert_eq!(slurm.exec(&["squeue", "-h", "-j", job.trim(), "-o", "%T"])?.trim(), "RUNNING");
    Ok(())
}
