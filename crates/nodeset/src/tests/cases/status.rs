use std::collections::BTreeMap;
use std::sync::Arc;

use crate::tests::world::{GRACE, Mode, Work, World};
use crate::*;

#[test]
fn case_56_all_is_well() {
    let status = World::at_rest(Api::Slinky, 2).plan().status;
    let counts = (status.replicas, status.updated, status.ready, status.available, status.unavailable);
    assert_eq!(counts, (2, 2, 2, 2, 0));
    assert_eq!(status.protected, 2);
}

#[test]
fn case_57_old_and_not_ready() {
    let mut world = World::at_rest(Api::Slinky, 2);
    world.content = 2;
    for ordinal in 0..2 {
        world.pod_mut(ordinal).ready = None;
    }
    let status = world.plan().status;
    assert_eq!((status.replicas, status.updated, status.ready, status.unavailable), (2, 0, 0, 2));
    assert_eq!(status.phase, Phase::Provisioning);
}

#[test]
fn a_ready_pod_becomes_available_later_and_the_plan_looks_again_then() {
    let mut world = World::at_rest(Api::Slinky, 1);
    let now = world.now;
    world.pod_mut(0).ready = Some(now - 10);
    world.look();
    let mut facts = world.facts();
    facts.set.min_ready = std::time::Duration::from_secs(30);
    let plan = plan(&facts);
    assert_eq!((plan.status.ready, plan.status.available), (1, 0));
    assert_eq!(plan.look_again, Some(std::time::Duration::from_secs(20)));
}

#[test]
fn case_58_only_nodes_of_the_set_are_counted() {
    let mut world = World::at_rest(Api::Slinky, 4);
    world.job(0, Work::Running);
    world.node_mut(1).answers = None;
    world.drained(2, "bad disk");
    let slurm = world.plan().status.slurm.unwrap();
    assert_eq!(slurm, SlurmCounts { idle: 2, allocated: 1, down: 1, drain: 1, registered: 4 });
    world.mode = Mode::Silent;
    assert_eq!(world.plan().status.slurm, None, "what was written last stays");
}

/// The counts when nodes of the set have these states, beside many of others.
fn counts(states: &[&str]) -> SlurmCounts {
    let mut world = World::at_rest(Api::Slinky, states.len() as u32);
    world.look();
    let mut facts = world.facts();
    let Slurm::Answer(answer) = facts.slurm else { panic!("Slurm answers") };
    let node = |name: String, words: &str| {
        let state = slurm::NodeState::from_words(words.split('+'));
        Arc::new(slurm::Node { name: name.into(), state, ..slurm::Node::default() })
    };
    let ours = states.iter().enumerate().map(|(ordinal, words)| node(format!("w-{ordinal}"), words));
    let others = ["other-0", "w-0-0", "w", "ww-0"].map(|name| node(name.into(), "IDLE+DRAIN"));
    let nodes: Vec<_> = ours.chain(others).collect();
    facts.slurm = Slurm::Answer(Answer { nodes: &nodes, ..answer });
    plan(&facts).status.slurm.unwrap()
}

#[test]
fn case_58_each_base_state_and_each_flag_is_counted_by_itself() {
    let of = |idle, allocated, down, drain| SlurmCounts { idle, allocated, down, drain, registered: 1 };
    let bases = [
        ("ALLOCATED", of(0, 1, 0, 0)),
        ("DOWN", of(0, 0, 1, 0)),
        ("ERROR", of(0, 0, 0, 0)),
        ("FUTURE", of(0, 0, 0, 0)),
        ("IDLE", of(1, 0, 0, 0)),
        ("MIXED", of(0, 1, 0, 0)),
        ("UNKNOWN", of(0, 0, 0, 0)),
    ];
    let flags =
        ["COMPLETING", "FAIL", "INVALID", "INVALID_REG", "MAINTENANCE", "NOT_RESPONDING", "UNDRAIN", "DRAIN"];
    for (base, wanted) in bases {
        assert_eq!(counts(&[base]), wanted, "{base}");
        for flag in flags {
            let wanted = SlurmCounts { drain: u32::from(flag == "DRAIN"), ..wanted };
            assert_eq!(counts(&[&*format!("{base}+{flag}")]), wanted, "{base}+{flag}");
        }
        let all = format!("{base}+{}", flags.join("+"));
        assert_eq!(counts(&[&*all]), SlurmCounts { drain: 1, ..wanted }, "{all}");
    }
    let mixed =
        ["ALLOCATED", "DOWN+DRAIN", "ERROR", "FUTURE", "IDLE+DRAIN", "MIXED+COMPLETING", "UNKNOWN+FAIL"];
    let wanted = SlurmCounts { idle: 1, allocated: 2, down: 1, drain: 2, registered: 7 };
    assert_eq!(counts(&mixed), wanted);
}

#[test]
fn case_60_the_comment_says_whose_the_node_is() {
    let comments = |plan: &Plan| -> Vec<String> {
        plan.actions
            .iter()
            .filter_map(|action| match action {
                Action::SetComment { comment, .. } => Some(comment.clone()),
                _ => None,
            })
            .collect()
    };
    let mut world = World::at_rest(Api::Slinky, 1);
    assert!(comments(&world.plan()).is_empty());
    // The shape of older versions is read, and completed.
    world.node_mut(0).comment = r#"{"namespace":"ns","podName":"w-0"}"#.into();
    let kube = world.pods["w-0"].kube.unwrap();
    let wanted = format!(
        r#"{{"namespace":"ns","podName":"w-0","node":"k{kube}","nodeSetName":"w","nodeSetUID":"set-uid"}}"#
    );
    assert_eq!(comments(&world.plan()), [wanted]);
    world.pod_mut(0).ready = None;
    assert!(comments(&world.plan()).is_empty(), "not while it is unhealthy");
    let mut world = World::at_rest(Api::Nebius, 1);
    world.node_mut(0).comment = "a user's".into();
    assert!(comments(&world.plan()).is_empty());
}

#[test]
fn case_61_conditions_follow_the_state_of_the_node() {
    let marked = |plan: &Plan| {
        plan.actions.iter().find_map(|action| match action {
            Action::MarkPod { marks, .. } => marks.conditions.clone(),
            _ => None,
        })
    };
    let mut world = World::at_rest(Api::Nebius, 1);
    assert_eq!(world.pods["w-0"].conditions, BTreeMap::from([("SlurmNodeStateIdle".into(), String::new())]));
    world.job(0, Work::Running);
    let wanted = BTreeMap::from([("SlurmNodeStateMixed".to_owned(), String::new())]);
    assert_eq!(marked(&world.plan()), Some(wanted));
    world.jobs.clear();
    world.drained(0, "bad disk");
    let wanted = ["SlurmNodeStateDrain", "SlurmNodeStateIdle"].map(|type_| (type_.into(), "bad disk".into()));
    assert_eq!(marked(&world.plan()), Some(BTreeMap::from(wanted)));
    world.mode = Mode::Silent;
    assert_eq!(marked(&world.plan()), None, "what was true stays written");
    let mut world = World::at_rest(Api::Nebius, 1);
    let pod = world.pod_mut(0);
    (pod.phase, pod.started, pod.ready) = (PodPhase::Pending, None, None);
    pod.conditions.clear();
    assert_eq!(marked(&world.plan()), None, "the record is not the one of a pod that never started");
}

#[test]
fn case_64_a_pod_that_never_registered_is_replaced_after_a_grace() {
    let mut world = World::at_rest(Api::Slinky, 2);
    world.nodes.remove("w-1");
    world.pod_mut(1).mute = true;
    let ready = world.pods["w-1"].ready.unwrap();
    world.now = ready + GRACE - 1;
    let plan = world.plan();
    assert!(plan.deleted().is_empty());
    assert_eq!(plan.look_again, Some(std::time::Duration::from_secs(1)));
    world.now = ready + GRACE;
    let plan = world.plan();
    assert_eq!(plan.deleted(), ["w-1"]);
    let absent = |action: &Action| {
        matches!(action, Action::DeletePod { cause: Cause::NotRegistered, proof: Proof::Absent, .. })
    };
    assert!(plan.actions.iter().any(absent));
    for mode in [Mode::Silent, Mode::Empty, Mode::Foreign, Mode::NoJobs] {
        world.mode = mode;
        assert!(world.plan().deleted().is_empty(), "{mode:?}");
    }
    world.mode = Mode::Up;
    world.settle();
    assert!(world.nodes.contains_key("w-1"));
}

#[test]
fn a_pod_that_a_paused_update_has_in_hand_does_not_keep_others_from_being_recovered() {
    let mut world = World::at_rest(Api::Nebius, 2);
    (world.content, world.paused) = (2, true);
    for ordinal in 0..2 {
        world.pod_mut(ordinal).mute = true;
        let node = world.node_mut(ordinal);
        (node.answers, node.registered) = (None, 0);
    }
    world.drained(0, "slurm-operator: Pod (ns/w-0) is pending replacement for an update");
    world.now += GRACE;
    assert_eq!(world.plan().drains(), ["w-1"]);
}

#[test]
fn the_wait_names_the_job_and_when_it_must_have_ended() {
    let mut world = World::at_rest(Api::Slinky, 1);
    world.replicas = 0;
    world.job(0, Work::Running);
    let (id, start) = (world.jobs[0].id, world.jobs[0].start);
    world.step();
    world.step();
    let plan = world.plan();
    assert_eq!(plan.waiting(), [("w-0", &*format!("job {id} is on it"))]);
    assert_eq!(plan.waits[0].until, Some(UnixTime(start + 3600)));
    assert_eq!(world.pods["w-0"].deadline, Some(start + 3600));
    assert!(plan.condition(condition::WAITING_FOR_JOBS).message.contains("w-0 (job"));
    assert!(!plan.condition(condition::WAITING_FOR_JOBS).message.contains("more"));
}

#[test]
fn a_short_job_on_a_worker_that_stays_is_no_write_for_its_deadline() {
    let mut world = World::at_rest(Api::Slinky, 1);
    world.job(0, Work::Running);
    world.step();
    assert_eq!(world.pods["w-0"].deadline, None);
}
