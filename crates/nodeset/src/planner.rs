//! The plan: all parts put together, in the order in which things must be done.

use std::collections::BTreeMap;
use std::time::Duration;

use slurm::Occupancy;

use crate::claims::Claims;
use crate::comment;
use crate::delete;
use crate::drain;
use crate::facts::{Cordon, Facts, Selector};
use crate::marks;
use crate::plan::{Action, Cause, Plan, Problem, Wait};
use crate::records;
use crate::recover;
use crate::revision::{Chosen, ImageChanges, choose};
use crate::roll::{self, Roll, Turn};
use crate::scale::{self, Scale};
use crate::status::{self, Sources};
use crate::view::{Hold, Life, View, Worker, reference};

/// Of the idle pods whose nodes are drained in one plan, so many get their marks in the same plan. All are to go with the next look,
/// and each mark is a write: many would take as long as the deletes.
const FLEETING_MARKS: usize = 32;

/// Decides what to do now.
///
/// A total function of the facts: it does no I/O, knows no clock, and never panics. When nothing is to be done, the plan
/// has no actions.
///
/// ```
/// use std::time::Duration;
/// use nodeset::*;
///
/// let content = Content::new(&serde_json::json!({"spec": {"template": {"spec": {"containers": []}}}}));
/// let facts = Facts {
///     now: UnixTime(1_800_000_000),
///     set: Set {
///         namespace: "default",
///         name: "gpu",
///         uid: "7f0c",
///         api: Api::Nebius,
///         replicas: 2,
///         padding: 0,
///         host_prefix: None,
///         content: &content,
///         collisions: 0,
///         history_limit: 3,
///         strategy: Strategy::RollingUpdate,
///         max_unavailable: Amount::Percent(20),
///         partition: 0,
///         kept: None,
///         paused: false,
///         min_ready: Duration::ZERO,
///         claim_templates: vec![],
///         retention: Retention::default(),
///         selector: Selector::Usable,
///         protect: true,
///         has_finalizer: true,
///         deletion: None,
///         drain_on_delete: DrainOnDelete::default(),
///         forced: false,
///         namespace_ends: false,
///         registration_grace: Duration::from_secs(120),
///         burst: 500,
///     },
///     pods: vec![],
///     claims: vec![],
///     revisions: vec![],
///     slurm: Slurm::Silent("slurmrestd does not answer yet"),
/// };
/// let kinds: Vec<_> = plan(&facts).actions.iter().map(Action::kind).collect();
/// assert_eq!(kinds, ["CreateRevision", "CreatePod", "CreatePod"]);
/// ```
pub fn plan(facts: &Facts<'_>) -> Plan {
    let view = View::new(facts);
    let mut chosen = choose(facts);
    let invalid = status::invalid(&view);
    if let Some(problem) = invalid.clone().filter(|_| facts.set.deletion.is_none()) {
        // Nothing that is done by a wrong selector could be taken back.
        return idle(&view, &chosen, problem);
    }
    if invalid.is_some() {
        // Only the set's own pods are looked after until it ends; revisions are found by the selector.
        chosen.before.clear();
        chosen.after.clear();
    }
    let scale = if facts.set.deletion.is_some() {
        let surplus = view.workers.iter().filter(|worker| !worker.pod.terminating);
        Scale { surplus: surplus.map(|worker| worker.ordinal).collect(), ..Scale::default() }
    } else {
        scale::decide(&view)
    };
    let roll = roll::decide(&view, &chosen, &scale);
    let mut steps = Steps::default();
    steps.problems.extend(invalid);
    steps.problems.extend(scale::problems(&view, &scale));
    steps.problems.extend(roll.problem.clone());
    let recovery = recover::decide(&view, &scale, &roll);
    steps.look_in(recovery.look_again);
    let leaving: BTreeMap<u32, usize> =
        scale.surplus.iter().enumerate().map(|(place, ordinal)| (*ordinal, place)).collect();
    let claims = Claims::new(facts);
    for worker in &view.workers {
        let course = course(&view, &leaving, &roll, &recovery.pods, worker);
        steps.look_after_claims(facts, &claims, worker, &course);
        steps.look_after(facts, &chosen, worker, &course, leaving.get(&worker.ordinal).copied());
    }
    steps.create(&view, &claims, &chosen, &scale);
    steps.finish(&view, chosen, &scale, &roll)
}

fn idle(view: &View<'_>, chosen: &Chosen<'_>, problem: Problem) -> Plan {
    let (scale, roll) = (Scale::default(), Roll::default());
    let problems = vec![problem];
    let sources = Sources { view, chosen, scale: &scale, roll: &roll, waits: &[], problems: &problems };
    let kept = view.facts.set.kept.map(String::from);
    Plan { status: status::fold(&sources), problems, kept, ..Plan::default() }
}

/// What happens to a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Course {
    /// It works on.
    Stay,
    /// Nothing is touched.
    Freeze,
    /// It stays, and takes no jobs.
    Drain(Cause),
    /// It leaves.
    Leave(Cause),
    /// Its images change.
    Patch(ImageChanges),
}

fn course(
    view: &View<'_>,
    leaving: &BTreeMap<u32, usize>,
    roll: &Roll,
    recovered: &[u32],
    worker: &Worker<'_>,
) -> Course {
    if worker.pod.terminating {
        return Course::Freeze;
    }
    if view.facts.set.deletion.is_some() {
        return Course::Leave(Cause::SetDeleted);
    }
    if leaving.contains_key(&worker.ordinal) {
        return Course::Leave(Cause::ScaleIn);
    }
    if worker.life == Life::Ended {
        return Course::Leave(Cause::Ended);
    }
    match roll.turns.get(&worker.ordinal) {
        Some(Turn::Replace) => return Course::Leave(Cause::Update),
        Some(Turn::Patch(images)) => return Course::Patch(images.clone()),
        Some(Turn::Pause) => return Course::Freeze,
        None => {}
    }
    if recovered.contains(&worker.ordinal) {
        Course::Leave(Cause::NotRegistered)
    } else if worker.on_cordoned_node() {
        Course::Drain(Cause::NodeCordoned)
    } else if worker.pod.cordon == Cordon::User {
        Course::Drain(Cause::PodCordoned)
    } else {
        Course::Stay
    }
}

/// The actions, sorted by when they must be done.
#[derive(Debug, Default)]
struct Steps {
    owners: Vec<Action>,
    repairs: Vec<Action>,
    claims: Vec<Action>,
    undrains: Vec<Action>,
    creates: Vec<Action>,
    drains: Vec<Action>,
    comments: Vec<Action>,
    marks: Vec<Action>,
    patches: Vec<Action>,
    /// With their place in the order of those who leave.
    deletes: Vec<(usize, Action)>,
    waits: Vec<Wait>,
    problems: Vec<Problem>,
    look_again: Option<Duration>,
    /// Idle pods whose nodes are drained in this plan.
    fleeting: usize,
}

impl Steps {
    /// The shortest of all times wins: a long one must not delay what could be done sooner.
    fn look_in(&mut self, time: Option<Duration>) {
        self.look_again = self.look_again.into_iter().chain(time).min();
    }

    fn look_after_claims(
        &mut self,
        facts: &Facts<'_>,
        claims: &Claims<'_>,
        worker: &Worker<'_>,
        course: &Course,
    ) {
        if !worker.pod.terminating && facts.set.deletion.is_none() {
            let scaled_in = *course == Course::Leave(Cause::ScaleIn);
            self.claims.extend(claims.for_pod(worker, scaled_in, &mut self.problems));
        }
    }

    fn look_after(
        &mut self,
        facts: &Facts<'_>,
        chosen: &Chosen<'_>,
        worker: &Worker<'_>,
        course: &Course,
        place: Option<usize>,
    ) {
        if let Some(comment) = comment::wanted(&facts.set, worker) {
            self.comments.push(Action::SetComment { node: worker.pod.slurm_node.into(), comment });
        }
        let changed = match course {
            Course::Freeze => false,
            Course::Stay => {
                self.undrains.extend(drain::undone(worker));
                self.look_in(worker.available_in(facts));
                false
            }
            Course::Drain(cause) => {
                self.drains.extend(drain::needed(facts, worker, *cause));
                self.look_in(worker.available_in(facts));
                false
            }
            Course::Leave(cause) => self.leave(facts, worker, *cause, place.unwrap_or(usize::MAX)),
            Course::Patch(images) => self.patch(facts, chosen, worker, images),
        };
        // A pod that is written to already gets no second write: it would spoil the resourceVersion of the first.
        if changed || worker.pod.terminating {
            return;
        }
        let matches = worker.pod.selected || facts.set.selector != Selector::Usable;
        if !worker.pod.identity_kept || !matches {
            self.repairs.push(Action::RepairPod { pod: worker.reference() });
        } else {
            let condemned = match course {
                Course::Freeze => None,
                other => Some(matches!(other, Course::Leave(_) | Course::Patch(_))),
            };
            let is_fleeting = condemned == Some(true)
                && worker.occupancy == Occupancy::Idle
                && self.fleeting > FLEETING_MARKS;
            // Its guard goes once the comment is written, and the conditions with it.
            let waits_for_comment =
                worker.occupancy == Occupancy::Free && !comment::is_kept(&facts.set, worker);
            if !is_fleeting && !waits_for_comment {
                self.marks.extend(marks::changes(facts, worker, condemned));
            }
        }
    }

    fn leave(&mut self, facts: &Facts<'_>, worker: &Worker<'_>, cause: Cause, place: usize) -> bool {
        let go = match facts.set.deletion {
            Some(deletion) => delete::may_go(facts, deletion, worker),
            None => worker.may_go(facts),
        };
        match go {
            Ok(proof) => {
                let (pod, node) = (worker.reference(), worker.pod.slurm_node.into());
                self.deletes.push((place, Action::DeletePod { pod, node, cause, proof }));
                true
            }
            Err(hold) => {
                self.hold(facts, worker, cause, hold);
                false
            }
        }
    }

    fn patch(
        &mut self,
        facts: &Facts<'_>,
        chosen: &Chosen<'_>,
        worker: &Worker<'_>,
        images: &ImageChanges,
    ) -> bool {
        match worker.may_go(facts) {
            Ok(proof) => {
                self.patches.push(Action::PatchImages {
                    pod: worker.reference(),
                    node: worker.pod.slurm_node.into(),
                    images: images.clone(),
                    revision: chosen.update.clone(),
                    proof,
                });
                true
            }
            Err(hold) => {
                self.hold(facts, worker, Cause::Update, hold);
                false
            }
        }
    }

    fn hold(&mut self, facts: &Facts<'_>, worker: &Worker<'_>, cause: Cause, hold: Hold) {
        if let Some(drain) = drain::needed(facts, worker, cause) {
            self.fleeting = self.fleeting.saturating_add(usize::from(worker.occupancy == Occupancy::Idle));
            self.drains.push(drain);
        }
        self.look_in(hold.ends);
        self.waits.push(Wait {
            pod: worker.pod.name.into(),
            node: worker.pod.slurm_node.into(),
            cause,
            why: hold.why,
            until: worker.until.time(),
        });
    }

    fn create(&mut self, view: &View<'_>, claims: &Claims<'_>, chosen: &Chosen<'_>, scale: &Scale) {
        let facts = view.facts;
        if !scale::can_create(view) {
            return;
        }
        for (made, ordinal) in scale.missing.iter().copied().enumerate() {
            if made >= facts.set.burst {
                self.look_in(Some(Duration::ZERO));
                break;
            }
            match claims.for_new_pod(ordinal) {
                Ok(actions) => {
                    self.claims.extend(actions);
                    self.creates.push(Action::CreatePod {
                        name: facts.set.pod_name(ordinal),
                        ordinal,
                        node: facts.set.node_name(ordinal),
                        revision: chosen.for_ordinal(facts, ordinal).to_owned(),
                        protected: facts.set.protect,
                    });
                }
                Err(way) => self.problems.push(Problem { reason: "ClaimInTheWay", message: way.0 }),
            }
        }
    }

    fn finish(mut self, view: &View<'_>, chosen: Chosen<'_>, scale: &Scale, roll: &Roll) -> Plan {
        let set = &view.facts.set;
        if set.deletion.is_none() {
            self.owners.extend(view.orphans.iter().map(|pod| Action::AdoptPod { pod: reference(pod) }));
        }
        // Also from a set that is being deleted: what it owns would be deleted with it.
        self.owners.extend(view.misfits.iter().map(|pod| Action::ReleasePod { pod: reference(pod) }));
        self.deletes.sort_by_key(|(place, _)| *place);
        self.problems.sort_unstable();
        self.problems.dedup();
        let sources =
            Sources { view, chosen: &chosen, scale, roll, waits: &self.waits, problems: &self.problems };
        let status = status::fold(&sources);
        let mut actions = Vec::new();
        // Also where jobs are not waited for: what the garbage collector deletes, admission holds while jobs are there.
        if set.deletion.is_none() && !set.has_finalizer {
            actions.push(Action::AddFinalizer);
        }
        actions.extend(chosen.before);
        actions.extend(self.owners);
        actions.extend(self.repairs);
        actions.extend(self.claims);
        actions.extend(self.undrains);
        actions.extend(self.creates);
        drain::share_words(view.facts, &mut self.drains);
        actions.extend(self.drains);
        actions.extend(self.comments);
        actions.extend(self.marks);
        actions.extend(self.patches);
        actions.extend(self.deletes.into_iter().map(|(_, action)| action));
        actions.extend(records::decide(view, scale));
        actions.extend(chosen.after);
        if set.deletion.is_some() && set.has_finalizer && view.workers.is_empty() && view.misfits.is_empty() {
            actions.push(Action::RemoveFinalizer);
        }
        let kept = (set.partition > 0).then_some(chosen.current);
        let watch_slurm = !self.waits.is_empty()
            || actions.iter().any(|action| matches!(action, Action::Drain { .. } | Action::Undrain { .. }));
        Plan {
            actions,
            status,
            waits: self.waits,
            problems: self.problems,
            look_again: self.look_again,
            watch_slurm,
            kept,
        }
    }
}
