//! The set of configuration files as clients use it: slurmrestd and the commands of a login pod. A new set is taken when
//! Slurm's own commands can read it, else the old one stays.

use std::path::{Path, PathBuf};
use std::time::Duration;

use slurm::agent::path;

use super::RUN;
use crate::agent::Agent;
use crate::conf_sets::ConfSets;
use crate::etc_slurm::{self, ETC_SLURM};
use crate::files::FileSet;
use crate::programs;
use crate::slurm_conf::Conf;

/// A private copy of the mounted set.
pub struct ClientConf {
    sets: ConfSets,
    in_use: FileSet,
    tried: String,
}

impl ClientConf {
    /// Takes the set that is mounted. The first one has to do, good or bad.
    ///
    /// # Errors
    ///
    /// There is none yet, or it cannot be copied.
    pub fn new(agent: &Agent) -> Result<Self, String> {
        let sets = ConfSets::new(Path::new(RUN));
        let in_use = mounted()?;
        sets.store(&in_use)?;
        sets.use_set(&in_use.hash())?;
        let conf = Self { sets, tried: in_use.hash(), in_use };
        conf.show(agent);
        Ok(conf)
    }

    fn show(&self, agent: &Agent) {
        if let Err(error) = etc_slurm::show(&self.sets.in_use(), Path::new(ETC_SLURM)) {
            agent.failed(&error);
        }
    }

    /// The slurm.conf in use, by a name that stays the same.
    pub fn slurm_conf(&self) -> PathBuf {
        self.sets.in_use().join("slurm.conf")
    }

    /// What stands in it.
    pub fn conf(&self) -> Conf {
        Conf::of_set(&self.in_use)
    }

    /// Takes a new set if one is mounted; says whether another is in use now.
    pub fn refresh(&mut self, agent: &Agent) -> bool {
        let Ok(set) = mounted() else { return false };
        let hash = set.hash();
        if hash == self.tried {
            return false;
        }
        self.tried.clone_from(&hash);
        let taken = self.sets.store(&set).and_then(|()| {
            self.check(agent, &hash)?;
            self.sets.use_set(&hash)?;
            self.sets.set_good(&hash)
        });
        match taken {
            Ok(()) => {
                agent.say(&format!("the configuration is {hash} now"));
                self.in_use = set;
                self.show(agent);
                true
            }
            Err(error) => {
                agent.failed(&format!("the new configuration {hash} is not used: {error}"));
                false
            }
        }
    }

    /// Whether a command can read a set.
    fn check(&self, agent: &Agent, hash: &str) -> Result<(), String> {
        let Ok(mut scontrol) = programs::command("scontrol") else { return Ok(()) };
        scontrol.arg("ping").env("SLURM_CONF", self.sets.directory_of(hash).join("slurm.conf"));
        match agent.run(&mut scontrol, Duration::from_secs(30)) {
            // That slurmctld does not answer is no fault of the set.
            Ok(printed) if printed.stderr.contains("fatal:") => Err(printed.stderr.trim().to_owned()),
            _ => Ok(()),
        }
    }
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
