//! The end of a set that nobody can ask Slurm for any more.

use anyhow::Result;
use api::slinky::Cluster;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::json;

use super::with_slurm::nobody_goes;
use super::{NOBODY, Sets};
use crate::place::Place;
use crate::slurm_place::links;
use crate::worker_sets::run;

#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_set_without_its_cluster_tells_when_its_pods_go_also_after_a_restart() -> Result<()> {
    let mut place = Place::with("slinky-end", links(String::new())).await?;
    let sets = Sets(&place);
    sets.make_cluster(NOBODY, "a.b.c").await?;
    sets.make(&json!({})).await?;
    for pod in ["w-0", "w-1"] {
        run(&place, pod).await?;
    }
    sets.until_status("both run", |status| status.ready_replicas == Some(2)).await?;
    sets.api().delete("w", &DeleteParams::default()).await?;
    place.api::<Cluster>().delete("slurm", &DeleteParams::default()).await?;
    place.api::<Secret>().delete("slurm-token", &DeleteParams::default()).await?;
    let told = sets.until_told("ClusterGone", "True", "NobodyToAsk", "goes at").await?;
    let since = told.last_transition_time.0.as_second();
    let day_later = Timestamp::from_second(since + 24 * 3600)?.to_string();
    assert!(told.message.contains(&day_later), "{told:?}");
    place.until_quiet().await?;

    place.restart(links(String::new())).await?;
    let sets = Sets(&place);
    let notes = async || {
        let events = place.events("w").await?;
        Ok(events.iter().any(|note| note.contains(&day_later)).then_some(()))
    };
    place.until("an event says until when", notes).await?;
    nobody_goes(&sets, 2).await?;
    let after = sets.condition("ClusterGone").await?;
    assert_eq!(after.map(|after| after.last_transition_time), Some(told.last_transition_time));

    let force = json!({ "metadata": { "annotations": { "slinky.slurm.net/force-delete": "true" } } });
    sets.api().patch("w", &PatchParams::default(), &Patch::Merge(&force)).await?;
    place.until("the set is gone", async || Ok(sets.api().get_opt("w").await?.is_none().then_some(()))).await
}
