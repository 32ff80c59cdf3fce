//! What is changed in Slurm. Just before, the node is read: what somebody else wrote since the plan is not written over.

use std::sync::Arc;

use futures::{FutureExt as _, StreamExt as _, stream};
use nodeset::Action;
use slurm::{Node, NodeTarget, NodeUpdate};
use slurm_client::{Lookup, Snapshot};

use super::WorkerSet;
use super::execute::{Execution, PARALLEL, Step};
use super::last_look::Looked;
use crate::error::Error;
use crate::slurm_links::Link;

/// What is to be changed of one node.
pub(super) struct Change<'a> {
    node: &'a str,
    /// For people: the node is ...
    done: &'static str,
    update: NodeUpdate,
}

impl<'a> Change<'a> {
    /// What the action changes of a node; none if it changes something else.
    pub(super) fn of(action: &'a Action) -> Option<Self> {
        let to = |state, reason: &str| NodeUpdate {
            state: Some(state),
            reason: Some(reason.into()),
            ..NodeUpdate::default()
        };
        let (node, done, update) = match action {
            Action::Drain { node, reason, .. } => (node, "drained", to(NodeTarget::Drain, reason)),
            Action::Undrain { node, reason, .. } => (node, "undrained", to(NodeTarget::Undrain, reason)),
            Action::SetComment { node, comment } => {
                let update = NodeUpdate { comment: Some(comment.clone()), ..NodeUpdate::default() };
                (node, "given a comment", update)
            }
            _ => return None,
        };
        Some(Self { node, done, update })
    }

    /// Whether the node is there, and nobody wrote since the plan what we are about to write over.
    fn is_as_planned(&self, planned: Option<&Node>, now: Option<&Node>) -> bool {
        let (Some(planned), Some(now)) = (planned, now) else { return false };
        let is_same = is_untouched(planned, now, &self.update);
        if !is_same {
            tracing::info!(
                node = self.node,
                what = self.done,
                "somebody changed the node meanwhile: planning again"
            );
        }
        is_same
    }

    async fn make(&self, link: &Link) -> Result<Step, Error> {
        let changed = link.client().update_node(self.node, &self.update).await;
        // Also where it failed: it may have been done.
        link.wrote();
        match changed.map_err(|error| self.failed(error))? {
            Lookup::Found(()) => {
                tracing::info!(node = self.node, reason = ?self.update.reason, what = self.done, "a Slurm node is changed");
                Ok(Step::Done)
            }
            Lookup::Absent => Ok(Step::Again),
        }
    }

    fn failed(&self, error: slurm_client::Error) -> Error {
        Error::slurm(format!("node {} could not be {}", self.node, self.done), error)
    }
}

/// Changes a node that nobody has looked at since the plan.
async fn look_and_change(link: &Link, snapshot: &Snapshot, change: &Change<'_>) -> Result<Step, Error> {
    let now = link.client().node(change.node).await.map_err(|error| change.failed(error))?.found();
    if !change.is_as_planned(snapshot.node(change.node).map(|node| &**node), now.as_ref()) {
        return Ok(Step::Again);
    }
    change.make(link).await
}

/// Changes nodes that are to become alike.
async fn change_alike(link: &Link, group: &[(usize, &Change<'_>)]) -> Results {
    if let [(at, first), _, ..] = group {
        let names: Vec<&str> = group.iter().map(|(_, change)| change.node).collect();
        let changed = link.client().update_nodes(&names, &first.update).await;
        link.wrote();
        match changed {
            Ok(()) => {
                tracing::info!(nodes = ?names, reason = ?first.update.reason, what = first.done, "Slurm nodes are changed");
                return group.iter().map(|(at, _)| (*at, Ok(Step::Done))).collect();
            }
            // Slurm has no such call, or dislikes one of them: one by one it will tell which.
            Err(slurm_client::Error::NotOffered { .. } | slurm_client::Error::Refused { .. }) => {}
            Err(error) => return vec![(*at, Err(first.failed(error)))],
        }
    }
    let made: Vec<Option<(usize, Result<Step, Error>)>> = stream::iter(0..group.len())
        .map(|number| {
            async move {
                let (at, change) = group.get(number)?;
                Some((*at, change.make(link).await))
            }
            .boxed()
        })
        .buffer_unordered(PARALLEL)
        .collect()
        .await;
    made.into_iter().flatten().collect()
}

/// What came of the changes, by their places.
type Results = Vec<(usize, Result<Step, Error>)>;

impl<S: WorkerSet> Execution<'_, S> {
    /// Changes these nodes. Where one look serves them all, those that are to become alike are changed by one call.
    pub(super) async fn change_all(&self, changes: &[Change<'_>], looked: &Looked) -> Results {
        let (Some(link), Some(snapshot)) = (self.seen.slurm.link(), self.seen.slurm.snapshot()) else {
            return (0..changes.len()).map(|at| (at, Ok(Step::Again))).collect();
        };
        let mut groups: Vec<Vec<(usize, &Change<'_>)>> = Vec::new();
        let mut results = Vec::new();
        for (at, change) in changes.iter().enumerate() {
            let Looked::Fresh(fresh, _) = looked else {
                groups.push(vec![(at, change)]);
                continue;
            };
            let now = fresh.node(change.node).map(|node| &**node);
            if !change.is_as_planned(snapshot.node(change.node).map(|node| &**node), now) {
                results.push((at, Ok(Step::Again)));
                continue;
            }
            let alike = |group: &&mut Vec<(usize, &Change<'_>)>| {
                group.first().is_some_and(|(_, first)| first.update == change.update)
            };
            match groups.iter_mut().find(alike) {
                Some(group) => group.push((at, change)),
                None => groups.push(vec![(at, change)]),
            }
        }
        let called: Vec<Results> = stream::iter(0..groups.len())
            .map(|number| {
                let group = groups.get(number).map_or(&[][..], |group| &**group);
                async move {
                    match group {
                        [(at, change)] if !matches!(looked, Looked::Fresh(..)) => {
                            vec![(*at, look_and_change(link, snapshot, change).await)]
                        }
                        group => change_alike(link, group).await,
                    }
                }
                .boxed()
            })
            .buffer_unordered(PARALLEL)
            .collect()
            .await;
        results.extend(called.into_iter().flatten());
        results
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
fn is_untouched(planned: &Node, now: &Node, update: &NodeUpdate) -> bool {
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
        assert!(is_untouched(&planned, &node(&["MIXED"], "", "new"), &drain), "a job came: no matter");
        let admins = node(&["IDLE", "DRAIN"], "broken fan", "old");
        assert!(!is_untouched(&planned, &admins, &drain));
        assert!(is_untouched(&planned, &admins, &comment));
        assert!(!is_untouched(&planned, &node(&["IDLE"], "", "new"), &comment));
    }
}
