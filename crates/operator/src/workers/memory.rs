//! What is remembered of a set between two looks. All of it can be found out again, but for the revision of lost pods.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use engine::view::{PodView, RevisionView};
use kube::ResourceExt as _;
use nodeset::{Content, Problem, UnixTime, Wait};
use parking_lot::Mutex;
use slurm_client::WatchGuard;

use crate::slurm_links::Link;

/// A pod that no cache holds is believed to be there for so long; then its name is tried again.
pub(super) const UNSEEN: Duration = Duration::from_secs(30);

/// What the API server took just before, it will take again so soon after it.
const PACE_SERVES: Duration = Duration::from_secs(5);

/// The caches of a set and of its pods tell of the same change within this time.
const CACHES_DIFFER: Duration = Duration::from_secs(2);

/// What is remembered of a set.
#[derive(Default)]
pub(super) struct Memory {
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    /// Contents of revisions by their uid; they never change.
    contents: HashMap<String, Arc<Content>>,
    /// Pods that have names of ours and that no cache holds.
    unseen: HashMap<String, (Instant, Arc<PodView>)>,
    /// The pods of the set at the last look that nobody was about to take away: names and uids.
    own: BTreeMap<String, String>,
    /// How often the name of a revision was taken.
    collisions: u32,
    /// What users have been told already.
    problems: BTreeSet<Problem>,
    /// The same of what the set as a whole does or does not do.
    states: BTreeMap<&'static str, String>,
    /// Since when pods wait to leave.
    waits: BTreeMap<String, UnixTime>,
    /// The revision that pods below the partition keep.
    kept: Option<String>,
    /// When its pods were last about to become nobody's.
    letting_go: Option<Instant>,
    /// How many pods may be made at once after those that were made just before.
    pace: Option<(Instant, usize)>,
    /// When its status was last written.
    told: Option<Instant>,
    /// While it is there, Slurm is read often.
    guard: Option<(Arc<Link>, WatchGuard)>,
}

impl Memory {
    pub(super) fn collisions(&self) -> u32 {
        self.inner.lock().collisions
    }

    /// The name of a revision was taken, with this many collisions.
    pub(super) fn collided(&self, before: u32) {
        let mut inner = self.inner.lock();
        inner.collisions = inner.collisions.max(before.saturating_add(1));
    }

    /// With how many pods at once to begin. It is kept anew when all went well, and begins with one after whatever did not.
    pub(super) fn take_pace(&self) -> usize {
        let pace = self.inner.lock().pace.take();
        pace.filter(|(time, _)| time.elapsed() < PACE_SERVES).map_or(1, |(_, pace)| pace)
    }

    /// So many pods at once were made, or were to be made next.
    pub(super) fn keep_pace(&self, pace: usize) {
        self.inner.lock().pace = Some((Instant::now(), pace));
    }

    /// The status was written.
    pub(super) fn told(&self) {
        self.inner.lock().told = Some(Instant::now());
    }

    /// How long ago the status was written.
    pub(super) fn told_ago(&self) -> Option<Duration> {
        self.inner.lock().told.map(|time| time.elapsed())
    }

    /// The content of a revision, made once.
    pub(super) fn content(&self, revision: &RevisionView, make: impl FnOnce() -> Content) -> Arc<Content> {
        let uid = revision.uid().unwrap_or_default();
        let mut inner = self.inner.lock();
        Arc::clone(inner.contents.entry(uid).or_insert_with(|| Arc::new(make())))
    }

    /// Forgets contents of other revisions.
    pub(super) fn keep_contents(&self, revisions: &[Arc<RevisionView>]) {
        let uids: HashSet<String> = revisions.iter().filter_map(|revision| revision.uid()).collect();
        self.inner.lock().contents.retain(|uid, _| uids.contains(uid));
    }

    /// A pod has a name that we want, and no cache holds it.
    pub(super) fn found(&self, pod: PodView) {
        self.inner.lock().unseen.insert(pod.name_any(), (Instant::now(), Arc::new(pod)));
    }

    /// It is not as it was.
    pub(super) fn forget_pod(&self, name: &str) {
        self.inner.lock().unseen.remove(name);
    }

    /// These are the pods of the set now.
    pub(super) fn keep_own(&self, pods: &[Arc<PodView>]) {
        let stay = pods.iter().filter(|pod| !pod.is_terminating());
        self.inner.lock().own = stay.map(|pod| (pod.name_any(), pod.uid().unwrap_or_default())).collect();
    }

    /// We deleted this one.
    pub(super) fn deleted(&self, name: &str) {
        self.inner.lock().own.remove(name);
    }

    /// Names and uids of pods that were there at the last look, nobody was about to take away, and are `missing` now.
    pub(super) fn lost(&self, missing: impl Fn(&str) -> bool) -> Vec<(String, String)> {
        let inner = self.inner.lock();
        let lost = inner.own.iter().filter(|(name, _)| missing(name) && !inner.unseen.contains_key(*name));
        lost.map(|(name, uid)| (name.clone(), uid.clone())).collect()
    }

    /// The pods that no cache holds.
    pub(super) fn unseen(&self) -> Vec<Arc<PodView>> {
        let mut inner = self.inner.lock();
        inner.unseen.retain(|_, (since, _)| since.elapsed() < UNSEEN);
        inner.unseen.values().map(|(_, pod)| Arc::clone(pod)).collect()
    }

    /// How long it takes until the first of them is looked at again.
    pub(super) fn unseen_for(&self) -> Option<Duration> {
        let inner = self.inner.lock();
        inner.unseen.values().map(|(since, _)| UNSEEN.saturating_sub(since.elapsed())).min()
    }

    /// The problems that nobody was told of yet.
    pub(super) fn news(&self, problems: &[Problem]) -> Vec<Problem> {
        let now: BTreeSet<Problem> = problems.iter().cloned().collect();
        let mut inner = self.inner.lock();
        let new = now.difference(&inner.problems).cloned().collect();
        inner.problems = now;
        new
    }

    /// Whether nobody was told this under this word yet. None: it is not so any more.
    pub(super) fn is_new(&self, word: &'static str, note: Option<&str>) -> bool {
        let mut inner = self.inner.lock();
        match note {
            None => {
                inner.states.remove(word);
                false
            }
            Some(note) => inner.states.insert(word, note.into()).is_none_or(|before| before != note),
        }
    }

    /// Notes who waits. Returns since when the one does that has waited longest.
    pub(super) fn waiting(&self, waits: &[Wait], now: UnixTime) -> Option<UnixTime> {
        let mut inner = self.inner.lock();
        let before = std::mem::take(&mut inner.waits);
        inner.waits = waits
            .iter()
            .map(|wait| (wait.pod.clone(), before.get(&wait.pod).copied().unwrap_or(now)))
            .collect();
        inner.waits.values().min().copied()
    }

    /// The revision that pods below the partition kept in the last plan.
    pub(super) fn kept(&self) -> Option<String> {
        self.inner.lock().kept.clone()
    }

    /// The same after this plan.
    pub(super) fn keep(&self, revision: Option<&str>) {
        self.inner.lock().kept = revision.map(String::from);
    }

    /// How long nothing may be done because the set lets its pods go, or did a moment ago.
    pub(super) fn lets_go(&self, now: bool) -> Option<Duration> {
        let mut inner = self.inner.lock();
        if now {
            inner.letting_go = Some(Instant::now());
        }
        let left = CACHES_DIFFER.saturating_sub(inner.letting_go?.elapsed());
        Some(left).filter(|left| !left.is_zero())
    }

    /// Has Slurm read often, or not.
    pub(super) fn watch(&self, link: Option<&Arc<Link>>, closely: bool) {
        let mut inner = self.inner.lock();
        match link.filter(|_| closely) {
            None => inner.guard = None,
            Some(link) => {
                let same = inner.guard.as_ref().is_some_and(|(known, _)| Arc::ptr_eq(known, link));
                if !same {
                    inner.guard = Some((Arc::clone(link), link.watch_closely()));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use nodeset::Cause;

    use super::*;

    #[test]
    fn users_are_told_of_a_problem_once_and_again_when_it_comes_back() {
        let memory = Memory::default();
        let problem = Problem { reason: "NameTaken", message: "w-0".into() };
        assert_eq!(memory.news(std::slice::from_ref(&problem)).len(), 1);
        assert!(memory.news(std::slice::from_ref(&problem)).is_empty());
        assert!(memory.news(&[]).is_empty());
        assert_eq!(memory.news(std::slice::from_ref(&problem)).len(), 1);
    }

    #[test]
    fn a_state_is_told_when_it_begins_and_when_it_changes() {
        let memory = Memory::default();
        let told = [Some("a"), Some("a"), Some("b"), None, Some("b")].map(|note| memory.is_new("S", note));
        assert_eq!(told, [true, false, true, false, true]);
    }

    #[test]
    fn pods_that_vanish_are_looked_for_unless_they_were_about_to_go() {
        let pod = |name: &str, terminates: bool| -> Arc<PodView> {
            let time = terminates.then_some("2026-01-01T00:00:00Z");
            let meta = serde_json::json!({ "name": name, "uid": name, "deletionTimestamp": time });
            Arc::new(serde_json::from_value(serde_json::json!({ "metadata": meta })).unwrap())
        };
        let memory = Memory::default();
        memory.keep_own(&[pod("a", false), pod("b", true), pod("c", false), pod("d", false)]);
        memory.deleted("c");
        let lost = memory.lost(|name| name != "d");
        assert_eq!(lost, [("a".to_owned(), "a".to_owned())]);
        memory.found(PodView::clone(&pod("a", false)));
        assert!(memory.lost(|_| true).iter().all(|(name, _)| name != "a"), "it is known");
    }

    #[test]
    fn a_pace_is_used_once_and_only_what_went_well_keeps_it() {
        let memory = Memory::default();
        assert_eq!(memory.take_pace(), 1);
        memory.keep_pace(128);
        assert_eq!(memory.take_pace(), 128);
        assert_eq!(memory.take_pace(), 1, "nobody said that it went well");
    }

    #[test]
    fn a_wait_has_the_age_of_its_beginning() {
        let memory = Memory::default();
        let wait = |pod: &str| Wait {
            pod: pod.into(),
            node: pod.into(),
            cause: Cause::ScaleIn,
            why: String::new(),
            until: None,
        };
        assert_eq!(memory.waiting(&[wait("a")], UnixTime(10)), Some(UnixTime(10)));
        assert_eq!(memory.waiting(&[wait("a"), wait("b")], UnixTime(20)), Some(UnixTime(10)));
        assert_eq!(memory.waiting(&[wait("b")], UnixTime(30)), Some(UnixTime(20)));
        assert_eq!(memory.waiting(&[], UnixTime(40)), None);
    }
}
