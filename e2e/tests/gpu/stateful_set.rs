//! The StatefulSet of the chart's text, with the nodes of the rig.

use anyhow::{Result, bail, ensure};
use e2e::{IDLE, Kubectl, image};
use serde_json::{Value, json};

use crate::chart::Chart;

const MAP: &str = "0=node-1:0,1\n1=node-2:2\n2=node-2:0,1,3\n";

pub(crate) fn manifest(name: &str, replicas: u32, map: &str) -> Result<Value> {
    let container = |name: &str, script: &str| -> Result<Value> {
        Ok(json!({ "name": name, "image": image("jail")?, "command": ["bash", "-c", script] }))
    };
    Ok(json!({
        "apiVersion": "apps/v1", "kind": "StatefulSet",
        "metadata": { "name": name },
        "spec": {
            "replicas": replicas,
            "podManagementPolicy": "Parallel",
            "selector": { "matchLabels": { "app": name } },
            "template": {
                "metadata": { "labels": { "app": name }, "annotations": { "gpu-scheduling-map": map } },
                "spec": {
                    "schedulerName": "gpu-scheduler",
                    "terminationGracePeriodSeconds": 0,
                    "initContainers": [container("init", "echo init sees $CUDA_VISIBLE_DEVICES")?],
                    "containers": [container("worker", IDLE)?],
                },
            },
        },
    }))
}

pub(crate) fn lands_as_mapped(kubectl: &Kubectl<'_>) -> Result<()> {
    kubectl.apply(&manifest("gpu-workload", 3, MAP)?.to_string())?;
    let expected = [
        ("gpu-workload-0", "node-1", "0,1"),
        ("gpu-workload-1", "node-2", "2"),
        ("gpu-workload-2", "node-2", "0,1,3"),
    ];
    kubectl.wait_ready(&expected.map(|(pod, ..)| pod))?;
    for (pod, node, devices) in expected {
        let found = kubectl.run(&["get", "pod", pod, "--output", "jsonpath={.spec.nodeName}"])?;
        ensure!(found == node, "{pod} is on {found}");
        let env = kubectl.exec(pod, &["env"])?;
        let seen: Vec<&str> = env.lines().filter(|line| line.starts_with("CUDA_")).collect();
        ensure!(seen.contains(&format!("CUDA_VISIBLE_DEVICES={devices}").as_str()), "{pod}: {seen:?}");
        ensure!(seen.contains(&"CUDA_DEVICE_ORDER=PCI_BUS_ID"), "{pod}: {seen:?}");
        let init = kubectl.run(&["logs", pod, "--container", "init"])?;
        ensure!(init.trim() == format!("init sees {devices}"), "{pod}: {init}");
    }
    Ok(())
}

pub(crate) fn is_refused_with_line_and_column(kubectl: &Kubectl<'_>) -> Result<()> {
    let refused = |map: &str, words: &[&str]| -> Result<()> {
        match kubectl.apply(&manifest("wrong", 1, map)?.to_string()) {
            Ok(printed) => bail!("{map:?} was taken: {printed}"),
            Err(error) => {
                let error = format!("{error:#}");
                ensure!(words.iter().all(|word| error.contains(word)), "{map:?}: {error}");
                Ok(())
            }
        }
    };
    refused(
        "0=node-1:0\nx=node-2:1\n",
        &["spec.template.metadata.annotations[gpu-scheduling-map]", "line 2, column 1"],
    )?;
    refused("0=node-1:0;1=node-2:1", &["line 1, column 11"])?;
    refused("1=node-1:7", &["spec.replicas", "no line for 0"])?;
    // What the scheduler decided is nobody else's to write, and what it decided by stays.
    let annotate = |text: &str| kubectl.run(&["annotate", "--overwrite", "pod", "gpu-workload-0", text]);
    for text in ["gpu-scheduling-devices=7", "gpu-scheduling-map=0=node-1:7"] {
        let Err(error) = annotate(text) else { bail!("{text} was taken") };
        ensure!(format!("{error:#}").contains("metadata.annotations[gpu-scheduling-"), "{error:#}");
    }
    annotate("mine=yes").map(drop)
}

/// The pods of the check chart see what they were promised, and fail where nobody promised anything.
pub(crate) fn is_checked_from_inside(chart: &Chart, kubectl: &Kubectl<'_>) -> Result<()> {
    let line = |index: u32, field: &str, value: &str| {
        format!("gpuScheduling.schedulingMap[{index}].{field}={value}")
    };
    let map = [
        line(0, "podIndex", "0"),
        line(0, "nodeName", "node-1"),
        line(0, "gpuDevices", "4@shared(2)"),
        line(1, "podIndex", "1"),
        line(1, "nodeName", "node-1"),
        line(1, "gpuDevices", "4@shared(2)"),
    ];
    let map: Vec<&str> = map.iter().map(String::as_str).chain(["replicaCount=2"]).collect();
    chart.install_check("good", kubectl.namespace(), &map)?;
    chart.install_check("bad", kubectl.namespace(), &["gpuScheduling.enabled=false", "replicaCount=1"])?;
    kubectl.wait_ready(&["good-gpu-scheduler-check-0", "good-gpu-scheduler-check-1"])?;
    let logs = kubectl.run(&["logs", "good-gpu-scheduler-check-1"])?;
    ensure!(logs.lines().any(|line| line == "Node: node-1, CUDA_VISIBLE_DEVICES: 4"), "{logs}");
    kubectl.wait_until("the pod that was promised nothing fails and says why", || {
        let state = "jsonpath={.status.containerStatuses[0]['state','lastState'].terminated.exitCode}";
        let code = kubectl.run(&["get", "pod", "bad-gpu-scheduler-check-0", "--output", state])?;
        let logs = kubectl.run(&["logs", "bad-gpu-scheduler-check-0"])?;
        Ok(code.starts_with('1') && logs.contains("not bound by the GPU scheduler"))
    })
}
