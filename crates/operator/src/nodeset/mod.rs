//! The controller of NodeSets of `slurm.nebius.ai`: a front end of [`crate::workers`].

mod home;
mod keys;
mod reconcile;
mod set;
mod status;
mod watch;

use std::sync::Arc;

use engine::controller::{Controller, Options};
use engine::view::PodView;
use kube::ResourceExt as _;
use tokio_util::sync::CancellationToken;

pub use keys::{FINALIZER, POD_INDEX, POD_NAME, PROTECT, REVISION};
pub use status::MISSING;

use crate::context::Context;
use crate::workers::Workers;

/// The name of the controller.
pub const NAME: &str = "nodeset";

/// Runs the controller until `stop`.
pub async fn run(context: Arc<Context>, options: Options, stop: CancellationToken) {
    let workers = Arc::new(Workers::new(Arc::clone(&context), NAME));
    let controller = Controller::new(options);
    watch::watch(&controller, &context);
    controller
        .run(stop, move |key| {
            let (context, workers) = (Arc::clone(&context), Arc::clone(&workers));
            async move { reconcile::reconcile(&context, &workers, key).await }
        })
        .await;
}

/// The number at the end of a worker's name.
pub fn ordinal(pod: &str) -> Option<u32> {
    pod.rsplit_once('-')?.1.parse().ok()
}

/// The Slurm node that a worker's pod is: its host name.
pub fn slurm_node(pod: &PodView) -> String {
    pod.spec.hostname.as_deref().map_or_else(|| pod.name_any(), String::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ordinal_is_the_number_at_the_end() {
        assert_eq!(ordinal("c-worker-12"), Some(12));
        assert_eq!(ordinal("gpu-007"), Some(7));
        assert_eq!(ordinal("gpu-x"), None);
        assert_eq!(ordinal("gpu"), None);
    }
}
