//! Carries out a plan: in its order, what is of one kind in batches of 1, 2, 4, ... that are sent at the same time.

use std::collections::HashSet;
use std::mem::{Discriminant, discriminant};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use engine::Key;
use engine::error::{is_too_late, status_of};
use futures::{FutureExt as _, StreamExt as _, stream};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::Resource as _;
use nodeset::{Action, Plan};

use super::budget::Released;
use super::gather::Seen;
use super::last_look::Looks;
use super::memory::Memory;
use super::slurm_writes::Change;
use super::{WorkerSet, budget, events, ownership};
use crate::context::Context;
use crate::error::Error;

/// Calls that are sent at the same time.
pub(super) const PARALLEL: usize = 32;
/// A batch is no longer than this.
const LONGEST_BATCH: usize = 128;
/// When something was not as it was seen, the caches will tell; this is for the case that they already have.
const AGAIN: Duration = Duration::from_secs(1);

/// What came of one action.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// It is done.
    Done,
    /// Something is not as it was seen, or Slurm says otherwise than before: look again.
    Again,
    /// Nothing else of the plan holds any more.
    Replan,
}

/// What came of a plan.
#[derive(Debug, Default)]
pub(super) struct Done {
    /// The first thing that did not work.
    pub(super) error: Option<Error>,
    /// Kinds of actions of which at least one was done.
    done: HashSet<&'static str>,
    /// Look again after this time.
    pub(super) again: Option<Duration>,
}

impl Done {
    /// Whether something was done that the caches will tell of.
    pub(super) fn changed_objects(&self) -> bool {
        self.done.iter().any(|kind| !SLURM_ACTIONS.contains(kind))
    }

    /// Whether something was changed in Slurm.
    pub(super) fn changed_slurm(&self) -> bool {
        self.done.iter().any(|kind| SLURM_ACTIONS.contains(kind))
    }

    /// Whether the set has lost our finalizer, and so may be gone.
    pub(super) fn let_go(&self) -> bool {
        self.done.contains("RemoveFinalizer")
    }
}

const SLURM_ACTIONS: [&str; 4] = ["Drain", "Undrain", "SetComment", "DeleteSlurmNode"];

/// One plan and all that is needed to carry it out.
pub(super) struct Execution<'a, S> {
    pub(super) context: &'a Context,
    pub(super) set: &'a S,
    pub(super) memory: &'a Memory,
    pub(super) seen: &'a Seen,
    pub(super) plan: &'a Plan,
    pub(super) key: &'a Key,
    pub(super) uid: &'a str,
    pub(super) owner: OwnerReference,
}

impl<'a, S: WorkerSet> Execution<'a, S> {
    pub(super) fn new(
        context: &'a Context,
        set: &'a S,
        memory: &'a Memory,
        seen: &'a Seen,
        plan: &'a Plan,
        key: &'a Key,
        uid: &'a str,
    ) -> Self {
        let owner = ownership::of_set(set.object());
        Self { context, set, memory, seen, plan, key, uid, owner }
    }

    /// Does it all. A failed action holds back the rest of its kind and what needs it; everything else is done.
    pub(super) async fn run(&self) -> Done {
        let mut done = Done::default();
        let mut held: HashSet<Discriminant<Action>> = HashSet::new();
        let mut rest = self.plan.actions.as_slice();
        while let Some(first) = rest.first() {
            let kind = discriminant(first);
            let length = rest.iter().take_while(|action| discriminant(*action) == kind).count();
            let (group, tail) = rest.split_at(length);
            rest = tail;
            if held.contains(&kind) || !self.may_do(first) {
                continue;
            }
            match self.group(group, &mut done).await {
                Ok(Step::Done) => {}
                Ok(Step::Again) => {
                    done.again = Some(AGAIN);
                    held.extend(self.needs(first));
                }
                Ok(Step::Replan) => {
                    done.again = Some(Duration::ZERO);
                    return done;
                }
                Err(error) => {
                    events::failed(self.context, self.set.object(), first, &error);
                    let everything = needed_by_all(first);
                    held.insert(kind);
                    held.extend(self.needs(first));
                    done.error.get_or_insert(error);
                    if everything {
                        return done;
                    }
                }
            }
        }
        done
    }

    /// The kind of action that must wait when one of these could not be done: a pod needs its claims, and takes along only those that
    /// it owns.
    fn needs(&self, action: &Action) -> Option<Discriminant<Action>> {
        let waits = |other: &&Action| match action {
            Action::CreateClaim { .. } => matches!(other, Action::CreatePod { .. }),
            Action::SetClaimOwner { .. } => matches!(other, Action::DeletePod { .. }),
            _ => false,
        };
        self.plan.actions.iter().find(waits).map(discriminant)
    }

    /// Whether actions of this kind are to be done at all now.
    fn may_do(&self, action: &Action) -> bool {
        match action {
            Action::CreatePod { .. } | Action::CreateClaim { .. } => self.set.not_yet().is_none(),
            // A plan for the end of the cluster does not end the set.
            Action::RemoveFinalizer => self.set.object().meta().deletion_timestamp.is_some(),
            _ => true,
        }
    }

    async fn group(&self, group: &[Action], done: &mut Done) -> Result<Step, Error> {
        let makes_pods = matches!(group.first(), Some(Action::CreatePod { .. }));
        // A plan that goes on where the one before ended needs no slow start.
        let (mut from, mut again) = (0, false);
        let mut size = if makes_pods { self.memory.take_pace() } else { 1 };
        let looks = Looks::new(group);
        while from < group.len() {
            let to = from.saturating_add(size).min(group.len());
            let batch = group.get(from..to).unwrap_or_default();
            let results = self.batch(batch, &looks).await;
            let mut failed = None;
            let mut told = Vec::new();
            for (at, result) in results {
                match result {
                    Ok(Step::Done) => told.extend(batch.get(at)),
                    Ok(Step::Again) => again = true,
                    Ok(Step::Replan) => return Ok(Step::Replan),
                    Err(error) => failed = Some(error),
                }
            }
            if !told.is_empty() {
                done.done.insert(batch.first().map_or("", Action::kind));
                events::done(self.context, self.set.object(), &told);
            }
            if let Some(error) = failed {
                return Err(error);
            }
            from = to;
            size = size.saturating_mul(2).min(LONGEST_BATCH);
        }
        if makes_pods {
            self.memory.keep_pace(size);
        }
        Ok(if again { Step::Again } else { Step::Done })
    }

    /// What came of actions of one kind, by their places.
    async fn batch(&self, batch: &[Action], looks: &Looks<'_>) -> Vec<(usize, Result<Step, Error>)> {
        let changes: Vec<Change<'_>> = batch.iter().filter_map(Change::of).collect();
        if !changes.is_empty() {
            return self.change_all(&changes, &self.fresh(looks).await.0).await;
        }
        let failed = &AtomicBool::new(false);
        stream::iter(0..batch.len())
            .map(|at| {
                async move {
                    // What did not work for one will not work for the rest.
                    if failed.load(Ordering::Relaxed) {
                        return (at, Ok(Step::Again));
                    }
                    let result = self.one(batch.get(at), looks).await;
                    failed.fetch_or(result.is_err(), Ordering::Relaxed);
                    (at, result)
                }
                .boxed()
            })
            .buffer_unordered(PARALLEL)
            .collect()
            .await
    }

    async fn one(&self, action: Option<&Action>, looks: &Looks<'_>) -> Result<Step, Error> {
        let Some(action) = action else { return Ok(Step::Done) };
        match action {
            // They are made many at a time.
            Action::Drain { .. } | Action::Undrain { .. } | Action::SetComment { .. } => Ok(Step::Done),
            Action::AddFinalizer => self.add_finalizer().await,
            Action::AdoptRevision { name, uid } => self.adopt_revision(name, uid).await,
            Action::CreateRevision { name, hash, number } => self.create_revision(name, hash, *number).await,
            Action::RenumberRevision { name, uid, number } => {
                self.renumber_revision(name, uid, *number).await
            }
            Action::AdoptPod { pod } => self.adopt_pod(pod).await,
            Action::ReleasePod { pod } => self.release_pod(pod).await,
            Action::RepairPod { pod } => self.repair_pod(pod).await,
            Action::CreateClaim { name, template, ordinal, owner } => {
                self.create_claim(name, template, *ordinal, owner).await
            }
            Action::SetClaimOwner { name, uid, owner } => self.own_claim(name, uid, owner).await,
            Action::CreatePod { name, ordinal, node, revision, protected } => {
                self.create_pod(name, *ordinal, node, revision, *protected).await
            }
            Action::MarkPod { pod, marks } => self.mark_pod(pod, marks).await,
            Action::PatchImages { pod, node, images, revision, proof } => {
                match self.permits(*proof, &pod.name, node, looks).await {
                    Ok(before) => self.patch_images(pod, images, revision, before).await,
                    Err(why) => Ok(self.stopped(&pod.name, &why)),
                }
            }
            Action::DeletePod { pod, node, proof, .. } => {
                match self.permits(*proof, &pod.name, node, looks).await {
                    Ok(before) => self.delete_pod(pod, before).await,
                    Err(why) => Ok(self.stopped(&pod.name, &why)),
                }
            }
            Action::DeleteSlurmNode { node } => self.delete_slurm_node(node).await,
            Action::DeleteRevision { name, uid } => self.delete_revision(name, uid).await,
            Action::RemoveFinalizer => self.remove_finalizer().await,
        }
    }

    /// The last look did not say what the plan was made with.
    fn stopped(&self, pod: &str, why: &str) -> Step {
        tracing::info!(pod, why, "the last look at Slurm stopped the change of a pod");
        Step::Again
    }

    async fn add_finalizer(&self) -> Result<Step, Error> {
        let name = self.set.finalizer();
        match engine::finalizer::add(&self.context.client, self.set.object(), name).await {
            Ok(_) => Ok(Step::Done),
            // Somebody changed the set; what was planned may not be what is wanted any more.
            Err(error) if is_conflict(&error) => Ok(Step::Replan),
            Err(error) => Err(Error::call(format!("the finalizer {name} could not be added"), error)),
        }
    }

    async fn remove_finalizer(&self) -> Result<Step, Error> {
        let name = self.set.finalizer();
        // The last moment at which somebody looks after it.
        let released = budget::release(self.context, self.key, self.uid, self.set.keys(), |_| true).await?;
        if released == Released::Again {
            return Ok(Step::Again);
        }
        match engine::finalizer::remove(&self.context.client, self.set.object(), name).await {
            Ok(_) => Ok(Step::Done),
            Err(error) if is_conflict(&error) => Ok(Step::Again),
            Err(error) => Err(Error::call(format!("the finalizer {name} could not be removed"), error)),
        }
    }

    /// What came of a patch: `wrote` is told the version that it gave.
    pub(super) fn patched(
        &self,
        result: Result<Option<String>, kube::Error>,
        what: impl FnOnce() -> String,
        wrote: impl FnOnce(&str),
    ) -> Result<Step, Error> {
        match result {
            Ok(Some(version)) => {
                wrote(&version);
                Ok(Step::Done)
            }
            // Gone, or another one by now.
            Ok(None) => Ok(Step::Again),
            Err(error) if is_conflict(&error) || is_too_late(&error) => Ok(Step::Again),
            Err(error) => Err(Error::call(what(), error)),
        }
    }
}

/// Whether the object is there already, or is not as it was seen.
pub(super) fn is_conflict(error: &kube::Error) -> bool {
    status_of(error) == Some(409)
}

/// Without these nothing else may be done.
const fn needed_by_all(action: &Action) -> bool {
    matches!(action, Action::AddFinalizer | Action::CreateRevision { .. } | Action::RenumberRevision { .. })
}
