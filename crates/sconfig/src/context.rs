//! What all looks share.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use api::nebius::JailedConfig;
use engine::Key;
use engine::events::{EventType, Events};
use engine::view::Guarded;
use k8s_openapi::api::core::v1::{ConfigMap, ObjectReference};
use kube::{Client, Resource as _, ResourceExt as _};

use crate::caches::Caches;
use crate::error::Error;
use crate::memory::Memory;
use crate::plan::{Content, Owners};
use crate::unit::unit_of;
use crate::verdict::EffectiveSet;

/// How long things take.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    /// Old files stay for so long: a shared file system remembers names for 15 s.
    pub leftovers: Duration,
    /// How often the jail is looked at for files that somebody has changed. Nobody tells us.
    pub look: Duration,
    /// The same while the jail is being filled.
    pub soon: Duration,
    /// How long files below `/etc/slurm` wait for slurmctld to run with them.
    pub patience: Duration,
}

impl Default for Times {
    fn default() -> Self {
        Self {
            leftovers: Duration::from_secs(16),
            look: Duration::from_secs(30),
            soon: Duration::from_secs(2),
            patience: Duration::from_secs(60),
        }
    }
}

/// Whose a JailedConfig is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whose {
    /// Of the cluster that we serve.
    Ours,
    /// Of another one.
    Theirs,
    /// It names none, and there are several.
    Unclear,
}

/// What all looks share.
pub struct Context {
    /// Writes only while this process is the leader.
    pub client: Client,
    /// What is known.
    pub caches: Caches,
    /// Tells users.
    pub events: Events,
    /// The cluster whose jail is written.
    pub cluster: Key,
    /// Where the jail is.
    pub jail: PathBuf,
    /// How long things take.
    pub times: Times,
    /// What is remembered.
    pub memory: Memory,
}

impl Context {
    /// Whose a JailedConfig is.
    pub fn whose(&self, config: &JailedConfig) -> Whose {
        match config.cluster() {
            Some(name) if name == &*self.cluster.name => Whose::Ours,
            Some(_) => Whose::Theirs,
            None => match self.caches.clusters.list().first() {
                Some(first) if self.caches.clusters.len() > 1 => {
                    // One of them tells the user.
                    if first.name_any() == *self.cluster.name { Whose::Unclear } else { Whose::Theirs }
                }
                _ => Whose::Ours,
            },
        }
    }

    /// The JailedConfigs that are worked on together. One that cannot be read is worked on by itself.
    pub fn members(&self, unit: &Key) -> Vec<Arc<Guarded<JailedConfig>>> {
        let mut configs = self.caches.configs.list();
        configs.retain(|config| {
            unit_of(config) == *unit && config.ok().is_none_or(|config| self.whose(config) != Whose::Theirs)
        });
        configs
    }

    /// All units.
    pub fn units(&self) -> Vec<Key> {
        let mut units: Vec<Key> = self.caches.configs.list().iter().map(|config| unit_of(config)).collect();
        units.sort();
        units.dedup();
        units
    }

    /// Who gets which path.
    pub fn owners(&self) -> Owners {
        let configs = self.caches.configs.list();
        let live = configs
            .iter()
            .filter_map(|config| config.ok())
            .filter(|config| config.meta().deletion_timestamp.is_none() && self.whose(config) == Whose::Ours);
        Owners::of(live)
    }

    /// The ConfigMap that carries the effective set.
    pub fn effective_map(&self) -> Key {
        Key::new(&self.cluster.namespace, &format!("{}-slurm-configs", self.cluster.name))
    }

    /// The content of a ConfigMap; none if it is not there. It is read again only when it has changed.
    pub async fn content(&self, key: &Key) -> Result<Option<Arc<Content>>, Error> {
        let Some(version) = self.caches.version_of(key) else { return Ok(None) };
        if let Some(content) = self.memory.content(key, &version) {
            return Ok(Some(content));
        }
        let Some((version, content)) = self.read(key).await? else { return Ok(None) };
        let content = Arc::new(content);
        self.memory.keep_content(key.clone(), version, &content);
        Ok(Some(content))
    }

    /// The effective set; none if the operator has not made it yet.
    pub async fn effective_set(&self) -> Result<Option<Arc<EffectiveSet>>, Error> {
        let key = self.effective_map();
        let Some(version) = self.caches.version_of(&key) else { return Ok(None) };
        if let Some(set) = self.memory.set(&version) {
            return Ok(Some(set));
        }
        let Some((version, content)) = self.read(&key).await? else { return Ok(None) };
        let set = Arc::new(EffectiveSet::new(content));
        self.memory.keep_set(Some((version, Arc::clone(&set))));
        Ok(Some(set))
    }

    async fn read(&self, key: &Key) -> Result<Option<(String, Content)>, Error> {
        let map: Option<ConfigMap> = engine::objects::get(&self.client, key)
            .await
            .map_err(|error| Error::call(format!("ConfigMap {key} cannot be read"), error))?;
        let Some(map) = map else { return Ok(None) };
        let version = map.resource_version().unwrap_or_default();
        let binary = map.binary_data.into_iter().flatten().map(|(key, file)| (key, file.0));
        let texts = map.data.into_iter().flatten().map(|(key, text)| (key, text.into_bytes()));
        Ok(Some((version, binary.chain(texts).collect())))
    }

    /// Tells users something about a JailedConfig.
    pub fn tell(&self, config: &JailedConfig, type_: EventType, reason: &str, note: &str) {
        let meta = config.meta();
        let reference = ObjectReference {
            api_version: Some(JailedConfig::api_version(&()).into_owned()),
            kind: Some(JailedConfig::kind(&()).into_owned()),
            name: meta.name.clone(),
            namespace: meta.namespace.clone(),
            uid: meta.uid.clone(),
            ..ObjectReference::default()
        };
        self.events.tell(reference, type_, reason, "Reconcile", note);
    }
}
