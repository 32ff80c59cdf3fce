//! The chart, by the commands that its text tells users.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use base64::Engine as _;
use e2e::cluster::root;
use e2e::{Kubectl, output_of, wait_until};
use rig::Rig;
use serde_json::{Value, json};

pub(crate) const NAMESPACE: &str = "gpu-scheduler-system";
const RELEASE: &str = "gpu-scheduler";

/// The installed chart; taken away in the end, whatever happened.
pub(crate) struct Chart {
    rig: &'static Rig,
    folder: tempfile::TempDir,
    image: [String; 3],
}

impl Chart {
    pub(crate) fn new(rig: &'static Rig) -> Result<Self> {
        let image = [
            "image.repository=soperator.local/soperator".into(),
            concat!("image.tag=", env!("CARGO_PKG_VERSION")).into(),
            // The rig has no registry.
            "image.pullPolicy=IfNotPresent".into(),
        ];
        Ok(Self { rig, folder: tempfile::tempdir()?, image })
    }

    fn helm_in(&self, chart: &str, arguments: &[&str]) -> Result<String> {
        let folder = root().join("helm").join(chart);
        output_of(self.rig.helm()?.args(arguments).current_dir(folder), None)
            .with_context(|| format!("helm {}", arguments.join(" ")))
    }

    /// Helm, where users are when they type: in the folder of the chart.
    fn helm(&self, arguments: &[&str]) -> Result<String> {
        self.helm_in("gpu-scheduler", arguments)
    }

    fn set<'a>(&'a self, more: &[&'a str]) -> Vec<&'a str> {
        let small = ["resources.requests.cpu=10m", "resources.requests.memory=32Mi"];
        let all = self.image.iter().map(String::as_str).chain(small).chain(more.iter().copied());
        all.flat_map(|value| ["--set", value]).collect()
    }

    fn kubectl(&self) -> Kubectl<'static> {
        Kubectl::cluster_wide(self.rig)
    }

    pub(crate) fn is_checked_before_anything_is_installed(&self) -> Result<()> {
        for chart in ["gpu-scheduler", "gpu-scheduler-check"] {
            self.helm_in(chart, &["lint", "."])?;
        }
        let plain = self.helm(&["template", RELEASE, ".", "--values", "values.yaml"])?;
        ensure!(!plain.contains("WebhookConfiguration"), "the webhook is optional");
        let with_webhook = ["--set", "webhook.enabled=true", "--set", "webhook.caBundle=LS0t..."];
        let whole = self.helm(&[&["template", RELEASE, "."][..], &with_webhook].concat())?;
        ensure!(whole.contains("kind: MutatingWebhookConfiguration") && whole.contains("caBundle: LS0t..."));
        Ok(())
    }

    pub(crate) fn install_the_scheduler_alone(&self) -> Result<()> {
        let command = ["install", RELEASE, ".", "--namespace", NAMESPACE, "--create-namespace", "--wait"];
        self.helm(&[&command[..], &self.set(&[])].concat())?;
        let health = format!("/api/v1/namespaces/{NAMESPACE}/services/gpu-scheduler:8080/proxy/health");
        let answer = self.kubectl().run(&["get", "--raw", &health])?;
        ensure!(answer.contains("\"status\":\"healthy\""), "{answer}");
        Ok(())
    }

    /// Makes certificates as files, in the same folder each time.
    fn certificates(&self, days: &str) -> Result<PathBuf> {
        let folder = self.folder.path().join("certs");
        let mut certs = Command::new(soperator()?);
        certs.args(["gpu-scheduler", "certs", "--days", days]);
        output_of(certs.env("NAMESPACE", NAMESPACE).env("CERT_DIR", &folder), None)?;
        Ok(folder)
    }

    fn upgrade_to(&self, authorities: &Path) -> Result<()> {
        let text = std::fs::read(authorities)?;
        let bundle = format!("webhook.caBundle={}", base64::engine::general_purpose::STANDARD.encode(text));
        let values = self.set(&["webhook.enabled=true", &bundle, "webhook.failurePolicy=Fail"]);
        let command = ["upgrade", RELEASE, ".", "--namespace", NAMESPACE, "--wait"];
        self.helm(&[&command[..], &values].concat()).map(drop)
    }

    fn apply(&self, file: &Path) -> Result<()> {
        output_of(self.rig.kubectl()?.arg("apply").arg("--filename").arg(file), None).map(drop)
    }

    pub(crate) fn turn_the_webhook_on(&self) -> Result<()> {
        let folder = self.certificates("300")?;
        self.apply(&folder.join("webhook-tls-secret.yaml"))?;
        self.upgrade_to(&folder.join("ca.crt"))?;
        self.kubectl().run(&["get", "mutatingwebhookconfiguration", "gpu-scheduler-webhook"])?;
        wait_until("the first certificate is served", || Ok((299..301).contains(&self.days_left()?)))
    }

    /// First the API server trusts both, then the webhook serves the new one.
    pub(crate) fn change_the_certificate(&self) -> Result<()> {
        let folder = self.certificates("200")?;
        self.upgrade_to(&folder.join("ca.crt"))?;
        self.apply(&folder.join("webhook-tls-secret.yaml"))
    }

    pub(crate) fn the_new_certificate_is_served(&self) -> Result<()> {
        wait_until("the new certificate is served", || Ok((199..201).contains(&self.days_left()?)))
    }

    /// By the chart's defaults the webhook makes its certificate, and has the API server trust both of its configurations.
    pub(crate) fn leave_the_certificate_to_the_webhook(&self, kubectl: &Kubectl<'_>) -> Result<()> {
        self.kubectl().run(&["delete", "secret", "gpu-scheduler-webhook-tls", "--namespace", NAMESPACE])?;
        let command = ["upgrade", RELEASE, ".", "--namespace", NAMESPACE, "--wait"];
        self.helm(&[&command[..], &self.set(&["webhook.enabled=true"])].concat())?;
        let create = |annotations: Value| {
            let pod = json!({
                "apiVersion": "v1",
                "metadata": { "annotations": annotations },
                "spec": { "schedulerName": "gpu-scheduler" },
            });
            let overrides = format!("--overrides={pod}");
            kubectl.run(&["run", "own-0", "--image=none", "--dry-run=server", "--output=json", &overrides])
        };
        wait_until("a pod gets its variables by the webhook's own certificate", || {
            Ok(create(json!({ "gpu-scheduling-map": "0=node-1:0" }))?.contains("CUDA_VISIBLE_DEVICES"))
        })?;
        wait_until("a pod without a map is refused by it", || {
            Ok(create(json!({})).is_err_and(|error| format!("{error:#}").contains("is missing")))
        })
    }

    /// How long the certificate that is served lasts.
    fn days_left(&self) -> Result<i64> {
        let path = format!(
            "/api/v1/namespaces/{NAMESPACE}/services/gpu-scheduler-metrics:webhook-metrics/proxy/metrics"
        );
        let metrics = self.kubectl().run(&["get", "--raw", &path])?;
        let name = "admission_certificate_expiry_timestamp_seconds ";
        let line = metrics.lines().find_map(|line| line.strip_prefix(name)).context("no such metric")?;
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH)?.as_secs();
        // A part of a day is a day: certificates are a little younger than they say.
        Ok((line.trim().parse::<i64>()? - i64::try_from(now)?).div_euclid(24 * 3600) + 1)
    }

    /// Installs the pods that check, in the namespace of the test, with a map or without.
    pub(crate) fn install_check(&self, release: &str, namespace: &str, more: &[&str]) -> Result<()> {
        let command = ["install", release, ".", "--namespace", namespace];
        let image = self.image.iter().flat_map(|value| ["--set", value.as_str()]);
        let more = more.iter().flat_map(|value| ["--set", value]);
        let arguments: Vec<&str> = command.into_iter().chain(image).chain(more).collect();
        self.helm_in("gpu-scheduler-check", &arguments).map(drop)
    }

    pub(crate) fn uninstall(&self) -> Result<()> {
        self.helm(&["uninstall", RELEASE, "-n", NAMESPACE, "--wait"])?;
        let kubectl = self.kubectl();
        let kinds = "mutatingwebhookconfigurations,validatingwebhookconfigurations,clusterroles,flowschemas";
        let left = kubectl.run(&["get", kinds, "--output", "name"])?;
        ensure!(!left.contains("gpu-scheduler"), "{left}");
        kubectl.run(&["delete", "secret", "gpu-scheduler-webhook-tls", "-n", NAMESPACE]).map(drop)
    }

    /// What the pods look like and log, for a test that fails.
    pub(crate) fn what_it_says(&self) -> String {
        let kubectl = self.kubectl();
        let selector = "app.kubernetes.io/name=gpu-scheduler";
        let pods = kubectl.run(&["get", "pods", "--all-namespaces", "--output", "wide"]).unwrap_or_default();
        let logs = [
            "logs",
            "--namespace",
            NAMESPACE,
            "--selector",
            selector,
            "--all-containers",
            "--prefix",
            "--tail",
            "40",
        ];
        let logs = kubectl.run(&logs).unwrap_or_else(|error| format!("{error:#}"));
        let ours: Vec<&str> = pods.lines().filter(|line| line.contains("gpu")).collect();
        format!("{}\n{logs}", ours.join("\n"))
    }
}

impl Drop for Chart {
    fn drop(&mut self) {
        // Nobody else on the rig shall be asked to wait for a webhook of ours.
        let _ = self.helm(&["uninstall", RELEASE, "-n", NAMESPACE, "--ignore-not-found"]);
    }
}

/// The program on this machine.
fn soperator() -> Result<PathBuf> {
    match std::env::var_os("SOPERATOR_BIN") {
        Some(named) => Ok(named.into()),
        None => rig::build::cargo_program(&["--package", "soperator", "--bin", "soperator"]),
    }
}
