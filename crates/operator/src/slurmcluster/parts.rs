//! How the parts of a cluster stand: each becomes one condition.

use api::nebius::slurm_cluster::condition;
use render::Component;

use super::explain::Trouble;

/// How a part stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// The user does not want it. The text says so.
    Off(String),
    /// Stopped for maintenance.
    Maintenance,
    /// As it should be: so many of so many are ready.
    Ready,
    /// The same, and something that the user may not expect.
    ReadyBut(String),
    /// Not as it should be, and why.
    NotReady(Trouble),
}

/// A part and how it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// The type of its condition.
    pub condition: &'static str,
    /// How it stands.
    pub state: State,
}

/// The condition of slurmrestd, which the original does not have: there it is optional, here the operator needs it.
pub const REST_AVAILABLE: &str = "RestAvailable";
/// The condition of the Job that fills the jail, which the original does not have: there nothing is told while it waits.
pub const JAIL_POPULATED: &str = "JailPopulated";
/// Whether slurmctld runs with the configuration that the spec asks for.
pub const CONFIGURATION_APPLIED: &str = "ConfigurationApplied";
/// True while a cluster that is being deleted waits for its workers.
pub const WAITING_FOR_WORKERS: &str = "WaitingForWorkers";

/// Parts that have a condition, with their names for people.
pub const PARTS: [(Component, &str, &str); 7] = [
    (Component::PopulateJail, JAIL_POPULATED, "populate-jail"),
    (Component::SConfigController, condition::S_CONFIG_CONTROLLER_AVAILABLE, "sconfigcontroller"),
    (Component::Controller, condition::CONTROLLERS_AVAILABLE, "slurmctld"),
    (Component::Worker, condition::WORKERS_AVAILABLE, "workers"),
    (Component::Login, condition::LOGIN_AVAILABLE, "login pods"),
    (Component::Accounting, condition::ACCOUNTING_AVAILABLE, "slurmdbd"),
    (Component::Rest, REST_AVAILABLE, "slurmrestd"),
];

/// How many pods a workload has and should have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Count {
    /// Ready pods.
    pub ready: i32,
    /// Pods that should be.
    pub wanted: i32,
    /// Whether the numbers are about the spec as it is now.
    pub is_settled: bool,
}

impl Count {
    /// How a part with these pods stands; `trouble` is what is known to be wrong with them.
    pub fn state(self, name: &str, trouble: Option<Trouble>) -> State {
        if self.is_settled && self.ready >= self.wanted {
            return State::Ready;
        }
        let numbers = format!("{name}: {} of {} ready", self.ready, self.wanted);
        State::NotReady(match trouble {
            Some(trouble) => Trouble { message: format!("{numbers}; {}", trouble.message), ..trouble },
            None => Trouble::waits(numbers),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_ready_when_all_its_pods_are_and_the_count_is_about_now() {
        let count = |ready, wanted, is_settled| Count { ready, wanted, is_settled };
        assert_eq!(count(2, 2, true).state("login pods", None), State::Ready);
        assert!(matches!(count(2, 2, false).state("login pods", None), State::NotReady(_)));
        let State::NotReady(trouble) = count(1, 2, true).state("login pods", Some(Trouble::missing("x")))
        else {
            panic!("one is missing")
        };
        assert_eq!((trouble.message.as_str(), trouble.is_missing), ("login pods: 1 of 2 ready; x", true));
    }
}
