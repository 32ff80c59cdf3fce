//! The charts, installed by Helm: an operator with rights in one namespace, storage, and a cluster with the values of the rig.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};
use e2e::{Kubectl, output_of, wait_until};
use rig::{Options, Rig};

const CLUSTERS: &str = "clusters";
const OPERATOR: &str = "operator";
/// Name of the operator in this test, which is not the default.
const NAME: &str = "other";

fn from_root(path: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path).display().to_string()
}

fn helm(rig: &Rig, namespace: &str, arguments: &[&str]) -> Result<Command> {
    let mut helm = rig.helm()?;
    helm.args(["--namespace", namespace]).args(arguments);
    Ok(helm)
}

fn install(rig: &Rig, namespace: &str, chart: &str, values: Option<&str>, more: &[&str]) -> Result<String> {
    let path = from_root(&format!("helm/{chart}"));
    let mut helm = helm(rig, namespace, &["upgrade", "--install", chart, &path, "--wait"])?;
    if let Some(values) = values {
        helm.arg("--values").arg(from_root(&format!("examples/rig/{values}")));
    }
    for value in more {
        helm.args(["--set", value]);
    }
    output_of(&mut helm, None)
}

/// What fails, as the user reads it.
fn refused(outcome: Result<String>) -> Result<String> {
    match outcome {
        Ok(printed) => bail!("it was taken: {printed}"),
        Err(error) => Ok(format!("{error:#}")),
    }
}

#[tokio::test]
async fn charts_install_one_after_another_and_the_operator_has_the_rights_it_needs_and_no_others()
-> Result<()> {
    // A rig of its own: definitions and webhooks belong to all namespaces.
    let rig = Rig::start("e2e-charts", Options { nodes: 1, audit: true, ..Options::default() }).await?;
    let kubectl = Kubectl::cluster_wide(&rig);
    for namespace in [CLUSTERS, OPERATOR] {
        kubectl.run(&["create", "namespace", namespace])?;
    }
    install(&rig, OPERATOR, "soperator-crds", None, &[])?;
    let name = format!("fullnameOverride={NAME}");
    let watched = format!("controllerManager.manager.env.slurmOperatorWatchNamespaces={CLUSTERS}");
    let settings = [name.as_str(), watched.as_str(), "metrics.authorization=true"];
    install(&rig, OPERATOR, "soperator", Some("soperator-values.yaml"), &settings)
        .with_context(|| kubectl.run(&["describe", "pods", "--namespace", OPERATOR]).unwrap_or_default())?;

    install(&rig, CLUSTERS, "slurm-cluster-storage", Some("storage-values.yaml"), &[])?;
    wait_until("claims are bound", || {
        let phases = ["get", "pvc", "--namespace", CLUSTERS, "--output", "jsonpath={.items[*].status.phase}"];
        Ok(kubectl.run(&phases)? == "Bound Bound")
    })?;
    // The webhook answers, with words for the user.
    let wrong = "slurmNodes.login.k8sNodeFilterName=nowhere";
    let said = refused(install(&rig, CLUSTERS, "slurm-cluster", Some("values.yaml"), &[wrong]))?;
    assert!(said.contains("spec.k8sNodeFilters has no entry \"nowhere\""), "{said}");
    let key = "slurmNodes.login.sshRootPublicKeys[0]=ssh-ed25519 AAAA someone";
    let all = [key, "networkPolicies.enabled=true", "priorityClasses.create=true"];
    install(&rig, CLUSTERS, "slurm-cluster", Some("values.yaml"), &all)?;
    let get = [
        "get",
        "slurmcluster",
        "slurm1",
        "--namespace",
        CLUSTERS,
        "--output",
        "jsonpath={.spec.clusterType}",
    ];
    assert_eq!(kubectl.run(&get)?, "cpu");

    let who = format!("system:serviceaccount:{OPERATOR}:{NAME}");
    let may = |verb: &str, what: &str, namespace: &str| {
        let ask = ["auth", "can-i", verb, what, "--namespace", namespace, "--as", &who];
        // No is also an exit code.
        kubectl.run(&ask).is_ok_and(|answer| answer.trim() == "yes")
    };
    assert!(may("create", "statefulsets.apps", CLUSTERS) && may("patch", "pods", CLUSTERS));
    assert!(!may("create", "statefulsets.apps", OPERATOR) && !may("list", "secrets", "kube-system"));
    assert!(may("list", "nodes", CLUSTERS) && !may("update", "nodes", CLUSTERS));
    assert!(
        may("update", &format!("secrets/{NAME}-webhook-tls"), OPERATOR) && !may("get", "secrets/x", OPERATOR)
    );

    let mut calls = rig.audit_log().calls()?;
    calls.retain(|call| call.user.username == who);
    assert!(!calls.is_empty(), "the operator calls the API server");
    calls.retain(|call| call.response_status.as_ref().is_some_and(|status| status.code == 403));
    assert!(calls.is_empty(), "refused: {calls:#?}");
    Ok(())
}
