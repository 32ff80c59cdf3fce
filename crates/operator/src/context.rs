//! What all controllers of the operator share.

use std::collections::HashMap;
use std::sync::Arc;

use engine::Key;
use engine::apply::Applier;
use engine::events::{EventType, Events};
use engine::view::MetaView;
use k8s_openapi::api::core::v1::{ObjectReference, Secret as SecretObject};
use kube::{Client, Resource, ResourceExt as _};
use parking_lot::Mutex;
use render::Defaults;
use slurm::Secret;

use crate::caches::Caches;
use crate::slurm_links::SlurmLinks;
use crate::workers::WorkerMetrics;

/// The version of a Secret, and a value that it then had.
type SecretValue = (String, Option<Secret>);

/// What all controllers of the operator share.
pub struct Context {
    /// Writes only while this process is the leader.
    pub client: Client,
    /// What is known.
    pub caches: Caches,
    /// Brings objects about.
    pub applier: Applier,
    /// Tells users.
    pub events: Events,
    /// Settings that clusters fall back to.
    pub defaults: Defaults,
    /// The links to the Slurm of the clusters.
    pub links: SlurmLinks,
    /// What is counted of sets of workers.
    pub worker_metrics: WorkerMetrics,
    /// Types of conditions of Kubernetes nodes that tell Slurm why a node is drained.
    pub node_conditions: Vec<String>,
    /// Values of Secrets that were read, by Secret and key in it.
    secret_values: Mutex<HashMap<(Key, String), SecretValue>>,
}

impl Context {
    /// Puts it together.
    pub fn new(
        client: Client,
        caches: Caches,
        events: Events,
        defaults: Defaults,
        links: SlurmLinks,
        worker_metrics: WorkerMetrics,
        node_conditions: Vec<String>,
    ) -> Arc<Self> {
        let applier = caches.applier(&client);
        links.follow(&caches);
        Arc::new(Self {
            client,
            caches,
            applier,
            events,
            defaults,
            links,
            worker_metrics,
            node_conditions,
            secret_values: Mutex::default(),
        })
    }

    /// A value of a Secret; none if the Secret is not there, or has no such key. It is read again only when the Secret has
    /// changed.
    pub async fn secret_value(&self, secret: &Key, key: &str) -> Result<Option<Secret>, kube::Error> {
        let Some(meta) = self.caches.secrets.get(secret) else { return Ok(None) };
        let version = meta.resource_version().unwrap_or_default();
        let slot = (secret.clone(), key.to_string());
        if let Some((known, value)) = self.secret_values.lock().get(&slot)
            && *known == version
        {
            return Ok(value.clone());
        }
        let read: Option<SecretObject> = engine::objects::get(&self.client, secret).await?;
        let Some(read) = read else { return Ok(None) };
        let version = read.resource_version().unwrap_or_default();
        let value = read.data.and_then(|mut data| data.remove(key)).map(|bytes| Secret::from(bytes.0));
        self.secret_values.lock().insert(slot, (version, value.clone()));
        Ok(value)
    }

    /// The metadata of a Secret.
    pub fn secret(&self, key: &Key) -> Option<Arc<MetaView<SecretObject>>> {
        self.caches.secrets.get(key)
    }

    /// Forgets what was read for clusters of this name.
    pub fn forget_secrets(&self, namespace: &str, prefix: &str) {
        let of_it = |key: &Key| &*key.namespace == namespace && key.name.starts_with(prefix);
        self.secret_values.lock().retain(|(key, _), _| !of_it(key));
    }

    /// Tells users something about an object, once.
    pub fn tell<K: Resource<DynamicType = ()>>(
        &self,
        object: &K,
        type_: EventType,
        reason: &str,
        note: &str,
    ) {
        self.events.tell(reference(object), type_, reason, "Reconcile", note);
    }
}

fn reference<K: Resource<DynamicType = ()>>(object: &K) -> ObjectReference {
    let meta = object.meta();
    ObjectReference {
        api_version: Some(K::api_version(&()).into_owned()),
        kind: Some(K::kind(&()).into_owned()),
        name: meta.name.clone(),
        namespace: meta.namespace.clone(),
        uid: meta.uid.clone(),
        ..ObjectReference::default()
    }
}
