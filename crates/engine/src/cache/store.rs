//! The content of a cache: objects by key with indexes, and what we wrote but have not seen yet. No I/O.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use kube::Resource;
use kube::runtime::watcher::Event;

use crate::key::Key;

/// A write whose echo did not come in this time is forgotten: better a reconcile on old facts, which every reconcile
/// must survive, than none at all.
const PATIENCE: Duration = Duration::from_secs(60);

/// So many deleted objects are remembered before the old ones are thrown away.
const REMEMBERED: usize = 1024;

/// How one object changed.
#[derive(Clone, Debug)]
pub struct Change<V> {
    /// Which object.
    pub key: Key,
    /// What it was; none if it is new.
    pub before: Option<Arc<V>>,
    /// What it is; none if it is gone.
    pub after: Option<Arc<V>>,
}

impl<V> Change<V> {
    /// The newest form that is known.
    pub fn object(&self) -> Option<&Arc<V>> {
        self.after.as_ref().or(self.before.as_ref())
    }
}

/// From an object to the values under which an index finds it.
pub(super) type IndexBy<V> = fn(&V) -> Vec<String>;

struct Index<V> {
    by: IndexBy<V>,
    keys: HashMap<String, BTreeSet<Key>>,
}

struct Expected {
    version: u64,
    /// The controller that waits for it.
    owner: Box<str>,
    since: Instant,
}

pub(super) struct Store<V> {
    objects: BTreeMap<Key, Arc<V>>,
    owners: HashMap<Box<str>, BTreeSet<Key>>,
    indexes: HashMap<&'static str, Index<V>>,
    expected: HashMap<Key, Expected>,
    /// Objects that were deleted lately, and in which version: an answer to a write may come after the news of the end.
    gone: HashMap<Key, (u64, Instant)>,
    /// Per watch: what a list in progress has brought so far, and when it began.
    listing: HashMap<usize, (Instant, BTreeMap<Key, Arc<V>>)>,
}

impl<V: Resource> Store<V> {
    pub(super) fn new(indexes: &[(&'static str, IndexBy<V>)]) -> Self {
        Self {
            objects: BTreeMap::new(),
            owners: HashMap::new(),
            indexes: indexes
                .iter()
                .map(|(name, by)| (*name, Index { by: *by, keys: HashMap::new() }))
                .collect(),
            expected: HashMap::new(),
            gone: HashMap::new(),
            listing: HashMap::new(),
        }
    }

    pub(super) fn get(&self, key: &Key) -> Option<Arc<V>> {
        self.objects.get(key).cloned()
    }

    pub(super) fn list(&self) -> Vec<Arc<V>> {
        self.objects.values().cloned().collect()
    }

    pub(super) fn len(&self) -> usize {
        self.objects.len()
    }

    pub(super) fn owned_by(&self, uid: &str) -> Vec<Arc<V>> {
        self.pick(self.owners.get(uid))
    }

    pub(super) fn by_index(&self, index: &str, value: &str) -> Vec<Arc<V>> {
        self.pick(self.indexes.get(index).and_then(|index| index.keys.get(value)))
    }

    fn pick(&self, keys: Option<&BTreeSet<Key>>) -> Vec<Arc<V>> {
        keys.into_iter().flatten().filter_map(|key| self.get(key)).collect()
    }

    /// Takes an event of watch number `watch`, which serves the namespace `scope` (all, if none).
    pub(super) fn take(
        &mut self,
        watch: usize,
        scope: Option<&str>,
        event: Event<V>,
        now: Instant,
    ) -> Vec<Change<V>> {
        match event {
            Event::Init => {
                self.listing.insert(watch, (now, BTreeMap::new()));
                Vec::new()
            }
            Event::InitApply(object) => {
                let key = Key::of(&object);
                // The old copy serves if nothing changed: a list then costs no second set of objects.
                let object = match self.objects.get(&key) {
                    Some(known) if version_text(&**known) == version_text(&object) => Arc::clone(known),
                    _ => Arc::new(object),
                };
                self.listing.entry(watch).or_insert_with(|| (now, BTreeMap::new())).1.insert(key, object);
                Vec::new()
            }
            Event::InitDone => {
                let (began, listed) = self.listing.remove(&watch).unwrap_or((now, BTreeMap::new()));
                self.replace(scope, began, listed)
            }
            Event::Apply(object) => self.put(Key::of(&object), Arc::new(object)).into_iter().collect(),
            Event::Delete(object) => {
                let key = Key::of(&object);
                self.settle(&key, version(&object));
                if let Some(version) = version(&object) {
                    if self.gone.len() >= REMEMBERED {
                        self.gone.retain(|_, (_, since)| now.saturating_duration_since(*since) < PATIENCE);
                    }
                    self.gone.insert(key.clone(), (version, now));
                }
                self.remove(&key).into_iter().collect()
            }
        }
    }

    /// After a list: what it does not hold was deleted while nobody told us.
    fn replace(
        &mut self,
        scope: Option<&str>,
        began: Instant,
        listed: BTreeMap<Key, Arc<V>>,
    ) -> Vec<Change<V>> {
        let gone: Vec<Key> = self
            .objects
            .keys()
            .filter(|key| scope.is_none_or(|scope| &*key.namespace == scope) && !listed.contains_key(key))
            .cloned()
            .collect();
        let mut changes: Vec<Change<V>> = gone.iter().filter_map(|key| self.remove(key)).collect();
        for (key, object) in listed {
            changes.extend(self.put(key, object));
        }
        // A list that began after a write has seen it, whatever became of the object.
        self.expected.retain(|key, expected| {
            expected.since > began || scope.is_some_and(|scope| &*key.namespace != scope)
        });
        changes
    }

    fn put(&mut self, key: Key, object: Arc<V>) -> Option<Change<V>> {
        self.settle(&key, version(&*object));
        let before = self.objects.get(&key).cloned();
        if let Some(before) = &before {
            if version_text(&**before) == version_text(&*object) {
                return None;
            }
            self.unindex(&key, before);
        }
        for uid in owner_uids(&*object) {
            self.owners.entry(uid.into()).or_default().insert(key.clone());
        }
        for index in self.indexes.values_mut() {
            for value in (index.by)(&object) {
                index.keys.entry(value).or_default().insert(key.clone());
            }
        }
        self.objects.insert(key.clone(), Arc::clone(&object));
        Some(Change { key, before, after: Some(object) })
    }

    fn remove(&mut self, key: &Key) -> Option<Change<V>> {
        let before = self.objects.remove(key)?;
        self.unindex(key, &before);
        Some(Change { key: key.clone(), before: Some(before), after: None })
    }

    fn unindex(&mut self, key: &Key, object: &V) {
        for uid in owner_uids(object) {
            take_out(&mut self.owners, uid, key);
        }
        for index in self.indexes.values_mut() {
            for value in (index.by)(object) {
                take_out(&mut index.keys, &value, key);
            }
        }
    }

    /// Notes that we wrote this object on behalf of `owner`, and which version that gave.
    pub(super) fn expect(&mut self, key: Key, written: &str, owner: &str, now: Instant) {
        let Some(version) = parse(written) else { return };
        if self.objects.get(&key).is_some_and(|known| self::version(&**known) >= Some(version))
            || self.gone.get(&key).is_some_and(|(last, _)| *last >= version)
        {
            return;
        }
        self.expected.insert(key, Expected { version, owner: owner.into(), since: now });
    }

    fn settle(&mut self, key: &Key, seen: Option<u64>) {
        if self.expected.get(key).is_some_and(|expected| seen >= Some(expected.version)) {
            self.expected.remove(key);
        }
    }

    /// Whether a write on behalf of `owner` has not come back yet.
    pub(super) fn awaits(&mut self, owner: &str, now: Instant) -> bool {
        self.expected.retain(|_, expected| now.saturating_duration_since(expected.since) < PATIENCE);
        self.gone.retain(|_, (_, since)| now.saturating_duration_since(*since) < PATIENCE);
        self.expected.values().any(|expected| &*expected.owner == owner)
    }
}

fn take_out<K: std::borrow::Borrow<str> + Eq + std::hash::Hash>(
    keys: &mut HashMap<K, BTreeSet<Key>>,
    value: &str,
    key: &Key,
) {
    if let Some(set) = keys.get_mut(value) {
        set.remove(key);
        if set.is_empty() {
            keys.remove(value);
        }
    }
}

fn owner_uids(object: &impl Resource) -> impl Iterator<Item = &str> {
    object.meta().owner_references.iter().flatten().map(|owner| owner.uid.as_str())
}

fn version_text(object: &impl Resource) -> Option<&str> {
    object.meta().resource_version.as_deref()
}

/// Versions of one kind are numbers that grow (Kubernetes 1.35 promises it; etcd always did it).
fn version(object: &impl Resource) -> Option<u64> {
    version_text(object).and_then(parse)
}

fn parse(version: &str) -> Option<u64> {
    version.parse().ok()
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};

    use super::*;

    fn object(namespace: &str, name: &str, version: u64) -> ConfigMap {
        ConfigMap {
            metadata: ObjectMeta {
                namespace: Some(namespace.into()),
                name: Some(name.into()),
                resource_version: Some(version.to_string()),
                owner_references: Some(vec![OwnerReference {
                    uid: "owner".into(),
                    ..OwnerReference::default()
                }]),
                ..ObjectMeta::default()
            },
            ..ConfigMap::default()
        }
    }

    /// A store, and a short way to feed it.
    struct Fed {
        store: Store<ConfigMap>,
        now: Instant,
    }

    impl Fed {
        fn new() -> Self {
            let by: IndexBy<ConfigMap> =
                |object| object.metadata.name.iter().map(|name| name[..1].to_string()).collect();
            Self { store: Store::new(&[("first", by)]), now: Instant::now() }
        }

        fn take(&mut self, event: Event<ConfigMap>) -> Vec<String> {
            self.now += Duration::from_secs(1);
            self.store.take(0, None, event, self.now).iter().map(told).collect()
        }

        fn list(&mut self, scope: Option<&str>, objects: &[(&str, &str, u64)]) -> Vec<String> {
            self.now += Duration::from_secs(1);
            self.store.take(0, scope, Event::Init, self.now);
            for (namespace, name, version) in objects {
                self.store.take(0, scope, Event::InitApply(object(namespace, name, *version)), self.now);
            }
            self.store.take(0, scope, Event::InitDone, self.now).iter().map(told).collect()
        }
    }

    fn told(change: &Change<ConfigMap>) -> String {
        let sign = match (&change.before, &change.after) {
            (None, Some(_)) => '+',
            (Some(_), Some(_)) => '~',
            (Some(_), None) => '-',
            (None, None) => '?',
        };
        format!("{sign}{}", change.key)
    }

    #[test]
    fn a_list_tells_what_is_new_changed_and_gone_and_nothing_else() {
        let mut fed = Fed::new();
        assert_eq!(fed.list(None, &[("n", "a", 1), ("n", "b", 2), ("n", "c", 3)]), ["+n/a", "+n/b", "+n/c"]);
        assert_eq!(fed.list(None, &[("n", "a", 1), ("n", "b", 7), ("n", "d", 8)]), ["-n/c", "~n/b", "+n/d"]);
    }

    #[test]
    fn a_list_of_one_namespace_says_nothing_about_others() {
        let mut fed = Fed::new();
        fed.take(Event::Apply(object("other", "a", 1)));
        assert_eq!(fed.list(Some("n"), &[("n", "b", 2)]), ["+n/b"]);
        assert_eq!(fed.store.len(), 2);
    }

    #[test]
    fn while_a_list_is_incomplete_the_old_content_is_served() {
        let mut fed = Fed::new();
        fed.list(None, &[("n", "a", 1)]);
        fed.take(Event::Init);
        assert!(fed.store.get(&Key::new("n", "a")).is_some());
    }

    #[test]
    fn an_event_that_comes_twice_is_told_once() {
        let mut fed = Fed::new();
        assert_eq!(fed.take(Event::Apply(object("n", "a", 5))), ["+n/a"]);
        assert!(fed.take(Event::Apply(object("n", "a", 5))).is_empty());
        assert_eq!(fed.take(Event::Delete(object("n", "a", 6))), ["-n/a"]);
        assert!(fed.take(Event::Delete(object("n", "a", 6))).is_empty());
    }

    #[test]
    fn indexes_follow_changes_and_deletes() {
        let mut fed = Fed::new();
        fed.list(None, &[("n", "ab", 1), ("n", "ac", 2), ("n", "b", 3)]);
        assert_eq!((fed.store.owned_by("owner").len(), fed.store.by_index("first", "a").len()), (3, 2));
        let mut orphan = object("n", "ab", 9);
        orphan.metadata.owner_references = None;
        fed.take(Event::Apply(orphan));
        fed.take(Event::Delete(object("n", "ac", 10)));
        assert_eq!((fed.store.owned_by("owner").len(), fed.store.by_index("first", "a").len()), (1, 1));
    }

    #[test]
    fn an_object_whose_end_came_before_the_answer_to_the_write_is_not_awaited() {
        let mut fed = Fed::new();
        fed.take(Event::Apply(object("n", "a", 5)));
        fed.take(Event::Delete(object("n", "a", 8)));
        fed.store.expect(Key::new("n", "a"), "7", "me", fed.now);
        assert!(!fed.store.awaits("me", fed.now));
        fed.store.expect(Key::new("n", "a"), "9", "me", fed.now);
        assert!(fed.store.awaits("me", fed.now), "the next one of that name is another matter");
    }

    #[test]
    fn a_write_is_awaited_until_its_version_or_a_later_one_is_seen() {
        let mut fed = Fed::new();
        let now = fed.now;
        fed.store.expect(Key::new("n", "a"), "10", "me", now);
        fed.take(Event::Apply(object("n", "a", 9)));
        assert!(fed.store.awaits("me", now) && !fed.store.awaits("somebody else", now));
        fed.take(Event::Apply(object("n", "a", 11)));
        assert!(!fed.store.awaits("me", now));
        fed.store.expect(Key::new("n", "a"), "10", "me", now);
        assert!(!fed.store.awaits("me", now), "seen before it was asked for");
    }

    #[test]
    fn a_write_whose_object_was_deleted_or_missed_is_not_awaited_for_ever() {
        let mut fed = Fed::new();
        fed.store.expect(Key::new("n", "a"), "10", "me", fed.now);
        fed.take(Event::Delete(object("n", "a", 12)));
        assert!(!fed.store.awaits("me", fed.now), "deleted");
        fed.store.expect(Key::new("n", "b"), "20", "me", fed.now);
        fed.list(None, &[]);
        assert!(!fed.store.awaits("me", fed.now), "a later list does not have it");
        fed.store.expect(Key::new("n", "c"), "30", "me", fed.now);
        assert!(fed.store.awaits("me", fed.now));
        assert!(!fed.store.awaits("me", fed.now + PATIENCE), "patience has an end");
    }
}
