//! Takes workers away without hurting jobs: drain, look, and only then go. Unknown is busy.

use std::time::Duration;

use slurm::{NodeTarget, NodeUpdate, Occupancy};
use slurm_client::{Client, Error, Snapshot};

/// Why a node is drained, as Slurm shows it. What is drained for this reason, we also undrain.
pub const REASON: &str = "soperator: worker is to be removed";
/// An answer that is older does not count.
const MAX_AGE: Duration = Duration::from_secs(10);

/// What Slurm says about a worker that should go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Leave {
    /// It may go now.
    Free,
    /// It may not, and why.
    Wait(String),
}

/// Drains the nodes that take jobs, and tells which may go. Nodes and jobs are read anew, the jobs after the nodes.
pub async fn judge(client: &Client, nodes: &[String]) -> Result<Vec<(String, Leave)>, Error> {
    let snapshot = client.snapshot().await?;
    let mut judged = Vec::new();
    for node in nodes {
        let leave = match snapshot.occupancy(node, MAX_AGE) {
            Occupancy::Free => Leave::Free,
            occupancy => {
                if takes_jobs(&snapshot, node) {
                    let update = NodeUpdate {
                        state: Some(NodeTarget::Drain),
                        reason: Some(REASON.into()),
                        ..NodeUpdate::default()
                    };
                    client.update_node(node, &update).await?;
                }
                Leave::Wait(match occupancy {
                    Occupancy::Busy(reason) => reason.to_string(),
                    _ => "it is being drained".into(),
                })
            }
        };
        judged.push((node.clone(), leave));
    }
    Ok(judged)
}

fn takes_jobs(snapshot: &Snapshot, node: &str) -> bool {
    snapshot.node(node).is_some_and(|node| !node.state.is_drain())
}

/// Lets the nodes take jobs again that were drained to be removed, and are wanted after all. Drains of others stay.
pub async fn undrain(client: &Client, nodes: &[String]) -> Result<(), Error> {
    let snapshot = client.snapshot().await?;
    for name in nodes {
        let Some(node) = snapshot.node(name) else { continue };
        if node.state.is_drain() && &*node.reason == REASON {
            let update = NodeUpdate { state: Some(NodeTarget::Undrain), ..NodeUpdate::default() };
            client.update_node(name, &update).await?;
        }
    }
    Ok(())
}
