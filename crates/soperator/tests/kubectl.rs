//! What a user with kubectl sees of the kinds, on a real API server.

#![allow(clippy::expect_used, clippy::unwrap_used, clippy::panic, reason = "this file is a test")]

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rig::ControlPlane;

fn examples(below: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/api").join(below)
}

struct User {
    plane: ControlPlane,
}

impl User {
    /// Runs kubectl, which must succeed and have nothing to warn about, and returns what it prints.
    fn kubectl(&self, args: &[&str], input: &[u8]) -> String {
        let mut child = self
            .plane
            .kubectl()
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // Dropped at the end of the statement, which ends the input.
        child.stdin.take().unwrap().write_all(input).unwrap();
        let output = child.wait_with_output().unwrap();
        let complaints = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success() && complaints.is_empty(), "kubectl {args:?}: {complaints}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// Applies a folder or file of examples as users do, without `--server-side`.
    fn apply(&self, below: &str) -> String {
        self.kubectl(&["apply", "-f", examples(below).to_str().unwrap()], b"")
    }

    /// The words of the first line of a table: its columns, as far as they have no spaces.
    fn columns(&self, kind: &str, more: &[&str]) -> Vec<String> {
        let table = self.kubectl(&[&["get", kind][..], more].concat(), b"");
        let head = table.lines().next().unwrap_or_default();
        head.split("  ").map(str::trim).filter(|name| !name.is_empty()).map(Into::into).collect()
    }
}

#[tokio::test]
async fn plain_kubectl_apply_takes_the_definitions_and_the_manifests_of_the_originals() {
    let user = User { plane: ControlPlane::start().await.unwrap() };
    let printed = Command::new(env!("CARGO_BIN_EXE_soperator")).arg("crds").output().unwrap().stdout;
    let answer = user.kubectl(&["apply", "-f", "-"], &printed);
    assert_eq!(answer.lines().filter(|line| line.ends_with(" created")).count(), 8, "{answer}");
    user.kubectl(&["wait", "--for=condition=Established", "crd", "--all", "--timeout=60s"], b"");
    let answer = user.kubectl(&["apply", "-f", "-"], &printed);
    assert_eq!(answer.lines().filter(|line| line.ends_with(" unchanged")).count(), 8, "{answer}");

    let answer = user.apply("drop-in");
    assert_eq!(answer.lines().filter(|line| line.ends_with(" created")).count(), 3, "{answer}");
    // kubectl says "configured" where the API server put defaults into lists. It changes nothing.
    user.apply("drop-in");
    let generations = ["get", "slurmclusters,clusters,nss", "-o", "jsonpath={.items[*].metadata.generation}"];
    assert_eq!(user.kubectl(&generations, b""), "1 1 1");
    for folder in ["slurm.nebius.ai", "slinky.slurm.net", "slurm.nebius.ai/full", "slinky.slurm.net/full"] {
        user.apply(folder);
    }

    // kubectl makes an integer of it, so `soperator validate` must not complain.
    let set = "apiVersion: slurm.nebius.ai/v1alpha1\nkind: NodeSet\nmetadata: {name: point}\nspec:\n  replicas: 3.0\n  \
               maxUnavailable: 2.0\n  slurmd:\n    image: {repository: a}\n    resources: {}\n    volumes: {spool: \
               {emptyDir: {}}, jail: {emptyDir: {}}}\n  munge: {image: {repository: a}, resources: {}}\n";
    user.kubectl(&["apply", "-f", "-"], set.as_bytes());
    let numbers = [
        "get",
        "nodesets.slurm.nebius.ai",
        "point",
        "-o",
        "jsonpath={.spec.replicas} {.spec.maxUnavailable}",
    ];
    assert_eq!(user.kubectl(&numbers, b""), "3 2");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("point.yaml");
    std::fs::write(&file, set).unwrap();
    let status = Command::new(env!("CARGO_BIN_EXE_soperator")).arg("validate").arg("-f").arg(&file).status();
    assert!(status.unwrap().success());

    let text = user.kubectl(&["explain", "slurmcluster.spec.slurmNodes.login"], b"");
    for part in [
        "GROUP:      slurm.nebius.ai",
        "KIND:       SlurmCluster",
        "FIELD: login <Object>",
        "The pods that users log in to.",
        "  sshdServiceType\t<string> -required-\n",
        "  enum: LoadBalancer, NodePort\n",
        "    How users reach sshd from outside: `LoadBalancer` or `NodePort`.\n",
        "  userIsolation\t<Object>\n",
    ] {
        assert!(text.contains(part), "no {part:?} in:\n{text}");
    }
    assert!(!text.contains("<no description>"), "{text}");

    for (kind, more, columns) in [
        (
            "slurmclusters",
            &[][..],
            &["NAME", "STATUS", "CONTROLLERS", "WORKERS", "LOGIN", "SCONFIGCTRL", "ACCOUNTING"][..],
        ),
        ("nodesets.slurm.nebius.ai", &[], &["NAME", "STATUS", "DESIRED", "READY"]),
        ("nodesets.slurm.nebius.ai", &["-o", "wide"], &["NAME", "STATUS", "DESIRED", "READY", "EPHEMERAL"]),
        ("nodeconfigurators", &[], &["NAME", "REBOOTER ENABLED", "NODECONFIGURATOR ENABLED", "AGE"]),
        (
            "activechecks",
            &[],
            &[
                "NAME",
                "TYPE",
                "INIT",
                "SUSPEND",
                "SCHEDULE",
                "K8S STATUS",
                "SLURM STATUS",
                "SLURM SUBMIT TIME",
                "SLURM ID",
                "AGE",
            ],
        ),
        ("jailedconfigs", &[], &["NAME", "FILES WRITTEN", "RECONFIGURATION STATUS", "JAILED PATH", "AGE"]),
        ("topologyconfigs", &[], &["NAME", "CLUSTER", "PLUGIN", "PLACED", "UNPLACED", "AGE"]),
        ("clusters.slinky.slurm.net", &[], &["NAME", "READY", "AGE"]),
        ("nss", &[], &["NAME", "REPLICAS", "UPDATED", "READY", "AGE"]),
    ] {
        assert_eq!(user.columns(kind, more), columns, "{kind}");
    }

    for (kind, name) in
        [("nodesets.slurm.nebius.ai", "full"), ("nodesets.slinky.slurm.net", "slurm-compute-debug")]
    {
        let answer = user.kubectl(&["scale", kind, name, "--replicas=7"], b"");
        assert!(answer.ends_with(&format!("/{name} scaled\n")), "{answer}");
        assert_eq!(user.kubectl(&["get", kind, name, "-o", "jsonpath={.spec.replicas}"], b""), "7");
    }
}
