//! What is special about each part.

use std::collections::BTreeSet;

use api::nebius::slurm_cluster::SlurmCluster;
use render::{Component, HeldImages, Running};
use serde_json::{Value, json};

use crate::cases::{CPU, Case, FULL, GPU, SMALL, case};

/// The replicas of a workload, or of a NodeSet.
fn replicas(case: &Case, kind: &str, name: &str) -> i64 {
    case.value(kind, name)["spec"]["replicas"].as_i64().unwrap()
}

fn image(case: &Case, kind: &str, name: &str) -> String {
    let value = case.value(kind, name);
    value["spec"]["template"]["spec"]["containers"][0]["image"].as_str().unwrap().to_owned()
}

#[test]
fn parts_that_must_not_run_have_no_pods_and_keep_their_objects() {
    type Stop = fn(&mut Running);
    let parts: [(&str, &str, Stop); 6] = [
        ("Deployment", "cpu-accounting", |running| running.accounting = false),
        ("StatefulSet", "cpu-acct-db", |running| running.accounting = false),
        ("StatefulSet", "cpu-controller", |running| running.controller = false),
        ("Deployment", "cpu-rest", |running| running.rest = false),
        ("StatefulSet", "cpu-login", |running| running.login = false),
        ("NodeSet", "cpu-worker", |running| running.workers = false),
    ];
    for (kind, name, stop) in parts {
        let mut case = case(CPU);
        assert!(replicas(&case, kind, name) > 0, "{name}");
        stop(&mut case.facts.running);
        assert_eq!(replicas(&case, kind, name), 0, "{name}");
    }
}

#[test]
fn a_part_keeps_its_image_until_the_new_version_comes_to_it() {
    let mut case = case(CPU);
    case.facts.held_images = HeldImages {
        slurmdbd: Some("old-slurmdbd".into()),
        slurmctld: Some("old-slurmctld".into()),
        slurmrestd: Some("old-slurmrestd".into()),
        sshd: Some("old-sshd".into()),
        slurmd: Some("registry.example:5000/old-slurmd:1".into()),
    };
    assert_eq!(image(&case, "Deployment", "cpu-accounting"), "old-slurmdbd");
    assert_eq!(image(&case, "StatefulSet", "cpu-controller"), "old-slurmctld");
    assert_eq!(image(&case, "Deployment", "cpu-rest"), "old-slurmrestd");
    assert_eq!(image(&case, "StatefulSet", "cpu-login"), "old-sshd");
    let image = &case.value("NodeSet", "cpu-worker")["spec"]["slurmd"]["image"];
    assert_eq!(image["repository"], "registry.example:5000/old-slurmd");
    assert_eq!(image["tag"], "1");
}

#[test]
fn slurmctld_is_reached_by_its_service_before_it_is_ready() {
    let service = case(SMALL).value("Service", "slurm1-controller-svc");
    assert_eq!(service["spec"]["publishNotReadyAddresses"], true);
    assert_eq!(service["spec"]["ports"][0]["port"], 6817);
    assert_eq!(service["spec"].get("clusterIP"), None);
}

#[test]
fn pods_have_their_dns_names_before_they_are_ready() {
    for (name, service) in [(SMALL, "slurm1-nodeset-svc"), (SMALL, "slurm1-login-headless-svc")] {
        let spec = &case(name).value("Service", service)["spec"];
        assert_eq!(spec["clusterIP"], "None", "{service}");
        assert_eq!(spec["publishNotReadyAddresses"], true, "{service}");
    }
}

#[test]
fn login_pods_are_replaced_by_the_operator_only() {
    let set = case(GPU).value("StatefulSet", "slurm1-login");
    assert_eq!(set["spec"]["updateStrategy"]["type"], "OnDelete");
    assert_eq!(set["spec"]["replicas"], 2);
}

#[test]
fn users_reach_login_pods_as_they_said() {
    let full = case(FULL).value("Service", "full-login-svc");
    assert_eq!(full["spec"]["type"], "LoadBalancer");
    assert_eq!(full["spec"]["loadBalancerIP"], "203.0.113.7");
    assert_eq!(full["spec"]["loadBalancerSourceRanges"], json!(["203.0.113.0/24"]));
    assert_eq!(full["metadata"]["annotations"], json!({ "example.com/pool": "public" }));
    assert_eq!(full["spec"]["ports"][0].get("nodePort"), None, "it is for the other type");
    let small = case(SMALL).value("Service", "slurm1-login-svc");
    assert_eq!(small["spec"]["type"], "NodePort");
    assert_eq!(small["spec"]["ports"][0]["nodePort"], 30022);
}

#[test]
fn login_pods_and_slurmctld_find_workers_and_login_pods_by_their_short_names() {
    for name in ["slurm1-login", "slurm1-controller"] {
        let set = case(SMALL).value("StatefulSet", name);
        let searches = &set["spec"]["template"]["spec"]["dnsConfig"]["searches"];
        assert_eq!(
            searches,
            &json!([
                "slurm1-worker-svc.slurm.svc.cluster.local",
                "slurm1-nodeset-svc.slurm.svc.cluster.local",
                "slurm1-login-headless-svc.slurm.svc.cluster.local",
            ])
        );
    }
}

#[test]
fn the_operators_slurmrestd_always_runs_and_users_get_a_service_when_they_want_it() {
    let mut case = case(SMALL);
    assert_eq!(image(&case, "Deployment", "slurm1-rest"), "soperator.local/slurm:0.1.0-slurm24.11");
    assert!(case.find("Service", "slurm1-rest-internal").is_some());
    assert!(case.find("Service", "slurm1-rest-svc").is_none());
    case.cluster.spec.slurm_nodes.rest.enabled = true;
    case.cluster.spec.slurm_nodes.rest.node.size = Some(3);
    assert!(case.find("Service", "slurm1-rest-svc").is_some());
    assert_eq!(replicas(&case, "Deployment", "slurm1-rest"), 3);
    assert!(case.find("PodDisruptionBudget", "slurm1-rest").is_some());
}

#[test]
fn slurmrestd_waits_until_an_image_is_known_to_hold_it() {
    let mut case = case(SMALL);
    case.facts.slurmctld_programs = None;
    assert!(case.find("Deployment", "slurm1-rest").is_none(), "slurmctld's image may hold it");
    case.facts.slurmctld_programs = Some(["slurmctld".to_owned()].into());
    assert!(case.find("Deployment", "slurm1-rest").is_none(), "slurmctld's image does not hold it");
    assert!(case.find("Service", "slurm1-rest-internal").is_some());
}

#[test]
fn the_database_is_the_external_one_or_that_of_the_mariadb_operator_or_ours() {
    let kinds = |case: &Case| -> BTreeSet<String> {
        let objects = case.rendered();
        let database = objects.iter().filter(|rendered| rendered.component == Component::Database);
        database.map(|rendered| rendered.object.kind().to_owned()).collect()
    };
    let set = |kinds: &[&str]| kinds.iter().map(|kind| (*kind).to_owned()).collect::<BTreeSet<_>>();
    let mut case = case(FULL);
    assert_eq!(kinds(&case), set(&[]), "external");
    let accounting = &mut case.cluster.spec.slurm_nodes.accounting;
    accounting.external_db.as_mut().unwrap().enabled = false;
    accounting.mariadb_operator.as_mut().unwrap().enabled = true;
    assert_eq!(kinds(&case), set(&["Grant", "MariaDB"]));
    case.facts.served.mariadb = false;
    assert_eq!(kinds(&case), set(&["Service", "StatefulSet"]), "the MariaDB operator is not there");
    case.cluster.spec.slurm_nodes.accounting.enabled = false;
    assert_eq!(kinds(&case), set(&[]));
    assert!(case.find("Deployment", "full-accounting").is_none());
}

#[test]
fn the_mariadb_operator_is_told_what_slurmdbd_needs() {
    let mut case = case(FULL);
    let accounting = &mut case.cluster.spec.slurm_nodes.accounting;
    accounting.external_db = None;
    let operator = accounting.mariadb_operator.as_mut().unwrap();
    operator.enabled = true;
    operator.container.port = Some(0);
    operator.replicas = Some(3);
    let spec = &case.value("MariaDB", "full-acct-db")["spec"];
    assert_eq!(spec["database"], "slurm_acct_db");
    assert_eq!(spec["port"], 3306, "0 means none");
    assert_eq!(spec["passwordSecretKeyRef"]["name"], "full-mariadb-password");
    assert_eq!(spec["affinity"]["antiAffinityEnabled"], true);
    assert_eq!(spec["storage"], json!({ "size": "30Gi" }), "handed on as it is");
    assert!(spec["myCnf"].as_str().unwrap().contains("innodb_buffer_pool_size=128M\n"), "half of 256Mi");
    let grant = &case.value("Grant", "full-acct-db")["spec"];
    assert_eq!((&grant["requeueInterval"], &grant["retryInterval"]), (&json!("30s"), &json!("5s")));
}

#[test]
fn certificates_for_the_database_are_where_slurmdbd_conf_names_them() {
    let deployment = case(FULL).value("Deployment", "full-accounting");
    let container = &deployment["spec"]["template"]["spec"]["containers"][0];
    let mounts = container["volumeMounts"].as_array().unwrap();
    for path in ["/mnt/slurmdbd-ssl-ca-cert", "/mnt/slurmdbd-ssl-client-key"] {
        assert!(mounts.iter().any(|mount| mount["mountPath"] == path), "{path}");
    }
    assert_eq!(deployment["spec"]["template"]["spec"]["hostname"], "accounting", "as DbdHost has it");
    assert_eq!(deployment["spec"]["strategy"]["type"], "Recreate");
}

#[test]
fn claims_of_the_state_outlive_the_cluster() {
    let set = case(CPU).value("StatefulSet", "cpu-controller");
    let policy = &set["spec"]["persistentVolumeClaimRetentionPolicy"];
    assert_eq!(policy, &json!({ "whenDeleted": "Retain", "whenScaled": "Retain" }));
    assert_eq!(set["spec"]["volumeClaimTemplates"][0]["metadata"]["name"], "controller-spool");
}

#[test]
fn the_default_profile_is_made_and_used_where_the_cluster_wants_it() {
    let mut case = case(GPU);
    assert!(case.find("AppArmorProfile", "soperator-cluster-slurm1-ns-slurm").is_none());
    case.cluster.spec.use_default_app_armor_profile = true;
    let profile = case.value("AppArmorProfile", "soperator-cluster-slurm1-ns-slurm");
    let policy = profile["spec"]["policy"].as_str().unwrap();
    assert!(policy.contains("profile soperator-cluster-slurm1-ns-slurm flags="), "{policy}");
    assert!(policy.contains("deny /{,**/}usr/bin/nvidia-smi wl,"), "{policy}");
    let set = case.value("StatefulSet", "slurm1-login");
    let context = &set["spec"]["template"]["spec"]["containers"][0]["securityContext"];
    let expected = json!({ "type": "Localhost", "localhostProfile": "soperator-cluster-slurm1-ns-slurm" });
    assert_eq!(context["appArmorProfile"], expected);
}

#[test]
fn a_broken_part_renders_nothing_and_leaves_the_others_alone() {
    let mut case = case(CPU);
    let names = |case: &Case| -> BTreeSet<String> {
        let kinds = ["StatefulSet", "Deployment", "NodeSet"];
        let objects = case.rendered().into_iter().map(|rendered| rendered.object);
        objects
            .filter(|object| kinds.contains(&object.kind()))
            .map(|object| object.name().to_owned())
            .collect()
    };
    let mut expected = names(&case);
    let login = &mut case.cluster.spec.slurm_nodes.login;
    login.node.pod.k8s_node_filter_name = "nowhere".into();
    expected.remove("cpu-login");
    assert_eq!(names(&case), expected);
    assert!(case.validated().is_broken(Component::Login));
}

#[test]
fn two_clusters_in_one_namespace_share_nothing() {
    let objects = |name: &str| -> BTreeSet<(String, String)> {
        let mut case = case(CPU);
        case.cluster.metadata.name = Some(name.into());
        let objects = case.rendered();
        let of = |value: &Value| {
            let text = |value: &Value| value.as_str().unwrap().to_owned();
            (text(&value["kind"]), text(&value["metadata"]["name"]))
        };
        let mut all: BTreeSet<_> = objects.iter().map(|rendered| of(&rendered.object.to_value())).collect();
        all.extend(case.node_set_values().iter().map(of));
        all
    };
    let (one, other) = (objects("one"), objects("other"));
    assert!(one.is_disjoint(&other), "{:?}", one.intersection(&other).collect::<Vec<_>>());
    assert_eq!(one.len(), other.len());
}

#[test]
fn names_of_a_cluster_with_a_long_name_are_short_enough() {
    let mut case = case(CPU);
    let cluster: &mut SlurmCluster = &mut case.cluster;
    cluster.metadata.name = Some("c".repeat(60));
    let mut values: Vec<Value> = case.rendered().iter().map(|rendered| rendered.object.to_value()).collect();
    values.extend(case.node_set_values());
    for value in values {
        let name = value["metadata"]["name"].as_str().unwrap();
        // A claim may be longer.
        assert!(name.len() <= 63 || value["kind"] == "PersistentVolumeClaim", "{} {name}", value["kind"]);
    }
}
