use crate::tests::world::{Work, World};
use crate::*;

/// Who leaves, in order, when the set shrinks to nothing and nothing keeps the pods.
fn order(world: &mut World) -> Vec<String> {
    world.replicas = 0;
    let names: Vec<String> = world.nodes.keys().cloned().collect();
    for name in names {
        let node = world.nodes.get_mut(&name).unwrap();
        if !node.drain {
            (node.drain, node.reason) = (true, "bad disk".into());
            node.comment = node.comment.replace('}', ",\"held\":\"bad disk\"}");
        }
    }
    world.plan().deleted().into_iter().map(str::to_owned).collect()
}

#[test]
fn case_16_unassigned_then_pending_then_unknown_then_not_ready_then_cordoned_then_the_highest() {
    let mut world = World::at_rest(Api::Slinky, 7);
    let pending = world.pod_mut(1);
    (pending.kube, pending.phase, pending.started, pending.ready) = (None, PodPhase::Pending, None, None);
    let assigned = world.pod_mut(0);
    (assigned.phase, assigned.started, assigned.ready) = (PodPhase::Pending, None, None);
    world.pod_mut(2).phase = PodPhase::Unknown;
    world.pod_mut(3).ready = None;
    world.pod_mut(4).cordon = Cordon::User;
    assert_eq!(order(&mut world), ["w-1", "w-0", "w-2", "w-3", "w-4", "w-6", "w-5"]);
}

#[test]
fn case_17_as_many_leave_as_there_are_too_many() {
    for (replicas, leave) in [(2, vec![]), (1, vec!["w-1"]), (0, vec!["w-0", "w-1"])] {
        let mut world = World::at_rest(Api::Slinky, 2);
        world.replicas = replicas;
        let plan = world.plan();
        let mut drains = plan.drains();
        drains.sort_unstable();
        assert_eq!(drains, leave);
    }
}

#[test]
fn case_18_the_idle_one_leaves_and_the_busy_one_stays() {
    let mut world = World::at_rest(Api::Slinky, 2);
    world.job(1, Work::Running);
    world.replicas = 1;
    assert_eq!(world.plan().drains(), ["w-0"]);
    // With contiguous ordinals the highest leaves, and its job is waited for.
    let mut world = World::at_rest(Api::Nebius, 2);
    world.job(1, Work::Running);
    world.replicas = 1;
    assert_eq!(world.plan().drains(), ["w-1"]);
}

#[test]
fn case_19_the_cost_of_deletion_outranks_jobs() {
    let mut world = World::at_rest(Api::Slinky, 2);
    world.job(0, Work::Running);
    world.replicas = 1;
    world.look();
    let mut facts = world.facts();
    facts.pods[0].deletion_cost = -5;
    let plan = plan(&facts);
    assert_eq!(plan.drains(), ["w-0"]);
    assert!(plan.deleted().is_empty(), "and still its job is waited for");
}

#[test]
fn the_one_whose_jobs_end_first_leaves_first() {
    let mut world = World::at_rest(Api::Slinky, 3);
    for ordinal in 0..3 {
        world.job(ordinal, Work::Running);
    }
    world.jobs[0].endless = true;
    world.jobs[1].start -= 600;
    world.replicas = 2;
    assert_eq!(world.plan().drains(), ["w-1"]);
}
