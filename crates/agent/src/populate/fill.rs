//! The second way through the source: everything is made in the jail, with checkpoints from which a killed process goes on.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::fs::{AtFlags, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

use super::entry::{Maker, Rules, wrong_with};
use super::failure::{Failure, of_file};
use super::pool::{Batch, Done, Pool};
use super::source::{Entry, Kind, Source, Visit};
use super::state::{Journal, Top};

/// More wait for no thread.
const BATCH: usize = 64;
const BATCH_BYTES: u64 = 8 << 20;
/// The time from one checkpoint to the next doubles up to this: each waits for the disk.
const LONGEST: Duration = Duration::from_secs(8);

/// How it is done.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// How many threads write.
    pub threads: usize,
    /// The time to the first checkpoint.
    pub checkpoint: Duration,
}

/// On a network file system more would not be faster, on a disk fewer.
pub const PACE: Pace = Pace { threads: 8, checkpoint: Duration::from_millis(500) };

/// A further name of a file.
struct Name {
    first: PathBuf,
    path: PathBuf,
    entry: Entry,
}

struct Filling<'a> {
    top: &'a Top,
    rules: &'a Rules,
    done: &'a Done,
    pool: Pool,
    journal: Journal,
    /// What is before this path is there already, unless it was changed since.
    through: Option<PathBuf>,
    firsts: BTreeMap<(u64, u64), PathBuf>,
    names: Vec<Name>,
    batch: Option<Batch>,
    last_checkpoint: Instant,
    interval: Duration,
}

/// Makes everything but the attributes of directories.
pub fn fill(
    source: &Source,
    top: &Top,
    journal: Journal,
    rules: &Rules,
    done: &Done,
    pace: Pace,
) -> Result<(), Failure> {
    let names = std::thread::scope(|scope| {
        let mut filling = Filling {
            top,
            rules,
            done,
            pool: Pool::start(scope, pace.threads, rules, done),
            through: journal.through.clone().map(PathBuf::from),
            journal,
            firsts: BTreeMap::new(),
            names: Vec::new(),
            batch: None,
            last_checkpoint: Instant::now(),
            interval: pace.checkpoint,
        };
        let root = Arc::new(open_directory(top.fd(), Path::new("."), top.path())?);
        let walked = source.walk(&mut filling, root).and_then(|_| filling.flush());
        // Also after a failure: what the threads say is nearer to the cause.
        filling.pool.wait().and(walked).map(|()| filling.names)
    })?;
    let mut maker = Maker::new(rules, pace.threads);
    for name in names {
        further_name(source, top, &mut maker, &name)?;
        done.count(&name.entry);
    }
    Ok(())
}

/// Opens a directory below another one; no link may lead elsewhere.
fn open_directory(base: &OwnedFd, path: &Path, shown: &Path) -> Result<OwnedFd, Failure> {
    let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
    rustix::fs::openat2(base, path, flags, Mode::empty(), resolve)
        .map_err(|error| of_file("open", shown.join(path), error))
}

fn further_name(source: &Source, top: &Top, maker: &mut Maker<'_>, name: &Name) -> Result<(), Failure> {
    let parent = |path: &Path| path.parent().unwrap_or(Path::new("")).to_owned();
    let first = open_directory(top.fd(), &parent(&name.first), top.path())?;
    let to = open_directory(top.fd(), &parent(&name.path), top.path())?;
    let first_name = name.first.file_name().unwrap_or_default();
    let first_name = std::ffi::CString::new(std::os::unix::ffi::OsStrExt::as_bytes(first_name));
    let first_name = first_name.unwrap_or_default();
    let shown = top.path().join(&name.path);
    if maker.name((&first, &first_name), &to, &shown, &name.entry.name)? {
        return Ok(());
    }
    // A volume without such names has copies.
    let from = open_directory(&source.open()?, &parent(&name.path), source.base())?;
    maker.make(&from, &to, &shown, &name.entry)
}

impl Filling<'_> {
    fn flush(&mut self) -> Result<(), Failure> {
        match self.batch.take() {
            Some(batch) => self.pool.submit(batch),
            None => Ok(()),
        }
    }

    /// Says whether this path is one of those that are done, up to the last one.
    fn is_done_before(&mut self, path: &Path) -> bool {
        let Some(through) = &self.through else { return false };
        if through == path {
            self.through = None;
        }
        true
    }

    /// Makes what was done so far safe, now and then.
    fn checkpoint(&mut self, path: &Path) -> Result<(), Failure> {
        // Nothing new was made, and the journal may only go forward.
        if self.through.is_some() || self.last_checkpoint.elapsed() < self.interval {
            return Ok(());
        }
        let Some(path) = path.to_str() else { return Ok(()) };
        self.flush()?;
        self.pool.wait()?;
        self.rules.step()?;
        self.top.sync_all()?;
        self.journal.through = Some(path.to_owned());
        self.rules.step()?;
        self.top.set_journal(&self.journal)?;
        self.interval = (self.interval * 2).min(LONGEST);
        self.last_checkpoint = Instant::now();
        Ok(())
    }
}

impl Visit for Filling<'_> {
    type Place = Arc<OwnedFd>;

    fn enter(&mut self, parent: &Arc<OwnedFd>, path: &Path, entry: &Entry) -> Result<Arc<OwnedFd>, Failure> {
        self.rules.step()?;
        let shown = self.top.path().join(path);
        let failed = |doing: &'static str| {
            let shown = shown.clone();
            move |error: Errno| of_file(doing, shown, error)
        };
        let make = || match rustix::fs::mkdirat(&**parent, &entry.name, Mode::RWXU) {
            Ok(()) | Err(Errno::EXIST) => Ok(()),
            Err(error) => Err(error),
        };
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let open = || rustix::fs::openat(&**parent, &entry.name, flags, Mode::empty());
        make().map_err(failed("create"))?;
        let directory = match open() {
            // Of another source, or of a user who asked to have it replaced.
            Err(Errno::NOTDIR | Errno::LOOP) => {
                rustix::fs::unlinkat(&**parent, &entry.name, AtFlags::empty()).map_err(failed("remove"))?;
                make().map_err(failed("create"))?;
                open()
            }
            opened => opened,
        };
        let directory = directory.map_err(failed("open"))?;
        self.is_done_before(path);
        self.done.count(entry);
        self.flush()?;
        Ok(Arc::new(directory))
    }

    fn entry(
        &mut self,
        place: &Arc<OwnedFd>,
        source: &Arc<OwnedFd>,
        path: &Path,
        entry: &Entry,
    ) -> Result<(), Failure> {
        let done_before = self.is_done_before(path);
        if entry.facts.kind == Kind::File && entry.facts.names > 1 {
            if let Some(first) = self.firsts.get(&entry.facts.id) {
                let (first, path) = (first.clone(), path.to_owned());
                self.names.push(Name { first, path, entry: entry.clone() });
                return Ok(());
            }
            self.firsts.insert(entry.facts.id, path.to_owned());
        }
        if done_before && wrong_with(source, entry, place, &self.top.path().join(path))?.is_none() {
            self.done.count(entry);
            return Ok(());
        }
        let batch = self.batch.get_or_insert_with(|| Batch {
            from: Arc::clone(source),
            to: Arc::clone(place),
            path: self.top.path().join(path.parent().unwrap_or(Path::new(""))),
            entries: Vec::new(),
        });
        batch.entries.push(entry.clone());
        let bytes: u64 = batch.entries.iter().map(|entry| entry.facts.size).sum();
        if batch.entries.len() >= BATCH || bytes >= BATCH_BYTES {
            self.flush()?;
        }
        self.checkpoint(path)
    }

    fn leave(&mut self, _: Arc<OwnedFd>, _: &OwnedFd, _: &Path, _: &Entry) -> Result<(), Failure> {
        self.flush()
    }
}
