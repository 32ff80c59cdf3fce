//! Webhooks that ask others before they answer: Slurm about workers that somebody wants to delete, and the API server about
//! the clusters of Secrets and NodeSets.
//!
//! They answer in every replica, also in one that does not lead. So they look objects up by single calls instead of in caches: an
//! annotation that was set a moment ago counts, and nothing must be filled first. How Slurm is asked is in `links.rs`.

mod around;
mod defaults;
mod links;
mod secret;
mod verdict;
mod worker;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use engine::admission::{Decision, OnFailure, Request, Webhooks, old_object};
use k8s_openapi::api::core::v1::Pod;
use kube::Client;
use kube::core::admission::Operation;
use parking_lot::Mutex;
use render::Defaults;
use tokio::time::{Instant, timeout};

use crate::agent_client;
use crate::slurm_links::{LinkKey, SlurmLinks};
use around::Around;
use verdict::{Word, of_agent, refusal};
use worker::Worker;

/// Where the API server asks about pods of workers that somebody wants to delete.
pub const WORKER_PODS: &str = "/validate--v1-pod";
/// Where it asks about protected Secrets.
pub const SECRETS: &str = "/validate--v1-secret";
/// Where it lets NodeSets of `slurm.nebius.ai` be completed.
pub const NODE_SETS: &str = "/mutate-slurm-nebius-ai-v1alpha1-nodeset";
/// Where it lets NodeSets of `slinky.slurm.net` be completed.
pub const SLINKY_NODE_SETS: &str = "/mutate-slinky-slurm-net-v1alpha1-nodeset";

/// The API server waits 3 s for an answer about a worker; whoever asks should read why there is none.
const PATIENCE: Duration = Duration::from_millis(2600);
/// Of that, for the agent of a worker.
const AGENT: Duration = Duration::from_millis(600);

/// What the webhooks ask by.
pub struct Guards {
    /// Reads only. Not fenced: a replica that does not lead answers too.
    client: Client,
    links: SlurmLinks,
    defaults: Defaults,
    /// Links that were made here, and when they were last used.
    made: Mutex<BTreeMap<LinkKey, Instant>>,
}

impl Guards {
    /// Asks by these.
    pub fn new(client: Client, links: SlurmLinks, defaults: Defaults) -> Arc<Self> {
        Arc::new(Self { client, links, defaults, made: Mutex::default() })
    }

    /// Serves them beside others.
    #[must_use]
    pub fn add_to(self: &Arc<Self>, webhooks: Webhooks) -> Webhooks {
        let (pods, secrets, sets) = (Arc::clone(self), Arc::clone(self), Arc::clone(self));
        webhooks
            .on_asking(WORKER_PODS, OnFailure::Deny, move |request| {
                let guards = Arc::clone(&pods);
                async move { guards.worker_pod(&request).await }
            })
            .on_asking(SECRETS, OnFailure::Deny, move |request| {
                let guards = Arc::clone(&secrets);
                async move { secret::decide(&guards.client, &request).await }
            })
            .on_asking(NODE_SETS, OnFailure::Deny, move |request| {
                let guards = Arc::clone(&sets);
                async move { defaults::node_set(&guards.client, &request).await }
            })
            .on(SLINKY_NODE_SETS, OnFailure::Deny, defaults::slinky_node_set)
    }

    /// Refuses to delete a worker that has jobs, or of which nobody can tell.
    async fn worker_pod(&self, request: &Request) -> Decision {
        if request.operation != Operation::Delete {
            return Decision::allow();
        }
        let pod: Pod = match old_object(request) {
            Ok(pod) => pod,
            Err(decision) => return decision,
        };
        let worker = match worker::read(&pod) {
            Ok(worker) => worker,
            Err(pass) => {
                tracing::debug!(pod = request.name, ?pass, "a worker may be deleted");
                return Decision::allow();
            }
        };
        let word = timeout(PATIENCE, self.judge(&worker)).await.unwrap_or_else(|_| {
            Word::Unknown(format!("there was no answer within {} s", PATIENCE.as_secs_f32()))
        });
        let who = request.user_info.username.as_deref().unwrap_or_default();
        if word == Word::NoJob {
            tracing::info!(pod = %worker.pod, who, "a worker is deleted by somebody else");
            return Decision::allow();
        }
        let told = refusal(&worker, &word);
        tracing::info!(pod = %worker.pod, who, told, "the deletion of a worker is refused");
        Decision::deny(told)
    }

    /// Whether the worker may go; [`Word::NoJob`] if so.
    async fn judge(&self, worker: &Worker) -> Word {
        let cluster = self.cluster_of(worker).await;
        let word = match &cluster {
            Ok(cluster) => self.ask_slurm(cluster, &worker.node).await,
            Err(why) => Word::Unknown(why.clone()),
        };
        if word == Word::NoJob {
            return word;
        }
        // Only for who would be refused.
        let around = Around::look(&self.client, worker, cluster.as_ref().ok()).await;
        match word {
            _ if around.releases() => Word::NoJob,
            // A Slurm that lives will answer again. One that ends will not: then the worker's own agent has the word.
            Word::Unknown(why) if around.slurm_ends => match ask_agent(worker).await {
                Word::Unknown(silent) => Word::Unknown(format!("{why}; {silent}")),
                word => word,
            },
            word => word,
        }
    }
}

/// What the agent of a worker sees.
async fn ask_agent(worker: &Worker) -> Word {
    let Some(address) = worker.agent else {
        return Word::Unknown("no agent is in the pod that could tell".into());
    };
    match timeout(AGENT, agent_client::state(address)).await {
        Ok(Ok(state)) => of_agent(&state),
        Ok(Err(error)) => Word::Unknown(error.to_string()),
        Err(_) => Word::Unknown(format!("the agent at {address} does not answer")),
    }
}
