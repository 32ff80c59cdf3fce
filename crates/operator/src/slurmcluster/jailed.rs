//! Files of Slurm's configuration that come from JailedConfigs: those whose paths lie below `/etc/slurm`.
//!
//! They are read from ConfigMaps, never from the jail: who is root there must not decide what slurmctld reads.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use api::nebius::{JAILED_FILES_FINALIZER, JailedConfig};
use engine::cache::Change;
use engine::events::EventType;
use engine::view::Guarded;
use engine::{Key, finalizer};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Resource as _, ResourceExt as _};
use parking_lot::Mutex;
use slurm::config_set::name_of_path;

use crate::caches::Caches;
use crate::context::Context;
use crate::error::Error;
use crate::owner::clusters_in;

/// Changes that come within this time of each other become one new configuration: Slurm reads twenty files once, not twenty times.
const QUIET: Duration = Duration::from_secs(1);
/// Changes without end do not hold up the first of them for longer.
const LONGEST: Duration = Duration::from_secs(4);
/// All of these files together. What the operator writes needs the rest of the 1 MiB that a ConfigMap holds.
const MOST: usize = 512 << 10;

/// Content of files by name.
type Files = BTreeMap<String, Vec<u8>>;

/// What each JailedConfig was when it was looked at, by name.
type Versions = BTreeMap<String, Version>;

#[derive(Clone, Debug, PartialEq, Eq)]
struct Version {
    generation: i64,
    uid: String,
    /// That of its ConfigMap.
    map: Option<String>,
    /// Whether nobody knew whose it is.
    is_unclear: bool,
}

/// What is remembered of the JailedConfigs of all clusters.
#[derive(Debug, Default)]
pub struct Jailed {
    clusters: Mutex<HashMap<Key, Known>>,
}

#[derive(Clone, Debug, Default)]
struct Known {
    versions: Versions,
    /// By JailedConfig.
    parts: BTreeMap<String, Files>,
    files: Files,
    pending: Option<Pending>,
}

/// A change that may be the first of many.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Pending {
    versions: Versions,
    first: Instant,
    last: Instant,
}

/// The files as they are now.
#[derive(Debug, Default)]
pub struct JailedFiles {
    /// Content by name below `/etc/slurm`.
    pub files: Files,
    /// ConfigMaps that they come from, also those that are missing.
    pub config_maps: BTreeSet<String>,
    /// When to look again, because a change is only taken when no other follows it.
    pub again: Option<Duration>,
    /// What could not be read; what was there before stands in its place.
    pub failed: Option<Error>,
}

/// Whose a JailedConfig is.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Parent {
    /// This one's; it may not exist.
    Cluster(Key),
    /// It names none, and its namespace has several.
    Unclear,
    /// It names none, and its namespace has none.
    None,
}

/// What to do about what is seen.
#[derive(Debug, PartialEq, Eq)]
enum Step {
    Keep,
    Wait(Pending, Duration),
    Take,
}

impl Jailed {
    /// The files of a cluster. `own` is the JailedConfig by which the cluster's own files come into the jail.
    pub async fn look(
        &self,
        context: &Context,
        cluster: &Key,
        own: &str,
        now: Instant,
    ) -> Result<JailedFiles, Error> {
        let found = configs_of(&context.caches, cluster, own);
        let configs: Vec<Found<'_>> = found.iter().filter_map(Found::of).collect();
        let mut versions = versions(&context.caches, &configs);
        let config_maps = configs.iter().map(|found| found.config.spec.config_map.name.clone()).collect();
        let known = self.clusters.lock().get(cluster).cloned();
        match step(known.as_ref(), &versions, now) {
            Step::Keep => {
                let mut known = known.unwrap_or_default();
                // A change that was taken back is none.
                known.pending = None;
                let files = known.files.clone();
                self.clusters.lock().insert(cluster.clone(), known);
                Ok(JailedFiles { files, config_maps, ..JailedFiles::default() })
            }
            Step::Wait(pending, again) => {
                let mut known = known.unwrap_or_default();
                known.pending = Some(pending);
                let files = known.files.clone();
                self.clusters.lock().insert(cluster.clone(), known);
                Ok(JailedFiles { files, config_maps, again: Some(again), failed: None })
            }
            Step::Take => {
                let before = known.as_ref().map(|known| known.files.clone());
                let known = known.unwrap_or_default();
                let read = read_parts(context, cluster, own, &configs, &versions, known).await;
                let Parts { parts, unread } = match (read, before) {
                    (Ok(read), _) => read,
                    // Nothing is noted, so it is tried again.
                    (Err(error), Some(files)) => {
                        return Ok(JailedFiles { files, config_maps, again: None, failed: Some(error) });
                    }
                    (Err(error), None) => return Err(error),
                };
                let mut failed = None;
                for (name, error) in unread {
                    // So that it is another version the next time.
                    versions.remove(&name);
                    failed = failed.or(Some(error));
                }
                let files = merge(&configs, &parts, |config| {
                    let note = format!(
                        "its files are not given to Slurm: all files below /etc/slurm together may have {} KiB",
                        MOST >> 10
                    );
                    context.tell(config, EventType::Warning, "TooLarge", &note);
                });
                let known = Known { versions, parts, files: files.clone(), pending: None };
                self.clusters.lock().insert(cluster.clone(), known);
                Ok(JailedFiles { files, config_maps, again: None, failed })
            }
        }
    }

    /// Forgets a cluster that is gone.
    pub fn forget(&self, cluster: &Key) {
        self.clusters.lock().remove(cluster);
    }
}

/// A JailedConfig that has a part in Slurm's configuration.
#[derive(Clone, Copy)]
struct Found<'a> {
    config: &'a JailedConfig,
    /// Whether nobody knows whose it is: then whoever has its files keeps them as they are.
    is_unclear: bool,
}

impl<'a> Found<'a> {
    fn of((config, is_unclear): &'a (Arc<Guarded<JailedConfig>>, bool)) -> Option<Self> {
        Some(Self { config: config.ok()?, is_unclear: *is_unclear })
    }
}

/// The JailedConfigs that have, or may have, a part in the configuration of a cluster, and whether it is unclear; in the order in which
/// they get a path. Those that are surely the cluster's come first.
fn configs_of(caches: &Caches, cluster: &Key, own: &str) -> Vec<(Arc<Guarded<JailedConfig>>, bool)> {
    let takes_part = |config: &JailedConfig| {
        config.meta().deletion_timestamp.is_none()
            && config.meta().namespace.as_deref() == Some(&*cluster.namespace)
            && config.name_any() != own
            && names(config).next().is_some()
    };
    let whose = |config: Arc<Guarded<JailedConfig>>| {
        let is_unclear = match parent(caches, config.ok().filter(|config| takes_part(config))?) {
            Parent::Cluster(parent) if parent == *cluster => false,
            Parent::Unclear => true,
            Parent::Cluster(_) | Parent::None => return None,
        };
        Some((config, is_unclear))
    };
    let mut configs: Vec<_> = caches.jailed_configs.list().into_iter().filter_map(whose).collect();
    configs.sort_by_key(|(config, is_unclear)| (*is_unclear, config.ok().map(JailedConfig::rank)));
    configs
}

/// The cluster of a JailedConfig: the one that it names, or the only one in its namespace.
fn parent(caches: &Caches, config: &JailedConfig) -> Parent {
    let namespace = config.namespace().unwrap_or_default();
    if let Some(named) = config.cluster() {
        return Parent::Cluster(Key::new(&namespace, named));
    }
    let mut clusters = clusters_in(caches, &namespace).into_iter();
    match (clusters.next(), clusters.next()) {
        (Some(only), None) => Parent::Cluster(only),
        (Some(_), Some(_)) => Parent::Unclear,
        (None, _) => Parent::None,
    }
}

/// Keys of its ConfigMap, and the names of the files below `/etc/slurm` that they become.
fn names(config: &JailedConfig) -> impl Iterator<Item = (&str, &str)> {
    let items = config.spec.items.iter().flatten();
    items.filter_map(|item| Some((item.key.as_str(), name_of_path(&item.path)?)))
}

fn versions(caches: &Caches, configs: &[Found<'_>]) -> Versions {
    let version = |found: &Found<'_>| {
        let config = found.config;
        let map = Key::new(&config.namespace().unwrap_or_default(), &config.spec.config_map.name);
        let map = caches.config_maps.get(&map).and_then(|map| map.resource_version());
        let (generation, uid) = (config.meta().generation.unwrap_or(0), config.uid().unwrap_or_default());
        (config.name_any(), Version { generation, uid, map, is_unclear: found.is_unclear })
    };
    configs.iter().map(version).collect()
}

fn step(known: Option<&Known>, seen: &Versions, now: Instant) -> Step {
    let Some(known) = known else { return Step::Take };
    if known.versions == *seen {
        return Step::Keep;
    }
    let pending = match &known.pending {
        Some(pending) if pending.versions == *seen => pending.clone(),
        Some(pending) => Pending { versions: seen.clone(), first: pending.first, last: now },
        None => Pending { versions: seen.clone(), first: now, last: now },
    };
    let due = (pending.last + QUIET).min(pending.first + LONGEST);
    match due.checked_duration_since(now).filter(|wait| !wait.is_zero()) {
        Some(wait) => Step::Wait(pending, wait),
        None => Step::Take,
    }
}

/// What JailedConfigs add, by name.
#[derive(Default)]
struct Parts {
    parts: BTreeMap<String, Files>,
    /// Those that could not be read, and keep what they had.
    unread: BTreeMap<String, Error>,
}

/// What each JailedConfig adds. One whose ConfigMap is missing keeps what it had: who deletes a ConfigMap by mistake has not
/// asked Slurm for anything. The same goes for one whose ConfigMap cannot be read now, and for one of which a second cluster in the
/// namespace has made it unclear whose it is.
async fn read_parts(
    context: &Context,
    cluster: &Key,
    own: &str,
    configs: &[Found<'_>],
    seen: &Versions,
    mut known: Known,
) -> Result<Parts, Error> {
    let mut read = Parts::default();
    let mut in_place = None;
    for Found { config, is_unclear } in configs {
        let name = config.name_any();
        let part = known.parts.remove(&name);
        if let Some(part) = &part
            && known.versions.get(&name) == seen.get(&name)
        {
            read.parts.insert(name, part.clone());
            continue;
        }
        let map = if *is_unclear {
            let note = "there are several SlurmClusters in its namespace, so its files stay where they are; name one of them by the \
                        annotation slurm.nebius.ai/parental-cluster-ref";
            context.tell(*config, EventType::Warning, "Unclear", note);
            Files::new()
        } else {
            let key = Key::new(&cluster.namespace, &config.spec.config_map.name);
            read_map(context, &key).await.unwrap_or_else(|error| {
                read.unread.insert(name.clone(), error);
                Files::new()
            })
        };
        let mut before = part;
        if before.is_none() && names(config).any(|(key, _)| !map.contains_key(key)) {
            if in_place.is_none() {
                let files = read_map(context, &Key::new(&cluster.namespace, own)).await?;
                let files = files.into_iter().map(|(key, file)| (slurm::config_set::name_of_key(&key), file));
                in_place = Some(files.collect::<Files>());
            }
            before.clone_from(&in_place);
        }
        let content = |(key, file): (&str, &str)| {
            let content = map.get(key).or_else(|| before.as_ref()?.get(file))?;
            Some((file.to_owned(), content.clone()))
        };
        read.parts.insert(name, names(config).filter_map(content).collect());
    }
    Ok(read)
}

/// Content of a ConfigMap by key; empty if it is missing.
async fn read_map(context: &Context, key: &Key) -> Result<Files, Error> {
    let map: Option<ConfigMap> = engine::objects::get(&context.client, key)
        .await
        .map_err(|error| Error::call(format!("ConfigMap {key} cannot be read"), error))?;
    let map = map.unwrap_or_default();
    let texts = map.data.into_iter().flatten().map(|(key, text)| (key, text.into_bytes()));
    let mut files: Files = map.binary_data.into_iter().flatten().map(|(key, file)| (key, file.0)).collect();
    files.extend(texts);
    Ok(files)
}

/// All files; of those that several want, the first one's. A JailedConfig that is too large is left out as a whole.
fn merge(configs: &[Found<'_>], parts: &BTreeMap<String, Files>, too_large: impl Fn(&JailedConfig)) -> Files {
    let (mut files, mut size) = (Files::new(), 0);
    for Found { config, .. } in configs {
        let Some(part) = parts.get(&config.name_any()) else { continue };
        let new: usize = part.values().map(Vec::len).sum();
        if size + new > MOST {
            too_large(config);
            continue;
        }
        size += new;
        for (name, content) in part {
            files.entry(name.clone()).or_insert_with(|| content.clone());
        }
    }
    files
}

/// Lets JailedConfigs of a namespace go whose cluster is gone, or going: with it goes who would take their files out of the jail.
pub async fn release(context: &Context, namespace: &str) -> Result<(), Error> {
    let caches = &context.caches;
    for config in caches.jailed_configs.list() {
        let meta = config.meta();
        if meta.namespace.as_deref() != Some(namespace)
            || meta.deletion_timestamp.is_none()
            || !finalizer::has(meta, JAILED_FILES_FINALIZER)
        {
            continue;
        }
        if !is_served(caches, &config) {
            finalizer::remove(&context.client, &*config, JAILED_FILES_FINALIZER).await.map_err(|error| {
                Error::call("the finalizer could not be taken from a JailedConfig", error)
            })?;
            tracing::info!(config = config.name_any(), "a JailedConfig without a cluster may go");
        }
    }
    Ok(())
}

/// Whether somebody is there who takes its files out of the jail, or will be when the user has said whose it is. One that cannot be read
/// may be anybody's.
fn is_served(caches: &Caches, config: &Guarded<JailedConfig>) -> bool {
    let is_live = |cluster: &Key| {
        let cluster = caches.clusters.get(cluster);
        cluster.is_some_and(|cluster| cluster.meta().deletion_timestamp.is_none())
    };
    match config.ok().map(|config| parent(caches, config)) {
        Some(Parent::Cluster(cluster)) => is_live(&cluster),
        Some(Parent::None) => false,
        Some(Parent::Unclear) | None => {
            let namespace = config.meta().namespace.as_deref().unwrap_or_default();
            clusters_in(caches, namespace).iter().any(is_live)
        }
    }
}

/// The clusters that a change of a JailedConfig concerns. Without any in its namespace, a key that leads nowhere: the look at it
/// lets the JailedConfig go.
pub fn concerned(caches: &Caches, change: &Change<Guarded<JailedConfig>>) -> Vec<Key> {
    let what = |config: &Arc<Guarded<JailedConfig>>| {
        let meta = config.meta().clone();
        (meta.uid, meta.generation, meta.annotations, meta.deletion_timestamp, meta.finalizers)
    };
    // A change of the status alone is told by its owner's watch.
    if change.before.as_ref().map(what) == change.after.as_ref().map(what) {
        return Vec::new();
    }
    let clusters = clusters_in(caches, &change.key.namespace);
    if clusters.is_empty() { vec![change.key.clone()] } else { clusters }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn versions(map: &str) -> Versions {
        let version =
            Version { generation: 1, uid: "u".into(), map: Some(map.to_owned()), is_unclear: false };
        [("a".to_owned(), version)].into()
    }

    fn config(name: &str) -> JailedConfig {
        serde_json::from_value(json!({
            "apiVersion": "slurm.nebius.ai/v1alpha1", "kind": "JailedConfig", "metadata": { "name": name },
            "spec": { "configMap": { "name": "m" }, "items": [
                { "key": "k", "path": "/etc/slurm/x.conf" },
                { "key": "k", "path": "/etc/motd" },
            ] },
        }))
        .unwrap()
    }

    fn surely(config: &JailedConfig) -> Found<'_> {
        Found { config, is_unclear: false }
    }

    #[test]
    fn many_changes_become_one_and_none_waits_for_ever() {
        let start = Instant::now();
        let at = |millis| start + Duration::from_millis(millis);
        assert_eq!(step(None, &versions("1"), start), Step::Take, "a new cluster has nothing to wait for");
        let mut known = Known { versions: versions("1"), ..Known::default() };
        assert_eq!(step(Some(&known), &versions("1"), start), Step::Keep);
        let mut now = 0;
        // A change each 900 ms.
        for number in 2..7 {
            let Step::Wait(pending, wait) = step(Some(&known), &versions(&number.to_string()), at(now))
            else {
                assert!(now >= 3600, "taken after {now} ms");
                return;
            };
            assert!(wait <= QUIET);
            known.pending = Some(pending);
            now += 900;
        }
        assert_eq!(step(Some(&known), &versions("6"), at(now + 1000)), Step::Take);
    }

    #[test]
    fn a_change_is_taken_when_it_was_quiet_for_a_while() {
        let start = Instant::now();
        let mut known = Known { versions: versions("1"), ..Known::default() };
        let Step::Wait(pending, wait) = step(Some(&known), &versions("2"), start) else { panic!("at once") };
        assert_eq!(wait, QUIET);
        known.pending = Some(pending);
        assert_eq!(step(Some(&known), &versions("2"), start + QUIET), Step::Take);
    }

    #[test]
    fn only_what_lies_below_etc_slurm_counts() {
        let config = config("a");
        assert_eq!(names(&config).collect::<Vec<_>>(), [("k", "x.conf")]);
    }

    #[test]
    fn the_first_one_gets_a_path_and_who_is_too_large_gets_none() {
        let (first, second, third) = (config("a"), config("b"), config("c"));
        let part = |name: &str, size: usize| -> Files { [(name.to_owned(), vec![b'x'; size])].into() };
        let parts: BTreeMap<String, Files> = [
            ("a".to_owned(), part("x.conf", 1)),
            ("b".to_owned(), [part("x.conf", 2), part("y.conf", 2)].into_iter().flatten().collect()),
            ("c".to_owned(), part("z.conf", MOST)),
        ]
        .into();
        let left_out = Mutex::new(Vec::new());
        let files = merge(&[&first, &second, &third].map(surely), &parts, |config| {
            left_out.lock().push(config.name_any())
        });
        assert_eq!(
            files.iter().map(|(name, file)| (name.as_str(), file.len())).collect::<Vec<_>>(),
            [("x.conf", 1), ("y.conf", 2)]
        );
        assert_eq!(*left_out.lock(), ["c"]);
    }
}
