//! An API server, the webhook as a process of its own, and its registration.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use engine::admission::OnFailure;
use engine::settings::{Flags, Profile, World, load};
use gpu_scheduler::names::SCHEDULER;
use gpu_scheduler::webhook::{Config, Options};
use k8s_openapi::ByteString;
use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingWebhookConfiguration,
};
use k8s_openapi::api::core::v1::{Pod, Secret};
use kube::Client;
use kube::api::{Api, DeleteParams, ListParams, PostParams};
use rig::{ControlPlane, Namespace};
use serde_json::{Value, json};

use crate::idle::Idle;
use crate::wire::Connection;

const NAME: &str = "gpu-scheduler-webhook";

/// Who is asked about a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    Nobody,
    /// The webhook that takes no time itself.
    Idle,
    Ours,
}

/// Everything that is needed for a measurement.
pub(crate) struct Place {
    _plane: ControlPlane,
    with: Namespace,
    idle: Namespace,
    without: Namespace,
    webhook: Child,
    pub(crate) address: SocketAddr,
    pub(crate) bundle: Arc<str>,
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = self.webhook.kill();
        let _ = self.webhook.wait();
    }
}

impl Place {
    pub(crate) async fn start(program: Option<&Path>) -> Result<Self> {
        let plane = ControlPlane::start().await?;
        let with = plane.namespace("with").await?;
        let (idle, without) = (plane.namespace("idle").await?, plane.namespace("without").await?);
        let address = free_address()?;
        register(&with, NAME, address, None).await?;
        let mut webhook = match program {
            Some(program) => Command::new(program),
            None => Command::new(std::env::current_exe()?),
        };
        match program {
            Some(_) => webhook.args(["gpu-scheduler", "webhook", "--failure-policy=Fail"]),
            None => webhook.arg("--serve"),
        };
        let webhook = webhook
            .args([
                "--webhook-hosts=127.0.0.1",
                &format!("--webhook-bind-address={address}"),
                "--log-level=warn",
            ])
            .args(["--health-probe-bind-address=0", "--metrics-bind-address=0", "--debug-bind-address=0"])
            .env("KUBECONFIG", plane.kubeconfig())
            .env("OPERATOR_NAMESPACE", with.name())
            .stdin(Stdio::null())
            .spawn()
            .context("cannot start the webhook")?;
        let mut place = Self { _plane: plane, with, idle, without, webhook, address, bundle: "".into() };
        place.bundle = place.wait().await?;
        let answer = Connection::open(address, &place.bundle).await?.post("/mutate", &place.review()).await?;
        let idle = Idle::start(&answer).await?;
        register(&place.idle, "idle-webhook", idle.address, Some(&idle.bundle)).await?;
        place.wait_until_asked(&place.idle).await?;
        Ok(place)
    }

    /// Waits until pods of this namespace get their variables.
    async fn wait_until_asked(&self, namespace: &Namespace) -> Result<()> {
        let pods = namespace.api::<Pod>();
        let dry_run = PostParams { dry_run: true, ..PostParams::default() };
        for _ in 0..300 {
            tokio::time::sleep(Duration::from_millis(100)).await;
            if pods.create(&dry_run, &pod("first")?).await.is_ok_and(|pod| has_devices(&pod)) {
                return Ok(());
            }
        }
        anyhow::bail!("the webhook of {} does not answer", namespace.name())
    }

    /// Waits until the API server gets answers, and returns whom to trust.
    async fn wait(&self) -> Result<Arc<str>> {
        self.wait_until_asked(&self.with).await?;
        let secret = self.with.api::<Secret>().get(&format!("{NAME}-tls")).await?;
        let bundle = secret.data.unwrap_or_default().remove("ca.crt").context("ca.crt")?;
        Ok(String::from_utf8(bundle.0)?.into())
    }

    pub(crate) fn client(&self) -> Client {
        self.with.client()
    }

    /// The namespace about whose pods this one is asked.
    pub(crate) fn namespace(&self, asked: Asked) -> &str {
        match asked {
            Asked::Nobody => self.without.name(),
            Asked::Idle => self.idle.name(),
            Asked::Ours => self.with.name(),
        }
    }

    pub(crate) fn process(&self) -> u32 {
        self.webhook.id()
    }

    pub(crate) async fn empty(&self, namespace: &str) -> Result<()> {
        let pods = Api::<Pod>::namespaced(self.client(), namespace);
        let now = DeleteParams { grace_period_seconds: Some(0), ..DeleteParams::default() };
        pods.delete_collection(&now, &ListParams::default()).await?;
        let left = pods.list(&ListParams::default()).await?.items.len();
        ensure!(left == 0, "{left} pods are left");
        Ok(())
    }

    /// A review as the API server sends it.
    pub(crate) fn review(&self) -> Arc<[u8]> {
        let kind = json!({ "group": "", "version": "v1", "kind": "Pod" });
        let resource = json!({ "group": "", "version": "v1", "resource": "pods" });
        let mut object = manifest("gpu-workload-0");
        object["apiVersion"] = json!("v1");
        object["kind"] = json!("Pod");
        let review = json!({
            "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
            "request": {
                "uid": "6f6f9b1e-7f5a-4a44-8d3f-9f3f1d6a2f00", "kind": kind, "resource": resource,
                "requestKind": kind, "requestResource": resource, "name": "gpu-workload-0",
                "namespace": self.with.name(), "operation": "CREATE", "dryRun": false,
                "userInfo": { "username": "system:serviceaccount:kube-system:statefulset-controller", "uid": "u", "groups": ["system:serviceaccounts", "system:authenticated"] },
                "object": object, "oldObject": null,
                "options": { "kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1" },
            },
        });
        review.to_string().into_bytes().into()
    }
}

/// The webhook, as `soperator gpu-scheduler webhook` runs it.
pub(crate) fn serve(flags: &[String]) -> Result<()> {
    #[derive(Debug, clap::Parser)]
    struct Role {
        #[command(flatten)]
        flags: Flags,
    }
    let words = std::iter::once("webhook").chain(flags.iter().map(String::as_str));
    let role = <Role as clap::Parser>::try_parse_from(words)?;
    let settings = load(&Profile::new("gpu-scheduler", SCHEDULER), &role.flags, &World::default())?;
    let options =
        Options { config: Config::new(SCHEDULER), on_failure: OnFailure::Deny, keep_ca_bundle: true };
    Ok(gpu_scheduler::webhook::run(&settings, options)?)
}

fn free_address() -> Result<SocketAddr> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?)
}

/// What the chart registers, for one namespace and a server on this machine. Ours keeps the caBundle itself.
async fn register(
    namespace: &Namespace,
    name: &str,
    address: SocketAddr,
    bundle: Option<&str>,
) -> Result<()> {
    let bundle = bundle.map(|bundle| ByteString(bundle.as_bytes().to_vec()));
    let ours = "object.spec.schedulerName == 'gpu-scheduler'";
    let map = "has(object.metadata.annotations) && 'gpu-scheduling-map' in object.metadata.annotations";
    let assigned = "has(object.metadata.annotations) && ['gpu-scheduling-devices', 'gpu-scheduling-map-hash', \
                    'gpu-scheduling-shared'].exists(key, key in object.metadata.annotations)";
    let unset = "[object.spec.containers, has(object.spec.initContainers) ? object.spec.initContainers : []].exists(group, \
                 group.exists(container, !(has(container.env) && container.env.exists(one, one.name == 'CUDA_VISIBLE_DEVICES' && \
                 has(one.valueFrom) && has(one.valueFrom.fieldRef) && \
                 one.valueFrom.fieldRef.fieldPath == \"metadata.annotations['gpu-scheduling-devices']\"))))";
    let webhook = |kind: &str, path: &str, condition: String| {
        json!({
            "name": format!("{kind}.{name}.soperator.local"),
            "clientConfig": { "url": format!("https://{address}{path}"), "caBundle": &bundle },
            "rules": [{ "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["CREATE"], "scope": "Namespaced" }],
            "matchConditions": [{ "name": "ours", "expression": condition }],
            "namespaceSelector": { "matchLabels": { "kubernetes.io/metadata.name": namespace.name() } },
            "failurePolicy": "Fail", "timeoutSeconds": 3, "sideEffects": "None", "admissionReviewVersions": ["v1"],
        })
    };
    let mut mutate = webhook("mutate", "/mutate", format!("{ours} && {map}"));
    mutate["reinvocationPolicy"] = json!("IfNeeded");
    let validate = webhook("pods", "/validate", format!("({ours} && (!({map}) || {unset})) || ({assigned})"));
    let object = |webhook: Value| json!({ "metadata": { "name": name }, "webhooks": [webhook] });
    let mutating: MutatingWebhookConfiguration = serde_json::from_value(object(mutate))?;
    Api::all(namespace.client()).create(&PostParams::default(), &mutating).await?;
    let validating: ValidatingWebhookConfiguration = serde_json::from_value(object(validate))?;
    Api::all(namespace.client()).create(&PostParams::default(), &validating).await?;
    Ok(())
}

/// A pod of the size that workloads have, with a map of eight lines.
fn manifest(name: &str) -> Value {
    let map: String = (0..8).map(|index| format!("{index}=gpu-node-{index}:0,1,2,3\n")).collect();
    let env: Vec<Value> =
        (0..10).map(|n| json!({ "name": format!("VARIABLE_{n}"), "value": "x".repeat(20) })).collect();
    json!({
        "metadata": {
            "name": name,
            "labels": { "app": "gpu-workload", "apps.kubernetes.io/pod-index": "0" },
            "annotations": { "gpu-scheduling-map": map },
        },
        "spec": {
            "schedulerName": "gpu-scheduler",
            "containers": [{
                "name": "worker", "image": "my-gpu-app:latest", "env": env,
                "resources": { "requests": { "cpu": "4", "memory": "16Gi" }, "limits": { "memory": "16Gi" } },
                "volumeMounts": [{ "name": "scratch", "mountPath": "/scratch" }],
            }],
            "volumes": [{ "name": "scratch", "emptyDir": {} }],
        },
    })
}

/// Whether it has got the variable for its devices.
pub(crate) fn has_devices(pod: &Pod) -> bool {
    let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
    let mut env = containers.flat_map(|one| one.env.iter().flatten());
    env.any(|one| one.name == "CUDA_VISIBLE_DEVICES")
}

/// The same as an object.
pub(crate) fn pod(name: &str) -> Result<Pod> {
    Ok(serde_json::from_value(manifest(name))?)
}
