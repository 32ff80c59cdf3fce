//! With real Slurm daemons: what Slurm says is shown, and drains are made and taken back.

use rig::SlurmMachine;
use rig::slurm::{Options, Version};
use serde_json::{Value, json};

use crate::place::{Place, SLINKY, slinky_set};

const HASH: &str = "controller.kubernetes.io/hash";

/// A set `node` of three pods, of which `node-1` and `node-2` are nodes of this Slurm, and `node-3` never registers.
async fn place(slurm: &SlurmMachine, prefix: &str) -> Place {
    let place = Place::new(prefix).await;
    place.apply(&json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "token" },
        "stringData": { "auth-token": slurm.token("root", 3600).unwrap() },
    }));
    place.apply(&json!({
        "apiVersion": "slinky.slurm.net/v1alpha1", "kind": "Cluster", "metadata": { "name": "slurm" },
        "spec": { "server": slurm.rest_url().unwrap(), "token": { "secretRef": "token" } },
    }));
    place.apply(&slinky_set("node", 3));
    for pod in ["node-1", "node-2", "node-3"] {
        place.make_worker(SLINKY, "node", pod, (HASH, if pod == "node-1" { "old" } else { "new" }));
    }
    let status = json!({ "nodeSetHash": "new", "selector": "", "observedGeneration": 1 });
    place.set_status(SLINKY, "node", &status);
    place
}

fn state(slurm: &SlurmMachine, node: &str) -> String {
    slurm.exec(&["sinfo", "-h", "-n", node, "-o", "%T %E"]).unwrap().trim().to_lowercase()
}

/// Whether a text speaks of that time; a slow machine may need some of it.
fn is_in_half_an_hour(text: &str) -> bool {
    (25..=30).any(|minutes| text.contains(&format!("in {minutes}m")))
}

async fn a_person_drains_looks_and_undrains(version: Version) {
    let slurm = SlurmMachine::start(Options::new(version)).unwrap();
    let place = place(&slurm, "with-slurm").await;
    let row = |pod: &str| {
        let shown = place.done(&["status", "node"]);
        shown.lines().find(|line| line.starts_with(pod)).unwrap_or_default().to_string()
    };
    assert!(
        row("node-1").contains("has an old revision: replaced in its turn (maxUnavailable is 1)"),
        "{}",
        row("node-1")
    );
    assert!(row("node-2").ends_with("newest    -"), "{}", row("node-2"));
    assert!(row("node-3").contains("has not registered with Slurm yet"), "{}", row("node-3"));

    let wrap = ["--wrap", "sleep 1000"];
    let submit = ["sbatch", "--parsable", "--time", "30", "-w", "node-1", "-o", "/dev/null"];
    let submitted = slurm.exec(&[&submit[..], &wrap].concat()).unwrap();
    let job = submitted.trim();
    slurm.wait_for_job(job, &["RUNNING"]).unwrap();

    let drained = place.done(&["drain", "node", "--pod", "node-1", "--reason", "new disks"]);
    assert!(
        drained.starts_with(&format!("node-1 takes no more jobs; on it: job {job} (until: ")),
        "{drained}"
    );
    assert!(is_in_half_an_hour(&drained), "{drained}");
    assert!(state(&slurm, "node-1").contains("new disks"), "{}", state(&slurm, "node-1"));
    assert!(!state(&slurm, "node-2").contains("drain"), "only the pod that was named");
    let shown = row("node-1");
    assert!(shown.contains("MIXED+DRAIN") && shown.contains(&format!("  {job}  ")), "{shown}");
    assert!(is_in_half_an_hour(&shown), "{shown}");
    let json: Value = serde_json::from_str(&place.done(&["status", "node", "-o", "json"])).unwrap();
    let worker = &json["workers"][0];
    assert_eq!((&worker["drain"]["by"], &worker["drain"]["reason"]), (&json!("person"), &json!("new disks")));
    assert!(worker["jobs"][0]["until"].as_str().is_some_and(|time| time.ends_with('Z')), "{worker}");

    let all = place.nodeset(&["drain", "node", "--reason", "fans"]);
    assert_eq!(all.code, Some(1), "one has no Slurm node");
    assert!(
        all.out.contains("node-1 is drained already, and keeps the reason that it has: new disks\n"),
        "{}",
        all.out
    );
    assert!(all.out.contains("node-2 takes no more jobs\n"), "{}", all.out);
    assert!(
        all.errors.contains("1 of 3 workers") && all.errors.contains("node-3: Slurm has no such node"),
        "{}",
        all.errors
    );

    // The operator's own drains are the operator's to take back.
    slurm.exec(&["scontrol", "update", "NodeName=node-2", "State=UNDRAIN"]).unwrap();
    let ours = "Reason=slurm-operator: Node (m) was cordoned";
    slurm.exec(&["scontrol", "update", "NodeName=node-2", "State=DRAIN", ours]).unwrap();
    let undrained = place.nodeset(&["undrain", "node", "--pod", "node-1", "--pod", "node-2"]);
    assert_eq!(undrained.code, Some(1));
    assert_eq!(undrained.out, "node-1 takes jobs again\n");
    assert!(undrained.errors.contains("node-2: the operator drained it"), "{}", undrained.errors);
    assert!(!state(&slurm, "node-1").contains("drain"), "{}", state(&slurm, "node-1"));
    assert!(!row("node-1").contains("new disks") && !place.done(&["status", "node"]).contains("new disks"));
    assert!(state(&slurm, "node-2").contains("drain"), "{}", state(&slurm, "node-2"));
    assert!(
        row("node-2").contains("stays; drained by the operator: Node (m) was cordoned"),
        "{}",
        row("node-2")
    );
    slurm.wait_for_job(job, &["RUNNING"]).unwrap();

    // A person's word makes it the person's.
    place.done(&["drain", "node", "--pod", "node-2", "--reason", "fans"]);
    assert!(state(&slurm, "node-2").contains("fans"), "{}", state(&slurm, "node-2"));
    place.done(&["undrain", "node", "--pod", "node-2"]);
    assert!(!state(&slurm, "node-2").contains("drain"), "{}", state(&slurm, "node-2"));

    let late = place.nodeset(&["drain", "node", "--pod", "node-1", "--reason", "new disks", "--wait", "2"]);
    assert_eq!(late.code, Some(1));
    assert!(late.errors.contains(&format!("node-1: job {job} is on it")), "{}", late.errors);
    slurm.exec(&["scancel", job]).unwrap();
    let free = place.done(&["drain", "node", "--pod", "node-1", "--reason", "new disks", "--wait", "30"]);
    assert!(free.ends_with("node-1 is free\n"), "{free}");

    let patch = json!({ "stringData": { "auth-token": "no token" } }).to_string();
    place.kubectl(&["patch", "secret", "token", "--type=merge", "--patch", &patch], "");
    let refused = place.done(&["status", "node"]);
    assert!(refused.contains("\nSlurm does not answer: "), "{refused}");
    assert!(
        refused.lines().any(|line| line.starts_with("node-1 ")),
        "the pods are shown all the same: {refused}"
    );
}

#[tokio::test]
async fn slurm_24_11() {
    a_person_drains_looks_and_undrains(Version::V24_11).await;
}

#[tokio::test]
async fn slurm_26_05() {
    a_person_drains_looks_and_undrains(Version::V26_05).await;
}
