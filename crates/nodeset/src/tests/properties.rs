//! Properties over random worlds and schedules, and the bugs that they must find.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use proptest::arbitrary::any;
use proptest::strategy::{Strategy as Values, ValueTree};
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner};

use super::dice::Dice;
use super::oracle;
use super::world::{ADMIN, Mode, TICK, Work, World};
use crate::bug::{Bug, plant};
use crate::*;

/// How many random cases `cargo test` runs. `SOPERATOR_SWEEP=full` runs ten times as many, and `SOPERATOR_SEED` (0 to 255) others.
const CASES: u32 = 100_000;

/// After so many steps without an end there is none: many pods that are replaced one by one take long.
const MOST_STEPS: u64 = 400;

/// How often each kind of trouble was in a case.
#[derive(Debug, Default)]
struct Tally {
    cases: u64,
    troubled: u64,
    kinds: BTreeMap<&'static str, u64>,
    plans: u64,
    steps_to_rest: u64,
}

impl Tally {
    fn add(&mut self, kinds: &BTreeMap<&'static str, bool>) {
        self.cases += 1;
        self.troubled += u64::from(kinds.values().any(|seen| *seen));
        for (kind, seen) in kinds {
            *self.kinds.entry(kind).or_default() += u64::from(*seen);
        }
    }

    fn text(&self) -> String {
        let percent = |count: u64| count as f64 * 100.0 / self.cases.max(1) as f64;
        let mut text = format!(
            "{} cases, {} plans; {:.1} % held busy, suspended, stale or unknown nodes",
            self.cases,
            self.plans,
            percent(self.troubled)
        );
        for (kind, count) in &self.kinds {
            let _ = write!(text, "\n  {kind:<10} {:5.1} %", percent(*count));
        }
        let _ = write!(
            text,
            "\n  {:.1} steps on average until nothing was left to do",
            self.steps_to_rest as f64 / self.cases.max(1) as f64
        );
        text
    }
}

fn note(world: &World, kinds: &mut BTreeMap<&'static str, bool>) {
    let mut set = |kind, seen: bool| *kinds.entry(kind).or_default() |= seen;
    set("busy", world.jobs.iter().any(|job| job.work != Work::Suspended));
    set("suspended", world.jobs.iter().any(|job| job.work == Work::Suspended));
    set("stale", matches!(world.mode, Mode::Stale | Mode::WrongOrder) && !world.pods.is_empty());
    let unknown =
        matches!(world.mode, Mode::Silent | Mode::Empty | Mode::Foreign | Mode::NoJobs | Mode::NoCluster);
    set("unknown", (unknown || world.nodes.values().any(|node| node.garbled)) && !world.pods.is_empty());
}

/// What is left to do.
#[derive(Debug)]
enum Look {
    Busy,
    In(std::time::Duration),
    Rest,
}

/// One look: the world goes on, the planner plans, the plan is checked and carried out.
fn step(world: &mut World, calm: bool, limit: usize, turn: usize) -> Result<Look, String> {
    world.tick(calm)?;
    world.look();
    let facts = world.facts();
    let result = plan(&facts);
    oracle::check(&facts, &result)?;
    if turn > 0 {
        let mut permuted = facts.clone();
        let turn = turn % permuted.pods.len().max(1);
        permuted.pods.rotate_left(turn);
        permuted.pods.reverse();
        permuted.claims.reverse();
        permuted.revisions.reverse();
        if plan(&permuted) != result {
            return Err("permuted facts give another plan".into());
        }
    }
    world.execute(&result, limit)?;
    Ok(match result.look_again {
        _ if !result.actions.is_empty() => Look::Busy,
        Some(time) => Look::In(time),
        None => Look::Rest,
    })
}

/// One random case: any world, some steps with accidents, and then calm until nothing is left to do.
fn case(bytes: &[u8], tally: &mut Tally) -> Result<(), String> {
    let mut dice = Dice::new(bytes);
    let mut world = World::any(&mut dice);
    let mut kinds = BTreeMap::new();
    let chaos = dice.below(8);
    for _ in 0..chaos {
        if dice.chance(75) {
            world.accident(&mut dice);
        }
        note(&world, &mut kinds);
        // The program may end in the middle of a plan.
        let limit = if dice.chance(25) { dice.below(5) } else { usize::MAX };
        step(&mut world, false, limit, dice.below(4))?;
        tally.plans += 1;
    }
    world.calm(&mut dice);
    note(&world, &mut kinds);
    tally.add(&kinds);
    let mut quiet = 0;
    for steps in 0..MOST_STEPS {
        tally.plans += 1;
        if world.finalized {
            break;
        }
        let look_again = step(&mut world, true, usize::MAX, 0)?;
        match look_again {
            Look::Rest if world.is_still() => quiet += 1,
            // Nothing else would wake the planner.
            Look::In(time) if world.is_still() => world.now += time.as_secs().saturating_sub(TICK),
            _ => quiet = 0,
        }
        if quiet == 2 {
            tally.steps_to_rest += steps;
            break;
        }
        if steps + 1 == MOST_STEPS {
            let left = plan(&world.facts()).actions;
            return Err(format!("no end: {left:?} in {}", world.brief()));
        }
    }
    goal(&world)
}

/// What must be true when nothing is left to do.
fn goal(world: &World) -> Result<(), String> {
    let fail = |what: &str| Err(format!("at rest, but {what}: {}", world.brief()));
    if world.deletion.is_some() {
        let done = world.finalized && world.pods.is_empty();
        return if done { Ok(()) } else { fail("the deleted set is still there") };
    }
    if world.pods.len() != world.replicas as usize {
        return fail("the number of pods is wrong");
    }
    if world.pods.values().any(|pod| pod.ready.is_none() || pod.terminating.is_some()) {
        return fail("a pod does not work");
    }
    if world.api == Api::Nebius
        && !(0..world.replicas).all(|ordinal| world.pods.contains_key(&world.name(ordinal)))
    {
        return fail("ordinals are not contiguous");
    }
    let hash = &plan(&world.facts()).status.hash;
    // Not by the planner's own reckoning.
    let any_away = !matches!(world.max_unavailable, Amount::Count(0) | Amount::Percent(0));
    let updates = world.strategy != Strategy::OnDelete && !world.paused && any_away;
    for (name, pod) in &world.pods {
        let ordinal: u32 = name[2..].parse().unwrap_or(0);
        if updates && ordinal >= world.partition && pod.revision != *hash {
            return fail("a pod has an old revision");
        }
        if !pod.identity {
            return fail("a label is lost");
        }
        let Some(node) = world.nodes.get(&pod.node) else { return fail("a node is not registered") };
        let cordoned = pod.cordon == Cordon::User || pod.kube.is_some_and(|at| world.cordoned[at]);
        // In some first worlds a pod was being deleted already: nobody knows who drained its node, so it stays.
        let unknown = node.comment.contains("\"held\":\"preStop\"");
        let admins = node.reason == ADMIN || node.comment.contains(ADMIN) || unknown;
        let paused = world.paused && node.reason.contains("update");
        if node.drain != (cordoned || admins) && !paused && !(node.reason.is_empty() && cordoned) {
            return fail("a drain is there without a cause, or missing");
        }
        // A node that an admin looks after is left alone.
        if pod.mute && !admins && !paused {
            return fail("a pod never registered");
        }
        let free = node.drain && world.jobs_on(name).next().is_none();
        if pod.protected != (world.protect && !free) {
            return fail("a guard is wrong");
        }
        if pod.cordon == Cordon::Ours && !paused {
            return fail("a mark of ours is left");
        }
        let owner = if world.retention.delete_with_set { ClaimOwner::Set } else { ClaimOwner::Nobody };
        if world.claims.get(&format!("data-{name}")).is_none_or(|claim| claim.owner != owner) {
            return fail("a claim is wrong");
        }
    }
    if world
        .nodes
        .iter()
        .any(|(name, node)| world.pod_of(name).is_none() && node.reason.starts_with(REASON_PREFIX))
    {
        return fail("the record of a node is left");
    }
    if world.revisions.len() > world.history + 2 + world.pods.len() {
        return fail("too many revisions are left");
    }
    Ok(())
}

fn runner(cases: u32, seed: u8) -> TestRunner {
    let config = Config { cases, failure_persistence: None, max_shrink_iters: 3000, ..Config::default() };
    TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::XorShift, &[seed; 16]))
}

fn bytes() -> impl Values<Value = Vec<u8>> {
    proptest::collection::vec(any::<u8>(), 176)
}

#[test]
fn no_plan_breaks_the_law_or_the_budget_and_every_world_comes_to_rest() {
    let tally = std::cell::RefCell::new(Tally::default());
    let seed = std::env::var("SOPERATOR_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(1);
    let full = std::env::var("SOPERATOR_SWEEP").is_ok_and(|sweep| sweep == "full");
    let cases = if full { 10 * CASES } else { CASES };
    let result = runner(cases, seed)
        .run(&bytes(), |bytes| case(&bytes, &mut tally.borrow_mut()).map_err(TestCaseError::fail));
    let tally = tally.into_inner();
    println!("{}", tally.text());
    match result {
        Ok(()) => {}
        Err(TestError::Fail(why, bytes)) => panic!("{why}\nin the world of the bytes {bytes:?}"),
        Err(TestError::Abort(why)) => panic!("{why}"),
    }
    assert_eq!(tally.cases, u64::from(cases));
    assert!(tally.troubled * 100 >= tally.cases * 30, "too few of the cases are hard ones");
    for kind in ["busy", "suspended", "stale", "unknown"] {
        assert!(
            tally.kinds.get(kind).is_some_and(|count| *count * 100 >= tally.cases * 3),
            "{kind} is too rare"
        );
    }
}

#[test]
fn every_planted_bug_is_found() {
    let mut silent = Vec::new();
    for bug in Bug::ALL {
        plant(Some(*bug));
        let mut tally = Tally::default();
        // Without shrinking: it is enough to know that it was found.
        let mut runner = runner(1, 7);
        let strategy = bytes();
        let found = (0..30_000).find_map(|number| {
            let bytes = strategy.new_tree(&mut runner).unwrap().current();
            case(&bytes, &mut tally).err().map(|error| (number, error))
        });
        plant(None);
        match found {
            Some((number, error)) => {
                let line = error.lines().next().unwrap_or_default();
                println!("{bug:?}: found in case {number}: {}", &line[..line.len().min(110)]);
            }
            None => silent.push(*bug),
        }
    }
    assert!(silent.is_empty(), "nothing noticed {silent:?}");
}
