//! What is changed in Slurm. Just before, the node is read: what somebody else wrote since the plan is not written over.

use std::sync::Arc;

use slurm::{Node, NodeTarget, NodeUpdate};
use slurm_client::Lookup;

use super::WorkerSet;
use super::execute::{Execution, Step};
use super::last_look::Looked;
use crate::error::Error;
use crate::slurm_links::Link;

impl<S: WorkerSet> Execution<'_, S> {
    pub(super) async fn drain(&self, node: &str, reason: &str, looked: &Looked) -> Result<Step, Error> {
        let update = NodeUpdate {
            state: Some(NodeTarget::Drain),
            reason: Some(reason.into()),
            ..NodeUpdate::default()
        };
        self.change(node, "drained", &update, looked).await
    }

    pub(super) async fn undrain(&self, node: &str, reason: &str, looked: &Looked) -> Result<Step, Error> {
        let update = NodeUpdate {
            state: Some(NodeTarget::Undrain),
            reason: Some(reason.into()),
            ..NodeUpdate::default()
        };
        self.change(node, "undrained", &update, looked).await
    }

    pub(super) async fn comment(&self, node: &str, comment: &str, looked: &Looked) -> Result<Step, Error> {
        let update = NodeUpdate { comment: Some(comment.into()), ..NodeUpdate::default() };
        self.change(node, "given a comment", &update, looked).await
    }

    async fn change(
        &self,
        name: &str,
        what: &str,
        update: &NodeUpdate,
        looked: &Looked,
    ) -> Result<Step, Error> {
        let (Some(link), Some(snapshot)) = (self.seen.slurm.link(), self.seen.slurm.snapshot()) else {
            return Ok(Step::Again);
        };
        let failed = |error| Error::slurm(format!("node {name} could not be {what}"), error);
        let asked;
        let now = match looked {
            Looked::Fresh(fresh, _) => fresh.node(name).map(|node| &**node),
            _ => {
                asked = link.client().node(name).await.map_err(failed)?.found();
                asked.as_ref()
            }
        };
        let (Some(now), Some(planned)) = (now, snapshot.node(name)) else { return Ok(Step::Again) };
        if !is_as_planned(planned, now, update) {
            tracing::info!(node = name, what, "somebody changed the node meanwhile: planning again");
            return Ok(Step::Again);
        }
        let changed = link.client().update_node(name, update).await;
        // Also where it failed: it may have been done.
        link.wrote();
        match changed.map_err(failed)? {
            Lookup::Found(()) => {
                tracing::info!(node = name, reason = ?update.reason, what, "a Slurm node is changed");
                Ok(Step::Done)
            }
            Lookup::Absent => Ok(Step::Again),
        }
    }

    /// A record that cannot be deleted holds nothing up.
    pub(super) async fn delete_slurm_node(&self, name: &str) -> Result<Step, Error> {
        let Some(link) = self.seen.slurm.link() else { return Ok(Step::Done) };
        let link: &Arc<Link> = link;
        let deleted = link.client().delete_node(name).await;
        link.wrote();
        match deleted {
            Ok(_) => Ok(Step::Done),
            Err(error) => {
                tracing::warn!(node = name, %error, "the record of a node could not be deleted");
                Ok(Step::Again)
            }
        }
    }
}

/// Whether nobody wrote since the plan what we are about to write over.
fn is_as_planned(planned: &Node, now: &Node, update: &NodeUpdate) -> bool {
    let drain = (planned.state.is_drain(), &planned.reason) == (now.state.is_drain(), &now.reason);
    (update.state.is_none() || drain) && (update.comment.is_none() || planned.comment == now.comment)
}

#[cfg(test)]
mod tests {
    use slurm::NodeState;

    use super::*;

    #[test]
    fn what_an_admin_wrote_since_the_plan_is_not_written_over() {
        let node = |state: &[&str], reason: &str, comment: &str| Node {
            state: NodeState::from_words(state.iter().copied()),
            reason: reason.into(),
            comment: comment.into(),
            ..Node::default()
        };
        let drain = NodeUpdate { state: Some(NodeTarget::Drain), ..NodeUpdate::default() };
        let comment = NodeUpdate { comment: Some("{}".into()), ..NodeUpdate::default() };
        let planned = node(&["IDLE"], "", "old");
        assert!(is_as_planned(&planned, &node(&["MIXED"], "", "new"), &drain), "a job came: no matter");
        let admins = node(&["IDLE", "DRAIN"], "broken fan", "old");
        assert!(!is_as_planned(&planned, &admins, &drain));
        assert!(is_as_planned(&planned, &admins, &comment));
        assert!(!is_as_planned(&planned, &node(&["IDLE"], "", "new"), &comment));
    }
}
