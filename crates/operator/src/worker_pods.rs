//! What every worker's pod carries, of both APIs, and how a user gives up the care for its jobs.

use kube::Resource;
pub use render::labels::WORKER;

use crate::owner::annotation;

/// Value of [`WORKER`] on workers of `slurm.nebius.ai`.
pub const NEBIUS: &str = "true";
/// Value of [`WORKER`] on workers of `slinky.slurm.net`. They have their own, so that each operator is asked about its own pods.
pub const SLINKY: &str = "slinky";

/// Annotations that give up the care for running jobs where their value is `true`: on a pod, its NodeSet, its cluster or its
/// Namespace. Both mean the same everywhere.
pub const FORCE_DELETE: [&str; 2] = ["slurm.nebius.ai/force-delete", "slinky.slurm.net/force-delete"];

/// Whether the user gave up the care for running jobs on this object.
pub fn is_forced(object: &impl Resource) -> bool {
    FORCE_DELETE.iter().any(|name| annotation(object, name) == Some("true"))
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Namespace;
    use serde_json::json;

    use super::*;

    fn annotated(name: &str, value: &str) -> Namespace {
        serde_json::from_value(json!({ "metadata": { "annotations": { name: value } } })).unwrap()
    }

    #[test]
    fn only_the_word_true_gives_up_the_care() {
        for name in FORCE_DELETE {
            assert!(is_forced(&annotated(name, "true")));
            assert!(!is_forced(&annotated(name, "yes")), "{name}");
        }
        assert!(!is_forced(&annotated("example.com/force-delete", "true")));
        assert!(!is_forced(&Namespace::default()));
    }
}
