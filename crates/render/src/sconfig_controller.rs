//! The program that writes configuration files into the jail, and what of Slurm's configuration it writes there.

use api::nebius::{ConfigMapName, JailedConfig, JailedConfigSpec, JailedFile, UpdateAction};
use k8s_openapi::api::core::v1::{
    Capabilities, Container, ContainerPort, HTTPGetAction, Probe, SecurityContext,
};
use k8s_openapi::api::rbac::v1::{PolicyRule, Role, RoleBinding, RoleRef, Subject};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use slurm::agent::path;

use crate::labels::{self, Component};
use crate::pod::{self, Account, Built, Limits, Pod, mount, var};
use crate::slurm_files::slurm_configs;
use crate::validate::SConfigController;
use crate::workload::{self, Roll};
use crate::{Facts, Rendered, ValidatedCluster};

const CONTAINER: &str = "sconfigctrl";
/// The role of our program.
const ROLE: &str = "sconfigcontroller";
const PROGRAM: &str = "/usr/bin/soperator";
/// Name of the port with metrics.
const METRICS: &str = "metrics";
const METRICS_PORT: u16 = 8080;
const HEALTH_PORT: u16 = 8081;
/// Seconds to end: what it writes, it writes in one step.
const GRACE: i64 = 10;

pub(crate) fn render(cluster: &ValidatedCluster, facts: &Facts) -> Vec<Rendered> {
    let mut objects: Vec<Rendered> = jailed_config(cluster, facts).into_iter().collect();
    let (Ok(sconfig), Some(_)) = (&cluster.sconfig_controller, &cluster.jail) else { return objects };
    let component = Component::SConfigController;
    let names = &cluster.names;
    if sconfig.service_account.is_none() {
        let account =
            workload::service_account(cluster, component, names.sconfig_controller_service_account());
        objects.push(Rendered::apply(component, account));
    }
    objects.push(Rendered::apply(component, role(cluster)));
    objects.push(Rendered::recreate(component, role_binding(cluster, sconfig)));
    let service =
        workload::service(cluster, component, names.sconfig_controller_service(), METRICS, METRICS_PORT);
    objects.push(Rendered::apply(component, service));
    let replicas = if facts.running.controller { sconfig.size } else { 0 };
    let deployment = workload::deployment(
        cluster,
        component,
        names.sconfig_controller(),
        replicas,
        Roll::Overlapping,
        pod(cluster, sconfig),
    );
    objects.push(Rendered::recreate(component, deployment));
    objects
}

/// Slurm's configuration for the jail, where users' commands read it.
fn jailed_config(cluster: &ValidatedCluster, facts: &Facts) -> Option<Rendered> {
    let names = &cluster.names;
    let file = |key: String| JailedFile { path: format!("/etc/slurm/{key}"), key, mode: None };
    let items = slurm_configs(cluster, facts)?.into_keys().map(file).collect();
    let mut metadata = cluster.metadata(names.slurm_configs(), Component::Common);
    let labels = metadata.labels.get_or_insert_default();
    labels.insert(labels::JAILED_AGGREGATION.into(), labels::JAILED_COMMON.into());
    let spec = JailedConfigSpec {
        config_map: ConfigMapName { name: names.slurm_configs() },
        items: Some(items),
        default_mode: None,
        update_actions: Some(vec![UpdateAction::Reconfigure]),
    };
    Some(Rendered::apply(Component::Common, JailedConfig { metadata, spec, status: None }))
}

fn account(cluster: &ValidatedCluster, sconfig: &SConfigController) -> String {
    let own = || cluster.names.sconfig_controller_service_account();
    sconfig.service_account.clone().unwrap_or_else(own)
}

/// What it may do in its namespace. The operator must be allowed all of it to give it away.
fn role(cluster: &ValidatedCluster) -> Role {
    let rule = |group: &str, resources: &[&str], verbs: &[&str]| {
        let owned = |texts: &[&str]| texts.iter().map(ToString::to_string).collect::<Vec<_>>();
        PolicyRule {
            api_groups: Some(owned(&[group])),
            resources: Some(owned(resources)),
            verbs: owned(verbs),
            ..PolicyRule::default()
        }
    };
    const READ: &[&str] = &["get", "list", "watch"];
    let ours = "slurm.nebius.ai";
    Role {
        metadata: cluster.metadata(cluster.names.sconfig_controller_role(), Component::SConfigController),
        rules: Some(vec![
            rule("", &["configmaps"], READ),
            rule(ours, &["slurmclusters"], READ),
            rule(ours, &["jailedconfigs"], &["get", "list", "watch", "patch"]),
            rule(ours, &["jailedconfigs/status"], &["get", "patch"]),
            rule(ours, &["jailedconfigs/finalizers"], &["update"]),
            rule("coordination.k8s.io", &["leases"], &["get", "list", "watch", "create", "update", "patch"]),
            rule("events.k8s.io", &["events"], &["create", "patch"]),
        ]),
    }
}

fn role_binding(cluster: &ValidatedCluster, sconfig: &SConfigController) -> RoleBinding {
    let names = &cluster.names;
    RoleBinding {
        metadata: cluster.metadata(names.sconfig_controller_role_binding(), Component::SConfigController),
        role_ref: RoleRef {
            api_group: "rbac.authorization.k8s.io".into(),
            kind: "Role".into(),
            name: names.sconfig_controller_role(),
        },
        subjects: Some(vec![Subject {
            kind: "ServiceAccount".into(),
            name: account(cluster, sconfig),
            namespace: Some(names.namespace().to_owned()),
            api_group: None,
        }]),
    }
}

fn pod(cluster: &ValidatedCluster, sconfig: &SConfigController) -> pod::BuiltPod {
    let names = &cluster.names;
    let mut arguments = vec![
        format!("--cluster-namespace={}", names.namespace()),
        format!("--cluster-name={}", names.cluster()),
        format!("--jail-path={}", path::JAIL),
        "--leader-elect".to_owned(),
        format!("--reconfigure-wait-timeout={}", sconfig.wait_timeout),
        format!("--metrics-port={METRICS_PORT}"),
        format!("--health-port={HEALTH_PORT}"),
    ];
    let settings = &sconfig.container;
    // A command of the user is for an image of the user. Our program is in our image.
    let is_ours = settings.command.is_empty();
    let (image, command) = if is_ours {
        (cluster.defaults.agent_image.clone(), vec![PROGRAM.to_owned(), ROLE.to_owned()])
    } else {
        (settings.image.clone(), settings.command.clone())
    };
    if !is_ours {
        arguments.clear();
    }
    arguments.extend(settings.args.iter().cloned());
    // Clusters of one namespace do not wait for each other.
    let mut env = vec![var("LEADER_ELECTION_ID", names.sconfig_controller())];
    env.extend(settings.env.iter().cloned());
    let port = |name: &str, port: u16| ContainerPort {
        name: Some(name.into()),
        container_port: port.into(),
        protocol: Some("TCP".into()),
        ..ContainerPort::default()
    };
    let probe = |path: &str| Probe {
        http_get: Some(HTTPGetAction {
            path: Some(path.into()),
            port: IntOrString::String("health".into()),
            ..HTTPGetAction::default()
        }),
        ..Probe::default()
    };
    let container = Container {
        name: CONTAINER.into(),
        image: Some(image),
        image_pull_policy: Some(pod::pull_policy(settings.pull_policy)),
        command: Some(command),
        args: pod::some(arguments),
        env: Some(env),
        ports: Some(vec![port(METRICS, METRICS_PORT), port("health", HEALTH_PORT)]),
        resources: pod::resources(&settings.resources, Limits::WithoutCpu),
        liveness_probe: settings
            .probes
            .liveness_probe
            .clone()
            .or_else(|| is_ours.then(|| Probe { failure_threshold: Some(6), ..probe("/healthz") })),
        readiness_probe: settings
            .probes
            .readiness_probe
            .clone()
            .or_else(|| is_ours.then(|| Probe { period_seconds: Some(2), ..probe("/readyz") })),
        security_context: Some(rights(sconfig)),
        ..Container::default()
    };
    let jail = cluster.jail.iter().map(mount::jail).collect();
    Pod {
        agent_image: None,
        account: Account::WithRights(account(cluster, sconfig)),
        ..Pod::new(
            cluster,
            Component::SConfigController,
            &sconfig.pod,
            Built { container, mounts: jail },
            GRACE,
        )
    }
    .build()
}

/// Directories of the jail belong to its root, so that is who writes there, with no other power of root.
fn rights(sconfig: &SConfigController) -> SecurityContext {
    let add = ["CHOWN", "DAC_OVERRIDE", "FOWNER"].map(str::to_owned).into();
    SecurityContext {
        run_as_user: Some(sconfig.run_as_uid),
        run_as_group: Some(sconfig.run_as_gid),
        run_as_non_root: Some(false),
        allow_privilege_escalation: Some(false),
        read_only_root_filesystem: Some(true),
        capabilities: Some(Capabilities { drop: Some(vec!["ALL".into()]), add: Some(add) }),
        app_armor_profile: pod::app_armor_profile(&sconfig.container.app_armor_profile),
        ..SecurityContext::default()
    }
}
