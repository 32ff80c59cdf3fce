//! Two pods, one device.

use anyhow::{Context, Result};
use e2e::{IDLE, Kubectl, pod};
use serde_json::json;

pub(crate) fn a_second_pod_waits_for_the_device(kubectl: &Kubectl<'_>) -> Result<()> {
    let mut second = pod("second-0", None, IDLE)?;
    second["metadata"]["annotations"] = json!({ "gpu-scheduling-map": "0=node-1:1" });
    second["spec"]["schedulerName"] = json!("gpu-scheduler");
    kubectl.apply(&second.to_string())?;
    let condition = "jsonpath={.status.conditions[?(@.type==\"PodScheduled\")].message}";
    let owner = format!("{}/gpu-workload-0", kubectl.namespace());
    kubectl
        .wait_until("the second pod says who has its device", || {
            let message = kubectl.run(&["get", "pod", "second-0", "--output", condition])?;
            Ok(message.contains("device 1") && message.contains(&owner))
        })
        .with_context(|| kubectl.run(&["describe", "pod", "second-0"]).unwrap_or_default())?;
    kubectl.wait_until("an event says so too", || {
        let events = [
            "get",
            "events",
            "--field-selector",
            "involvedObject.name=second-0",
            "--output",
            "jsonpath={.items[*].reason}",
        ];
        Ok(kubectl.run(&events)?.contains("FailedScheduling"))
    })?;
    kubectl.run(&["delete", "statefulset", "gpu-workload", "--wait=false"])?;
    kubectl.wait_ready(&["second-0"])?;
    kubectl.run(&["delete", "pod", "second-0", "--wait=false"]).map(drop)
}
