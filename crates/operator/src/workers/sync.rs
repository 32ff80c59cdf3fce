//! One look at one set: gather, plan, execute, tell.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use engine::apply::Owner;
use engine::cache::Cache;
use engine::controller::Wake;
use engine::error::status_of;
use engine::view::PodView;
use engine::{Key, status};
use kube::Resource;
use parking_lot::Mutex;

use super::budget::Released;
use super::execute::{Done, Execution};
use super::gather::{LinkState, Seen, SeenSlurm};
use super::memory::Memory;
use super::{Outcome, WorkerSet, budget, events};
use crate::context::Context;
use crate::error::Error;

/// After a change in Slurm, and until its next answer, nothing is planned.
const SLURM_SOON: Duration = Duration::from_secs(1);
/// An answer that is so old although nothing fails is not waited for any longer.
const SLURM_LATE: Duration = Duration::from_secs(15);
/// A status is not written sooner after the one before: while many pods come or go, it would change with each of them.
const TELL: Duration = Duration::from_millis(500);
/// How often agents are asked while a set ends without its cluster.
const AGENTS: Duration = Duration::from_secs(5);

/// On a set that is deleted with `--cascade=orphan`, until the garbage collector has made its pods nobody's. They are to stay, so
/// until then they are none of ours to drain.
const ORPHAN: &str = "orphan";

/// How often a set looks while Slurm does not answer: what it tells of it may change.
const FAILING: Duration = Duration::from_secs(5);

/// The sets of workers of one controller.
pub struct Workers {
    context: Arc<Context>,
    controller: &'static str,
    memories: Mutex<HashMap<Key, Arc<Memory>>>,
}

impl Workers {
    /// For the controller of this name.
    pub fn new(context: Arc<Context>, controller: &'static str) -> Self {
        Self { context, controller, memories: Mutex::default() }
    }

    /// Forgets a set of the kind `K` that is gone or is not held by us any more, and lets go what it left behind. `pods` holds
    /// the pods of such sets.
    pub async fn forget<K>(&self, key: &Key, pods: &Cache<PodView>) -> Result<(), Error>
    where
        K: Resource<DynamicType = ()>,
    {
        self.memories.lock().remove(key);
        self.context.worker_metrics.forget(self.controller, key);
        budget::release_left::<K>(&self.context, key, pods).await
    }

    fn memory(&self, key: &Key) -> Arc<Memory> {
        Arc::clone(self.memories.lock().entry(key.clone()).or_default())
    }

    /// Whether what is known of the set is older than what we did.
    fn awaits<S: WorkerSet>(&self, set: &S, uid: &str) -> bool {
        self.context.caches.awaits(uid)
            || set.cache().awaits(uid)
            || set.pods().awaits(uid)
            || set.revision_cache().awaits(uid)
    }

    /// Brings a set one step nearer to what its user asks for, and tells how it stands.
    pub async fn sync<S: WorkerSet>(&self, set: &S) -> Result<Wake, Error> {
        let object = set.object();
        let (key, Some(owner)) = (Key::of(object), Owner::of(object)) else { return Ok(Wake::OnChange) };
        if self.awaits(set, owner.uid()) {
            tracing::debug!("waiting for our own writes to come back");
            return Ok(Wake::OnChange);
        }
        if !set.cache().is_latest(&key, object) {
            tracing::debug!("the set has changed meanwhile");
            return Ok(Wake::OnChange);
        }
        let memory = self.memory(&key);
        if let Some(left) = memory.lets_go(engine::finalizer::has(object.meta(), ORPHAN)) {
            tracing::debug!("the pods of the set are to stay: waiting until they are nobody's");
            return Ok(Wake::After(left));
        }
        self.find_lost(set, &memory).await?;
        let seen = Seen::gather(&self.context.caches, set, &memory).await;
        memory.keep_own(&seen.own_pods(owner.uid()));
        if awaits_slurm(&seen) {
            tracing::debug!("waiting for Slurm's answer after our own change");
            return Ok(Wake::After(SLURM_SOON));
        }
        if seen.link == LinkState::First && is_shown(set) {
            // After a start of ours nothing has changed: what users see stays until Slurm has been heard.
            tracing::debug!("waiting for Slurm's first answer");
            return Ok(Wake::After(SLURM_SOON));
        }
        let applied = match self.release(set, &seen, &key, owner.uid()).await {
            Ok(Released::Nothing) => self.apply(set, &owner).await,
            // What changed comes back and wakes us.
            Ok(Released::Done | Released::Again) => Ok(()),
            Err(error) => Err(error),
        };
        let plan = nodeset::plan(&seen.facts(set, &memory, &self.context.node_conditions));
        memory.keep(plan.kept.as_deref());
        let oldest = memory.waiting(&plan.waits, seen.now());
        self.context.worker_metrics.note(self.controller, &key, &plan, oldest);
        events::problems(&self.context, object, &memory.news(&plan.problems));
        events::states(&self.context, set, &memory, &plan);
        let done = Execution::new(&self.context, set, &memory, &seen, &plan, &key, owner.uid()).run().await;
        memory.watch(seen.slurm.link(), plan.watch_slurm || done.changed_slurm());
        if done.let_go() {
            self.context.applier.forget(owner.uid());
            return done.error.map_or(Ok(Wake::OnChange), Err);
        }
        let failed = applied.as_ref().err().or(done.error.as_ref()).map(|error| engine::error::chain(error));
        // What was written comes back and wakes us; a status in between would only flap.
        let settles = failed.is_none() && done.changed_objects() && plan.look_again != Some(Duration::ZERO);
        let too_soon = memory.told_ago().and_then(|ago| TELL.checked_sub(ago)).filter(|_| failed.is_none());
        let told = if is_shown(set) && (settles || too_soon.is_some()) {
            Ok(())
        } else {
            let pods = seen.own_pods(owner.uid());
            let outcome = Outcome { plan: &plan, pods: &pods, failed: failed.as_deref(), now: seen.now };
            self.tell(set, &memory, &outcome, owner.uid()).await
        };
        events::sync_failed(&self.context, set, &memory, applied.as_ref().err().or(told.as_ref().err()));
        let wake = wake(set, &seen, &plan, &done, [memory.unseen_for(), too_soon]);
        applied?;
        done.error.map_or(Ok(()), Err)?;
        told?;
        Ok(wake)
    }

    /// Looks for pods that have left the cache although nobody was about to take them away: they may only have lost the label by
    /// which pods are watched. The plan then gives it back.
    async fn find_lost<S: WorkerSet>(&self, set: &S, memory: &Memory) -> Result<(), Error> {
        let namespace = set.set().namespace.to_owned();
        let key = |name: &str| Key::new(&namespace, name);
        for (name, uid) in memory.lost(|name| set.pods().get(&key(name)).is_none()) {
            let found: Option<PodView> = engine::objects::get(&self.context.client, &key(&name))
                .await
                .map_err(|error| Error::call(format!("pod {name} could not be looked for"), error))?;
            if let Some(found) = found.filter(|found| found.metadata.uid.as_deref() == Some(&uid)) {
                tracing::info!(pod = name, "a pod lost the label by which pods are watched");
                memory.found(found);
            }
        }
        Ok(())
    }

    /// Lets the PodDisruptionBudget go where nobody needs it: nobody wants it, or somebody deleted it and no pod is left.
    async fn release<S: WorkerSet>(
        &self,
        set: &S,
        seen: &Seen,
        key: &Key,
        uid: &str,
    ) -> Result<Released, Error> {
        let wanted = set.set().protect;
        budget::release(&self.context, key, uid, set.keys(), |budget| {
            !wanted || (budget.metadata.deletion_timestamp.is_some() && seen.own_pods(uid).is_empty())
        })
        .await
    }

    /// Brings about what the set has besides its pods.
    async fn apply<S: WorkerSet>(&self, set: &S, owner: &Owner) -> Result<(), Error> {
        if set.object().meta().deletion_timestamp.is_some() {
            return Ok(());
        }
        let Some(mut objects) = set.objects()? else { return Ok(()) };
        let wanted = set.set();
        if wanted.protect {
            objects.push(budget::desired(wanted.namespace, wanted.name, set.keys(), set.selector())?);
        }
        Ok(self.context.applier.apply(owner, objects).await.into_result()?)
    }

    async fn tell<S: WorkerSet>(
        &self,
        set: &S,
        memory: &Memory,
        outcome: &Outcome<'_>,
        uid: &str,
    ) -> Result<(), Error> {
        let (object, next) = (set.object(), set.status(outcome));
        let written =
            status::write(&self.context.client, crate::MANAGER, object, set.current_status(), &next).await;
        match written {
            Ok(Some(version)) => {
                memory.told();
                set.cache().wrote(Key::of(object), &version, uid);
            }
            Ok(None) => {}
            // It has just gone.
            Err(error) if status_of(&error) == Some(404) => {}
            Err(error) => return Err(Error::Status(error)),
        }
        Ok(())
    }
}

/// Whether the last answer is from before our own last change, and the next is on its way.
fn awaits_slurm(seen: &Seen) -> bool {
    match &seen.slurm {
        SeenSlurm::Answer { snapshot, not_before, .. } => {
            snapshot.asked() < *not_before && snapshot.age() < SLURM_LATE
        }
        SeenSlurm::NoCluster | SeenSlurm::Silent(_) => false,
    }
}

/// Whether users see a status already.
fn is_shown<S: WorkerSet>(set: &S) -> bool {
    set.current_status().is_some()
}

/// When to look again without being woken.
fn wake<S: WorkerSet>(
    set: &S,
    seen: &Seen,
    plan: &nodeset::Plan,
    done: &Done,
    more: [Option<Duration>; 2],
) -> Wake {
    // A plan that makes only a part of the pods wants to go on at once; not while none can be made.
    let planned = plan.look_again.filter(|time| !(time.is_zero() && set.not_yet().is_some()));
    let slurm = done.changed_slurm().then_some(SLURM_SOON);
    let agents = (matches!(seen.slurm, SeenSlurm::NoCluster) && !plan.waits.is_empty()).then_some(AGENTS);
    let failing = (seen.link == LinkState::Failing).then_some(FAILING);
    let all = [planned, done.again, slurm, agents, failing];
    all.into_iter().chain(more).flatten().min().map_or(Wake::OnChange, Wake::After)
}
