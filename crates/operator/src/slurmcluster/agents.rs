//! What the agents in a cluster's pods told, and whom to ask again. Agents are asked only while something waits.

use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use engine::Key;
use engine::view::PodView;
use futures::future::join_all;
use kube::ResourceExt as _;
use parking_lot::Mutex;
use slurm::agent::{AgentState, ConfigState};

use crate::agent_client::{self, AgentError};

/// What is kept of the agents of one cluster.
#[derive(Debug, Default)]
struct Known {
    /// What slurmctld runs with, by uid of its pod, restarts of its container, and hash of the set: nobody is asked again.
    config: Option<(String, i32, String, Verdict)>,
    /// How often in a row an agent did not answer.
    misses: u32,
}

/// The longest time between two looks at an agent that does not answer.
const LONGEST_PATIENCE: Duration = Duration::from_secs(60);

/// What slurmctld made of a set of configuration files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing yet: it runs with another one.
    Awaited,
    /// It runs with it.
    InUse,
    /// It refused it, in these words, and runs with the one before.
    Refused(String),
}

/// Remembers what agents told. Shared by all reconciles.
#[derive(Debug, Default)]
pub struct Agents {
    clusters: Mutex<HashMap<Key, Known>>,
    /// Programs by image.
    programs: Mutex<HashMap<String, BTreeSet<String>>>,
}

impl Agents {
    /// The Slurm programs in an image, if an agent in it was asked before.
    pub fn programs(&self, image: &str) -> Option<BTreeSet<String>> {
        self.programs.lock().get(image).cloned()
    }

    /// Notes which programs an image holds.
    pub fn note_programs(&self, image: &str, state: &AgentState) {
        // An agent that has not looked yet names none.
        if !state.programs.is_empty() {
            self.programs.lock().insert(image.into(), state.programs.iter().cloned().collect());
        }
    }

    /// What slurmctld in this pod made of the set with this hash, if it is known.
    pub fn verdict(&self, cluster: &Key, pod: &PodView, hash: &str) -> Option<Verdict> {
        let clusters = self.clusters.lock();
        let (uid, restarts, known, verdict) = clusters.get(cluster)?.config.as_ref()?;
        let same = Some(uid) == pod.metadata.uid.as_ref() && *restarts == restarts_of(pod) && known == hash;
        same.then(|| verdict.clone())
    }

    /// Notes what slurmctld says of the set with this hash.
    pub fn note_config(&self, cluster: &Key, pod: &PodView, hash: &str, config: &ConfigState) -> Verdict {
        let verdict = verdict(config, hash);
        if verdict != Verdict::Awaited {
            let uid = pod.metadata.uid.clone().unwrap_or_default();
            let known = Some((uid, restarts_of(pod), hash.to_string(), verdict.clone()));
            self.clusters.lock().entry(cluster.clone()).or_default().config = known;
        }
        verdict
    }

    /// Notes that an agent answered.
    pub fn heard(&self, cluster: &Key) {
        if let Some(known) = self.clusters.lock().get_mut(cluster) {
            known.misses = 0;
        }
    }

    /// Notes that an agent did not answer.
    pub fn missed(&self, cluster: &Key) {
        let mut clusters = self.clusters.lock();
        let known = clusters.entry(cluster.clone()).or_default();
        known.misses = known.misses.saturating_add(1);
    }

    /// How long to wait before the next look: longer and longer if nobody answers, because nobody may ever do.
    pub fn patience(&self, cluster: &Key, first: Duration) -> Duration {
        let misses = self.clusters.lock().get(cluster).map_or(0, |known| known.misses);
        first.saturating_mul(1 << (misses / 8).min(10)).min(LONGEST_PATIENCE)
    }

    /// Forgets a cluster that is gone.
    pub fn forget(&self, cluster: &Key) {
        self.clusters.lock().remove(cluster);
    }
}

fn restarts_of(pod: &PodView) -> i32 {
    pod.status.container_statuses.iter().map(|status| status.restart_count).sum()
}

fn verdict(config: &ConfigState, hash: &str) -> Verdict {
    if config.in_use == hash {
        return Verdict::InUse;
    }
    match &config.refused {
        Some(words) if config.seen == hash => Verdict::Refused(words.clone()),
        _ => Verdict::Awaited,
    }
}

/// Asks the agents of these pods, all at once. A pod without an address is not asked.
pub async fn ask(pods: &[Arc<PodView>]) -> HashMap<String, Result<AgentState, AgentError>> {
    let asked = pods.iter().filter_map(|pod| {
        let address: IpAddr = pod.status.pod_ip.as_deref()?.parse().ok()?;
        Some(async move { (pod.name_any(), agent_client::state(address).await) })
    });
    join_all(asked).await.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(uid: &str, restarts: i32) -> PodView {
        serde_json::from_value(json!({
            "metadata": { "uid": uid },
            "status": { "containerStatuses": [{ "name": "slurmctld", "restartCount": restarts }] },
        }))
        .unwrap()
    }

    fn config(in_use: &str, seen: &str, refused: Option<&str>) -> ConfigState {
        ConfigState { in_use: in_use.into(), seen: seen.into(), refused: refused.map(String::from) }
    }

    #[test]
    fn a_set_is_decided_on_when_slurmctld_uses_or_refuses_it() {
        assert_eq!(verdict(&config("new", "new", None), "new"), Verdict::InUse);
        let refused = config("old", "new", Some("bad line"));
        assert_eq!(verdict(&refused, "new"), Verdict::Refused("bad line".into()));
        let (awaited, other) = (config("old", "old", None), config("older", "old", Some("bad")));
        assert_eq!(verdict(&awaited, "new"), Verdict::Awaited, "it has not seen it yet");
        assert_eq!(verdict(&other, "new"), Verdict::Awaited, "that was another one");
    }

    #[test]
    fn an_agent_that_never_answers_is_asked_less_and_less() {
        let (agents, key, first) = (Agents::default(), Key::new("ns", "c"), Duration::from_secs(2));
        (0..7).for_each(|_| agents.missed(&key));
        assert_eq!(agents.patience(&key, first), first, "a pod takes a while to start");
        (0..1000).for_each(|_| agents.missed(&key));
        assert_eq!(agents.patience(&key, first), LONGEST_PATIENCE);
        agents.heard(&key);
        assert_eq!(agents.patience(&key, first), first);
    }

    #[test]
    fn nobody_is_asked_twice_unless_slurmctld_started_again() {
        let (agents, key) = (Agents::default(), Key::new("ns", "c"));
        agents.note_config(&key, &pod("a", 0), "h", &config("g", "g", None));
        assert_eq!(agents.verdict(&key, &pod("a", 0), "h"), None);
        agents.note_config(&key, &pod("a", 0), "h", &config("h", "h", None));
        assert_eq!(agents.verdict(&key, &pod("a", 0), "h"), Some(Verdict::InUse));
        assert_eq!(agents.verdict(&key, &pod("a", 1), "h"), None);
        assert_eq!(agents.verdict(&key, &pod("b", 0), "h"), None);
        assert_eq!(agents.verdict(&key, &pod("a", 0), "other"), None);
    }
}
