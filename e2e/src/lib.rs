//! What end-to-end tests share: kubectl as a user types it, and waiting that says what it waited for.

pub mod cluster;
pub mod http;

use std::io::Write as _;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rig::{Namespace, Rig};

/// How long anything on the rig may take before a test fails.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// kubectl in the namespace of one test.
pub struct Kubectl<'a> {
    rig: &'a Rig,
    namespace: Option<Namespace>,
}

impl<'a> Kubectl<'a> {
    /// kubectl in a fresh namespace.
    pub async fn in_fresh_namespace(rig: &'a Rig, prefix: &str) -> Result<Self> {
        Ok(Self { rig, namespace: Some(rig.namespace(prefix).await?) })
    }

    /// kubectl for things that have no namespace.
    pub fn cluster_wide(rig: &'a Rig) -> Self {
        Self { rig, namespace: None }
    }

    /// Name of the namespace.
    pub fn namespace(&self) -> &str {
        self.namespace.as_ref().map_or("default", Namespace::name)
    }

    /// The command, for tests that run it in their own way.
    pub fn command(&self) -> Result<Command> {
        let mut command = self.rig.kubectl()?;
        command.args(["--namespace", self.namespace()]);
        Ok(command)
    }

    /// Runs kubectl and returns what it printed.
    pub fn run(&self, arguments: &[&str]) -> Result<String> {
        output_of(self.command()?.args(arguments), None)
    }

    /// Applies manifests.
    pub fn apply(&self, manifests: &str) -> Result<String> {
        output_of(self.command()?.args(["apply", "--filename", "-"]), Some(manifests))
    }

    /// Waits until pods are Ready.
    pub fn wait_ready(&self, pods: &[&str]) -> Result<()> {
        for pod in pods {
            // `kubectl wait` fails on objects that do not exist yet, such as a StatefulSet's second pod.
            self.wait_until(&format!("pod {pod} is Ready"), || {
                let ready = "jsonpath={.status.conditions[?(@.type==\"Ready\")].status}";
                Ok(self.run(&["get", "pod", pod, "--output", ready])? == "True")
            })
            .with_context(|| self.run(&["describe", "pod", pod]).unwrap_or_default())?;
        }
        Ok(())
    }

    /// Runs a command in a pod and returns what it printed.
    pub fn exec(&self, pod: &str, command: &[&str]) -> Result<String> {
        self.run(&[&["exec", pod, "--"], command].concat())
    }

    /// Waits until `condition` holds; its errors count as "not yet".
    pub fn wait_until(&self, what: &str, condition: impl Fn() -> Result<bool>) -> Result<()> {
        wait_until(what, condition)
    }
}

/// Waits until `condition` holds; its errors count as "not yet".
pub fn wait_until(what: &str, condition: impl Fn() -> Result<bool>) -> Result<()> {
    wait_until_for(PATIENCE, what, condition)
}

/// The same with another limit.
pub fn wait_until_for(patience: Duration, what: &str, condition: impl Fn() -> Result<bool>) -> Result<()> {
    let deadline = Instant::now() + patience;
    loop {
        let begun = Instant::now();
        let outcome = condition();
        if matches!(outcome, Ok(true)) {
            return Ok(());
        }
        if Instant::now() > deadline {
            let waited = format!("waited {} s until {what}, in vain", patience.as_secs());
            outcome.context(waited.clone())?;
            bail!(waited);
        }
        // A look is a program or two; what is waited for needs the processor, too.
        std::thread::sleep(Duration::from_millis(200).max(2 * begun.elapsed()));
    }
}

/// Runs a command to its end and returns what it printed, or its error.
pub fn output_of(command: &mut Command, stdin: Option<&str>) -> Result<String> {
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    if let Some(mut pipe) = child.stdin.take() {
        pipe.write_all(stdin.unwrap_or_default().as_bytes())?;
    }
    let output = child.wait_with_output()?;
    if !output.status.success() {
        let arguments: Vec<_> = command.get_args().map(|argument| argument.to_string_lossy()).collect();
        bail!("{} failed: {}", arguments.join(" "), String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(String::from_utf8(output.stdout)?)
}

/// The full reference of an image by the name of its recipe.
pub fn image(recipe: &str) -> Result<String> {
    let recipes = rig::image::recipes()?;
    let found = recipes.iter().find(|known| known.name() == recipe);
    Ok(found.with_context(|| format!("no image is called {recipe}"))?.reference().to_string())
}

/// A pod that runs a shell command of the jail image (bash, python3) on a node, or on any.
pub fn pod(name: &str, node: Option<&str>, command: &str) -> Result<serde_json::Value> {
    let mut pod = serde_json::json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": name}},
        "spec": {
            "terminationGracePeriodSeconds": 0,
            "containers": [{"name": "main", "image": image("jail")?, "command": ["bash", "-c", command]}],
        },
    });
    if let Some(node) = node {
        pod["spec"]["nodeSelector"] = serde_json::json!({"kubernetes.io/hostname": node});
    }
    Ok(pod)
}

/// A shell command that answers every HTTP request on port 80 with the pod's own name.
pub const SAY_HOSTNAME: &str =
    "mkdir -p /srv && cd /srv && hostname > index.html && exec python3 -m http.server 80";

/// A shell command that does nothing, for ever.
pub const IDLE: &str = "exec sleep infinity";

/// A test for each Slurm version, from functions that take the shared [`rig::SlurmMachine`] of one.
#[macro_export]
macro_rules! on_both_slurm_versions {
    ($($test:ident),* $(,)?) => {
        mod slurm_24_11 {
            $(#[test]
            fn $test() -> anyhow::Result<()> {
                super::$test(rig::SlurmMachine::shared(rig::slurm::Version::V24_11)?)
            })*
        }
        mod slurm_26_05 {
            $(#[test]
            fn $test() -> anyhow::Result<()> {
                super::$test(rig::SlurmMachine::shared(rig::slurm::Version::V26_05)?)
            })*
        }
    };
}
