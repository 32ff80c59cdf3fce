//! A namespace of a real API server, with webhooks that look at the widgets in it.

use std::net::{Ipv4Addr, SocketAddr};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result};
use engine::Key;
use engine::admission::{
    Admission, AdmissionMetrics, Configuration, Decision, Limits, OnFailure, Options, Policy, Request,
    Source, Webhooks,
};
use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingWebhookConfiguration,
};
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, Patch, PatchParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::runtime::wait::{await_condition, conditions};
use kube::{Client, Config, CustomResource, CustomResourceExt as _, ResourceExt as _};
use rig::ControlPlane;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::sync::OnceCell;
use tokio::task::JoinHandle;
use tokio_util::sync::{CancellationToken, DropGuard};

/// What the sample webhooks look at.
#[derive(Clone, Debug, Default, CustomResource, Deserialize, Serialize, JsonSchema)]
#[kube(group = "test.soperator.dev", version = "v1", kind = "Widget", namespaced)]
pub struct WidgetSpec {
    /// `bad`, `panic`, `slow` and `long...` mean what they say to the handlers below.
    #[serde(default)]
    pub text: String,
}

pub const VALIDATE: &str = "/validate-widget";
pub const VALIDATE_OR_IGNORE: &str = "/validate-widget-or-ignore";
pub const MUTATE: &str = "/mutate-widget";
pub const SECRET: &str = "webhook-tls";

fn validate(request: &Request) -> Decision {
    let widget: Widget = match engine::admission::object(request) {
        Ok(widget) => widget,
        Err(decision) => return decision,
    };
    assert_ne!(widget.spec.text, "panic", "on purpose");
    match widget.spec.text.as_str() {
        "bad" => Decision::deny("spec.text: must not be bad").with_code(422),
        "slow" => {
            std::thread::sleep(Duration::from_millis(800));
            Decision::allow()
        }
        "odd" => Decision::allow().warn("spec.text: odd is deprecated"),
        text if text.len() > 1_000_000 => {
            Decision::deny(format!("spec.text: {} characters are too many", text.len()))
        }
        _ => Decision::allow(),
    }
}

fn mutate(request: &Request) -> Decision {
    let Some(before) = request.object.as_ref().and_then(|object| serde_json::to_value(object).ok()) else {
        return Decision::allow();
    };
    let mut after = before.clone();
    after["metadata"]["labels"]["seen"] = json!("yes");
    Decision::change(&before, &after)
}

pub fn webhooks() -> Webhooks {
    Webhooks::new()
        .on(VALIDATE, OnFailure::Deny, validate)
        .on(VALIDATE_OR_IGNORE, OnFailure::Allow, validate)
        .on(MUTATE, OnFailure::Deny, mutate)
}

/// The API server of all tests of this program.
async fn server() -> Result<&'static ControlPlane> {
    static SERVER: OnceCell<ControlPlane> = OnceCell::const_new();
    SERVER
        .get_or_try_init(|| async {
            let plane = ControlPlane::start().await?;
            let crds: Api<CustomResourceDefinition> = Api::all(plane.client().await?);
            crds.create(&PostParams::default(), &Widget::crd()).await?;
            let name = Widget::crd().metadata.name.context("a CRD has a name")?;
            await_condition(crds, &name, conditions::is_crd_established()).await?;
            Ok(plane)
        })
        .await
}

pub struct Place {
    pub plane: &'static ControlPlane,
    pub namespace: rig::Namespace,
}

/// An admission server at work; it ends with this value.
pub struct Running {
    pub address: SocketAddr,
    pub metrics: AdmissionMetrics,
    pub stop: CancellationToken,
    pub task: JoinHandle<()>,
    _guard: DropGuard,
}

impl Place {
    pub async fn new(prefix: &str) -> Result<Self> {
        let plane = server().await?;
        Ok(Self { plane, namespace: plane.namespace(prefix).await? })
    }

    /// A client as the operator has it, in the name of `user` if there is one.
    async fn engine_client(&self, user: Option<&str>) -> Result<Client> {
        let kubeconfig = Kubeconfig::read_from(self.plane.kubeconfig())?;
        let mut config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
        config.auth_info.impersonate = user.map(ToString::to_string);
        Ok(engine::client::connect(config, engine::client::Options::default())?)
    }

    pub fn secret(&self) -> Key {
        Key::new(self.namespace.name(), SECRET)
    }

    /// An authority of our own, for a server on loopback.
    pub fn own(&self) -> Source {
        Source::Own { secret: self.secret(), policy: Policy::for_names(vec!["127.0.0.1".into()]) }
    }

    /// The configurations of the `number`-th server.
    pub fn configurations(&self, number: usize) -> Vec<Configuration> {
        let name = self.configuration_name(number);
        vec![Configuration::validating(&name), Configuration::mutating(&name)]
    }

    pub fn configuration_name(&self, number: usize) -> String {
        format!("{}-{number}", self.namespace.name())
    }

    pub fn options(&self, source: Source) -> Options {
        Options {
            address: (Ipv4Addr::LOCALHOST, 0).into(),
            grace: Duration::from_secs(1),
            ..Options::new("admission-test", source, self.configurations(0))
        }
    }

    pub async fn start(&self, options: Options) -> Result<Running> {
        self.start_as(None, options).await
    }

    pub async fn start_as(&self, user: Option<&str>, options: Options) -> Result<Running> {
        let metrics = options.metrics.clone();
        let admission = Admission::bind(options).await?;
        let (address, mut ready) = (admission.address(), admission.ready());
        let stop = CancellationToken::new();
        let task = tokio::spawn(admission.run(self.engine_client(user).await?, webhooks(), stop.clone()));
        tokio::time::timeout(Duration::from_secs(60), ready.wait_for(|ready| *ready)).await??;
        let guard = stop.clone().drop_guard();
        Ok(Running { address, metrics, stop, task, _guard: guard })
    }

    /// A server with an authority of our own, that the API server asks about each widget of the namespace.
    pub async fn with_webhooks(prefix: &str, limits: Limits) -> Result<(Self, Running)> {
        let place = Self::new(prefix).await?;
        let running = place.start(Options { limits, ..place.options(place.own()) }).await?;
        place.register(0, running.address, VALIDATE).await?;
        place.until_asked().await?;
        Ok((place, running))
    }

    /// Tells the API server to ask the server at `address`; the `caBundle` is left to the server.
    pub async fn register(&self, number: usize, address: SocketAddr, validate: &str) -> Result<()> {
        let name = self.configuration_name(number);
        let webhook = |path: &str| {
            json!([{
                "name": format!("widgets-{number}.test.soperator.dev"),
                "clientConfig": { "url": format!("https://{address}{path}") },
                "rules": [{
                    "apiGroups": ["test.soperator.dev"], "apiVersions": ["v1"], "resources": ["widgets"],
                    "operations": ["CREATE", "UPDATE"],
                }],
                "namespaceSelector": { "matchLabels": { "kubernetes.io/metadata.name": self.namespace.name() } },
                "failurePolicy": "Fail",
                "sideEffects": "None",
                "admissionReviewVersions": ["v1"],
                "timeoutSeconds": 10,
            }])
        };
        let object = |path| json!({ "metadata": { "name": name }, "webhooks": webhook(path) });
        let validating: ValidatingWebhookConfiguration = serde_json::from_value(object(validate))?;
        Api::all(self.namespace.client()).create(&PostParams::default(), &validating).await?;
        let mutating: MutatingWebhookConfiguration = serde_json::from_value(object(MUTATE))?;
        Api::all(self.namespace.client()).create(&PostParams::default(), &mutating).await?;
        Ok(())
    }

    /// Waits until the API server knows the webhooks and trusts them. It learns of the one that checks and of the one that changes
    /// in no order.
    pub async fn until_asked(&self) -> Result<()> {
        until("the API server asks us", async || {
            let denied = self.dry_run("bad").await.err().map(|error| error.to_string());
            Ok(denied.filter(|text| text.contains("must not be bad")).map(|_| ()))
        })
        .await?;
        until("the API server asks us what to change", async || {
            let made = self.dry_run("good").await.ok();
            Ok(made.filter(|made| made.labels().get("seen").is_some()).map(|_| ()))
        })
        .await
    }

    async fn dry_run(&self, text: &str) -> Result<Widget, kube::Error> {
        let params = PostParams { dry_run: true, ..PostParams::default() };
        self.namespace.api().create(&params, &widget("dry-run", text)).await
    }

    pub async fn create(&self, name: &str, text: &str) -> Result<Widget, kube::Error> {
        self.namespace.api().create(&PostParams::default(), &widget(name, text)).await
    }

    /// What `kubectl apply --server-side` does.
    pub async fn apply(&self, name: &str, text: &str) -> Result<Widget, kube::Error> {
        let params = PatchParams::apply("test").force();
        self.namespace.api().patch(name, &params, &Patch::Apply(widget(name, text))).await
    }

    /// `kubectl` in the namespace.
    pub fn kubectl(&self) -> Command {
        let mut kubectl = self.plane.kubectl();
        kubectl.args(["--namespace", self.namespace.name()]);
        kubectl
    }

    /// One value of the Secret, as text.
    pub async fn secret_value(&self, key: &str) -> Result<String> {
        let secret: Secret = self.namespace.api().get(SECRET).await?;
        let value = secret.data.context("data")?.remove(key).with_context(|| format!("no {key}"))?;
        Ok(String::from_utf8(value.0)?)
    }

    /// The `caBundle` of the validating webhook.
    pub async fn bundle(&self, number: usize) -> Result<String> {
        let api: Api<ValidatingWebhookConfiguration> = Api::all(self.namespace.client());
        let live = api.get(&self.configuration_name(number)).await?;
        let webhook = live.webhooks.context("webhooks")?.remove(0);
        Ok(String::from_utf8(webhook.client_config.ca_bundle.unwrap_or_default().0)?)
    }
}

pub fn widget(name: &str, text: &str) -> Widget {
    Widget::new(name, WidgetSpec { text: text.into() })
}

pub async fn until<T>(what: &str, mut check: impl AsyncFnMut() -> Result<Option<T>>) -> Result<T> {
    for _ in 0..400 {
        if let Some(value) = check().await? {
            return Ok(value);
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    anyhow::bail!("waited 20 s until {what}")
}

/// A review of a widget, as the API server sends it.
pub fn review(text: &str) -> Value {
    json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "request": {
            "uid": "u-1", "operation": "CREATE", "userInfo": {}, "name": "w", "namespace": "n",
            "kind": { "group": "test.soperator.dev", "version": "v1", "kind": "Widget" },
            "resource": { "group": "test.soperator.dev", "version": "v1", "resource": "widgets" },
            "object": widget("w", text),
        },
    })
}
