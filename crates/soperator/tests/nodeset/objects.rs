//! What needs no Slurm: which set is meant, what is shown without an answer, restarts.

use serde_json::{Value, json};

use crate::place::{NEBIUS, Place, SLINKY, nebius_set, slinky_set};

const RESTARTED: &str = "kubectl.kubernetes.io/restartedAt";

#[tokio::test]
async fn the_set_that_has_the_name_is_taken_and_two_need_a_word_more() {
    let place = Place::new("which-set").await;
    let nothing = place.nodeset(&["status", "gpu"]);
    assert_eq!(nothing.code, Some(1));
    assert!(nothing.errors.contains("there is no NodeSet gpu"), "{}", nothing.errors);
    assert!(nothing.errors.contains("nor any other; name another namespace with -n"), "{}", nothing.errors);

    place.apply(&slinky_set("gpu", 0));
    assert!(
        place
            .done(&["status", "gpu"])
            .starts_with(&format!("NodeSet {}/gpu of slinky.slurm.net", place.name()))
    );
    place.apply(&nebius_set("gpu", 0));
    let both = place.nodeset(&["status", "gpu"]);
    assert_eq!(both.code, Some(1));
    assert!(
        both.errors.contains("add --api nebius for the one of slurm.nebius.ai, or --api slinky"),
        "{}",
        both.errors
    );
    for (api, group) in [("nebius", "slurm.nebius.ai"), ("slinky", "slinky.slurm.net")] {
        assert!(place.done(&["status", "gpu", "--api", api]).contains(group));
    }
    let other = place.nodeset(&["status", "cpu"]);
    assert!(
        other.errors.contains("there is gpu (slurm.nebius.ai), gpu (slinky.slurm.net)"),
        "{}",
        other.errors
    );
}

#[tokio::test]
async fn what_kubernetes_knows_is_shown_when_slurm_cannot_be_asked() {
    let place = Place::new("no-slurm").await;
    place.apply(&nebius_set("gpu", 1));
    let hash = "controller-revision-hash";
    place.make_worker(NEBIUS, "gpu", "gpu-0", (hash, "old"));
    place.make_worker(NEBIUS, "gpu", "gpu-1", (hash, "new"));
    let owner = place.get(NEBIUS, "gpu");
    for (number, revision) in [(1, "old"), (2, "new")] {
        place.apply(&json!({
            "apiVersion": "apps/v1", "kind": "ControllerRevision", "revision": number, "data": {},
            "metadata": {
                "name": format!("gpu-{revision}"), "labels": { hash: revision },
                "ownerReferences": [{
                    "apiVersion": owner["apiVersion"], "kind": "NodeSet", "name": "gpu",
                    "uid": owner["metadata"]["uid"], "controller": true,
                }],
            },
        }));
    }
    place.set_status(
        NEBIUS,
        "gpu",
        &json!({
            "phase": "Provisioning", "observedGeneration": 1,
            "conditions": [{
                "type": "SlurmAnswers", "status": "False", "reason": "NoAnswer", "message": "nobody is there",
                "lastTransitionTime": "2026-01-01T00:00:00Z",
            }, {
                "type": "WaitingForJobs", "status": "False", "reason": "NobodyWaits", "message": "no worker waits",
                "lastTransitionTime": "2026-01-01T00:00:00Z",
            }],
        }),
    );
    let shown = place.done(&["status", "gpu"]);
    let row = |pod: &str| shown.lines().find(|line| line.starts_with(pod)).unwrap_or_default().to_string();
    assert!(
        shown.contains(
            ": Provisioning\ncluster slurm1; 1 replicas, 2 pods, 2 ready, 1 of the newest revision\n"
        ),
        "{shown}"
    );
    assert!(row("gpu-0").contains("has an old revision: replaced when Slurm answers"), "{shown}");
    assert!(
        row("gpu-1")
            .contains("leaves when Slurm answers (until then it may have jobs): there are fewer replicas"),
        "{shown}"
    );
    assert!(shown.contains("  SlurmAnswers: nobody is there\n"), "{shown}");
    assert!(!shown.contains("WaitingForJobs"), "nobody waits: {shown}");
    let name = place.name();
    assert!(shown.ends_with(&format!("\nSlurm does not answer: the Secret {name}/slurm1-rest-jwt-key with the key for its tokens is not there yet\n")), "{shown}");
    let json: Value = serde_json::from_str(&place.done(&["status", "gpu", "-o", "json"])).unwrap();
    assert_eq!((&json["revision"], &json["workers"][0]["isNewest"]), (&json!("new"), &json!(false)));

    let drain = place.nodeset(&["drain", "gpu", "--reason", "new disks"]);
    assert_eq!(drain.code, Some(1));
    assert!(drain.errors.starts_with("error: Slurm does not answer: the Secret "), "{}", drain.errors);
    let stranger = place.nodeset(&["drain", "gpu", "--reason", "new disks", "--pod", "gpu-7"]);
    assert!(stranger.errors.contains("has no pod gpu-7; it has gpu-0, gpu-1"), "{}", stranger.errors);
}

#[tokio::test]
async fn a_restart_changes_the_pods_template_of_either_kind_and_nothing_else() {
    let place = Place::new("restart").await;
    let mut nebius = nebius_set("gpu", 1);
    nebius["spec"]["workerAnnotations"] = json!({ "mine": "stays" });
    place.apply(&nebius);
    place.apply(&slinky_set("cpu", 1));
    let told = place.done(&["restart", "gpu"]);
    assert!(told.contains("is drained and replaced when its jobs are over (maxUnavailable is "), "{told}");
    let after = place.get(NEBIUS, "gpu");
    let annotations = &after["spec"]["workerAnnotations"];
    assert_eq!(annotations["mine"], "stays");
    let at = annotations[RESTARTED].as_str().unwrap();
    assert!(at.len() == "2026-01-01T00:00:00Z".len() && at.ends_with('Z'), "{at}");

    let before = place.get(SLINKY, "cpu");
    place.done(&["restart", "cpu"]);
    let after = place.get(SLINKY, "cpu");
    let template = &after["spec"]["template"];
    assert!(template["metadata"]["annotations"][RESTARTED].is_string(), "{template}");
    assert_eq!(template["spec"], before["spec"]["template"]["spec"]);
    assert_eq!(template["metadata"]["labels"], before["spec"]["template"]["metadata"]["labels"]);
    assert!(after["metadata"]["generation"].as_i64() > before["metadata"]["generation"].as_i64());

    let shown = place.done(&["status", "cpu"]);
    assert!(shown.contains("Observed: the operator has not looked at the latest change yet"), "{shown}");
    assert!(
        shown
            .contains(&format!("Slurm does not answer: the Cluster {}/slurm does not exist\n", place.name())),
        "{shown}"
    );

    place.kubectl(
        &["patch", SLINKY, "cpu", "--type=merge", "--patch", r#"{"metadata":{"finalizers":["e.x/y"]}}"#],
        "",
    );
    place.kubectl(&["delete", SLINKY, "cpu", "--wait=false"], "");
    let late = place.nodeset(&["restart", "cpu"]);
    assert!(late.errors.contains("is being deleted; its workers are not replaced"), "{}", late.errors);
    place.kubectl(
        &["patch", SLINKY, "cpu", "--type=merge", "--patch", r#"{"metadata":{"finalizers":null}}"#],
        "",
    );
}

#[tokio::test]
async fn a_reason_that_is_not_a_persons_is_a_wrong_argument() {
    let place = Place::new("reasons").await;
    for reason in ["slurm-operator: mine", "slurm-agent: x", " "] {
        assert_eq!(place.nodeset(&["drain", "gpu", "--reason", reason]).code, Some(2), "{reason}");
    }
    let without = place.nodeset(&["drain", "gpu"]);
    assert_eq!(without.code, Some(2));
    assert!(without.errors.contains("--reason <TEXT>"), "{}", without.errors);
}
