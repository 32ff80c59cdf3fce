//! Carries out a plan in the small world, as a front end must.

use super::world::*;
use crate::*;

impl World {
    fn reaches_slurm(&self) -> bool {
        matches!(self.mode, Mode::Up | Mode::Empty | Mode::NoJobs | Mode::WrongOrder)
    }

    /// Does the first so many actions. An error is a violation.
    pub(crate) fn execute(&mut self, plan: &Plan, limit: usize) -> Result<(), String> {
        for action in plan.actions.iter().take(limit) {
            self.act(action)?;
        }
        Ok(())
    }

    fn act(&mut self, action: &Action) -> Result<(), String> {
        match action {
            Action::AddFinalizer => self.finalizer = true,
            Action::CreateRevision { name, hash, number } => self.revisions.push(SimRevision {
                name: name.clone(),
                hash: hash.clone(),
                number: *number,
                content: self.content,
            }),
            Action::RenumberRevision { name, number, .. } => {
                for revision in self.revisions.iter_mut().filter(|revision| revision.name == *name) {
                    revision.number = *number;
                }
            }
            Action::DeleteRevision { name, .. } => self.revisions.retain(|revision| revision.name != *name),
            Action::CreateClaim { name, .. } | Action::CreatePod { name, .. } if self.namespace_ends => {
                return Err(format!("{name} is made in a namespace that ends"));
            }
            Action::RepairPod { pod } => {
                let pod = self.pod(pod)?;
                pod.identity = true;
                pod.touch();
            }
            Action::CreateClaim { name, owner, .. } => {
                let uid = format!("claim-{}", self.fresh());
                self.claims.insert(name.clone(), SimClaim { uid, owner: owner.clone() });
            }
            Action::SetClaimOwner { name, uid, owner } => match self.claims.get_mut(name) {
                Some(claim) if claim.uid == *uid => claim.owner = owner.clone(),
                _ => return Err(format!("the claim {name} is another one")),
            },
            Action::CreatePod { name, ordinal, revision, .. } => {
                if self.pods.contains_key(name) {
                    return Err(format!("{name} is made twice"));
                }
                if !self.revisions.iter().any(|known| known.hash == *revision) {
                    return Err(format!("{name} is made from {revision}, which nobody has"));
                }
                self.add_pod(*ordinal, revision.clone());
            }
            Action::MarkPod { pod, marks } => {
                let pod = self.pod(pod)?;
                if let Some(conditions) = &marks.conditions {
                    pod.conditions = conditions.clone();
                }
                pod.protected = marks.protected.unwrap_or(pod.protected);
                if let Some(deadline) = marks.deadline {
                    pod.deadline = deadline.map(|time| time.0);
                }
                match marks.cordoned {
                    Some(true) => pod.cordon = Cordon::Ours,
                    Some(false) => pod.cordon = Cordon::None,
                    None => {}
                }
                pod.touch();
            }
            Action::PatchImages { pod, node, revision, proof, .. } => {
                if self.last_look(node, *proof) {
                    let pod = self.pod(pod)?;
                    pod.revision = revision.clone();
                    pod.restarting = Some(1);
                    pod.touch();
                    if *proof == Proof::Forced {
                        // The user gave up what runs there; it ends with the old container.
                        self.jobs.retain(|job| !job.nodes.contains(node));
                        self.nodes.entry(node.clone()).and_modify(|node| node.answers = None);
                    }
                }
            }
            Action::DeletePod { pod, node, proof, .. } => {
                if self.last_look(node, *proof) {
                    self.pod(pod)?;
                    self.kill(&pod.name, node, *proof)?;
                }
            }
            Action::RemoveFinalizer => self.finalized = true,
            Action::Undrain { .. }
            | Action::Drain { .. }
            | Action::SetComment { .. }
            | Action::DeleteSlurmNode { .. } => self.tell_slurm(action)?,
            Action::AdoptRevision { .. } | Action::AdoptPod { .. } | Action::ReleasePod { .. } => {
                return Err(format!("nobody asked for {action:?}"));
            }
        }
        Ok(())
    }

    fn tell_slurm(&mut self, action: &Action) -> Result<(), String> {
        if !self.reaches_slurm() {
            return Ok(());
        }
        self.wrote = moment(self.now * 1000 + 500);
        match action {
            Action::Drain { node, reason, .. } => {
                if let Some(node) = self.nodes.get_mut(node) {
                    (node.drain, node.reason) = (true, reason.clone());
                }
            }
            Action::Undrain { node, reason, .. } => {
                if let Some(node) = self.nodes.get_mut(node) {
                    (node.drain, node.reason) = (false, reason.clone());
                }
            }
            Action::SetComment { node, comment } => {
                if let Some(node) = self.nodes.get_mut(node) {
                    node.comment = comment.clone();
                }
            }
            Action::DeleteSlurmNode { node } => {
                let idle = self.jobs_on(node).next().is_none();
                if self.pod_of(node).is_some() {
                    return Err(format!("the record of {node} was deleted under its pod"));
                }
                if idle {
                    self.nodes.remove(node);
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// The look just before a pod is taken away: a job that came in between stops it.
    fn last_look(&self, node: &str, proof: Proof) -> bool {
        let jobs = self.jobs_on(node).next().is_some();
        match proof.last_look() {
            LastLook::Nothing | LastLook::NodeGone => true,
            LastLook::Agent => !jobs,
            LastLook::Free => {
                self.reaches_slurm()
                    && !jobs
                    && self.nodes.get(node).is_some_and(|node| node.drain && !node.garbled)
            }
            LastLook::Absent => self.reaches_slurm() && !jobs && !self.nodes.contains_key(node),
        }
    }

    fn kill(&mut self, name: &str, node: &str, proof: Proof) -> Result<(), String> {
        let given_up =
            matches!(proof, Proof::Deadline | Proof::DrainOff | Proof::NobodyToAsk | Proof::Forced);
        if !given_up && self.jobs_on(node).next().is_some() {
            return Err(format!("{name} was deleted with a job on it ({proof:?})"));
        }
        if let Some(pod) = self.pods.get_mut(name) {
            pod.terminating = Some(1);
            pod.touch();
        }
        Ok(())
    }

    fn pod(&mut self, wanted: &PodRef) -> Result<&mut SimPod, String> {
        let pod = self.pods.get_mut(&wanted.name).ok_or_else(|| format!("{} is gone", wanted.name))?;
        if pod.uid != wanted.uid || pod.version_text != wanted.resource_version {
            return Err(format!("{} has changed since: one plan wrote to it twice", wanted.name));
        }
        Ok(pod)
    }
}
