//! The jail: a root file system that all pods share. Users of login pods and jobs of workers live in it; daemons only know
//! who its users are, and neither read their configuration from it nor run anything of it.

mod complement;
mod enroot;
mod gpu;
mod identities;
mod mounts;
pub mod ready;
mod root;
mod slurm_client;
pub mod users;

use std::path::Path;

use slurm::agent::{command, env, path};

pub use self::complement::Pod;
use self::complement::complement;
use self::mounts::Mounts;
use crate::agent::{Agent, Stopped};

/// Containers that know the jail's users.
const WITH_USERS: [&str; 5] =
    [command::SLURMCTLD, command::SLURMDBD, command::SLURMRESTD, command::SLURMD, command::LOGIN];

/// What the jail is to this container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Use {
    None,
    Users,
    Root,
}

impl Use {
    fn of(value: Option<&str>) -> Self {
        match value {
            Some("root") => Use::Root,
            Some("users") => Use::Users,
            _ => Use::None,
        }
    }

    fn of_this_container() -> Self {
        Self::of(std::env::var(env::JAIL).ok().as_deref())
    }
}

/// Whether this container knows the jail's users.
pub fn has_users(role: &str) -> bool {
    Use::of_this_container() != Use::None && WITH_USERS.contains(&role)
}

/// The jail as the root of users, with everything that this pod has mounted in it.
#[derive(Default)]
pub struct Jail {
    mounts: Option<Mounts>,
    /// Libraries of the driver are shown, or never will be.
    has_dummies: bool,
}

impl Jail {
    /// Waits until the jail is complete, mounts what belongs into it, and knows its users. Nothing to do where the pod has no jail.
    ///
    /// # Errors
    ///
    /// The agent was told to stop.
    pub fn enter(agent: &Agent, pod: Pod) -> Result<Self, Stopped> {
        let mut jail = Self::default();
        if Use::of_this_container() != Use::Root {
            return Ok(jail);
        }
        agent.wait_for(|| {
            let jail = Path::new(path::JAIL);
            match ready::is_ready(jail) {
                Ok(true) => Ok(()),
                Ok(false) => Err(format!(
                    "the jail is not complete yet: there is no {}, which the Job populate-jail makes; with skipPopulateJail fill the \
                     jail yourself",
                    path::JAIL_MARKER
                )),
                Err(error) => Err(format!("the jail: cannot look at {}: {error}", jail.display())),
            }
        })?;
        let entered = agent.wait_for(|| jail.mount(agent, pod));
        if entered.is_err() {
            jail.leave(agent);
        }
        entered?;
        users::refresh(agent);
        Ok(jail)
    }

    fn mount(&mut self, agent: &Agent, pod: Pod) -> Result<(), String> {
        let mounts = match self.mounts.take() {
            Some(mounts) => mounts,
            None => Mounts::new(Path::new(path::JAIL))
                .map_err(|error| format!("the jail: cannot open {}: {error}", path::JAIL))?,
        };
        let outcome = complement(agent, self.mounts.insert(mounts), pod);
        if let Err(error) = &outcome {
            agent.failed(error);
        }
        outcome
    }

    /// Adds what a worker has made possible since: a login pod is often there before the first of them.
    pub fn look(&mut self, agent: &Agent) {
        let Some(mounts) = self.mounts.as_ref().filter(|_| !self.has_dummies) else { return };
        match gpu::show_dummies(mounts) {
            Ok(shown) => self.has_dummies = shown,
            Err(error) => agent.failed(&error),
        }
    }

    /// Takes all mounts away.
    pub fn leave(&mut self, agent: &Agent) {
        let Some(mounts) = self.mounts.take() else { return };
        for failure in mounts.undo() {
            agent.failed(&failure);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_container_has_a_jail_only_if_it_was_told_so() {
        assert_eq!([Use::of(None), Use::of(Some("")), Use::of(Some("maybe"))], [Use::None; 3]);
        assert_eq!((Use::of(Some("root")), Use::of(Some("users"))), (Use::Root, Use::Users));
    }
}
