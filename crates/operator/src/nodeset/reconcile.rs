//! One look at one set: plan, make, remove, tell.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use api::nebius::NodeSet;
use engine::apply::{Applier, DesiredObject, Kind, Owner, Policy};
use engine::controller::Wake;
use engine::events::EventType;
use engine::view::PodView;
use engine::{Key, malformed, status};
use futures::{StreamExt as _, stream};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::{Resource as _, ResourceExt as _};
use render::{
    GeneratedSecret, ValidatedCluster, WorkerTemplate, node_set_objects, validate, worker_template,
};

use super::drain::{self, Leave};
use super::plan::{Plan, Worker, plan};
use super::status::{Observation, fold};
use super::{Memory, slurm_node, workers};
use crate::context::Context;
use crate::owner::{Parent, cluster, parent_of};
use crate::references::References;
use crate::slurmcluster::{Error, desired, missing_references, pod_trouble};

/// How soon Slurm is asked again whether a worker is free.
const LOOK_AGAIN: Duration = Duration::from_secs(5);
/// Pods that are made at once.
const PARALLEL: usize = 8;

/// Brings a set one step nearer to what its spec says.
pub async fn reconcile(context: &Context, memory: &Memory, key: Key) -> Result<Wake, Error> {
    let Some(object) = context.caches.node_sets.get(&key) else {
        memory.undrained.lock().remove(&key);
        return Ok(Wake::OnChange);
    };
    let set = match object.get() {
        Ok(set) => set,
        Err(invalid) => {
            let kind = Kind::erase::<NodeSet>(&());
            let (meta, error) = (&invalid.metadata, &invalid.error);
            malformed::report(&context.client, &context.events, crate::MANAGER, &kind, meta, error)
                .await
                .map_err(Error::Status)?;
            return Err(Error::Malformed(invalid.error.clone()));
        }
    };
    let (Some(owner), Some(reference)) = (Owner::of(set), set.controller_owner_ref(&())) else {
        return Ok(Wake::OnChange);
    };
    if set.meta().deletion_timestamp.is_some() {
        context.applier.forget(owner.uid());
        return Ok(Wake::OnChange);
    }
    if context.caches.awaits(owner.uid()) {
        tracing::debug!("waiting for our own writes to come back");
        return Ok(Wake::OnChange);
    }
    let parent = match parent(context, set) {
        Ok(parent) => parent,
        Err(waits) => {
            let seen = Observation { waits_for: Some(waits), ..Observation::default() };
            tell(context, set, &seen).await?;
            return Ok(Wake::OnChange);
        }
    };
    Look { context, memory, key: &key, set, owner, reference, parent: &parent }.run().await
}

/// The cluster that the workers join, or what is in the way.
fn parent(context: &Context, set: &NodeSet) -> Result<ValidatedCluster, String> {
    let key = match parent_of(&context.caches, set) {
        Parent::Cluster(key) => key,
        Parent::Unclear(0) => {
            return Err("waiting for a SlurmCluster: there is none in this namespace".into());
        }
        Parent::Unclear(count) => {
            return Err(format!(
                "spec.clusterName: {count} SlurmClusters are in this namespace; name the one that the workers join"
            ));
        }
    };
    let name = &key.name;
    let found = cluster(&context.caches, &key)
        .filter(|cluster| cluster.meta().deletion_timestamp.is_none())
        .ok_or_else(|| format!("waiting for SlurmCluster {name}: there is none of this name"))?;
    let found = found.get().map_err(|invalid| {
        format!("waiting for SlurmCluster {name}: it cannot be read: {}", invalid.error)
    })?;
    validate(found, &context.defaults).map_err(|problems| {
        let problems: Vec<String> = problems.iter().map(ToString::to_string).collect();
        format!("waiting for SlurmCluster {name}: {}", problems.join("; "))
    })
}

struct Look<'a> {
    context: &'a Context,
    memory: &'a Memory,
    key: &'a Key,
    set: &'a NodeSet,
    owner: Owner,
    reference: OwnerReference,
    parent: &'a ValidatedCluster,
}

impl Look<'_> {
    async fn run(&self) -> Result<Wake, Error> {
        let context = self.context;
        let pods = workers::of(&context.caches, &self.owner);
        let Some(template) = worker_template(self.parent, self.set) else {
            // What is there stays as it is.
            let waits = "waiting for spec.slurmNodes.worker of the SlurmCluster to be valid".to_string();
            tell(context, self.set, &Observation { waits_for: Some(waits), ..counted(&pods) }).await?;
            return Ok(Wake::OnChange);
        };
        let names = self.parent.names();
        let account = names.worker_service_account();
        if context.caches.service_accounts.get(&Key::new(names.namespace(), &account)).is_none() {
            // The cluster's own reconcile makes it. Pods that name it would be refused before that.
            let waits = format!("waiting for ServiceAccount {account} of the SlurmCluster");
            tell(context, self.set, &Observation { waits_for: Some(waits), ..counted(&pods) }).await?;
            return Ok(Wake::OnChange);
        }
        let objects = node_set_objects(self.parent, self.set);
        let objects = objects.iter().map(desired).collect::<Result<Vec<_>, _>>()?;
        context.applier.apply(&self.owner, objects).await.into_result()?;

        let hash = template.hash();
        let judged: BTreeMap<u32, Worker> =
            pods.iter().map(|(ordinal, pod)| (*ordinal, workers::judge(pod, &hash))).collect();
        let in_maintenance = self.parent.in_maintenance();
        let wanted = if in_maintenance { 0 } else { u32::try_from(self.set.spec.replicas).unwrap_or(0) };
        let plan = plan(wanted, &judged);

        let waits = self.remove(&plan, &pods).await?;
        let made = self.make(&plan, &template, &hash).await;
        let mut again = (!waits.is_empty()).then_some(LOOK_AGAIN);
        if let Err(wait) = self.undrain(wanted, &pods).await {
            again = Some(wait);
        }
        let seen = Observation {
            wanted,
            stale: count(judged.values().filter(|worker| worker.is_stale && !worker.is_terminating).count()),
            trouble: self.trouble(&template, &pods, &waits, made.as_ref().err()),
            in_maintenance,
            selector: template.selector(),
            ..counted(&pods)
        };
        let told = tell(context, self.set, &seen).await;
        made?;
        told?;
        Ok(again.map_or(Wake::OnChange, Wake::After))
    }

    /// Makes the pods that are missing, and before each its claims.
    async fn make(&self, plan: &Plan, template: &WorkerTemplate<'_>, hash: &str) -> Result<(), Error> {
        let mut claims = Vec::new();
        for ordinal in &plan.make {
            for claim in template.claims(*ordinal) {
                claims.push(DesiredObject::new(&claim)?.with_policy(Policy::CreateOnce));
            }
        }
        let context = self.context;
        if !claims.is_empty() {
            // Claims outlive their pods: nothing is pruned here.
            let applier = Applier::new(context.client.clone(), crate::MANAGER)
                .with_known(context.caches.claims.clone());
            applier.apply_only(&self.owner, claims).await.into_result()?;
        }
        let results: Vec<Result<(), Error>> = stream::iter(plan.make.clone())
            .map(|ordinal| async move {
                let pod = workers::make(template, ordinal, &self.reference, hash);
                let key = Key::of(&pod);
                let made = engine::objects::create(&context.client, crate::MANAGER, &pod)
                    .await
                    .map_err(|error| Error::call(format!("pod {key} could not be made"), error))?;
                let version = made.resource_version().unwrap_or_default();
                context.caches.pods.wrote(key, &version, self.owner.uid());
                let note = format!("made pod {}", made.name_any());
                context.tell(self.set, EventType::Normal, "WorkerMade", &note);
                Ok(())
            })
            .buffer_unordered(PARALLEL)
            .collect()
            .await;
        results.into_iter().collect()
    }

    /// Removes pods that may go; returns why others may not yet.
    async fn remove(&self, plan: &Plan, pods: &BTreeMap<u32, Arc<PodView>>) -> Result<Vec<String>, Error> {
        for ordinal in &plan.remove {
            if let Some(pod) = pods.get(ordinal) {
                self.delete(pod, "no job can be on it").await?;
            }
        }
        let leaving: BTreeMap<String, &Arc<PodView>> = plan
            .drain
            .iter()
            .filter_map(|ordinal| pods.get(ordinal))
            .map(|pod| (slurm_node(pod), pod))
            .collect();
        if leaving.is_empty() {
            return Ok(Vec::new());
        }
        if let Some(known) = self.memory.undrained.lock().get_mut(self.key) {
            known.retain(|uid| !leaving.values().any(|pod| pod.uid().as_ref() == Some(uid)));
        }
        let nodes: Vec<String> = leaving.keys().cloned().collect();
        let judged = match self.slurm().await? {
            Ok(client) => drain::judge(&client, &nodes).await.map_err(|error| error.to_string()),
            Err(problem) => Err(problem),
        };
        let judged = match judged {
            Ok(judged) => judged,
            Err(problem) => {
                let nodes = nodes.join(", ");
                return Ok(vec![format!(
                    "{nodes} cannot be removed: Slurm does not tell whether jobs are there: {problem}"
                )]);
            }
        };
        let mut waits = Vec::new();
        for (node, leave) in judged {
            match (leave, leaving.get(&node)) {
                (Leave::Free, Some(pod)) => self.delete(pod, "it is drained, and no job is on it").await?,
                (Leave::Wait(why), _) => waits.push(format!("{node} waits to be removed: {why}")),
                (Leave::Free, None) => {}
            }
        }
        Ok(waits)
    }

    async fn delete(&self, pod: &PodView, why: &str) -> Result<(), Error> {
        let name = pod.name_any();
        engine::objects::delete(&self.context.client, pod)
            .await
            .map_err(|error| Error::call(format!("pod {name} could not be removed"), error))?;
        tracing::info!(pod = name, why, "a worker is removed");
        let note = format!("removed pod {name}: {why}");
        self.context.tell(self.set, EventType::Normal, "WorkerRemoved", &note);
        Ok(())
    }

    /// Lets workers take jobs again that we drained to remove them, and that are wanted now. Each pod is looked at once
    /// when it is ready. The error is when to look again.
    async fn undrain(&self, wanted: u32, pods: &BTreeMap<u32, Arc<PodView>>) -> Result<(), Duration> {
        let known = self.memory.undrained.lock().get(self.key).cloned().unwrap_or_default();
        let unsure: Vec<&Arc<PodView>> = pods
            .range(..wanted)
            .map(|(_, pod)| pod)
            .filter(|pod| pod.is_ready() && !pod.is_terminating())
            .filter(|pod| pod.uid().is_some_and(|uid| !known.contains(&uid)))
            .collect();
        if unsure.is_empty() {
            return Ok(());
        }
        let client = match self.slurm().await {
            Ok(Ok(client)) => client,
            _ => return Err(LOOK_AGAIN),
        };
        let nodes: Vec<String> = unsure.iter().map(|pod| slurm_node(pod)).collect();
        if let Err(error) = drain::undrain(&client, &nodes).await {
            tracing::debug!(%error, "Slurm was not heard about drained nodes");
            return Err(LOOK_AGAIN);
        }
        let uids = unsure.iter().filter_map(|pod| pod.uid());
        self.memory.undrained.lock().entry(self.key.clone()).or_default().extend(uids);
        Ok(())
    }

    /// The REST API of the cluster, or why there is none.
    async fn slurm(&self) -> Result<Result<slurm_client::Client, String>, Error> {
        let names = self.parent.names();
        let secret = Key::new(names.namespace(), &names.rest_jwt_key());
        let key = GeneratedSecret::Jwt.key().unwrap_or_default();
        let value = self.context.secret_value(&secret, key).await;
        let value = value.map_err(|error| Error::call(format!("Secret {secret} cannot be read"), error))?;
        let Some(value) = value else {
            return Ok(Err(format!("Secret {} has no key {key}", names.rest_jwt_key())));
        };
        let link = self.context.links.of_cluster(self.parent, &value);
        Ok(link.map(|link| link.client().clone()).map_err(|error| error.to_string()))
    }

    /// What is wrong with the pods: what they need and is not there, what they say, and who may not go yet.
    fn trouble(
        &self,
        template: &WorkerTemplate<'_>,
        pods: &BTreeMap<u32, Arc<PodView>>,
        waits: &[String],
        failed: Option<&Error>,
    ) -> Option<(String, bool)> {
        if let Some(error) = failed {
            return Some((engine::error::chain(error), true));
        }
        if !waits.is_empty() {
            return Some((waits.join("; "), false));
        }
        let mut references = References::default();
        if let Some(spec) = &template.template().spec {
            references.add_pod(spec);
        }
        let missing = missing_references(&self.context.caches, &self.key.namespace, &references);
        if !missing.is_empty() {
            let messages: Vec<String> = missing.into_iter().map(|trouble| trouble.message).collect();
            return Some((messages.join("; "), true));
        }
        let trouble = pods.values().filter(|pod| !pod.is_ready()).find_map(|pod| pod_trouble(pod))?;
        Some((trouble.message, trouble.is_missing))
    }
}

fn count(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

/// How many pods there are, and how many of them are ready.
fn counted(pods: &BTreeMap<u32, Arc<PodView>>) -> Observation {
    let alive = || pods.values().filter(|pod| !pod.is_terminating());
    Observation {
        present: count(alive().count()),
        ready: count(alive().filter(|pod| pod.is_ready()).count()),
        ..Observation::default()
    }
}

async fn tell(context: &Context, set: &NodeSet, seen: &Observation) -> Result<(), Error> {
    let next = fold(set, seen, Timestamp::now());
    let written = status::write(&context.client, crate::MANAGER, set, set.status.as_ref(), &next)
        .await
        .map_err(Error::Status)?;
    if let Some(version) = written {
        context.caches.node_sets.wrote(Key::of(set), &version, &set.uid().unwrap_or_default());
        let before = set.status.as_ref().map(|status| status.phase.as_str());
        if before != Some(next.phase.as_str()) {
            let note = format!("the set is {}", next.phase);
            context.tell(set, EventType::Normal, &next.phase, &note);
        }
    }
    Ok(())
}
