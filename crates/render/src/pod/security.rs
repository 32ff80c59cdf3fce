//! What containers may do.

use api::nebius::slurm_cluster::ProcMount;
use k8s_openapi::api::core::v1::{AppArmorProfile, Capabilities, SeccompProfile, SecurityContext};

/// How much a container may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rights {
    /// Root of its container and no more: daemons that read no jail.
    Plain,
    /// The same, and it may mount: what fills the jail.
    Mounts,
    /// All of the host's, because it mounts file systems: login and worker pods.
    Privileged,
}

/// The security context of a container that runs as root, whatever user its image has: daemons change owners of files and
/// become other users.
pub(crate) fn context(
    rights: Rights,
    app_armor: &str,
    proc_mount: Option<ProcMount>,
    host_users: Option<bool>,
) -> SecurityContext {
    let privileged = rights == Rights::Privileged;
    SecurityContext {
        run_as_user: Some(0),
        run_as_group: Some(0),
        run_as_non_root: Some(false),
        privileged: privileged.then_some(true),
        capabilities: (rights == Rights::Mounts)
            .then(|| Capabilities { add: Some(vec!["SYS_ADMIN".into()]), ..Capabilities::default() }),
        app_armor_profile: app_armor_profile(app_armor),
        proc_mount: proc(proc_mount, host_users).map(str::to_owned),
        seccomp_profile: privileged
            .then(|| SeccompProfile { type_: "Unconfined".into(), ..SeccompProfile::default() }),
        ..SecurityContext::default()
    }
}

/// How `/proc` is mounted. Kubernetes refuses pods that use the host's users and want it unmasked; a privileged container
/// sees all of it there anyway.
fn proc(wanted: Option<ProcMount>, host_users: Option<bool>) -> Option<&'static str> {
    match wanted {
        Some(ProcMount::Unmasked) => (host_users == Some(false)).then_some("Unmasked"),
        Some(ProcMount::Default) => Some("Default"),
        None => None,
    }
}

/// The field for what users write as `unconfined`, `runtime/default` or `localhost/NAME`.
pub(crate) fn app_armor_profile(text: &str) -> Option<AppArmorProfile> {
    let plain = |type_: &str| Some(AppArmorProfile { type_: type_.into(), localhost_profile: None });
    match text {
        "" => None,
        "unconfined" => plain("Unconfined"),
        "runtime/default" => plain("RuntimeDefault"),
        other => {
            let name = other.strip_prefix("localhost/").unwrap_or(other);
            Some(AppArmorProfile { type_: "Localhost".into(), localhost_profile: Some(name.into()) })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn profiles_are_fields_and_not_annotations() {
        let profile = |text: &str| {
            app_armor_profile(text)
                .map(|profile| (profile.type_, profile.localhost_profile.unwrap_or_default()))
        };
        assert_eq!(profile("unconfined"), Some(("Unconfined".into(), String::new())));
        assert_eq!(profile("runtime/default"), Some(("RuntimeDefault".into(), String::new())));
        assert_eq!(profile("localhost/slurm"), Some(("Localhost".into(), "slurm".into())));
        assert_eq!(profile(""), None);
    }

    #[test]
    fn an_unmasked_proc_is_asked_for_only_where_kubernetes_allows_it() {
        let proc = |wanted, host_users| {
            context(Rights::Privileged, "unconfined", wanted, host_users).proc_mount.unwrap_or_default()
        };
        assert_eq!(proc(Some(ProcMount::Unmasked), Some(false)), "Unmasked");
        assert_eq!(proc(Some(ProcMount::Unmasked), Some(true)), "");
        assert_eq!(proc(Some(ProcMount::Unmasked), None), "");
        assert_eq!(proc(Some(ProcMount::Default), Some(true)), "Default");
    }
}
