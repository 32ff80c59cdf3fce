//! Which key is due when. No I/O, no clock: times are passed in.

use std::collections::{BTreeSet, HashMap};
use std::time::Instant;

use crate::key::Key;

/// Keys with the time at which each is due. A key that runs is not handed out again until it is done.
#[derive(Debug, Default)]
pub struct WorkQueue {
    due: BTreeSet<(Instant, Key)>,
    /// When each waiting key is due: the smallest time that anybody asked for.
    at: HashMap<Key, Instant>,
    /// Keys that run, and when they have to run again at the latest.
    running: HashMap<Key, Option<Instant>>,
}

impl WorkQueue {
    /// Asks for `key` to run at `at` or before.
    pub fn add(&mut self, key: &Key, at: Instant) {
        if let Some(again) = self.running.get_mut(key) {
            *again = Some(again.map_or(at, |before| before.min(at)));
            return;
        }
        match self.at.get(key) {
            Some(before) if *before <= at => {}
            before => {
                if let Some(before) = before {
                    self.due.remove(&(*before, key.clone()));
                }
                self.due.insert((at, key.clone()));
                self.at.insert(key.clone(), at);
            }
        }
    }

    /// Takes the key that is due for longest; it counts as running until [`WorkQueue::done`].
    pub fn take(&mut self, now: Instant) -> Option<(Key, Instant)> {
        let (at, _) = self.due.first()?;
        if *at > now {
            return None;
        }
        let (at, key) = self.due.pop_first()?;
        self.at.remove(&key);
        self.running.insert(key.clone(), None);
        Some((key, at))
    }

    /// Ends a run; `wake` is when it asks to run again.
    pub fn done(&mut self, key: &Key, wake: Option<Instant>) {
        let asked = self.running.remove(key).flatten();
        if let Some(at) = asked.into_iter().chain(wake).min() {
            self.add(key, at);
        }
    }

    /// When the next key is due.
    pub fn next_due(&self) -> Option<Instant> {
        self.due.first().map(|(at, _)| *at)
    }

    /// How many keys wait.
    pub fn waiting(&self) -> usize {
        self.due.len()
    }

    /// How many keys run.
    #[cfg(test)]
    fn running(&self) -> usize {
        self.running.len()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;

    fn key(name: &str) -> Key {
        Key::new("ns", name)
    }

    #[test]
    fn the_smallest_wake_up_wins() {
        let (mut queue, start) = (WorkQueue::default(), Instant::now());
        let later = |seconds| start + Duration::from_secs(seconds);
        queue.add(&key("a"), later(30));
        queue.add(&key("a"), later(5));
        queue.add(&key("a"), later(60));
        assert_eq!(queue.next_due(), Some(later(5)));
        assert_eq!(queue.take(later(4)), None);
        assert_eq!(queue.take(later(5)).map(|(key, _)| key), Some(key("a")));
        assert_eq!(queue.take(later(100)), None, "the other two were the same wish");
    }

    #[test]
    fn a_change_during_a_run_is_not_lost_and_does_not_run_beside_it() {
        let (mut queue, now) = (WorkQueue::default(), Instant::now());
        queue.add(&key("a"), now);
        queue.take(now).unwrap();
        queue.add(&key("a"), now);
        assert_eq!(queue.take(now), None);
        queue.done(&key("a"), Some(now + Duration::from_secs(600)));
        assert_eq!(queue.next_due(), Some(now), "the change comes before the wish to look again");
    }

    #[derive(Clone, Debug)]
    enum Step {
        Add(u8, u8),
        Take(u8),
        Done(u8, Option<u8>),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            (0..4u8, any::<u8>()).prop_map(|(key, at)| Step::Add(key, at)),
            any::<u8>().prop_map(Step::Take),
            (0..4u8, any::<Option<u8>>()).prop_map(|(key, at)| Step::Done(key, at)),
        ]
    }

    proptest! {
        #[test]
        fn no_wish_is_lost_and_no_key_runs_twice(steps in prop::collection::vec(step(), 0..200)) {
            let (mut queue, start) = (WorkQueue::default(), Instant::now());
            let at = |offset: u8| start + Duration::from_secs(u64::from(offset));
            let mut wanted: HashMap<Key, Instant> = HashMap::new();
            let mut running: HashSet<Key> = HashSet::new();
            for step in steps {
                match step {
                    Step::Add(name, offset) => {
                        let key = key(&name.to_string());
                        queue.add(&key, at(offset));
                        let wish = wanted.entry(key).or_insert(at(offset));
                        *wish = (*wish).min(at(offset));
                    }
                    Step::Take(offset) => {
                        if let Some((key, due)) = queue.take(at(offset)) {
                            prop_assert!(due <= at(offset));
                            prop_assert_eq!(wanted.remove(&key), Some(due));
                            prop_assert!(running.insert(key));
                        } else {
                            let overdue = wanted.iter().any(|(key, due)| *due <= at(offset) && !running.contains(key));
                            prop_assert!(!overdue);
                        }
                    }
                    Step::Done(name, offset) => {
                        let key = key(&name.to_string());
                        if running.remove(&key) {
                            queue.done(&key, offset.map(at));
                            if let Some(offset) = offset {
                                let wish = wanted.entry(key).or_insert(at(offset));
                                *wish = (*wish).min(at(offset));
                            }
                        }
                    }
                }
                prop_assert_eq!(queue.running(), running.len());
            }
        }
    }
}
