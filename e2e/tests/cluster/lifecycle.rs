//! Clusters come and go.

use std::time::Duration;

use anyhow::Result;
use e2e::cluster::{Cluster, OperatorKill, Settings};
use rig::Rig;
use rig::slurm::Version;
use serde_json::{Value, json};

/// Small, with claims of its own: no accounting, one worker.
fn small(name: &str) -> Value {
    let jail = json!({
        "name": "jail", "createPVC": true, "size": "1Gi",
        "persistentVolumeClaim": {"claimName": format!("{name}-jail")},
    });
    let spool = json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}});
    json!({
        "volumeSources": [jail],
        "slurmNodes": {
            "accounting": {"enabled": false},
            "worker": {"size": 1},
            "controller": {"volumes": {"spool": {"volumeSourceName": null, "volumeClaimTemplateSpec": spool}}},
        },
    })
}

#[tokio::test]
async fn two_clusters_live_in_one_namespace_and_go_without_a_trace() -> Result<()> {
    let rig = Rig::shared().await?;
    let namespace = rig.namespace("two").await?;
    let settings =
        |name: &str| Settings { namespace: namespace.name().into(), name: name.into(), values: small(name) };
    let kill = OperatorKill::within(rig, Duration::from_secs(10));
    let one = Cluster::install(rig, Version::V24_11, &settings("one"))?;
    let two = Cluster::install(rig, Version::V26_05, &settings("two"))?;
    kill.done()?;
    for cluster in [&one, &two] {
        cluster.wait_available()?;
        cluster.wait_idle(1)?;
        assert_eq!(cluster.run("srun hostname")?.trim(), "worker-0");
    }
    let version = |cluster: &Cluster| cluster.run("sinfo --version");
    assert!(version(&one)?.contains("24.11") && version(&two)?.contains("26.05"));

    let claims = || one.kubectl(&["get", "persistentvolumeclaims", "--output", "name"]);
    let before = claims()?;
    assert!(before.contains("one-controller-0") && before.contains("one-jail"), "{before}");
    let kill = OperatorKill::within(rig, Duration::from_secs(5));
    one.kubectl(&["delete", "slurmcluster", "one", "--wait=false"])?;
    one.wait("everything that the operator made is gone, but for claims", || {
        let kinds = "pods,statefulsets,deployments,services,configmaps,secrets,nodesets.slurm.nebius.ai,slurmclusters";
        let left = one.kubectl(&[
            "get", kinds, "--selector", "app.kubernetes.io/instance=one,app.kubernetes.io/managed-by!=Helm", "--output", "name",
        ])?;
        Ok(left.is_empty())
    })?;
    kill.done()?;
    let stay: Vec<&str> = before.lines().filter(|claim| !claim.contains("one-worker-")).collect();
    one.wait("workers' own claims go with their set, and all others stay", || {
        Ok(claims()?.lines().eq(stay.iter().copied()))
    })?;
    assert_eq!(two.run("srun hostname")?.trim(), "worker-0", "the other cluster does not notice");
    two.wait_available()
}
