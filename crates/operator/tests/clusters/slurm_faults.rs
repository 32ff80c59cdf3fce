//! What goes wrong with slurmrestd at one place of a life, for sweeps.

use std::fmt;
use std::ops::{Range, RangeInclusive};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::Result;
use parking_lot::Mutex;

use crate::slurm_between::Fate;

/// How long slurmrestd is in trouble when a step begins: longer than the operator waits for one answer.
const OUTAGE: Duration = Duration::from_secs(4);

/// Longer than the operator waits for one answer.
const SILENCE: Duration = Duration::from_secs(4);

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trouble {
    Breaks,
    DoesItAndBreaks,
    Fails,
    IsSilent,
    TalksNonsense,
    KnowsNothing,
}

/// Where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// At the n-th write to Slurm.
    Write(usize),
    /// While a step begins.
    Step(usize),
}

/// One place and kind of trouble.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlurmFault {
    place: Place,
    trouble: Trouble,
}

impl fmt::Display for SlurmFault {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.place {
            Place::Write(number) => write!(out, "slurm-write-{number}-")?,
            Place::Step(number) => write!(out, "slurm-step-{number}-")?,
        }
        out.write_str(match self.trouble {
            Trouble::Breaks => "breaks",
            Trouble::DoesItAndBreaks => "does-it-and-breaks",
            Trouble::Fails => "fails",
            Trouble::IsSilent => "is-silent",
            Trouble::TalksNonsense => "talks-nonsense",
            Trouble::KnowsNothing => "knows-nothing",
        })
    }
}

/// Every trouble at each of these writes to Slurm, counted from 1, and while each of these steps begins.
pub fn all(writes: RangeInclusive<usize>, steps: Range<usize>) -> Vec<SlurmFault> {
    use Trouble::{Breaks, DoesItAndBreaks, Fails, IsSilent, KnowsNothing, TalksNonsense};
    let at = |place, troubles: &[Trouble]| {
        troubles.iter().map(|trouble| SlurmFault { place, trouble: *trouble }).collect::<Vec<_>>()
    };
    let writes = writes.flat_map(|n| at(Place::Write(n), &[Breaks, DoesItAndBreaks, Fails, IsSilent]));
    let steps =
        steps.flat_map(|n| at(Place::Step(n), &[Breaks, Fails, IsSilent, TalksNonsense, KnowsNothing]));
    writes.chain(steps).collect()
}

/// Sees the requests of one run, and lets one fault happen.
#[derive(Debug, Default)]
pub struct SlurmFaults {
    writes: AtomicUsize,
    armed: Mutex<Option<SlurmFault>>,
    outage: Mutex<Option<(Trouble, Instant)>>,
}

impl SlurmFaults {
    /// Lets the fault of this name happen.
    pub fn arm(&self, name: &str) {
        // Beyond every life that there is.
        *self.armed.lock() = all(1..=1000, 0..100).into_iter().find(|fault| fault.to_string() == name);
    }

    /// Tells that a step begins.
    pub fn step(&self, number: usize) {
        if let Some(SlurmFault { place: Place::Step(at), trouble }) = *self.armed.lock()
            && at == number
        {
            *self.outage.lock() = Some((trouble, Instant::now() + OUTAGE));
        }
    }

    /// How many writes came by.
    pub fn writes(&self) -> usize {
        self.writes.load(Ordering::Relaxed)
    }

    /// What becomes of the request with this first line.
    pub fn see(&self, request: &str) -> Result<Fate> {
        let outage = self.outage.lock().filter(|(_, until)| Instant::now() < *until);
        if let Some((trouble, _)) = outage {
            return Ok(fate(trouble, request));
        }
        if request.starts_with("GET ") {
            return Ok(Fate::Pass);
        }
        let number = self.writes.fetch_add(1, Ordering::Relaxed) + 1;
        Ok(match *self.armed.lock() {
            Some(SlurmFault { place: Place::Write(at), trouble }) if at == number => fate(trouble, request),
            _ => Fate::Pass,
        })
    }
}

fn fate(trouble: Trouble, request: &str) -> Fate {
    match trouble {
        Trouble::Breaks => Fate::Break,
        Trouble::DoesItAndBreaks => Fate::PassAndBreak,
        Trouble::Fails => {
            Fate::Answer(500, r#"{"errors":[{"description":"on purpose","error_number":1}]}"#.into())
        }
        Trouble::IsSilent => Fate::Hang(SILENCE),
        Trouble::TalksNonsense => Fate::Answer(200, "<html>nobody is here</html>".into()),
        Trouble::KnowsNothing => {
            match ["nodes", "jobs"].iter().find(|list| request.contains(&format!("/{list}"))) {
                Some(list) => Fate::Answer(
                    200,
                    format!(
                        r#"{{"{list}":[],"last_update":{{"set":true,"infinite":false,"number":1}},"errors":[],"warnings":[]}}"#
                    ),
                ),
                None => Fate::Pass,
            }
        }
    }
}
