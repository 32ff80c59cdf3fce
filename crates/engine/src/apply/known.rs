//! The caches that apply and prune look into, whatever their kind.

use std::fmt::Debug;
use std::hash::Hash;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::ApiResource;

use crate::cache::{Cache, Cached};
use crate::key::Key;

/// What apply asks of a cache.
pub trait KnownObjects: Send + Sync {
    /// The kind it holds.
    fn kind(&self) -> ApiResource;
    /// Whether "not there" means that it is not there.
    fn is_ready(&self) -> bool;
    /// The metadata of an object.
    fn meta(&self, key: &Key) -> Option<ObjectMeta>;
    /// The metadata of everything with this owner, sorted.
    fn owned_by(&self, uid: &str) -> Vec<ObjectMeta>;
    /// Notes a write of ours.
    fn wrote(&self, key: Key, version: &str, owner: &str);
}

impl<V: Cached> KnownObjects for Cache<V>
where
    V::DynamicType: Clone + Debug + Default + Eq + Hash,
{
    fn kind(&self) -> ApiResource {
        ApiResource::erase::<V>(&V::DynamicType::default())
    }

    fn is_ready(&self) -> bool {
        Cache::is_ready(self)
    }

    fn meta(&self, key: &Key) -> Option<ObjectMeta> {
        self.get(key).map(|object| object.meta().clone())
    }

    fn owned_by(&self, uid: &str) -> Vec<ObjectMeta> {
        Cache::owned_by(self, uid).iter().map(|object| object.meta().clone()).collect()
    }

    fn wrote(&self, key: Key, version: &str, owner: &str) {
        Cache::wrote(self, key, version, owner);
    }
}

/// All caches of a controller by kind.
#[derive(Clone, Default)]
pub(super) struct KnownKinds {
    kinds: Vec<Arc<dyn KnownObjects>>,
}

impl KnownKinds {
    pub(super) fn add(&mut self, known: Arc<dyn KnownObjects>) {
        self.kinds.push(known);
    }

    pub(super) fn get(&self, kind: &ApiResource) -> Option<&dyn KnownObjects> {
        self.kinds.iter().map(|known| &**known).find(|known| {
            let known = known.kind();
            known.group == kind.group && known.plural == kind.plural
        })
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &dyn KnownObjects> {
        self.kinds.iter().map(|known| &**known)
    }
}
