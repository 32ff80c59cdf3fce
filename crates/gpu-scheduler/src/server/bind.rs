//! Brings one bind to an end that is known: done, or surely not done.

use std::collections::BTreeMap;
use std::time::Duration;

use engine::client::Client;
use engine::{Key, binding, error, objects};
use tokio::time::Instant;

use crate::core::{Assignment, BindError};
use crate::names;
use crate::view::PodView;

/// Between looks at a pod whose bind may or may not have been done.
const FIRST_LOOK: Duration = Duration::from_millis(100);
const LONGEST_LOOK: Duration = Duration::from_secs(5);
/// How long a server that refuses for the moment is left alone, if it does not say.
const REST: Duration = Duration::from_secs(1);
/// How long a pod rests that the server does not want bound at all.
const REJECTED_REST: Duration = Duration::from_secs(10);

/// No call lives longer than this in the API server.
const SETTLED: Duration = Duration::from_secs(120);

/// What became of a bind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// The pod is bound. To which node the watch will tell.
    Bound,
    /// It is not, and will not be by what we sent.
    Not(BindError),
    /// It is not, and the server says that this cannot be.
    Rejected(BindError, String),
}

/// What became of a bind, and how the server took it.
#[derive(Clone, Debug)]
pub(super) struct Done {
    pub(super) outcome: Outcome,
    /// Whether the server asked for fewer calls or did not answer.
    pub(super) overload: bool,
}

/// Sends a bind until it is known what became of it. As long as this runs, the devices are the pod's: a call that got no
/// answer may still be carried out, and so nobody else may be given them.
pub(super) async fn bind(client: &Client, assignment: &Assignment) -> Done {
    let pod = &assignment.pod;
    let key = Key::new(&pod.namespace, &pod.name);
    let mut annotations =
        BTreeMap::from([(names::DEVICES, &*assignment.devices), (names::MAP_HASH, &assignment.map_hash)]);
    if let Some(shared) = &assignment.shared {
        annotations.insert(names::SHARED, shared);
    }
    let mut overload = false;
    let mut wait = FIRST_LOOK;
    let mut unanswered: Option<Instant> = None;
    loop {
        let sent = binding::bind(client, &key, &pod.uid, &assignment.node, &annotations).await;
        let error = match sent {
            Ok(()) => return Done { outcome: Outcome::Bound, overload },
            Err(error) => error,
        };
        let status = error::status_of(&error);
        let refused = match status {
            Some(404) => Outcome::Not(BindError::Gone),
            Some(409) => Outcome::Not(BindError::Again(Duration::ZERO)),
            Some(429) => Outcome::Not(BindError::Again(error::retry_after(&error).unwrap_or(REST))),
            Some(400..=499) => Outcome::Rejected(BindError::Again(REJECTED_REST), error::chain(&error)),
            _ => {
                unanswered = Some(Instant::now());
                Outcome::Not(BindError::Again(REST))
            }
        };
        overload |= matches!(status, None | Some(429 | 500..));
        // An earlier try that got no answer may still be carried out, whatever the server said to this one.
        let settled = unanswered.is_none_or(|at| at.elapsed() > SETTLED);
        if settled && status != Some(409) {
            return Done { outcome: refused, overload };
        }
        tracing::debug!(pod = %key, error = %error::chain(&error), "a bind did not succeed; looking at the pod");
        if let Some(outcome) = look(client, &key, &pod.uid).await {
            return Done { outcome, overload };
        }
        if settled {
            return Done { outcome: refused, overload };
        }
        // Not bound, and nobody knows whether it still will be: the same bind again is the one thing that does no harm.
        tokio::time::sleep(wait).await;
        wait = (wait * 2).min(LONGEST_LOOK);
    }
}

/// Reads the pod until the server answers. None: it is there and not bound.
async fn look(client: &Client, key: &Key, uid: &str) -> Option<Outcome> {
    let mut wait = FIRST_LOOK;
    loop {
        match objects::get::<PodView>(client, key).await {
            Ok(Some(view)) if *view.facts.uid == *uid => {
                let pod = &view.facts;
                return match () {
                    () if pod.node.is_some() => Some(Outcome::Bound),
                    // Neither of these is ever bound.
                    () if pod.terminating || pod.ask.is_none() => Some(Outcome::Not(BindError::Gone)),
                    () => None,
                };
            }
            Ok(_) => return Some(Outcome::Not(BindError::Gone)),
            Err(error) => {
                tracing::debug!(pod = %key, error = %error::chain(&error), "the pod could not be read; trying again");
            }
        }
        tokio::time::sleep(wait).await;
        wait = (wait * 2).min(LONGEST_LOOK);
    }
}
