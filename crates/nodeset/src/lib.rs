//! The planner of worker sets, pure: facts in; ordered actions, a status and the time of the next look out.
//!
//! Two APIs have sets of workers: `slurm.nebius.ai` and `slinky.slurm.net`. Both are translated into the same [`Facts`], and
//! [`plan`] decides. It keeps the law "jobs are sacred": a pod whose Slurm node runs a job, or may run one, is not taken away.
//!
//! ```text
//! observe            plan                    execute
//! Facts  ─────────►  plan(&facts)  ───────►  Plan { actions, status, waits, problems, look_again }
//! ```
//!
//! **To write a front end**, read [`Facts`] (what must be told, and how fresh it must be), [`Plan`] (how actions are carried
//! out) and [`Proof`] (what must be looked at once more just before a pod is deleted).
//!
//! **What the planner does**
//!
//! - *Scale-out* makes pods; *scale-in* drains nodes, waits until Slurm shows them drained and without jobs, and deletes their
//!   pods. When the number of replicas goes up again meanwhile, drains are taken back.
//! - *Updates* drain, wait and replace (or change images in the pod), and never take more healthy pods away than
//!   `max_unavailable`: pods that are missing, or new and not at work yet, count.
//! - A *cordoned* Kubernetes node drains the Slurm nodes of its pods. Drains of others are never taken back.
//! - *Deleting the set* drains first. The finalizer goes when the last pod has gone.
//! - *Unknown is busy*: no answer, an old one, an empty list, another cluster's list, or a state that nobody can read.

#[macro_use]
mod bug;

mod claims;
mod comment;
mod delete;
mod drain;
mod facts;
mod marks;
mod names;
mod plan;
mod planner;
mod records;
mod recover;
mod revision;
mod roll;
mod scale;
mod status;
mod time;
mod trust;
mod victims;
mod view;

#[cfg(test)]
mod tests;

pub use drain::REASON_PREFIX;
pub use facts::{
    Agent, Amount, Answer, Api, Claim, ClaimRef, Cordon, Deletion, DrainOnDelete, Facts, Identity, Jobs,
    KubeNode, Marks, Owner, Phase as PodPhase, Pod, RefTarget, Retention, Selector, Set, Slurm, Strategy,
};
pub use marks::CONDITION_PREFIX;
pub use plan::{Action, Cause, ClaimOwner, LastLook, MarkChanges, Plan, PodRef, Problem, Proof, Wait};
pub use planner::plan;
pub use revision::{Content, ImageChanges, Revision};
pub use status::{Condition, Phase, SlurmCounts, Status, condition};
pub use time::UnixTime;
