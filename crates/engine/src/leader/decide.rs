//! What to do about the lease. No I/O; times are those of the local monotonic clock.

use std::time::{Duration, Instant};

/// How long a claim lasts and how it is kept.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    /// Others may take the lease when they saw no change of it for this long.
    pub lease: Duration,
    /// A leader that could not renew for this long stops writing, well before others take over.
    pub renew: Duration,
    /// How often a leader renews, and others look.
    pub retry: Duration,
}

impl Default for Times {
    fn default() -> Self {
        Self { lease: Duration::from_secs(15), renew: Duration::from_secs(10), retry: Duration::from_secs(2) }
    }
}

/// The lease as we last saw it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Who holds it; empty if it was released.
    pub holder: String,
    /// How long a claim lasts for the one who made it.
    pub duration: Duration,
    /// Its version: whoever renews changes it.
    pub version: String,
}

/// A lease that is followed: when did it change last, on our own clock?
#[derive(Clone, Debug, Default)]
pub struct Followed {
    seen: Option<(Seen, Instant)>,
}

/// What to do now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Make the lease: there is none.
    Create,
    /// Write ourselves into this version of it.
    Take {
        /// The version that must still be current.
        version: String,
        /// Whether the holder changes by this.
        new_holder: bool,
    },
    /// Look again after this time.
    Wait(Duration),
}

impl Followed {
    /// Notes what the API server says. The clocks of others do not matter: only that something changed.
    pub fn observe(&mut self, lease: Option<Seen>, now: Instant) {
        match (&self.seen, lease) {
            (Some((known, _)), Some(lease)) if *known == lease => {}
            (_, lease) => self.seen = lease.map(|lease| (lease, now)),
        }
    }

    /// What `me` should do at `now`.
    pub fn decide(&self, me: &str, times: Times, now: Instant) -> Decision {
        let Some((lease, since)) = &self.seen else { return Decision::Create };
        if lease.holder == me {
            return Decision::Take { version: lease.version.clone(), new_holder: false };
        }
        let expires = *since + lease.duration.max(times.lease);
        if lease.holder.is_empty() || now >= expires {
            return Decision::Take { version: lease.version.clone(), new_holder: true };
        }
        Decision::Wait(times.retry.min(expires.saturating_duration_since(now)).max(Duration::from_millis(10)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lease(holder: &str, version: &str) -> Option<Seen> {
        Some(Seen { holder: holder.into(), duration: Duration::from_secs(15), version: version.into() })
    }

    #[test]
    fn a_lease_of_another_is_taken_only_when_it_stood_still_for_its_whole_time() {
        let (mut followed, start, times) = (Followed::default(), Instant::now(), Times::default());
        let at = |seconds| start + Duration::from_secs(seconds);
        followed.observe(lease("other", "1"), start);
        assert!(matches!(followed.decide("me", times, at(14)), Decision::Wait(_)));
        followed.observe(lease("other", "2"), at(14));
        assert!(matches!(followed.decide("me", times, at(20)), Decision::Wait(_)), "it was renewed");
        followed.observe(lease("other", "2"), at(28));
        let taken = Decision::Take { version: "2".into(), new_holder: true };
        assert_eq!(followed.decide("me", times, at(29)), taken);
    }

    #[test]
    fn a_released_or_missing_lease_is_taken_at_once() {
        let (mut followed, now, times) = (Followed::default(), Instant::now(), Times::default());
        assert_eq!(followed.decide("me", times, now), Decision::Create);
        followed.observe(lease("", "1"), now);
        assert!(matches!(followed.decide("me", times, now), Decision::Take { new_holder: true, .. }));
    }

    #[test]
    fn our_own_lease_is_renewed_in_the_version_that_we_saw() {
        let (mut followed, now, times) = (Followed::default(), Instant::now(), Times::default());
        followed.observe(lease("me", "7"), now);
        let renewed = Decision::Take { version: "7".into(), new_holder: false };
        assert_eq!(followed.decide("me", times, now), renewed);
    }

    #[test]
    fn a_holder_that_asks_for_longer_gets_it() {
        let (mut followed, start, times) = (Followed::default(), Instant::now(), Times::default());
        let slow = Seen { duration: Duration::from_secs(60), ..lease("other", "1").unwrap() };
        followed.observe(Some(slow), start);
        assert!(matches!(followed.decide("me", times, start + Duration::from_secs(59)), Decision::Wait(_)));
        assert!(matches!(
            followed.decide("me", times, start + Duration::from_secs(60)),
            Decision::Take { .. }
        ));
    }
}
