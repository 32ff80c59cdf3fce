use crate::drain::clean;
use crate::tests::world::{ADMIN, Mode, Work, World};
use crate::*;

#[test]
fn case_21_a_pod_is_marked_once() {
    let mut world = World::at_rest(Api::Slinky, 1);
    world.job(0, Work::Running);
    world.replicas = 0;
    assert_eq!(world.plan().cordons(true), ["w-0"]);
    world.step();
    world.step();
    assert!(world.plan().cordons(true).is_empty());
}

#[test]
fn case_22_our_mark_is_taken_away_and_a_users_is_not() {
    let mut world = World::at_rest(Api::Slinky, 2);
    world.pod_mut(0).cordon = Cordon::Ours;
    world.pod_mut(1).cordon = Cordon::User;
    let plan = world.plan();
    assert_eq!(plan.cordons(false), ["w-0"]);
    assert_eq!(plan.drains(), ["w-1"]);
    assert_eq!(plan.drain_reason(), "slurm-operator: Pod (ns/w-1) was cordoned");
}

#[test]
fn case_25_a_drain_that_is_there_is_not_written_again() {
    let mut world = World::at_rest(Api::Slinky, 1);
    world.job(0, Work::Running);
    world.replicas = 0;
    world.step();
    assert_eq!(world.plan().drains(), Vec::<&str>::new());
}

#[test]
fn case_26_drained_needs_the_flag_no_work_and_no_job() {
    // IDLE: no. ALLOCATED+DRAIN: no. IDLE+DRAIN: yes. DOWN+DRAIN: yes. By the law a job in the list says no to each.
    for (drain, down, job, goes) in [
        (false, false, None, false),
        (true, false, Some(Work::Running), false),
        (true, false, None, true),
        (true, true, None, true),
        (true, true, Some(Work::Suspended), false),
    ] {
        let mut world = World::at_rest(Api::Nebius, 1);
        world.replicas = 0;
        world.node_mut(0).drain = drain;
        if down {
            world.node_mut(0).answers = None;
        }
        if let Some(work) = job {
            world.job(0, work);
        }
        let plan = world.plan();
        assert_eq!(!plan.deleted().is_empty(), goes, "drain {drain} down {down} {job:?}");
    }
}

#[test]
fn case_27_a_drain_of_somebody_else_is_never_taken_back() {
    for reason in [ADMIN, ""] {
        for api in [Api::Nebius, Api::Slinky] {
            let mut world = World::at_rest(api, 1);
            world.drained(0, reason);
            assert!(world.plan().undrains().is_empty());
            world.settle();
            assert!(world.nodes["w-0"].drain);
        }
    }
}

#[test]
fn an_admins_drain_outlives_an_update_of_its_pod_also_when_the_pod_writes_over_the_reason() {
    let mut world = World::at_rest(Api::Slinky, 2);
    world.stop_script = true;
    world.drained(1, ADMIN);
    world.content = 2;
    world.settle();
    assert!(world.nodes["w-1"].drain, "{}", world.brief());
    assert!(!world.nodes["w-0"].drain, "its drain was ours: {}", world.brief());
    assert_eq!(world.nodes["w-1"].reason, "preStop", "this is why it is hard");
}

#[test]
fn case_28_a_cordoned_kubernetes_node_drains_its_pods_and_lets_them_go_on_afterwards() {
    for api in [Api::Nebius, Api::Slinky] {
        let mut world = World::at_rest(api, 1);
        world.job(0, Work::Running);
        let kube = world.pods["w-0"].kube.unwrap();
        world.cordoned[kube] = true;
        let plan = world.plan();
        assert_eq!(plan.drains(), ["w-0"]);
        assert!(plan.deleted().is_empty() && plan.waits.is_empty(), "the pod stays");
        world.settle();
        assert!(world.nodes["w-0"].drain);
        assert!(!world.pods["w-0"].protected, "its job is over, so it can be evicted");
        world.cordoned[kube] = false;
        world.settle();
        assert!(!world.nodes["w-0"].drain && world.pods["w-0"].protected);
    }
}

fn cordon_reason(reason: Option<&str>, conditions: &[(&str, &str)]) -> String {
    let mut world = World::at_rest(Api::Slinky, 1);
    world.look();
    let mut facts = world.facts();
    let node = facts.pods[0].kube_node.as_mut().unwrap();
    (node.cordoned, node.cordon_reason) = (true, reason);
    node.conditions = conditions.to_vec();
    plan(&facts).drain_reason().to_owned()
}

#[test]
fn case_29_the_annotation_of_the_node_is_the_reason() {
    assert_eq!(cordon_reason(Some("  new\nkernel "), &[]), "slurm-operator: new kernel");
}

#[test]
fn case_30_else_its_conditions_are_and_else_a_plain_sentence() {
    let conditions = [("GpuDown", "no GPU"), ("DiskFull", "no room")];
    assert_eq!(cordon_reason(None, &conditions), "slurm-operator: (DiskFull: no room); (GpuDown: no GPU)");
    assert_eq!(cordon_reason(Some("mine"), &conditions), "slurm-operator: mine");
    let kube = World::at_rest(Api::Slinky, 1).pods["w-0"].kube.unwrap();
    assert_eq!(
        cordon_reason(None, &[]),
        format!("slurm-operator: Node (k{kube}) was cordoned, Pod (ns/w-0) must be cordoned")
    );
}

#[test]
fn case_31_what_somebody_else_says_of_a_node_stays() {
    for reason in [ADMIN, "Not responding [slurm@...]"] {
        let mut world = World::at_rest(Api::Slinky, 1);
        world.cordoned = [true; 3];
        let node = world.node_mut(0);
        (node.answers, node.reason) = (None, reason.into());
        assert!(world.plan().drains().is_empty(), "{reason}");
    }
}

#[test]
fn a_reason_that_slurm_kept_from_a_drain_that_is_over_means_nothing() {
    let mut world = World::at_rest(Api::Nebius, 1);
    world.node_mut(0).reason = "the pod runs again".into();
    assert_eq!(world.plan().actions, [], "it is not even written on the pod");
    world.cordoned = [true; 3];
    assert!(
        world.plan().drain_reason().ends_with("must be cordoned"),
        "nobody else says anything of the node"
    );
}

#[test]
fn a_drain_by_the_agent_of_a_pod_that_stopped_is_taken_back_by_the_agent_of_the_next() {
    let mut world = World::at_rest(Api::Nebius, 2);
    world.drained(1, "slurm-agent: the pod stops");
    world.content = 2;
    let plan = world.plan();
    assert!(plan.undrains().is_empty());
    world.pod_mut(1).revision = plan.status.hash.clone();
    assert!(world.plan().drains().is_empty(), "until then the worker counts as away");
}

#[test]
fn a_node_that_an_admin_drained_costs_its_pod_one_write() {
    let mut world = World::at_rest(Api::Slinky, 1);
    world.drained(0, ADMIN);
    let kinds = |plan: &Plan| plan.actions.iter().map(Action::kind).collect::<Vec<_>>();
    assert_eq!(kinds(&world.step()), ["SetComment"]);
    let plan = world.step();
    assert_eq!(kinds(&plan), ["MarkPod"]);
    let [Action::MarkPod { marks, .. }] = &*plan.actions else { panic!("{:?}", plan.actions) };
    assert_eq!(marks.protected, Some(false));
    assert!(marks.conditions.as_ref().is_some_and(|all| all.contains_key("SlurmNodeStateDrain")));
    assert_eq!(kinds(&world.step()), [""; 0]);
}

#[test]
fn what_an_admin_wrote_about_a_node_that_is_down_is_kept_in_the_reason_of_our_drain() {
    let mut world = World::at_rest(Api::Nebius, 1);
    world.replicas = 0;
    let node = world.node_mut(0);
    (node.answers, node.reason) = (None, ADMIN.into());
    assert!(world.plan().drain_reason().ends_with("for scale-in (before: bad disk)"));
}

#[test]
fn what_an_admin_wrote_about_a_node_that_is_down_comes_back_with_the_end_of_our_drain() {
    for (answers, reason) in [(false, ADMIN), (true, "the pod works again")] {
        let mut world = World::at_rest(Api::Nebius, 1);
        let drained =
            format!("slurm-operator: Pod (ns/w-0) is pending termination for scale-in (before: {ADMIN})");
        world.drained(0, &drained);
        if !answers {
            world.node_mut(0).answers = None;
        }
        let plan = world.plan();
        let undrain = plan.actions.iter().find_map(|action| match action {
            Action::Undrain { reason, .. } => Some(&**reason),
            _ => None,
        });
        assert_eq!(undrain, Some(reason), "{}", world.brief());
    }
}

#[test]
fn an_admins_drain_outlives_an_update_also_where_lower_ordinals_are_free() {
    for stop_script in [false, true] {
        let mut world = World::at_rest(Api::Slinky, 3);
        world.stop_script = stop_script;
        world.job(2, Work::Running);
        world.replicas = 1;
        world.settle();
        assert_eq!(world.pods.keys().collect::<Vec<_>>(), ["w-2"], "the busy one stayed");
        world.drained(2, ADMIN);
        world.settle();
        let before = world.pods["w-2"].uid.clone();
        world.content = 2;
        world.settle();
        assert_eq!(world.pods.keys().collect::<Vec<_>>(), ["w-2"]);
        assert_ne!(world.pods["w-2"].uid, before, "it was replaced");
        assert!(world.nodes["w-2"].drain, "{}", world.brief());
        // Others get the lowest name, and a worker that leaves takes its record with it, as ever.
        world.replicas = 2;
        world.settle();
        assert_eq!(world.pods.keys().collect::<Vec<_>>(), ["w-0", "w-2"]);
        world.replicas = 0;
        world.settle();
        assert!(world.nodes.is_empty(), "{}", world.brief());
    }
}

#[test]
fn case_32_an_own_reason_is_kept_unless_the_pod_is_to_leave() {
    let mut world = World::at_rest(Api::Nebius, 1);
    world.cordoned = [true; 3];
    world.drained(0, "slurm-operator: Pod (ns/w-0) was cordoned");
    assert!(world.plan().drains().is_empty());
    world.replicas = 0;
    world.job(0, Work::Running);
    assert_eq!(
        world.plan().drain_reason(),
        "slurm-operator: Pod (ns/w-0) is pending termination for scale-in"
    );
}

#[test]
fn many_pods_that_leave_share_one_reason_so_that_slurm_is_told_by_one_call() {
    let mut world = World::at_rest(Api::Nebius, 9);
    world.replicas = 1;
    let shared = "slurm-operator: Pods of NodeSet (ns/w) are pending termination for scale-in";
    let node = world.node_mut(8);
    (node.answers, node.reason) = (None, ADMIN.into());
    let plan = world.plan();
    let reasons: Vec<&str> = plan
        .actions
        .iter()
        .filter_map(|action| match action {
            Action::Drain { reason, .. } => Some(&**reason),
            _ => None,
        })
        .collect();
    assert_eq!(reasons.len(), 8, "{reasons:?}");
    assert_eq!(reasons.iter().filter(|reason| **reason == shared).count(), 7, "{reasons:?}");
    assert!(reasons.contains(&&*format!("{shared} (before: {ADMIN})")), "{reasons:?}");

    // They are told already, also once fewer are left.
    for replicas in [1, 4] {
        world.replicas = replicas;
        for ordinal in 1..8 {
            world.drained(ordinal, shared);
            world.job(ordinal, Work::Running);
        }
        assert!(world.plan().drains().iter().all(|node| node.ends_with("-8")), "{:?}", world.plan().drains());
    }
}

#[test]
fn case_33_a_kept_pod_is_undrained_only_where_the_drain_is_ours_and_its_node_is_not_cordoned() {
    let mut world = World::at_rest(Api::Slinky, 1);
    world.drained(0, "slurm-operator: for some cause that is over");
    assert_eq!(world.plan().undrains(), ["w-0"]);
    world.drained(0, "preStop");
    assert_eq!(world.plan().undrains(), ["w-0"]);
    world.drained(0, ADMIN);
    assert!(world.plan().undrains().is_empty());
    world.drained(0, "slurm-operator: by us");
    world.cordoned = [true; 3];
    assert!(world.plan().undrains().is_empty());
}

#[test]
fn case_34_reasons_are_one_short_line() {
    assert_eq!(clean(" a\tb\r\nc\u{1b}[0m\u{0} ü "), "a b  c[0m ü");
    let long = "ü".repeat(300);
    assert_eq!(clean(&long).chars().count(), 256);
}

#[test]
fn nothing_is_drained_or_undrained_on_an_old_answer() {
    let mut world = World::at_rest(Api::Nebius, 2);
    world.drained(0, "slurm-operator: by us");
    world.look();
    world.mode = Mode::Stale;
    world.replicas = 1;
    world.now += 10_000;
    let plan = world.plan();
    assert!(plan.drains().is_empty() && plan.undrains().is_empty() && plan.deleted().is_empty());
    assert_eq!(plan.condition(condition::SLURM_ANSWERS).reason, "OldAnswer");
}
