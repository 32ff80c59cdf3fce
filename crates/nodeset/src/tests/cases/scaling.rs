use crate::tests::world::{Mode, Work, World};
use crate::*;

#[test]
fn case_01_a_new_set_gets_its_pods() {
    let mut world = World::new(Api::Slinky);
    world.replicas = 2;
    let plan = world.plan();
    assert_eq!(plan.created(), ["w-0", "w-1"]);
    let hash = &plan.status.hash;
    let Some(Action::CreateRevision { hash: made, number: 1, .. }) = plan.actions.first() else {
        panic!("no revision first: {:?}", plan.actions)
    };
    assert_eq!(made, hash);
    assert!(plan.actions.iter().any(|action| matches!(action,
        Action::CreatePod { name, ordinal: 1, node, revision, protected: true }
            if name == "w-1" && node == "w-1" && revision == hash)));
}

#[test]
fn case_02_scale_to_zero_drains_and_the_pods_stay_until_they_are_drained() {
    for api in [Api::Nebius, Api::Slinky] {
        let mut world = World::at_rest(api, 2);
        world.replicas = 0;
        let plan = world.plan();
        let mut drains = plan.drains();
        drains.sort_unstable();
        assert_eq!(drains, ["w-0", "w-1"]);
        assert!(plan.drain_reason().starts_with("slurm-operator: "));
        assert!(plan.deleted().is_empty());
        assert!(plan.watch_slurm);
        world.settle();
        assert!(world.pods.is_empty());
        assert!(world.nodes.is_empty(), "records of dynamic nodes go too");
    }
}

#[test]
fn case_03_a_condemned_idle_pod_is_marked_and_drained_not_deleted() {
    let mut world = World::at_rest(Api::Slinky, 1);
    world.replicas = 0;
    let plan = world.plan();
    assert_eq!(plan.cordons(true), ["w-0"]);
    assert_eq!(plan.drains(), ["w-0"]);
    assert!(plan.deleted().is_empty());
    assert_eq!(plan.waiting(), [("w-0", "it is not drained yet")]);
}

#[test]
fn of_many_idle_pods_that_leave_only_some_are_marked_and_busy_ones_always() {
    let mut world = World::at_rest(Api::Slinky, 100);
    world.job(99, Work::Running);
    world.replicas = 0;
    let plan = world.plan();
    assert_eq!(plan.drains().len(), 100);
    let marked = plan.cordons(true);
    assert_eq!(marked.len(), 33, "{marked:?}");
    assert!(marked.contains(&"w-99"));
    world.settle();
    assert!(world.pods.is_empty());
}

#[test]
fn records_of_many_nodes_that_leave_at_once_go_too() {
    for api in [Api::Nebius, Api::Slinky] {
        let mut world = World::at_rest(api, 12);
        world.replicas = 1;
        assert!(world.plan().drain_reason().contains("Pods of NodeSet (ns/w) are"));
        world.settle();
        assert_eq!(world.nodes.keys().collect::<Vec<_>>(), ["w-0"], "{api:?}");
    }
}

#[test]
fn the_record_that_another_set_drained_with_many_is_left_alone() {
    let mut world = World::at_rest(Api::Nebius, 1);
    let reason = "slurm-operator: Pods of NodeSet (ns/v) are pending termination for scale-in".into();
    let others = crate::tests::world::SimNode { drain: true, reason, ..Default::default() };
    world.nodes.insert("w-7".into(), others);
    assert_eq!(world.plan().actions, []);
}

#[test]
fn case_04_a_condemned_pod_that_slurm_does_not_know_goes_once_it_cannot_register_any_more() {
    let mut world = World::at_rest(Api::Slinky, 2);
    world.nodes.remove("w-1");
    world.pod_mut(1).mute = true;
    world.replicas = 1;
    // The law: only a list that is ours tells of absence, and a worker that has just started may still come.
    let now = world.now;
    world.pod_mut(1).started = Some(now - 1);
    let plan = world.plan();
    assert!(plan.deleted().is_empty());
    assert!(plan.look_again.is_some());
    world.pod_mut(1).started = Some(now - 10_000);
    assert_eq!(world.plan().deleted(), ["w-1"]);
    // A list that has none of our nodes proves nothing.
    world.nodes.remove("w-0");
    world.proven = false;
    let plan = world.plan();
    assert!(plan.deleted().is_empty());
    assert_eq!(plan.condition(condition::SLURM_ANSWERS).reason, "NoneOfOurNodes");
}

#[test]
fn case_05_a_condemned_drained_pod_goes_unless_a_job_holds_its_node() {
    let mut world = World::at_rest(Api::Slinky, 1);
    world.replicas = 0;
    world.drained(0, "slurm-operator: by us");
    let plan = world.plan();
    assert_eq!(plan.deleted(), ["w-0"]);
    let Some(Action::DeletePod { pod, proof, cause, .. }) =
        plan.actions.iter().find(|action| matches!(action, Action::DeletePod { .. }))
    else {
        panic!("no delete")
    };
    assert_eq!((*proof, *cause), (Proof::Drained, Cause::ScaleIn));
    assert_eq!(pod.uid, world.pods["w-0"].uid);
    assert_eq!(proof.last_look(), LastLook::Free);
    // The law: a node with a suspended job reads IDLE+DRAIN.
    world.job(0, Work::Suspended);
    let plan = world.plan();
    assert!(plan.deleted().is_empty());
    assert!(plan.waits[0].why.contains("job"), "{:?}", plan.waits);
}

#[test]
fn case_06_a_condemned_pod_whose_node_still_works_waits() {
    for work in [Work::Running, Work::Completing] {
        let mut world = World::at_rest(Api::Slinky, 1);
        world.replicas = 0;
        world.drained(0, "slurm-operator: by us");
        world.job(0, work);
        assert!(world.plan().deleted().is_empty(), "{work:?}");
    }
}

#[test]
fn case_07_a_condemned_pod_that_terminates_is_left_alone() {
    let mut world = World::at_rest(Api::Slinky, 1);
    world.replicas = 0;
    world.pod_mut(0).terminating = Some(9);
    assert_eq!(world.plan().actions, []);
}

#[test]
fn case_10_the_lowest_free_ordinal_is_filled() {
    for api in [Api::Nebius, Api::Slinky] {
        let mut world = World::at_rest(api, 3);
        world.pods.remove("w-1");
        assert_eq!(world.plan().created(), ["w-1"]);
    }
}

#[test]
fn case_11_without_its_cluster_no_pod_is_made() {
    let mut world = World::new(Api::Slinky);
    world.mode = Mode::NoCluster;
    let plan = world.plan();
    assert!(plan.created().is_empty());
    assert_eq!(plan.condition(condition::SLURM_ANSWERS).reason, "NoCluster");
    assert_eq!(plan.status.phase, Phase::Pending);
}

#[test]
fn case_12_one_plan_makes_at_most_so_many_pods() {
    let mut world = World::new(Api::Nebius);
    world.replicas = 600;
    let plan = world.plan();
    assert_eq!(plan.created().len(), 250);
    assert_eq!(plan.look_again, Some(std::time::Duration::ZERO));
}

#[test]
fn case_14_a_scale_in_that_is_taken_back_undrains() {
    for api in [Api::Nebius, Api::Slinky] {
        let mut world = World::at_rest(api, 2);
        world.job(0, Work::Running);
        world.job(1, Work::Running);
        world.replicas = 1;
        world.step();
        world.step();
        assert!(world.nodes["w-1"].drain);
        world.replicas = 2;
        let plan = world.plan();
        assert_eq!(plan.undrains(), ["w-1"]);
        assert_eq!(plan.cordons(false), if api == Api::Slinky { vec!["w-1"] } else { vec![] });
        assert!(plan.deleted().is_empty());
        world.settle();
        assert!(!world.nodes["w-1"].drain);
    }
}

#[test]
fn case_15_nothing_to_do_is_nothing_planned() {
    for api in [Api::Nebius, Api::Slinky] {
        let mut world = World::at_rest(api, 2);
        let plan = world.plan();
        assert_eq!(plan.actions, []);
        assert_eq!((plan.look_again, plan.watch_slurm), (None, false));
        assert_eq!(plan.status.phase, Phase::Ready);
    }
}

#[test]
fn scale_in_of_three_to_one_lets_each_go_only_after_its_job() {
    let mut world = World::at_rest(Api::Nebius, 3);
    world.job(2, Work::Running);
    world.replicas = 1;
    world.step();
    world.step();
    assert_eq!(world.pods.keys().collect::<Vec<_>>(), ["w-0", "w-1", "w-2"]);
    assert!(world.pods["w-1"].terminating.is_some(), "its node was idle");
    assert!(world.pods["w-2"].terminating.is_none(), "its job runs");
    world.settle();
    assert_eq!(world.pods.keys().collect::<Vec<_>>(), ["w-0"]);
}
