//! The NodeSet that stands for `slurmNodes.worker`, and what the workers of all NodeSets share.

use std::collections::BTreeMap;

use api::common::{JobCare, VolumeSource};
use api::nebius::slurm_cluster::ClusterType;
use api::nebius::{
    ContainerSecurity, GpuSettings, Image, MungeContainer, NodeConfig, NodeSet, NodeSetSpec, NvidiaSettings,
    SlurmdContainer, SssdSettings, WorkerVolumeMount, WorkerVolumes,
};
use k8s_openapi::api::core::v1::Service;
use slurm::agent::path;

use crate::labels::{self, Component};
use crate::pod::{mount, some};
use crate::validate::{ContainerSettings, Mount, VolumeChoice, Workers};
use crate::{Facts, Rendered, ValidatedCluster, workload};

pub(crate) fn render(cluster: &ValidatedCluster, facts: &Facts) -> Vec<Rendered> {
    let names = &cluster.names;
    let account = workload::service_account(cluster, Component::NodeSet, names.worker_service_account());
    let mut objects = vec![
        Rendered::apply(Component::NodeSet, account),
        Rendered::apply(Component::NodeSet, shared_service(cluster)),
    ];
    if let Ok(Some(workers)) = &cluster.workers {
        objects.push(Rendered::apply(Component::Worker, node_set(cluster, workers, facts)));
    }
    objects
}

/// The headless Service that all workers of users' NodeSets are found by.
fn shared_service(cluster: &ValidatedCluster) -> Service {
    let name = cluster.names.node_sets_service();
    let port = cluster.ports.slurmd;
    workload::headless(workload::service(cluster, Component::NodeSet, name, crate::node_set::CONTAINER, port))
}

/// The NodeSet. What a NodeSet cannot say (commands of the user) its pods get from the cluster.
fn node_set(cluster: &ValidatedCluster, workers: &Workers, facts: &Facts) -> NodeSet {
    let names = &cluster.names;
    let mut metadata = cluster.metadata(names.worker(), Component::Worker);
    metadata.annotations =
        Some(BTreeMap::from([(labels::PARENTAL_CLUSTER.into(), names.cluster().to_owned())]));
    let image = facts.held_images.slurmd.as_deref().unwrap_or(&workers.slurmd.image);
    let pod = &workers.pod;
    let spec = NodeSetSpec {
        cluster_name: Some(names.cluster().to_owned()),
        replicas: if facts.running.workers { workers.size } else { 0 },
        max_unavailable: workers.max_unavailable.clone(),
        update_strategy: None,
        update_partition: None,
        update_paused: None,
        care: JobCare { drain_on_delete: workers.drain_on_delete.clone(), ..JobCare::default() },
        ephemeral_nodes: None,
        initial_number_ephemeral_nodes: None,
        ephemeral_topology_wait_timeout: None,
        worker_init_random_delay_seconds: None,
        enable_host_user_namespace: pod.host_users.unwrap_or_default(),
        slurmd: SlurmdContainer {
            image: split_image(image, &workers.slurmd),
            resources: workers.slurmd.resources.clone(),
            cgroup_version: workers.cgroup_version,
            volumes: volumes(workers),
            port: Some(workers.slurmd.port.into()),
            security: Some(security(&workers.slurmd)),
            custom_env: some(workers.slurmd.env.clone()),
            probes: workers.slurmd.probes.clone(),
        },
        munge: MungeContainer {
            image: split_image(&workers.munge.image, &workers.munge),
            resources: workers.munge.resources.clone(),
            security: Some(security(&workers.munge)),
            probes: workers.munge.probes.clone(),
        },
        sssd: None,
        sssd_settings: SssdSettings::default(),
        docker: None,
        topology: None,
        node_config: workers.extra.clone().map(|dynamic| NodeConfig { dynamic, ..NodeConfig::default() }),
        gpu: Some(GpuSettings {
            enabled: cluster.cluster_type == ClusterType::Gpu,
            nvidia: Some(NvidiaSettings { gdr_copy_enabled: workers.gdr_copy }),
        }),
        config_map_ref_supervisord: workers.supervisord_config_map.clone(),
        config_map_ref_sshd: workers.sshd_config_map.clone(),
        placement: pod.placement.clone(),
        priority_class: pod.priority_class.clone(),
        worker_annotations: (!workers.annotations.is_empty()).then(|| workers.annotations.clone()),
        image_pull_secrets: some(pod.image_pull_secrets.clone()),
        custom_init_containers: some(pod.init_containers.clone()),
    };
    NodeSet { metadata, spec, status: None }
}

/// An image as a NodeSet has it. One with a digest has no tag of its own.
fn split_image(image: &str, settings: &ContainerSettings) -> Image {
    let name = image.rfind('/').map_or(0, |slash| slash + 1);
    let colon = if image.contains('@') { None } else { image[name..].rfind(':').map(|colon| name + colon) };
    let (repository, tag) = match colon {
        Some(colon) => (&image[..colon], Some(image[colon + 1..].to_owned())),
        None => (image, None),
    };
    Image { repository: repository.to_owned(), tag, pull_policy: settings.pull_policy }
}

fn security(settings: &ContainerSettings) -> ContainerSecurity {
    ContainerSecurity {
        limits_config: settings.limits.clone(),
        app_armor_profile: settings.app_armor_profile.clone(),
        proc_mount: settings.proc_mount,
    }
}

/// The volumes. A NodeSet takes no claim for spool and jail, so a claim becomes a mount at their place, which wins there.
fn volumes(workers: &Workers) -> WorkerVolumes {
    let mut custom: Vec<WorkerVolumeMount> = Vec::new();
    let mut source = |volume: &VolumeChoice, name: &str, path: &str| match volume {
        VolumeChoice::Source(volume) => VolumeSource::from((**volume).clone()),
        VolumeChoice::Claim(claim) => {
            custom.push(WorkerVolumeMount {
                name: name.to_owned(),
                mount_path: path.to_owned(),
                volume_claim_template_spec: Some((**claim).clone()),
                ..WorkerVolumeMount::default()
            });
            VolumeSource::from(mount::empty_dir())
        }
    };
    let spool = source(&workers.spool, "worker-spool", path::SLURMD_SPOOL);
    let jail = source(&workers.jail, "jail", path::JAIL);
    custom.extend(workers.custom_mounts.iter().map(mount_of));
    WorkerVolumes {
        spool,
        jail,
        jail_sub_mounts: some(workers.jail_sub_mounts.iter().map(mount_of).collect()),
        custom_volume_mounts: some(custom),
        shared_memory_size: workers.shared_memory.clone(),
        persistent_volume_claim_retention_policy: None,
    }
}

fn mount_of(mount: &Mount) -> WorkerVolumeMount {
    let (volume_source, volume_claim_template_spec) = match &mount.volume {
        VolumeChoice::Source(volume) => (Some(VolumeSource::from((**volume).clone())), None),
        VolumeChoice::Claim(claim) => (None, Some((**claim).clone())),
    };
    WorkerVolumeMount {
        name: mount.name.clone(),
        mount_path: mount.path.clone(),
        sub_path: mount.sub_path.clone(),
        read_only: mount.read_only.then_some(true),
        volume_source,
        volume_claim_template_spec,
    }
}
