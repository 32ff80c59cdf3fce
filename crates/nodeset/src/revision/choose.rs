//! Which revision pods should have, and which revisions nobody needs.

use std::collections::BTreeSet;

use super::Revision;
use crate::facts::{Facts, Owner, Strategy};
use crate::plan::Action;

/// What was decided about revisions.
#[derive(Debug)]
pub(crate) struct Chosen<'f> {
    /// The label of the revision that pods should have.
    pub(crate) update: String,
    /// The label of the revision that pods below the partition keep.
    pub(crate) current: String,
    /// How often a name was taken.
    pub(crate) collisions: u32,
    /// What makes it so, before any pod is made.
    pub(crate) before: Vec<Action>,
    /// What throws away the old, after everything else.
    pub(crate) after: Vec<Action>,
    revisions: Vec<&'f Revision<'f>>,
}

impl<'f> Chosen<'f> {
    /// The label of the revision that a pod with this ordinal is made from.
    pub(crate) fn for_ordinal(&self, facts: &Facts<'_>, ordinal: u32) -> &str {
        let stays = facts.set.strategy != Strategy::OnDelete && ordinal < facts.set.partition;
        if stays { &self.current } else { &self.update }
    }

    /// The revision with this label.
    pub(crate) fn revision(&self, label: &str) -> Option<&'f Revision<'f>> {
        self.revisions.iter().rev().find(|revision| revision.label() == label).copied()
    }
}

/// A name has at most 253 characters, and a dash and the hash stand at its end.
const MAX_NAME: usize = 223;

/// Finds the revision of what is wanted, or makes one; and finds those to throw away.
pub(crate) fn choose<'f>(facts: &'f Facts<'f>) -> Chosen<'f> {
    let set = &facts.set;
    let mut revisions: Vec<&Revision<'_>> =
        facts.revisions.iter().filter(|revision| revision.owner != Owner::Other).collect();
    revisions.sort_by_key(|revision| revision.age_key());
    let mut before: Vec<Action> = revisions
        .iter()
        .filter(|revision| revision.owner == Owner::Nobody && set.deletion.is_none())
        .map(|revision| Action::AdoptRevision { name: revision.name.into(), uid: revision.uid.into() })
        .collect();
    let next = revisions.last().map_or(1, |newest| newest.number.saturating_add(1));
    let mut collisions = set.collisions;
    let same = revisions.iter().rposition(|revision| revision.content == set.content);
    let update = match same {
        Some(at) => {
            let revision = revisions[at];
            // A rollback: the old revision becomes the newest again.
            if at + 1 < revisions.len() && set.deletion.is_none() {
                let (name, uid) = (revision.name.into(), revision.uid.into());
                before.push(Action::RenumberRevision { name, uid, number: next });
            }
            revision.label().to_owned()
        }
        None => {
            let stem: String = set.name.chars().take(MAX_NAME).collect();
            let mut hash = set.content.hash(collisions);
            while facts.revisions.iter().any(|taken| *taken.name == format!("{stem}-{hash}")) {
                collisions += 1;
                hash = set.content.hash(collisions);
            }
            if set.deletion.is_none() {
                let name = format!("{stem}-{hash}");
                before.push(Action::CreateRevision { name, hash: hash.clone(), number: next });
            }
            hash
        }
    };
    let current = current(facts, &revisions, &update);
    let after = if set.deletion.is_none() { trim(facts, &revisions, &update, &current) } else { Vec::new() };
    Chosen { update, current, collisions, before, after, revisions }
}

/// The newest revision, other than the wanted one, that a pod below the partition runs; or what the last plan knew of those that
/// are lost; or what a pod above it runs.
fn current(facts: &Facts<'_>, revisions: &[&Revision<'_>], update: &str) -> String {
    let runs = |below: bool| -> BTreeSet<&str> {
        let pods = facts.pods.iter().filter(|pod| pod.owner == Owner::Set);
        pods.filter(|pod| {
            !below || facts.set.ordinal_of(pod.name).is_some_and(|ordinal| ordinal < facts.set.partition)
        })
        .filter_map(|pod| pod.revision)
        .collect()
    };
    let newest = |labels: BTreeSet<&str>| {
        let mut found = revisions.iter().rev().map(|revision| revision.label());
        found.find(|label| *label != update && labels.contains(label))
    };
    let is_known = |label: &&str| *label == update || revisions.iter().any(|known| known.label() == *label);
    let kept = || facts.set.kept.filter(is_known);
    newest(runs(true)).or_else(kept).or_else(|| newest(runs(false))).unwrap_or(update).to_owned()
}

/// Revisions that no pod runs, beyond those that are kept; the oldest first.
fn trim(facts: &Facts<'_>, revisions: &[&Revision<'_>], update: &str, current: &str) -> Vec<Action> {
    let used: BTreeSet<&str> = facts.pods.iter().filter_map(|pod| pod.revision).collect();
    let idle: Vec<_> = revisions
        .iter()
        .filter(|revision| revision.owner == Owner::Set)
        .filter(|revision| {
            let label = revision.label();
            label != update && label != current && !used.contains(label)
        })
        .collect();
    let surplus = idle.len().saturating_sub(facts.set.history_limit);
    idle[..surplus]
        .iter()
        .map(|revision| Action::DeleteRevision { name: revision.name.into(), uid: revision.uid.into() })
        .collect()
}
