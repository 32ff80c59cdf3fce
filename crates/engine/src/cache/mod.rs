//! Caches: one watch per kind and process, sorted content with indexes, and every change told to every listener,
//! deletes included, also those that happened while the watch was down.

mod store;

use std::fmt::Debug;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::StreamExt as _;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::Api;
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Client, Resource};
use parking_lot::{Mutex, RwLock};
use serde::de::DeserializeOwned;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::key::Key;
use crate::scope::Scope;
pub use store::Change;
use store::{IndexBy, Store};

const FIRST_WATCH_BACKOFF: Duration = Duration::from_millis(200);
/// No watch waits longer than twice this (with jitter) before it tries again: after an outage of the API server we are
/// back soon.
const LONGEST_WATCH_BACKOFF: Duration = Duration::from_secs(3);
/// Objects per page of the first list: bounds the memory that decoding takes.
const PAGE: u32 = 500;

/// What can be cached.
pub trait Cached: Resource + Clone + Debug + DeserializeOwned + Send + Sync + 'static {}
impl<V: Resource + Clone + Debug + DeserializeOwned + Send + Sync + 'static> Cached for V {}

type Listener<V> = Box<dyn Fn(&Change<V>) + Send + Sync>;

struct Inner<V> {
    store: RwLock<Store<V>>,
    listeners: Mutex<Vec<Listener<V>>>,
    /// Per watch, whether its first list is complete.
    ready: watch::Sender<Vec<bool>>,
}

/// All objects of one kind (within a scope and selector), kept current by a watch. Cheap to clone.
pub struct Cache<V> {
    inner: Arc<Inner<V>>,
}

impl<V> Clone for Cache<V> {
    fn clone(&self) -> Self {
        Self { inner: Arc::clone(&self.inner) }
    }
}

/// Which objects of a kind a cache holds, and how they are found.
pub struct Selection<V> {
    /// The namespaces; of no meaning for cluster-scoped kinds.
    pub scope: Scope,
    /// A label selector; empty for all.
    pub labels: String,
    /// Indexes beside the one by owner.
    pub indexes: Vec<(&'static str, IndexBy<V>)>,
}

impl<V> Selection<V> {
    /// All objects in these namespaces.
    pub fn all(scope: Scope) -> Self {
        Self { scope, labels: String::new(), indexes: Vec::new() }
    }

    /// Only objects with these labels.
    pub fn with_labels(mut self, labels: &str) -> Self {
        self.labels = labels.to_string();
        self
    }

    /// One more way to find objects.
    pub fn with_index(mut self, name: &'static str, by: fn(&V) -> Vec<String>) -> Self {
        self.indexes.push((name, by));
        self
    }
}

impl<V: Cached> Cache<V>
where
    V::DynamicType: Clone + Debug + Default + Eq + std::hash::Hash,
{
    /// Starts watching a namespaced kind.
    pub fn start(client: &Client, selection: Selection<V>, stop: &CancellationToken) -> Self
    where
        V: Resource<Scope = kube::core::NamespaceResourceScope>,
    {
        let apis = match &selection.scope {
            Scope::All => vec![(None, Api::all(client.clone()))],
            Scope::Namespaces(names) => {
                names.iter().map(|name| (Some(name.clone()), Api::namespaced(client.clone(), name))).collect()
            }
        };
        Self::start_watches(apis, &selection, stop)
    }

    /// Starts watching a cluster-scoped kind.
    pub fn start_cluster_scoped(client: &Client, selection: Selection<V>, stop: &CancellationToken) -> Self {
        Self::start_watches(vec![(None, Api::all(client.clone()))], &selection, stop)
    }

    fn start_watches(
        apis: Vec<(Option<String>, Api<V>)>,
        selection: &Selection<V>,
        stop: &CancellationToken,
    ) -> Self {
        let cache = Self {
            inner: Arc::new(Inner {
                store: RwLock::new(Store::new(&selection.indexes)),
                listeners: Mutex::default(),
                ready: watch::Sender::new(vec![false; apis.len()]),
            }),
        };
        for (number, (namespace, api)) in apis.into_iter().enumerate() {
            let config = watcher::Config::default().labels(&selection.labels).page_size(PAGE);
            let (cache, stop) = (cache.clone(), stop.clone());
            tokio::spawn(async move {
                stop.run_until_cancelled(cache.follow(number, namespace, api, config)).await;
            });
        }
        cache
    }

    async fn follow(self, number: usize, namespace: Option<String>, api: Api<V>, config: watcher::Config) {
        let kind = V::kind(&V::DynamicType::default()).into_owned();
        let backoff = backon::ExponentialBuilder::default()
            .with_min_delay(FIRST_WATCH_BACKOFF)
            .with_max_delay(LONGEST_WATCH_BACKOFF)
            .with_jitter()
            .without_max_times();
        let backoff = watcher::ExponentialBackoff::from(backoff);
        let mut events = std::pin::pin!(watcher(api, config).backoff(backoff));
        while let Some(event) = events.next().await {
            match event {
                Ok(event) => self.take(number, namespace.as_deref(), event),
                Err(error) => {
                    tracing::warn!(kind, error = %crate::error::chain(&error), "watch failed; trying again");
                }
            }
        }
    }

    fn take(&self, number: usize, namespace: Option<&str>, event: watcher::Event<V>) {
        let complete = matches!(event, watcher::Event::InitDone);
        // Held over the calls of the listeners, so that they see changes in the order in which they happened. The store
        // itself is free by then: a listener may read it.
        let listeners = self.inner.listeners.lock();
        let changes = self.inner.store.write().take(number, namespace, event, Instant::now());
        for change in &changes {
            for listener in listeners.iter() {
                listener(change);
            }
        }
        drop(listeners);
        if complete {
            self.inner.ready.send_if_modified(|ready| {
                let first = !ready[number];
                ready[number] = true;
                first
            });
        }
    }

    /// Calls `listener` for each object that is there now, and then for every change. It must be quick and must not
    /// subscribe itself.
    pub fn subscribe(&self, listener: impl Fn(&Change<V>) + Send + Sync + 'static) {
        let mut listeners = self.inner.listeners.lock();
        let present = self.inner.store.read().list();
        for object in present {
            listener(&Change { key: Key::of(&*object), before: None, after: Some(object) });
        }
        listeners.push(Box::new(listener));
    }

    /// The object of this name.
    pub fn get(&self, key: &Key) -> Option<Arc<V>> {
        self.inner.store.read().get(key)
    }

    /// All objects, sorted by namespace and name.
    pub fn list(&self) -> Vec<Arc<V>> {
        self.inner.store.read().list()
    }

    /// How many objects there are.
    pub fn len(&self) -> usize {
        self.inner.store.read().len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The objects with an owner reference to this uid, sorted.
    pub fn owned_by(&self, uid: &str) -> Vec<Arc<V>> {
        self.inner.store.read().owned_by(uid)
    }

    /// The objects that an index of the selection finds under `value`, sorted.
    pub fn by_index(&self, index: &str, value: &str) -> Vec<Arc<V>> {
        self.inner.store.read().by_index(index, value)
    }

    /// Whether the first list is complete. Before that, "not there" means "not known".
    pub fn is_ready(&self) -> bool {
        self.inner.ready.borrow().iter().all(|ready| *ready)
    }

    /// Waits for the first list.
    pub async fn ready(&self) {
        // The sender lives as long as we do.
        let _ = self.inner.ready.subscribe().wait_for(|ready| ready.iter().all(|ready| *ready)).await;
    }

    /// Notes that we wrote `key` on behalf of `owner` (a uid), which gave `version`; see [`Cache::awaits`].
    pub fn wrote(&self, key: Key, version: &str, owner: &str) {
        self.inner.store.write().expect(key, version, owner, Instant::now());
    }

    /// Whether something that we wrote on behalf of `owner` has not come back through the watch yet. A plan made now
    /// would be made on facts older than our own writes; the change that is missing will wake the controller.
    pub fn awaits(&self, owner: &str) -> bool {
        self.inner.store.write().awaits(owner, Instant::now())
    }

    /// Whether `object` is what the cache holds now. To be asked after [`Cache::awaits`]: our own write may have come back just
    /// between the two, and an object that was taken before is older than it. What came wakes the controller again.
    pub fn is_latest(&self, key: &Key, object: &impl Resource) -> bool {
        let version = |meta: &ObjectMeta| (meta.uid.clone(), meta.resource_version.clone());
        self.get(key).is_some_and(|latest| version(latest.meta()) == version(object.meta()))
    }
}
