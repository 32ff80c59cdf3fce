//! Names that stand for something else.

use std::collections::BTreeMap;

use api::nebius::Placement;
use api::nebius::slurm_cluster::{
    NodeContainer, NodePod, NodeVolume, NodeVolumeMount, SlurmClusterSpec, Sssd,
};
use k8s_openapi::api::core::v1::{EmptyDirVolumeSource, LocalObjectReference, Volume};

use super::parts::SssdSidecar;
use super::shapes::{ContainerSettings, Mount, PodSettings, VolumeChoice};

/// Looks names up. What is not there gives a harmless stand-in: the checks have told of it, unless its part is off.
pub(super) struct Resolver<'a> {
    filters: BTreeMap<&'a str, &'a Placement>,
    volumes: BTreeMap<&'a str, &'a Volume>,
    pull_secrets: &'a [LocalObjectReference],
}

impl<'a> Resolver<'a> {
    pub(super) fn new(spec: &'a SlurmClusterSpec) -> Self {
        let filters = spec.k8s_node_filters.iter().map(|filter| (filter.name.as_str(), &filter.placement));
        let volumes = spec.volume_sources.iter().flatten().map(|volume| (volume.name.as_str(), volume));
        Self {
            filters: filters.collect(),
            volumes: volumes.collect(),
            pull_secrets: spec.image_pull_secrets.as_deref().unwrap_or_default(),
        }
    }

    pub(super) fn has_filter(&self, name: &str) -> bool {
        self.filters.contains_key(name)
    }

    pub(super) fn pod(&self, pod: &NodePod, host_users: Option<bool>) -> PodSettings {
        PodSettings {
            placement: self
                .filters
                .get(pod.k8s_node_filter_name.as_str())
                .copied()
                .cloned()
                .unwrap_or_default(),
            priority_class: pod.priority_class.clone().filter(|name| !name.is_empty()),
            host_users,
            init_containers: pod.custom_init_containers.clone().unwrap_or_default(),
            image_pull_secrets: self.pull_secrets.to_vec(),
        }
    }

    pub(super) fn volume(&self, volume: &NodeVolume) -> VolumeChoice {
        if let Some(claim) = &volume.volume_claim_template_spec {
            return VolumeChoice::Claim(Box::new(claim.clone()));
        }
        let name = volume.volume_source_name.as_deref().unwrap_or_default();
        let source = self.volumes.get(name).copied().cloned().unwrap_or_else(|| Volume {
            name: name.to_owned(),
            empty_dir: Some(EmptyDirVolumeSource::default()),
            ..Volume::default()
        });
        VolumeChoice::Source(Box::new(source))
    }

    pub(super) fn mounts(&self, mounts: Option<&[NodeVolumeMount]>) -> Vec<Mount> {
        let mount = |mount: &NodeVolumeMount| Mount {
            name: mount.name.clone(),
            path: mount.mount_path.clone(),
            sub_path: Some(mount.sub_path.clone()).filter(|path| !path.is_empty()),
            read_only: mount.read_only,
            volume: self.volume(&mount.volume),
        };
        mounts.unwrap_or_default().iter().map(mount).collect()
    }
}

pub(super) fn sssd(sssd: &Sssd) -> Option<SssdSidecar> {
    let container = |container: &NodeContainer| ContainerSettings::new(container, 0);
    sssd.sssd.as_ref().map(|it| SssdSidecar { container: container(it), settings: sssd.settings.clone() })
}
