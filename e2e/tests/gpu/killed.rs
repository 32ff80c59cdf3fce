//! The scheduler is killed in the middle of its work: its successor gives no device twice, and loses no pod.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use e2e::{Kubectl, output_of, wait_until};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Client, ResourceExt as _};
use rig::Rig;
use serde_json::json;

use crate::chart::NAMESPACE;
use crate::fake_node::FakeNode;

const NODE: &str = "gpu-fake";
const DEVICES: usize = 40;
const PATIENCE: Duration = Duration::from_secs(90);

pub(crate) async fn nothing_is_lost_or_given_twice(
    rig: &Rig,
    client: Client,
    kubectl: &Kubectl<'_>,
) -> Result<()> {
    let node = FakeNode::new(client.clone(), NODE).await?;
    let pods = Api::<Pod>::namespaced(client.clone(), kubectl.namespace());
    // Two pods want each device. They wait at a gate, so that there is a backlog.
    for number in 0..2 * DEVICES {
        pods.create(&PostParams::default(), &gated(number)?).await?;
    }
    let gate = tokio::spawn(open(pods.clone()));
    until("some pods are bound", async || Ok(bound(&pods).await?.len() >= DEVICES / 8)).await?;
    kill(rig, kubectl)?;
    println!("killed when {} of {DEVICES} devices were given", bound(&pods).await?.len());
    gate.await??;
    until_restarted(kubectl)?;

    until("every device has an owner", async || Ok(owners(&bound(&pods).await?)?.len() == DEVICES)).await?;
    let given = bound(&pods).await?;
    ensure!(given.len() == DEVICES, "{} pods for {DEVICES} devices", given.len());
    until("all others say why they wait", async || Ok(reasons(&pods).await? == DEVICES)).await?;
    let now = DeleteParams { grace_period_seconds: Some(0), ..DeleteParams::default() };
    for pod in &given {
        pods.delete(&pod.name_any(), &now).await?;
    }
    until("no pod was lost", async || Ok(owners(&bound(&pods).await?)?.len() == DEVICES)).await?;
    for pod in bound(&pods).await? {
        pods.delete(&pod.name_any(), &now).await?;
    }
    node.remove().await
}

/// A pod for the device of its number, which one other pod wants too.
fn gated(number: usize) -> Result<Pod> {
    let map = format!("{number}={NODE}:{}", number / 2);
    Ok(serde_json::from_value(json!({
        "metadata": { "name": format!("drain-{number}"), "annotations": { "gpu-scheduling-map": map } },
        "spec": {
            "schedulerName": "gpu-scheduler",
            "schedulingGates": [{ "name": "example.com/gate" }],
            "tolerations": [{ "key": "gpu-test", "operator": "Exists" }],
            "containers": [{ "name": "main", "image": "none" }],
        },
    }))?)
}

/// Lets one pod after the other go, so that there are always some to place.
async fn open(pods: Api<Pod>) -> Result<()> {
    let patch = Patch::Merge(json!({ "spec": { "schedulingGates": null } }));
    for number in 0..2 * DEVICES {
        pods.patch(&format!("drain-{number}"), &PatchParams::default(), &patch).await?;
    }
    Ok(())
}

async fn bound(pods: &Api<Pod>) -> Result<Vec<Pod>> {
    let all = pods.list(&ListParams::default().fields(&format!("spec.nodeName={NODE}"))).await?;
    Ok(all.items)
}

/// The pod of each device. Two of one are the end of the test.
fn owners(bound: &[Pod]) -> Result<BTreeMap<String, String>> {
    let mut owners = BTreeMap::new();
    for pod in bound {
        let devices = pod.annotations().get("gpu-scheduling-devices").cloned().unwrap_or_default();
        ensure!(!devices.is_empty(), "{} was bound without its devices", pod.name_any());
        if let Some(other) = owners.insert(devices.clone(), pod.name_any()) {
            anyhow::bail!("{other} and {} both have device {devices}", pod.name_any());
        }
    }
    Ok(owners)
}

/// How many pods wait and say why.
async fn reasons(pods: &Api<Pod>) -> Result<usize> {
    let all = pods.list(&ListParams::default()).await?;
    let waiting = all.items.iter().filter(|pod| pod.name_any().starts_with("drain-")).filter(|pod| {
        let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
        let mut told = conditions.filter(|one| one.type_ == "PodScheduled" && one.status == "False");
        told.any(|one| one.message.as_deref().unwrap_or_default().contains("device"))
    });
    Ok(waiting.count())
}

/// Something about the scheduler's pod.
fn of_pod(kubectl: &Kubectl<'_>, path: &str) -> Result<String> {
    let selector = "--selector=app.kubernetes.io/name=gpu-scheduler";
    let output = format!("jsonpath={path}");
    let found = kubectl.run(&["get", "pods", "--namespace", NAMESPACE, selector, "--output", &output])?;
    Ok(found.trim().to_string())
}

/// Ends the process of the scheduler by SIGKILL, on which it can do nothing. The webhook beside it goes on.
fn kill(rig: &Rig, kubectl: &Kubectl<'_>) -> Result<()> {
    let node = of_pod(kubectl, "{.items[*].spec.nodeName}")?;
    // The brackets keep the script from finding itself. A node of the rig sees no processes but its own.
    let script = "for process in /proc/[0-9]*; do \
                  if tr '\\0' ' ' <$process/cmdline 2>/dev/null | grep -q 'gpu-scheduler schedule[r] --'; \
                  then kill -KILL ${process#/proc/} && echo killed; fi; done";
    let printed = output_of(rig.exec(&node, "bash")?.args(["-c", script]), None)?;
    ensure!(printed.trim() == "killed", "killed other than one process: {printed:?}");
    Ok(())
}

fn until_restarted(kubectl: &Kubectl<'_>) -> Result<()> {
    let restarts = "{.items[*].status.containerStatuses[?(@.name==\"scheduler\")].restartCount}";
    wait_until("the scheduler is started again", || Ok(of_pod(kubectl, restarts)? == "1"))
}

async fn until(what: &str, condition: impl AsyncFn() -> Result<bool>) -> Result<()> {
    let deadline = Instant::now() + PATIENCE;
    while !condition().await? {
        ensure!(Instant::now() < deadline, "waited {} s until {what}, in vain", PATIENCE.as_secs());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    Ok(())
}
