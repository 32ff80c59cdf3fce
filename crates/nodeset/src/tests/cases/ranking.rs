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
fn case_16_twelve_pods_leave_by_rank_whatever_the_order_in_which_they_are_listed() {
    let mut world = World::at_rest(Api::Slinky, 12);
    let now = world.now;
    let unscheduled = world.pod_mut(1);
    (unscheduled.kube, unscheduled.phase) = (None, PodPhase::Pending);
    (unscheduled.started, unscheduled.ready) = (None, None);
    let pending = world.pod_mut(0);
    (pending.phase, pending.started, pending.ready) = (PodPhase::Pending, None, None);
    world.pod_mut(2).phase = PodPhase::Unknown;
    world.pod_mut(3).ready = None;
    world.pod_mut(4).cordon = Cordon::User;
    // Of the rest the highest leaves first; how long they have been ready never decides.
    world.pod_mut(9).ready = Some(0);
    world.pod_mut(8).ready = Some(now);
    world.pod_mut(7).ready = Some(now - 1000);
    world.pod_mut(6).created = 1;
    (world.pod_mut(10).cost, world.pod_mut(11).cost) = (1, 10);
    let leave = ["w-1", "w-0", "w-2", "w-3", "w-4", "w-9", "w-8", "w-7", "w-6", "w-5", "w-10", "w-11"];
    assert_eq!(order(&mut world), leave);
    world.look();
    for shuffle in 0..20 {
        let mut facts = world.facts();
        facts.pods.sort_by_key(|pod| {
            pod.name.bytes().fold(shuffle, |sum: u32, byte| {
                sum.wrapping_mul(31).wrapping_add(u32::from(byte)).rotate_left(7)
            })
        });
        assert_eq!(plan(&facts).deleted(), leave, "{shuffle}");
    }
}

#[test]
fn case_20_the_time_of_being_ready_never_decides_because_ordinals_differ() {
    // In the original a time that nobody wrote down sorts as the most recent, among pods of one ordinal. A set of ours has no
    // two such pods, so both ends of the comparison are tried from both sides: the highest ordinal leaves.
    for (low, high) in [(0, 1000), (1000, 0), (0, 0), (1000, 2000), (2000, 1000)] {
        let mut world = World::at_rest(Api::Slinky, 2);
        (world.pod_mut(0).ready, world.pod_mut(1).ready) = (Some(low), Some(high));
        world.replicas = 1;
        assert_eq!(world.plan().drains(), ["w-1"], "{low} {high}");
    }
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
