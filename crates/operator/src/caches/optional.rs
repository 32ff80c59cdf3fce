//! Caches of kinds that may not be served: each begins when its kind is, and ends when it is not any more.

use std::fmt::Debug;
use std::hash::Hash;
use std::sync::Arc;

use engine::apply::{Kind, KnownObjects};
use engine::cache::{Cache, Cached, Change, Selection};
use engine::optional_kinds::{OptionalKind, OptionalKinds};
use engine::{Key, Scope};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::NamespaceResourceScope;
use kube::{Client, Resource};
use parking_lot::{Mutex, RwLock};
use tokio_util::sync::CancellationToken;

type Listener<V> = Arc<dyn Fn(&Change<V>) + Send + Sync>;

struct Inner<V> {
    now: RwLock<Option<Cache<V>>>,
    listeners: Mutex<Vec<Listener<V>>>,
}

/// The cache of a kind that may not be served: empty while it is not. Cheap to clone.
pub struct OptionalCache<V> {
    inner: Arc<Inner<V>>,
}

impl<V> Clone for OptionalCache<V> {
    fn clone(&self) -> Self {
        Self { inner: Arc::clone(&self.inner) }
    }
}

impl<V> OptionalCache<V>
where
    V: Cached + Resource<Scope = NamespaceResourceScope>,
    V::DynamicType: Clone + Debug + Default + Eq + Hash,
{
    /// Follows whether the kind is served, until `stop`.
    pub fn start(
        client: &Client,
        kinds: &OptionalKinds,
        kind: OptionalKind,
        scope: &Scope,
        labels: &str,
        stop: &CancellationToken,
    ) -> Self {
        let cache = Self { inner: Arc::new(Inner { now: RwLock::new(None), listeners: Mutex::default() }) };
        let (following, client, mut served) = (cache.clone(), client.clone(), kinds.watch(kind));
        let (scope, labels, stop) = (scope.clone(), labels.to_string(), stop.clone());
        tokio::spawn(async move {
            let mut current: Option<CancellationToken> = None;
            loop {
                let is_served = *served.borrow_and_update();
                if is_served && current.is_none() {
                    let until = stop.child_token();
                    let selection = Selection::all(scope.clone()).with_labels(&labels);
                    following.put(Cache::start(&client, selection, &until));
                    current = Some(until);
                } else if !is_served && let Some(until) = current.take() {
                    until.cancel();
                    *following.inner.now.write() = None;
                }
                match stop.run_until_cancelled(served.changed()).await {
                    Some(Ok(())) => {}
                    _ => return,
                }
            }
        });
        cache
    }

    fn put(&self, cache: Cache<V>) {
        for listener in self.inner.listeners.lock().iter() {
            let listener = Arc::clone(listener);
            cache.subscribe(move |change| listener(change));
        }
        *self.inner.now.write() = Some(cache);
    }

    /// Calls `listener` for every change, whenever the kind is served.
    pub fn subscribe(&self, listener: impl Fn(&Change<V>) + Send + Sync + 'static) {
        let listener: Listener<V> = Arc::new(listener);
        self.inner.listeners.lock().push(Arc::clone(&listener));
        if let Some(cache) = &*self.inner.now.read() {
            cache.subscribe(move |change| listener(change));
        }
    }

    /// The object of this name; none also while the kind is not served.
    pub fn get(&self, key: &Key) -> Option<Arc<V>> {
        self.inner.now.read().as_ref()?.get(key)
    }

    /// Whether a write on behalf of `owner` has not come back yet.
    pub fn awaits(&self, owner: &str) -> bool {
        self.inner.now.read().as_ref().is_some_and(|cache| cache.awaits(owner))
    }
}

impl<V> KnownObjects for OptionalCache<V>
where
    V: Cached + Resource<Scope = NamespaceResourceScope>,
    V::DynamicType: Clone + Debug + Default + Eq + Hash,
{
    fn kind(&self) -> Kind {
        Kind::erase::<V>(&V::DynamicType::default())
    }

    fn is_ready(&self) -> bool {
        self.inner.now.read().as_ref().is_some_and(Cache::is_ready)
    }

    fn meta(&self, key: &Key) -> Option<ObjectMeta> {
        KnownObjects::meta(self.inner.now.read().as_ref()?, key)
    }

    fn owned_by(&self, uid: &str) -> Vec<ObjectMeta> {
        self.inner.now.read().as_ref().map(|cache| KnownObjects::owned_by(cache, uid)).unwrap_or_default()
    }

    fn wrote(&self, key: Key, version: &str, owner: &str) {
        if let Some(cache) = &*self.inner.now.read() {
            cache.wrote(key, version, owner);
        }
    }
}
