//! Tells users: events in kube-scheduler's shape, and the condition `PodScheduled`. Best effort, and never in the way of binds.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;

use engine::client::Client;
use engine::{Key, error, objects};
use futures::{StreamExt as _, stream};
use jiff::Timestamp;
use k8s_openapi::api::events::v1::Event;
use serde_json::json;
use tokio::sync::mpsc;

use super::metrics::Metrics;
use crate::facts::{Pod, Uid};
use crate::view::PodView;

/// Events and conditions that wait to be sent; more are dropped.
const BACKLOG: usize = 20_000;
/// Events under way: as many as binds, so that they keep up with them.
const EVENTS_AT_ONCE: usize = 64;
const CONDITIONS_AT_ONCE: usize = 16;

/// What users are told of a pod.
#[derive(Debug)]
struct Note {
    pod: Arc<Pod>,
    warning: bool,
    reason: &'static str,
    action: &'static str,
    text: String,
}

/// Takes what users are to be told, and sends it in the background.
#[derive(Debug)]
pub(super) struct Teller {
    events: Option<mpsc::Sender<Note>>,
    conditions: mpsc::Sender<(Arc<Pod>, String)>,
    metrics: Metrics,
}

impl Teller {
    /// Starts sending. Pods whose condition could not be written come out of `untold`. Without `events` there are none.
    pub(super) fn start(
        client: &Client,
        controller: &str,
        instance: &str,
        events: bool,
        metrics: &Metrics,
        untold: mpsc::UnboundedSender<Uid>,
    ) -> Self {
        let names: Arc<(String, String)> = Arc::new((controller.into(), instance.into()));
        let sender = events.then(|| {
            let (sender, notes) = mpsc::channel::<Note>(BACKLOG);
            let (client, metrics) = (client.clone(), metrics.clone());
            tokio::spawn(drain(notes, EVENTS_AT_ONCE, move |note| {
                let (client, names, metrics) = (client.clone(), Arc::clone(&names), metrics.clone());
                async move { send_event(&client, &names, &note, &metrics).await }
            }));
            sender
        });
        let (conditions, waiting) = mpsc::channel::<(Arc<Pod>, String)>(BACKLOG);
        let client = client.clone();
        tokio::spawn(drain(waiting, CONDITIONS_AT_ONCE, move |(pod, message)| {
            let (client, untold) = (client.clone(), untold.clone());
            async move {
                if !write_condition(&client, &pod, &message).await {
                    // Nobody to tell at the end of the process.
                    let _ = untold.send(pod.uid.clone());
                }
            }
        }));
        Self { events: sender, conditions, metrics: metrics.clone() }
    }

    /// A pod was bound.
    pub(super) fn bound(&self, pod: &Arc<Pod>, node: &str) {
        let text = format!("Successfully assigned {}/{} to {node}", pod.namespace, pod.name);
        self.event(pod, false, "Scheduled", "Binding", text);
    }

    /// A pod was bound, and something about it may surprise.
    pub(super) fn warn(&self, pod: &Arc<Pod>, text: String) {
        self.event(pod, true, "DevicePluginBesideMap", "Binding", text);
    }

    /// A pod cannot be placed: event and condition. False if the condition was dropped.
    pub(super) fn refused(&self, pod: &Arc<Pod>, message: &str) -> bool {
        self.event(pod, true, "FailedScheduling", "Scheduling", message.into());
        self.conditions.try_send((Arc::clone(pod), message.into())).is_ok()
    }

    /// The server does not let a pod be bound.
    pub(super) fn rejected(&self, pod: &Arc<Pod>, node: &str, why: &str) {
        let text = format!("binding to {node} was refused: {why}");
        self.event(pod, true, "FailedScheduling", "Binding", text);
    }

    fn event(&self, pod: &Arc<Pod>, warning: bool, reason: &'static str, action: &'static str, text: String) {
        let Some(events) = &self.events else { return };
        if events.try_send(Note { pod: Arc::clone(pod), warning, reason, action, text }).is_err() {
            self.metrics.event_dropped();
        }
    }
}

/// Sends what comes, so many at once, until the sender is gone.
async fn drain<T, F>(queue: mpsc::Receiver<T>, at_once: usize, send: impl Fn(T) -> F)
where
    F: Future<Output = ()>,
{
    let items = stream::unfold(queue, |mut queue| async move { Some((queue.recv().await?, queue)) });
    items.for_each_concurrent(at_once, send).await;
}

async fn send_event(client: &Client, names: &(String, String), note: &Note, metrics: &Metrics) {
    let now = Timestamp::now();
    let pod = &note.pod;
    let event = json!({
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {
            // As client-go names events: the object, and the time in hexadecimal.
            "name": format!("{}.{:x}", pod.name.get(..200).unwrap_or(&pod.name), now.as_nanosecond()),
            "namespace": pod.namespace,
        },
        "eventTime": now.strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string(),
        "type": if note.warning { "Warning" } else { "Normal" },
        "reason": note.reason,
        "action": note.action,
        "note": note.text,
        "reportingController": names.0,
        "reportingInstance": names.1,
        "regarding": {
            "apiVersion": "v1", "kind": "Pod", "namespace": pod.namespace, "name": pod.name, "uid": &*pod.uid,
        },
    });
    if let Err(error) = objects::post::<Event>(client, &pod.namespace, &event).await {
        metrics.event_dropped();
        tracing::debug!(error = %error::chain(&error), "an event could not be sent");
    }
}

/// Returns whether the condition is written, or nobody is left to read it.
async fn write_condition(client: &Client, pod: &Pod, message: &str) -> bool {
    let patch = json!({
        "metadata": { "uid": &*pod.uid },
        "status": { "conditions": [{
            "type": "PodScheduled",
            "status": "False",
            "reason": "Unschedulable",
            "message": message,
            "lastProbeTime": null,
            "lastTransitionTime": Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
        }] },
    });
    let key = Key::new(&pod.namespace, &pod.name);
    match objects::patch_status::<PodView>(client, &key, &patch).await {
        Ok(_) => true,
        // Another pod of that name.
        Err(error) if error::status_of(&error) == Some(409) => true,
        Err(error) => {
            tracing::debug!(pod = %key, error = %error::chain(&error), "a condition could not be written");
            false
        }
    }
}

/// Sets the annotation that asks for a volume of a claim on a node.
pub(super) async fn select_node(client: &Client, claim: &crate::view::ClaimView, node: &str) {
    let annotation = BTreeMap::from([(crate::names::SELECTED_NODE.to_string(), node.to_string())]);
    if let Err(error) = objects::annotate(client, claim, &annotation).await {
        tracing::warn!(error = %error::chain(&error), "a claim could not be told its node; the pod is tried again later");
    }
}
