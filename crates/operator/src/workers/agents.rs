//! What the agents in pods say of their job steps: asked when nobody else is left.

use std::net::IpAddr;
use std::sync::Arc;

use engine::view::PodView;
use futures::{StreamExt as _, stream};
use nodeset::Agent;

use crate::agent_client;

/// Agents that are asked at once.
const PARALLEL: usize = 16;

/// What the agent of a pod says of its job steps.
pub(super) async fn ask(pod: &PodView) -> Agent {
    let Some(address) = pod.status.pod_ip.as_deref().and_then(|text| text.parse::<IpAddr>().ok()) else {
        return Agent::Silent;
    };
    match agent_client::state(address).await.map(|state| state.running_steps().map(|steps| steps.len())) {
        Ok(Some(steps)) => Agent::Steps(steps),
        // An agent that does not speak of steps does not know.
        Ok(None) => Agent::Silent,
        Err(error) => {
            tracing::debug!(%error, "an agent is silent");
            Agent::Silent
        }
    }
}

/// The same for many, in their order.
pub(super) async fn ask_all(pods: Vec<Arc<PodView>>) -> Vec<Agent> {
    stream::iter(pods).map(|pod| async move { ask(&pod).await }).buffered(PARALLEL).collect().await
}
