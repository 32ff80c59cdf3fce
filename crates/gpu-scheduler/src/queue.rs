//! The queue of pods that wait: active ones in order, those in backoff by time, and those that cannot be placed by what they
//! wait for. Nothing is looked at again before something changed for it, or five minutes passed.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::Hash;
use std::time::Duration;

use crate::facts::Uid;

/// Time since the process began.
pub type Time = Duration;

const FIRST_BACKOFF: Duration = Duration::from_secs(1);
const LONGEST_BACKOFF: Duration = Duration::from_secs(10);
/// A pod that waits for something is tried again after this time, whatever happens.
const FLUSH: Duration = Duration::from_secs(300);

/// Who goes first: the higher priority, then the older, then who came earlier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Order {
    priority: Reverse<i32>,
    created: i64,
    came: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Place<K> {
    /// To be tried.
    Active,
    /// To be tried from this time on.
    Backoff(Time),
    /// To be tried when one of these changes, or after this time.
    Parked { keys: Box<[K]>, until: Time },
    /// Being tried, or being bound.
    Taken,
}

#[derive(Clone, Debug)]
struct Entry<K> {
    order: Order,
    place: Place<K>,
    attempts: u32,
    tried: Time,
    since: Time,
    /// Who said no when it was tried last.
    plugins: Box<[&'static str]>,
}

impl<K> Entry<K> {
    /// Until when it must not be tried again.
    fn rests_until(&self) -> Time {
        self.tried + backoff(self.attempts)
    }
}

fn backoff(attempts: u32) -> Duration {
    match attempts {
        0 => Duration::ZERO,
        _ => FIRST_BACKOFF.saturating_mul(1 << (attempts - 1).min(10)).min(LONGEST_BACKOFF),
    }
}

/// How many pods are where.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// To be tried.
    pub active: usize,
    /// To be tried soon.
    pub backoff: usize,
    /// To be tried when something changes.
    pub unschedulable: usize,
    /// Being tried or bound.
    pub taken: usize,
}

/// Pods that wait. `K` is what they wait for.
#[derive(Clone, Debug)]
pub struct Queue<K> {
    entries: HashMap<Uid, Entry<K>>,
    active: BTreeSet<(Order, Uid)>,
    backoff: BTreeSet<(Time, Uid)>,
    parked: BTreeSet<(Time, Uid)>,
    waiting: HashMap<K, BTreeSet<Uid>>,
    came: u64,
    incoming: BTreeMap<Incoming, u64>,
    refused: BTreeMap<&'static str, usize>,
}

/// Into which part of the queue a pod came, and why; in the words of kube-scheduler.
pub type Incoming = (&'static str, &'static str);

const FAILED: &str = "ScheduleAttemptFailure";

impl<K> Default for Queue<K> {
    fn default() -> Self {
        Self {
            entries: HashMap::new(),
            active: BTreeSet::new(),
            backoff: BTreeSet::new(),
            parked: BTreeSet::new(),
            waiting: HashMap::new(),
            came: 0,
            incoming: BTreeMap::new(),
            refused: BTreeMap::new(),
        }
    }
}

impl<K: Clone + Eq + Hash> Queue<K> {
    /// Takes in a pod that is new or has changed: it is to be tried, unless it is being bound.
    pub fn put(&mut self, uid: &Uid, priority: i32, created: i64, now: Time) {
        let order = |came| Order { priority: Reverse(priority), created, came };
        if let Some(entry) = self.entries.get(uid) {
            let order = order(entry.order.came);
            let place = entry.place.clone();
            self.leave(uid);
            if let Some(entry) = self.entries.get_mut(uid) {
                entry.order = order;
            }
            match place {
                Place::Taken => {}
                Place::Active | Place::Backoff(_) | Place::Parked { .. } => self.enter(uid, "PodUpdate", now),
            }
            return;
        }
        self.came += 1;
        let entry = Entry {
            order: order(self.came),
            place: Place::Taken,
            attempts: 0,
            tried: now,
            since: now,
            plugins: Box::default(),
        };
        self.entries.insert(uid.clone(), entry);
        self.enter(uid, "PodAdd", now);
    }

    /// Forgets a pod.
    pub fn remove(&mut self, uid: &Uid) {
        self.leave(uid);
        self.blame(uid, Box::default());
        self.entries.remove(uid);
    }

    /// Notes who says no to a pod, in place of those who said so before.
    fn blame(&mut self, uid: &Uid, plugins: Box<[&'static str]>) {
        let Some(entry) = self.entries.get_mut(uid) else { return };
        for plugin in &plugins {
            *self.refused.entry(plugin).or_default() += 1;
        }
        for plugin in std::mem::replace(&mut entry.plugins, plugins) {
            if let Some(count) = self.refused.get_mut(plugin) {
                *count -= 1;
            }
        }
    }

    /// The next pod to try.
    pub fn pop(&mut self, now: Time) -> Option<Uid> {
        self.promote(now);
        let (_, uid) = self.active.first().cloned()?;
        self.take(&uid, now);
        Some(uid)
    }

    /// Takes a pod out of turn, to be tried with another one.
    pub fn take(&mut self, uid: &Uid, now: Time) {
        self.leave(uid);
        if let Some(entry) = self.entries.get_mut(uid) {
            entry.attempts = entry.attempts.saturating_add(1);
            entry.tried = now;
        }
    }

    /// A pod that was tried cannot be placed before one of these changes, because these said no.
    pub fn park(&mut self, uid: &Uid, keys: Vec<K>, plugins: &[&'static str], now: Time) {
        self.leave(uid);
        self.blame(uid, plugins.into());
        let Some(entry) = self.entries.get_mut(uid) else { return };
        for key in &keys {
            self.waiting.entry(key.clone()).or_default().insert(uid.clone());
        }
        let until = now + FLUSH;
        entry.place = Place::Parked { keys: keys.into(), until };
        self.parked.insert((until, uid.clone()));
        *self.incoming.entry(("unschedulable", FAILED)).or_default() += 1;
    }

    /// A pod that was tried is to be tried again by itself, after its backoff and at least this time.
    pub fn retry(&mut self, uid: &Uid, at_least: Duration, now: Time) {
        self.leave(uid);
        let Some(entry) = self.entries.get_mut(uid) else { return };
        let until = entry.rests_until().max(now + at_least);
        entry.place = Place::Backoff(until);
        self.backoff.insert((until, uid.clone()));
        *self.incoming.entry(("backoff", FAILED)).or_default() += 1;
    }

    /// Something changed: whoever waits for it is tried again, after its backoff. Returns how many.
    pub fn wake(&mut self, key: &K, event: &'static str, now: Time) -> usize {
        let woken = self.waiting.get(key).cloned().unwrap_or_default();
        for uid in &woken {
            self.leave(uid);
            self.enter(uid, event, now);
        }
        woken.len()
    }

    /// When something is due, if nothing changes before.
    pub fn next_time(&self) -> Option<Time> {
        let times = [&self.backoff, &self.parked].map(|times| times.first().map(|(time, _)| *time));
        times.into_iter().flatten().min()
    }

    /// Whether there is something to try now.
    pub fn has_active(&mut self, now: Time) -> bool {
        self.promote(now);
        !self.active.is_empty()
    }

    /// Whether a pod is being tried or bound.
    pub fn is_taken(&self, uid: &Uid) -> bool {
        self.entries.get(uid).is_some_and(|entry| entry.place == Place::Taken)
    }

    /// Whether a pod is in the queue.
    pub fn contains(&self, uid: &Uid) -> bool {
        self.entries.contains_key(uid)
    }

    /// How often a pod was tried.
    pub fn attempts(&self, uid: &Uid) -> u32 {
        self.entries.get(uid).map_or(0, |entry| entry.attempts)
    }

    /// When a pod came.
    pub fn since(&self, uid: &Uid) -> Option<Time> {
        self.entries.get(uid).map(|entry| entry.since)
    }

    /// How many pods are where.
    pub fn counts(&self) -> Counts {
        let waiting = self.active.len() + self.backoff.len() + self.parked.len();
        Counts {
            active: self.active.len(),
            backoff: self.backoff.len(),
            unschedulable: self.parked.len(),
            taken: self.entries.len() - waiting,
        }
    }

    /// How many pods came into which part of the queue since the beginning, by what brought them there.
    pub fn incoming(&self) -> &BTreeMap<Incoming, u64> {
        &self.incoming
    }

    /// How many pods wait that a filter said no to when they were tried last.
    pub fn refused(&self) -> &BTreeMap<&'static str, usize> {
        &self.refused
    }

    /// Moves what is due to the active ones.
    fn promote(&mut self, now: Time) {
        loop {
            let due = |times: &BTreeSet<(Time, Uid)>| times.first().filter(|(time, _)| *time <= now).cloned();
            let rested = due(&self.backoff).map(|(_, uid)| (uid, "BackoffComplete"));
            let next = rested.or_else(|| due(&self.parked).map(|(_, uid)| (uid, "UnschedulableTimeout")));
            let Some((uid, event)) = next else { return };
            self.leave(&uid);
            self.enter(&uid, event, now);
        }
    }

    /// To the active ones, or into backoff.
    fn enter(&mut self, uid: &Uid, event: &'static str, now: Time) {
        let Some(entry) = self.entries.get_mut(uid) else { return };
        let until = entry.rests_until();
        let queue = if until > now {
            entry.place = Place::Backoff(until);
            self.backoff.insert((until, uid.clone()));
            "backoff"
        } else {
            entry.place = Place::Active;
            self.active.insert((entry.order, uid.clone()));
            "active"
        };
        *self.incoming.entry((queue, event)).or_default() += 1;
    }

    /// Out of wherever it is; it is taken then.
    fn leave(&mut self, uid: &Uid) {
        let Some(entry) = self.entries.get_mut(uid) else { return };
        match std::mem::replace(&mut entry.place, Place::Taken) {
            Place::Taken => {}
            Place::Active => {
                self.active.remove(&(entry.order, uid.clone()));
            }
            Place::Backoff(until) => {
                self.backoff.remove(&(until, uid.clone()));
            }
            Place::Parked { keys, until } => {
                self.parked.remove(&(until, uid.clone()));
                for key in &keys {
                    if let Some(waiting) = self.waiting.get_mut(key) {
                        waiting.remove(uid);
                        if waiting.is_empty() {
                            self.waiting.remove(key);
                        }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
