//! How many binds may be under way: more while the API server keeps up, fewer when it says that it does not.

use std::time::Duration;

use crate::queue::Time;

const FIRST: f64 = 32.0;
const FEWEST: f64 = 4.0;
/// A bind that takes longer means that the server has more to do than it can.
const SLOW: Duration = Duration::from_secs(2);
/// One overload is told by many answers at once.
const COOLING: Duration = Duration::from_secs(1);

/// How many binds may be under way.
#[derive(Clone, Debug)]
pub(super) struct Limit {
    now: f64,
    most: f64,
    lowered: Option<Time>,
}

impl Limit {
    pub(super) fn new(most: usize) -> Self {
        let most = f64::from(u16::try_from(most).unwrap_or(u16::MAX)).max(1.0);
        Self { now: FIRST.min(most), most, lowered: None }
    }

    pub(super) fn get(&self) -> usize {
        // Never negative, and small.
        self.now as usize
    }

    /// The server answered a bind.
    pub(super) fn answered(&mut self, took: Duration, now: Time) {
        if took > SLOW {
            self.lower(0.9, now);
        } else {
            self.now = (self.now + 1.0 / self.now).min(self.most);
        }
    }

    /// The server asked for fewer, or did not answer.
    pub(super) fn refused(&mut self, now: Time) {
        self.lower(0.5, now);
    }

    fn lower(&mut self, factor: f64, now: Time) {
        if self.lowered.is_none_or(|before| now >= before + COOLING) {
            self.now = (self.now * factor).max(FEWEST.min(self.most));
            self.lowered = Some(now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUICK: Duration = Duration::from_millis(50);

    #[test]
    fn it_grows_to_its_most_while_answers_are_quick() {
        let mut limit = Limit::new(64);
        assert_eq!(limit.get(), 32);
        for _ in 0..3000 {
            limit.answered(QUICK, Time::ZERO);
        }
        assert_eq!(limit.get(), 64);
    }

    #[test]
    fn one_overload_halves_it_once_and_it_never_stops() {
        let mut limit = Limit::new(64);
        for _ in 0..20 {
            limit.refused(Time::ZERO);
        }
        assert_eq!(limit.get(), 16);
        for second in 1..20 {
            limit.refused(Duration::from_secs(second));
        }
        assert_eq!(limit.get(), 4);
        limit.answered(Duration::from_secs(3), Duration::from_secs(60));
        assert_eq!(limit.get(), 4);
        assert_eq!(Limit::new(1).get(), 1);
    }
}
