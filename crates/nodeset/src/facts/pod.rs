//! A pod and the place that it runs at.

use crate::time::UnixTime;

/// A pod, as Kubernetes has it.
#[derive(Clone, Debug)]
pub struct Pod<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its uid.
    pub uid: &'a str,
    /// Its resourceVersion.
    pub resource_version: &'a str,
    /// Who its controller is.
    pub owner: Owner,
    /// Whether the set's selector matches its labels.
    pub selected: bool,
    /// Whether it still has the labels of its identity (pod name, index, hash) and its volumes.
    pub identity_kept: bool,
    /// The hash of the revision that it was made from: the label.
    pub revision: Option<&'a str>,
    /// The Slurm node that it is: `spec.hostname`, or else its name.
    pub slurm_node: &'a str,
    /// The Kubernetes node that it is bound to.
    pub kube_node: Option<KubeNode<'a>>,
    /// Its phase.
    pub phase: Phase,
    /// When the container of slurmd started that runs now, or that ran last; none if no container (init containers do not
    /// count) ever did.
    pub started: Option<UnixTime>,
    /// Since when it is Ready; none if it is not. `UnixTime(0)` if nobody wrote down when.
    pub ready: Option<UnixTime>,
    /// When it was made.
    pub created: UnixTime,
    /// Its deletion has begun.
    pub terminating: bool,
    /// Who marked it as cordoned.
    pub cordon: Cordon,
    /// The annotation `pod-deletion-cost`; 0 if it is missing or no number.
    pub deletion_cost: i32,
    /// The annotation that gives up all care for its jobs.
    pub forced: bool,
    /// Its images were changed in place, and not every changed container has been started anew since. As long as this is
    /// true, `ready` tells of the old containers. (Compare container IDs with those that were noted with the change.)
    pub restarting: bool,
    /// What we wrote on it.
    pub marks: Marks<'a>,
    /// What its agent says. Needed only while the set is being deleted and its cluster is gone.
    pub agent: Agent,
}

/// Who controls an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// This set, by its uid.
    Set,
    /// Nobody.
    Nobody,
    /// Somebody else; also a set of the same name that is gone.
    Other,
}

/// The phase of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Not all containers were started.
    Pending,
    /// It runs.
    Running,
    /// All containers ended well.
    Succeeded,
    /// All containers ended.
    Failed,
    /// The kubelet does not answer.
    Unknown,
}

/// A Kubernetes node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KubeNode<'a> {
    /// Its name.
    pub name: &'a str,
    /// The object does not exist any more.
    pub gone: bool,
    /// It is unschedulable.
    pub cordoned: bool,
    /// The annotation that says why.
    pub cordon_reason: Option<&'a str>,
    /// Reason and message of those conditions that are True and that the operator passes on to Slurm.
    pub conditions: Vec<(&'a str, &'a str)>,
}

/// Who marked a pod as cordoned (`slinky.slurm.net` only).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Cordon {
    /// Nobody.
    #[default]
    None,
    /// A user: the annotation is `true`, and our own mark is not beside it. Only a user takes it away.
    User,
    /// We did.
    Ours,
}

/// What we wrote on a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Marks<'a> {
    /// The label that the PodDisruptionBudget selects.
    pub protected: bool,
    /// The annotation `pod-deadline`.
    pub deadline: Option<UnixTime>,
    /// Type and message of each condition that is True and whose type begins with [`crate::CONDITION_PREFIX`].
    pub conditions: Vec<(&'a str, &'a str)>,
}

/// What the agent in a pod says of its job steps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Agent {
    /// The pod has none, or nobody asked it.
    #[default]
    Unasked,
    /// It does not answer.
    Silent,
    /// So many live, just now.
    Steps(usize),
}
