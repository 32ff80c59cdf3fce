//! An API server that knows our kinds, a namespace of it, and a jail with the controller at work.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use api::nebius::{JailedConfig, SlurmCluster};
use engine::Key;
use engine::client::{self, Interceptor};
use engine::logging::{Format, Level, Output};
use engine::testing::{Injector, Schedule, Write};
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::runtime::wait::{await_condition, conditions};
use kube::{Client, Config, ResourceExt as _};
use rig::{ControlPlane, ControlPlaneOptions};
use sconfig::Times;
use sconfig::controller::{self, Setup};
use serde_json::{Value, json};
use tokio::sync::{OnceCell, watch};
use tokio_util::sync::CancellationToken;

pub const PATIENCE: Duration = Duration::from_secs(30);
/// The cluster of all tests.
pub const CLUSTER: &str = "c";

/// The API server of all tests of this program.
pub async fn server() -> Result<&'static ControlPlane> {
    static SERVER: OnceCell<ControlPlane> = OnceCell::const_new();
    SERVER
        .get_or_try_init(|| async {
            if std::env::var_os("SOPERATOR_TEST_LOG").is_some() {
                let outputs = vec![Output::Stdout { format: Format::Text }];
                engine::logging::start(&engine::logging::Options { level: Level::Debug, outputs })?;
            }
            let plane = ControlPlane::start_with(ControlPlaneOptions { audit: false }).await?;
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

/// A client as the controller has it.
pub fn connect(config: Config, interceptor: Option<Arc<dyn Interceptor>>) -> Result<Client> {
    Ok(client::connect(config, client::Options { interceptor, ..client::Options::default() })?)
}

/// Everything in a tenth of the usual time.
pub fn times() -> Times {
    Times {
        leftovers: Duration::from_millis(1500),
        look: Duration::from_millis(1000),
        soon: Duration::from_millis(200),
        patience: Duration::from_secs(60),
    }
}

/// Runs the controller on a namespace until `stop`.
pub async fn operate(
    client: Client,
    namespace: String,
    jail: PathBuf,
    times: Times,
    stop: CancellationToken,
) {
    let setup = Setup { times, concurrency: 2, ..Setup::new(Key::new(&namespace, CLUSTER), jail) };
    let elected = watch::Sender::new(true).subscribe();
    if let Err(error) = controller::run(client, setup, elected, stop).await {
        eprintln!("{error}");
    }
}

/// A namespace and a jail with the controller at work.
pub struct Place {
    pub client: Client,
    pub folder: tempfile::TempDir,
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
        Self::with(name, times()).await
    }

    pub async fn with(name: &str, times: Times) -> Result<Self> {
        let place = Self::idle(name).await?;
        fs::write(place.at(".soperator-jail.json"), "{}")?;
        place.start(times).await?;
        Ok(place)
    }

    /// Without a controller, and with a jail that is not filled.
    pub async fn idle(name: &str) -> Result<Self> {
        let namespace = server().await?.namespace(name).await?;
        let injector = Arc::new(Injector::new(Schedule::default()));
        let (client, stop) = (connect(config().await?, None)?, CancellationToken::new());
        let folder = tempfile::tempdir()?;
        fs::create_dir(folder.path().join("jail"))?;
        Ok(Self { client, folder, namespace, injector, stop })
    }

    pub async fn start(&self, times: Times) -> Result<()> {
        let watched = connect(config().await?, Some(Arc::clone(&self.injector) as Arc<dyn Interceptor>))?;
        let jail = self.folder.path().join("jail");
        tokio::spawn(operate(watched, self.name().into(), jail, times, self.stop.clone()));
        Ok(())
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

    /// A path in the jail.
    pub fn at(&self, path: &str) -> PathBuf {
        self.folder.path().join("jail").join(path.trim_start_matches('/'))
    }

    pub fn text(&self, path: &str) -> Option<String> {
        fs::read_to_string(self.at(path)).ok()
    }

    /// What the controller has written so far; events do not count.
    pub fn writes(&self) -> Vec<Write> {
        self.injector.writes()
    }

    /// Makes or changes a ConfigMap.
    pub async fn map(&self, name: &str, data: Value) -> Result<()> {
        apply_map(&self.client, self.name(), name, data).await
    }

    /// Makes a JailedConfig of a ConfigMap of the same name; `items` are keys and paths.
    pub async fn make(
        &self,
        name: &str,
        items: &[(&str, &str)],
        change: impl FnOnce(&mut Value),
    ) -> Result<()> {
        let mut value = jailed(name, items);
        change(&mut value);
        self.api::<JailedConfig>().create(&PostParams::default(), &serde_json::from_value(value)?).await?;
        Ok(())
    }

    pub async fn change(&self, name: &str, patch: Value) -> Result<()> {
        self.api::<JailedConfig>().patch(name, &PatchParams::default(), &Patch::Merge(&patch)).await?;
        Ok(())
    }

    pub async fn delete(&self, name: &str) -> Result<()> {
        self.api::<JailedConfig>().delete(name, &DeleteParams::default()).await?;
        Ok(())
    }

    /// Status, reason and message of a condition.
    pub async fn condition(&self, name: &str, type_: &str) -> Result<Option<(bool, String, String)>> {
        let config = self.api::<JailedConfig>().get(name).await?;
        let current = config.metadata.generation;
        let conditions = config.status.and_then(|status| status.conditions).unwrap_or_default();
        let found =
            conditions.into_iter().find(|known| known.type_ == type_ && known.observed_generation == current);
        Ok(found.map(|known| (known.status == "True", known.reason, known.message)))
    }

    /// Waits until a condition has this reason.
    pub async fn until_told(&self, name: &str, type_: &str, reason: &str) -> Result<(bool, String)> {
        self.until(&format!("{type_} of {name} is {reason}"), async || {
            let found = self.condition(name, type_).await?;
            Ok(found.filter(|(_, known, _)| known == reason).map(|(status, _, message)| (status, message)))
        })
        .await
    }

    /// Waits until a file has this content.
    pub async fn until_text(&self, path: &str, text: &str) -> Result<()> {
        self.until(&format!("{path} is {text:?}"), async || {
            Ok((self.text(path).as_deref() == Some(text)).then_some(()))
        })
        .await
    }

    pub async fn until<T>(&self, what: &str, check: impl AsyncFn() -> Result<Option<T>>) -> Result<T> {
        let start = Instant::now();
        loop {
            if let Some(found) = check().await? {
                return Ok(found);
            }
            if start.elapsed() > PATIENCE {
                let all = self.api::<JailedConfig>().list(&kube::api::ListParams::default()).await?;
                let shown: Vec<_> =
                    all.iter().map(|config| (config.name_any(), config.status.clone())).collect();
                bail!("{what}: not after {PATIENCE:?}; {shown:#?}; {:?}", tree(&self.at("")));
            }
            tokio::time::sleep(Duration::from_millis(30)).await;
        }
    }

    /// Waits until the controller has written nothing for a while.
    pub async fn until_quiet(&self, time: Duration) -> Result<()> {
        let (mut count, mut since, start) = (self.writes().len(), Instant::now(), Instant::now());
        while since.elapsed() < time {
            if start.elapsed() > PATIENCE {
                bail!("no rest after {PATIENCE:?}: {:#?}", self.writes());
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
            if self.writes().len() != count {
                (count, since) = (self.writes().len(), Instant::now());
            }
        }
        Ok(())
    }

    /// What the operator does: it puts files into the effective set.
    pub async fn operator_takes(&self, files: &[(&str, &str)]) -> Result<String> {
        let data: BTreeMap<&str, &str> = files.iter().copied().collect();
        self.map(&format!("{CLUSTER}-slurm-configs"), json!(data)).await?;
        Ok(::slurm::agent::set_hash(files.iter().map(|(name, text)| (*name, text.as_bytes()))))
    }

    /// What the operator does: it tells what slurmctld made of a set.
    pub async fn slurmctld(&self, told: Value) -> Result<()> {
        tell_slurmctld(&self.client, self.name(), told).await
    }

    pub async fn make_cluster(&self, name: &str) -> Result<()> {
        make_cluster(&self.client, self.name(), name).await
    }

    pub async fn cluster_uid(&self, name: &str) -> Result<String> {
        Ok(clusters(&self.client, self.name()).get(name).await?.uid().unwrap_or_default())
    }
}

/// A JailedConfig of a ConfigMap of the same name.
pub fn jailed(name: &str, items: &[(&str, &str)]) -> Value {
    let items: Vec<Value> = items.iter().map(|(key, path)| json!({ "key": key, "path": path })).collect();
    json!({
        "apiVersion": "slurm.nebius.ai/v1alpha1", "kind": "JailedConfig", "metadata": { "name": name },
        "spec": { "configMap": { "name": name }, "items": items },
    })
}

pub async fn apply_map(client: &Client, namespace: &str, name: &str, data: Value) -> Result<()> {
    let map = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name }, "data": data });
    let params = PatchParams::apply("test").force();
    Api::<ConfigMap>::namespaced(client.clone(), namespace).patch(name, &params, &Patch::Apply(&map)).await?;
    Ok(())
}

fn clusters(client: &Client, namespace: &str) -> Api<DynamicObject> {
    Api::namespaced_with(client.clone(), namespace, &ApiResource::erase::<SlurmCluster>(&()))
}

pub async fn make_cluster(client: &Client, namespace: &str, name: &str) -> Result<()> {
    let text = include_str!("../../../operator/tests/clusters/cluster.yaml").replace("NAME", name);
    let cluster: DynamicObject = serde_saphyr::from_str(&text)?;
    clusters(client, namespace).create(&PostParams::default(), &cluster).await?;
    Ok(())
}

pub async fn tell_slurmctld(client: &Client, namespace: &str, told: Value) -> Result<()> {
    let patch = json!({ "status": { "configuration": told } });
    clusters(client, namespace).patch_status(CLUSTER, &PatchParams::default(), &Patch::Merge(&patch)).await?;
    Ok(())
}

/// All files below a folder, with their content.
pub fn tree(folder: &Path) -> BTreeMap<String, String> {
    let mut files = BTreeMap::new();
    for item in fs::read_dir(folder).into_iter().flatten().flatten() {
        let (path, name) = (item.path(), item.file_name().to_string_lossy().into_owned());
        if path.is_dir() {
            files.extend(tree(&path).into_iter().map(|(below, text)| (format!("{name}/{below}"), text)));
        } else {
            files.insert(name, fs::read_to_string(&path).unwrap_or_default());
        }
    }
    files
}
