//! The controller of Slinky's NodeSets: a front end of [`crate::workers`].
//!
//! Pods are made from the user's template, and what is written on them is spelled as the original does, so that a set of the
//! original is taken over without a pod being touched. docs/slinky-nodeset.md says what differs.

mod claim;
mod end;
pub mod keys;
mod links;
mod pod;
mod reconcile;
mod revision;
mod selector;
mod set;
mod spec;
mod status;
mod strays;
mod wakes;

use std::sync::Arc;

use engine::controller::{Controller, Options};
use tokio_util::sync::CancellationToken;

use crate::context::Context;
use crate::workers::Workers;

/// The name of the controller.
pub const NAME: &str = "slinky-nodeset";

/// What the controller remembers between reconciles. All of it can be found out again, but for links of Clusters that are gone.
struct Memory {
    workers: Workers,
    strays: strays::Strays,
    links: links::HeldLinks,
    told: end::Told,
}

/// Runs the controller until `stop`.
pub async fn run(context: Arc<Context>, options: Options, stop: CancellationToken) {
    let memory = Arc::new(Memory {
        workers: Workers::new(Arc::clone(&context), NAME),
        strays: strays::Strays::default(),
        links: links::HeldLinks::default(),
        told: end::Told::default(),
    });
    let controller = Controller::new(options);
    wakes::watch(&controller, &context);
    controller
        .run(stop, move |key| {
            let (context, memory) = (Arc::clone(&context), Arc::clone(&memory));
            async move { reconcile::reconcile(&context, &memory, key).await }
        })
        .await;
}

#[cfg(test)]
mod tests {
    use api::slinky::NodeSet;
    use serde_json::{Value, json};

    /// A small set; `change` replaces fields of its spec.
    pub fn set(change: Value) -> NodeSet {
        let labels = json!({ "app": "slurmd" });
        let mut set = json!({
            "apiVersion": "slinky.slurm.net/v1alpha1",
            "kind": "NodeSet",
            "metadata": { "name": "w", "namespace": "ns", "uid": "set-uid" },
            "spec": {
                "clusterName": "slurm",
                "serviceName": "workers",
                "selector": { "matchLabels": labels },
                "template": {
                    "metadata": { "labels": labels },
                    "spec": { "containers": [{ "name": "slurmd", "image": "slurmd:1" }] },
                },
            },
        });
        for (key, value) in change.as_object().into_iter().flatten() {
            set["spec"][key] = value.clone();
        }
        serde_json::from_value(set).unwrap()
    }
}
