//! Sets of workers of both APIs: observe, plan, execute.
//!
//! ```text
//! WorkerSet (front end)  ->  gather: Seen  ->  nodeset::plan  ->  execute, in order  ->  status
//! ```
//!
//! **To write a front end**, implement [`WorkerSet`] for one look at one set (it borrows the object and what was found out
//! about it), and call [`Workers::sync`] from the reconcile. Everything else is the same for both APIs: facts from caches, the
//! plan, slow start, the look at Slurm just before a pod is deleted, events, metrics, the status write.

mod agents;
mod budget;
mod claims;
mod events;
mod execute;
mod facts;
mod gather;
mod keys;
mod last_look;
mod marks;
mod memory;
mod metrics;
mod ownership;
mod pods;
mod revisions;
mod slurm_writes;
mod sync;
mod watch;

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use engine::apply::DesiredObject;
use engine::cache::Cache;
use engine::view::{Guarded, PodView, RevisionView};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::Resource;
use kube::core::NamespaceResourceScope;
use nodeset::{Content, Plan};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

pub use keys::{CordonKeys, Keys};
pub use metrics::WorkerMetrics;
pub use sync::Workers;
pub use watch::{watch_namespaces, watch_nodes};

use crate::slurm_links::Link;

/// When the cluster of a deleted set is gone, and no agent in a pod answers, the pod goes after this time, unless the user set a
/// deadline: nothing hangs for ever.
pub const WITHOUT_SLURM: Duration = Duration::from_secs(24 * 3600);

/// How Slurm can be asked.
#[derive(Clone, Debug)]
pub enum Connection {
    /// The cluster does not exist. While the set is being deleted this means "gone for good", and agents are asked.
    NoCluster,
    /// Nobody can be asked, and why, for people: the Secret is missing, the cluster is not valid...
    Silent(String),
    /// By this link.
    Link(Arc<Link>),
}

/// What the set wants its pods to be made from now.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    /// The data of its revision.
    pub data: Value,
    /// Labels of the revision; the one with the hash is added.
    pub labels: BTreeMap<String, String>,
    /// Annotations of the revision.
    pub annotations: BTreeMap<String, String>,
}

/// What came of a look, for the status.
#[derive(Clone, Copy, Debug)]
pub struct Outcome<'a> {
    /// The plan, with the planner's status.
    pub plan: &'a Plan,
    /// The pods of the set, by name.
    pub pods: &'a [Arc<PodView>],
    /// What did not work, for people.
    pub failed: Option<&'a str>,
    /// Now.
    pub now: Timestamp,
}

/// One look at one set of workers: everything in which the two APIs differ. Nothing in here does I/O.
pub trait WorkerSet: Send + Sync {
    /// The kind.
    type Object: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + Debug
        + DeserializeOwned
        + Send
        + Sync
        + 'static;
    /// Its status.
    type Status: Serialize + Send + Sync;

    /// The object, as it was seen.
    fn object(&self) -> &Self::Object;
    /// The cache that it came from.
    fn cache(&self) -> &Cache<Guarded<Self::Object>>;
    /// Our finalizer on it.
    fn finalizer(&self) -> &'static str;
    /// Labels and annotations of this API.
    fn keys(&self) -> &'static Keys;

    /// What the user asks for. `collisions` of the status belongs in here; what memory knows is added.
    fn set(&self) -> nodeset::Set<'_>;
    /// How Slurm can be asked.
    fn connection(&self) -> &Connection;
    /// What pods must wait for before any can be made, for people: a ServiceAccount that is not there yet. Its coming must
    /// wake the set.
    fn not_yet(&self) -> Option<String> {
        None
    }

    /// The cache that holds the pods of the set.
    fn pods(&self) -> &Cache<PodView>;
    /// Pods that the cache does not hold and that may be the set's all the same. Those that the cache holds are ignored.
    fn strays(&self) -> Vec<Arc<PodView>> {
        Vec::new()
    }
    /// Whether the set's selector matches the pod.
    fn selects(&self, pod: &PodView) -> bool;
    /// Labels that every pod of this name must have (without the hash of its revision). A pod that lacks one is repaired.
    fn identity(&self, name: &str, ordinal: u32) -> BTreeMap<String, String>;
    /// The container of slurmd. None: any container counts.
    fn main_container(&self) -> Option<&str>;
    /// Whether our agent is in the pod, and can be asked for its job steps.
    fn has_agent(&self, pod: &PodView) -> bool;

    /// The cache of revisions.
    fn revision_cache(&self) -> &Cache<RevisionView>;
    /// The revisions that the set owns, or that nobody owns and that are about it.
    fn revisions(&self) -> Vec<Arc<RevisionView>>;
    /// What pods are made from now; [`nodeset::Set::content`] is made from the same data.
    fn wanted(&self) -> Wanted;
    /// The data of a revision in the form in which revisions are compared.
    fn content(&self, data: &Value) -> Content {
        Content::new(data)
    }

    /// The pod with this ordinal: from this data, or from what is wanted now. Owner, hash, labels of identity and the label
    /// that guards it are added. None if the data cannot be read.
    fn pod(&self, ordinal: u32, node: &str, data: Option<&Value>) -> Option<Pod>;
    /// The claim of a template for an ordinal; its owner is added.
    fn claim(&self, template: &str, ordinal: u32) -> Option<PersistentVolumeClaim>;
    /// The selector of the pods, for the PodDisruptionBudget.
    fn selector(&self) -> LabelSelector;
    /// Objects that belong to the set besides pods, claims, revisions and the PodDisruptionBudget; what is not among them any
    /// more is pruned. None: all stays as it is.
    fn objects(&self) -> Result<Option<Vec<DesiredObject>>, serde_json::Error>;

    /// The status that the object shows.
    fn current_status(&self) -> Option<&Self::Status>;
    /// The status that it should show.
    fn status(&self, outcome: &Outcome<'_>) -> Self::Status;
}
