//! How long to wait after failures, per key.

use std::collections::HashMap;
use std::time::Duration;

use crate::error::Retry;
use crate::key::Key;

/// The wait after the first failure.
const FIRST: Duration = Duration::from_millis(500);
/// The longest wait.
const LONGEST: Duration = Duration::from_secs(120);
/// The longest wait while the API server is away.
const LONGEST_SOON: Duration = Duration::from_secs(5);

/// Counts the failures in a row of each key.
#[derive(Debug, Default)]
pub struct Backoffs {
    failures: HashMap<Key, u32>,
}

impl Backoffs {
    /// Notes a failure; returns how long to wait, if waiting helps. `jitter` is random in 0..1.
    pub fn failed(&mut self, key: &Key, retry: Retry, jitter: f64) -> Option<Duration> {
        let longest = match retry {
            Retry::Backoff => LONGEST,
            Retry::Soon => LONGEST_SOON,
            Retry::OnChange => return None,
            Retry::After(wait) => return Some(wait),
        };
        let failures = self.failures.entry(key.clone()).or_default();
        let wait = FIRST.saturating_mul(1 << (*failures).min(20)).min(longest);
        *failures += 1;
        // Between a half and the whole: many keys that failed together do not come back together.
        Some(wait.mul_f64(0.5 + jitter / 2.0))
    }

    /// Notes a success, or that the object is gone.
    pub fn succeeded(&mut self, key: &Key) {
        self.failures.remove(key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_a_bound_and_start_anew_after_success() {
        let (mut backoffs, key) = (Backoffs::default(), Key::new("a", "b"));
        let wait = |backoffs: &mut Backoffs| backoffs.failed(&key, Retry::Backoff, 1.0).unwrap();
        let waits: Vec<u128> = (0..12).map(|_| wait(&mut backoffs).as_millis()).collect();
        assert_eq!(waits[..4], [500, 1000, 2000, 4000]);
        assert_eq!(waits[11], 120_000);
        backoffs.succeeded(&key);
        assert_eq!(wait(&mut backoffs).as_millis(), 500);
    }

    #[test]
    fn while_the_server_is_away_we_look_often() {
        let (mut backoffs, key) = (Backoffs::default(), Key::new("a", "b"));
        let longest = (0..50).map(|_| backoffs.failed(&key, Retry::Soon, 1.0).unwrap()).max();
        assert_eq!(longest, Some(LONGEST_SOON));
    }

    #[test]
    fn what_only_a_change_can_mend_is_not_tried_again() {
        assert_eq!(Backoffs::default().failed(&Key::new("a", "b"), Retry::OnChange, 0.0), None);
    }
}
