//! `soperator status` on a real API server, where no operator runs.

#![allow(clippy::expect_used, clippy::unwrap_used, clippy::panic, reason = "this file is a test")]

use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use rig::ControlPlane;
use serde_json::{Value, json};

struct Place {
    plane: ControlPlane,
}

impl Place {
    fn kubectl(&self, args: &[&str], input: &str) -> String {
        let mut command = self.plane.kubectl();
        command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "kubectl {args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    fn status(&self, args: &[&str]) -> Output {
        Command::new(env!("CARGO_BIN_EXE_soperator"))
            .arg("status")
            .args(args)
            .env("KUBECONFIG", self.plane.kubeconfig())
            .output()
            .unwrap()
    }
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

#[tokio::test]
async fn status_tells_what_is_known_and_what_is_not() {
    let place = Place { plane: ControlPlane::start().await.unwrap() };
    let without = place.status(&[]);
    assert_eq!(without.status.code(), Some(1));
    assert!(text(&without.stderr).contains("the API server does not tell"), "{}", text(&without.stderr));

    let crds = Command::new(env!("CARGO_BIN_EXE_soperator")).arg("crds").output().unwrap().stdout;
    place.kubectl(&["apply", "-f", "-"], text(&crds));
    place.kubectl(&["wait", "--for=condition=Established", "crd", "--all", "--timeout=60s"], "");
    let nothing = place.status(&[]);
    assert_eq!(nothing.status.code(), Some(1));
    assert_eq!(
        text(&nothing.stderr),
        "error: there is no SlurmCluster in the namespace default; name another with -n, or all with -A\n"
    );

    let example =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/api/slurm.nebius.ai/slurmcluster.yaml");
    place.kubectl(&["apply", "-f", example.to_str().unwrap()], "");
    let fresh = place.status(&["slurm1"]);
    assert!(fresh.status.success());
    let shown = text(&fresh.stdout);
    assert!(
        shown.starts_with("SlurmCluster default/slurm1: the operator has not looked at it yet\n"),
        "{shown}"
    );
    assert!(shown.contains("Slurm does not answer: the Secret default/slurm1-rest-jwt-key"), "{shown}");

    let status = json!({"status": {
        "phase": "Pending", "observedGeneration": 1,
        "conditions": [{
            "type": "ControllersAvailable", "status": "False", "reason": "Missing",
            "message": "waiting for PVC jail-pvc: it does not exist", "lastTransitionTime": "2026-01-01T00:00:00Z",
        }],
    }});
    let patch = ["patch", "slurmcluster", "slurm1", "--subresource=status", "--type=merge", "--patch"];
    place.kubectl(&[&patch[..], &[&status.to_string()]].concat(), "");
    let secret = "apiVersion: v1\nkind: Secret\nmetadata: {name: slurm1-rest-jwt-key}\nstringData: {rest_jwt.key: 0123456789abcdef0123456789abcdef}\n";
    place.kubectl(&["apply", "-f", "-"], secret);
    let service = "apiVersion: v1\nkind: Service\nmetadata: {name: slurm1-rest-internal}\nspec: {selector: {a: b}, ports: [{port: 6820}]}\n";
    place.kubectl(&["apply", "-f", "-"], service);
    let waits = place.status(&[]);
    let shown = text(&waits.stdout);
    assert!(shown.contains("\nWaits for:\n  ControllersAvailable: waiting for PVC jail-pvc"), "{shown}");
    // The API server's words differ with what it runs beside: it misses the Service, or its endpoints.
    let reason = shown.lines().find(|line| line.starts_with("Slurm does not answer: ")).unwrap_or_default();
    assert!(reason.contains("slurm1-rest-internal"), "in the words of the API server: {shown}");

    let json: Value = serde_json::from_slice(&place.status(&["-A", "-o", "json"]).stdout).unwrap();
    assert_eq!(json[0]["waits"][0]["condition"], "ControllersAvailable");
    assert_eq!((&json[0]["available"], &json[0]["slurm"]["answer"]), (&json!(false), &json!("none")));

    let late = place.status(&["--wait", "12"]);
    assert_eq!(late.status.code(), Some(1));
    let notes = text(&late.stderr);
    assert!(notes.contains("waiting for PVC jail-pvc"), "{notes}");
    assert_eq!(notes.matches("waiting for PVC").count(), 1, "told once: {notes}");
    assert!(notes.contains("not available after 12 s: slurm1"), "{notes}");

    let unknown = place.status(&["slurm2"]);
    assert_eq!(
        text(&unknown.stderr),
        "error: there is no SlurmCluster slurm2 in the namespace default; there is slurm1\n"
    );
}
