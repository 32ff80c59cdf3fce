//! One look at one cluster: fetch, validate, render, apply, observe, tell.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use api::nebius::SlurmCluster;
use api::nebius::slurm_cluster::SlurmClusterStatus;
use engine::apply::{Kind, Owner};
use engine::controller::Wake;
use engine::view::PodView;
use engine::{Key, malformed, status};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{Resource as _, ResourceExt as _};
use render::{
    Component, Facts, Severity, ValidatedCluster, config_hash, labels, overwrites_jail, render, validate,
};
use slurm::agent::AgentState;

use super::Memory;
use super::agents::{self, Verdict};
use super::desired::desired;
use super::ending;
use super::facts;
use super::jailed::{self, JailedFiles};
use super::kept_nodes::{self, KeptNodes};
use super::live::Live;
use super::lost_pods;
use super::observe::Evidence;
use super::order;
use super::pods;
use super::status::{Observation, fold, news, wish};
use crate::context::Context;
use crate::error::Error;
use crate::references::References;
use crate::secrets;

/// How soon an agent is asked again while slurmctld looks at a new configuration.
const SOON: Duration = Duration::from_secs(2);
/// How soon others are: a part that does not get ready, a login pod with sessions, a worker that no cache shows.
const LATER: Duration = Duration::from_secs(10);

/// Brings a cluster one step nearer to what its spec says.
pub async fn reconcile(context: &Context, memory: &Memory, key: Key) -> Result<Wake, Error> {
    // The cluster goes on, whatever is wrong with a JailedConfig.
    let released = jailed::release(context, &key.namespace).await;
    let wake = reconcile_cluster(context, memory, key).await?;
    released.map(|()| wake)
}

async fn reconcile_cluster(context: &Context, memory: &Memory, key: Key) -> Result<Wake, Error> {
    let Some(object) = context.caches.clusters.get(&key) else {
        forget(context, memory, &key);
        return Ok(Wake::OnChange);
    };
    if object.meta().deletion_timestamp.is_some() {
        context.applier.forget(object.meta().uid.as_deref().unwrap_or_default());
        return ending::end(context, &key, &object).await;
    }
    let cluster = match object.get() {
        Ok(cluster) => cluster,
        Err(invalid) => {
            let kind = Kind::erase::<SlurmCluster>(&());
            let (meta, error) = (&invalid.metadata, &invalid.error);
            malformed::report(&context.client, &context.events, crate::MANAGER, &kind, meta, error)
                .await
                .map_err(Error::Status)?;
            return Err(Error::Malformed(invalid.error.clone()));
        }
    };
    let Some(owner) = Owner::of(cluster) else { return Ok(Wake::OnChange) };
    if context.caches.awaits(owner.uid()) || !context.caches.clusters.is_latest(&key, cluster) {
        tracing::debug!("waiting for our own writes to come back");
        return Ok(Wake::OnChange);
    }
    if ending::hold(context, cluster).await? {
        // It comes back and wakes us.
        return Ok(Wake::OnChange);
    }
    let validated = match validate(cluster, &context.defaults) {
        Ok(validated) => validated,
        Err(problems) => {
            let invalid = problems.iter().map(ToString::to_string).collect();
            tell(context, cluster, &Observation { invalid, ..Observation::default() }).await?;
            return Ok(Wake::OnChange);
        }
    };
    Look { context, memory, key: &key, cluster, owner, validated }.run().await
}

fn forget(context: &Context, memory: &Memory, key: &Key) {
    memory.agents.forget(key);
    memory.jailed.forget(key);
    memory.references.lock().remove(key);
    memory.nodes.lock().remove(key);
    memory.gone.lock().remove(key);
    context.forget_secrets(&key.namespace, &format!("{}-", key.name));
}

/// One look at a cluster that can be rendered.
pub(super) struct Look<'a> {
    pub(super) context: &'a Context,
    pub(super) memory: &'a Memory,
    pub(super) key: &'a Key,
    pub(super) cluster: &'a SlurmCluster,
    pub(super) owner: Owner,
    pub(super) validated: ValidatedCluster,
}

/// After this time at the latest.
fn sooner(wake: Wake, again: Duration) -> Wake {
    match wake {
        Wake::After(wake) => Wake::After(wake.min(again)),
        Wake::OnChange => Wake::After(again),
    }
}

/// What agents were asked, and what it means.
#[derive(Default)]
struct Asked {
    /// What agents of pods that are not ready said, by pod.
    states: HashMap<String, AgentState>,
    verdict: Option<Verdict>,
    again: Option<Duration>,
    failed: Option<Error>,
}

impl Asked {
    fn again_after(&mut self, wait: Duration) {
        self.again = Some(self.again.map_or(wait, |known| known.min(wait)));
    }
}

impl Look<'_> {
    async fn run(&self) -> Result<Wake, Error> {
        let own = self.validated.names().slurm_configs();
        let mut jailed = self.memory.jailed.look(self.context, self.key, &own, Instant::now()).await?;
        let (again, failed) = (jailed.again, jailed.failed.take());
        let wake = self.bring_about(jailed).await?;
        if let Some(error) = failed {
            return Err(error);
        }
        Ok(again.map_or(wake, |again| sooner(wake, again)))
    }

    async fn bring_about(&self, jailed: JailedFiles) -> Result<Wake, Error> {
        let (context, validated) = (self.context, &self.validated);
        let mut live = Live::of(&context.caches, self.key, validated.names());
        let image = validated.controller.as_ref().map_or("", |controller| &*controller.slurmctld.image);
        let programs = self.memory.agents.programs(image);
        let before = self.nodes_before().await?;
        let lost = self.lost_pods(&live, &before).await?;
        let lost_again = (!lost.is_empty()).then_some(LATER);
        live.pods.extend(lost);
        let (mut facts, names) =
            facts::gather(context, self.key, validated, &live, programs, &before, wish(self.cluster)).await?;
        facts.more_configs = jailed.files;
        if overwrites_jail(validated, &facts.populate) {
            facts.running = order::held_for_jail(facts.running, facts::presence(validated, &live));
        }
        let nodes = Arc::new(kept_nodes::nodes_of(&facts.node_sets));
        self.memory.nodes.lock().insert(self.key.clone(), nodes);
        if secrets::rotate(context, (self.cluster, self.owner.uid()), validated, &names).await? {
            return Ok(Wake::OnChange);
        }
        let rendered = render(validated, &facts);
        self.remember_references(&rendered, jailed.config_maps);
        let objects = rendered.iter().map(desired).collect::<Result<Vec<_>, _>>()?;
        let spared = |kind: &Kind, meta: &ObjectMeta| self.is_spared(&names, kind, meta);
        let applied = context.applier.apply_sparing(&self.owner, objects, spared).await;
        let (changed, wake) = (applied.changed(), applied.wake());
        let applied = applied.into_result();
        let mut seen = Observation {
            invalid: self.problems(),
            apply_problem: applied.as_ref().err().map(ToString::to_string),
            is_changing: changed || is_held(&facts),
            ..Observation::default()
        };
        if changed && self.is_observed() && applied.is_ok() {
            // What we wrote comes back and wakes us; before that the status would only flap.
            return Ok(wake);
        }
        let (mut asked, mut failed) = (Asked::default(), None);
        if !changed {
            let hash = config_hash(validated, &facts);
            let rotation = secrets::rotation_mark(context, &self.key.namespace, &names);
            match pods::mark(context, self.owner.uid(), &live, hash.as_deref(), rotation.as_deref()).await {
                Ok(false) => {}
                Ok(true) => return Ok(Wake::OnChange),
                // The status tells nevertheless how things stand.
                Err(error) => failed = Some(error),
            }
            asked = self.ask(&live, &facts, hash.as_deref(), image).await;
            failed = failed.or(asked.failed.take());
        }
        let evidence = Evidence {
            caches: &context.caches,
            validated,
            facts: &facts,
            rendered: &rendered,
            live: &live,
            agents: &asked.states,
        };
        seen.config = asked.verdict;
        seen.config_hash = config_hash(validated, &facts);
        seen.parts = evidence.parts();
        seen.ready_workers = evidence.ready_workers();
        seen.ready_login = evidence.ready_login();
        seen.ready_sconfig_controller = evidence.ready_sconfig_controller();
        seen.unknown_sets = evidence.unknown_sets(self.cluster);
        let told = tell(context, self.cluster, &seen).await;
        applied?;
        told?;
        if let Some(error) = failed {
            return Err(error);
        }
        let wake = lost_again.map_or(wake, |again| sooner(wake, again));
        Ok(asked.again.map_or(wake, |again| sooner(wake, again)))
    }

    /// The nodes of Slurm's files. They are read once; after that they are what we wrote.
    async fn nodes_before(&self) -> Result<Arc<KeptNodes>, Error> {
        let known = self.memory.nodes.lock().get(self.key).map(Arc::clone);
        match known {
            Some(known) => Ok(known),
            None => kept_nodes::in_place(self.context, &self.validated).await.map(Arc::new),
        }
    }

    /// Workers that no cache shows.
    async fn lost_pods(&self, live: &Live, before: &KeptNodes) -> Result<Vec<Arc<PodView>>, Error> {
        let mut gone = self.memory.gone.lock().remove(self.key).unwrap_or_default();
        let found = lost_pods::find(self.context, self.validated.names(), live, before, &mut gone).await?;
        self.memory.gone.lock().insert(self.key.clone(), gone);
        Ok(found)
    }

    fn is_observed(&self) -> bool {
        let observed = self.cluster.status.as_ref().and_then(|status| status.observed_generation);
        observed == self.cluster.meta().generation
    }

    fn remember_references(&self, rendered: &[render::Rendered], config_maps: BTreeSet<String>) {
        let mut references = References { config_maps, ..References::default() };
        for rendered in rendered {
            references.extend(References::of(&rendered.object));
        }
        if let Ok(Some(accounting)) = &self.validated.accounting
            && let Some((secret, _)) =
                accounting.external.as_ref().and_then(|external| external.password.as_ref())
        {
            references.secrets.insert(secret.clone());
        }
        self.memory.references.lock().insert(self.key.clone(), references);
    }

    /// Objects that stay although they are not rendered: generated Secrets, and those of parts whose spec is wrong.
    pub(super) fn is_spared(&self, names: &secrets::Names, kind: &Kind, meta: &ObjectMeta) -> bool {
        let name = meta.name.as_deref().unwrap_or_default();
        let cluster = self.validated.names();
        let generated = [
            cluster.munge(),
            cluster.rest_jwt_key(),
            cluster.sshd_keys(),
            cluster.database_password(),
            cluster.database_root_password(),
        ];
        if kind.kind == "Secret"
            && (generated.iter().any(|known| known == name) || names.values().any(|known| known == name))
        {
            return true;
        }
        let component = meta.labels.as_ref().and_then(|labels| labels.get(labels::COMPONENT));
        ALL_COMPONENTS.iter().any(|known| {
            component.is_some_and(|component| component == known.as_str()) && self.validated.is_broken(*known)
        })
    }

    /// What is wrong with the spec.
    fn problems(&self) -> Vec<String> {
        let mut problems: Vec<String> = ALL_COMPONENTS
            .iter()
            .flat_map(|component| self.validated.problems(*component))
            .chain(self.validated.remarks.iter().filter(|problem| problem.severity == Severity::Error))
            .map(ToString::to_string)
            .collect();
        problems.sort();
        problems.dedup();
        problems
    }

    /// Asks agents for what only they know, and replaces login pods that nobody uses.
    async fn ask(&self, live: &Live, facts: &Facts, hash: Option<&str>, image: &str) -> Asked {
        let mut asked = Asked::default();
        let agents = &self.memory.agents;
        let names = self.validated.names();
        let has_address = |pod: &&Arc<PodView>| !pod.is_terminating() && pod.status.pod_ip.is_some();
        let controller = live.controller_pod(names).filter(has_address);
        let runs_wanted_image =
            live.controller.as_ref().and_then(|set| set.image("slurmctld")) == Some(image);
        let needs_programs = facts.slurmctld_programs.is_none()
            && runs_wanted_image
            && self.validated.rest.as_ref().is_ok_and(|rest| rest.container.image.is_empty());
        asked.verdict = controller.zip(hash).and_then(|(pod, hash)| agents.verdict(self.key, pod, hash));
        let stale = pods::stale_logins(live);
        let mut pods: BTreeMap<String, Arc<PodView>> = BTreeMap::new();
        let mut add = |pod: &Arc<PodView>| {
            pods.insert(pod.name_any(), Arc::clone(pod));
        };
        if let Some(controller) = controller
            && (needs_programs || (hash.is_some() && asked.verdict.is_none()))
        {
            add(controller);
            asked.again_after(agents.patience(self.key, SOON));
        }
        stale.iter().take(1).for_each(&mut add);
        let parts = [
            Component::Controller,
            Component::Accounting,
            Component::Database,
            Component::Rest,
            Component::Login,
        ];
        for component in parts {
            let unready = live.pods_of(component).into_iter().find(|pod| !pod.is_ready() && has_address(pod));
            if let Some(pod) = unready {
                add(pod);
                asked.again_after(LATER);
            }
        }
        let wanted: Vec<Arc<PodView>> = pods.into_values().collect();
        for (pod, answer) in agents::ask(&wanted).await {
            match answer {
                Ok(state) => {
                    asked.states.insert(pod, state);
                }
                Err(error) => {
                    tracing::debug!(pod, %error, "an agent was not heard");
                    agents.missed(self.key);
                }
            }
        }
        if let Some(controller) = controller
            && let Some(state) = asked.states.get(&controller.name_any()).cloned()
        {
            agents.heard(self.key);
            if runs_wanted_image {
                agents.note_programs(image, &state);
                if needs_programs && !state.programs.is_empty() {
                    asked.again_after(Duration::ZERO);
                }
            }
            if let (Some(hash), Some(config)) = (hash, &state.config) {
                asked.verdict = Some(agents.note_config(self.key, controller, hash, config));
            }
        }
        if let Some(pod) = stale.first() {
            let sessions = asked.states.get(&pod.name_any()).and_then(|state| state.sessions);
            if sessions == Some(0) || pods::never_ran(pod) {
                asked.failed = pods::replace_login(self.context, pod).await.err();
            } else {
                asked.again_after(LATER);
            }
        }
        asked
    }
}

/// Whether a change of version has not come to all parts yet.
fn is_held(facts: &Facts) -> bool {
    let held = &facts.held_images;
    [&held.slurmctld, &held.sshd, &held.slurmd].into_iter().any(Option::is_some)
}

const ALL_COMPONENTS: [Component; 10] = [
    Component::Common,
    Component::Controller,
    Component::Accounting,
    Component::Rest,
    Component::Worker,
    Component::NodeSet,
    Component::Login,
    Component::Database,
    Component::PopulateJail,
    Component::SConfigController,
];

/// Folds what was seen into the status.
async fn tell(context: &Context, cluster: &SlurmCluster, seen: &Observation) -> Result<(), Error> {
    tell_status(context, cluster, &fold(cluster, seen, Timestamp::now())).await
}

/// Writes a status if it differs from the one that is there, and tells users what changed.
pub(super) async fn tell_status(
    context: &Context,
    cluster: &SlurmCluster,
    next: &SlurmClusterStatus,
) -> Result<(), Error> {
    let before = cluster.status.as_ref();
    let written =
        status::write(&context.client, crate::MANAGER, cluster, before, next).await.map_err(Error::Status)?;
    if let Some(version) = written {
        let uid = cluster.uid().unwrap_or_default();
        context.caches.clusters.wrote(Key::of(cluster), &version, &uid);
        for news in news(before, next) {
            context.tell(cluster, news.type_, &news.reason, &news.note);
        }
    }
    Ok(())
}
