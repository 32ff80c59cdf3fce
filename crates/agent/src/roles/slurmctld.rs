//! slurmctld, and the one caller of reconfigure.
//!
//! slurmctld has no test mode: told to reconfigure with a set that it does not like, it ends. So a new set is tried, and when
//! slurmctld ends over it, it is started again with the last good one.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use slurm::agent::{ClusterMismatch, ConfigState, path};

use crate::agent::{Agent, Stopped, TICK};
use crate::conf_sets::{ConfSets, Refused};
use crate::daemon::{Backoff, Daemon};
use crate::etc_slurm::{self, ETC_SLURM};
use crate::files::{self, FileSet, Watched};
use crate::slurm_conf::{Conf, with_queued_accounting, without_accounting};
use crate::{lookup, munge_socket, proc, programs};

const LOOK: Duration = Duration::from_secs(1);
const HELPER: Duration = Duration::from_secs(30);
/// How long slurmctld may take to come back from reconfigure.
const RECONFIGURE: Duration = Duration::from_secs(120);
/// How long its own name may take to have an address. After that slurmctld may say itself what is wrong.
const OWN_ADDRESS: Duration = Duration::from_secs(60);
/// It saves its state when it stops.
const STOP: Duration = Duration::from_secs(60);
/// Which cluster the state belongs to. Until it is there, slurmctld has never known slurmdbd.
const CLUSTER_FILE: &str = "clustername";
/// How slurmctld calls it when its state and slurmdbd's database are not of one cluster.
const MISMATCH: &str = "CLUSTER ID MISMATCH";
/// Others may only pass through to the configuration, which all users of this container read.
const SPOOL_MODE: u32 = 0o711;
/// State that lies elsewhere is of no interest to others.
const STATE_MODE: u32 = 0o700;
/// There while the cluster was never registered with slurmdbd, and accounting is queued.
const UNREGISTERED: &str = "soperator-conf/unregistered";

struct Slurmctld<'a> {
    agent: &'a Agent,
    sets: ConfSets,
    daemon: Daemon,
    version: String,
    /// As it was mounted.
    in_use: Option<FileSet>,
    key: Watched,
    starts: Backoff,
    retries: Backoff,
}

/// How a start went.
enum Start {
    Up,
    Ended(String),
}

/// How a change went.
enum Change {
    Done,
    Refused(String),
    NoAnswer(String),
}

/// Runs slurmctld.
pub fn run(agent: &Agent) -> Result<(), String> {
    let daemon = Daemon::new("slurmctld").map_err(|error| error.to_string())?;
    let mut slurmctld = Slurmctld {
        agent,
        sets: ConfSets::new(Path::new(path::SLURMCTLD_SPOOL)),
        daemon,
        version: agent.state().slurm_version.unwrap_or_default(),
        in_use: None,
        key: Watched::new([path::JWT_KEY]),
        starts: Backoff::default(),
        retries: Backoff::default(),
    };
    let Err(Stopped) = slurmctld.run();
    slurmctld.daemon.stop(Signal::SIGTERM, STOP);
    agent.update(|state| state.running = false);
    Ok(())
}

fn mounted() -> Result<FileSet, String> {
    let directory = Path::new(path::CONFIGS);
    let set =
        FileSet::read(directory).map_err(|error| format!("cannot read {}: {error}", directory.display()))?;
    if !set.files.contains_key("slurm.conf") {
        return Err(format!("{} has no slurm.conf yet", directory.display()));
    }
    Ok(set)
}

fn spool(name: &str) -> PathBuf {
    Path::new(path::SLURMCTLD_SPOOL).join(name)
}

fn state_directory(conf: &Conf) -> &Path {
    Path::new(conf.get("StateSaveLocation").unwrap_or(path::SLURMCTLD_SPOOL))
}

fn cluster_file(conf: &Conf) -> PathBuf {
    state_directory(conf).join(CLUSTER_FILE)
}

fn has_cluster_file(conf: &Conf) -> bool {
    cluster_file(conf).exists()
}

/// Whether slurmctld ended because its state is not of the cluster that slurmdbd knows. No configuration is to blame for that.
fn is_mismatch(words: &str) -> bool {
    words.contains(MISMATCH)
}

impl Slurmctld<'_> {
    fn run(&mut self) -> Result<std::convert::Infallible, Stopped> {
        self.agent.wait_for(munge_socket::listens)?;
        self.agent.wait_for(|| mounted().map(drop))?;
        // slurmctld ends over a name that has no address yet, and the set would look like a bad one.
        let deadline = Instant::now() + OWN_ADDRESS;
        self.agent.wait_for(|| {
            let Some(name) = mounted().ok().and_then(|set| Conf::of_set(&set).controller()) else {
                return Ok(());
            };
            if Instant::now() > deadline || !lookup::addresses(&self.agent.children, &name).is_empty() {
                return Ok(());
            }
            Err(format!("{name}, the name of slurmctld itself, has no address yet"))
        })?;
        let mut looked = Instant::now();
        loop {
            if let Some((ended, words)) = self.daemon.take_end() {
                self.agent.crashed(&self.daemon, ended, &words);
            }
            if self.daemon.due() && self.starts.due() {
                self.bring_up()?;
            }
            let running = self.daemon.runs();
            self.agent.update(|state| state.running = running);
            for signal in self.agent.pending_signals() {
                self.daemon.signal(signal);
            }
            if running && looked.elapsed() >= LOOK {
                looked = Instant::now();
                self.look()?;
            }
            self.agent.pause(TICK)?;
        }
    }

    /// Starts with the mounted set, or else with the last good one.
    fn bring_up(&mut self) -> Result<(), Stopped> {
        let Ok(given) = mounted() else { return Ok(()) };
        let before = self.directory_in_use();
        let good = self.sets.good();
        let mut why = self.refusal_of(&given.hash());
        let mut candidates = Vec::new();
        if why.is_none() || good.is_none() {
            candidates.push(given.clone());
        }
        candidates.extend(good.filter(|good| good.hash() != given.hash()));
        for set in candidates {
            let hash = set.hash();
            match self.start(&set)? {
                Start::Up if hash == given.hash() => {
                    self.accepted(set);
                    return self.push(&before);
                }
                Start::Up => {
                    // Only now is it sure that the fault lies in the new set.
                    if self.refusal_of(&given.hash()).is_none() {
                        self.refused(&given.hash(), why.unwrap_or_default());
                    }
                    self.in_use = Some(set);
                    self.starts.reset();
                    self.report(&given.hash());
                    return self.push(&before);
                }
                Start::Ended(words) => {
                    self.agent
                        .failed(&format!("slurmctld does not start with the configuration {hash}: {words}"));
                    if is_mismatch(&words) {
                        self.mismatched(&Conf::of_set(&set), words);
                        break;
                    }
                    if hash == given.hash() {
                        why = Some(words);
                    }
                }
            }
        }
        self.starts.failed();
        let config = ConfigState { in_use: String::new(), seen: given.hash(), refused: why };
        self.agent.update(|state| state.config = Some(config));
        Ok(())
    }

    /// Tells that somebody has to decide; each start tries again.
    fn mismatched(&self, conf: &Conf, words: String) {
        let file = cluster_file(conf).display().to_string();
        self.agent.update(|state| state.cluster_mismatch = Some(ClusterMismatch { file, words }));
    }

    /// Sends the configuration to nodes that may still have the one from before.
    fn push(&mut self, before: &str) -> Result<(), Stopped> {
        let Some(set) =
            self.in_use.clone().filter(|_| !before.is_empty() && self.directory_in_use() != before)
        else {
            return Ok(());
        };
        if let Change::Refused(words) | Change::NoAnswer(words) = self.change(&set)? {
            self.agent.failed(&format!("cannot send the configuration to the nodes: {words}"));
        }
        Ok(())
    }

    /// The name of the directory that slurmctld reads.
    fn directory_in_use(&self) -> String {
        let target = fs::read_link(self.sets.in_use()).unwrap_or_default();
        target.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }

    /// Starts with a set and waits until slurmctld answers or has ended.
    fn start(&mut self, set: &FileSet) -> Result<Start, Stopped> {
        let conf = Conf::of_set(set);
        if let Err(error) = self.prepare(&conf) {
            return Ok(Start::Ended(error));
        }
        if !conf.has_slurmdbd() {
            return self.launch(set, None);
        }
        let unregistered = spool(UNREGISTERED).exists();
        if unregistered && self.register(set, &conf).is_ok() {
            self.forget_cluster(&conf);
            return self.launch(set, Some(&conf));
        }
        if !unregistered && self.slurmdbd_listens(&conf).is_ok() {
            return self.launch(set, Some(&conf));
        }
        if !has_cluster_file(&conf) && !unregistered {
            return self.start_unregistered(set);
        }
        let set = if unregistered { with_queued_accounting(set) } else { set.clone() };
        self.launch(&set, None)
    }

    /// The very first start while slurmdbd is down. slurmctld would wait for it for ever, because it does not know the id of
    /// its cluster. Without accounting it makes one up; then it starts with accounting and queues what is to be accounted.
    fn start_unregistered(&mut self, set: &FileSet) -> Result<Start, Stopped> {
        self.agent.say("slurmdbd does not answer: accounting is queued until it does");
        if let Start::Ended(words) = self.launch(&without_accounting(set), None)? {
            return Ok(Start::Ended(words));
        }
        self.daemon.stop(Signal::SIGTERM, STOP);
        if let Err(error) = files::write(&spool(UNREGISTERED), b"", lookup::ROOT, 0o644) {
            return Ok(Start::Ended(error));
        }
        self.launch(&with_queued_accounting(set), None)
    }

    /// Lets slurmctld take the id that slurmdbd gives: the one it has was made up.
    fn forget_cluster(&self, conf: &Conf) {
        self.agent.say("slurmdbd answers: the cluster is registered, and what was queued is accounted");
        // What is not there need not be forgotten.
        let _ = fs::remove_file(cluster_file(conf));
        let _ = fs::remove_file(spool(UNREGISTERED));
    }

    /// Makes the cluster known to slurmdbd. slurmctld registers and sends what is queued side by side; what comes before the
    /// registration, slurmdbd throws away without a word.
    fn register(&self, set: &FileSet, conf: &Conf) -> Result<(), String> {
        self.slurmdbd_listens(conf)?;
        let (Ok(mut sacctmgr), Some(name)) = (programs::command("sacctmgr"), conf.get("ClusterName")) else {
            self.agent
                .say("the image has no sacctmgr: slurmdbd may lose jobs from before the first registration");
            return Ok(());
        };
        self.sets.store(set)?;
        let slurm_conf = self.sets.directory_of(&set.hash()).join("slurm.conf");
        sacctmgr.args(["--immediate", "add", "cluster", name]).env("SLURM_CONF", slurm_conf);
        let printed = self.agent.run(&mut sacctmgr, HELPER)?;
        let words = format!("{}{}", printed.stdout, printed.stderr);
        if printed.ended.well() || words.contains("already exists") {
            return Ok(());
        }
        Err(format!("cannot add the cluster {name}: {}", words.trim()))
    }

    fn slurmdbd_listens(&self, conf: &Conf) -> Result<(), String> {
        let (host, port) = conf.slurmdbd();
        lookup::listens(&self.agent.children, &host, port)
    }

    /// Starts with exactly these files. `waits_for` is given where slurmctld may wait for slurmdbd to register.
    fn launch(&mut self, set: &FileSet, waits_for: Option<&Conf>) -> Result<Start, Stopped> {
        let started = self.take(set).and_then(|()| {
            let mut command = programs::command("slurmctld")?;
            command.arg("-D").arg("-f").arg(self.slurm_conf()).env("SLURM_CONF", self.slurm_conf());
            self.daemon.start(&self.agent.children, &mut command)
        });
        if let Err(error) = started {
            return Ok(Start::Ended(error));
        }
        loop {
            if let Some((ended, words)) = self.daemon.take_end() {
                self.agent.update(|state| state.restarts = state.restarts.saturating_add(1));
                let words = if words.is_empty() { ended.to_string() } else { words };
                return Ok(Start::Ended(words));
            }
            if self.answers() {
                self.show();
                self.agent.update(|state| state.cluster_mismatch = None);
                return Ok(Start::Up);
            }
            if let Some(conf) = waits_for
                && !has_cluster_file(conf)
                && let Err(reason) = self.slurmdbd_listens(conf)
            {
                // It would wait for ever; the next start does without.
                self.daemon.stop(Signal::SIGKILL, STOP);
                return Ok(Start::Ended(format!("slurmdbd went away: {reason}")));
            }
            self.agent.pause(TICK)?;
        }
    }

    fn slurm_conf(&self) -> PathBuf {
        self.sets.in_use().join("slurm.conf")
    }

    /// Makes a set the one that slurmctld reads next.
    fn take(&self, set: &FileSet) -> Result<(), String> {
        self.sets.store(set)?;
        self.sets.use_set(&set.hash())
    }

    /// Shows the set in use to commands in this container, which never see one that is only tried.
    fn show(&self) {
        let shown = self.sets.show().and_then(|()| etc_slurm::show(&self.sets.shown(), Path::new(ETC_SLURM)));
        if let Err(error) = shown {
            self.agent.failed(&error);
        }
    }

    /// Directories and keys with the owner that Slurm wants.
    fn prepare(&mut self, conf: &Conf) -> Result<(), String> {
        let own = lookup::user(&self.agent.children, conf.get("SlurmUser").unwrap_or("root"))?;
        for directory in [Path::new(path::SLURMCTLD_SPOOL), state_directory(conf)] {
            files::make_directory(directory)
                .and_then(|()| files::give_tree(directory, own))
                .map_err(|error| format!("cannot make {}: {error}", directory.display()))?;
            let mode = if directory == Path::new(path::SLURMCTLD_SPOOL) { SPOOL_MODE } else { STATE_MODE };
            // Some volumes have one mode for all. slurmctld starts nevertheless, and complains.
            if let Err(error) = files::restrict(directory, mode) {
                self.agent
                    .say(&format!("cannot take {} away from other users: {error}", directory.display()));
            }
        }
        if let Some(directory) = conf.get("SlurmctldPidFile").and_then(|file| Path::new(file).parent()) {
            files::make_directory(directory)
                .map_err(|error| format!("cannot make {}: {error}", directory.display()))?;
        }
        self.key.changed();
        if let Ok(key) = fs::read(path::JWT_KEY) {
            files::write(Path::new(path::SLURMCTLD_JWT_KEY), &key, own, 0o600)?;
        }
        Ok(())
    }

    fn answers(&self) -> bool {
        let Ok(mut scontrol) = programs::command("scontrol") else { return proc::listens(6817) };
        scontrol.arg("ping").env("SLURM_CONF", self.slurm_conf());
        self.agent.run(&mut scontrol, HELPER).is_ok_and(|printed| printed.stdout.contains(" is UP"))
    }

    /// Looks at what is mounted, and at slurmdbd while the cluster is not registered.
    fn look(&mut self) -> Result<(), Stopped> {
        let Some(in_use) = self.in_use.clone() else { return Ok(()) };
        if let Ok(given) = mounted() {
            let hash = given.hash();
            let new = hash != in_use.hash() && self.refusal_of(&hash).is_none();
            if new && self.retries.due() {
                return self.try_set(given);
            }
            self.report(&hash);
        }
        let conf = Conf::of_set(&in_use);
        if self.key.changed() {
            self.agent.say("the key of tokens has changed");
            if let Err(error) = self.prepare(&conf) {
                self.agent.failed(&error);
            } else if let Change::Refused(words) | Change::NoAnswer(words) = self.change(&in_use)? {
                self.agent.failed(&format!("slurmctld did not take the new key of tokens: {words}"));
            }
        }
        if spool(UNREGISTERED).exists() {
            match self.register(&in_use, &conf) {
                Ok(()) => {
                    self.agent.update(|state| state.waiting_for = None);
                    // What is queued is saved, and sent when it has registered.
                    self.daemon.stop(Signal::SIGTERM, STOP);
                }
                Err(reason) => {
                    self.agent.update(|state| state.waiting_for = Some(format!("slurmdbd: {reason}")))
                }
            }
        }
        Ok(())
    }

    /// Tries a new set in the running slurmctld.
    fn try_set(&mut self, given: FileSet) -> Result<(), Stopped> {
        let hash = given.hash();
        self.agent.say(&format!("trying the configuration {hash}"));
        if let Err(error) = self.prepare(&Conf::of_set(&given)) {
            self.refused(&hash, error);
            return Ok(());
        }
        match self.change(&given)? {
            Change::Done => self.accepted(given),
            Change::Refused(words) => self.refused(&hash, words),
            Change::NoAnswer(words) => {
                self.agent.failed(&format!("cannot reconfigure: {words}"));
                self.retries.failed();
            }
        }
        self.report(&hash);
        Ok(())
    }

    /// Reconfigures with a set. If that fails, the old one is in its place again.
    fn change(&mut self, set: &FileSet) -> Result<Change, Stopped> {
        let old = self.directory_in_use();
        let effective = if spool(UNREGISTERED).exists() { with_queued_accounting(set) } else { set.clone() };
        let (Some(pid), mark) = (self.daemon.pid(), self.daemon.mark()) else {
            return Ok(Change::NoAnswer("slurmctld does not run".into()));
        };
        let before = proc::execution(pid);
        let asked = self.take(&effective).and_then(|()| {
            let mut scontrol = programs::command("scontrol")?;
            // scontrol itself would fail over a bad set, with words of its own.
            scontrol.arg("reconfigure").env("SLURM_CONF", self.sets.directory_of(&old).join("slurm.conf"));
            let printed = self.agent.run(&mut scontrol, HELPER)?;
            if printed.ended.well() { Ok(()) } else { Err(printed.stderr.trim().to_owned()) }
        });
        let outcome = match asked {
            Ok(()) => self.wait_for_change(before.as_deref(), mark)?,
            Err(words) if words.contains("nable to contact") || words.contains("imed out") => {
                Change::NoAnswer(words)
            }
            Err(words) => Change::Refused(words),
        };
        if !matches!(outcome, Change::Done)
            && let Err(error) = self.sets.use_set(&old)
        {
            self.agent.failed(&error);
        }
        Ok(outcome)
    }

    /// slurmctld executes itself anew, and answers then, or ends.
    fn wait_for_change(&mut self, before: Option<&[u8]>, mark: u64) -> Result<Change, Stopped> {
        let deadline = Instant::now() + RECONFIGURE;
        while Instant::now() < deadline {
            let Some(pid) = self.daemon.pid() else {
                // The main loop starts it again; its last lines may still be on their way.
                std::thread::sleep(Duration::from_millis(100));
                let words = self.daemon.words_since(mark);
                return Ok(if is_mismatch(&words) {
                    Change::NoAnswer(words)
                } else {
                    Change::Refused(words)
                });
            };
            if proc::execution(pid).as_deref() != before && self.answers() {
                self.show();
                return Ok(Change::Done);
            }
            self.agent.pause(TICK)?;
        }
        Ok(Change::NoAnswer(format!("slurmctld did not come back within {} s", RECONFIGURE.as_secs())))
    }

    fn accepted(&mut self, set: FileSet) {
        let hash = set.hash();
        self.agent.say(&format!("the configuration is {hash}"));
        if let Err(error) = self.sets.set_good(&hash) {
            self.agent.failed(&error);
        }
        self.in_use = Some(set);
        self.starts.reset();
        self.retries.reset();
        self.report(&hash);
    }

    fn refused(&mut self, hash: &str, why: String) {
        self.agent
            .failed(&format!("Slurm refuses the configuration {hash}, the last good one is used: {why}"));
        let refused = Refused { hash: hash.to_owned(), version: self.version.clone(), why };
        if let Err(error) = self.sets.set_refused(&refused) {
            self.agent.failed(&error);
        }
    }

    /// Why this Slurm refused a set, if it did.
    fn refusal_of(&self, hash: &str) -> Option<String> {
        let refused = self.sets.refused()?;
        (refused.hash == hash && refused.version == self.version).then_some(refused.why)
    }

    fn report(&self, seen: &str) {
        let in_use = self.in_use.as_ref().map(FileSet::hash).unwrap_or_default();
        let refused = if seen == in_use { None } else { self.refusal_of(seen) };
        let config = ConfigState { in_use, seen: seen.to_owned(), refused };
        self.agent.update(|state| state.config = Some(config));
    }
}
