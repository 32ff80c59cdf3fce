//! Whose a JailedConfig is, and who of several gets a path that they all want. The operator and the writer of the jail must agree
//! on it.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::Resource as _;

use super::JailedConfig;

/// Label of JailedConfigs that are brought about together.
pub const AGGREGATION_LABEL: &str = "slurm.nebius.ai/jailed-aggregation";
/// Finalizer that holds a JailedConfig until its files are out of the jail.
pub const JAILED_FILES_FINALIZER: &str = "slurm.nebius.ai/jailed-files";
/// Annotation by which an object names its cluster.
const PARENTAL_CLUSTER: &str = "slurm.nebius.ai/parental-cluster-ref";
/// Permissions of files that have none of their own.
const DEFAULT_MODE: i32 = 0o644;

/// The place of a JailedConfig among those that want the same path: the first one gets it.
pub type Rank = (bool, Option<Time>, String);

impl JailedConfig {
    /// The cluster that it names: by its annotation, or by its owner. Without one it is of the only cluster in its namespace.
    #[must_use]
    pub fn cluster(&self) -> Option<&str> {
        let meta = self.meta();
        let named = meta.annotations.as_ref().and_then(|all| all.get(PARENTAL_CLUSTER)).map(String::as_str);
        named.filter(|name| !name.is_empty()).or_else(|| self.owning_cluster())
    }

    /// The cluster that it is a part of.
    #[must_use]
    pub fn owning_cluster(&self) -> Option<&str> {
        let owners = self.meta().owner_references.iter().flatten();
        let mut clusters = owners
            .filter(|owner| owner.kind == "SlurmCluster" && owner.api_version.starts_with(super::GROUP));
        clusters.next().map(|owner| owner.name.as_str())
    }

    /// The group of JailedConfigs that it is brought about with.
    #[must_use]
    pub fn aggregation(&self) -> Option<&str> {
        self.meta()
            .labels
            .as_ref()?
            .get(AGGREGATION_LABEL)
            .map(String::as_str)
            .filter(|value| !value.is_empty())
    }

    /// Its place among those that want the same path: what a cluster writes itself comes first, then who was there first.
    #[must_use]
    pub fn rank(&self) -> Rank {
        let meta = self.meta();
        let name = meta.name.clone().unwrap_or_default();
        (self.owning_cluster().is_none(), meta.creation_timestamp.clone(), name)
    }

    /// Permissions of one of its files.
    #[must_use]
    pub fn mode(&self, own: Option<i32>) -> u32 {
        let mode = own.or(self.spec.default_mode).unwrap_or(DEFAULT_MODE);
        u32::try_from(mode).unwrap_or(0o644) & 0o777
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn config(meta: serde_json::Value) -> JailedConfig {
        let spec = json!({ "configMap": { "name": "m" } });
        serde_json::from_value(json!({
            "apiVersion": "slurm.nebius.ai/v1alpha1", "kind": "JailedConfig", "metadata": meta, "spec": spec,
        }))
        .unwrap()
    }

    #[test]
    fn what_a_cluster_writes_itself_comes_first_and_then_who_was_there_first() {
        let owner =
            json!([{ "apiVersion": "slurm.nebius.ai/v1", "kind": "SlurmCluster", "name": "c", "uid": "u" }]);
        let at = |name: &str, time: &str| json!({ "name": name, "creationTimestamp": time });
        let own = config(json!({
            "name": "z", "creationTimestamp": "2026-01-03T00:00:00Z", "ownerReferences": owner,
        }));
        let early = config(at("y", "2026-01-01T00:00:00Z"));
        let late = config(at("a", "2026-01-02T00:00:00Z"));
        assert!(own.rank() < early.rank() && early.rank() < late.rank());
        assert_eq!((own.cluster(), early.cluster()), (Some("c"), None));
    }

    #[test]
    fn modes_fall_back_to_that_of_all_files_and_then_to_0644() {
        let mut config = config(json!({ "name": "a", "labels": { AGGREGATION_LABEL: "common" } }));
        assert_eq!(config.aggregation(), Some("common"));
        assert_eq!(config.mode(None), 0o644);
        config.spec.default_mode = Some(0o600);
        assert_eq!((config.mode(None), config.mode(Some(0o755))), (0o600, 0o755));
    }
}
