use crate::claims::{Wanted, wanted_owner};
use crate::tests::world::{Work, World};
use crate::*;

#[test]
fn case_50_an_ended_pod_is_replaced_and_the_others_are_left_alone() {
    for phase in [PodPhase::Failed, PodPhase::Succeeded] {
        let mut world = World::at_rest(Api::Slinky, 2);
        let pod = world.pod_mut(1);
        (pod.phase, pod.ready) = (phase, None);
        let plan = world.plan();
        assert_eq!(plan.deleted(), ["w-1"]);
        assert!(plan.actions.iter().any(|action| matches!(
            action,
            Action::DeletePod { cause: Cause::Ended, proof: Proof::Ended, .. }
        )));
        world.pod_mut(1).terminating = Some(9);
        assert!(world.plan().deleted().is_empty());
    }
}

#[test]
fn case_51_what_was_taken_from_a_pod_is_given_back() {
    let mut world = World::at_rest(Api::Slinky, 1);
    world.claims.clear();
    world.look();
    let mut facts = world.facts();
    facts.pods[0].identity_kept = false;
    let plan = plan(&facts);
    assert!(
        plan.actions.iter().any(|action| matches!(action, Action::RepairPod { pod } if pod.name == "w-0"))
    );
    assert!(
        plan.actions
            .iter()
            .any(|action| matches!(action, Action::CreateClaim { name, .. } if name == "data-w-0"))
    );
}

#[test]
fn case_52_a_pod_waits_for_a_claim_that_is_being_deleted() {
    let mut world = World::at_rest(Api::Slinky, 1);
    world.pods.clear();
    world.look();
    let mut facts = world.facts();
    facts.claims[0].deleting = true;
    let waiting = plan(&facts);
    assert!(waiting.created().is_empty());
    assert_eq!(waiting.problems[0].reason, "ClaimInTheWay");
    // Nor is a claim taken that goes with an earlier pod.
    facts.claims[0].deleting = false;
    let owner = ClaimRef { target: RefTarget::Pod { name: "w-0", uid: "gone" }, controller: true };
    facts.claims[0].owners = vec![owner];
    assert!(plan(&facts).created().is_empty());
}

#[test]
fn case_53_the_policy_says_who_owns_claims() {
    let policy = |delete_with_set, delete_when_scaled| Retention { delete_with_set, delete_when_scaled };
    for (retention, leaves, wanted) in [
        (policy(false, false), false, Wanted::Nobody),
        (policy(false, false), true, Wanted::Nobody),
        (policy(true, false), false, Wanted::Set),
        (policy(true, false), true, Wanted::Set),
        (policy(false, true), false, Wanted::Nobody),
        (policy(false, true), true, Wanted::Pod),
        (policy(true, true), false, Wanted::Set),
        (policy(true, true), true, Wanted::Pod),
    ] {
        assert_eq!(wanted_owner(retention, leaves), wanted, "{retention:?} {leaves}");
    }
}

/// What becomes of the owners of the one claim.
fn owner_after(owners: Vec<ClaimRef<'_>>, retention: Retention) -> (Vec<Action>, Vec<&'static str>) {
    let mut world = World::at_rest(Api::Slinky, 1);
    world.retention = retention;
    world.look();
    let mut facts = world.facts();
    facts.claims[0].owners = owners;
    let plan = plan(&facts);
    (plan.actions, plan.problems.iter().map(|problem| problem.reason).collect())
}

#[test]
fn case_54_owners_of_others_and_of_the_past_are_respected() {
    let uid = "set-uid";
    let with_set = Retention { delete_with_set: true, delete_when_scaled: false };
    let set = |uid, controller| ClaimRef { target: RefTarget::Set { uid }, controller };
    let other = |controller| ClaimRef { target: RefTarget::Other, controller };
    let changes = |owners, retention| {
        let (actions, problems) = owner_after(owners, retention);
        let owner = actions.into_iter().find_map(|action| match action {
            Action::SetClaimOwner { owner, .. } => Some(owner),
            _ => None,
        });
        (owner, problems)
    };
    assert_eq!(changes(vec![set(uid, true)], with_set), (None, vec![]));
    assert_eq!(changes(vec![], with_set), (Some(ClaimOwner::Set), vec![]));
    assert_eq!(
        changes(vec![set(uid, false)], with_set),
        (Some(ClaimOwner::Set), vec![]),
        "no controller yet"
    );
    assert_eq!(changes(vec![set("old", true)], with_set), (None, vec![]), "it goes with its old owner");
    assert_eq!(changes(vec![other(false)], with_set), (Some(ClaimOwner::Set), vec![]));
    assert_eq!(changes(vec![other(true)], with_set), (None, vec!["ConflictingController"]));
    let both = vec![other(true), set(uid, false)];
    assert_eq!(changes(both, with_set), (Some(ClaimOwner::Nobody), vec!["ConflictingController"]));
    assert_eq!(changes(vec![other(true)], Retention::default()), (None, vec![]));
    assert_eq!(changes(vec![set(uid, true)], Retention::default()), (Some(ClaimOwner::Nobody), vec![]));
}

#[test]
fn a_claim_goes_with_a_pod_that_was_scaled_in_and_stays_when_its_pod_is_replaced() {
    let mut world = World::at_rest(Api::Nebius, 2);
    world.retention = Retention { delete_with_set: false, delete_when_scaled: true };
    let uids = |world: &World| world.claims.values().map(|claim| claim.uid.clone()).collect::<Vec<_>>();
    let before = uids(&world);
    world.content = 2;
    world.settle();
    assert_eq!(uids(&world), before);
    world.job(1, Work::Running);
    world.replicas = 1;
    world.step();
    assert!(matches!(world.claims["data-w-1"].owner, ClaimOwner::Pod { .. }));
    world.replicas = 2;
    world.step();
    assert_eq!(world.claims["data-w-1"].owner, ClaimOwner::Nobody, "it was taken back");
    world.replicas = 1;
    world.settle();
    assert_eq!(world.claims.keys().collect::<Vec<_>>(), ["data-w-0"]);
}

#[test]
fn case_55_names_are_read_as_they_are_written() {
    let world = World::new(Api::Slinky);
    let mut set = world.facts().set;
    set.name = "foo";
    assert_eq!(set.ordinal_of("foo-0"), Some(0));
    assert_eq!(set.ordinal_of("foo-12"), Some(12));
    for other in ["bar-1", "foo", "foo-", "foo-x", "foo-0-1", "foo1", "foo-01", "foo-+1", "foo-99999999999"] {
        assert_eq!(set.ordinal_of(other), None, "{other}");
    }
    assert_eq!(set.claim_name("data", 3), "data-foo-3");
    set.padding = 3;
    assert_eq!((set.pod_name(7), set.ordinal_of("foo-007")), ("foo-007".into(), Some(7)));
    assert_eq!(set.ordinal_of("foo-7"), None);
    assert_eq!((set.pod_name(1234), set.ordinal_of("foo-1234")), ("foo-1234".into(), Some(1234)));
    set.host_prefix = Some("worker-");
    assert_eq!((set.node_name(7), set.ordinal_of_node("worker-007")), ("worker-007".into(), Some(7)));
}
