//! Whoever else deletes or evicts a worker is held while a job runs.

use std::time::Duration;

use anyhow::Result;
use e2e::cluster::Cluster;
use e2e::output_of;
use serde_json::json;

use crate::place::together;
use crate::workers::{Api, Workers, some};
use crate::{both, jobs};

#[tokio::test]
async fn nobody_deletes_or_evicts_a_worker_with_a_job() -> Result<()> {
    let cluster = together().await?;
    both(|| is_guarded(&cluster, Api::Nebius), || is_guarded(&cluster, Api::Slinky)).map(drop)
}

fn is_guarded(cluster: &Cluster, api: Api) -> Result<()> {
    let set = Workers::make(cluster, api, "guard", 2)?;
    let job = set.job(0)?;
    let busy = some(&set, &[0])?;
    // The first answers may come before the operator has seen the job, or while another test has killed it; all must refuse.
    set.wait("a deletion is refused, with the job and the way to force it", || {
        let Err(refused) = set.kubectl(&["delete", "pod", &set.pod(0), "--wait=false"]) else {
            return Ok(true);
        };
        let refused = refused.to_string();
        Ok(refused.contains(&format!("job {}", job.0)) && refused.contains("force-delete"))
    })?;
    set.stay(Duration::from_secs(2), &busy)?;
    let evicted = evict(&set, 0).unwrap_err().to_string();
    assert!(evicted.contains("disruption budget"), "{evicted}");
    set.stay(Duration::from_secs(2), &busy)?;
    jobs::still_runs(cluster, &job)?;

    // One without a job comes back after it was deleted.
    let idle = some(&set, &[1])?;
    set.delete_pod(1)?;
    set.wait("it is made anew", || {
        Ok(set.pods()?.get(&set.pod(1)).is_some_and(|uid| Some(uid) != idle.get(&set.pod(1))))
    })?;

    jobs::end(cluster, &job)?;
    jobs::ended_well(cluster, &job)?;
    set.wait_idle(&[0, 1])?;
    set.clear()
}

/// What `kubectl drain` does to a pod.
fn evict(set: &Workers<'_>, ordinal: usize) -> Result<()> {
    let namespace = set.namespace();
    let eviction = json!({
        "apiVersion": "policy/v1", "kind": "Eviction",
        "metadata": {"name": set.pod(ordinal), "namespace": namespace},
    });
    let path = format!("/api/v1/namespaces/{namespace}/pods/{}/eviction", set.pod(ordinal));
    output_of(set.command()?.args(["create", "--raw", &path, "--filename", "-"]), Some(&eviction.to_string()))
        .map(drop)
}
