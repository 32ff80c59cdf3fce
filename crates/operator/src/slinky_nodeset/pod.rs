//! A worker's pod, made from the user's template.

use std::collections::BTreeMap;

use api::slinky::NodeSet;
use k8s_openapi::api::core::v1::{
    PersistentVolumeClaimVolumeSource, Pod, PodSpec, PodTemplateSpec, Toleration, Volume,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::ResourceExt as _;

use super::{claim, keys};
use crate::worker_pods;

/// The labels by which a pod is known again. What the template says about them does not count.
pub fn identity(name: &str, ordinal: u32) -> BTreeMap<String, String> {
    BTreeMap::from([
        (keys::POD_NAME.to_owned(), name.to_owned()),
        (keys::POD_INDEX.to_owned(), ordinal.to_string()),
        (worker_pods::WORKER.to_owned(), worker_pods::SLINKY.to_owned()),
    ])
}

/// The pod with this name, which is this Slurm node. Its owner and the labels that it needs are added by those who make it.
pub fn pod(set: &NodeSet, template: &PodTemplateSpec, name: &str, node: &str) -> Pod {
    let meta = template.metadata.clone().unwrap_or_default();
    let mut labels = meta.labels.unwrap_or_default();
    labels.insert(keys::POD_HOSTNAME.into(), node.into());
    // Whether it is guarded is said of each pod, not of the template.
    labels.remove(keys::PROTECTED);
    Pod {
        metadata: ObjectMeta {
            name: Some(name.into()),
            generate_name: Some(format!("{}-", set.name_any())),
            namespace: set.namespace(),
            labels: Some(labels),
            annotations: meta.annotations,
            finalizers: meta.finalizers,
            ..ObjectMeta::default()
        },
        spec: Some(spec(set, template.spec.clone().unwrap_or_default(), name, node)),
        status: None,
    }
}

fn spec(set: &NodeSet, mut spec: PodSpec, name: &str, node: &str) -> PodSpec {
    spec.hostname = Some(node.into());
    spec.subdomain = Some(set.spec.service_name.clone());
    // The scheduler's business; a template with a node would put all pods on it.
    spec.node_name = None;
    let tolerations = spec.tolerations.get_or_insert_default();
    for toleration in tolerated(spec.host_network == Some(true)) {
        if !tolerations.contains(&toleration) {
            tolerations.push(toleration);
        }
    }
    let claims = claim_volumes(set, name);
    let volumes = spec.volumes.get_or_insert_default();
    volumes.retain(|volume| !claims.iter().any(|claim| claim.name == volume.name));
    volumes.extend(claims);
    if volumes.is_empty() {
        spec.volumes = None;
    }
    spec
}

/// A volume for each claim of the pod.
fn claim_volumes(set: &NodeSet, pod: &str) -> Vec<Volume> {
    claim::template_names(set)
        .into_iter()
        .map(|template| Volume {
            name: template.into(),
            persistent_volume_claim: Some(PersistentVolumeClaimVolumeSource {
                claim_name: format!("{template}-{pod}"),
                read_only: None,
            }),
            ..Volume::default()
        })
        .collect()
}

/// What workers tolerate, like the pods of a DaemonSet: a machine that is out of reach for a while still runs jobs.
///
/// One thing is left out: a cordoned node. A worker there would be drained at once and never take a job.
fn tolerated(host_network: bool) -> Vec<Toleration> {
    let exists = |key: &str, effect: &str| Toleration {
        key: Some(format!("node.kubernetes.io/{key}")),
        operator: Some("Exists".into()),
        effect: Some(effect.into()),
        ..Toleration::default()
    };
    let mut all = vec![
        exists("not-ready", "NoExecute"),
        exists("unreachable", "NoExecute"),
        exists("disk-pressure", "NoSchedule"),
        exists("memory-pressure", "NoSchedule"),
        exists("pid-pressure", "NoSchedule"),
    ];
    if host_network {
        all.push(exists("network-unavailable", "NoSchedule"));
    }
    all
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::tests::set;
    use super::*;

    fn made(change: Value) -> Value {
        let set = set(change);
        serde_json::to_value(pod(&set, &set.spec.template, "w-3", "host-3")).unwrap()
    }

    #[test]
    fn the_pod_is_the_template_with_a_name_and_a_place_of_its_own() {
        let pod = made(json!({ "serviceName": "svc", "template": {
                "metadata": {
                    "name": "ignored", "namespace": "elsewhere",
                    "labels": { "app": "slurmd", (keys::PROTECTED): "true" },
                    "annotations": { "a": "b" }, "finalizers": ["example.com/f"],
                },
                "spec": { "nodeName": "n", "hostname": "ignored-", "containers": [{ "name": "slurmd", "image": "i" }] },
            } }));
        let meta = &pod["metadata"];
        assert_eq!(
            (&meta["name"], &meta["namespace"], &meta["generateName"]),
            (&json!("w-3"), &json!("ns"), &json!("w-"))
        );
        assert_eq!(meta["labels"], json!({ "app": "slurmd", (keys::POD_HOSTNAME): "host-3" }));
        assert_eq!(
            (&meta["annotations"], &meta["finalizers"]),
            (&json!({ "a": "b" }), &json!(["example.com/f"]))
        );
        let spec = &pod["spec"];
        assert_eq!(
            (&spec["hostname"], &spec["subdomain"], &spec["nodeName"]),
            (&json!("host-3"), &json!("svc"), &Value::Null)
        );
        assert_eq!(spec["containers"], json!([{ "name": "slurmd", "image": "i" }]));
        assert_eq!(spec["volumes"], Value::Null);
    }

    #[test]
    fn claims_take_the_place_of_volumes_with_their_names() {
        let pod = made(json!({
            "volumeClaimTemplates": [{ "metadata": { "name": "spool" } }],
            "template": { "metadata": { "labels": { "app": "slurmd" } }, "spec": {
                "containers": [{ "name": "slurmd" }],
                "volumes": [{ "name": "spool", "emptyDir": {} }, { "name": "tmp", "emptyDir": {} }],
            } },
        }));
        let expected = json!([
            { "name": "tmp", "emptyDir": {} },
            { "name": "spool", "persistentVolumeClaim": { "claimName": "spool-w-3" } },
        ]);
        assert_eq!(pod["spec"]["volumes"], expected);
    }

    #[test]
    fn a_machine_that_is_out_of_reach_keeps_its_workers_and_a_cordoned_one_gets_none() {
        let tolerations = |template: Value| {
            let pod = made(json!({ "template": template }));
            let all = pod["spec"]["tolerations"].as_array().unwrap().clone();
            all.iter().map(|one| one["key"].as_str().unwrap_or_default().to_owned()).collect::<Vec<_>>()
        };
        let mine =
            json!({ "key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute" });
        let template = |host_network: bool| {
            json!({ "metadata": { "labels": { "app": "slurmd" } }, "spec": {
                "hostNetwork": host_network, "containers": [{ "name": "slurmd" }], "tolerations": [mine],
            } })
        };
        let keys = tolerations(template(false));
        assert_eq!(keys.len(), 5, "none stands twice: {keys:?}");
        assert!(keys.contains(&"node.kubernetes.io/unreachable".to_owned()));
        assert!(!keys.contains(&"node.kubernetes.io/unschedulable".to_owned()));
        assert_eq!(
            tolerations(template(true)).last().map(String::as_str),
            Some("node.kubernetes.io/network-unavailable")
        );
    }
}
