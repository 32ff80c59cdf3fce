//! A namespace whose pods the webhook is asked about, and another webhook that comes after it.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use engine::Key;
use engine::admission::{
    Admission, AdmissionMetrics, Configuration, Decision, OnFailure, Options, Policy, Request, Source,
};
use gpu_scheduler::webhook::{Config, webhooks};
use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingWebhookConfiguration,
};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use rig::cache::Cache;
use rig::{ControlPlane, Namespace};
use serde_json::{Value, json};
use tokio::sync::OnceCell;
use tokio_util::sync::{CancellationToken, DropGuard};

const PATIENCE: Duration = Duration::from_secs(60);
const LATE: &str = "/late";

async fn plane() -> Result<&'static ControlPlane> {
    static PLANE: OnceCell<ControlPlane> = OnceCell::const_new();
    PLANE.get_or_try_init(ControlPlane::start).await
}

/// The objects of the chart.
async fn rendered() -> Result<&'static Vec<Value>> {
    static RENDERED: OnceCell<Vec<Value>> = OnceCell::const_new();
    RENDERED
        .get_or_try_init(|| async {
            let chart = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../helm/gpu-scheduler");
            let mut helm = rig::rig::helm(&Cache::open()?, None)?;
            helm.args(["template", "gpu-scheduler", "--namespace", "gpus", "--kube-version", "1.31"])
                .arg(chart);
            helm.args(["--set", "webhook.enabled=true", "--set", "webhook.failurePolicy=Fail"]);
            let output = helm.output().context("helm runs")?;
            ensure!(output.status.success(), "helm: {}", String::from_utf8_lossy(&output.stderr));
            Ok(serde_saphyr::from_multiple(&String::from_utf8(output.stdout)?)?)
        })
        .await
}

/// What another webhook does to pods with the label `late`: it makes them ours, or adds a container.
fn late(request: &Request) -> Decision {
    let Some(before) = request.object.as_ref().and_then(|object| serde_json::to_value(object).ok()) else {
        return Decision::allow();
    };
    let mut after = before.clone();
    match before["metadata"]["labels"]["late"].as_str() {
        Some("ours") => after["spec"]["schedulerName"] = json!("gpu-scheduler"),
        Some(_) if before["spec"]["containers"].as_array().is_some_and(|all| all.len() == 1) => {
            let added = json!({ "name": "added", "image": "example/none" });
            after["spec"]["containers"].as_array_mut().into_iter().for_each(|all| all.push(added.clone()));
        }
        _ => {}
    }
    Decision::change(&before, &after)
}

pub struct Place {
    namespace: Namespace,
    metrics: AdmissionMetrics,
    _stop: DropGuard,
}

impl Place {
    pub async fn new(prefix: &str) -> Result<Self> {
        let plane = plane().await?;
        let namespace = plane.namespace(prefix).await?;
        let name = namespace.name();
        let config = kube::Config::from_custom_kubeconfig(
            Kubeconfig::read_from(plane.kubeconfig())?,
            &KubeConfigOptions::default(),
        )
        .await?;
        let client = engine::client::connect(config, engine::client::Options::default())?;
        let source = Source::Own {
            secret: Key::new(name, "webhook-tls"),
            policy: Policy::for_names(vec!["127.0.0.1".into()]),
        };
        let (first, last) = (format!("a-{name}"), format!("z-{name}"));
        let configurations = vec![
            Configuration::validating(&first),
            Configuration::mutating(&first),
            Configuration::mutating(&last),
        ];
        let options = Options {
            address: (Ipv4Addr::LOCALHOST, 0).into(),
            ..Options::new("webhook-test", source, configurations)
        };
        let (metrics, admission) = (options.metrics.clone(), Admission::bind(options).await?);
        let (address, mut ready) = (admission.address(), admission.ready());
        let stop = CancellationToken::new();
        let served = webhooks(Config::new("gpu-scheduler"), OnFailure::Deny).on(LATE, OnFailure::Deny, late);
        tokio::spawn(admission.run(client, served, stop.clone()));
        tokio::time::timeout(PATIENCE, ready.wait_for(|ready| *ready)).await??;

        let params = PostParams::default();
        let found = configuration("ValidatingWebhookConfiguration", &first, address, name).await?;
        let validating: ValidatingWebhookConfiguration = serde_json::from_value(found)?;
        Api::all(namespace.client()).create(&params, &validating).await?;
        let mut found = configuration("MutatingWebhookConfiguration", &first, address, name).await?;
        let mutating: MutatingWebhookConfiguration = serde_json::from_value(found.clone())?;
        Api::all(namespace.client()).create(&params, &mutating).await?;
        found["metadata"]["name"] = json!(last);
        found["webhooks"][0]["name"] = json!("late.example.com");
        found["webhooks"][0]["clientConfig"] = json!({ "url": format!("https://{address}{LATE}") });
        found["webhooks"][0]["matchConditions"] = json!([]);
        let mutating: MutatingWebhookConfiguration = serde_json::from_value(found)?;
        Api::all(namespace.client()).create(&params, &mutating).await?;
        let place = Self { namespace, metrics, _stop: stop.drop_guard() };
        place.until_asked().await?;
        Ok(place)
    }

    /// Waits until the API server knows all webhooks, and trusts them. It learns of them in no order.
    async fn until_asked(&self) -> Result<()> {
        let params = PostParams { dry_run: true, ..PostParams::default() };
        let mut mapless = pod("mapless-0", "gpu-scheduler");
        mapless["metadata"]["annotations"] = json!({});
        let mut more = pod("more-0", "gpu-scheduler");
        more["metadata"]["labels"] = json!({ "late": "container" });
        let begun = std::time::Instant::now();
        loop {
            let refused = self.pods().create(&params, &serde_json::from_value(mapless.clone())?).await;
            let made = self.pods().create(&params, &serde_json::from_value(more.clone())?).await;
            let is_refused = refused.is_err_and(|error| error.to_string().contains("is missing"));
            let all = made.as_ref().map(containers).unwrap_or_default();
            let is_made = all.len() == 3 && all.iter().all(|one| one.contains("CUDA_VISIBLE_DEVICES"));
            if is_refused && is_made {
                return Ok(());
            }
            if begun.elapsed() > PATIENCE {
                bail!("the API server does not ask: {made:?}");
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    pub fn pods(&self) -> Api<Pod> {
        self.namespace.api()
    }

    pub async fn create(&self, pod: Value) -> Result<Pod> {
        Ok(self.pods().create(&PostParams::default(), &serde_json::from_value(pod)?).await?)
    }

    /// How often the webhook was asked at a path.
    pub fn asked(&self, path: &str) -> u64 {
        ["allowed", "denied", "patched"].iter().map(|result| self.metrics.requests(path, result)).sum()
    }
}

/// The configuration of this kind, for the webhooks of a server at this address about one namespace.
async fn configuration(kind: &str, name: &str, address: SocketAddr, namespace: &str) -> Result<Value> {
    let found = rendered().await?.iter().find(|object| object["kind"] == kind);
    let mut object = found.with_context(|| format!("the chart has a {kind}"))?.clone();
    object["metadata"] = json!({ "name": name });
    for webhook in object["webhooks"].as_array_mut().context("webhooks")? {
        let path = webhook["clientConfig"]["service"]["path"].as_str().context("a path")?.to_string();
        webhook["clientConfig"] = json!({ "url": format!("https://{address}{path}") });
        webhook["namespaceSelector"] = json!({ "matchLabels": { "kubernetes.io/metadata.name": namespace } });
    }
    Ok(object)
}

/// A pod with a map, a container and an init container.
pub fn pod(name: &str, scheduler: &str) -> Value {
    json!({
        "metadata": { "name": name, "annotations": { "gpu-scheduling-map": "0=nowhere:0" } },
        "spec": {
            "schedulerName": scheduler,
            "automountServiceAccountToken": false,
            "initContainers": [{ "name": "first", "image": "example/none" }],
            "containers": [{ "name": "main", "image": "example/none" }],
        },
    })
}

/// The containers of a pod as JSON.
pub fn containers(pod: &Pod) -> Vec<String> {
    let spec = pod.spec.as_ref();
    let init = spec.and_then(|spec| spec.init_containers.as_ref()).into_iter().flatten();
    let all = init.chain(spec.into_iter().flat_map(|spec| &spec.containers));
    all.map(|container| serde_json::to_string(container).unwrap_or_default()).collect()
}
