//! slurmdbd, once its database answers. Another configuration, key or certificate starts it anew.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use nix::sys::signal::Signal;
use slurm::agent::path;

use super::RUN;
use super::keep::{Plan, keep};
use crate::agent::{Agent, Stopped};
use crate::daemon::Daemon;
use crate::files::{self, Watched};
use crate::slurm_conf::Conf;
use crate::{lookup, munge_socket, proc, programs};

const DEFAULT_PORT: u16 = 6819;
const DATABASE_PORT: u16 = 3306;

struct Slurmdbd {
    watched: Watched,
    port: u16,
}

/// Runs slurmdbd.
pub fn run(agent: &Agent) -> Result<(), String> {
    let waited = agent.wait_for(munge_socket::listens).and_then(|()| {
        agent.wait_for(|| {
            let conf = Conf::of_file(Path::new(path::SLURMDBD_CONFIG))?;
            let (host, port) = database(&conf);
            lookup::listens(&agent.children, &host, port).map_err(|reason| format!("the database: {reason}"))
        })
    });
    match waited {
        Err(Stopped) => Ok(()),
        Ok(()) => {
            let mut plan = Slurmdbd { watched: Watched::default(), port: DEFAULT_PORT };
            keep(agent, "slurmdbd", &mut plan)
        }
    }
}

/// Host and port of the database.
fn database(conf: &Conf) -> (String, u16) {
    let host = conf.get("StorageHost").unwrap_or("localhost").to_owned();
    (host, conf.port("StoragePort", DATABASE_PORT))
}

/// Files that the configuration names: keys and certificates.
fn files_in(conf: &Conf) -> Vec<PathBuf> {
    let parameters = conf.get("StorageParameters").unwrap_or_default();
    let values = parameters.split(',').filter_map(|pair| pair.split_once('=')).map(|(_, value)| value.trim());
    values.filter(|value| value.starts_with('/')).map(PathBuf::from).collect()
}

impl Plan for Slurmdbd {
    fn command(&mut self, agent: &Agent) -> Result<Command, String> {
        let mounted = Path::new(path::SLURMDBD_CONFIG);
        let conf = Conf::of_file(mounted)?;
        let own = lookup::user(&agent.children, conf.get("SlurmUser").unwrap_or("root"))?;
        let mut watched = vec![mounted.to_owned(), path::JWT_KEY.into()];
        watched.extend(files_in(&conf));
        self.watched = Watched::new(watched);
        self.watched.changed();
        self.port = conf.port("DbdPort", DEFAULT_PORT);

        let spool = Path::new(path::SLURMDBD_SPOOL);
        files::make_directory(spool)
            .and_then(|()| files::give_tree(spool, own))
            .map_err(|error| format!("cannot make {}: {error}", spool.display()))?;
        if let Ok(key) = fs::read(path::JWT_KEY) {
            files::write(Path::new(path::SLURMDBD_JWT_KEY), &key, own, 0o600)?;
        }
        if let Some(directory) = conf.get("PidFile").and_then(|file| Path::new(file).parent()) {
            files::make_directory(directory)
                .map_err(|error| format!("cannot make {}: {error}", directory.display()))?;
        }
        let directory = Path::new(RUN).join("slurmdbd");
        let text =
            fs::read(mounted).map_err(|error| format!("cannot read {}: {error}", mounted.display()))?;
        files::write(&directory.join("slurmdbd.conf"), &text, own, 0o600)?;
        let mut command = programs::command("slurmdbd")?;
        // slurmdbd.conf is looked for beside slurm.conf, whether that is there or not.
        command.arg("-D").env("SLURM_CONF", directory.join("slurm.conf"));
        Ok(command)
    }

    fn look(&mut self, agent: &Agent, daemon: &mut Daemon) {
        if self.watched.changed() {
            agent.say("the configuration, a key or a certificate has changed: slurmdbd is started with it");
            daemon.stop(Signal::SIGTERM, self.stop_patience());
            return;
        }
        // A database that refuses does not end slurmdbd: it tries for ever.
        let listens = proc::listens(self.port);
        if !listens && let Some(complaint) = daemon.complaint() {
            agent.failed(&format!("slurmdbd: {complaint}"));
        }
        let waits = (!listens).then(|| format!("slurmdbd does not listen on port {} yet", self.port));
        agent.update(|state| state.waiting_for = waits);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn database_and_certificates_are_read_from_the_configuration() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("slurmdbd.conf");
        fs::write(
            &file,
            "StorageHost=db.example\nStorageParameters=SSL_CA=/mnt/ca/ca.crt,SSL_KEY=/mnt/k,MODE=x\n",
        )
        .unwrap();
        let conf = Conf::of_file(&file).unwrap();
        assert_eq!(database(&conf), ("db.example".into(), 3306));
        assert_eq!(files_in(&conf), [Path::new("/mnt/ca/ca.crt"), Path::new("/mnt/k")]);
    }
}
