//! Dynamic provisioning: a directory that all nodes share for each claim of the rig's StorageClass, RWO or RWX.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use futures::{StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::core::v1::{
    HostPathVolumeSource, ObjectReference, PersistentVolume, PersistentVolumeClaim, PersistentVolumeSpec,
};
use k8s_openapi::api::storage::v1::StorageClass;
use kube::api::{Api, DeleteParams, ObjectMeta, PostParams};
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Client, ResourceExt as _};

use crate::base_objects::PROVISIONER;
use crate::components::VOLUMES_DIR;

/// The controller manager writes here which provisioner a claim waits for.
const WAITS_FOR: &str = "volume.kubernetes.io/storage-provisioner";
/// And here we say who made a volume, so that the controller manager leaves its deletion to us.
const PROVISIONED_BY: &str = "pv.kubernetes.io/provisioned-by";

/// Serves claims and volumes until the runtime ends. `directory` is what nodes see as [`VOLUMES_DIR`].
pub async fn run(client: Client, directory: PathBuf) {
    let claims = watcher(Api::<PersistentVolumeClaim>::all(client.clone()), watcher::Config::default())
        .default_backoff()
        .applied_objects()
        .map_ok(|claim| Change::Claim(Box::new(claim)));
    let volumes = watcher(Api::<PersistentVolume>::all(client.clone()), watcher::Config::default())
        .default_backoff()
        .applied_objects()
        .map_ok(|volume| Change::Volume(Box::new(volume)));
    let mut changes = futures::stream::select(claims.boxed(), volumes.boxed());
    while let Some(change) = changes.next().await {
        let outcome = match change {
            Ok(Change::Claim(claim)) => provision(&client, &directory, &claim).await,
            Ok(Change::Volume(volume)) => reclaim(&client, &directory, &volume).await,
            Err(error) => Err(error.into()),
        };
        if let Err(error) = outcome {
            eprintln!("provisioner: {error:#}");
        }
    }
}

enum Change {
    Claim(Box<PersistentVolumeClaim>),
    Volume(Box<PersistentVolume>),
}

fn waits_for_us(claim: &PersistentVolumeClaim) -> bool {
    let bound = claim.spec.as_ref().is_some_and(|spec| spec.volume_name.is_some());
    !bound
        && claim.metadata.deletion_timestamp.is_none()
        && claim.annotations().get(WAITS_FOR).is_some_and(|by| by == PROVISIONER)
}

async fn provision(client: &Client, directory: &Path, claim: &PersistentVolumeClaim) -> Result<()> {
    if !waits_for_us(claim) {
        return Ok(());
    }
    let spec = claim.spec.as_ref().context("a claim without a spec")?;
    let uid = claim.uid().context("a claim without a uid")?;
    let name = format!("pvc-{uid}");
    let class = spec.storage_class_name.as_deref().context("a claim without a class")?;
    let class =
        Api::<StorageClass>::all(client.clone()).get(class).await.context("cannot read the StorageClass")?;
    let made = directory.join(&name);
    fs::create_dir_all(&made).with_context(|| format!("cannot make {}", made.display()))?;
    fs::set_permissions(&made, fs::Permissions::from_mode(0o777))?;
    let volume = PersistentVolume {
        metadata: ObjectMeta {
            name: Some(name.clone()),
            annotations: Some([(PROVISIONED_BY.to_string(), PROVISIONER.to_string())].into()),
            ..ObjectMeta::default()
        },
        spec: Some(PersistentVolumeSpec {
            access_modes: spec.access_modes.clone(),
            capacity: spec.resources.as_ref().and_then(|resources| resources.requests.clone()),
            claim_ref: Some(ObjectReference {
                api_version: Some("v1".into()),
                kind: Some("PersistentVolumeClaim".into()),
                name: claim.metadata.name.clone(),
                namespace: claim.metadata.namespace.clone(),
                uid: Some(uid),
                ..ObjectReference::default()
            }),
            host_path: Some(HostPathVolumeSource {
                path: format!("{VOLUMES_DIR}/{name}"),
                type_: Some("Directory".into()),
            }),
            persistent_volume_reclaim_policy: class.reclaim_policy,
            storage_class_name: class.metadata.name,
            volume_mode: spec.volume_mode.clone(),
            ..PersistentVolumeSpec::default()
        }),
        ..PersistentVolume::default()
    };
    match Api::<PersistentVolume>::all(client.clone()).create(&PostParams::default(), &volume).await {
        // The claim was seen twice before the volume was bound to it.
        Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
        other => other.map(drop).with_context(|| format!("cannot make the volume {name}")),
    }
}

async fn reclaim(client: &Client, directory: &Path, volume: &PersistentVolume) -> Result<()> {
    let released = volume.status.as_ref().is_some_and(|status| status.phase.as_deref() == Some("Released"));
    let delete = volume.spec.as_ref().and_then(|spec| spec.persistent_volume_reclaim_policy.as_deref())
        == Some("Delete");
    let ours = volume.annotations().get(PROVISIONED_BY).is_some_and(|by| by == PROVISIONER);
    if !(released && delete && ours) || volume.metadata.deletion_timestamp.is_some() {
        return Ok(());
    }
    let name = volume.name_any();
    // A name of the shape that we give, so that a hand-made volume cannot point us elsewhere.
    if name.starts_with("pvc-") && !name.contains('/') && directory.join(&name).exists() {
        fs::remove_dir_all(directory.join(&name))
            .with_context(|| format!("cannot remove the content of {name}"))?;
    }
    match Api::<PersistentVolume>::all(client.clone()).delete(&name, &DeleteParams::default()).await {
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        other => other.map(drop).with_context(|| format!("cannot delete the volume {name}")),
    }
}
