//! Nodes and jobs of one moment.

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use slurm::{Evidence, Holders, Job, JobId, Moment, Node, NodeView, Occupancy, Reading, occupancy};

use crate::clock;

/// All nodes and all jobs, the jobs read after the nodes. It never changes; a newer one takes its place.
#[derive(Debug)]
pub struct Snapshot {
    /// Sorted by name.
    nodes: Vec<Arc<Node>>,
    /// Sorted by number.
    jobs: Vec<Arc<Job>>,
    holders: Arc<Holders>,
    nodes_read: Reading,
    jobs_read: Reading,
    /// When the last look began that read all jobs anew.
    full_look: Moment,
    /// The cluster that answered; empty where it does not tell.
    cluster: Arc<str>,
}

impl Snapshot {
    /// Both lists, complete, as they were read.
    pub(crate) fn new(
        nodes: Vec<Arc<Node>>,
        nodes_read: Reading,
        jobs: Vec<Arc<Job>>,
        jobs_read: Reading,
        cluster: &str,
    ) -> Self {
        let holders = Arc::new(Holders::new(jobs.iter().map(Arc::as_ref)));
        Self {
            nodes,
            jobs,
            holders,
            nodes_read,
            jobs_read,
            full_look: nodes_read.asked,
            cluster: cluster.into(),
        }
    }

    /// The same jobs with other nodes, for when Slurm says that no job has changed.
    pub(crate) fn with_same_jobs(
        &self,
        nodes: Vec<Arc<Node>>,
        nodes_read: Reading,
        jobs_read: Reading,
    ) -> Self {
        Self {
            nodes,
            jobs: self.jobs.clone(),
            holders: Arc::clone(&self.holders),
            nodes_read,
            jobs_read,
            full_look: self.full_look,
            cluster: Arc::clone(&self.cluster),
        }
    }

    /// The name of the cluster that answered; empty where Slurm does not tell. It is there also when the lists are empty.
    pub fn cluster(&self) -> &str {
        &self.cluster
    }

    /// Every node, sorted by name.
    pub fn nodes(&self) -> &[Arc<Node>] {
        &self.nodes
    }

    /// Every job, sorted by number.
    pub fn jobs(&self) -> &[Arc<Job>] {
        &self.jobs
    }

    /// The node with this name.
    pub fn node(&self, name: &str) -> Option<&Arc<Node>> {
        self.nodes.binary_search_by(|node| (*node.name).cmp(name)).ok().map(|at| &self.nodes[at])
    }

    /// The job with this number.
    pub fn job(&self, id: JobId) -> Option<&Arc<Job>> {
        self.jobs.binary_search_by_key(&id, |job| job.id).ok().map(|at| &self.jobs[at])
    }

    /// The jobs that hold the node.
    pub fn jobs_on<'a>(&'a self, node: &str) -> impl Iterator<Item = &'a Arc<Job>> {
        self.holders.of(node).iter().filter_map(|id| self.job(*id))
    }

    /// Whether jobs are on the node, by the law. A snapshot older than `max_age` makes every node busy.
    pub fn occupancy(&self, node: &str, max_age: Duration) -> Occupancy {
        let view = match self.node(node) {
            Some(node) => NodeView::Seen(node, self.nodes_read),
            // The list is complete, or there would be no snapshot.
            None => NodeView::Absent(self.nodes_read),
        };
        let evidence = Evidence {
            node: view,
            jobs: Some((&self.holders, self.jobs_read)),
            not_before: clock::now().earlier(max_age),
        };
        occupancy(node, &evidence)
    }

    /// Which jobs hold which nodes.
    pub fn holders(&self) -> &Holders {
        &self.holders
    }

    /// When its nodes were read.
    pub const fn nodes_read(&self) -> Reading {
        self.nodes_read
    }

    /// When its jobs were read.
    pub const fn jobs_read(&self) -> Reading {
        self.jobs_read
    }

    /// When its older part was asked for: everything that happened before is in it.
    pub const fn asked(&self) -> Moment {
        self.nodes_read.asked
    }

    /// When the last look began that read all jobs anew, and did not take "as before" for an answer.
    pub(crate) const fn full_look(&self) -> Moment {
        self.full_look
    }

    /// How old it is.
    pub fn age(&self) -> Duration {
        clock::now().since(self.asked())
    }

    /// The names of the nodes that are not the same in a newer snapshot: their own record (apart from its load), or the
    /// jobs on them, or the states of those.
    pub(crate) fn changed_nodes(&self, newer: &Self) -> BTreeSet<Arc<str>> {
        let mut changed: BTreeSet<Arc<str>> = BTreeSet::new();
        for node in &newer.nodes {
            let same =
                self.node(&node.name).is_some_and(|old| Arc::ptr_eq(old, node) || !old.differs_from(node));
            if !same {
                changed.insert(Arc::clone(&node.name));
            }
        }
        changed.extend(
            self.nodes.iter().filter(|old| newer.node(&old.name).is_none()).map(|old| Arc::clone(&old.name)),
        );
        if !Arc::ptr_eq(&self.holders, &newer.holders) {
            let names = self.holders.nodes().chain(newer.holders.nodes()).map(|(name, _)| name);
            for name in names {
                let states = |snapshot: &Self| -> Vec<_> {
                    snapshot.jobs_on(name).map(|job| (job.id, job.state.clone())).collect()
                };
                if states(self) != states(newer) {
                    changed.insert(name.into());
                }
            }
        }
        changed
    }
}

/// Collects new records, and keeps the old ones where nothing has changed: then nothing is held twice.
#[derive(Debug)]
pub(crate) struct Collector<'a, T> {
    old: &'a [Arc<T>],
    new: Vec<Arc<T>>,
}

impl<'a, T: PartialEq> Collector<'a, T> {
    pub(crate) const fn new(old: &'a [Arc<T>]) -> Self {
        Self { old, new: Vec::new() }
    }

    /// `old` must be sorted by what `compare` compares.
    pub(crate) fn add(&mut self, record: T, compare: impl Fn(&T, &T) -> Ordering) {
        let at = self.old.binary_search_by(|other| compare(other, &record));
        self.new.push(match at.ok().map(|at| &self.old[at]) {
            Some(same) if **same == record => Arc::clone(same),
            _ => Arc::new(record),
        });
    }

    pub(crate) fn finish(mut self, compare: impl Fn(&T, &T) -> Ordering) -> Vec<Arc<T>> {
        self.new.sort_by(|one, two| compare(one, two));
        self.new.shrink_to_fit();
        self.new
    }
}

pub(crate) fn by_name(one: &Node, two: &Node) -> Ordering {
    one.name.cmp(&two.name)
}

pub(crate) fn by_id(one: &Job, two: &Job) -> Ordering {
    one.id.cmp(&two.id)
}

#[cfg(test)]
mod tests {
    use slurm::NodeState;

    use super::*;

    fn node(name: &str, state: &str) -> Node {
        Node { name: name.into(), state: NodeState::from_words([state]), ..Node::default() }
    }

    #[test]
    fn records_that_did_not_change_are_kept_and_all_are_sorted() {
        let old = [Arc::new(node("a", "IDLE")), Arc::new(node("b", "IDLE"))];
        let mut collector = Collector::new(&old);
        for record in [node("c", "IDLE"), node("b", "IDLE"), node("a", "DOWN")] {
            collector.add(record, by_name);
        }
        let new = collector.finish(by_name);
        let names: Vec<&str> = new.iter().map(|node| &*node.name).collect();
        assert_eq!(names, ["a", "b", "c"]);
        assert!(Arc::ptr_eq(&new[1], &old[1]));
        assert!(!Arc::ptr_eq(&new[0], &old[0]));
    }
}
