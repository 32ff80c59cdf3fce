//! The links to Slurm: one client and one poller per cluster and process, which all controllers share.
//!
//! A link is kept while the cluster is there. Nobody else polls, and nobody waits for Slurm: readers take the last snapshot and
//! look at its age. Only the look just before a deletion is asked for ([`Link::refresh`]).

mod credential;
mod follow;
mod link;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use engine::Key;
use nodeset::Api;
use parking_lot::{Mutex, RwLock};
use render::{Names, ValidatedCluster};
use slurm::Secret;
use slurm_client::{Changed, Pace, Server, Timeouts};

pub use credential::Credential;
pub use link::{LONGEST_BELIEVED, Link, Pulse};

use crate::caches::Caches;

/// The longest pause after failures of a Slurm that is not ours.
const LONGEST_PAUSE: Duration = Duration::from_secs(15 * 60);

/// A Slurm cluster that we talk to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkKey {
    /// The API that the cluster is of.
    pub api: Api,
    /// The SlurmCluster, or the Cluster of Slinky.
    pub cluster: Key,
}

impl LinkKey {
    /// That of a SlurmCluster.
    pub const fn nebius(cluster: Key) -> Self {
        Self { api: Api::Nebius, cluster }
    }

    /// That of a Cluster of Slinky.
    pub const fn slinky(cluster: Key) -> Self {
        Self { api: Api::Slinky, cluster }
    }
}

impl fmt::Display for LinkKey {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.api {
            Api::Nebius => "SlurmCluster",
            Api::Slinky => "Cluster",
        };
        write!(out, "{kind} {}", self.cluster)
    }
}

/// Why there is no link to a cluster.
#[derive(Debug, thiserror::Error)]
pub enum NoLink {
    /// The key is unfit.
    #[error("the key for tokens cannot be used: {0}")]
    Key(#[from] slurm::KeyError),
    /// The token is unfit.
    #[error("the token cannot be used: {0}")]
    Token(&'static str),
    /// The address is none.
    #[error(transparent)]
    Address(#[from] slurm_client::ServerError),
    /// The client cannot be made.
    #[error(transparent)]
    Client(#[from] slurm_client::TlsError),
}

/// Where a cluster's slurmrestd listens, as `http://HOST:PORT`.
pub type Address = Box<dyn Fn(&Names, u16) -> String + Send + Sync>;

type Listener = Box<dyn Fn(&LinkKey, &Changed) + Send + Sync>;

/// Those who want to hear of changes.
#[derive(Default)]
struct Listeners(RwLock<Vec<Listener>>);

impl Listeners {
    fn tell(&self, key: &LinkKey, changed: &Changed) {
        self.0.read().iter().for_each(|listener| listener(key, changed));
    }
}

/// A link, or why there is none.
enum Slot {
    Link(Arc<Link>),
    None(String),
}

struct Inner {
    address: Address,
    pace: Pace,
    timeouts: Timeouts,
    slots: Mutex<BTreeMap<LinkKey, Slot>>,
    listeners: Arc<Listeners>,
}

/// All links of the process. Cheap to clone.
#[derive(Clone)]
pub struct SlurmLinks(Arc<Inner>);

impl fmt::Debug for SlurmLinks {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_set().entries(self.0.slots.lock().keys()).finish()
    }
}

impl Default for SlurmLinks {
    /// SlurmClusters are found by the Service that the operator makes for itself.
    fn default() -> Self {
        Self::at(Box::new(|names, port| {
            format!("http://{}:{port}", names.dns(&names.rest_internal_service()))
        }))
    }
}

impl SlurmLinks {
    /// With SlurmClusters at other addresses.
    pub fn at(address: Address) -> Self {
        Self::with(address, Pace::default(), Timeouts::default())
    }

    /// With SlurmClusters at other addresses, and with another pace and other time limits.
    pub fn with(address: Address, pace: Pace, timeouts: Timeouts) -> Self {
        Self(Arc::new(Inner { address, pace, timeouts, slots: Mutex::default(), listeners: Arc::default() }))
    }

    /// Makes the link, or keeps the one that is there if the server is the same: another credential and another name take
    /// effect in it, and what it knows stays. The poller begins at once; nothing is waited for. Must be called in a runtime.
    ///
    /// `expected_name` is how Slurm calls the cluster; see [`Link::identity`].
    pub fn connect(
        &self,
        key: &LinkKey,
        server: Server,
        credential: Credential,
        expected_name: Option<&str>,
    ) -> Result<Arc<Link>, NoLink> {
        let mut slots = self.0.slots.lock();
        if let Some(Slot::Link(link)) = slots.get(key)
            && *link.client().server() == server
        {
            link.expect_name(expected_name);
            link.show(credential)?;
            return Ok(Arc::clone(link));
        }
        let options = link::Options {
            pace: match key.api {
                Api::Nebius => self.0.pace,
                // Nobody knows when a Slurm that is not ours comes back.
                Api::Slinky => Pace { longest: LONGEST_PAUSE.max(self.0.pace.longest), ..self.0.pace },
            },
            timeouts: self.0.timeouts,
            // Whether slurmctld answers is a part of a Cluster's status. A SlurmCluster has its own agent for that.
            pings: key.api == Api::Slinky,
        };
        let link = Link::start(key, server, credential, options, &self.0.listeners)?;
        link.expect_name(expected_name);
        tracing::info!(cluster = %key, server = %link.client().server(), "a link to Slurm begins");
        slots.insert(key.clone(), Slot::Link(Arc::clone(&link)));
        Ok(link)
    }

    /// The link to a SlurmCluster: by its names, port and JWT key.
    pub fn of_cluster(&self, cluster: &ValidatedCluster, jwt_key: &Secret) -> Result<Arc<Link>, NoLink> {
        let names = cluster.names();
        let key = LinkKey::nebius(Key::new(names.namespace(), names.cluster()));
        let server: Server = (self.0.address)(names, cluster.ports.slurmrestd).parse()?;
        self.connect(&key, server, Credential::JwtKey(jwt_key.clone()), cluster.slurm_name())
    }

    /// The link, if there is one.
    pub fn get(&self, key: &LinkKey) -> Option<Arc<Link>> {
        match self.0.slots.lock().get(key)? {
            Slot::Link(link) => Some(Arc::clone(link)),
            Slot::None(_) => None,
        }
    }

    /// Why there is no link, as far as somebody said so by [`SlurmLinks::refuse`].
    pub fn why_not(&self, key: &LinkKey) -> Option<String> {
        match self.0.slots.lock().get(key)? {
            Slot::Link(_) => None,
            Slot::None(why) => Some(why.clone()),
        }
    }

    /// Ends the link, and notes why there is none: the token is missing, the address is wrong... What Slurm said before
    /// counts for nothing from now on.
    pub fn refuse(&self, key: &LinkKey, why: &str) {
        let before = self.0.slots.lock().insert(key.clone(), Slot::None(why.to_string()));
        let known = matches!(&before, Some(Slot::None(known)) if known == why);
        if matches!(before, Some(Slot::Link(_))) {
            tracing::info!(cluster = %key, why, "the link to Slurm ends");
        }
        if !known {
            self.0.listeners.tell(key, &Changed::Everything);
        }
    }

    /// Forgets a cluster that is gone.
    pub fn forget(&self, key: &LinkKey) {
        if self.0.slots.lock().remove(key).is_some() {
            tracing::info!(cluster = %key, "the cluster is gone, and the link to its Slurm with it");
            self.0.listeners.tell(key, &Changed::Everything);
        }
    }

    /// Forgets the links of clusters when they are deleted.
    pub fn follow(&self, caches: &Caches) {
        macro_rules! forget {
            ($cache:ident, $key:path) => {
                let links = self.clone();
                caches.$cache.subscribe(move |change| {
                    if change.after.is_none() {
                        links.forget(&$key(change.key.clone()));
                    }
                });
            };
        }
        forget!(clusters, LinkKey::nebius);
        forget!(slinky_clusters, LinkKey::slinky);
    }

    /// `on_change` is told of each change of nodes or jobs, when a link begins or ceases to answer (also: when its last answer
    /// gets too old), when the first answer after an own write is there, and when a link ends. It must be quick.
    pub fn subscribe(&self, on_change: impl Fn(&LinkKey, &Changed) + Send + Sync + 'static) {
        self.0.listeners.0.write().push(Box::new(on_change));
    }
}
