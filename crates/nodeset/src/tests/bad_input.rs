//! What goes wrong in practice: nothing is deleted by mistake, and the status says why.

use std::time::Duration;

use super::world::{Mode, Work, World};
use crate::*;

#[test]
fn nothing_leaves_on_the_word_of_nobody_of_an_empty_list_or_of_another_cluster() {
    for api in [Api::Nebius, Api::Slinky] {
        for (mode, reason) in [
            (Mode::Silent, "NoAnswer"),
            (Mode::Empty, "EmptyList"),
            (Mode::Foreign, "ForeignCluster"),
            (Mode::NoJobs, "NoJobList"),
            (Mode::NoCluster, "NoCluster"),
        ] {
            let mut world = World::at_rest(api, 3);
            world.job(2, Work::Running);
            world.now += 100_000;
            (world.mode, world.replicas, world.content) = (mode, 1, 2);
            let plan = world.plan();
            assert!(plan.deleted().is_empty(), "{mode:?}");
            let answers = plan.condition(condition::SLURM_ANSWERS);
            assert_eq!((answers.holds, answers.reason), (false, reason));
            assert!(!answers.message.is_empty());
        }
    }
}

#[test]
fn the_list_of_another_cluster_is_recognised_also_where_nobody_knows_its_name() {
    let mut world = World::at_rest(Api::Slinky, 3);
    (world.proven, world.mode, world.replicas) = (false, Mode::Foreign, 0);
    world.now += 100_000;
    let plan = world.plan();
    assert!(plan.deleted().is_empty());
    assert_eq!(plan.condition(condition::SLURM_ANSWERS).reason, "NoneOfOurNodes");
}

#[test]
fn pods_are_made_while_slurm_does_not_answer() {
    let mut world = World::at_rest(Api::Slinky, 1);
    (world.mode, world.replicas) = (Mode::Silent, 3);
    assert_eq!(world.plan().created(), ["w-1", "w-2"]);
}

#[test]
fn a_pod_that_never_started_leaves_without_slurms_word() {
    let mut world = World::at_rest(Api::Nebius, 2);
    let pod = world.pod_mut(1);
    (pod.phase, pod.started, pod.ready) = (PodPhase::Pending, None, None);
    (world.mode, world.replicas) = (Mode::Silent, 0);
    assert_eq!(world.plan().deleted(), ["w-1"]);
}

#[test]
fn a_pod_that_the_kubelet_has_lost_sight_of_may_run_jobs() {
    let mut world = World::at_rest(Api::Nebius, 1);
    let pod = world.pod_mut(0);
    (pod.phase, pod.ready) = (PodPhase::Unknown, None);
    (world.mode, world.replicas) = (Mode::Silent, 0);
    assert!(world.plan().deleted().is_empty());
    // Its machine is gone for good: nothing can run there.
    let mut facts = world.facts();
    facts.pods[0].kube_node.as_mut().unwrap().gone = true;
    assert_eq!(plan(&facts).deleted(), ["w-0"]);
}

#[test]
fn max_unavailable_of_nothing_stops_the_update_and_says_so() {
    for amount in [Amount::Count(0), Amount::Percent(0)] {
        let mut world = World::at_rest(Api::Nebius, 2);
        world.content = 2;
        world.max_unavailable = amount;
        let plan = world.plan();
        assert!(plan.drains().is_empty());
        let valid = plan.condition(condition::VALID);
        assert_eq!((valid.holds, valid.reason), (false, "NothingMayBeAway"));
        assert_eq!(plan.status.phase, Phase::Degraded);
    }
}

#[test]
fn a_selector_that_cannot_be_used_stops_everything() {
    for (selector, reason) in
        [(Selector::Empty, "SelectingAll"), (Selector::NotTheTemplate, "SelectorMismatch")]
    {
        let mut world = World::at_rest(Api::Slinky, 2);
        world.replicas = 5;
        world.look();
        let mut facts = world.facts();
        facts.set.selector = selector;
        let plan = plan(&facts);
        assert_eq!(plan.actions, []);
        assert_eq!(plan.condition(condition::VALID).reason, reason);
    }
}

/// A pod of somebody else, or of nobody.
fn stranger<'a>(name: &'a str, like: &Pod<'a>, owner: Owner, selected: bool) -> Pod<'a> {
    Pod { name, slurm_node: name, uid: "stranger", owner, selected, ..like.clone() }
}

#[test]
fn sets_whose_names_overlap_do_not_take_each_others_pods() {
    let mut world = World::at_rest(Api::Nebius, 1);
    world.replicas = 0;
    world.look();
    let mut facts = world.facts();
    let like = facts.pods[0].clone();
    facts.pods =
        vec![stranger("w-0-1", &like, Owner::Other, true), stranger("w-00", &like, Owner::Nobody, true)];
    let plan = plan(&facts);
    assert!(
        plan.actions
            .iter()
            .all(|action| !matches!(action, Action::DeletePod { .. } | Action::AdoptPod { .. }))
    );
    assert_eq!(plan.status.replicas, 0);
}

#[test]
fn a_pod_made_by_hand_under_a_workers_name_is_left_alone_and_named() {
    for api in [Api::Nebius, Api::Slinky] {
        let mut world = World::at_rest(api, 1);
        world.replicas = 2;
        world.look();
        let mut facts = world.facts();
        let like = facts.pods[0].clone();
        facts.pods.push(stranger("w-1", &like, Owner::Nobody, false));
        let plan = plan(&facts);
        assert!(plan.deleted().is_empty());
        match api {
            Api::Nebius => {
                assert!(plan.created().is_empty());
                assert!(plan.problems[0].message.contains("w-1"), "{:?}", plan.problems);
            }
            Api::Slinky => assert_eq!(plan.created(), ["w-2"], "any ordinal will do"),
        }
    }
}

#[test]
fn a_pod_without_an_owner_that_matches_is_adopted_and_one_that_does_not_match_any_more_is_released() {
    let mut world = World::at_rest(Api::Slinky, 2);
    world.look();
    let mut facts = world.facts();
    facts.pods[0].owner = Owner::Nobody;
    facts.pods[1].selected = false;
    let result = plan(&facts);
    assert!(
        result.actions.iter().any(|action| matches!(action, Action::AdoptPod { pod } if pod.name == "w-0"))
    );
    assert!(
        result.actions.iter().any(|action| matches!(action, Action::ReleasePod { pod } if pod.name == "w-1"))
    );
    assert!(result.deleted().is_empty());
    assert_eq!(result.created(), ["w-2"], "for the one that is released, not for the one that is adopted");
    // The labels of the other API are ours: they are written again.
    facts.set.api = Api::Nebius;
    let result = plan(&facts);
    assert!(
        result.actions.iter().any(|action| matches!(action, Action::RepairPod { pod } if pod.name == "w-1"))
    );
}

#[test]
fn replicas_that_go_back_and_forth_during_a_drain_delete_nothing_that_is_wanted() {
    let mut world = World::at_rest(Api::Nebius, 3);
    for ordinal in 0..3 {
        world.job(ordinal, Work::Running);
    }
    let uids = |world: &World| world.pods.values().map(|pod| pod.uid.clone()).collect::<Vec<_>>();
    let before = uids(&world);
    for replicas in [1, 3, 2, 3] {
        world.replicas = replicas;
        for job in &mut world.jobs {
            job.left = 9;
        }
        world.step();
        world.step();
    }
    world.settle();
    assert_eq!(uids(&world), before);
    assert!(world.nodes.values().all(|node| !node.drain));
}

#[test]
fn a_deleted_set_waits_for_its_jobs_and_then_all_is_gone() {
    for api in [Api::Nebius, Api::Slinky] {
        let mut world = World::at_rest(api, 2);
        world.job(0, Work::Running);
        world.deletion = Some(world.now);
        world.step();
        world.step();
        assert!(world.pods["w-0"].terminating.is_none(), "its job runs");
        assert!(!world.finalized);
        for _ in 0..20 {
            world.step();
        }
        assert!(world.pods.is_empty() && world.finalized);
        assert!(world.nodes.is_empty(), "the records go too");
    }
}

fn deleted_with(drain: DrainOnDelete, mode: Mode, after: u64) -> Plan {
    let mut world = World::at_rest(Api::Nebius, 1);
    world.job(0, Work::Running);
    (world.deletion, world.drain) = (Some(world.now), drain);
    world.now += after;
    world.mode = mode;
    world.plan()
}

#[test]
fn after_the_deadline_the_users_policy_decides() {
    let limit = DrainOnDelete { deadline: Some(Duration::from_secs(60)), ..DrainOnDelete::default() };
    let before = deleted_with(DrainOnDelete { force: true, ..limit }, Mode::Up, 59);
    assert!(before.deleted().is_empty());
    assert_eq!(before.look_again, Some(Duration::from_secs(1)));
    assert_eq!(deleted_with(DrainOnDelete { force: true, ..limit }, Mode::Up, 60).deleted(), ["w-0"]);
    let waits = deleted_with(limit, Mode::Up, 60);
    assert!(waits.deleted().is_empty());
    assert!(waits.waits[0].why.contains("deadline is over"), "{:?}", waits.waits);
    let off = DrainOnDelete { enabled: false, ..limit };
    assert_eq!(deleted_with(off, Mode::Up, 0).deleted(), ["w-0"]);
}

#[test]
fn a_deleted_set_does_not_go_on_while_slurm_is_only_silent() {
    let gone = DrainOnDelete { without_slurm: Some(Duration::from_secs(60)), ..DrainOnDelete::default() };
    assert!(deleted_with(gone, Mode::Silent, 100_000).deleted().is_empty());
}

#[test]
fn when_the_cluster_is_gone_for_good_the_workers_agent_decides() {
    let mut world = World::at_rest(Api::Nebius, 2);
    world.job(0, Work::Running);
    world.deletion = Some(world.now);
    world.mode = Mode::NoCluster;
    let plan = world.plan();
    assert_eq!(plan.deleted(), ["w-1"]);
    assert!(
        plan.actions.iter().any(|action| matches!(action, Action::DeletePod { proof: Proof::NoSteps, .. }))
    );
    assert!(plan.waits[0].why.contains("1 job steps live"), "{:?}", plan.waits);
}

#[test]
fn a_pod_without_an_agent_goes_after_the_time_for_that() {
    let mut world = World::at_rest(Api::Slinky, 1);
    world.pod_mut(0).has_agent = false;
    world.deletion = Some(world.now);
    world.mode = Mode::NoCluster;
    world.drain.without_slurm = Some(Duration::from_secs(60));
    let plan = world.plan();
    assert!(plan.deleted().is_empty());
    assert_eq!(plan.look_again, Some(Duration::from_secs(60)));
    world.now += 60;
    assert_eq!(world.plan().deleted(), ["w-0"]);
}

#[test]
fn the_annotation_that_gives_up_all_care_lets_a_busy_pod_go_but_takes_none_that_is_wanted() {
    let mut world = World::at_rest(Api::Nebius, 2);
    world.job(0, Work::Running);
    world.job(1, Work::Running);
    world.replicas = 1;
    world.look();
    let mut facts = world.facts();
    for pod in &mut facts.pods {
        pod.forced = true;
    }
    assert_eq!(plan(&facts).deleted(), ["w-1"]);
}

#[test]
fn nothing_is_made_in_a_namespace_that_ends() {
    let mut world = World::at_rest(Api::Nebius, 1);
    world.replicas = 2;
    world.look();
    let mut facts = world.facts();
    facts.set.namespace_ends = true;
    assert!(plan(&facts).created().is_empty());
}

#[test]
fn the_record_of_a_node_that_somebody_else_made_is_left_alone() {
    let mut world = World::at_rest(Api::Nebius, 1);
    let foreign = crate::tests::world::SimNode { drain: true, reason: "mine".into(), ..Default::default() };
    world.nodes.insert("w-7".into(), foreign);
    assert_eq!(world.plan().actions, []);
}

#[test]
fn a_set_with_an_unusable_selector_ends_with_its_last_pod_and_not_before() {
    for selector in [Selector::Empty, Selector::NotTheTemplate] {
        let mut world = World::at_rest(Api::Slinky, 2);
        world.job(0, Work::Running);
        let kinds = |world: &mut World| {
            world.look();
            let mut facts = world.facts();
            facts.set.selector = selector;
            for pod in &mut facts.pods {
                pod.selected = false;
            }
            let plan = plan(&facts);
            crate::tests::oracle::check(&facts, &plan).expect("the law is kept");
            assert!(!plan.condition(condition::VALID).holds);
            let kinds: Vec<&str> = plan.actions.iter().map(Action::kind).collect();
            world.execute(&plan, usize::MAX).expect("it can be done");
            world.tick(true).expect("no job is lost");
            kinds.into_iter().map(str::to_owned).collect::<Vec<_>>()
        };
        assert!(kinds(&mut world).is_empty(), "nothing is done while it is wanted");
        world.deletion = Some(world.now);
        assert!(kinds(&mut world).contains(&"Drain".to_owned()));
        assert!(world.pods.contains_key("w-0"), "its job runs");
        let mut last = Vec::new();
        for _ in 0..20 {
            if !world.finalized {
                last = kinds(&mut world);
            }
        }
        assert!(world.finalized && world.pods.is_empty(), "{}", world.brief());
        assert_eq!(last.last().map(String::as_str), Some("RemoveFinalizer"));
    }
}
