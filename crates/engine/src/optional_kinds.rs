//! Kinds whose CRDs may be absent: whether they are served now, told again whenever it changes, without a restart.
//!
//! Discovery answers, once at the start and again when one of their CRDs changes; a metadata watch of the CRDs tells when.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Client;
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

use crate::cache::{Cache, Selection};
use crate::error::chain;
use crate::key::Key;
use crate::scope::Scope;
use crate::view::MetaView;

/// Between a change of a CRD and the answer of discovery there may be seconds; we ask again after this time, twice as
/// much, and so on.
const FIRST_WAIT: Duration = Duration::from_millis(100);
const LONGEST_WAIT: Duration = Duration::from_secs(10);
/// So often at most, if discovery does not come to agree with the CRDs: a CRD may be there and never be served.
const TRIES: u32 = 10;

/// A kind that another operator brings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum OptionalKind {
    /// Pods that Prometheus scrapes.
    PodMonitor,
    /// Services that Prometheus scrapes.
    ServiceMonitor,
    /// A database of the MariaDB operator.
    MariaDb,
    /// Rights of a user in such a database.
    Grant,
    /// An AppArmor profile of the security profiles operator.
    AppArmorProfile,
    /// A certificate of cert-manager.
    Certificate,
}

impl OptionalKind {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::PodMonitor,
        Self::ServiceMonitor,
        Self::MariaDb,
        Self::Grant,
        Self::AppArmorProfile,
        Self::Certificate,
    ];

    /// API group, the version that we write, plural and kind.
    const fn names(self) -> (&'static str, &'static str, &'static str, &'static str) {
        const PROMETHEUS: &str = "monitoring.coreos.com";
        const MARIADB: &str = "k8s.mariadb.com";
        const PROFILES: &str = "security-profiles-operator.x-k8s.io";
        match self {
            Self::PodMonitor => (PROMETHEUS, "v1", "podmonitors", "PodMonitor"),
            Self::ServiceMonitor => (PROMETHEUS, "v1", "servicemonitors", "ServiceMonitor"),
            Self::MariaDb => (MARIADB, "v1alpha1", "mariadbs", "MariaDB"),
            Self::Grant => (MARIADB, "v1alpha1", "grants", "Grant"),
            Self::AppArmorProfile => (PROFILES, "v1alpha1", "apparmorprofiles", "AppArmorProfile"),
            Self::Certificate => ("cert-manager.io", "v1", "certificates", "Certificate"),
        }
    }

    /// The API group.
    pub const fn group(self) -> &'static str {
        self.names().0
    }

    /// The version that we write.
    pub const fn version(self) -> &'static str {
        self.names().1
    }

    /// The name in paths.
    pub const fn plural(self) -> &'static str {
        self.names().2
    }

    /// The name in manifests.
    pub const fn kind(self) -> &'static str {
        self.names().3
    }

    /// The name of its CRD.
    pub fn crd(self) -> String {
        format!("{}.{}", self.plural(), self.group())
    }

    const fn index(self) -> usize {
        self as usize
    }
}

/// What the user says is there, or not, whatever discovery says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Overrides {
    /// `IS_PROMETHEUS_CRD_INSTALLED`.
    pub prometheus: Option<bool>,
    /// `IS_MARIADB_CRD_INSTALLED`.
    pub mariadb: Option<bool>,
    /// `IS_APPARMOR_CRD_INSTALLED`.
    pub apparmor: Option<bool>,
}

impl Overrides {
    fn of(self, kind: OptionalKind) -> Option<bool> {
        match kind {
            OptionalKind::PodMonitor | OptionalKind::ServiceMonitor => self.prometheus,
            OptionalKind::MariaDb | OptionalKind::Grant => self.mariadb,
            OptionalKind::AppArmorProfile => self.apparmor,
            OptionalKind::Certificate => None,
        }
    }
}

#[derive(Debug)]
struct Inner {
    overrides: Overrides,
    served: [watch::Sender<bool>; OptionalKind::ALL.len()],
    known: watch::Sender<bool>,
}

/// Which optional kinds are served. Cheap to clone.
#[derive(Clone, Debug)]
pub struct OptionalKinds {
    inner: Arc<Inner>,
}

impl OptionalKinds {
    /// Asks now, and again when CRDs change.
    pub fn start(client: &Client, overrides: Overrides, stop: &CancellationToken) -> Self {
        let served = OptionalKind::ALL.map(|kind| watch::Sender::new(overrides.of(kind).unwrap_or(false)));
        let kinds = Self { inner: Arc::new(Inner { overrides, served, known: watch::Sender::new(false) }) };
        let crds = Cache::start_cluster_scoped(client, Selection::all(Scope::All), stop);
        let (following, client, stop) = (kinds.clone(), client.clone(), stop.clone());
        tokio::spawn(async move {
            stop.run_until_cancelled(following.follow(client, crds)).await;
        });
        kinds
    }

    /// Whether the kind is served now. Before discovery has answered for the first time, only what the user says is.
    pub fn is_served(&self, kind: OptionalKind) -> bool {
        *self.inner.served[kind.index()].borrow()
    }

    /// Tells whenever the kind begins or ceases to be served.
    pub fn watch(&self, kind: OptionalKind) -> watch::Receiver<bool> {
        self.inner.served[kind.index()].subscribe()
    }

    /// Whether discovery has answered.
    pub fn is_ready(&self) -> bool {
        *self.inner.known.borrow()
    }

    /// Waits for discovery to answer.
    pub async fn ready(&self) {
        // The sender lives as long as we do.
        let _ = self.inner.known.subscribe().wait_for(|known| *known).await;
    }

    async fn follow(self, client: Client, crds: Cache<MetaView<CustomResourceDefinition>>) {
        let changed = Arc::new(Notify::new());
        let names: BTreeSet<String> = OptionalKind::ALL.map(OptionalKind::crd).into();
        let wake = Arc::clone(&changed);
        crds.subscribe(move |change| {
            if names.contains(&*change.key.name) {
                wake.notify_one();
            }
        });
        let mut tries = 0;
        loop {
            let again = match discover(&client).await {
                Ok(found) => {
                    self.take(&found);
                    tries < TRIES && !agrees(&found, &crds)
                }
                Err(error) => {
                    tracing::warn!(error = %chain(&error), "cannot ask which kinds are served; trying again");
                    true
                }
            };
            if !again {
                changed.notified().await;
                tries = 0;
                continue;
            }
            let wait = FIRST_WAIT.saturating_mul(2_u32.saturating_pow(tries)).min(LONGEST_WAIT);
            tries += 1;
            // A change begins from the start: what it brings may come at once.
            if tokio::time::timeout(wait, changed.notified()).await.is_ok() {
                tries = 0;
            }
        }
    }

    fn take(&self, found: &Found) {
        for kind in OptionalKind::ALL {
            let served = self.inner.overrides.of(kind).unwrap_or_else(|| found.serves(kind));
            let changed = self.inner.served[kind.index()].send_if_modified(|before| {
                let changed = *before != served;
                *before = served;
                changed
            });
            if changed {
                tracing::info!(kind = kind.kind(), group = kind.group(), served, "optional kind");
            }
        }
        self.inner.known.send_replace(true);
    }
}

/// Group, version and plural of what the API server serves, of the groups that matter here.
struct Found(BTreeSet<(String, String, String)>);

impl Found {
    fn serves(&self, kind: OptionalKind) -> bool {
        let (group, version, plural, _) = kind.names();
        self.0.contains(&(group.into(), version.into(), plural.into()))
    }

    fn serves_any_version(&self, kind: OptionalKind) -> bool {
        self.0.iter().any(|(group, _, plural)| group == kind.group() && plural == kind.plural())
    }
}

async fn discover(client: &Client) -> Result<Found, kube::Error> {
    let ours: BTreeSet<&str> = OptionalKind::ALL.map(OptionalKind::group).into();
    let mut found = BTreeSet::new();
    for group in client.list_api_groups_aggregated().await?.items {
        let name = group.metadata.and_then(|meta| meta.name).unwrap_or_default();
        if !ours.contains(name.as_str()) {
            continue;
        }
        for version in group.versions {
            let text = version.version.unwrap_or_default();
            for resource in version.resources {
                let plural = resource.resource.unwrap_or_default();
                found.insert((name.clone(), text.clone(), plural));
            }
        }
    }
    Ok(Found(found))
}

/// Whether discovery has caught up with the CRDs, as far as we know them.
fn agrees(found: &Found, crds: &Cache<MetaView<CustomResourceDefinition>>) -> bool {
    !crds.is_ready()
        || OptionalKind::ALL.into_iter().all(|kind| {
            let crd = crds.get(&Key::cluster_scoped(&kind.crd()));
            let lives = crd.is_some_and(|crd| crd.metadata.deletion_timestamp.is_none());
            lives == found.serves_any_version(kind)
        })
}
