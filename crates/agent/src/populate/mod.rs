//! `populate-jail`: fills the jail from the file system of its own container, or from a snapshot. It may be killed at any
//! moment: the next one goes on from the last checkpoint, and the marker that others wait for is made last.

mod entry;
mod failure;
mod fill;
mod finish;
mod from;
mod pool;
mod remove;
mod restic;
mod root_key;
mod source;
mod state;
mod survey;
#[cfg(test)]
mod tests;
mod wish;

use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use nix::sys::signal::{SigSet, Signal};
use slurm::agent::{command, path};

use self::entry::Rules;
use self::failure::Failure;
use self::fill::{PACE, Pace};
use self::from::From;
use self::pool::Done;
use self::restic::Restic;
use self::source::Source;
use self::state::{Journal, Marker, Top};
use self::survey::Survey;
use self::wish::{Act, Wish};
use crate::mountinfo;
use crate::output::say;

/// The name of its lines.
const NAME: &str = command::POPULATE_JAIL;
/// Where the kubelet takes a container's last words from.
const LAST_WORDS: &str = "/dev/termination-log";
const PROGRESS: Duration = Duration::from_secs(5);

/// Fills the jail of this container.
pub fn run() -> ExitCode {
    end_when_told();
    let jail = Path::new(path::JAIL);
    let outcome = if mountinfo::is_mount_point(jail) {
        populate(jail, &Wish::of_this_container())
    } else {
        Err(Failure::Person(format!("no volume is mounted at {}: give the Job's pod one", jail.display())))
    };
    let (code, words) = match &outcome {
        Ok(words) => (0, words.as_str()),
        Err(failure) => (failure.exit_code(), failure.message()),
    };
    say(NAME, words);
    // Only the kubelet makes this file.
    if let Ok(mut file) = std::fs::OpenOptions::new().write(true).open(LAST_WORDS) {
        let _ = file.write_all(words.as_bytes());
    }
    ExitCode::from(code)
}

/// Process 1 of a container ignores signals that it does not ask for. Nothing has to be put in order before the end.
fn end_when_told() {
    let mut told = SigSet::empty();
    for signal in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGQUIT] {
        told.add(signal);
    }
    if told.thread_block().is_err() {
        return;
    }
    std::thread::spawn(move || {
        if let Ok(signal) = told.wait() {
            say(NAME, &format!("{signal}: stopping; the next one goes on from here"));
            std::process::exit(1);
        }
    });
}

fn populate(jail: &Path, wish: &Wish) -> Result<String, Failure> {
    let top = Top::open(jail)?;
    // Without the lock: a complete jail may be on a volume that cannot be written, and others' files get no file of ours
    // beside them.
    match wish.act(top.state()?) {
        Act::Nothing => return Ok(complete(&top)),
        Act::Foreign(what) => return Err(foreign(&top, &what)),
        _ => {}
    }
    let lock = top.lock()?;
    let outcome = work(&top, wish, From::find, PACE, &Rules::default());
    let unlocked = top.unlock(lock);
    outcome.and_then(|words| unlocked.map(|()| words))
}

fn foreign(top: &Top, what: &str) -> Failure {
    Failure::Person(format!(
        "{} is no jail and not empty (it holds {what}): nothing was changed. Name an empty volume, or move away what it holds, then delete \
         this Job; or set maintenance to downscaleAndOverwritePopulateJail to have all of it replaced",
        top.path().display()
    ))
}

fn withdrawn(top: &Top) -> Failure {
    Failure::Person(format!(
        "what {} held was being replaced, which was not ended and is not wished any more: nothing was changed now. Some of it is gone \
         already. Set maintenance to downscaleAndOverwritePopulateJail to have the rest replaced; or move {} away and delete this Job \
         to have the jail taken as it is, half of it old and half new",
        top.path().display(),
        path::JAIL_JOURNAL
    ))
}

fn complete(top: &Top) -> String {
    format!("{} is complete already", top.path().display())
}

fn work(
    top: &Top,
    wish: &Wish,
    from: impl FnOnce() -> Result<From, Failure>,
    pace: Pace,
    rules: &Rules,
) -> Result<String, Failure> {
    let (journal, overwrites) = match wish.act(top.state()?) {
        Act::Nothing => {
            // It was killed after its very last step but one, or after the very first of an overwrite.
            top.forget_journal()?;
            return Ok(complete(top));
        }
        Act::Adopt => {
            finish::make_top(top, rules)?;
            top.set_marker(&Marker::new(&wish.job, "adopted".into(), 0, 0))?;
            return Ok(format!(
                "{} holds a root file system already: it stays as it is",
                top.path().display()
            ));
        }
        Act::Foreign(what) => return Err(foreign(top, &what)),
        Act::Withdrawn => return Err(withdrawn(top)),
        Act::Fill(journal) => (journal, false),
        Act::Overwrite(journal) => (journal, true),
    };
    let from = from()?;
    if overwrites {
        // The journal first: a volume without either would be taken for a jail of the original.
        rules.step()?;
        top.set_journal(&journal)?;
        rules.step()?;
        top.forget_marker()?;
    }
    match from {
        From::Directory(source) => from_directory(top, &source, journal, pace, rules),
        From::Restic(restic) => from_restic(top, &restic, journal, rules),
    }
}

/// Fills the jail from a directory; says what was done.
fn from_directory(
    top: &Top,
    source: &Source,
    journal: Journal,
    pace: Pace,
    rules: &Rules,
) -> Result<String, Failure> {
    let begun = Instant::now();
    say(NAME, &format!("looking at {}", source.base().display()));
    let survey = Survey::of(source)?;
    let journal = journal.with_source(&survey.source);
    let job = journal.job.clone();
    let rules = rules.with_replace(journal.replace);
    match &journal.through {
        Some(through) => say(NAME, &format!("going on after {through}")),
        None => say(NAME, &format!("copying {} files, {} MB", survey.files, survey.bytes >> 20)),
    }
    rules.step()?;
    top.set_journal(&journal)?;
    let done = Done::default();
    with_progress(&done, &survey, || {
        fill::fill(source, top, journal, &rules, &done, pace)?;
        say(NAME, "checking");
        finish::finish(source, top, &rules)
    })
    .map_err(|failure| failure.with_size(survey.bytes))?;
    let lost = rules.lost_attributes.load(Ordering::Relaxed);
    if lost > 0 {
        say(
            NAME,
            &format!(
                "the volume did not take {lost} attributes of files, such as capabilities: programs that need them work for root only"
            ),
        );
    }
    if rules.root_key {
        root_key::make(top.path());
    }
    end(top, &rules, &Marker::new(&job, survey.source.clone(), survey.files, survey.bytes))?;
    Ok(format!(
        "{} is complete: {} files, {} MB in {} s",
        top.path().display(),
        survey.files,
        survey.bytes >> 20,
        begun.elapsed().as_secs()
    ))
}

fn from_restic(top: &Top, restic: &Restic, journal: Journal, rules: &Rules) -> Result<String, Failure> {
    let source = restic.name();
    let journal = journal.with_source(&source);
    rules.step()?;
    top.set_journal(&journal)?;
    rules.step()?;
    restic.restore(top.path(), journal.replace)?;
    if rules.root_key {
        root_key::make(top.path());
    }
    end(top, rules, &Marker::new(&journal.job, source, 0, 0))?;
    Ok(format!("{} is complete: restored by restic", top.path().display()))
}

/// Everything is there: makes it safe, and says so to others.
fn end(top: &Top, rules: &Rules, marker: &Marker) -> Result<(), Failure> {
    rules.step()?;
    finish::make_top(top, rules)?;
    rules.step()?;
    top.sync_all()?;
    rules.step()?;
    top.set_marker(marker)?;
    rules.step()?;
    top.forget_journal()
}

/// Says now and then how far it is.
fn with_progress<T>(done: &Done, survey: &Survey, work: impl FnOnce() -> T) -> T {
    let (ended, end) = channel::<()>();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let mut before = 0;
            while end.recv_timeout(PROGRESS) == Err(RecvTimeoutError::Timeout) {
                let (files, bytes) = (done.files.load(Ordering::Relaxed), done.bytes.load(Ordering::Relaxed));
                let percent = bytes.saturating_mul(100) / survey.bytes.max(1);
                let rate = (bytes.saturating_sub(before) >> 20) / PROGRESS.as_secs();
                say(
                    NAME,
                    &format!(
                        "{percent} %: {files} of {} files, {} of {} MB, {rate} MB/s",
                        survey.files,
                        bytes >> 20,
                        survey.bytes >> 20
                    ),
                );
                before = bytes;
            }
        });
        let outcome = work();
        drop(ended);
        outcome
    })
}
