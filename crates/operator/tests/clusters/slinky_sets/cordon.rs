//! Kubernetes nodes that are cordoned.

use anyhow::Result;
use rig::slurm::Version;
use serde_json::json;

use super::kubelet::slurm;
use super::with_slurm::workers;
use crate::kube_nodes::{CONDITION, a_cordon_drains_and_its_end_takes_the_drain_back};
use crate::place::Place;

#[tokio::test(flavor = "multi_thread")]
async fn a_cordoned_node_drains_its_workers_with_a_reason_until_it_is_uncordoned() -> Result<()> {
    let slurm = slurm(Version::V26_05)?;
    let place =
        Place::with_setup("slinky-node", |setup| setup.node_conditions = vec![CONDITION.into()]).await?;
    let _kubelet = workers(&place, &slurm, 2, json!({})).await?;
    let annotation = "nodeset.slinky.slurm.net/node-cordon-reason";
    a_cordon_drains_and_its_end_takes_the_drain_back(&place, &slurm, annotation).await
}
