//! How Slurm is asked about a worker.
//!
//! The leader has a link to every Slurm, made by its controllers. Another replica makes a link when it is first asked about a
//! worker of that cluster, and lets it go when nobody has asked for a while. So a replica that stands by polls nobody, and
//! when hundreds of pods of one cluster are to be deleted, their questions share one look at Slurm.

use std::sync::Arc;
use std::time::Duration;

use api::nebius::SlurmCluster;
use api::slinky;
use engine::Key;
use engine::error::chain;
use engine::objects::get;
use engine::view::{Guarded, MetaView};
use k8s_openapi::api::core::v1::Secret as SecretObject;
use nodeset::Api;
use render::{GeneratedSecret, Names, validate};
use slurm::Secret;
use slurm_client::{Server, Snapshot};
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::Guards;
use super::verdict::{Word, of_slurm};
use super::worker::Worker;
use crate::slinky_cluster::{TOKEN_KEY, expected_name};
use crate::slurm_links::{Credential, Link, LinkKey};

/// An answer of Slurm that is not older is as good as a new one: questions about many pods at once share it. To that comes
/// the time that the answer took, twice: whoever asks a slow Slurm again finds what the first question brought.
const FRESH: Duration = Duration::from_secs(1);
/// A look that took longer gives no more time than this.
const SLOWEST: Duration = Duration::from_secs(5);
/// How long a look at Slurm may take.
const LOOK: Duration = Duration::from_millis(1200);
/// How long a look may take by a link that failed before. There must be time left for the agent.
const LOOK_AGAIN: Duration = Duration::from_millis(600);
/// A link that nobody asked by for so long ends.
const IDLE: Duration = Duration::from_secs(300);
/// How often that is looked at.
const ROUND: Duration = Duration::from_secs(60);

impl Guards {
    /// The cluster of a worker, or why nobody knows it.
    pub(super) async fn cluster_of(&self, worker: &Worker) -> Result<LinkKey, String> {
        match worker.api {
            Api::Nebius => {
                let cluster = worker.cluster.clone();
                cluster.map(LinkKey::nebius).ok_or_else(|| "the pod does not name its cluster".into())
            }
            Api::Slinky => {
                let set =
                    worker.set.as_ref().ok_or("no NodeSet controls the pod, so its cluster is not known")?;
                let found: Guarded<slinky::NodeSet> = self.read("NodeSet", set).await?;
                let found = found.get().map_err(|invalid| unreadable("NodeSet", set, &invalid.error))?;
                Ok(LinkKey::slinky(Key::new(&set.namespace, &found.spec.cluster_name)))
            }
        }
    }

    /// What Slurm says of a node.
    pub(super) async fn ask_slurm(&self, cluster: &LinkKey, node: &str) -> Word {
        let (link, snapshot) = match self.look(cluster).await {
            Ok(seen) => seen,
            Err(why) => return Word::Unknown(why),
        };
        of_slurm(&snapshot, link.identity_of(&snapshot), node)
    }

    /// What Slurm knows now.
    async fn look(&self, cluster: &LinkKey) -> Result<(Arc<Link>, Arc<Snapshot>), String> {
        let known = self.links.get(cluster);
        let limit = if known.is_some() { LOOK_AGAIN } else { LOOK };
        if let Some(link) = known {
            self.used(cluster, false);
            if let Some(known) = link.snapshot().filter(|known| is_fresh(known)) {
                return Ok((link, known));
            }
            if link.problem().is_none() {
                match link.refresh(LOOK).await {
                    Ok(snapshot) => return Ok((link, snapshot)),
                    // It is slow: the answer is there when somebody asks again.
                    Err(stale) if link.problem().is_none() => return Err(stale.to_string()),
                    Err(_) => {}
                }
            }
        }
        // There is none, or it does not work, maybe because key or address have changed.
        let link = match cluster.api {
            Api::Nebius => self.connect(&cluster.cluster).await?,
            Api::Slinky => self.connect_slinky(&cluster.cluster).await?,
        };
        self.used(cluster, true);
        match link.refresh(limit).await {
            Ok(snapshot) => Ok((link, snapshot)),
            Err(stale) => Err(stale.to_string()),
        }
    }

    /// Makes the link to a SlurmCluster.
    async fn connect(&self, key: &Key) -> Result<Arc<Link>, String> {
        let cluster: Guarded<SlurmCluster> = self.read("SlurmCluster", key).await?;
        let names = Names::new(&*key.name, &*key.namespace, &self.defaults.cluster_domain);
        let field = GeneratedSecret::Jwt.key().unwrap_or_default();
        let jwt_key = self.secret(&Key::new(&key.namespace, &names.rest_jwt_key()), field).await?;
        // Nothing is waited for while the validated cluster is held: it is large.
        let cluster = cluster.get().map_err(|invalid| unreadable("SlurmCluster", key, &invalid.error))?;
        let cluster = validate(cluster, &self.defaults).map_err(|problems| {
            let problems: Vec<String> = problems.iter().map(ToString::to_string).collect();
            unreadable("SlurmCluster", key, &problems.join("; "))
        })?;
        self.links.of_cluster(&cluster, &jwt_key).map_err(|error| error.to_string())
    }

    /// Makes the link to a Cluster of Slinky.
    async fn connect_slinky(&self, key: &Key) -> Result<Arc<Link>, String> {
        let link = LinkKey::slinky(key.clone());
        let cluster: Guarded<slinky::Cluster> = self.read("Cluster", key).await?;
        let cluster = cluster.get().map_err(|invalid| unreadable("Cluster", key, &invalid.error))?;
        let secret = Key::new(&key.namespace, &cluster.spec.token.secret_ref);
        let token = self.secret(&secret, TOKEN_KEY).await?;
        let server: Server = cluster.spec.server.parse().map_err(|error| format!("spec.server: {error}"))?;
        self.links
            .connect(&link, server, Credential::Token(token), expected_name(cluster))
            .map_err(|error| error.to_string())
    }

    async fn secret(&self, key: &Key, field: &str) -> Result<Secret, String> {
        let secret: SecretObject = self.read("Secret", key).await?;
        let value = secret.data.and_then(|mut data| data.remove(field));
        let value = value.ok_or_else(|| format!("Secret {} has no key {field}", key.name))?;
        Ok(Secret::from(value.0))
    }

    async fn read<K>(&self, kind: &str, key: &Key) -> Result<K, String>
    where
        K: kube::Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>
            + Clone
            + std::fmt::Debug
            + serde::de::DeserializeOwned,
    {
        match get(&self.client, key).await {
            Ok(Some(object)) => Ok(object),
            Ok(None) => Err(format!("there is no {kind} {}", key.name)),
            Err(error) => Err(unreadable(kind, key, &chain(&error))),
        }
    }

    /// Notes that a link was used; of those that controllers made nothing is noted.
    fn used(&self, key: &LinkKey, made_here: bool) {
        let mut made = self.made.lock();
        if made_here || made.contains_key(key) {
            made.insert(key.clone(), Instant::now());
        }
    }

    /// Lets links go that were made here and that nobody asks by any more, until `stop`.
    pub async fn run(&self, elected: watch::Receiver<bool>, stop: CancellationToken) {
        loop {
            if stop.run_until_cancelled(tokio::time::sleep(ROUND)).await.is_none() {
                return;
            }
            let is_leader = *elected.borrow();
            self.end_idle(Instant::now(), is_leader).await;
        }
    }

    async fn end_idle(&self, now: Instant, is_leader: bool) {
        let idle: Vec<LinkKey> = {
            let made = self.made.lock();
            let idle = made.iter().filter(|(_, used)| now.saturating_duration_since(**used) >= IDLE);
            idle.map(|(key, _)| key.clone()).collect()
        };
        for key in idle {
            // The controllers of a leader have taken it over, unless the cluster went before they looked.
            if !is_leader || self.is_gone(&key).await {
                self.links.forget(&key);
            }
            self.made.lock().remove(&key);
        }
    }

    async fn is_gone(&self, key: &LinkKey) -> bool {
        let cluster = &key.cluster;
        match key.api {
            Api::Nebius => matches!(get::<MetaView<SlurmCluster>>(&self.client, cluster).await, Ok(None)),
            Api::Slinky => matches!(get::<MetaView<slinky::Cluster>>(&self.client, cluster).await, Ok(None)),
        }
    }
}

fn is_fresh(snapshot: &Snapshot) -> bool {
    let took = snapshot.jobs_read().answered.since(snapshot.nodes_read().asked);
    snapshot.age() <= FRESH + 2 * took.min(SLOWEST)
}

fn unreadable(kind: &str, key: &Key, why: &str) -> String {
    format!("{kind} {} cannot be read: {why}", key.name)
}

#[cfg(test)]
mod tests {
    use render::Defaults;

    use super::*;
    use crate::slurm_links::SlurmLinks;

    /// An API server and a Slurm that nobody reaches.
    fn guards() -> Arc<Guards> {
        let config = kube::Config::new("http://127.0.0.1:1".parse().unwrap());
        let client = engine::client::connect(config, engine::client::Options::default()).unwrap();
        Guards::new(client, SlurmLinks::default(), Defaults::default())
    }

    fn connect(guards: &Guards, name: &str) -> LinkKey {
        let key = LinkKey::slinky(Key::new("n", name));
        let token = Credential::Token("token".to_string().into());
        guards.links.connect(&key, "http://127.0.0.1:1".parse().unwrap(), token, None).unwrap();
        key
    }

    #[tokio::test]
    async fn a_replica_that_stands_by_lets_links_go_that_nobody_asks_by() {
        let guards = guards();
        let (asked, others) = (connect(&guards, "asked"), connect(&guards, "others"));
        guards.used(&asked, true);
        guards.used(&others, false);
        guards.end_idle(Instant::now() + IDLE / 2, false).await;
        assert!(guards.links.get(&asked).is_some(), "it may be asked again");
        guards.end_idle(Instant::now() + IDLE, false).await;
        assert!(guards.links.get(&asked).is_none());
        assert!(guards.links.get(&others).is_some(), "a controller made it");
    }

    #[tokio::test]
    async fn a_leader_keeps_links_that_its_controllers_use_now() {
        let guards = guards();
        let asked = connect(&guards, "asked");
        guards.used(&asked, true);
        guards.end_idle(Instant::now() + IDLE, true).await;
        assert!(guards.links.get(&asked).is_some(), "whether the cluster is gone cannot be told");
        assert!(guards.made.lock().is_empty());
    }
}
