//! Labels and annotations by which the two APIs differ.

/// Labels and annotations of one API.
#[derive(Debug)]
pub struct Keys {
    /// Label of pods and revisions: the hash of the revision.
    pub hash: &'static str,
    /// Label of a pod, `true`: the PodDisruptionBudget guards it.
    pub protect: &'static str,
    /// Annotation of a pod: when the last job on its drained node must have ended.
    pub deadline: &'static str,
    /// Annotation of a pod whose images were changed in place: the containers that ran before, as JSON.
    pub in_place: &'static str,
    /// Annotations of a pod that leaves; none if this API has no such mark.
    pub cordon: Option<CordonKeys>,
    /// Annotation of a pod: who leaves first.
    pub deletion_cost: Option<&'static str>,
    /// Annotations of a Kubernetes node that say why it is cordoned; the first that is there counts.
    pub cordon_reasons: &'static [&'static str],
    /// The name of the PodDisruptionBudget is that of the set and this.
    pub budget_suffix: &'static str,
}

/// How a pod is marked that takes no more jobs.
#[derive(Debug)]
pub struct CordonKeys {
    /// Annotation, `true`: the pod takes no more jobs.
    pub cordoned: &'static str,
    /// Annotation beside it: we wrote it, and not a user.
    pub ours: &'static str,
}
