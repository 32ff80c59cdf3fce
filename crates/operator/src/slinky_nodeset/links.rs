//! How the Slurm of a set can be asked.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use api::slinky::NodeSet;
use engine::Key;
use engine::controller::Wake;
use parking_lot::Mutex;

use super::spec;
use crate::context::Context;
use crate::slurm_links::{LONGEST_BELIEVED, Link, LinkKey};
use crate::workers::Connection;

/// How long the link of a Cluster that is gone is kept for a set that is not being deleted: whoever deletes both may delete
/// the Cluster first.
const KEPT: Duration = Duration::from_secs(600);

/// The link that each set used last.
///
/// When a Namespace is deleted or a chart is uninstalled, the Cluster goes at once, and the set waits for its jobs. Slurm may
/// still be there then: the set keeps the link for itself, and asks as long as there are answers.
#[derive(Debug, Default)]
pub struct HeldLinks(Mutex<HashMap<Key, Held>>);

#[derive(Debug)]
struct Held {
    link: Arc<Link>,
    /// Since when its Cluster is gone, for a set that is not being deleted.
    orphaned: Option<Instant>,
}

impl HeldLinks {
    /// How the Slurm of a set can be asked now.
    pub fn connection(&self, context: &Context, set: &NodeSet) -> Connection {
        let (key, cluster) = (Key::of(set), spec::cluster(set));
        if context.caches.slinky_clusters.get(&cluster).is_none() {
            return self.without_cluster(&key, set.metadata.deletion_timestamp.is_some());
        }
        let link = LinkKey::slinky(cluster);
        match context.links.get(&link) {
            Some(link) => {
                self.0.lock().insert(key, Held { link: Arc::clone(&link), orphaned: None });
                Connection::Link(link)
            }
            None => Connection::Silent(context.links.why_not(&link).unwrap_or_else(|| {
                format!(
                    "waiting for the link to Slurm of Cluster {}; its conditions say more",
                    link.cluster.name
                )
            })),
        }
    }

    fn without_cluster(&self, key: &Key, ends: bool) -> Connection {
        let mut all = self.0.lock();
        let Some(held) = all.get_mut(key) else { return Connection::NoCluster };
        if ends {
            held.orphaned = None;
            return if answers(&held.link) {
                Connection::Link(Arc::clone(&held.link))
            } else {
                Connection::NoCluster
            };
        }
        // Nothing is done without the Cluster: it is missing by mistake, perhaps.
        let since = *held.orphaned.get_or_insert_with(Instant::now);
        if since.elapsed() >= KEPT {
            all.remove(key);
        }
        Connection::NoCluster
    }

    /// When to look again at the latest: so that a link of a Cluster that is gone ends.
    pub fn sooner(&self, key: &Key, wake: Wake) -> Wake {
        let left = self
            .0
            .lock()
            .get(key)
            .and_then(|held| held.orphaned)
            .map(|since| KEPT.saturating_sub(since.elapsed()));
        match (wake, left) {
            (wake, None) => wake,
            (Wake::OnChange, Some(left)) => Wake::After(left),
            (Wake::After(time), Some(left)) => Wake::After(time.min(left)),
        }
    }

    /// The set is gone.
    pub fn forget(&self, set: &Key) {
        self.0.lock().remove(set);
    }
}

/// Whether Slurm still answers. A link to one that is gone would hold the set for ever.
fn answers(link: &Link) -> bool {
    link.snapshot().is_some_and(|snapshot| snapshot.age() < LONGEST_BELIEVED)
}
