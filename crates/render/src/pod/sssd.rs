//! The container of SSSD, which gives a pod the users of a directory.

use k8s_openapi::api::core::v1::{Container, Volume};

use super::container::{Limits, pull_policy, resources, some};
use super::security::{self, Rights};
use super::{Built, Mount, mount};
use crate::validate::SssdSidecar;

/// Where programs of all containers ask SSSD.
const PIPES: &str = "/var/lib/sss/pipes";
/// Where SSSD reads `sssd.conf`.
const CONFIG: &str = "/etc/sssd";
/// Where `sssd.conf` finds `ca.crt`.
const LDAP_CA: &str = "/mnt/ldapCA";
/// SSSD wants a directory for itself beside the pipes, and the level of what it logs as an argument.
const SCRIPT: &str =
    "mkdir -p -m 700 /var/lib/sss/pipes/private && exec sssd --interactive --logger=stderr -d \"$0\"";

/// The directory through which the other containers ask SSSD.
pub(crate) fn pipes() -> Mount {
    Mount::new("sssd-socket", PIPES, mount::empty_dir())
}

/// SSSD as a native sidecar. A command of the user replaces ours.
pub(crate) fn sidecar(sssd: &SssdSidecar, limits: Limits, host_users: Option<bool>) -> Built {
    let settings = &sssd.container;
    let is_ours = settings.command.is_empty() && settings.args.is_empty();
    let level = sssd.settings.sssd_debug_level.unwrap_or_default().to_string();
    let command = vec!["/bin/sh".into(), "-c".into(), SCRIPT.into(), level];
    let container = Container {
        name: "sssd".into(),
        image: Some(settings.image.clone()),
        image_pull_policy: Some(pull_policy(settings.pull_policy)),
        command: if is_ours { Some(command) } else { some(settings.command.clone()) },
        args: some(settings.args.clone()),
        env: some(settings.env.clone()),
        resources: resources(&settings.resources, limits),
        liveness_probe: settings.probes.liveness_probe.clone(),
        readiness_probe: settings.probes.readiness_probe.clone(),
        restart_policy: Some("Always".into()),
        security_context: Some(security::context(
            Rights::Plain,
            &settings.app_armor_profile,
            settings.proc_mount,
            host_users,
        )),
        ..Container::default()
    };
    let mut mounts = vec![pipes()];
    if let Some(name) = sssd.settings.sssd_conf_secret_ref_name.as_ref().filter(|name| !name.is_empty()) {
        mounts.push(Mount::new("sssd-conf", CONFIG, config(name)).read_only());
    }
    if let Some(name) =
        sssd.settings.sssd_ldap_ca_config_map_ref_name.as_ref().filter(|name| !name.is_empty())
    {
        mounts.push(Mount::new("sssd-ldap-ca", LDAP_CA, mount::config_map(name)).read_only());
    }
    Built { container, mounts }
}

/// sssd.conf with the mode without which SSSD refuses it.
fn config(secret: &str) -> Volume {
    let mut volume = mount::secret(secret);
    if let Some(source) = &mut volume.secret {
        source.default_mode = Some(0o600);
    }
    volume
}
