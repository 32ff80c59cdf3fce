//! An API server that knows our kinds.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use http::Request;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Client;
use kube::api::{Api, PostParams};
use rig::ControlPlane;
use serde_json::Value;
use tokio::sync::OnceCell;

/// What `kubectl apply` keeps on each object, at most 262144 bytes of annotations in all.
pub(crate) const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// A namespace of the shared API server, with all definitions established.
pub(crate) struct Server {
    client: Client,
    namespace: rig::Namespace,
}

impl Server {
    pub(crate) async fn new(prefix: &str) -> Result<Self> {
        let plane = ControlPlane::shared().await?;
        // The outcome is kept, so that a refused definition is told by its own message in every test.
        static INSTALLED: OnceCell<Result<(), String>> = OnceCell::const_new();
        let installed = INSTALLED
            .get_or_init(|| async {
                let installed = async { install(plane.client().await?).await };
                installed.await.map_err(|error: anyhow::Error| format!("{error:#}"))
            })
            .await;
        if let Err(error) = installed {
            bail!("{error}");
        }
        Ok(Self { client: plane.client().await?, namespace: plane.namespace(prefix).await? })
    }

    pub(crate) fn client(&self) -> Client {
        self.client.clone()
    }

    pub(crate) fn path(&self, manifest: &Value) -> String {
        let plural = format!("{}s", manifest["kind"].as_str().expect("a kind").to_lowercase());
        let api_version = manifest["apiVersion"].as_str().expect("an apiVersion");
        format!("/apis/{api_version}/namespaces/{}/{plural}", self.namespace.name())
    }

    /// Sends a request and returns the answer: the object, or the message of the error.
    pub(crate) async fn send(
        &self,
        method: &str,
        path: &str,
        content: &str,
        body: &Value,
    ) -> Result<Result<Value, String>> {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("Content-Type", content)
            .body(serde_json::to_vec(body)?)?;
        match self.client.request::<Value>(request).await {
            Ok(object) => Ok(Ok(object)),
            Err(kube::Error::Api(status)) => Ok(Err(status.message)),
            Err(other) => Err(other.into()),
        }
    }

    /// Makes an object. An unknown field is an error.
    pub(crate) async fn create(&self, manifest: &Value) -> Result<Result<Value, String>> {
        let path = format!("{}?fieldValidation=Strict", self.path(manifest));
        self.send("POST", &path, "application/json", manifest).await
    }

    /// Makes an object that must be accepted.
    pub(crate) async fn created(&self, manifest: &Value) -> Result<Value> {
        match self.create(manifest).await? {
            Ok(object) => Ok(object),
            Err(message) => bail!("refused: {message}\n{manifest:#}"),
        }
    }

    /// Changes an object by a merge patch; `below` is a subresource such as `/status`.
    pub(crate) async fn patch(
        &self,
        object: &Value,
        below: &str,
        patch: &Value,
    ) -> Result<Result<Value, String>> {
        let name = object["metadata"]["name"].as_str().context("a name")?;
        let path = format!("{}/{name}{below}?fieldValidation=Strict", self.path(object));
        self.send("PATCH", &path, "application/merge-patch+json", patch).await
    }

    pub(crate) async fn get(&self, path: &str) -> Result<Value> {
        let request = Request::get(path).header("Accept", "application/json").body(Vec::new())?;
        Ok(self.client.request(request).await?)
    }
}

async fn install(client: Client) -> Result<()> {
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    let mut refused = Vec::new();
    for mut crd in api::crds() {
        let text = serde_json::to_string(&crd)?;
        crd.metadata.annotations = Some([(LAST_APPLIED.to_owned(), text)].into());
        if let Err(error) = api.create(&PostParams::default(), &crd).await {
            refused.push(format!("the API server refuses {}: {error}", crd.spec.names.plural));
        }
    }
    if !refused.is_empty() {
        bail!("{}", refused.join("\n"));
    }
    for crd in api::crds() {
        let name = crd.metadata.name.context("a name")?;
        wait_until_established(&api, &name).await?;
        let path =
            format!("/apis/{}/{}/{}", crd.spec.group, crd.spec.versions[0].name, crd.spec.names.plural);
        wait_until_served(&client, &path).await?;
    }
    Ok(())
}

/// An established kind is served a moment later.
async fn wait_until_served(client: &Client, path: &str) -> Result<()> {
    let mut last = None;
    for _ in 0..300 {
        match client.request::<Value>(Request::get(path).body(Vec::new())?).await {
            Ok(_) => return Ok(()),
            Err(error) => last = Some(error),
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    bail!("{path} is not served after 30 s: {last:?}")
}

async fn wait_until_established(api: &Api<CustomResourceDefinition>, name: &str) -> Result<()> {
    let mut last = None;
    for _ in 0..300 {
        let conditions = api.get(name).await?.status.and_then(|status| status.conditions).unwrap_or_default();
        let is_true = |type_: &str| {
            conditions.iter().any(|condition| condition.type_ == type_ && condition.status == "True")
        };
        if is_true("NonStructuralSchema") {
            bail!("{name}: {conditions:?}");
        }
        if is_true("Established") {
            return Ok(());
        }
        last = Some(conditions);
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    bail!("{name} is not established after 30 s: {last:?}")
}
