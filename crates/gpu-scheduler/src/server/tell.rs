//! Tells users: events in kube-scheduler's shape, and the condition `PodScheduled`. Best effort, and never in the way of binds.

use std::collections::{BTreeMap, HashMap};
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use engine::client::Client;
use engine::{Key, error, objects};
use futures::{StreamExt as _, stream};
use jiff::Timestamp;
use k8s_openapi::api::events::v1::Event;
use kube::Resource as _;
use parking_lot::Mutex;
use serde_json::json;
use tokio::sync::mpsc;

use super::caches::Caches;
use super::metrics::Metrics;
use crate::facts::{Pod, Told, Uid};
use crate::view::PodView;

/// Events and conditions that wait to be sent; more are dropped.
const BACKLOG: usize = 20_000;
/// Events under way: as many as binds, so that they keep up with them.
const EVENTS_AT_ONCE: usize = 64;
const CONDITIONS_AT_ONCE: usize = 16;
/// A condition is written to the pod as we know it. Where the pod has changed since, the watch soon tells how.
const TRIES: u32 = 6;
const FIRST_WAIT: Duration = Duration::from_millis(50);

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
    conditions: mpsc::Sender<Arc<Pod>>,
    /// What the conditions of pods are to say that do not say it yet.
    unsaid: Unsaid,
    metrics: Metrics,
}

type Unsaid = Arc<Mutex<HashMap<Uid, Told>>>;

impl Teller {
    /// Starts sending. Pods whose condition could not be written come out of `untold`. Without `events` there are none.
    pub(super) fn start(
        client: &Client,
        caches: &Arc<Caches>,
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
        let (conditions, waiting) = mpsc::channel::<Arc<Pod>>(BACKLOG);
        let unsaid = Unsaid::default();
        let (client, caches, to_say) = (client.clone(), Arc::clone(caches), Arc::clone(&unsaid));
        tokio::spawn(drain(waiting, CONDITIONS_AT_ONCE, move |pod| {
            let (client, caches) = (client.clone(), Arc::clone(&caches));
            let (to_say, untold) = (Arc::clone(&to_say), untold.clone());
            async move {
                if !say(&client, &caches, &to_say, &pod).await {
                    // Nobody to tell at the end of the process.
                    let _ = untold.send(pod.uid.clone());
                }
            }
        }));
        Self { events: sender, conditions, unsaid, metrics: metrics.clone() }
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

    /// A pod waits: event and condition. False if the condition was dropped.
    pub(super) fn waits(
        &self,
        pod: &Arc<Pod>,
        action: &'static str,
        reason: &'static str,
        message: &str,
    ) -> bool {
        self.event(pod, true, "FailedScheduling", action, message.into());
        let told = Told { reason: reason.into(), message: message.into() };
        // One whose turn has not come says the newest only.
        if self.unsaid.lock().insert(pod.uid.clone(), told).is_some() {
            return true;
        }
        let taken = self.conditions.try_send(Arc::clone(pod)).is_ok();
        if !taken {
            self.unsaid.lock().remove(&pod.uid);
        }
        taken
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

/// Writes what a pod's condition is to say. Returns whether it is said, or nobody is left to read it.
async fn say(client: &Client, caches: &Caches, unsaid: &Unsaid, pod: &Pod) -> bool {
    let mut wait = FIRST_WAIT;
    for _ in 0..TRIES {
        let Some(told) = unsaid.lock().get(&pod.uid).cloned() else { return true };
        match write_condition(client, caches, pod, &told).await {
            Written::Said => {
                let mut unsaid = unsaid.lock();
                if unsaid.get(&pod.uid) == Some(&told) {
                    unsaid.remove(&pod.uid);
                    return true;
                }
            }
            Written::Changed => {
                tokio::time::sleep(wait).await;
                wait *= 2;
            }
            Written::Failed => break,
        }
    }
    unsaid.lock().remove(&pod.uid);
    false
}

enum Written {
    /// It is written, or the pod does not wait any more.
    Said,
    /// The pod is not as we know it.
    Changed,
    Failed,
}

/// Writes a condition to the pod in the version that we know, and only while it waits: a pod that was bound since must not be
/// told that it is not.
async fn write_condition(client: &Client, caches: &Caches, pod: &Pod, told: &Told) -> Written {
    let key = Key::new(&pod.namespace, &pod.name);
    let Some(known) = caches.pods.get(&key) else { return Written::Said };
    if known.facts.uid != pod.uid || known.facts.ask.is_none() {
        return Written::Said;
    }
    let mut condition = json!({
        "type": "PodScheduled",
        "status": "False",
        "reason": told.reason,
        "message": told.message,
        "lastProbeTime": null,
    });
    // A condition that was False stays so since then.
    if known.facts.told.is_none() {
        condition["lastTransitionTime"] = Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string().into();
    }
    let patch = json!({
        "metadata": { "uid": &*pod.uid, "resourceVersion": known.meta().resource_version },
        "status": { "conditions": [condition] },
    });
    match objects::patch_status::<PodView>(client, &key, &patch).await {
        Ok(_) => Written::Said,
        Err(error) if error::status_of(&error) == Some(409) => Written::Changed,
        Err(error) => {
            tracing::debug!(pod = %key, error = %error::chain(&error), "a condition could not be written");
            Written::Failed
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
