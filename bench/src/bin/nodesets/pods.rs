//! When pods were made, became ready, and left.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use engine::view::PodView;
use futures::StreamExt as _;
use kube::api::Api;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Client, ResourceExt as _};
use parking_lot::Mutex;
use tokio::task::JoinHandle;

/// The moments at which the first, second, third... pod was seen in a state.
#[derive(Default)]
struct Moments {
    known: HashSet<String>,
    at: Vec<Instant>,
}

impl Moments {
    fn note(&mut self, uid: &str) {
        if self.known.insert(uid.to_owned()) {
            self.at.push(Instant::now());
        }
    }
}

#[derive(Default)]
struct Seen {
    made: Moments,
    ready: Moments,
    leaving: Moments,
}

/// What can be waited for.
#[derive(Clone, Copy, Debug)]
pub enum Stage {
    Made,
    Ready,
    /// Marked for deletion, or gone.
    Leaving,
}

impl Seen {
    fn of(&self, stage: Stage) -> &Moments {
        match stage {
            Stage::Made => &self.made,
            Stage::Ready => &self.ready,
            Stage::Leaving => &self.leaving,
        }
    }
}

/// Follows the pods of a namespace. The same watch looks at what is measured and at what it is compared with.
pub struct Pods {
    seen: Arc<Mutex<Seen>>,
    task: JoinHandle<()>,
}

impl Drop for Pods {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Pods {
    pub fn follow(client: Client, namespace: &str) -> Self {
        let seen: Arc<Mutex<Seen>> = Arc::default();
        let events = watcher(Api::<PodView>::namespaced(client, namespace), watcher::Config::default());
        let noted = Arc::clone(&seen);
        let task = tokio::spawn(async move {
            let mut events = std::pin::pin!(events);
            while let Some(event) = events.next().await {
                match event {
                    Ok(Event::Apply(pod) | Event::InitApply(pod)) => note(&mut noted.lock(), &pod, false),
                    Ok(Event::Delete(pod)) => note(&mut noted.lock(), &pod, true),
                    Ok(Event::Init | Event::InitDone) => {}
                    Err(error) => eprintln!("the watch of pods: {error}"),
                }
            }
        });
        Self { seen, task }
    }

    /// How many have come so far.
    pub fn count(&self, stage: Stage) -> usize {
        self.seen.lock().of(stage).at.len()
    }

    /// The moment when so many had come so far.
    pub async fn until(&self, stage: Stage, count: usize, patience: Duration) -> Result<Instant> {
        let begun = Instant::now();
        loop {
            if let Some(at) =
                count.checked_sub(1).and_then(|last| self.seen.lock().of(stage).at.get(last).copied())
            {
                return Ok(at);
            }
            if begun.elapsed() > patience {
                bail!("{} of {count} pods are {stage:?} after {} s", self.count(stage), patience.as_secs());
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

fn note(seen: &mut Seen, pod: &PodView, gone: bool) {
    let uid = pod.uid().unwrap_or_default();
    seen.made.note(&uid);
    if pod.condition("Ready").is_some_and(|condition| &*condition.status == "True") {
        seen.ready.note(&uid);
    }
    if gone || pod.is_terminating() {
        seen.leaving.note(&uid);
    }
}
