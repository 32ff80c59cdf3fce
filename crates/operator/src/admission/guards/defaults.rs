//! What NodeSets get that do not say everything: those of `slurm.nebius.ai` their cluster, those of `slinky.slurm.net` their
//! way to change.

use api::nebius::SlurmCluster;
use engine::admission::{Decision, Request};
use engine::error::chain;
use engine::view::MetaView;
use kube::core::admission::Operation;
use kube::{Client, ResourceExt as _};
use render::labels;
use serde_json::{Value, json};

/// Gives a NodeSet that names no cluster the only one of its namespace.
pub async fn node_set(client: &Client, request: &Request) -> Decision {
    let Some(set) = object(request) else { return Decision::allow() };
    if names_cluster(&set) {
        return Decision::allow();
    }
    let namespace = request.namespace.as_deref();
    let clusters: Result<Vec<MetaView<SlurmCluster>>, _> = engine::ask::list(client, namespace, "").await;
    match clusters {
        Ok(clusters) => {
            let names: Vec<String> = clusters.iter().map(|cluster| cluster.name_any()).collect();
            with_cluster(&set, &names, request.operation == Operation::Create)
        }
        // The controller finds the cluster, too.
        Err(error) => Decision::allow().warn(format!(
            "the SlurmClusters of the namespace could not be looked up, so spec.clusterName stays empty: {}",
            chain(&error)
        )),
    }
}

fn names_cluster(set: &Value) -> bool {
    let named = [&set["spec"]["clusterName"], &set["metadata"]["annotations"][labels::PARENTAL_CLUSTER]];
    named.iter().any(|name| name.as_str().is_some_and(|name| !name.is_empty()))
}

fn with_cluster(set: &Value, clusters: &[String], is_new: bool) -> Decision {
    match clusters {
        [only] => {
            let mut after = set.clone();
            let annotations = &mut after["metadata"]["annotations"];
            if !annotations.is_object() {
                *annotations = json!({});
            }
            annotations[labels::PARENTAL_CLUSTER] = only.as_str().into();
            Decision::change(set, &after)
        }
        [] if is_new => Decision::allow().warn(
            "spec.clusterName is empty, and there is no SlurmCluster in this namespace: the workers wait for one",
        ),
        [] => Decision::allow(),
        several => {
            let told = format!(
                "spec.clusterName: is missing, and this namespace has several SlurmClusters; write one of {}",
                several.join(", ")
            );
            // One that was there before its second cluster must stay one that can be scaled and deleted.
            if is_new { Decision::deny(told).with_code(422) } else { Decision::allow().warn(told) }
        }
    }
}

/// Fills in what sets of Slinky may leave empty, and what the schema has no default for.
pub fn slinky_node_set(request: &Request) -> Decision {
    let Some(set) = object(request) else { return Decision::allow() };
    let mut after = set.clone();
    if set["spec"]["updateStrategy"]["type"] == "" {
        after["spec"]["updateStrategy"]["type"] = "RollingUpdate".into();
    }
    Decision::change(&set, &after)
}

/// The object of a request; none if it goes.
fn object(request: &Request) -> Option<Value> {
    let object = serde_json::to_value(request.object.as_ref()?).ok()?;
    object["metadata"]["deletionTimestamp"].is_null().then_some(object)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set() -> Value {
        json!({ "metadata": { "name": "gpu" }, "spec": { "replicas": 1 } })
    }

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn the_only_cluster_of_the_namespace_is_the_one() {
        let mut expected = set();
        expected["metadata"]["annotations"] = json!({ labels::PARENTAL_CLUSTER: "a" });
        assert_eq!(with_cluster(&set(), &names(&["a"]), true), Decision::change(&set(), &expected));
        let mut annotated = set();
        annotated["metadata"]["annotations"] = json!({ "mine": "1" });
        let mut expected = annotated.clone();
        expected["metadata"]["annotations"][labels::PARENTAL_CLUSTER] = "a".into();
        assert_eq!(with_cluster(&annotated, &names(&["a"]), false), Decision::change(&annotated, &expected));
    }

    #[test]
    fn several_clusters_are_a_question_for_the_user_and_none_is_a_wait() {
        let told =
            "spec.clusterName: is missing, and this namespace has several SlurmClusters; write one of a, b";
        let several = names(&["a", "b"]);
        assert_eq!(with_cluster(&set(), &several, true), Decision::deny(told).with_code(422));
        assert_eq!(with_cluster(&set(), &several, false), Decision::allow().warn(told));
        assert_ne!(with_cluster(&set(), &[], true), Decision::allow(), "a warning");
        assert_eq!(with_cluster(&set(), &[], false), Decision::allow());
    }

    #[test]
    fn a_set_that_names_its_cluster_is_left_alone() {
        assert!(!names_cluster(&set()));
        let mut named = set();
        named["spec"]["clusterName"] = "a".into();
        assert!(names_cluster(&named));
        let mut named = set();
        named["metadata"]["annotations"] = json!({ labels::PARENTAL_CLUSTER: "a" });
        assert!(names_cluster(&named));
        named["metadata"]["annotations"][labels::PARENTAL_CLUSTER] = "".into();
        assert!(!names_cluster(&named), "empty is no name");
    }

    fn slinky(spec: &Value) -> Decision {
        let request: Request = serde_json::from_value(json!({
            "uid": "u", "operation": "CREATE", "userInfo": {},
            "kind": { "group": "slinky.slurm.net", "version": "v1alpha1", "kind": "NodeSet" },
            "resource": { "group": "slinky.slurm.net", "version": "v1alpha1", "resource": "nodesets" },
            "object": { "apiVersion": "slinky.slurm.net/v1alpha1", "kind": "NodeSet", "metadata": {}, "spec": spec },
        }))
        .unwrap();
        slinky_node_set(&request)
    }

    #[test]
    fn an_empty_way_to_change_is_a_rolling_update() {
        assert_eq!(slinky(&json!({ "updateStrategy": { "type": "OnDelete" } })), Decision::allow());
        assert_eq!(slinky(&json!({})), Decision::allow(), "the schema has a default");
        let patch =
            json!([{ "op": "replace", "path": "/spec/updateStrategy/type", "value": "RollingUpdate" }]);
        let patch = Decision::patch(serde_json::from_value(patch).unwrap());
        assert_eq!(slinky(&json!({ "updateStrategy": { "type": "" } })), patch);
    }
}
