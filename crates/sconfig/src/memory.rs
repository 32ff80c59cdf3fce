//! What is remembered between looks. All of it can be found out again.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use engine::Key;
use parking_lot::Mutex;

use crate::jail::{JailPath, Leftover, Seen};
use crate::plan::Content;
use crate::verdict::EffectiveSet;

/// A unit of which nothing is left to be done.
#[derive(Clone, Debug, Default)]
pub struct Settled {
    /// What it was made of.
    pub made_of: Vec<String>,
    /// Its files as they then were.
    pub files: Vec<(JailPath, Seen)>,
}

/// What is remembered between looks.
#[derive(Debug, Default)]
pub struct Memory {
    settled: Mutex<HashMap<Key, Settled>>,
    /// Old files by unit, and when they may go.
    leftovers: Mutex<HashMap<Key, Vec<(Leftover, Instant)>>>,
    /// JailedConfigs (by uid) whose old files from before this process were looked for.
    searched: Mutex<BTreeSet<String>>,
    /// Units that wait for slurmctld.
    waiting: Mutex<BTreeSet<Key>>,
    /// Since when a JailedConfig (by uid) waits with this content.
    waits: Mutex<HashMap<String, (String, Instant)>>,
    /// ConfigMaps of units that are not settled, by version.
    contents: Mutex<HashMap<Key, (String, Arc<Content>)>>,
    set: Mutex<Option<(String, Arc<EffectiveSet>)>>,
}

impl Memory {
    /// How a unit was when nothing was left to be done.
    pub fn settled(&self, unit: &Key) -> Option<Settled> {
        self.settled.lock().get(unit).cloned()
    }

    /// Notes that nothing is left to be done; none: something is.
    pub fn set_settled(&self, unit: &Key, settled: Option<Settled>) {
        match settled {
            Some(settled) => drop(self.settled.lock().insert(unit.clone(), settled)),
            None => drop(self.settled.lock().remove(unit)),
        }
    }

    /// Forgets a unit that is gone. Its old files are told, to be cleared now.
    pub fn forget(&self, unit: &Key) -> Vec<Leftover> {
        self.settled.lock().remove(unit);
        self.waiting.lock().remove(unit);
        let left = self.leftovers.lock().remove(unit).unwrap_or_default();
        left.into_iter().map(|(leftover, _)| leftover).collect()
    }

    /// Whether old files from before this process have still to be looked for; asked once.
    pub fn first_search(&self, uid: &str) -> bool {
        self.searched.lock().insert(uid.to_owned())
    }

    /// Notes old files of a unit that may go at this time.
    pub fn leave(&self, unit: &Key, leftovers: Vec<Leftover>, due: Instant) {
        if !leftovers.is_empty() {
            let mut all = self.leftovers.lock();
            all.entry(unit.clone()).or_default().extend(leftovers.into_iter().map(|one| (one, due)));
        }
    }

    /// Takes the old files of a unit that may go now; and how long the others have to wait.
    pub fn due_leftovers(&self, unit: &Key, now: Instant) -> (Vec<Leftover>, Option<Duration>) {
        let mut all = self.leftovers.lock();
        let Some(left) = all.remove(unit) else { return (Vec::new(), None) };
        let (due, later): (Vec<_>, Vec<_>) = left.into_iter().partition(|(_, due)| *due <= now);
        let next = later.iter().map(|(_, due)| due.saturating_duration_since(now)).min();
        if !later.is_empty() {
            all.insert(unit.clone(), later);
        }
        (due.into_iter().map(|(leftover, _)| leftover).collect(), next)
    }

    /// Units that wait for slurmctld.
    pub fn waiting(&self) -> Vec<Key> {
        self.waiting.lock().iter().cloned().collect()
    }

    /// Notes whether a unit waits for slurmctld.
    pub fn set_waiting(&self, unit: &Key, waits: bool) {
        if waits {
            self.waiting.lock().insert(unit.clone());
        } else {
            self.waiting.lock().remove(unit);
        }
    }

    /// How long a JailedConfig has waited with this content.
    pub fn waited(&self, uid: &str, content: &str, now: Instant) -> Duration {
        let mut waits = self.waits.lock();
        let wait = waits.entry(uid.to_owned()).or_insert_with(|| (content.to_owned(), now));
        if wait.0 != content {
            *wait = (content.to_owned(), now);
        }
        now.saturating_duration_since(wait.1)
    }

    /// Forgets a JailedConfig that is gone.
    pub fn forget_config(&self, uid: &str) {
        self.searched.lock().remove(uid);
        self.stop_waiting(uid);
    }

    /// Notes that a JailedConfig waits no more.
    pub fn stop_waiting(&self, uid: &str) {
        self.waits.lock().remove(uid);
    }

    /// The content of a ConfigMap, if it was read in this version.
    pub fn content(&self, config_map: &Key, version: &str) -> Option<Arc<Content>> {
        let contents = self.contents.lock();
        let (known, content) = contents.get(config_map)?;
        (known == version).then(|| Arc::clone(content))
    }

    /// Keeps the content of a ConfigMap.
    pub fn keep_content(&self, config_map: Key, version: String, content: &Arc<Content>) {
        self.contents.lock().insert(config_map, (version, Arc::clone(content)));
    }

    /// Forgets the content of ConfigMaps: nobody waits for anything with them.
    pub fn drop_contents(&self, config_maps: &BTreeMap<String, Key>) {
        let mut contents = self.contents.lock();
        config_maps.values().for_each(|key| drop(contents.remove(key)));
    }

    /// The effective set, if it was read in this version.
    pub fn set(&self, version: &str) -> Option<Arc<EffectiveSet>> {
        let set = self.set.lock();
        let (known, set) = set.as_ref()?;
        (known == version).then(|| Arc::clone(set))
    }

    /// Keeps the effective set; none: nobody waits for it.
    pub fn keep_set(&self, set: Option<(String, Arc<EffectiveSet>)>) {
        *self.set.lock() = set;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_begins_anew_with_other_content() {
        let (memory, start) = (Memory::default(), Instant::now());
        let later = start + Duration::from_secs(50);
        assert_eq!(memory.waited("u", "a", start), Duration::ZERO);
        assert_eq!(memory.waited("u", "a", later), Duration::from_secs(50));
        assert_eq!(memory.waited("u", "b", later), Duration::ZERO);
        memory.stop_waiting("u");
        assert_eq!(memory.waited("u", "b", later + Duration::from_secs(9)), Duration::ZERO);
    }
}
