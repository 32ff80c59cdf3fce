//! Brings one bind to an end that is known: done, or surely not done.

use std::collections::BTreeMap;
use std::time::Duration;

use engine::client::Client;
use engine::{Key, binding, error, objects};
use tokio::time::Instant;

use crate::core::{Assignment, BindError};
use crate::facts::{Phase, Pod};
use crate::names;
use crate::view::PodView;

/// Between looks at a pod whose bind may or may not have been done.
const FIRST_LOOK: Duration = Duration::from_millis(100);
const LONGEST_LOOK: Duration = Duration::from_secs(5);
/// The same once the bind stands in nobody's way any more.
const LONGEST_LATE_LOOK: Duration = Duration::from_secs(20);
/// The same once nothing is sent any more: the watch would tell of a bind, too.
const FIRST_LAST_LOOK: Duration = Duration::from_secs(5);
/// How long a server that refuses for the moment is left alone, if it does not say.
const REST: Duration = Duration::from_secs(1);
/// How long a pod rests that the server does not want bound at all.
const REJECTED_REST: Duration = Duration::from_secs(10);

/// How much patience there is with a bind that gets no clear answer.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// So long it is repeated in the place of other binds.
    pub first: Duration,
    /// So long it is repeated beside them. A server that was away for a moment is soon back.
    pub repeats: Duration,
    /// No call lives longer than this in the API server: what is not done by then will not be.
    pub settled: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            first: Duration::from_secs(1),
            repeats: Duration::from_secs(60),
            settled: Duration::from_secs(120),
        }
    }
}

/// What became of a bind.
#[derive(Clone, Debug)]
pub(super) enum Outcome {
    /// The pod is bound as we wanted.
    Bound,
    /// It is not bound by us, and will not be by what we sent.
    Not(BindError),
    /// It is not, and the server says that this cannot be.
    Rejected(BindError, String),
}

/// What is known of a bind that got no clear answer.
#[derive(Clone, Debug, Default)]
pub(super) struct Unclear {
    /// When the last try ended of which nobody knows whether it is still carried out.
    unanswered: Option<Instant>,
    /// What the server said last.
    pub(super) why: String,
    overload: bool,
}

/// What became of a bind, and how the server took it.
#[derive(Clone, Debug)]
pub(super) struct Done {
    /// An error: nobody knows yet; see [`settle`].
    pub(super) outcome: Result<Outcome, Unclear>,
    /// Whether the server asked for fewer calls or did not answer.
    pub(super) overload: bool,
}

/// Sends a bind, and repeats it for a while where the answer is not clear. As long as it is not known what became of it, the
/// devices are the pod's: a call that got no answer may still be carried out, and so nobody else may be given them.
pub(super) async fn bind(client: &Client, assignment: &Assignment, patience: Patience) -> Done {
    let mut unclear = Unclear::default();
    let until = Instant::now() + patience.first;
    let known = repeat(client, assignment, &mut unclear, until, LONGEST_LOOK).await;
    let overload = unclear.overload;
    Done { outcome: known.ok_or(unclear), overload }
}

/// Finds out what became of a bind that got no clear answer: repeats it some more, then lets the server forget it, and
/// reads the pod.
pub(super) async fn settle(
    client: &Client,
    assignment: &Assignment,
    mut unclear: Unclear,
    patience: Patience,
) -> Outcome {
    if !patience.repeats.is_zero() {
        let until = Instant::now() + patience.repeats;
        if let Some(known) = repeat(client, assignment, &mut unclear, until, LONGEST_LATE_LOOK).await {
            return known;
        }
    }
    let mut wait = FIRST_LAST_LOOK;
    loop {
        let left =
            unclear.unanswered.map_or(Duration::ZERO, |at| patience.settled.saturating_sub(at.elapsed()));
        match look(client, assignment).await {
            Some(Seen::Ours) => return Outcome::Bound,
            Some(Seen::Over) => return Outcome::Not(BindError::Gone),
            Some(Seen::Waits) if left.is_zero() => return Outcome::Not(BindError::Again(REST)),
            Some(Seen::Waits) => tokio::time::sleep(wait.min(left)).await,
            None => tokio::time::sleep(FIRST_LAST_LOOK).await,
        }
        wait *= 2;
    }
}

/// Sends a bind until it is known what became of it, at most until then. The same bind again does no harm.
async fn repeat(
    client: &Client,
    assignment: &Assignment,
    unclear: &mut Unclear,
    until: Instant,
    longest: Duration,
) -> Option<Outcome> {
    let pod = &assignment.pod;
    let key = Key::new(&pod.namespace, &pod.name);
    let mut annotations =
        BTreeMap::from([(names::DEVICES, &*assignment.devices), (names::MAP_HASH, &assignment.map_hash)]);
    if let Some(shared) = &assignment.shared {
        annotations.insert(names::SHARED, shared);
    }
    let mut wait = FIRST_LOOK;
    loop {
        let sent = binding::bind(client, &key, &pod.uid, &assignment.node, &annotations).await;
        let Err(error) = sent else { return Some(Outcome::Bound) };
        let status = error::status_of(&error);
        unclear.why = error::chain(&error);
        let refused = match status {
            Some(404) => Outcome::Not(BindError::Gone),
            Some(409) => Outcome::Not(BindError::Again(Duration::ZERO)),
            Some(429) => Outcome::Not(BindError::Again(error::retry_after(&error).unwrap_or(REST))),
            Some(400..=499) => Outcome::Rejected(BindError::Again(REJECTED_REST), unclear.why.clone()),
            _ => {
                unclear.unanswered = Some(Instant::now());
                Outcome::Not(BindError::Again(REST))
            }
        };
        // What the server says in so many words (500) it says to this bind, and not to all.
        unclear.overload |= matches!(status, None | Some(429 | 501..));
        // An earlier try that got no answer may still be carried out, whatever the server said to this one.
        if unclear.unanswered.is_none() && status != Some(409) {
            return Some(refused);
        }
        tracing::debug!(pod = %key, error = unclear.why, "a bind did not succeed; looking at the pod");
        match look(client, assignment).await {
            Some(Seen::Ours) => return Some(Outcome::Bound),
            Some(Seen::Over) => return Some(Outcome::Not(BindError::Gone)),
            Some(Seen::Waits) if unclear.unanswered.is_none() => return Some(refused),
            Some(Seen::Waits) | None => {}
        }
        if Instant::now() + wait > until {
            return None;
        }
        tokio::time::sleep(wait).await;
        wait = (wait * 2).min(longest);
    }
}

/// What a look at the pod of a bind shows.
enum Seen {
    /// It is bound as we wanted.
    Ours,
    /// It is gone, being deleted, or somebody else bound it: it will never be bound by us.
    Over,
    /// It is there and not bound.
    Waits,
}

/// Reads the pod. None: the server did not let us.
async fn look(client: &Client, assignment: &Assignment) -> Option<Seen> {
    let key = Key::new(&assignment.pod.namespace, &assignment.pod.name);
    match objects::get::<PodView>(client, &key).await {
        Ok(Some(view)) => Some(seen(&view.facts, assignment)),
        Ok(None) => Some(Seen::Over),
        Err(error) => {
            tracing::debug!(pod = %key, error = %error::chain(&error), "the pod could not be read");
            None
        }
    }
}

fn seen(pod: &Pod, assignment: &Assignment) -> Seen {
    // What another actor bound, to this node or another, was not given our devices. One that has ended does not show them.
    let given = pod.phase == Phase::Ended || pod.devices.as_deref() == Some(&*assignment.devices);
    match &pod.node {
        _ if pod.uid != assignment.pod.uid => Seen::Over,
        Some(node) if *node == assignment.node && given => Seen::Ours,
        Some(_) => Seen::Over,
        None if pod.terminating || pod.ask.is_none() => Seen::Over,
        None => Seen::Waits,
    }
}
