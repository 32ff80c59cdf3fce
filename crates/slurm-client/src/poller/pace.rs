//! How soon to look again.

use std::time::Duration;

use crate::error::Error;

/// How often a poller looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// After a change, or while somebody waits for one.
    pub fast: Duration,
    /// While nothing happens.
    pub slow: Duration,
    /// At most after failures, and at once after the token was refused twice: only another one helps.
    pub longest: Duration,
    /// How long the word "no job has changed" is taken for a list of jobs before the list is read again.
    pub full: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        let slow = Duration::from_secs(30);
        Self { fast: Duration::from_secs(1), slow, longest: slow, full: Duration::from_secs(60) }
    }
}

impl Pace {
    /// The shortest pause after a look that took so long: a controller for whom a look is hard work is not asked more often
    /// than a quarter of the time.
    pub(crate) fn shortest_after(&self, took: Duration) -> Duration {
        self.fast.max((took * 3).min(self.slow))
    }
}

/// What came of a look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Changed,
    Same,
    Failed,
    /// The token is not accepted.
    Refused,
}

impl Outcome {
    /// What a failure is.
    pub(crate) const fn of(error: &Error) -> Self {
        if matches!(error, Error::Unauthorised { .. }) { Self::Refused } else { Self::Failed }
    }

    pub(crate) const fn is_failure(self) -> bool {
        matches!(self, Self::Failed | Self::Refused)
    }
}

/// The pauses between looks.
#[derive(Clone, Debug)]
pub(crate) struct Rhythm {
    pace: Pace,
    pause: Duration,
    /// The token was refused in the look before.
    refused: bool,
}

impl Rhythm {
    pub(crate) const fn new(pace: Pace) -> Self {
        Self { pace, pause: pace.fast, refused: false }
    }

    /// The pause after a look that took so long. `jitter` is between 0 and 1.
    pub(crate) fn after(
        &mut self,
        outcome: Outcome,
        took: Duration,
        waited_for: bool,
        jitter: f64,
    ) -> Duration {
        self.pause = match outcome {
            Outcome::Changed => self.pace.fast,
            // Twice as long each time: fast after a change, then slower and slower; the same after failures.
            Outcome::Same => (self.pause * 2).min(self.pace.slow),
            Outcome::Refused if self.refused => self.pace.longest,
            Outcome::Failed | Outcome::Refused => (self.pause * 2).min(self.pace.longest),
        };
        self.refused = outcome == Outcome::Refused;
        if waited_for && !outcome.is_failure() {
            self.pause = self.pace.fast;
        }
        let pause = self.pause.max(self.pace.shortest_after(took));
        // Several clusters, and several processes, must not ask all at once.
        pause.mul_f64(0.9 + 0.2 * jitter.clamp(0.0, 1.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn rhythm() -> Rhythm {
        Rhythm::new(Pace { fast: SECOND, slow: SECOND * 10, longest: SECOND * 30, full: SECOND * 60 })
    }

    fn seconds(rhythm: &mut Rhythm, outcome: Outcome, waited_for: bool) -> u64 {
        rhythm.after(outcome, Duration::ZERO, waited_for, 0.5).as_secs()
    }

    #[test]
    fn it_is_fast_after_a_change_and_slows_down_while_nothing_happens() {
        let mut rhythm = rhythm();
        assert_eq!(seconds(&mut rhythm, Outcome::Changed, false), 1);
        let pauses: Vec<u64> = (0..5).map(|_| seconds(&mut rhythm, Outcome::Same, false)).collect();
        assert_eq!(pauses, [2, 4, 8, 10, 10]);
        assert_eq!(seconds(&mut rhythm, Outcome::Changed, false), 1);
    }

    #[test]
    fn it_stays_fast_while_somebody_waits() {
        let mut rhythm = rhythm();
        for _ in 0..5 {
            assert_eq!(seconds(&mut rhythm, Outcome::Same, true), 1);
        }
    }

    #[test]
    fn it_backs_off_after_failures_even_while_somebody_waits() {
        let mut rhythm = rhythm();
        let pauses: Vec<u64> = (0..6).map(|_| seconds(&mut rhythm, Outcome::Failed, true)).collect();
        assert_eq!(pauses, [2, 4, 8, 16, 30, 30]);
        assert_eq!(seconds(&mut rhythm, Outcome::Same, false), 10, "it answers again");
    }

    #[test]
    fn a_token_that_is_refused_twice_is_not_shown_again_soon() {
        let mut rhythm = rhythm();
        assert_eq!(seconds(&mut rhythm, Outcome::Refused, false), 2);
        assert_eq!(seconds(&mut rhythm, Outcome::Refused, false), 30);
        assert_eq!(seconds(&mut rhythm, Outcome::Changed, false), 1);
        assert_eq!(seconds(&mut rhythm, Outcome::Refused, false), 2, "once again is a new story");
    }

    #[test]
    fn a_slow_controller_is_asked_less_often() {
        let mut rhythm = rhythm();
        assert_eq!(rhythm.after(Outcome::Changed, SECOND * 2, true, 0.5), SECOND * 6);
        assert_eq!(rhythm.after(Outcome::Changed, SECOND * 100, true, 0.5), SECOND * 10, "but not never");
    }

    #[test]
    fn the_pause_varies_by_a_tenth() {
        assert_eq!(rhythm().after(Outcome::Changed, Duration::ZERO, false, 0.0), Duration::from_millis(900));
        assert_eq!(rhythm().after(Outcome::Changed, Duration::ZERO, false, 1.0), Duration::from_millis(1100));
    }
}
