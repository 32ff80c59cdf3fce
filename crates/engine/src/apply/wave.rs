//! In which order kinds are applied.

use super::desired::Kind;

/// Objects of a smaller wave are sent first: what others need before those who need it.
pub fn wave(kind: &str) -> u8 {
    match kind {
        "ServiceAccount" | "Role" | "RoleBinding" | "ClusterRole" | "ClusterRoleBinding" => 0,
        "Secret" | "ConfigMap" | "PriorityClass" | "AppArmorProfile" => 1,
        "Service" | "PersistentVolumeClaim" => 2,
        "PodDisruptionBudget" | "PodMonitor" | "ServiceMonitor" | "NetworkPolicy" => 4,
        _ => 3,
    }
}

/// Whether an object of this kind holds what cannot be made again: it is deleted only when it was superfluous twice.
pub(super) fn is_stateful(kind: &Kind) -> bool {
    matches!(kind.kind.as_str(), "StatefulSet" | "PersistentVolumeClaim" | "Secret")
}
