//! What the planner answers.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use crate::revision::ImageChanges;
use crate::status::Status;
use crate::time::UnixTime;

/// What is to be done now, how things stand, and when to look again.
///
/// **How to carry it out.** The actions stand in the order in which they must be done; those of one kind that follow each
/// other may be done at the same time. A failed action holds back the rest of its kind, and those that need what it
/// would have made; nothing is lost when everything after it is left out, because the next plan asks for it again. After
/// the last action the set looks as the status says only when the next plan has no actions.
///
/// A plan never asks for two changes of one pod that would spoil each other's resourceVersion.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// What to do.
    pub actions: Vec<Action>,
    /// How things stand, for the status of either API.
    pub status: Status,
    /// Which pods are to leave and cannot yet, and why: for people.
    pub waits: Vec<Wait>,
    /// What is wrong and needs a person: each is worth a warning event when it is new.
    pub problems: Vec<Problem>,
    /// Look again after this time, although nothing changed. None: only when something changes.
    pub look_again: Option<Duration>,
    /// Something waits for Slurm: read it often.
    pub watch_slurm: bool,
    /// The label of the revision that pods below the partition keep; the next facts want it ([`Set::kept`](crate::Set::kept)).
    pub kept: Option<String>,
}

/// A pod in its present version: what a write must name so that it hits nothing else.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PodRef {
    /// Its name.
    pub name: String,
    /// Its uid.
    pub uid: String,
    /// Its resourceVersion.
    pub resource_version: String,
}

/// One step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Put our finalizer on the set, before anything else is made for it.
    AddFinalizer,
    /// Make the set the controller of a revision that has none.
    AdoptRevision {
        /// The revision.
        name: String,
        /// Its uid.
        uid: String,
    },
    /// Make a revision of what the set wants now. When the name is taken, raise `collisions` and plan again.
    CreateRevision {
        /// Its name.
        name: String,
        /// Its label.
        hash: String,
        /// Its number.
        number: i64,
    },
    /// Give a revision that is wanted again a new number.
    RenumberRevision {
        /// The revision.
        name: String,
        /// Its uid.
        uid: String,
        /// Its new number.
        number: i64,
    },
    /// Make the set the controller of a pod that has none.
    AdoptPod {
        /// The pod.
        pod: PodRef,
    },
    /// The pod does not match the set any more: take the set's owner reference from it, and leave it alone.
    ReleasePod {
        /// The pod.
        pod: PodRef,
    },
    /// Give a pod the labels of its identity and its volumes back.
    RepairPod {
        /// The pod.
        pod: PodRef,
    },
    /// Make a claim.
    CreateClaim {
        /// Its name.
        name: String,
        /// The template.
        template: String,
        /// The ordinal of its pod.
        ordinal: u32,
        /// Who owns it. Never a pod, as that is not there yet.
        owner: ClaimOwner,
    },
    /// Make this the only owner of ours that a claim has; owners of others stay.
    SetClaimOwner {
        /// The claim.
        name: String,
        /// Its uid.
        uid: String,
        /// Who owns it.
        owner: ClaimOwner,
    },
    /// Take back a drain of ours. Never asked for where somebody else drained the node.
    Undrain {
        /// The Slurm node.
        node: String,
        /// Its pod.
        pod: String,
        /// What replaces our reason: Slurm 24.11 keeps it otherwise, and the next drain would look like ours.
        reason: String,
    },
    /// Make a pod: with the set as its controller, the labels of its identity (name, ordinal, hash of the revision), its volumes
    /// for claims, and the label that guards it.
    CreatePod {
        /// Its name.
        name: String,
        /// Its ordinal.
        ordinal: u32,
        /// The Slurm node that it is.
        node: String,
        /// The label of its revision. If the set's own content is not of this revision, take the revision's.
        revision: String,
        /// Whether it gets the label that guards it against eviction from the beginning.
        protected: bool,
    },
    /// Tell Slurm to start no more jobs on a node.
    Drain {
        /// The Slurm node.
        node: String,
        /// Its pod.
        pod: String,
        /// What Slurm is told.
        reason: String,
        /// Why.
        cause: Cause,
    },
    /// Write the comment of a Slurm node, which says whose it is.
    SetComment {
        /// The Slurm node.
        node: String,
        /// The text.
        comment: String,
    },
    /// Change what we write on a pod. All of it fits into one patch of `pods/status`, which takes labels and annotations
    /// too. Conditions of others are not touched.
    MarkPod {
        /// The pod.
        pod: PodRef,
        /// The changes.
        marks: MarkChanges,
    },
    /// Change the images of a pod, and its label to the new revision. Look at Slurm once more before ([`Proof`]), and note the
    /// IDs of the containers, so that [`crate::Pod::restarting`] can be told afterwards.
    PatchImages {
        /// The pod; uid and resourceVersion are preconditions.
        pod: PodRef,
        /// The Slurm node that it is.
        node: String,
        /// The images by container.
        images: ImageChanges,
        /// The label of the new revision.
        revision: String,
        /// Why the pod may be touched.
        proof: Proof,
    },
    /// Delete a pod. Look at Slurm once more before ([`Proof`]).
    DeletePod {
        /// The pod; uid and resourceVersion are preconditions.
        pod: PodRef,
        /// The Slurm node that it is.
        node: String,
        /// Why it has to go.
        cause: Cause,
        /// Why it may go.
        proof: Proof,
    },
    /// Delete the record of a dynamic node whose pod is gone for good.
    DeleteSlurmNode {
        /// The Slurm node.
        node: String,
    },
    /// Delete a revision that nobody needs.
    DeleteRevision {
        /// The revision.
        name: String,
        /// Its uid.
        uid: String,
    },
    /// Take our finalizer from the set: all its pods are gone. A failed [`Action::DeleteSlurmNode`] does not hold it.
    RemoveFinalizer,
}

impl Action {
    /// A word for what it does: for metrics and log lines.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::AddFinalizer => "AddFinalizer",
            Self::AdoptRevision { .. } => "AdoptRevision",
            Self::CreateRevision { .. } => "CreateRevision",
            Self::RenumberRevision { .. } => "RenumberRevision",
            Self::AdoptPod { .. } => "AdoptPod",
            Self::ReleasePod { .. } => "ReleasePod",
            Self::RepairPod { .. } => "RepairPod",
            Self::CreateClaim { .. } => "CreateClaim",
            Self::SetClaimOwner { .. } => "SetClaimOwner",
            Self::Undrain { .. } => "Undrain",
            Self::CreatePod { .. } => "CreatePod",
            Self::Drain { .. } => "Drain",
            Self::SetComment { .. } => "SetComment",
            Self::MarkPod { .. } => "MarkPod",
            Self::PatchImages { .. } => "PatchImages",
            Self::DeletePod { .. } => "DeletePod",
            Self::DeleteSlurmNode { .. } => "DeleteSlurmNode",
            Self::DeleteRevision { .. } => "DeleteRevision",
            Self::RemoveFinalizer => "RemoveFinalizer",
        }
    }
}

/// Who owns a claim, by a controller reference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClaimOwner {
    /// Nobody: it stays.
    Nobody,
    /// The set: it goes with it.
    Set,
    /// The pod, which is about to leave: it goes with it.
    Pod {
        /// The pod.
        name: String,
        /// Its uid.
        uid: String,
    },
}

/// Changes of what we write on a pod. None: leave it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MarkChanges {
    /// All conditions of ours, type and message; those that are missing are removed. Each has the status True.
    pub conditions: Option<BTreeMap<String, String>>,
    /// The label that the PodDisruptionBudget selects.
    pub protected: Option<bool>,
    /// The annotation `pod-deadline`.
    pub deadline: Option<Option<UnixTime>>,
    /// The annotation `pod-cordon`, with the mark that it is ours; or neither.
    pub cordoned: Option<bool>,
}

/// Why a node is drained or a pod leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// There are more pods than replicas.
    ScaleIn,
    /// The set is being deleted.
    SetDeleted,
    /// It has an old revision.
    Update,
    /// All its containers have ended.
    Ended,
    /// It is ready, but its Slurm node does not exist.
    NotRegistered,
    /// Its Kubernetes node is cordoned. The pod stays.
    NodeCordoned,
    /// A user cordoned it. The pod stays.
    PodCordoned,
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ScaleIn => "there are fewer replicas",
            Self::SetDeleted => "the NodeSet is being deleted",
            Self::Update => "it has an old revision",
            Self::Ended => "its containers have ended",
            Self::NotRegistered => "its Slurm node does not exist",
            Self::NodeCordoned => "its Kubernetes node is cordoned",
            Self::PodCordoned => "it is cordoned",
        })
    }
}

/// Why a pod may be taken away; and with it, what must be looked at once more just before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proof {
    /// Slurm showed the node drained and without jobs. Read the node and then the jobs once more: `slurm::occupancy` must
    /// still say Free.
    Drained,
    /// Slurm has no such node, and no job names it. Look the node up once more: there must be none, and no job on it.
    Absent,
    /// No container ever started. The preconditions of the write are enough.
    NeverStarted,
    /// All containers have ended. The preconditions of the write are enough.
    Ended,
    /// Its Kubernetes node does not exist any more. Look it up once more: what is known of nodes may be older than the pod.
    NodeGone,
    /// The cluster is gone, and the pod's agent sees no job step. Ask it once more.
    NoSteps,
    /// The cluster is gone, the pod has no agent that answers, and the time for that is over.
    NobodyToAsk,
    /// The user set a deadline that is over, and said that pods go then.
    Deadline,
    /// The user turned off the care for jobs when the set is deleted.
    DrainOff,
    /// The user said so by an annotation.
    Forced,
}

/// What must be looked at just before a pod is taken away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LastLook {
    /// Node and jobs must say Free.
    Free,
    /// There must be no such node, and no job on it.
    Absent,
    /// The agent must see no job step.
    Agent,
    /// There must be no such Kubernetes node.
    NodeGone,
    /// Nothing: the preconditions are enough, or the user gave up the care.
    Nothing,
}

impl Proof {
    /// What must be looked at once more, just before.
    pub const fn last_look(self) -> LastLook {
        match self {
            Self::Drained => LastLook::Free,
            Self::Absent => LastLook::Absent,
            Self::NoSteps => LastLook::Agent,
            Self::NodeGone => LastLook::NodeGone,
            Self::NeverStarted
            | Self::Ended
            | Self::NobodyToAsk
            | Self::Deadline
            | Self::DrainOff
            | Self::Forced => LastLook::Nothing,
        }
    }
}

/// A pod that is to leave or change and cannot yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wait {
    /// The pod.
    pub pod: String,
    /// The Slurm node that it is.
    pub node: String,
    /// Why it is to leave.
    pub cause: Cause,
    /// What it waits for.
    pub why: String,
    /// When the last of its jobs must have ended, if that is known.
    pub until: Option<UnixTime>,
}

/// Something that needs a person.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Problem {
    /// A word for it, for events and conditions.
    pub reason: &'static str,
    /// What is wrong and what to do.
    pub message: String,
}
