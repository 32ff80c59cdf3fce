//! Claims: which are missing, and who owns them.

use std::collections::BTreeMap;

use crate::facts::{Claim, Facts, RefTarget, Retention};
use crate::plan::{Action, ClaimOwner, Problem};
use crate::view::Worker;

/// The claims by name.
#[derive(Debug)]
pub(crate) struct Claims<'f> {
    facts: &'f Facts<'f>,
    by_name: BTreeMap<&'f str, &'f Claim<'f>>,
}

/// What stands in the way of a new pod.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct InTheWay(pub(crate) String);

impl<'f> Claims<'f> {
    pub(crate) fn new(facts: &'f Facts<'f>) -> Self {
        Self { facts, by_name: facts.claims.iter().map(|claim| (claim.name, claim)).collect() }
    }

    /// Makes the claims of a pod that is to be made; or tells why it must wait.
    pub(crate) fn for_new_pod(&self, ordinal: u32) -> Result<Vec<Action>, InTheWay> {
        let set = &self.facts.set;
        let mut actions = Vec::new();
        for template in templates(self.facts) {
            let name = set.claim_name(template, ordinal);
            let Some(claim) = self.by_name.get(&*name) else {
                actions.push(self.create(name, template, ordinal));
                continue;
            };
            // A claim that an earlier pod of the name owns is about to go with it.
            let pod = set.pod_name(ordinal);
            let going = claim.deleting
                || claim
                    .owners
                    .iter()
                    .any(|owner| matches!(owner.target, RefTarget::Pod { name, .. } if name == pod));
            if going {
                return Err(InTheWay(format!(
                    "the claim {name} is being deleted, and its pod waits for a new one"
                )));
            }
        }
        Ok(actions)
    }

    /// Sets owners of the claims of a pod as the policy wants it, and makes claims that are missing.
    pub(crate) fn for_pod(
        &self,
        worker: &Worker<'_>,
        leaves: bool,
        problems: &mut Vec<Problem>,
    ) -> Vec<Action> {
        let set = &self.facts.set;
        let mut actions = Vec::new();
        for template in templates(self.facts) {
            let name = set.claim_name(template, worker.ordinal);
            let Some(claim) = self.by_name.get(&*name) else {
                if !leaves {
                    actions.push(self.create(name, template, worker.ordinal));
                }
                continue;
            };
            if claim.deleting {
                continue;
            }
            let owner = match wanted_owner(set.retention, leaves) {
                Wanted::Nobody => ClaimOwner::Nobody,
                Wanted::Set => ClaimOwner::Set,
                Wanted::Pod => ClaimOwner::Pod { name: worker.pod.name.into(), uid: worker.pod.uid.into() },
            };
            match judge(self.facts, claim, worker.pod.name, worker.pod.uid, &owner) {
                Verdict::Fine | Verdict::Stale => {}
                Verdict::Change(owner) => {
                    actions.push(Action::SetClaimOwner { name, uid: claim.uid.into(), owner });
                }
                Verdict::Conflict { ours } => {
                    problems.push(Problem {
                        reason: "ConflictingController",
                        message: format!(
                            "the claim {name} belongs to another controller, so it stays when its pod goes"
                        ),
                    });
                    if ours {
                        let owner = ClaimOwner::Nobody;
                        actions.push(Action::SetClaimOwner { name, uid: claim.uid.into(), owner });
                    }
                }
            }
        }
        actions
    }

    fn create(&self, name: String, template: &str, ordinal: u32) -> Action {
        let owner =
            if self.facts.set.retention.delete_with_set { ClaimOwner::Set } else { ClaimOwner::Nobody };
        Action::CreateClaim { name, template: template.to_owned(), ordinal, owner }
    }
}

fn templates<'f>(facts: &'f Facts<'f>) -> Vec<&'f str> {
    let mut templates = facts.set.claim_templates.clone();
    templates.sort_unstable();
    templates.dedup();
    templates
}

/// Who should own a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    Nobody,
    Set,
    Pod,
}

/// Who should own the claim of a pod that stays, or that leaves because there are fewer replicas.
pub(crate) const fn wanted_owner(retention: Retention, leaves: bool) -> Wanted {
    match (retention.delete_with_set, retention.delete_when_scaled && leaves) {
        (_, true) => Wanted::Pod,
        (true, false) => Wanted::Set,
        (false, false) => Wanted::Nobody,
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    Fine,
    /// It has an owner of ours that is gone: it is not touched, as it goes too.
    Stale,
    Change(ClaimOwner),
    /// Somebody else controls it.
    Conflict {
        /// It has a reference of ours that must go.
        ours: bool,
    },
}

fn judge(facts: &Facts<'_>, claim: &Claim<'_>, pod: &str, pod_uid: &str, wanted: &ClaimOwner) -> Verdict {
    let set_uid = facts.set.uid;
    let mut ours = Vec::new();
    let mut foreign_controller = false;
    for owner in &claim.owners {
        match owner.target {
            RefTarget::Set { uid } if uid == set_uid => ours.push((ClaimOwner::Set, owner.controller)),
            RefTarget::Pod { name, uid } if name == pod && uid == pod_uid => {
                let target = ClaimOwner::Pod { name: name.into(), uid: uid.into() };
                ours.push((target, owner.controller));
            }
            RefTarget::Set { .. } => return Verdict::Stale,
            RefTarget::Pod { name, .. } if name == pod => return Verdict::Stale,
            RefTarget::Pod { .. } | RefTarget::Other => foreign_controller |= owner.controller,
        }
    }
    let retention = facts.set.retention;
    let keeps_all = !retention.delete_with_set && !retention.delete_when_scaled;
    if foreign_controller && !keeps_all {
        return Verdict::Conflict { ours: !ours.is_empty() };
    }
    let fine = match wanted {
        ClaimOwner::Nobody => ours.is_empty(),
        other => ours.len() == 1 && ours[0] == (other.clone(), true),
    };
    if fine { Verdict::Fine } else { Verdict::Change(wanted.clone()) }
}
