//! From what is there to how each part stands.

use std::collections::HashMap;

use api::nebius::slurm_cluster::{Maintenance, PartitionConfigType};
use api::nebius::{NodeSet, SlurmCluster, jailed_config_condition};
use engine::view::WorkloadView;
use kube::ResourceExt as _;
use render::validate::{Database, ValidatedCluster};
use render::{Component, Facts, PopulateMark, Rendered, overwrites_jail};
use slurm::agent::AgentState;

use super::explain::{self, Trouble};
use super::live::Live;
use super::parts::{Count, PARTS, Part, State};
use super::populate;
use crate::caches::Caches;
use crate::references::References;

/// What the parts of a cluster are judged by.
pub struct Evidence<'a> {
    /// The caches.
    pub caches: &'a Caches,
    /// The cluster.
    pub validated: &'a ValidatedCluster,
    /// What it was rendered with.
    pub facts: &'a Facts,
    /// What was rendered.
    pub rendered: &'a [Rendered],
    /// What is there.
    pub live: &'a Live,
    /// What agents of pods that are not ready said, by pod.
    pub agents: &'a HashMap<String, AgentState>,
}

impl Evidence<'_> {
    /// How each part stands.
    pub fn parts(&self) -> Vec<Part> {
        PARTS
            .iter()
            .map(|(component, condition, name)| Part { condition, state: self.state(*component, name) })
            .collect()
    }

    fn state(&self, component: Component, name: &str) -> State {
        if let Some(off) = self.off(component) {
            return State::Off(off);
        }
        if self.validated.in_maintenance() && self.is_stopped(component) {
            return State::Maintenance;
        }
        if let Some(waits) = self.start_waits(component) {
            return State::NotReady(Trouble::waits(format!("{name}: {waits}")));
        }
        match component {
            Component::Controller => self.workload(component, name, self.live.controller.as_deref()),
            Component::Login => self.workload(component, name, self.live.login.as_deref()),
            Component::Rest => self.rest(name),
            Component::Accounting => self.accounting(name),
            Component::PopulateJail => self.populate_jail(),
            Component::SConfigController => self.sconfig_controller(name),
            _ => self.workers(name),
        }
    }

    /// Why a part is not wanted; none if it is.
    fn off(&self, component: Component) -> Option<String> {
        let validated = self.validated;
        let text = match component {
            Component::Accounting if matches!(validated.accounting, Ok(None)) => {
                "spec.slurmNodes.accounting.enabled is false"
            }
            Component::Login if validated.login.as_ref().is_ok_and(|login| login.size == 0) => {
                "spec.slurmNodes.login.size is 0"
            }
            Component::PopulateJail if self.validated.maintenance == Maintenance::SkipPopulateJail => {
                "spec.maintenance is skipPopulateJail: no Job fills the jail, it is taken as it is; login and worker pods \
                 wait until it holds a root file system"
            }
            Component::PopulateJail
                if self.validated.maintenance == Maintenance::DownscaleAndDeletePopulateJail =>
            {
                "spec.maintenance is downscaleAndDeletePopulateJail"
            }
            Component::Worker if self.live.sets.is_empty() && !self.wants_workers() => {
                "there are no workers: spec.slurmNodes.worker has none, and no NodeSet belongs to this cluster"
            }
            _ => return None,
        };
        Some(text.into())
    }

    fn wants_workers(&self) -> bool {
        match &self.validated.workers {
            Ok(workers) => workers.as_ref().is_some_and(|workers| workers.size > 0),
            Err(_) => true,
        }
    }

    fn is_stopped(&self, component: Component) -> bool {
        let running = &self.facts.running;
        match component {
            Component::Controller => !running.controller,
            Component::Login => !running.login,
            Component::Rest => !running.rest,
            Component::Accounting => !running.accounting,
            Component::SConfigController => !running.controller,
            // It is what some kinds of maintenance are for.
            Component::PopulateJail => false,
            _ => self.live.workers().next().is_none(),
        }
    }

    /// Why a part has no pods yet that is not stopped for maintenance any more; none if it may have them.
    fn start_waits(&self, component: Component) -> Option<&'static str> {
        let running = &self.facts.running;
        let waits = match component {
            Component::Login => !running.login,
            Component::Worker => !running.workers && self.wants_workers(),
            _ => false,
        };
        if !waits || self.validated.in_maintenance() {
            return None;
        }
        Some(if overwrites_jail(self.validated, &self.facts.populate) {
            "started when the jail has been overwritten, see JailPopulated"
        } else {
            "started when slurmctld is ready"
        })
    }

    fn workload<K>(&self, component: Component, name: &str, live: Option<&WorkloadView<K>>) -> State {
        let Some(live) = live else {
            return match self.broken(component) {
                Some(trouble) => State::NotReady(trouble),
                None => State::NotReady(Trouble::waits(format!("{name}: being made"))),
            };
        };
        let count = Count {
            ready: live.status.ready_replicas,
            wanted: live.spec.replicas,
            is_settled: live.is_observed(),
        };
        count.state(name, self.trouble(component))
    }

    /// Why a part has no objects: its part of the spec is wrong.
    fn broken(&self, component: Component) -> Option<Trouble> {
        let problems = self.validated.problems(component);
        if !self.validated.is_broken(component) {
            return None;
        }
        let problems: Vec<String> = problems.iter().map(ToString::to_string).collect();
        Some(Trouble::missing(problems.join("; ")))
    }

    /// What is known to be wrong with the pods of a part: first what is missing, then what pods and agents say.
    fn trouble(&self, component: Component) -> Option<Trouble> {
        if let Some(missing) = self.missing(component) {
            return Some(missing);
        }
        let pods = self.live.pods_of(component);
        let not_ready = || pods.iter().filter(|pod| !pod.is_ready());
        not_ready().find_map(|pod| explain::pod_trouble(pod)).or_else(|| {
            not_ready().find_map(|pod| explain::agent_trouble(pod, self.agents.get(&pod.name_any())?))
        })
    }

    /// What the pods of a part need and is not there.
    fn missing(&self, component: Component) -> Option<Trouble> {
        let mut references = References::default();
        for rendered in self.rendered.iter().filter(|rendered| rendered.component == component) {
            references.extend(References::of(&rendered.object));
        }
        let namespace = self.validated.names().namespace();
        let missing = explain::missing_references(self.caches, namespace, &references);
        let messages: Vec<String> = missing.into_iter().map(|trouble| trouble.message).collect();
        (!messages.is_empty()).then(|| Trouble::missing(messages.join("; ")))
    }

    fn rest(&self, name: &str) -> State {
        let Ok(rest) = &self.validated.rest else {
            return self.workload(Component::Rest, name, self.live.rest.as_deref());
        };
        if rest.image(self.facts).is_none() && self.live.rest.is_none() {
            let trouble = match &self.facts.slurmctld_programs {
                None => Trouble::waits(
                    "slurmrestd: waiting for slurmctld to tell whether its image holds slurmrestd"
                        .to_string(),
                ),
                Some(_) => Trouble::missing(
                    "spec.slurmNodes.rest.rest.image: there is no image with slurmrestd: slurmctld's holds none, and the \
                     operator has no default; name an image here, or set images.slurmrestd of the operator",
                ),
            };
            return State::NotReady(trouble);
        }
        self.workload(Component::Rest, name, self.live.rest.as_deref())
    }

    /// The jail: the Job that fills it.
    fn populate_jail(&self) -> State {
        if let Some(trouble) = self.broken(Component::PopulateJail) {
            return State::NotReady(trouble);
        }
        let job = self.live.populate_jail.as_deref();
        let (facts, maintenance) = (&self.facts.populate, self.validated.maintenance);
        let wish = facts.wish.map(PopulateMark::Overwrite);
        let is_asked = maintenance == Maintenance::DownscaleAndOverwritePopulateJail;
        // A Job that was made for an earlier wish tells nothing of this one.
        if is_asked && (wish.is_none() || facts.mark != wish) {
            let message = "the jail is overwritten as soon as no login and no worker pod uses it";
            return State::NotReady(Trouble::waits(message));
        }
        let waits = self.missing(Component::PopulateJail).filter(|_| job.is_none_or(|job| !job.is_done()));
        let state = populate::state(job, &self.live.pods_of(Component::PopulateJail), waits);
        let overwrite = self.validated.populate_jail.as_ref().is_ok_and(|populate| populate.overwrite);
        if overwrite && facts.mark == Some(PopulateMark::Fill) {
            populate::not_overwritten(state)
        } else {
            state
        }
    }

    /// The program that writes files into the jail, and whether Slurm's configuration has come there: without it users' commands do
    /// not find slurmctld.
    fn sconfig_controller(&self, name: &str) -> State {
        let component = Component::SConfigController;
        let state = self.workload(component, name, self.live.sconfig_controller.as_deref());
        if state != State::Ready {
            return state;
        }
        let status = self.live.jailed_config.as_ref().and_then(|config| config.ok()?.status.as_ref());
        let condition = |type_: &str| {
            let mut conditions = status?.conditions.iter().flatten();
            conditions.find(|condition| condition.type_ == type_)
        };
        let written = condition(jailed_config_condition::FILES_WRITTEN);
        // Files of an earlier configuration serve until the next is there, or while Slurm refuses that.
        let has_files =
            status.and_then(|status| status.files.as_ref()).is_some_and(|files| !files.is_empty());
        let completed = condition(jailed_config_condition::UPDATE_ACTIONS_COMPLETED);
        let is_renewed = has_files
            && completed.is_some_and(|completed| {
                [jailed_config_condition::REFRESH, jailed_config_condition::REFUSED]
                    .contains(&&*completed.reason)
            });
        match written {
            Some(written) if written.status == "True" || is_renewed => State::Ready,
            Some(written) if !written.message.is_empty() => State::NotReady(Trouble::waits(format!(
                "Slurm's configuration is not in the jail yet: {}",
                written.message
            ))),
            _ => State::NotReady(Trouble::waits("Slurm's configuration is not in the jail yet")),
        }
    }

    /// slurmdbd, and first its database.
    fn accounting(&self, name: &str) -> State {
        let database = match &self.validated.accounting {
            Ok(Some(accounting)) => Some(accounting.database(self.facts)),
            _ => None,
        };
        let trouble = match database {
            Some(Database::External(external)) => match (&external.password, &self.facts.database_password) {
                (Some((secret, key)), None) => Some(Trouble::missing(format!(
                    "spec.slurmNodes.accounting.externalDB.passwordSecretKeyRef: waiting for key {key} of Secret {secret}"
                ))),
                _ => None,
            },
            Some(Database::Operator(_)) => self.mariadb(),
            Some(Database::Plain(plain)) if plain.image.is_none() => Some(Trouble::missing(
                "there is no image for the database: set images.mariadb of the operator, or use externalDB",
            )),
            Some(Database::Plain(_)) => self.plain_database(),
            None => None,
        };
        match self.workload(Component::Accounting, name, self.live.accounting.as_deref()) {
            State::NotReady(own) => {
                let message = match &trouble {
                    Some(trouble) => format!("{}; {}", own.message, trouble.message),
                    None => own.message,
                };
                let is_missing = own.is_missing || trouble.is_some_and(|trouble| trouble.is_missing);
                State::NotReady(Trouble { message, is_missing })
            }
            other => trouble.map_or(other, State::NotReady),
        }
    }

    fn mariadb(&self) -> Option<Trouble> {
        let name = self.validated.names().database();
        let Some(mariadb) = &self.live.mariadb else {
            return Some(Trouble::waits(format!("MariaDB {name}: being made")));
        };
        match mariadb.status.ready() {
            Some(ready) if &*ready.status == "True" => None,
            Some(ready) => {
                let why = ready.message.as_deref().or(ready.reason.as_deref()).unwrap_or_default();
                Some(Trouble::waits(format!("MariaDB {name} is not ready: {why}")))
            }
            None => Some(Trouble::waits(format!("MariaDB {name}: its operator has said nothing yet"))),
        }
    }

    fn plain_database(&self) -> Option<Trouble> {
        match self.workload(Component::Database, "database", self.live.database.as_deref()) {
            State::NotReady(trouble) => Some(trouble),
            _ => None,
        }
    }

    /// The workers of all NodeSets of the cluster.
    fn workers(&self, name: &str) -> State {
        let sets: Vec<&NodeSet> = self.live.node_sets().collect();
        let own = self.validated.names().worker();
        if self.wants_workers() && !sets.iter().any(|set| set.name_any() == own) {
            let trouble = self.broken(Component::Worker);
            return State::NotReady(trouble.unwrap_or_else(|| Trouble::waits(format!("{name}: being made"))));
        }
        let wanted: i32 = sets.iter().map(|set| set.spec.replicas).sum();
        let unwell = sets.iter().find(|set| ready_of(set) < set.spec.replicas);
        let trouble = unwell.and_then(|set| {
            let conditions = set.status.as_ref().and_then(|status| status.conditions.as_ref());
            let ready = conditions
                .into_iter()
                .flatten()
                .find(|condition| condition.type_ == api::nebius::node_set_condition::PODS_READY)?;
            if ready.message.is_empty() {
                return None;
            }
            let message = format!("NodeSet {}: {}", set.name_any(), ready.message);
            Some(Trouble { message, is_missing: ready.reason == crate::nodeset::MISSING })
        });
        let ready = self.ready_workers().min(wanted);
        Count { ready, wanted, is_settled: unwell.is_none() }.state(name, trouble)
    }

    /// Workers that are ready.
    pub fn ready_workers(&self) -> i32 {
        self.live.node_sets().map(ready_of).sum()
    }

    /// Login pods that are ready.
    pub fn ready_login(&self) -> i32 {
        self.live.login.as_ref().map_or(0, |login| login.status.ready_replicas)
    }

    /// Pods of the program that writes files into the jail that are ready.
    pub fn ready_sconfig_controller(&self) -> i32 {
        self.live.sconfig_controller.as_ref().map_or(0, |deployment| deployment.status.ready_replicas)
    }

    /// NodeSets that partitions name and that do not exist; none if no partition names any.
    pub fn unknown_sets(&self, cluster: &SlurmCluster) -> Option<Vec<String>> {
        let configuration = &cluster.spec.partition_configuration;
        if configuration.config_type != PartitionConfigType::Structured {
            return None;
        }
        let mut named: Vec<&String> = configuration
            .partitions
            .iter()
            .flatten()
            .flat_map(|partition| partition.node_set_refs.iter().flatten())
            .collect();
        named.sort();
        named.dedup();
        if named.is_empty() {
            return None;
        }
        let unknown = named.into_iter().filter(|name| !self.facts.node_sets.contains_key(*name));
        Some(unknown.cloned().collect())
    }
}

fn ready_of(set: &NodeSet) -> i32 {
    set.status.as_ref().and_then(|status| status.replicas).unwrap_or(0)
}
