//! A slurmctld that is given one configuration after another.

use std::fs;
use std::sync::{Mutex, MutexGuard, PoisonError};

use anyhow::Result;
use rig::SlurmMachine;
use rig::slurm::{Options, Running, Version};
use slurm::conf::SlurmVersion;

const SLURMCTLD: &str = "slurmctld";

/// What slurmctld makes of a configuration.
#[derive(Debug)]
pub enum Verdict {
    /// It runs.
    Accepted,
    /// It ended, with what it wrote.
    Refused(String),
}

/// The one slurmctld of a version for all tests of configuration.
pub struct Controller {
    slurm: SlurmMachine,
}

static CONTROLLERS: [Mutex<Option<Controller>>; Version::ALL.len()] =
    [const { Mutex::new(None) }; Version::ALL.len()];

/// Does something with the slurmctld of each version. Tests wait for each other here.
pub fn with_each(test: impl Fn(&Controller, SlurmVersion) -> Result<()>) -> Result<()> {
    for version in Version::ALL {
        let mut controller: MutexGuard<'_, Option<Controller>> =
            CONTROLLERS[version as usize].lock().unwrap_or_else(PoisonError::into_inner);
        if controller.is_none() {
            *controller = Some(Controller { slurm: SlurmMachine::start(Options::nothing_started(version))? });
        }
        if let Some(controller) = controller.as_ref() {
            let known = version.to_string().parse().map_err(anyhow::Error::msg)?;
            test(controller, known).map_err(|error| error.context(format!("Slurm {version}")))?;
        }
    }
    Ok(())
}

impl Controller {
    /// Starts slurmctld with these files and nothing else, and without memory of earlier ones.
    pub fn start(&self, files: &[(&str, &str)]) -> Result<Verdict> {
        if self.slurm.running(SLURMCTLD) == Some(Running::Yes) {
            self.slurm.stop(SLURMCTLD)?;
        }
        self.slurm.forget_state()?;
        for name in ["topology.conf", "topology.yaml", "gres.conf"] {
            let _ = fs::remove_file(self.slurm.path(&format!("/etc/slurm/{name}")));
        }
        for (name, text) in files {
            self.slurm.write_conf(name, text)?;
        }
        let before = self.slurm.logs(SLURMCTLD).len();
        let started = match self.slurm.running(SLURMCTLD) {
            None => self.slurm.start_slurmctld(),
            Some(_) => self.slurm.start_again(SLURMCTLD),
        };
        match (started, self.slurm.running(SLURMCTLD)) {
            (Ok(()), _) => Ok(Verdict::Accepted),
            (Err(_), Some(Running::Ended(_))) => {
                let log = self.slurm.logs(SLURMCTLD);
                Ok(Verdict::Refused(log.get(before..).unwrap_or(&log).to_owned()))
            }
            (Err(error), _) => Err(error),
        }
    }

    /// Starts slurmctld with these files, which it must accept.
    pub fn start_well(&self, files: &[(&str, &str)]) -> Result<()> {
        match self.start(files)? {
            Verdict::Accepted => Ok(()),
            Verdict::Refused(log) => anyhow::bail!("slurmctld refused {files:#?}:\n{log}"),
        }
    }

    /// Runs a command inside.
    pub fn exec(&self, command: &[&str]) -> Result<String> {
        self.slurm.exec(command)
    }

    /// Writes a file of `/etc/slurm`.
    pub fn write_conf(&self, name: &str, text: &str) -> Result<()> {
        self.slurm.write_conf(name, text)
    }

    /// Runs `scontrol show`, and gives each line of its one-line form as words `key=value`.
    pub fn show(&self, what: &str) -> Result<Vec<Shown>> {
        let text = self.exec(&["scontrol", "show", what, "--all", "--oneliner"])?;
        Ok(text.lines().filter(|line| !line.trim().is_empty()).map(|line| Shown(line.to_owned())).collect())
    }
}

/// A line that scontrol printed.
#[derive(Debug)]
pub struct Shown(String);

impl Shown {
    /// The value of a word, or nothing if there is no such word.
    pub fn get(&self, key: &str) -> &str {
        self.0
            .split_whitespace()
            .find_map(|word| word.strip_prefix(key)?.strip_prefix('='))
            .unwrap_or_default()
    }
}
