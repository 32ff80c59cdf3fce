//! What the planner is told: everything that it knows is in here.

mod claim;
mod pod;
mod set;
mod slurm;

pub use claim::{Claim, ClaimRef, RefTarget};
pub use pod::{Agent, Cordon, KubeNode, Marks, Owner, Phase, Pod};
pub use set::{Amount, Api, Deletion, DrainOnDelete, Retention, Selector, Set, Strategy};
pub use slurm::{Answer, Identity, Jobs, Slurm};

use crate::revision::Revision;
use crate::time::UnixTime;

/// Everything that is known of one set of workers at one moment.
///
/// The order of the lists means nothing: permuted facts give the same plan.
///
/// **What a front end must keep to**
///
/// - `pods` holds every pod of the namespace that the set owns or whose name the set may want (`<set>-<digits>`), whoever
///   owns it. The view must be at least as new as the front end's own writes; else pods are made twice.
/// - The times of [`Answer`] come from one clock that never goes back, and [`Answer::not_before`] is never earlier than the
///   front end's own last write to Slurm. So a drain that was just written is not judged by a list from before it.
/// - Nothing is left out because it seems unimportant: a fact that is missing must read as "not known".
#[derive(Clone, Debug)]
pub struct Facts<'a> {
    /// The time.
    pub now: UnixTime,
    /// What the user asks for.
    pub set: Set<'a>,
    /// The pods.
    pub pods: Vec<Pod<'a>>,
    /// The PersistentVolumeClaims that have a name which the set may want.
    pub claims: Vec<Claim<'a>>,
    /// The ControllerRevisions that the set owns, or that nobody owns and its selector matches.
    pub revisions: Vec<Revision<'a>>,
    /// What Slurm says.
    pub slurm: Slurm<'a>,
}
