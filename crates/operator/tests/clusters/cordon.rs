//! Kubernetes nodes that are cordoned, and those that nobody told the operator of.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Result;
use api::nebius::NodeSet;
use engine::client::Verb;
use engine::testing::{Schedule, WatchFault};
use k8s_openapi::api::core::v1::Pod;
use rig::slurm::Version;
use serde_json::json;

use crate::kube_nodes::{CONDITION, KubeNode, a_cordon_drains_and_its_end_takes_the_drain_back};
use crate::place::Place;
use crate::slurm_place::SlurmPlace;
use crate::worker_sets::run;

#[tokio::test(flavor = "multi_thread")]
async fn a_cordoned_node_drains_its_workers_with_a_reason_until_it_is_uncordoned() -> Result<()> {
    let place = SlurmPlace::with_setup("cordon", Version::V24_11, 2, |setup| {
        setup.controllers = vec![operator::nodeset::NAME];
        setup.node_conditions = vec![CONDITION.into()];
    })
    .await?;
    let annotation = "slurm.nebius.ai/node-cordon-reason";
    a_cordon_drains_and_its_end_takes_the_drain_back(&place.place, &place.slurm, annotation).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_on_a_node_that_the_operator_has_not_heard_of_is_not_taken_for_lost() -> Result<()> {
    // The watch of nodes tells nothing any more.
    let deaf = (1, WatchFault::Skip(Duration::from_secs(600)));
    let watches = BTreeMap::from([("nodes".to_string(), deaf)]);
    let place = Place::with_faults("deaf", Schedule { watches, ..Schedule::default() }).await?;
    place.make("a", |_| {}).await?;
    place.until_quiet().await?;
    let node = KubeNode::make(&place).await?;
    node.bind("a-worker-1").await?;
    run(&place, "a-worker-1").await?;
    place.change("a", json!({ "spec": { "slurmNodes": { "worker": { "size": 1 } } } })).await?;
    place
        .until("the set knows", async || {
            let set = place.api::<NodeSet>().get("a-worker").await?;
            let seen = set.status.and_then(|status| status.observed_generation);
            Ok((set.spec.replicas == 1 && seen == set.metadata.generation).then_some(()))
        })
        .await?;
    tokio::time::sleep(Duration::from_secs(4)).await;
    assert_eq!(place.api::<Pod>().get("a-worker-1").await?.metadata.deletion_timestamp, None);

    // A node that is gone indeed took everything with it.
    node.delete().await?;
    place
        .until("the operator deletes the pod", async || {
            let of_pod = |write: &engine::testing::Write| {
                write.call.verb == Verb::Delete && write.call.name.as_deref() == Some("a-worker-1")
            };
            Ok(place.writes().iter().any(of_pod).then_some(()))
        })
        .await
}
