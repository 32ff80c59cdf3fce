//! Nodes that fail and come back.

use anyhow::Result;
use e2e::{IDLE, Kubectl, pod};
use rig::{Options, Rig};

fn ready(kubectl: &Kubectl<'_>, node: &str) -> Result<String> {
    kubectl.run(&[
        "get",
        "node",
        node,
        "--output",
        "jsonpath={.status.conditions[?(@.type==\"Ready\")].status}",
    ])
}

/// `make soak` asks for many rounds.
fn rounds() -> usize {
    std::env::var("SOPERATOR_SOAK").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(1)
}

#[tokio::test]
async fn a_node_that_fails_is_not_ready_and_comes_back_with_its_pods() -> Result<()> {
    // A rig of its own: other tests would lose their pods.
    let rig = Rig::start("e2e-nodes", Options { audit: true, ..Options::default() }).await?;
    let kubectl = Kubectl::in_fresh_namespace(&rig, "nodes").await?;
    kubectl.apply(&pod("stays", Some("node-2"), IDLE)?.to_string())?;
    kubectl.wait_ready(&["stays"])?;
    let container = || {
        kubectl.run(&[
            "get",
            "pod",
            "stays",
            "--output",
            "jsonpath={.status.containerStatuses[0].containerID}",
        ])
    };
    let uid = kubectl.run(&["get", "pod", "stays", "--output", "jsonpath={.metadata.uid}"])?;
    for _ in 0..rounds() {
        let before = container()?;
        rig.stop_node("node-2").await?;
        let error = rig.stop_node("node-2").await.unwrap_err().to_string();
        assert!(error.contains("node-2 is stopped already"), "{error}");
        kubectl.wait_until("the node is not Ready", || Ok(ready(&kubectl, "node-2")? == "Unknown"))?;
        assert_eq!(ready(&kubectl, "node-1")?, "True", "the other node goes on");

        rig.start_node("node-2").await?;
        kubectl.wait_until("the node is Ready again", || Ok(ready(&kubectl, "node-2")? == "True"))?;
        kubectl.wait_until("the pod runs in a new container", || Ok(container()? != before))?;
        kubectl.wait_ready(&["stays"])?;
        assert_eq!(kubectl.exec("stays", &["hostname"])?.trim(), "stays");
        assert_eq!(
            kubectl.run(&["get", "pod", "stays", "--output", "jsonpath={.metadata.uid}"])?,
            uid,
            "the same pod"
        );
    }
    let ours = |call: &&rig::Call| {
        call.object_ref.as_ref().is_some_and(|object| object.name == "stays" && call.verb == "get")
    };
    assert!(rig.audit_log().calls()?.iter().filter(ours).count() > 3, "the audit log has our calls");
    Ok(())
}
