//! A namespace of a real API server whose workers, Secrets and NodeSets are guarded.

use std::fmt::Debug;
use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use engine::Key;
use engine::admission::{Admission, Configuration, Options, Policy, Source};
use k8s_openapi::ByteString;
use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingWebhookConfiguration,
};
use k8s_openapi::api::core::v1::{Pod, Secret};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::NamespaceResourceScope;
use kube::runtime::wait::{await_condition, conditions};
use kube::{Client, Config, Resource};
use operator::admission::{Guards, webhooks};
use operator::slurm_links::SlurmLinks;
use rig::{ControlPlane, SlurmMachine};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::sync::OnceCell;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::chart;

pub const PATIENCE: Duration = Duration::from_secs(60);
/// How the Slurm of tests calls itself.
pub const CLUSTER: &str = "test";

/// The API server of all tests of this program.
async fn server() -> Result<&'static ControlPlane> {
    static SERVER: OnceCell<ControlPlane> = OnceCell::const_new();
    SERVER
        .get_or_try_init(|| async {
            let plane = ControlPlane::start().await?.with_controller_manager()?;
            let crds: Api<CustomResourceDefinition> = Api::all(plane.client().await?);
            for crd in api::crds() {
                crds.create(&PostParams::default(), &crd).await?;
            }
            for crd in api::crds() {
                let name = crd.metadata.name.as_deref().context("a CRD has a name")?;
                await_condition(crds.clone(), name, conditions::is_crd_established()).await?;
            }
            Ok(plane)
        })
        .await
}

/// A client in somebody's name, who may do everything.
async fn client_of(who: Option<(&str, &[&str])>) -> Result<Client> {
    let kubeconfig = Kubeconfig::read_from(server().await?.kubeconfig())?;
    let mut config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    if let Some((user, groups)) = who {
        config.auth_info.impersonate = Some(user.into());
        let groups = groups.iter().chain(&["system:masters", "system:authenticated"]);
        config.auth_info.impersonate_groups = Some(groups.map(ToString::to_string).collect());
    }
    Ok(engine::client::connect(config, engine::client::Options::default())?)
}

pub struct Place {
    pub client: Client,
    namespace: rig::Namespace,
    stop: CancellationToken,
    _guard: DropGuard,
}

impl Place {
    /// With the Slurm of a SlurmCluster at this address.
    pub async fn new(prefix: &str, slurm: &str) -> Result<Self> {
        let namespace = server().await?.namespace(prefix).await?;
        let (client, stop) = (client_of(None).await?, CancellationToken::new());
        let slurm = slurm.to_string();
        let links = SlurmLinks::at(Box::new(move |_, _| slurm.clone()));
        let guards = Guards::new(client.clone(), links, render::Defaults::default());
        let name = namespace.name();
        let source = Source::Own {
            secret: Key::new(name, "webhook-tls"),
            policy: Policy::for_names(vec!["127.0.0.1".into()]),
        };
        let configurations = vec![Configuration::validating(name), Configuration::mutating(name)];
        let options = Options {
            address: (Ipv4Addr::LOCALHOST, 0).into(),
            ..Options::new("admission-test", source, configurations)
        };
        let admission = Admission::bind(options).await?;
        let (address, mut ready) = (admission.address(), admission.ready());
        tokio::spawn(admission.run(client.clone(), guards.add_to(webhooks()), stop.clone()));
        tokio::time::timeout(PATIENCE, ready.wait_for(|ready| *ready)).await??;

        let params = PostParams::default();
        let validating = chart::configuration("ValidatingWebhookConfiguration", name, address, name).await?;
        let validating: ValidatingWebhookConfiguration = serde_json::from_value(validating)?;
        Api::all(client.clone()).create(&params, &validating).await?;
        let mutating = chart::configuration("MutatingWebhookConfiguration", name, address, name).await?;
        let mutating: MutatingWebhookConfiguration = serde_json::from_value(mutating)?;
        Api::all(client.clone()).create(&params, &mutating).await?;
        let guard = stop.clone().drop_guard();
        let place = Self { client, namespace, stop, _guard: guard };
        place.until_asked().await?;
        Ok(place)
    }

    /// With a SlurmCluster whose Slurm this is.
    pub async fn with_slurm(prefix: &str, slurm: &SlurmMachine) -> Result<Self> {
        let place = Self::new(prefix, &slurm.rest_url()?).await?;
        place.make_cluster(CLUSTER).await?;
        place.make_key(slurm.jwt_key()?).await?;
        Ok(place)
    }

    /// The key that signs tokens for the SlurmCluster.
    pub async fn make_key(&self, key: Vec<u8>) -> Result<()> {
        let secret = Secret {
            metadata: serde_json::from_value(json!({ "name": format!("{CLUSTER}-rest-jwt-key") }))?,
            data: Some([("rest_jwt.key".to_string(), ByteString(key))].into()),
            ..Secret::default()
        };
        self.api::<Secret>().create(&PostParams::default(), &secret).await?;
        Ok(())
    }

    /// Waits until the API server knows the webhooks, which is a moment after they are registered, and trusts them. It learns of
    /// those that check and of those that change in no order.
    async fn until_asked(&self) -> Result<()> {
        let secret: Secret = serde_json::from_value(json!({
            "metadata": { "name": "probe", "labels": { "slurm.nebius.ai/webhook": "true" } },
        }))?;
        let params = PostParams { dry_run: true, ..PostParams::default() };
        self.until("the API server asks us", async || {
            let told =
                self.api::<Secret>().create(&params, &secret).await.err().map(|error| error.to_string());
            Ok(told.filter(|told| told.contains("is missing")))
        })
        .await?;
        let text = include_str!("../../../../examples/api/slinky.slurm.net/nodeset.yaml");
        let mut set: Value = serde_saphyr::from_str(text)?;
        set["metadata"] = json!({ "name": "probe" });
        set["spec"]["updateStrategy"] = json!({ "type": "" });
        let set: DynamicObject = serde_json::from_value(set)?;
        self.until("the API server asks us what to change", async || {
            let made = self.kind::<api::slinky::NodeSet>().create(&params, &set).await.ok();
            Ok(made.filter(|made| made.data["spec"]["updateStrategy"]["type"] == "RollingUpdate"))
        })
        .await?;
        Ok(())
    }

    pub fn name(&self) -> &str {
        self.namespace.name()
    }

    /// The operator is gone.
    pub fn stop_serving(&self) {
        self.stop.cancel();
    }

    pub fn api<K>(&self) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        Api::namespaced(self.client.clone(), self.name())
    }

    /// Objects as somebody else sees them, who may do everything.
    pub async fn api_as<K>(&self, user: &str) -> Result<Api<K>>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        Ok(Api::namespaced(client_of(Some((user, &[]))).await?, self.name()))
    }

    /// Objects of a kind of ours, as JSON: as types they are large.
    pub fn kind<K: Resource<DynamicType = ()>>(&self) -> Api<DynamicObject> {
        Api::namespaced_with(self.client.clone(), self.name(), &ApiResource::erase::<K>(&()))
    }

    /// Makes a SlurmCluster. No controller looks at it.
    pub async fn make_cluster(&self, name: &str) -> Result<()> {
        let text = include_str!("../clusters/cluster.yaml").replace("NAME", name);
        let value: Value = serde_saphyr::from_str(&text)?;
        let clusters = self.kind::<api::nebius::SlurmCluster>();
        clusters.create(&PostParams::default(), &serde_json::from_value(value)?).await?;
        Ok(())
    }

    /// A worker that is the Slurm node of its name and was not started yet; `change` changes its manifest.
    pub async fn new_worker(&self, name: &str, change: impl FnOnce(&mut Value)) -> Result<()> {
        let mut pod = json!({
            "metadata": {
                "name": name,
                "labels": { "slurm.nebius.ai/worker": "true", "app.kubernetes.io/instance": CLUSTER },
                "ownerReferences": [{
                    "apiVersion": "slurm.nebius.ai/v1alpha1", "kind": "NodeSet", "name": "node",
                    "uid": self.set_uid().await?, "controller": true,
                }],
            },
            "spec": {
                "automountServiceAccountToken": false,
                "initContainers": [{
                    "name": "agent", "image": "i", "command": ["/usr/bin/slurm-agent", "install", "/opt"],
                }],
                "containers": [{ "name": "slurmd", "image": "i" }],
            },
        });
        change(&mut pod);
        let pod: Pod = serde_json::from_value(pod)?;
        self.api::<Pod>().create(&PostParams::default(), &pod).await?;
        Ok(())
    }

    /// The NodeSet `node`, which is made when it is needed first.
    async fn set_uid(&self) -> Result<String> {
        let sets = self.kind::<api::nebius::NodeSet>();
        let set = match sets.get_opt("node").await? {
            Some(set) => set,
            None => {
                let text = include_str!("../../../../examples/api/slurm.nebius.ai/nodeset.yaml");
                let mut set: Value = serde_saphyr::from_str(text)?;
                set["metadata"] = json!({ "name": "node" });
                set["spec"]["clusterName"] = CLUSTER.into();
                sets.create(&PostParams::default(), &serde_json::from_value(set)?).await?
            }
        };
        set.metadata.uid.context("a uid")
    }

    /// What a kubelet says of a pod.
    pub async fn report(&self, pod: &str, change: impl FnOnce(&mut Value)) -> Result<()> {
        let mut status = json!({
            "phase": "Running",
            "containerStatuses": [{
                "name": "slurmd", "image": "i", "imageID": "", "ready": true, "restartCount": 0,
                "state": { "running": { "startedAt": "2026-01-01T00:00:00Z" } },
            }],
        });
        change(&mut status);
        let patch = Patch::Merge(json!({ "status": status }));
        self.api::<Pod>().patch_status(pod, &PatchParams::default(), &patch).await?;
        Ok(())
    }

    /// A worker that runs.
    pub async fn worker(&self, name: &str) -> Result<()> {
        self.new_worker(name, |_| {}).await?;
        self.report(name, |_| {}).await
    }

    /// Annotates an object, or takes the annotation away.
    pub async fn annotate<K>(&self, api: Api<K>, object: &str, name: &str, value: Option<&str>) -> Result<()>
    where
        K: Clone + Debug + DeserializeOwned,
    {
        let patch = Patch::Merge(json!({ "metadata": { "annotations": { name: value } } }));
        api.patch(object, &PatchParams::default(), &patch).await?;
        Ok(())
    }

    /// What the API server says to an administrator who wants to delete a pod; nothing if it does it.
    pub async fn delete(&self, pod: &str) -> Result<Option<String>> {
        self.delete_as(None, pod).await
    }

    /// The same in somebody's name.
    pub async fn delete_as(&self, who: Option<(&str, &[&str])>, pod: &str) -> Result<Option<String>> {
        let api: Api<Pod> = Api::namespaced(client_of(who).await?, self.name());
        match api.delete(pod, &DeleteParams::default().grace_period(0)).await {
            Ok(_) => Ok(None),
            Err(kube::Error::Api(status)) => Ok(Some(status.message)),
            Err(error) => Err(error.into()),
        }
    }

    /// Deletes a pod that may go, and makes a worker of its name anew.
    pub async fn replace_as(&self, who: Option<(&str, &[&str])>, pod: &str) -> Result<()> {
        if let Some(told) = self.delete_as(who, pod).await? {
            bail!("{who:?} may not delete {pod}: {told}");
        }
        self.until("the pod is gone", async || {
            Ok(self.api::<Pod>().get_opt(pod).await?.is_none().then_some(()))
        })
        .await?;
        self.worker(pod).await
    }

    /// The refusal of a deletion; an error if it is not refused.
    pub async fn refused(&self, who: Option<(&str, &[&str])>, pod: &str) -> Result<String> {
        self.delete_as(who, pod).await?.with_context(|| format!("{who:?} deleted {pod}"))
    }

    /// Waits until the deletion of a pod is refused with these words: on a busy machine Slurm's answer may come too late for the
    /// first question. An error if it is ever not refused.
    pub async fn refused_with(&self, who: Option<(&str, &[&str])>, pod: &str, words: &str) -> Result<String> {
        self.until(&format!("{pod} is refused with {words:?}"), async || {
            Ok(Some(self.refused(who, pod).await?).filter(|told| told.contains(words)))
        })
        .await
    }

    pub async fn until<T>(&self, what: &str, mut check: impl AsyncFnMut() -> Result<Option<T>>) -> Result<T> {
        let start = Instant::now();
        loop {
            if let Some(found) = check().await? {
                return Ok(found);
            }
            if start.elapsed() > PATIENCE {
                bail!("{what}: not after {PATIENCE:?}");
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
}
