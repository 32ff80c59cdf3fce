//! The AppArmor profile that keeps users of login and worker pods from changing NVIDIA's files.

use std::fmt::Write as _;

use serde_json::json;

use crate::labels::Component;
use crate::{Dynamic, Facts, Rendered, ValidatedCluster};

/// Libraries of NVIDIA's driver, as the beginnings of their file names.
const LIBRARIES: &[&str] = &[
    "libcuda",
    "libcudadebugger",
    "libnvcuvid",
    "libnvoptix",
    "libnvidia-",
    "libEGL_nvidia",
    "libGLESv1_CM_nvidia",
    "libGLESv2_nvidia",
    "libGLX_nvidia",
    "vdpau/libvdpau_nvidia",
    "gbm/nvidia-drm_gbm",
];

/// Programs of NVIDIA's driver.
const PROGRAMS: &[&str] = &[
    "nvidia-smi",
    "nvidia-debugdump",
    "nvidia-persistenced",
    "nvidia-cuda-mps-control",
    "nvidia-cuda-mps-server",
];

pub(crate) fn render(cluster: &ValidatedCluster, facts: &Facts) -> Vec<Rendered> {
    if !cluster.default_app_armor_profile || !facts.served.app_armor_profile {
        return Vec::new();
    }
    let name = cluster.names.app_armor_profile();
    let profile = Dynamic {
        api_version: "security-profiles-operator.x-k8s.io/v1alpha1",
        kind: "AppArmorProfile",
        plural: "apparmorprofiles",
        body: json!({ "spec": { "policy": policy(&name) } }),
        metadata: cluster.metadata(name, Component::Common),
    };
    vec![Rendered::apply(Component::Common, profile)]
}

/// All is allowed, also what a privileged container does, but writing to NVIDIA's files, outside the jail and in it.
fn policy(name: &str) -> String {
    let mut text = format!(
        "#include <tunables/global>\n\n\
         profile {name} flags=(attach_disconnected,mediate_deleted) {{\n\
         \x20 capability,\n  change_profile,\n  dbus,\n  file,\n  mount,\n  network,\n  pivot_root,\n  ptrace,\n  remount,\n\
         \x20 signal,\n  umount,\n  unix,\n\n"
    );
    let mut deny = |path: &str| {
        // Root directories in which the file is seen: its own, and any below which the jail is mounted.
        let _ = writeln!(text, "  deny /{{,**/}}usr/{path} wl,");
    };
    for library in LIBRARIES {
        deny(&format!("lib{{,64,/*-linux-gnu}}/{library}*"));
    }
    for program in PROGRAMS {
        deny(&format!("bin/{program}"));
    }
    text.push_str("  deny /{,**/}lib/firmware/nvidia/** wl,\n}\n");
    text
}
