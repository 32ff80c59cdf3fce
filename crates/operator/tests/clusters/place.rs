//! An API server that knows our kinds, and the controllers on a namespace of it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use api::nebius::SlurmCluster;
use api::nebius::slurm_cluster::SlurmClusterStatus;
use engine::Scope;
use engine::client::{self, Interceptor};
use engine::logging::{Format, Level, Output};
use engine::optional_kinds::Overrides;
use engine::testing::{Injector, Schedule, Write};
use k8s_openapi::api::core::v1::Event;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, ApiResource, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::runtime::wait::{await_condition, conditions};
use kube::{Client, Config};
use operator::controllers::{self, Setup};
use operator::slurm_links::SlurmLinks;
use rig::{ControlPlane, ControlPlaneOptions};
use serde_json::Value;
use tokio::sync::{OnceCell, watch};
use tokio_util::sync::CancellationToken;

pub const PATIENCE: Duration = Duration::from_secs(60);

/// The API server of all tests of this program.
pub async fn server() -> Result<&'static ControlPlane> {
    static SERVER: OnceCell<ControlPlane> = OnceCell::const_new();
    SERVER
        .get_or_try_init(|| async {
            if std::env::var_os("SOPERATOR_TEST_LOG").is_some() {
                let outputs = vec![Output::Stdout { format: Format::Text }];
                engine::logging::start(&engine::logging::Options { level: Level::Debug, outputs })?;
            }
            let options = ControlPlaneOptions { audit: true };
            let plane = ControlPlane::start_with(options).await?.with_controller_manager()?;
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

/// The way to the API server.
pub async fn config() -> Result<Config> {
    let kubeconfig = Kubeconfig::read_from(server().await?.kubeconfig())?;
    Ok(Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?)
}

/// A client as controllers have it.
pub fn connect(config: Config, interceptor: Option<Arc<dyn Interceptor>>) -> Result<Client> {
    Ok(client::connect(config, client::Options { interceptor, ..client::Options::default() })?)
}

/// The controllers for one namespace.
pub fn setup(namespace: &str) -> Setup {
    let defaults = render::Defaults {
        agent_image: "soperator.local/soperator:1".into(),
        mariadb_image: Some("soperator.local/mariadb:1".into()),
        ..render::Defaults::default()
    };
    Setup {
        concurrency: 4,
        ..Setup::new(Scope::Namespaces(vec![namespace.into()]), Overrides::default(), defaults)
    }
}

/// Runs the controllers on a namespace until `stop`.
pub async fn operate(client: Client, namespace: String, stop: CancellationToken) {
    operate_with(client, setup(&namespace), stop).await;
}

pub async fn operate_with(client: Client, setup: Setup, stop: CancellationToken) {
    let elected = watch::Sender::new(true).subscribe();
    if let Err(error) = controllers::run(client, setup, elected, stop).await {
        eprintln!("{error}");
    }
}

/// A namespace with the controllers at work in it.
pub struct Place {
    pub client: Client,
    namespace: rig::Namespace,
    injector: Arc<Injector>,
    stop: CancellationToken,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl Place {
    pub async fn new(name: &str) -> Result<Self> {
        Self::with(name, SlurmLinks::default()).await
    }

    /// With Slurm somewhere else than in the cluster.
    pub async fn with(name: &str, links: SlurmLinks) -> Result<Self> {
        Self::with_setup(name, |setup| setup.links = links).await
    }

    /// With only one controller.
    pub async fn with_controller(name: &str, controller: &'static str) -> Result<Self> {
        Self::with_setup(name, |setup| setup.controllers = vec![controller]).await
    }

    /// With other settings.
    pub async fn with_setup(name: &str, change: impl FnOnce(&mut Setup)) -> Result<Self> {
        let place = Self::idle(name).await?;
        place.start(change).await?;
        Ok(place)
    }

    /// Without the controllers, which [`Place::start`] starts.
    pub async fn idle(name: &str) -> Result<Self> {
        Self::idle_with(name, Schedule::default()).await
    }

    /// Where these faults happen to the controllers.
    pub async fn with_faults(name: &str, faults: Schedule) -> Result<Self> {
        let place = Self::idle_with(name, faults).await?;
        place.start(|_| {}).await?;
        Ok(place)
    }

    async fn idle_with(name: &str, faults: Schedule) -> Result<Self> {
        let namespace = server().await?.namespace(name).await?;
        let injector = Arc::new(Injector::new(faults));
        let (client, stop) = (connect(config().await?, None)?, CancellationToken::new());
        Ok(Self { client, namespace, injector, stop })
    }

    /// Starts the controllers; `change` changes their settings.
    pub async fn start(&self, change: impl FnOnce(&mut Setup)) -> Result<()> {
        let watched = connect(config().await?, Some(Arc::clone(&self.injector) as Arc<dyn Interceptor>))?;
        let mut setup = setup(self.name());
        change(&mut setup);
        tokio::spawn(operate_with(watched, setup, self.stop.clone()));
        Ok(())
    }

    /// Stops the controllers and starts them anew: they know nothing of before.
    pub async fn restart(&mut self, links: SlurmLinks) -> Result<()> {
        self.stop.cancel();
        self.stop = CancellationToken::new();
        self.start(|setup| setup.links = links).await
    }

    pub fn name(&self) -> &str {
        self.namespace.name()
    }

    pub fn api<K>(&self) -> Api<K>
    where
        K: kube::Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>,
    {
        Api::namespaced(self.client.clone(), self.name())
    }

    /// Clusters as JSON: as types they fill the stack of a thread where nothing is optimised.
    pub fn clusters(&self) -> Api<DynamicObject> {
        let kind = ApiResource::erase::<SlurmCluster>(&());
        Api::namespaced_with(self.client.clone(), self.name(), &kind)
    }

    /// What the controllers have written so far; events do not count.
    pub fn writes(&self) -> Vec<Write> {
        self.injector.writes()
    }

    /// Makes a cluster; `change` changes its manifest.
    pub async fn make(&self, name: &str, change: impl FnOnce(&mut Value)) -> Result<()> {
        let mut value = manifest(name)?;
        change(&mut value);
        self.clusters().create(&PostParams::default(), &serde_json::from_value(value)?).await?;
        Ok(())
    }

    /// Changes a cluster by a merge patch.
    pub async fn change(&self, name: &str, patch: Value) -> Result<()> {
        self.clusters().patch(name, &PatchParams::default(), &Patch::Merge(&patch)).await?;
        Ok(())
    }

    pub async fn cluster_status(&self, name: &str) -> Result<SlurmClusterStatus> {
        let status = self.clusters().get(name).await?.data["status"].take();
        Ok(serde_json::from_value::<Option<_>>(status)?.unwrap_or_default())
    }

    /// Status and message of a condition of a cluster.
    pub async fn condition(&self, name: &str, type_: &str) -> Result<Option<(String, String)>> {
        let conditions = self.cluster_status(name).await?.conditions.unwrap_or_default();
        let found = conditions.into_iter().find(|condition| condition.type_ == type_);
        Ok(found.map(|condition| (condition.status, condition.message)))
    }

    /// Waits until a condition of a cluster is False with a message that contains this.
    pub async fn until_told(&self, name: &str, type_: &str, part: &str) -> Result<String> {
        self.until(&format!("{type_} of {name} tells {part:?}"), async || {
            let condition = self.condition(name, type_).await?;
            Ok(condition.filter(|(status, message)| status == "False" && message.contains(part)))
        })
        .await
        .map(|(_, message)| message)
    }

    /// Waits until nothing has been written for a while. Not before the first status: on a busy machine keys are long in the making.
    pub async fn until_quiet(&self) -> Result<()> {
        let (mut count, mut since) = (self.writes().len(), Instant::now());
        let start = Instant::now();
        let is_status = |write: &Write| {
            ["clusters", "slurmclusters"].contains(&&*write.call.resource) && write.call.subresource.is_some()
        };
        let told = || self.writes().iter().any(is_status);
        while since.elapsed() < Duration::from_millis(2500) || !told() {
            if start.elapsed() > PATIENCE {
                bail!("no rest after {PATIENCE:?}: {:#?}", self.writes().len());
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
            let now = self.writes().len();
            if now != count {
                (count, since) = (now, Instant::now());
            }
        }
        Ok(())
    }

    pub async fn until<T>(&self, what: &str, check: impl AsyncFn() -> Result<Option<T>>) -> Result<T> {
        let start = Instant::now();
        loop {
            if let Some(found) = check().await? {
                return Ok(found);
            }
            if start.elapsed() > PATIENCE {
                let clusters = self.clusters().list(&ListParams::default()).await?;
                let shown: Vec<_> =
                    clusters.iter().map(|cluster| cluster.data["status"].to_string()).collect();
                bail!("{what}: not after {PATIENCE:?}; {shown:#?}");
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Notes of the events about an object.
    pub async fn events(&self, name: &str) -> Result<Vec<String>> {
        let events = self.api::<Event>().list(&ListParams::default()).await?;
        let about = events.into_iter().filter(|event| event.involved_object.name.as_deref() == Some(name));
        Ok(about.map(|event| event.message.unwrap_or_default()).collect())
    }
}

/// The manifest of a small cluster.
pub fn manifest(name: &str) -> Result<Value> {
    Ok(serde_saphyr::from_str(&include_str!("cluster.yaml").replace("NAME", name))?)
}
