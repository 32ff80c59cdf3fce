//! What several parts use: Slurm's configuration files, generated Secrets, slurmdbd.conf and small ConfigMaps.

use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};

use crate::labels::Component;
use crate::secrets::generated_secrets;
use crate::slurm_files::{effective_configs, slurmdbd_conf};
use crate::small_files::{AUTHORIZED_KEYS, LIMITS, SSHD_CONFIG, SYSCTL, limits, sshd_config, sysctl};
use crate::validate::{ContainerSettings, DEFAULT_PORTS, Part};
use crate::{Facts, Rendered, ValidatedCluster};

pub(crate) fn render(cluster: &ValidatedCluster, facts: &Facts) -> Vec<Rendered> {
    let names = cluster.names();
    let mut objects = new_secrets(cluster, facts);
    if let Some(configs) = effective_configs(cluster, facts) {
        objects.push(Rendered::apply(Component::Common, configs));
    }
    let one = |key: &str, text: String| BTreeMap::from([(key.to_owned(), text)]);
    objects.extend([
        config_map(cluster, Component::Common, names.sysctl(), one(SYSCTL, sysctl())),
        config_map(
            cluster,
            Component::Common,
            names.ssh_root_keys(),
            one(AUTHORIZED_KEYS, lines(&cluster.root_keys)),
        ),
        // Workers of NodeSets use it, too, where they name no other.
        config_map(
            cluster,
            Component::Common,
            names.ssh_configs_worker(),
            one(SSHD_CONFIG, sshd_config(DEFAULT_PORTS.sshd)),
        ),
    ]);
    if let Ok(login) = &cluster.login
        && login.sshd_config_map.is_none()
    {
        let text = sshd_config(login.sshd.port);
        objects.push(config_map(cluster, Component::Login, names.ssh_configs(), one(SSHD_CONFIG, text)));
    }
    objects.extend(security_limits(cluster));
    objects.extend(slurmdbd_configs(cluster, facts));
    objects
}

fn config_map(
    cluster: &ValidatedCluster,
    component: Component,
    name: String,
    data: BTreeMap<String, String>,
) -> Rendered {
    let metadata = cluster.metadata(name, component);
    Rendered::apply(component, ConfigMap { metadata, data: Some(data), ..ConfigMap::default() })
}

fn lines(lines: &[String]) -> String {
    lines.iter().map(|line| format!("{line}\n")).collect()
}

fn new_secrets(cluster: &ValidatedCluster, facts: &Facts) -> Vec<Rendered> {
    let wanted = generated_secrets(cluster, facts);
    facts
        .new_secrets
        .iter()
        .filter_map(|(secret, material)| {
            let object = secret.object(cluster, wanted.get(secret)?, material);
            Some(Rendered::create_once(secret.component(), object))
        })
        .collect()
}

/// limits.conf of the parts that have no NodeSet.
fn security_limits(cluster: &ValidatedCluster) -> Vec<Rendered> {
    fn of<'a, T>(
        part: &'a Part<T>,
        container: impl Fn(&'a T) -> Option<&'a ContainerSettings>,
    ) -> Option<&'a ContainerSettings> {
        part.as_ref().ok().and_then(container)
    }
    let parts = [
        (Component::Controller, of(&cluster.controller, |part| Some(&part.slurmctld))),
        (Component::Accounting, of(&cluster.accounting, |part| part.as_ref().map(|part| &part.slurmdbd))),
        (Component::Rest, of(&cluster.rest, |part| Some(&part.container))),
        (Component::Login, of(&cluster.login, |part| Some(&part.sshd))),
    ];
    let object = |(component, container): (Component, Option<&ContainerSettings>)| {
        let data = BTreeMap::from([(LIMITS.to_owned(), limits(container?.limits.as_deref()))]);
        Some(config_map(cluster, component, cluster.names().security_limits(component), data))
    };
    parts.into_iter().filter_map(object).collect()
}

/// A Secret, because the password of the database is in it.
fn slurmdbd_configs(cluster: &ValidatedCluster, facts: &Facts) -> Option<Rendered> {
    let accounting = cluster.accounting.as_ref().ok()?.as_ref()?;
    let text = slurmdbd_conf(cluster, accounting, facts)?;
    let metadata = cluster.metadata(cluster.names().slurmdbd_configs(), Component::Accounting);
    let data = Some(BTreeMap::from([("slurmdbd.conf".to_owned(), ByteString(text.into_bytes()))]));
    Some(Rendered::apply(Component::Accounting, Secret { metadata, data, ..Secret::default() }))
}
