//! A namespace of an API server that knows our kinds, and the program that works on it.

use std::io::Write;
use std::process::{Command, Output, Stdio};

use rig::{ControlPlane, Namespace};
use serde_json::{Value, json};
use tokio::sync::OnceCell;

pub struct Place {
    plane: &'static ControlPlane,
    namespace: Namespace,
}

/// The API server of all tests of this program.
async fn server() -> &'static ControlPlane {
    static SERVER: OnceCell<ControlPlane> = OnceCell::const_new();
    SERVER
        .get_or_init(|| async {
            let plane = ControlPlane::start().await.unwrap();
            let crds = Command::new(env!("CARGO_BIN_EXE_soperator")).arg("crds").output().unwrap().stdout;
            kubectl(&plane, &["apply", "-f", "-"], std::str::from_utf8(&crds).unwrap());
            kubectl(&plane, &["wait", "--for=condition=Established", "crd", "--all", "--timeout=60s"], "");
            plane
        })
        .await
}

fn kubectl(plane: &ControlPlane, args: &[&str], input: &str) -> String {
    let mut command = plane.kubectl();
    command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "kubectl {args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// What the program answered.
pub struct Answer {
    pub code: Option<i32>,
    pub out: String,
    pub errors: String,
}

impl From<Output> for Answer {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code(),
            out: String::from_utf8(output.stdout).unwrap(),
            errors: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

impl Place {
    pub async fn new(prefix: &str) -> Self {
        let plane = server().await;
        Self { plane, namespace: plane.namespace(prefix).await.unwrap() }
    }

    pub fn name(&self) -> &str {
        self.namespace.name()
    }

    pub fn kubectl(&self, args: &[&str], input: &str) -> String {
        kubectl(self.plane, &[&["--namespace", self.name()], args].concat(), input)
    }

    pub fn apply(&self, object: &Value) {
        self.kubectl(&["apply", "-f", "-"], &object.to_string());
    }

    pub fn get(&self, kind: &str, name: &str) -> Value {
        serde_json::from_str(&self.kubectl(&["get", kind, name, "-o", "json"], "")).unwrap()
    }

    pub fn set_status(&self, kind: &str, name: &str, status: &Value) {
        let patch = json!({ "status": status }).to_string();
        let args = ["patch", kind, name, "--subresource=status", "--type=merge", "--patch"];
        self.kubectl(&[&args[..], &[&patch]].concat(), "");
    }

    /// `soperator nodeset ...` in the namespace.
    pub fn nodeset(&self, args: &[&str]) -> Answer {
        let mut command = Command::new(env!("CARGO_BIN_EXE_soperator"));
        command.arg("nodeset").args(args).args(["--namespace", self.name()]);
        command.env("KUBECONFIG", self.plane.kubeconfig()).output().unwrap().into()
    }

    /// The same, which must succeed.
    pub fn done(&self, args: &[&str]) -> String {
        let answer = self.nodeset(args);
        assert_eq!(answer.code, Some(0), "{args:?}: {}{}", answer.out, answer.errors);
        answer.out
    }

    /// A pod of a set that runs, as a kubelet and the operator would have it.
    pub fn make_worker(&self, kind: &str, set: &str, pod: &str, hash: (&str, &str)) {
        let owner = self.get(kind, set);
        self.apply(&json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {
                "name": pod, "labels": { hash.0: hash.1 },
                "ownerReferences": [{
                    "apiVersion": owner["apiVersion"], "kind": "NodeSet", "name": set, "uid": owner["metadata"]["uid"],
                    "controller": true,
                }],
            },
            "spec": { "hostname": pod, "containers": [{ "name": "slurmd", "image": "none" }] },
        }));
        let status = json!({ "phase": "Running", "conditions": [{ "type": "Ready", "status": "True" }] });
        self.set_status("pod", pod, &status);
    }
}

/// A set of `slinky.slurm.net` that joins the Cluster `slurm`.
pub fn slinky_set(name: &str, replicas: i32) -> Value {
    let text = include_str!("../../../../examples/api/slinky.slurm.net/nodeset.yaml");
    let mut set: Value = serde_saphyr::from_str(text).unwrap();
    set["metadata"] = json!({ "name": name });
    set["spec"]["replicas"] = replicas.into();
    set
}

/// A set of `slurm.nebius.ai`.
pub fn nebius_set(name: &str, replicas: i32) -> Value {
    let text = include_str!("../../../../examples/api/slurm.nebius.ai/nodeset.yaml");
    let mut set: Value = serde_saphyr::from_str(text).unwrap();
    set["metadata"] = json!({ "name": name });
    set["spec"]["replicas"] = replicas.into();
    set
}

pub const SLINKY: &str = "nodesets.slinky.slurm.net";
pub const NEBIUS: &str = "nodesets.slurm.nebius.ai";
