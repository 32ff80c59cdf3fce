use crate::tests::world::{CONTENTS, SimRevision, World};
use crate::*;

fn revision(number: i64, content: usize) -> SimRevision {
    let hash = format!("h{number}");
    SimRevision { name: format!("w-{hash}"), hash, number, content }
}

fn about_revisions(plan: &Plan) -> Vec<&Action> {
    let about = |action: &&Action| {
        matches!(
            action,
            Action::AdoptRevision { .. }
                | Action::CreateRevision { .. }
                | Action::RenumberRevision { .. }
                | Action::DeleteRevision { .. }
        )
    };
    plan.actions.iter().filter(about).collect()
}

#[test]
fn case_46_a_revision_that_nobody_owns_is_adopted_and_others_are_left_alone() {
    let mut world = World::new(Api::Slinky);
    world.revisions = vec![revision(1, 0), revision(2, 2)];
    world.look();
    let mut facts = world.facts();
    facts.revisions[0].owner = Owner::Nobody;
    facts.revisions[1].owner = Owner::Other;
    let plan = plan(&facts);
    assert_eq!(about_revisions(&plan), [&Action::AdoptRevision { name: "w-h1".into(), uid: "w-h1".into() }]);
    assert_eq!(plan.status.hash, "h1");
}

#[test]
fn case_47_of_equal_revisions_the_newest_is_taken() {
    let mut world = World::new(Api::Slinky);
    world.revisions = vec![revision(1, 0), revision(2, 0), revision(3, 0)];
    world.history = 9;
    let plan = world.plan();
    assert_eq!(plan.status.hash, "h3");
    assert_eq!(about_revisions(&plan), Vec::<&Action>::new());
}

#[test]
fn case_48_revisions_that_nobody_uses_go_and_those_in_use_stay() {
    let mut world = World::at_rest(Api::Slinky, 1);
    let used = world.pods["w-0"].revision.clone();
    world.strategy = Strategy::OnDelete;
    world.revisions.push(revision(2, 1));
    world.revisions.push(revision(3, 3));
    world.revisions.push(revision(4, 2));
    world.content = 2;
    let gone = |plan: &Plan| -> Vec<String> {
        about_revisions(plan)
            .into_iter()
            .filter_map(|action| match action {
                Action::DeleteRevision { name, .. } => Some(name.clone()),
                _ => None,
            })
            .collect()
    };
    assert_eq!(gone(&world.plan()), ["w-h2", "w-h3"]);
    world.history = 1;
    assert_eq!(gone(&world.plan()), ["w-h2"], "the oldest goes first");
    assert!(world.revisions.iter().any(|revision| revision.hash == used));
}

#[test]
fn case_49_a_rollback_takes_the_old_revision_with_a_new_number() {
    let mut world = World::at_rest(Api::Slinky, 1);
    world.revisions.push(revision(2, 2));
    let name = world.revisions[0].name.clone();
    let plan = world.plan();
    let wanted = Action::RenumberRevision { name: name.clone(), uid: name, number: 3 };
    assert!(about_revisions(&plan).contains(&&wanted), "{plan:?}");
    assert!(plan.drains().is_empty(), "its pods have it already");
}

#[test]
fn a_name_that_is_taken_by_another_content_makes_another_hash() {
    let mut world = World::new(Api::Slinky);
    let taken = CONTENTS[0].hash(0);
    world.revisions = vec![SimRevision { name: format!("w-{taken}"), hash: taken, number: 1, content: 2 }];
    let plan = world.plan();
    assert_eq!(plan.status.collisions, 1);
    assert_eq!(plan.status.hash, CONTENTS[0].hash(1));
}
