//! The controller of Slinky's Clusters: keeps the link to the Slurm of each, and tells how it is.
//!
//! A Cluster makes no objects, and has no finalizer. Its link is kept while the object is there.

mod connect;
mod judge;
mod reconcile;
mod status;

use std::collections::HashMap;
use std::sync::Arc;

use engine::Key;
use engine::controller::{Controller, Options};
use nodeset::Api;
use parking_lot::Mutex;
use slurm_client::Changed;
use tokio_util::sync::CancellationToken;

pub use connect::{TOKEN_KEY, connect, expected_name};
pub use judge::{READY, Trouble};

use crate::caches::BY_SECRET;
use crate::context::Context;
use crate::slurm_links::Credential;

/// The name of the controller.
pub const NAME: &str = "slinky-cluster";

/// Annotation of a Cluster: how Slurm calls it. Without it the first answer decides.
pub const SLURM_NAME: &str = "slinky.slurm.net/slurm-cluster-name";

/// What the controller remembers between reconciles. All of it can be found out again.
#[derive(Default)]
struct Memory {
    /// What Slurm refused, after its Secret had been read once more.
    refused: Mutex<HashMap<Key, Credential>>,
}

/// Runs the controller until `stop`.
pub async fn run(context: Arc<Context>, options: Options, stop: CancellationToken) {
    let memory = Arc::new(Memory::default());
    let controller = Controller::new(options);
    watch(&controller, &context);
    controller
        .run(stop, move |key| {
            let (context, memory) = (Arc::clone(&context), Arc::clone(&memory));
            async move { reconcile::reconcile(&context, &memory, key).await }
        })
        .await;
}

/// Wakes Clusters when they, their Secrets or their links change.
fn watch(controller: &Controller, context: &Context) {
    let caches = &context.caches;
    controller.watch(&caches.slinky_clusters, |change| [change.key.clone()]);
    let clusters = caches.slinky_clusters.clone();
    controller.watch(&caches.secrets, move |change| {
        let of_it = clusters.by_index(BY_SECRET, &change.key.to_string());
        of_it.iter().map(|cluster| Key::of(&**cluster)).collect::<Vec<_>>()
    });
    let waker = controller.waker();
    context.links.subscribe(move |link, changed| {
        // Single nodes do not matter here.
        if link.api == Api::Slinky && *changed == Changed::Everything {
            waker.wake(&link.cluster);
        }
    });
}
