//! What kubectl apply says about objects that only admission can judge.

use std::path::Path;

use serde_json::json;

use crate::process::{Operator, Place, get, until};

fn example(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/api");
    std::fs::read_to_string(folder.join(name)).unwrap()
}

/// Has the API server ask the operator about these kinds.
fn register(place: &Place, operator: &Operator) {
    let webhook = |group: &str, version: &str, resource: &str, kind: &str| {
        let path = format!("/validate-{}-{version}-{kind}", group.replace('.', "-"));
        json!({
            "name": format!("{resource}.{group}"),
            "clientConfig": { "url": format!("https://127.0.0.1:{}{path}", operator.webhooks) },
            "rules": [{
                "apiGroups": [group], "apiVersions": [version], "resources": [resource],
                "operations": ["CREATE", "UPDATE"],
            }],
            "failurePolicy": "Fail", "sideEffects": "None", "admissionReviewVersions": ["v1"],
        })
    };
    let configuration = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
        "metadata": { "name": "slurm-operator-webhook" },
        "webhooks": [
            webhook("slurm.nebius.ai", "v1", "slurmclusters", "slurmcluster"),
            webhook("slurm.nebius.ai", "v1alpha1", "nodesets", "nodeset"),
            webhook("slinky.slurm.net", "v1alpha1", "clusters", "cluster"),
        ],
    });
    place.must(&["apply", "-f", "-"], &configuration.to_string());
    let bad = example("slinky.slurm.net/cluster.yaml").replace("server: http://", "server: http://a@");
    until("the API server asks the operator", || {
        let output = place.kubectl(&["apply", "--dry-run=server", "-f", "-"], &bad);
        String::from_utf8_lossy(&output.stderr).contains("spec.server: is no base URL").then_some(())
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn kubectl_apply_is_told_what_is_wrong_and_good_objects_pass() {
    let place = Place::new().await;
    place.install_definitions();
    let operator = place.operator();
    operator.until_ready();
    // From a time when nobody checked.
    let bad_set = example("slurm.nebius.ai/nodeset.yaml")
        .replace("name: ", "name: old-")
        .replacen("cpu: ", "cpu: v", 1);
    let applied = place.must(&["apply", "-f", "-", "-o", "name"], &bad_set);
    register(&place, &operator);

    let cluster = example("slurm.nebius.ai/slurmcluster.yaml");
    let bad = cluster.replacen("memory: 3Gi", "memory: 3GB", 1).replace("MaxTime=INFINITE", "MaxTime=ever");
    let output = place.kubectl(&["apply", "-f", "-"], &bad);
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success(), "{told}");
    assert!(
        told.contains("admission webhook \"slurmclusters.slurm.nebius.ai\" denied the request: 2 problems:"),
        "{told}"
    );
    assert!(
        told.contains("\n- spec.slurmNodes.controller.slurmctld.resources.memory: \"3GB\" is no quantity"),
        "{told}"
    );
    assert!(told.contains("\n- spec.partitionConfiguration.partitions[0].config: MaxTime: "), "{told}");
    assert!(place.must(&["apply", "-f", "-"], &cluster).contains(" created"));

    let odd = cluster.replace("MaxTime=INFINITE", "MaxTyme=INFINITE");
    let output = place.kubectl(&["apply", "-f", "-"], &odd);
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success() && told.contains("Warning: ") && told.contains("unknown key MaxTyme"),
        "{told}"
    );

    let old = applied.lines().find(|line| line.contains("nodeset")).unwrap();
    let output = place.kubectl(&["patch", old, "--type=merge", "-p", r#"{"spec":{"replicas":0}}"#], "");
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "what was wrong before hinders nobody: {told}");
    assert!(told.contains("Warning: spec.slurmd.resources.cpu: "), "{told}");
    place.must(&["delete", old], "");

    let (_, metrics) = get(operator.metrics, "/metrics").unwrap();
    let denied = metrics.lines().find(|line| {
        line.starts_with(
            "admission_requests_total{path=\"/validate-slurm-nebius-ai-v1-slurmcluster\",result=\"denied\"}",
        )
    });
    assert!(denied.is_some_and(|line| line.ends_with(" 1")), "{metrics}");
}
