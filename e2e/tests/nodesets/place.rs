//! The cluster that tests share, one beside the other, or one alone where it does something to all workers.

use std::ops::Deref;
use std::sync::{Mutex, OnceLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use anyhow::Result;
use e2e::cluster::{Cluster, Settings};
use rig::Rig;
use rig::slurm::Version;
use serde_json::{Value, json};

/// How many workers `slurmNodes.worker` has: the other sets are made after its image.
const OWN_WORKERS: usize = 1;

/// A test's time with the cluster.
pub struct Place {
    _turn: Turn,
    cluster: &'static Cluster,
}

enum Turn {
    Together(#[allow(dead_code, reason = "held")] RwLockReadGuard<'static, ()>),
    Alone(#[allow(dead_code, reason = "held")] RwLockWriteGuard<'static, ()>),
}

impl Deref for Place {
    type Target = Cluster;

    fn deref(&self) -> &Cluster {
        self.cluster
    }
}

static TURNS: RwLock<()> = RwLock::new(());

/// The cluster, for a test that touches nothing but its own sets.
pub async fn together() -> Result<Place> {
    let cluster = shared().await?;
    let turn = TURNS.read().unwrap_or_else(PoisonError::into_inner);
    Ok(Place { _turn: Turn::Together(turn), cluster })
}

/// The cluster, for a test that others would notice.
pub async fn alone() -> Result<Place> {
    let cluster = shared().await?;
    let turn = TURNS.write().unwrap_or_else(PoisonError::into_inner);
    Ok(Place { _turn: Turn::Alone(turn), cluster })
}

async fn shared() -> Result<&'static Cluster> {
    static CLUSTER: OnceLock<Cluster> = OnceLock::new();
    static MAKING: Mutex<()> = Mutex::new(());
    let rig = Rig::shared().await?;
    let _making = MAKING.lock().unwrap_or_else(PoisonError::into_inner);
    let cluster = match CLUSTER.get() {
        Some(cluster) => cluster,
        None => {
            let settings = Settings {
                namespace: "e2e-nodesets".into(),
                name: String::new(),
                values: values(Version::V24_11),
            };
            let made = Cluster::install(rig, Version::V24_11, &settings)?;
            CLUSTER.get_or_init(|| made)
        }
    };
    cluster.wait_available()?;
    Ok(cluster)
}

/// No accounting, and neither scripts, plugins nor a place in the topology, which pods that are not the operator's would lack.
fn values(version: Version) -> Value {
    let topology = match version {
        Version::V24_11 => "topology/default",
        Version::V26_05 => "topology/flat",
    };
    json!({
        // Jobs in pods of others find no jail there, so they must not look for it.
        "customSlurmConfig": "PlugStackConfig=/dev/null\nMpiDefault=none\n",
        "slurmConfig": {"prolog": "", "epilog": "", "topologyPlugin": topology},
        "slurmNodes": {"accounting": {"enabled": false}, "worker": {"size": OWN_WORKERS}},
    })
}

/// A cluster of its own that may be destroyed.
pub fn doomed(rig: &'static Rig, namespace: &str) -> Result<Cluster> {
    let mut values = values(Version::V26_05);
    let jail = json!({
        "name": "jail", "createPVC": true, "size": "1Gi", "persistentVolumeClaim": {"claimName": "doomed-jail"},
    });
    let spool = json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}});
    values["volumeSources"] = json!([jail]);
    values["slurmNodes"]["controller"] =
        json!({"volumes": {"spool": {"volumeSourceName": null, "volumeClaimTemplateSpec": spool}}});
    let settings = Settings { namespace: namespace.into(), name: "doomed".into(), values };
    let cluster = Cluster::install(rig, Version::V26_05, &settings)?;
    cluster.wait_available()?;
    Ok(cluster)
}
