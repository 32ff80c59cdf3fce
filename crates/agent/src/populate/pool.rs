//! Threads that make entries: a network file system takes its time for each, and many at once.

use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::Scope;

use super::entry::{Maker, Rules};
use super::failure::Failure;
use super::source::Entry;

/// Batches that wait. Each keeps two directories open.
const WAITING: usize = 32;

/// Entries of one directory.
pub struct Batch {
    /// The directory of the source.
    pub from: Arc<OwnedFd>,
    /// The directory of the jail.
    pub to: Arc<OwnedFd>,
    /// The path of that directory, to be said.
    pub path: PathBuf,
    /// What is to be made in it.
    pub entries: Vec<Entry>,
}

/// What was done so far.
#[derive(Debug, Default)]
pub struct Done {
    /// Entries.
    pub files: AtomicU64,
    /// Bytes of them.
    pub bytes: AtomicU64,
}

impl Done {
    /// Counts an entry.
    pub fn count(&self, entry: &Entry) {
        self.files.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(entry.facts.size, Ordering::Relaxed);
    }
}

/// The threads.
pub struct Pool {
    sender: SyncSender<Batch>,
    work: Arc<Work>,
}

#[derive(Default)]
struct Work {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    pending: usize,
    failure: Option<Failure>,
}

impl Work {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Pool {
    /// Starts so many threads. They end with the pool.
    pub fn start<'scope, 'env: 'scope>(
        scope: &'scope Scope<'scope, 'env>,
        threads: usize,
        rules: &'env Rules,
        done: &'env Done,
    ) -> Self {
        let (sender, receiver) = sync_channel(WAITING);
        let (receiver, work) = (Arc::new(Mutex::new(receiver)), Arc::new(Work::default()));
        for thread in 0..threads {
            let (receiver, work) = (Arc::clone(&receiver), Arc::clone(&work));
            scope.spawn(move || run(&receiver, &work, Maker::new(rules, thread), done));
        }
        Self { sender, work }
    }

    /// Gives the threads more to do; waits while they have enough.
    pub fn submit(&self, batch: Batch) -> Result<(), Failure> {
        let mut state = self.work.lock();
        if let Some(failure) = &state.failure {
            return Err(failure.clone());
        }
        state.pending += 1;
        drop(state);
        self.sender.send(batch).map_err(|_| Failure::Again("the threads have ended".into()))
    }

    /// Waits until nothing is left to do.
    pub fn wait(&self) -> Result<(), Failure> {
        let mut state = self.work.lock();
        while state.pending > 0 {
            state = self.work.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.failure.clone().map_or(Ok(()), Err)
    }
}

fn run(receiver: &Mutex<Receiver<Batch>>, work: &Work, mut maker: Maker<'_>, done: &Done) {
    loop {
        let next = receiver.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(batch) = next else { return };
        let failed = work.lock().failure.is_some();
        let made = if failed { Ok(()) } else { make(&mut maker, &batch, done) };
        let mut state = work.lock();
        state.pending -= 1;
        if let Err(failure) = made {
            state.failure.get_or_insert(failure);
        }
        work.changed.notify_all();
    }
}

fn make(maker: &mut Maker<'_>, batch: &Batch, done: &Done) -> Result<(), Failure> {
    for entry in &batch.entries {
        let path = batch.path.join(entry.name.to_string_lossy().as_ref());
        maker.make(&batch.from, &batch.to, &path, entry)?;
        done.count(entry);
    }
    Ok(())
}
