//! `populate-jail`: fills the jail from the file system of its own container, or from a snapshot. It may be killed at any
//! moment: the next one goes on from the last checkpoint, and the marker that others wait for is made last.

mod entry;
mod failure;
mod fill;
mod finish;
mod pool;
mod restic;
mod root_key;
mod source;
mod state;
mod survey;
#[cfg(test)]
mod tests;

use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use nix::sys::signal::{SigSet, Signal};
use slurm::agent::{command, env, path};

use self::entry::Rules;
use self::failure::Failure;
use self::fill::{PACE, Pace};
use self::pool::Done;
use self::restic::Restic;
use self::source::Source;
use self::state::{Journal, Marker, State, Top};
use self::survey::Survey;
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
    let overwrite = std::env::var(env::OVERWRITE).as_deref() == Ok("1");
    let jail = Path::new(path::JAIL);
    let outcome = if mountinfo::is_mount_point(jail) {
        populate(jail, overwrite)
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

/// What the jail is filled from.
enum From {
    Directory(Source),
    Restic(Restic),
}

impl From {
    /// The snapshot if there is one, else the archive of the original's image, else this container itself.
    fn find() -> Self {
        let snapshot = Path::new(path::JAIL_SNAPSHOT);
        if ["etc", "usr"].iter().any(|directory| snapshot.join(directory).is_dir()) {
            return From::Directory(Source::new(snapshot));
        }
        match Restic::find() {
            Some(restic) => From::Restic(restic),
            None => From::Directory(Source::new(Path::new("/"))),
        }
    }
}

fn populate(jail: &Path, overwrite: bool) -> Result<String, Failure> {
    let top = Top::open(jail)?;
    // Without the lock: a complete jail may be on a volume that cannot be written, and others' files get no file of ours
    // beside them.
    match top.state()? {
        State::Complete if !overwrite => return complete(&top),
        State::Foreign(what) if !overwrite => return Err(foreign(&top, &what)),
        _ => {}
    }
    let lock = top.lock()?;
    let outcome = work(&top, overwrite, From::find, PACE, &Rules::default());
    let unlocked = top.unlock(lock);
    outcome.and_then(|words| unlocked.map(|()| words))
}

fn foreign(top: &Top, what: &str) -> Failure {
    Failure::Person(format!(
        "{} is no jail and not empty (it holds {what}): nothing was changed. Name an empty volume, move away what it holds, or set \
         populateJail.overwrite to have all of it replaced; then delete this Job",
        top.path().display()
    ))
}

fn complete(top: &Top) -> Result<String, Failure> {
    Ok(format!("{} is complete already", top.path().display()))
}

fn work(
    top: &Top,
    overwrite: bool,
    from: impl FnOnce() -> From,
    pace: Pace,
    rules: &Rules,
) -> Result<String, Failure> {
    let state = top.state()?;
    let journal = match (state, overwrite) {
        (State::Complete, _) if top.has_journal()? => {
            // It was killed after its very last step but one.
            top.forget_journal()?;
            return complete(top);
        }
        (State::Complete, false) => return complete(top),
        (State::RootLike, false) => {
            finish::make_top(top, rules)?;
            top.set_marker(&Marker::new("adopted".into(), 0, 0))?;
            return Ok(format!(
                "{} holds a root file system already: it stays as it is",
                top.path().display()
            ));
        }
        (State::Foreign(what), false) => return Err(foreign(top, &what)),
        (State::HalfDone(journal), false) => Some(journal),
        (State::HalfDone(journal), true) => Some(Journal { replace: true, ..journal }),
        (State::Empty, _) => None,
        (State::Complete | State::RootLike | State::Foreign(_), true) => {
            // First: whoever starts now waits for it.
            top.forget_marker()?;
            Some(Journal::new("", true))
        }
    };
    match from() {
        From::Directory(source) => from_directory(top, &source, journal, pace, rules),
        From::Restic(restic) => from_restic(top, &restic, journal, rules),
    }
}

/// Fills the jail from a directory; says what was done.
fn from_directory(
    top: &Top,
    source: &Source,
    journal: Option<Journal>,
    pace: Pace,
    rules: &Rules,
) -> Result<String, Failure> {
    let begun = Instant::now();
    say(NAME, &format!("looking at {}", source.base().display()));
    let survey = Survey::of(source)?;
    let journal = plan(journal, &survey);
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
    end(top, &rules, &Marker::new(survey.source.clone(), survey.files, survey.bytes))?;
    Ok(format!(
        "{} is complete: {} files, {} MB in {} s",
        top.path().display(),
        survey.files,
        survey.bytes >> 20,
        begun.elapsed().as_secs()
    ))
}

/// What is done now, after what was done before.
fn plan(journal: Option<Journal>, survey: &Survey) -> Journal {
    match journal {
        None => Journal::new(&survey.source, false),
        Some(journal) if journal.source == survey.source => journal,
        // Of another image: what only that one has is removed in the end.
        Some(_) => Journal::new(&survey.source, true),
    }
}

fn from_restic(
    top: &Top,
    restic: &Restic,
    journal: Option<Journal>,
    rules: &Rules,
) -> Result<String, Failure> {
    let journal = journal.unwrap_or_else(|| Journal::new(restic.name(), false));
    top.set_journal(&journal)?;
    restic.restore(top.path(), journal.replace)?;
    root_key::make(top.path());
    end(top, rules, &Marker::new(restic.name().to_owned(), 0, 0))?;
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
