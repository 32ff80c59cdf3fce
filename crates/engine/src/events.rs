//! Events for users: aggregated, best effort, and never in the way of a reconcile.

use std::collections::HashMap;

use k8s_openapi::api::core::v1::ObjectReference;
use kube::Client;
pub use kube::runtime::events::EventType;
use kube::runtime::events::{Event, Recorder, Reporter};
use tokio::sync::mpsc;

use crate::error::chain;

/// Events that wait to be sent; more are dropped.
const BACKLOG: usize = 256;
/// Notes that are remembered, so that they can be counted up.
const NOTES: usize = 256;

/// Takes events and sends them in the background. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Events {
    queue: mpsc::Sender<(Event, ObjectReference)>,
}

impl Events {
    /// Starts sending in the name of `controller`. Equal events are counted up instead of sent again.
    pub fn start(client: Client, controller: &str, instance: &str) -> Self {
        let (queue, mut waiting) = mpsc::channel::<(Event, ObjectReference)>(BACKLOG);
        let reporter = Reporter { controller: controller.into(), instance: Some(instance.into()) };
        tokio::spawn(async move {
            // kube's recorder takes events that differ only in their note for the same one, and counts up the first: users
            // would never see the second note. So each note has a recorder of its own.
            let mut recorders: HashMap<Option<String>, Recorder> = HashMap::new();
            while let Some((event, object)) = waiting.recv().await {
                if recorders.len() >= NOTES && !recorders.contains_key(&event.note) {
                    recorders.clear();
                }
                let recorder = recorders
                    .entry(event.note.clone())
                    .or_insert_with(|| Recorder::new(client.clone(), reporter.clone()));
                if let Err(error) = recorder.publish(&event, &object).await {
                    tracing::debug!(error = %chain(&error), "an event could not be sent");
                }
            }
        });
        Self { queue }
    }

    /// Tells users something about an object. `reason` is one CamelCase word, `action` what we did or tried.
    pub fn tell(&self, object: ObjectReference, type_: EventType, reason: &str, action: &str, note: &str) {
        let event = Event {
            type_,
            reason: reason.into(),
            note: Some(shorten(note)),
            action: action.into(),
            secondary: None,
        };
        // Full: the API server is away or slow. Events are the first thing to do without.
        if self.queue.try_send((event, object)).is_err() {
            tracing::debug!(reason, "an event was dropped");
        }
    }
}

/// The API server refuses notes of more than 1 kB.
fn shorten(note: &str) -> String {
    const LONGEST: usize = 1000;
    if note.len() <= LONGEST {
        return note.into();
    }
    let end = (0..=LONGEST).rev().find(|end| note.is_char_boundary(*end)).unwrap_or(0);
    format!("{}...", &note[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_notes_are_cut_between_characters() {
        let note = shorten(&"ü".repeat(600));
        assert!(note.len() <= 1003 && note.ends_with("ü..."), "{}", note.len());
        assert_eq!(shorten("short"), "short");
    }
}
