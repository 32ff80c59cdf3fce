//! Containers.

use std::collections::BTreeMap;

use api::common::PullPolicy;
use k8s_openapi::api::core::v1::{
    Container, ContainerPort, EnvVar, EnvVarSource, ObjectFieldSelector, ResourceRequirements,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use slurm::agent::{STATE_PORT, env};

use super::mount::{self, Mount};
use super::security::{self, Rights};
use super::{Built, agent};
use crate::validate::ContainerSettings;

/// How limits follow from requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Limits {
    /// The same, but CPU time that nobody else wants is free.
    WithoutCpu,
    /// The same. A pod in which all containers are limited so is of the class Guaranteed, and gets CPUs of its own where it
    /// asks for whole ones.
    Equal,
}

/// A container that runs `slurm-agent`.
pub(crate) struct Role<'a> {
    /// Name of the container and of its port.
    pub(crate) name: &'static str,
    /// What the agent does in it.
    pub(crate) command: &'static str,
    /// What the user says about it.
    pub(crate) settings: &'a ContainerSettings,
    /// The image, where it is not that of the settings.
    pub(crate) image: Option<&'a str>,
    /// The port of the daemon.
    pub(crate) port: Option<u16>,
    pub(crate) rights: Rights,
    pub(crate) limits: Limits,
    /// Whether the pod uses the host's users.
    pub(crate) host_users: Option<bool>,
    pub(crate) env: Vec<EnvVar>,
    pub(crate) mounts: Vec<Mount>,
}

impl Role<'_> {
    /// The container. A command or arguments of the user replace ours, and then we do not know what to ask it, except
    /// whether it listens.
    pub(crate) fn build(self) -> Built {
        let settings = self.settings;
        let is_ours = settings.command.is_empty() && settings.args.is_empty();
        let probes = &settings.probes;
        let (startup, readiness) = if is_ours {
            (Some(agent::startup(self.command)), Some(agent::readiness(self.command)))
        } else {
            (None, self.port.map(agent::listening))
        };
        let mut mounts = vec![mount::agent_program()];
        mounts.extend(self.mounts);
        let container = Container {
            name: self.name.into(),
            image: Some(self.image.unwrap_or(&settings.image).to_owned()),
            image_pull_policy: Some(pull_policy(settings.pull_policy)),
            command: if is_ours { Some(agent::run(self.command)) } else { some(settings.command.clone()) },
            args: some(settings.args.clone()),
            env: some(merged(self.env, &settings.env)),
            ports: some(ports(self.name, self.port)),
            resources: resources(&settings.resources, self.limits),
            // It would hold up a probe of the user's, and that is not what "replaces" means.
            startup_probe: startup.filter(|_| probes.readiness_probe.is_none()),
            readiness_probe: probes.readiness_probe.clone().or(readiness),
            liveness_probe: probes.liveness_probe.clone(),
            security_context: Some(security::context(
                self.rights,
                &settings.app_armor_profile,
                settings.proc_mount,
                self.host_users,
            )),
            ..Container::default()
        };
        Built { container, mounts }
    }
}

/// The list, or nothing where it is empty, as the API server keeps it.
pub(crate) fn some<T>(list: Vec<T>) -> Option<Vec<T>> {
    (!list.is_empty()).then_some(list)
}

pub(crate) fn pull_policy(policy: PullPolicy) -> String {
    match policy {
        PullPolicy::Always => "Always",
        PullPolicy::Never => "Never",
        PullPolicy::IfNotPresent => "IfNotPresent",
    }
    .into()
}

/// The daemon's port and that of the agent's state. A container without a port of its own has neither.
fn ports(name: &str, port: Option<u16>) -> Vec<ContainerPort> {
    let Some(port) = port else { return Vec::new() };
    [(name, port), ("agent-state", STATE_PORT)]
        .map(|(name, port)| ContainerPort {
            name: Some(name.into()),
            container_port: port.into(),
            protocol: Some("TCP".into()),
            ..ContainerPort::default()
        })
        .into()
}

/// Requests, and limits that follow from them.
pub(crate) fn resources(
    requests: &BTreeMap<String, Quantity>,
    limits: Limits,
) -> Option<ResourceRequirements> {
    if requests.is_empty() {
        return None;
    }
    let mut limited = requests.clone();
    if limits == Limits::WithoutCpu {
        limited.remove("cpu");
    }
    Some(ResourceRequirements {
        requests: Some(requests.clone()),
        limits: (!limited.is_empty()).then_some(limited),
        ..ResourceRequirements::default()
    })
}

/// A variable.
pub(crate) fn var(name: impl Into<String>, value: impl Into<String>) -> EnvVar {
    EnvVar { name: name.into(), value: Some(value.into()), value_from: None }
}

/// A variable with the value of a field of the pod.
pub(crate) fn field_var(name: &str, field: &str) -> EnvVar {
    let source = ObjectFieldSelector { api_version: Some("v1".into()), field_path: field.into() };
    let value_from = EnvVarSource { field_ref: Some(source), ..EnvVarSource::default() };
    EnvVar { name: name.into(), value: None, value_from: Some(value_from) }
}

/// Where the pod is: its name, its namespace and its Kubernetes node.
pub(crate) fn place() -> Vec<EnvVar> {
    let mut variables = vec![field_var(env::POD_NAME, "metadata.name")];
    variables.extend(place_of_worker());
    variables
}

/// As [`place`], but for the name: that of a worker comes with its ordinal.
pub(crate) fn place_of_worker() -> Vec<EnvVar> {
    vec![field_var(env::POD_NAMESPACE, "metadata.namespace"), field_var(env::INSTANCE_ID, "spec.nodeName")]
}

/// What the jail is to a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum JailUse {
    /// Its users live and work in it.
    Root,
    /// Only its users and groups are known.
    Users,
}

/// The variables, and what the jail is to the container.
pub(crate) fn with_jail(mut variables: Vec<EnvVar>, jail: JailUse) -> Vec<EnvVar> {
    let value = match jail {
        JailUse::Root => "root",
        JailUse::Users => "users",
    };
    variables.push(var(env::JAIL, value));
    variables
}

/// Our variables with those of the user, which win where both have the name.
fn merged(ours: Vec<EnvVar>, users: &[EnvVar]) -> Vec<EnvVar> {
    let mut merged: Vec<EnvVar> =
        ours.into_iter().filter(|own| users.iter().all(|user| user.name != own.name)).collect();
    merged.extend(users.iter().cloned());
    merged
}

#[cfg(test)]
mod tests {
    use super::*;

    fn amounts(amounts: &[(&str, &str)]) -> BTreeMap<String, Quantity> {
        amounts.iter().map(|(name, amount)| ((*name).into(), Quantity((*amount).into()))).collect()
    }

    #[test]
    fn cpu_time_is_limited_for_workers_only() {
        let wanted = amounts(&[("cpu", "2"), ("memory", "4Gi")]);
        let daemon = resources(&wanted, Limits::WithoutCpu).unwrap();
        assert_eq!(daemon.requests, Some(wanted.clone()));
        assert_eq!(daemon.limits, Some(amounts(&[("memory", "4Gi")])));
        let worker = resources(&wanted, Limits::Equal).unwrap();
        assert_eq!(worker.limits, worker.requests);
        let only_cpu = resources(&amounts(&[("cpu", "1")]), Limits::WithoutCpu).unwrap();
        assert_eq!(only_cpu.limits, None);
        assert_eq!(resources(&amounts(&[]), Limits::Equal), None);
    }

    #[test]
    fn variables_of_the_user_replace_ours() {
        let merged =
            merged(vec![var("A", "ours"), var("B", "ours")], &[var("B", "theirs"), var("C", "theirs")]);
        assert_eq!(merged, [var("A", "ours"), var("B", "theirs"), var("C", "theirs")]);
    }
}
