use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

fn uid(name: &str) -> Uid {
    name.into()
}

fn seconds(seconds: u64) -> Time {
    Duration::from_secs(seconds)
}

fn popped(queue: &mut Queue<u8>, now: Time) -> Vec<String> {
    std::iter::from_fn(|| queue.pop(now)).map(|uid| uid.to_string()).collect()
}

#[test]
fn the_higher_priority_goes_first_then_the_older_then_who_came_first() {
    let mut queue = Queue::<u8>::default();
    queue.put(&uid("young"), 0, 20, seconds(0));
    queue.put(&uid("old"), 0, 10, seconds(0));
    queue.put(&uid("also-old"), 0, 10, seconds(0));
    queue.put(&uid("urgent"), 5, 30, seconds(0));
    assert_eq!(popped(&mut queue, seconds(0)), ["urgent", "old", "also-old", "young"]);
}

#[test]
fn backoff_doubles_from_one_to_ten_seconds() {
    let mut queue = Queue::<u8>::default();
    queue.put(&uid("a"), 0, 0, seconds(0));
    let mut now = seconds(0);
    for wait in [1, 2, 4, 8, 10, 10] {
        assert_eq!(queue.pop(now), Some(uid("a")));
        queue.retry(&uid("a"), Duration::ZERO, now);
        assert_eq!(queue.next_time(), Some(now + seconds(wait)));
        assert_eq!(queue.pop(now + seconds(wait) - Duration::from_millis(1)), None);
        now += seconds(wait);
    }
}

#[test]
fn the_server_can_ask_for_more_patience() {
    let mut queue = Queue::<u8>::default();
    queue.put(&uid("a"), 0, 0, seconds(0));
    queue.pop(seconds(0));
    queue.retry(&uid("a"), seconds(30), seconds(0));
    assert_eq!(queue.next_time(), Some(seconds(30)));
}

#[test]
fn only_those_that_wait_for_it_are_woken() {
    let mut queue = Queue::<u8>::default();
    for (name, key) in [("a", 1), ("b", 2)] {
        queue.put(&uid(name), 0, 0, seconds(0));
        queue.pop(seconds(0));
        queue.park(&uid(name), vec![key], &["P"], seconds(0));
    }
    assert_eq!((queue.wake(&3, "E", seconds(60)), queue.wake(&2, "E", seconds(60))), (0, 1));
    assert_eq!(popped(&mut queue, seconds(60)), ["b"]);
    assert_eq!(queue.counts(), Counts { unschedulable: 1, taken: 1, ..Counts::default() });
    assert_eq!(popped(&mut queue, seconds(299)), [""; 0]);
    assert_eq!(popped(&mut queue, seconds(300)), ["a"], "five minutes are enough");
}

#[test]
fn a_pod_that_changes_while_it_is_bound_is_not_tried_a_second_time() {
    let mut queue = Queue::<u8>::default();
    queue.put(&uid("a"), 0, 0, seconds(0));
    queue.pop(seconds(0));
    queue.put(&uid("a"), 9, 0, seconds(20));
    assert_eq!(popped(&mut queue, seconds(20)), [""; 0]);
    queue.retry(&uid("a"), Duration::ZERO, seconds(20));
    assert_eq!(popped(&mut queue, seconds(20)), ["a"]);
}

/// What can happen to the queue.
#[derive(Clone, Debug)]
enum Step {
    Put(u8),
    Remove(u8),
    Pop,
    /// The oldest that is taken waits for this.
    Park(u8),
    Retry,
    Wake(u8),
    Pass(u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (0u8..5).prop_map(Step::Put),
        (0u8..5).prop_map(Step::Remove),
        Just(Step::Pop),
        (0u8..3).prop_map(Step::Park),
        Just(Step::Retry),
        (0u8..3).prop_map(Step::Wake),
        (1u64..20).prop_map(Step::Pass),
    ]
}

/// What a pod should do next, told in the plainest way.
#[derive(Clone, Debug, PartialEq)]
enum Wanted {
    /// From this time on it must be handed out.
    At(Time),
    /// It waits for this; at the latest until then.
    For(u8, Time),
    /// It is with the caller.
    Taken,
}

/// Runs the steps beside a model. `lose` plants a bug: woken pods of this key are forgotten.
fn run(steps: &[Step], lose: Option<u8>) -> Result<(), String> {
    let mut queue = Queue::<u8>::default();
    let mut model: BTreeMap<u8, (Wanted, u32, Time)> = BTreeMap::new();
    let mut now = Time::ZERO;
    let name = |number: u8| uid(&number.to_string());
    for step in steps {
        match *step {
            Step::Put(pod) => {
                queue.put(&name(pod), 0, 0, now);
                let known = model.entry(pod).or_insert((Wanted::At(now), 0, now));
                if known.0 != Wanted::Taken {
                    known.0 = Wanted::At(now.max(known.2 + backoff(known.1)));
                }
            }
            Step::Remove(pod) => {
                queue.remove(&name(pod));
                model.remove(&pod);
            }
            Step::Pop => {
                let due = |wanted: &Wanted| match wanted {
                    Wanted::At(time) | Wanted::For(_, time) => *time <= now,
                    Wanted::Taken => false,
                };
                let expected = model.values().any(|(wanted, _, _)| due(wanted));
                match queue.pop(now) {
                    Some(uid) => {
                        let pod: u8 = uid.parse().map_err(|_| "no such pod".to_string())?;
                        let known = model.get_mut(&pod).ok_or_else(|| format!("{pod} is gone, but came"))?;
                        if !due(&known.0) {
                            return Err(format!("{pod} came too early: {known:?} at {now:?}"));
                        }
                        *known = (Wanted::Taken, known.1 + 1, now);
                    }
                    None if expected => return Err(format!("a wake-up was lost at {now:?}: {model:?}")),
                    None => {}
                }
            }
            Step::Park(key) => {
                if let Some((pod, known)) = model.iter_mut().find(|(_, known)| known.0 == Wanted::Taken) {
                    queue.park(&name(*pod), vec![key, 7], &[], now);
                    known.0 = Wanted::For(key, now + FLUSH);
                }
            }
            Step::Retry => {
                if let Some((pod, known)) = model.iter_mut().find(|(_, known)| known.0 == Wanted::Taken) {
                    queue.retry(&name(*pod), Duration::ZERO, now);
                    known.0 = Wanted::At(known.2 + backoff(known.1));
                }
            }
            Step::Wake(key) => {
                if lose != Some(key) {
                    queue.wake(&key, "E", now);
                }
                for known in model.values_mut() {
                    if matches!(known.0, Wanted::For(waits, _) if waits == key) {
                        known.0 = Wanted::At(now.max(known.2 + backoff(known.1)));
                    }
                }
            }
            Step::Pass(time) => now += seconds(time),
        }
        let counts = queue.counts();
        if counts.active + counts.backoff + counts.unschedulable + counts.taken != model.len() {
            return Err(format!("{counts:?} of {} pods", model.len()));
        }
        let taken = model.values().filter(|known| known.0 == Wanted::Taken).count();
        if counts.taken != taken {
            return Err(format!("{counts:?}, but {taken} are taken"));
        }
        let timed = model.values().filter_map(|known| match known.0 {
            Wanted::At(time) | Wanted::For(_, time) => Some(time),
            Wanted::Taken => None,
        });
        // Without anything active the next time must not be later than the model's, or a sleeper misses it.
        if let Some(first) = timed.min()
            && !queue.has_active(now)
            && queue.next_time().is_none_or(|next| next > first)
        {
            return Err(format!("nothing is due at {first:?}, but at {:?}", queue.next_time()));
        }
    }
    let waiting: usize = queue.waiting.values().map(BTreeSet::len).sum();
    let keys: usize = queue
        .entries
        .values()
        .map(|entry| if let Place::Parked { keys, .. } = &entry.place { keys.len() } else { 0 })
        .sum();
    if waiting != keys { Err(format!("{waiting} wait for something, {keys} should")) } else { Ok(()) }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(crate::testing::cases(400)))]

    #[test]
    fn no_wake_up_is_lost_and_nobody_comes_early(steps in prop::collection::vec(step(), 0..60)) {
        prop_assert_eq!(run(&steps, None), Ok(()));
    }
}

#[test]
fn the_model_catches_a_lost_wake_up() {
    let steps = [Step::Put(1), Step::Pop, Step::Park(2), Step::Pass(15), Step::Wake(2), Step::Pop];
    assert_eq!(run(&steps, None), Ok(()));
    let caught = run(&steps, Some(2)).unwrap_err();
    assert!(caught.contains("2 wait") || caught.contains("lost") || caught.contains("due"), "{caught}");
}
