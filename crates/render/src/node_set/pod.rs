//! The pod of a worker.

use std::collections::BTreeMap;

use api::nebius::slurm_cluster::{CgroupVersion, ClusterType, ProcMount};
use api::nebius::{ContainerSecurity, Image, Probes, WorkerVolumeMount};
use k8s_openapi::api::core::v1::EnvVar;
use slurm::agent::{command, env, path};

use super::{CONTAINER, Set, slurm_node};
use crate::amount;
use crate::labels::{self, Component};
use crate::login::{cluster_type, conf_server, searches};
use crate::pod::{
    Account, BuiltPod, JailUse, Limits, Mount, Pod, Rights, Role, mount, munge, place_of_worker, sssd, var,
    with_jail,
};
use crate::validate::{
    ContainerSettings, DEFAULT_PORTS, Mount as UsersMount, PodSettings, SssdSidecar, VolumeChoice,
};

/// Seconds that running jobs have to end after somebody wants the pod to: 30 days. Where it is ours to decide, a worker is
/// drained before; this is for all other ways. The agent ends as soon as no job step lives, so nobody waits without need.
const GRACE: i64 = 30 * 24 * 3600;

/// The pod of each worker without its ordinal.
pub(super) fn template(set: &Set<'_>) -> BuiltPod {
    let cluster = set.cluster;
    let spec = &set.node_set.spec;
    let settings = PodSettings {
        placement: spec.placement.clone(),
        priority_class: spec.priority_class.clone(),
        host_users: Some(spec.enable_host_user_namespace),
        init_containers: spec.custom_init_containers.clone().unwrap_or_default(),
        image_pull_secrets: pull_secrets(set),
    };
    let slurmd = slurmd(set);
    let munge = munge(set);
    let limits = sidecar_limits(set);
    let mut mounts = mounts(set);
    let mut sidecars = vec![munge::sidecar(&munge, cluster.names.munge(), limits, settings.host_users)];
    if let Some(sssd) = sssd(set) {
        sidecars.push(sssd::sidecar(&sssd, limits, settings.host_users));
        mounts.insert(0, sssd::pipes());
    }
    let main = Role {
        name: CONTAINER,
        command: command::SLURMD,
        settings: &slurmd,
        image: None,
        port: Some(set.port()),
        rights: Rights::Privileged,
        limits: Limits::Equal,
        host_users: settings.host_users,
        env: with_jail(environment(set), JailUse::Root),
        mounts,
    };
    let mut labels = labels::object(cluster.names.cluster(), Component::NodeSet);
    labels.insert(labels::NODE_SET.into(), set.name.into());
    labels.insert(labels::WORKER.into(), "true".into());
    Pod {
        labels,
        annotations: annotations(set),
        agent_limits: limits,
        sidecars,
        subdomain: Some(set.domain_service()),
        searches: searches(cluster),
        account: Account::Ours(cluster.names.worker_service_account()),
        ..Pod::new(cluster, Component::NodeSet, &settings, main.build(), GRACE)
    }
    .build()
}

/// Annotations of the user, and what Slurm's files say of the worker: a line in them changes only together with its pod.
fn annotations(set: &Set<'_>) -> BTreeMap<String, String> {
    let spec = &set.node_set.spec;
    let mut annotations = spec.worker_annotations.clone().unwrap_or_default();
    if set.cluster.static_nodes {
        annotations.insert(labels::NODE_LINE.into(), slurm_node::line(set));
    }
    let gres = slurm_node::gres_lines(set);
    if !gres.is_empty() {
        annotations.insert(labels::GRES_LINES.into(), gres);
    }
    if spec.gpu.is_some_and(|gpu| gpu.enabled) {
        annotations.insert(labels::GPUS.into(), "true".into());
    }
    annotations
}

/// How the containers beside slurmd are limited. A worker that asks for whole CPUs gets them for itself, if everything in its
/// pod is limited to what it asks for. For another worker that would only make what is beside slurmd slow.
fn sidecar_limits(set: &Set<'_>) -> Limits {
    let cpu = set.node_set.spec.slurmd.resources.get("cpu");
    if cpu.is_some_and(amount::is_whole) { Limits::Equal } else { Limits::WithoutCpu }
}

/// Credentials of the cluster, and those of the NodeSet.
fn pull_secrets(set: &Set<'_>) -> Vec<k8s_openapi::api::core::v1::LocalObjectReference> {
    let mut secrets = set.cluster.image_pull_secrets.clone();
    for secret in set.node_set.spec.image_pull_secrets.iter().flatten() {
        if !secrets.contains(secret) {
            secrets.push(secret.clone());
        }
    }
    secrets
}

/// An image as containers have it.
fn image(image: &Image) -> String {
    match image.tag.as_deref().filter(|tag| !tag.is_empty()) {
        Some(tag) => format!("{}:{tag}", image.repository),
        None => image.repository.clone(),
    }
}

fn container(
    image_settings: &Image,
    security: Option<&ContainerSecurity>,
    probes: &Probes,
) -> ContainerSettings {
    ContainerSettings {
        image: image(image_settings),
        pull_policy: image_settings.pull_policy,
        command: Vec::new(),
        args: Vec::new(),
        port: 0,
        resources: BTreeMap::new(),
        limits: None,
        app_armor_profile: security
            .map_or_else(|| "unconfined".into(), |security| security.app_armor_profile.clone()),
        env: Vec::new(),
        probes: probes.clone(),
        proc_mount: security.and_then(|security| security.proc_mount),
    }
}

fn slurmd(set: &Set<'_>) -> ContainerSettings {
    let slurmd = &set.node_set.spec.slurmd;
    let mut settings = container(&slurmd.image, slurmd.security.as_ref(), &slurmd.probes);
    settings.resources = slurmd.resources.clone();
    settings.env = slurmd.custom_env.clone().unwrap_or_default();
    settings.proc_mount = settings.proc_mount.or(Some(ProcMount::Unmasked));
    if set.cluster.default_app_armor_profile {
        settings.app_armor_profile = format!("localhost/{}", set.cluster.names.app_armor_profile());
    }
    if let Some(workers) = set.workers {
        settings.command = workers.slurmd.command.clone();
        settings.args = workers.slurmd.args.clone();
    }
    settings
}

fn munge(set: &Set<'_>) -> ContainerSettings {
    let munge = &set.node_set.spec.munge;
    let mut settings = container(&munge.image, munge.security.as_ref(), &munge.probes);
    settings.resources = munge.resources.clone();
    if let Some(workers) = set.workers {
        settings.command = workers.munge.command.clone();
        settings.args = workers.munge.args.clone();
        settings.env = workers.munge.env.clone();
    }
    settings
}

fn sssd(set: &Set<'_>) -> Option<SssdSidecar> {
    let spec = &set.node_set.spec;
    let sssd = spec.sssd.as_ref()?;
    let mut container = container(&sssd.image, sssd.security.as_ref(), &sssd.probes);
    container.resources = sssd.resources.clone().unwrap_or_default();
    Some(SssdSidecar { container, settings: spec.sssd_settings.clone() })
}

fn environment(set: &Set<'_>) -> Vec<EnvVar> {
    let spec = &set.node_set.spec;
    let gpu = spec.gpu.unwrap_or_default();
    let kind = if gpu.enabled { ClusterType::Gpu } else { ClusterType::Cpu };
    let mut variables = place_of_worker();
    variables.extend([
        var(env::SERVICE_NAME, set.domain_service()),
        var(env::CLUSTER_TYPE, cluster_type(kind)),
        var(env::CONF_SERVER, conf_server(set.cluster)),
        var(env::STATIC_NODE, set.cluster.static_nodes.to_string()),
        var(env::PORT, DEFAULT_PORTS.sshd.to_string()),
    ]);
    if let Some(memory) = slurm_node::memory(set) {
        variables.push(var(env::REAL_MEMORY, memory.mib().to_string()));
    }
    let extra = spec.node_config.as_ref().map(|config| config.dynamic.as_str()).unwrap_or_default();
    if !extra.is_empty() {
        // The kubelet expands $(NAME) before the agent sees it; $$ is a dollar.
        variables.push(var(env::NODE_EXTRA, extra.replace("$(", "$$(")));
    }
    let registered = slurm_node::registered(set);
    if !set.cluster.static_nodes && !registered.is_empty() {
        variables.push(var(env::NODE_CONF, registered));
    }
    if spec.slurmd.cgroup_version == CgroupVersion::V2 {
        variables.push(var(env::CGROUP_V2, "true"));
    }
    if gpu.nvidia.is_some_and(|nvidia| nvidia.gdr_copy_enabled) {
        variables.push(var("NVIDIA_GDRCOPY", "enabled"));
    }
    if let Some(seconds) = spec.worker_init_random_delay_seconds.filter(|seconds| *seconds > 0) {
        variables.push(var(env::REGISTRATION_DELAY, seconds.to_string()));
    }
    if set.workers.is_some() {
        for (feature, hosts) in &set.cluster.worker_features {
            variables.push(var(format!("{}{feature}", env::FEATURE_PREFIX), hosts));
        }
    }
    if !set.cluster.static_nodes {
        let own = slurm_node::features(set);
        // The kubelet puts in the name of the node, which differs from pod to pod.
        let node = format!("$({})", env::NODE_NAME);
        variables.extend(own.iter().map(|feature| var(format!("{}{feature}", env::FEATURE_PREFIX), &node)));
    }
    variables
}

fn mounts(set: &Set<'_>) -> Vec<Mount> {
    let names = &set.cluster.names;
    let spec = &set.node_set.spec;
    let volumes = &spec.slurmd.volumes;
    let source =
        |volume: &api::common::VolumeSource| VolumeChoice::Source(Box::new(volume.as_volume().clone()));
    let sshd_config = spec.config_map_ref_sshd.clone().filter(|name| !name.is_empty());
    let mut mounts = vec![
        Mount::of("worker-spool", path::SLURMD_SPOOL, &source(&volumes.spool)),
        mount::jail(&source(&volumes.jail)),
        mount::munge_socket(),
        mount::security_limits(set.security_limits()),
        mount::sshd_keys(set.cluster.sshd_keys()),
        mount::ssh_root_keys(names.ssh_root_keys()),
        mount::ssh_configs("ssh-configs-worker", sshd_config.unwrap_or_else(|| names.ssh_configs_worker())),
        mount::in_memory(spec.slurmd.resources.get("memory").cloned()),
        mount::tmp_disk(),
        mount::dev_shm(volumes.shared_memory_size.clone()),
        mount::sysctl(names.sysctl()),
    ];
    if let Some(name) = spec.config_map_ref_supervisord.as_ref().filter(|name| !name.is_empty()) {
        mounts.push(mount::supervisord_config(name.clone()));
    }
    if spec.gpu.is_some_and(|gpu| gpu.enabled) {
        mounts.extend([mount::nvidia(), mount::boot()]);
    }
    let users = |mounts: &Option<Vec<WorkerVolumeMount>>| -> Vec<UsersMount> {
        mounts.iter().flatten().filter_map(users_mount).collect()
    };
    mounts.extend(mount::inside_jail(&users(&volumes.jail_sub_mounts)));
    mounts.extend(mount::custom(&users(&volumes.custom_volume_mounts)));
    mounts
}

/// A mount of the user's; one without a volume is refused by the API server.
fn users_mount(mount: &WorkerVolumeMount) -> Option<UsersMount> {
    let volume = match (&mount.volume_claim_template_spec, &mount.volume_source) {
        (Some(claim), _) => VolumeChoice::Claim(Box::new(claim.clone())),
        (None, Some(source)) => VolumeChoice::Source(Box::new(source.as_volume().clone())),
        (None, None) => return None,
    };
    Some(UsersMount {
        name: mount.name.clone(),
        path: mount.mount_path.clone(),
        sub_path: mount.sub_path.clone().filter(|path| !path.is_empty()),
        read_only: mount.read_only.unwrap_or_default(),
        volume,
    })
}
