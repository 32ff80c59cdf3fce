//! What Slurm itself says about a cluster: slurmrestd is asked through the API server.

use std::collections::BTreeMap;

use engine::client::Client;
use slurm_client::Snapshot;

use super::view::{Answer, Reason, Slurm};
use crate::slurm_access::SlurmAccess;

/// Asks Slurm for its nodes and jobs.
pub(super) async fn ask(client: &Client, namespace: &str, cluster: &str) -> Slurm {
    let answer = match SlurmAccess::of_slurm_cluster(client, namespace, cluster).await {
        Ok(slurm) => slurm.snapshot().await,
        Err(reason) => Err(reason),
    };
    match answer {
        Ok(snapshot) => Slurm::Given(summary(&snapshot)),
        Err(reason) => Slurm::None { reason },
    }
}

fn summary(snapshot: &Snapshot) -> Answer {
    let mut answer = Answer::default();
    for node in snapshot.nodes() {
        let state = node.state.to_string();
        if !node.reason.is_empty() {
            answer.reasons.push(Reason {
                node: node.name.to_string(),
                state: state.clone(),
                reason: node.reason.to_string(),
            });
        }
        *answer.nodes.entry(state).or_default() += 1;
    }
    let jobs: &mut BTreeMap<String, usize> = &mut answer.jobs;
    for job in snapshot.jobs().iter().filter(|job| !job.state.is_finished()) {
        *jobs.entry(job.state.to_string()).or_default() += 1;
    }
    answer
}
