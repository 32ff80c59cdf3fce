//! kube clients for the rig's clusters, and namespaces for tests.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1 as core;
use kube::api::{ObjectMeta, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config, Resource};

/// A client for the cluster of a kubeconfig. Made anew for each test: it is bound to the runtime it was made in.
pub async fn client(kubeconfig: &Path) -> Result<Client> {
    let text =
        Kubeconfig::read_from(kubeconfig).with_context(|| format!("cannot read {}", kubeconfig.display()))?;
    let mut config = Config::from_custom_kubeconfig(text, &KubeConfigOptions::default()).await?;
    // It re-sends POSTs, and tests want to see what the server answered.
    config.default_retry = false;
    Ok(Client::try_from(config)?)
}

/// Waits until the API server says that it is ready.
pub(crate) async fn wait_until_ready(
    client: &Client,
    patience: Duration,
    alive: impl Fn() -> Result<()>,
) -> Result<()> {
    let deadline = Instant::now() + patience;
    loop {
        alive()?;
        let request = http::Request::get("/readyz").body(Vec::new())?;
        match tokio::time::timeout(Duration::from_secs(2), client.request_text(request)).await {
            Ok(Ok(_)) => return Ok(()),
            Ok(Err(error)) if Instant::now() > deadline => {
                return Err(error).with_context(|| {
                    format!("the API server was not ready within {} s", patience.as_secs())
                });
            }
            Err(_) if Instant::now() > deadline => {
                bail!("the API server did not answer within {} s", patience.as_secs())
            }
            _ => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    }
}

/// A namespace of its own for one test. Dropping it deletes it in the background, with all it holds.
pub struct Namespace {
    client: Client,
    name: String,
    cleanup: Option<Cleanup>,
}

struct Cleanup {
    kubectl: PathBuf,
    kubeconfig: PathBuf,
}

impl Namespace {
    /// Makes a namespace whose name begins with `prefix` and has not been used before.
    pub(crate) async fn create(client: Client, prefix: &str) -> Result<Self> {
        static COUNTER: AtomicU32 = AtomicU32::new(0);
        let started = jiff::Timestamp::now().as_millisecond() % 0x1_0000_0000;
        let serial = COUNTER.fetch_add(1, Ordering::Relaxed);
        let name = format!("{prefix}-{started:08x}-{:x}-{serial}", std::process::id());
        let namespace = core::Namespace {
            metadata: ObjectMeta { name: Some(name.clone()), ..ObjectMeta::default() },
            ..core::Namespace::default()
        };
        Api::<core::Namespace>::all(client.clone())
            .create(&PostParams::default(), &namespace)
            .await
            .with_context(|| format!("cannot make the namespace {name}"))?;
        // Pods cannot be made before it exists, and only a controller manager would make it by itself.
        let account = core::ServiceAccount {
            metadata: ObjectMeta { name: Some("default".into()), ..ObjectMeta::default() },
            ..core::ServiceAccount::default()
        };
        match Api::namespaced(client.clone(), &name).create(&PostParams::default(), &account).await {
            Err(kube::Error::Api(status)) if status.code == 409 => {}
            other => drop(other?),
        }
        Ok(Self { client, name, cleanup: None })
    }

    pub(crate) fn deleted_by(mut self, kubectl: PathBuf, kubeconfig: PathBuf) -> Self {
        self.cleanup = Some(Cleanup { kubectl, kubeconfig });
        self
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The client that the namespace was made with; it may do everything.
    pub fn client(&self) -> Client {
        self.client.clone()
    }

    /// Objects of one kind in the namespace.
    pub fn api<K>(&self) -> Api<K>
    where
        K: Resource<Scope = NamespaceResourceScope>,
        K::DynamicType: Default,
    {
        Api::namespaced(self.client(), &self.name)
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        if let Some(Cleanup { kubectl, kubeconfig }) = &self.cleanup {
            // A process of its own, because a test that panics has no runtime to await in. A namespace that stays is no harm.
            let _ = Command::new(kubectl)
                .args(["delete", "namespace", &self.name, "--wait=false"])
                .env("KUBECONFIG", kubeconfig)
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .status();
        }
    }
}
