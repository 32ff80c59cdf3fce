//! Login pods.

use api::nebius::slurm_cluster::{ClusterType, SshdServiceType};
use k8s_openapi::api::core::v1::Service;
use slurm::agent::{command, env};

use crate::labels::Component;
use crate::pod::{self, Limits, Pod, Rights, Role, mount, munge, sssd, var};
use crate::validate::Login;
use crate::workload::{self, Replace};
use crate::{Facts, Rendered, ValidatedCluster};

/// Seconds for users to end their sessions, where somebody else than the operator wants the pod to end. The operator itself
/// ends only pods without sessions, and those end at once.
const GRACE: i64 = 3600;

const CONTAINER: &str = "sshd";

pub(crate) fn render(cluster: &ValidatedCluster, facts: &Facts) -> Vec<Rendered> {
    let Ok(login) = &cluster.login else { return Vec::new() };
    let names = &cluster.names;
    let replicas = if facts.running.login { login.size } else { 0 };
    let headless = workload::headless(workload::service(
        cluster,
        Component::Login,
        names.login_headless_service(),
        CONTAINER,
        cluster.ports.sshd,
    ));
    let set = workload::stateful_set(
        cluster,
        Component::Login,
        names.login(),
        names.login_headless_service(),
        replicas,
        // A pod in which somebody works is not replaced: the operator looks first.
        Replace::WhenDeleted,
        pod(cluster, login, facts),
    );
    let budget = workload::one_at_a_time(cluster, Component::Login, names.login(), replicas);
    let mut objects = vec![
        Rendered::apply(Component::Login, service(cluster, login)),
        Rendered::apply(Component::Login, headless),
    ];
    objects.extend(budget.map(|budget| Rendered::apply(Component::Login, budget)));
    objects.push(Rendered::recreate(Component::Login, set));
    objects
}

/// The Service by which users log in.
fn service(cluster: &ValidatedCluster, login: &Login) -> Service {
    let mut service = workload::service(
        cluster,
        Component::Login,
        cluster.names.login_service(),
        CONTAINER,
        cluster.ports.sshd,
    );
    let wanted = &login.service;
    if !wanted.annotations.is_empty() {
        service.metadata.annotations = Some(wanted.annotations.clone());
    }
    if let Some(spec) = &mut service.spec {
        match wanted.kind {
            SshdServiceType::LoadBalancer => {
                spec.type_ = Some("LoadBalancer".into());
                spec.load_balancer_ip = wanted.load_balancer_ip.clone();
                spec.load_balancer_source_ranges = pod::some(wanted.source_ranges.clone());
            }
            SshdServiceType::NodePort => {
                spec.type_ = Some("NodePort".into());
                for port in spec.ports.iter_mut().flatten() {
                    port.node_port = wanted.node_port;
                }
            }
        }
    }
    service
}

fn pod(cluster: &ValidatedCluster, login: &Login, facts: &Facts) -> pod::BuiltPod {
    let names = &cluster.names;
    let host_users = login.pod.host_users;
    let mut settings = login.sshd.clone();
    if cluster.default_app_armor_profile {
        settings.app_armor_profile = format!("localhost/{}", names.app_armor_profile());
    }
    let mut mounts = vec![
        mount::jail(&login.jail),
        mount::munge_socket(),
        mount::slurm_configs(names.slurm_configs()),
        mount::security_limits(names.security_limits(Component::Login)),
        mount::sshd_keys(cluster.sshd_keys()),
        mount::ssh_root_keys(names.ssh_root_keys()),
        mount::ssh_configs(
            "ssh-configs",
            login.sshd_config_map.clone().unwrap_or_else(|| names.ssh_configs()),
        ),
        mount::in_memory(settings.resources.get("memory").cloned()),
        mount::tmp_disk(),
    ];
    mounts.extend(mount::inside_jail(&login.jail_sub_mounts));
    mounts.extend(mount::custom(&login.custom_mounts));
    let mut env = pod::place();
    env.push(var(env::CLUSTER_TYPE, cluster_type(cluster.cluster_type)));
    env.push(var(env::CONF_SERVER, conf_server(cluster)));
    env.push(var(env::PORT, cluster.ports.sshd.to_string()));
    env = pod::with_jail(env, pod::JailUse::Root);
    let mut sidecars = vec![munge::sidecar(&login.munge, names.munge(), Limits::WithoutCpu, host_users)];
    if let Some(sssd) = &login.sssd {
        sidecars.push(sssd::sidecar(sssd, Limits::WithoutCpu, host_users));
        mounts.insert(0, sssd::pipes());
    }
    let main = Role {
        name: CONTAINER,
        command: command::LOGIN,
        settings: &settings,
        image: facts.held_images.sshd.as_deref(),
        port: Some(cluster.ports.sshd),
        rights: Rights::Privileged,
        limits: Limits::WithoutCpu,
        host_users,
        env,
        mounts,
    };
    Pod {
        sidecars,
        searches: searches(cluster),
        ..Pod::new(cluster, Component::Login, &login.pod, main.build(), GRACE)
    }
    .build()
}

/// As containers get it.
pub(crate) const fn cluster_type(cluster_type: ClusterType) -> &'static str {
    match cluster_type {
        ClusterType::Gpu => "gpu",
        ClusterType::Cpu => "cpu",
    }
}

/// Where slurmctld listens.
pub(crate) fn conf_server(cluster: &ValidatedCluster) -> String {
    format!("{}:{}", cluster.names.dns(&cluster.names.controller_service()), cluster.ports.slurmctld)
}

/// Domains in which users find workers and login pods by their short names. All NodeSets share one, so that another NodeSet
/// does not change a login pod.
pub(crate) fn searches(cluster: &ValidatedCluster) -> Vec<String> {
    let names = &cluster.names;
    [names.worker_service(), names.node_sets_service(), names.login_headless_service()]
        .iter()
        .map(|service| names.dns(service))
        .collect()
}
