//! What the user asks for, in one shape for both APIs.

use std::time::Duration;

use crate::revision::Content;
use crate::time::UnixTime;

/// A set of workers, as the user wants it.
#[derive(Clone, Debug)]
pub struct Set<'a> {
    /// Its namespace.
    pub namespace: &'a str,
    /// Its name. Pods are `<name>-<ordinal>`.
    pub name: &'a str,
    /// Its uid.
    pub uid: &'a str,
    /// Which API it is of: they differ in who leaves first and in what is written on pods.
    pub api: Api,
    /// How many workers there should be. 0 while the cluster is in maintenance.
    pub replicas: u32,
    /// How many digits an ordinal has at least.
    pub padding: usize,
    /// Slurm nodes are named by this and the ordinal. None: like the pod.
    pub host_prefix: Option<&'a str>,
    /// What pods are made from now.
    pub content: &'a Content,
    /// How often the name of a revision was taken already: `collision_count` of the last status.
    pub collisions: u32,
    /// How many revisions that nobody uses are kept.
    pub history_limit: usize,
    /// How pods come to a new revision.
    pub strategy: Strategy,
    /// How many pods an update may take away at a time.
    pub max_unavailable: Amount,
    /// Pods with a lower ordinal keep their revision.
    pub partition: u32,
    /// The label of that revision, from the last plan ([`Plan::kept`](crate::Plan::kept)): when the last of those pods is lost,
    /// nothing else tells it.
    pub kept: Option<&'a str>,
    /// The update stands still.
    pub paused: bool,
    /// How long a pod must be ready before it counts as available.
    pub min_ready: Duration,
    /// Names of the claims that each pod has: the claim is `<template>-<pod>`.
    pub claim_templates: Vec<&'a str>,
    /// What becomes of claims.
    pub retention: Retention,
    /// Whether the selector is usable.
    pub selector: Selector,
    /// Whether pods with jobs are guarded against eviction.
    pub protect: bool,
    /// Whether the object has our finalizer.
    pub has_finalizer: bool,
    /// The deletion of the object, once somebody asked for it.
    pub deletion: Option<Deletion>,
    /// How it ends.
    pub drain_on_delete: DrainOnDelete,
    /// The annotation that gives up all care for jobs is on the set, its cluster or its namespace.
    pub forced: bool,
    /// The namespace is being deleted: nothing can be made in it.
    pub namespace_ends: bool,
    /// How long a started worker may take to register with Slurm; the random delay of its start included.
    pub registration_grace: Duration,
    /// At most so many pods are made by one plan.
    pub burst: usize,
}

/// The two APIs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Api {
    /// `slurm.nebius.ai`: ordinals stay contiguous, the highest leave first.
    Nebius,
    /// `slinky.slurm.net`: who leaves first is a matter of rank; pods that are to leave carry an annotation.
    Slinky,
}

/// How pods come to a new revision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strategy {
    /// Drain, wait for the jobs, replace.
    RollingUpdate,
    /// Replace a pod after somebody deleted it.
    OnDelete,
    /// Where only images differ: drain, wait for the jobs, change the images in the pod. Else as RollingUpdate.
    InPlaceIfPossible,
}

/// A number of pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Amount {
    /// So many.
    Count(u32),
    /// A part of `replicas`, rounded up.
    Percent(u32),
}

impl Amount {
    /// How many pods that is.
    pub fn of(self, replicas: u32) -> usize {
        match self {
            Self::Count(count) => count as usize,
            Self::Percent(percent) if planted!(PercentRoundsDown) => {
                (u64::from(percent) * u64::from(replicas) / 100) as usize
            }
            Self::Percent(percent) => (u64::from(percent) * u64::from(replicas)).div_ceil(100) as usize,
        }
    }
}

/// What becomes of claims: whether they are deleted...
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Retention {
    /// ...with the set.
    pub delete_with_set: bool,
    /// ...with a pod that leaves because there are fewer replicas.
    pub delete_when_scaled: bool,
}

/// Whether the selector can be used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Selector {
    /// It is not empty, and matches the template.
    #[default]
    Usable,
    /// It would match every pod.
    Empty,
    /// It does not match the pods that the template makes.
    NotTheTemplate,
}

/// Somebody deleted the set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deletion {
    /// When.
    pub asked: UnixTime,
}

/// How a set ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DrainOnDelete {
    /// Workers are drained, and their jobs waited for. Off means that deleting the set ends running jobs.
    pub enabled: bool,
    /// How long jobs are waited for; none: without end.
    pub deadline: Option<Duration>,
    /// After the deadline pods go although jobs run. Else the wait goes on, and the status says so.
    pub force: bool,
    /// When the cluster is gone for good, a pod without our agent goes after this time, because nobody is left to ask.
    /// None: the wait has no end.
    pub without_slurm: Option<Duration>,
}

impl Default for DrainOnDelete {
    fn default() -> Self {
        Self { enabled: true, deadline: None, force: false, without_slurm: None }
    }
}
