//! How the Slurm of a set can be asked.

use std::collections::HashMap;
use std::sync::Arc;

use api::slinky::NodeSet;
use engine::Key;
use parking_lot::Mutex;

use super::spec;
use crate::context::Context;
use crate::slurm_links::{LONGEST_BELIEVED, Link, LinkKey};
use crate::workers::Connection;

/// The link that each set used last.
///
/// When a Namespace is deleted or a chart is uninstalled, the Cluster goes at once, and the set waits for its jobs. Slurm may
/// still be there then: the set keeps the link for itself, and asks as long as there are answers.
#[derive(Debug, Default)]
pub struct HeldLinks(Mutex<HashMap<Key, Arc<Link>>>);

impl HeldLinks {
    /// How the Slurm of a set can be asked now.
    pub fn connection(&self, context: &Context, set: &NodeSet) -> Connection {
        let (key, cluster) = (Key::of(set), spec::cluster(set));
        if context.caches.slinky_clusters.get(&cluster).is_none() {
            return match self.0.lock().get(&key) {
                // Nothing else is done without the Cluster: it is missing by mistake, perhaps.
                Some(link) if set.metadata.deletion_timestamp.is_some() && answers(link) => {
                    Connection::Link(Arc::clone(link))
                }
                _ => Connection::NoCluster,
            };
        }
        let link = LinkKey::slinky(cluster);
        match context.links.get(&link) {
            Some(link) => {
                self.0.lock().insert(key, Arc::clone(&link));
                Connection::Link(link)
            }
            None => Connection::Silent(context.links.why_not(&link).unwrap_or_else(|| {
                format!("waiting for the link to Slurm of Cluster {}; its conditions say more", link.cluster.name)
            })),
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
