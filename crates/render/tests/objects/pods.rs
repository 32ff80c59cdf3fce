//! What all pods have in common.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{Container, PodSpec, PodTemplateSpec};
use render::{Facts, Object, WorkerFacts};
use serde_json::{Value, json};
use slurm::Secret;
use slurm::agent::PROGRAM;

use crate::cases::{ALL, CPU, Case, FULL, GPU, SMALL, case};

/// The templates of all workloads, by name.
fn templates(case: &Case) -> Vec<(String, PodTemplateSpec)> {
    let of = |object: Object| match object {
        Object::StatefulSet(set) => Some((set.metadata.name.unwrap(), set.spec.unwrap().template)),
        Object::Deployment(deployment) => {
            Some((deployment.metadata.name.unwrap(), deployment.spec.unwrap().template))
        }
        _ => None,
    };
    case.rendered().into_iter().filter_map(|rendered| of(rendered.object)).collect()
}

/// The pods of all workloads and NodeSets.
fn pods(case: &Case) -> Vec<(String, PodSpec)> {
    let mut pods: Vec<_> =
        templates(case).into_iter().map(|(name, template)| (name, template.spec.unwrap())).collect();
    let validated = case.validated();
    for node_set in case.all_node_sets() {
        let template = render::worker_template(&validated, &node_set).unwrap();
        pods.push((template.pod_name(0), template.pod(0).spec.unwrap()));
    }
    pods
}

/// The same without the one that is no part of Slurm, and speaks to Kubernetes.
fn slurm_pods(case: &Case) -> Vec<(String, PodSpec)> {
    pods(case).into_iter().filter(|(name, _)| !name.ends_with("-sconfigcontroller")).collect()
}

fn containers(pod: &PodSpec) -> impl Iterator<Item = &Container> {
    pod.init_containers.iter().flatten().chain(&pod.containers)
}

#[test]
fn each_daemon_is_run_by_the_agent_that_the_first_container_installs() {
    for name in [SMALL, CPU, GPU] {
        for (pod_name, pod) in slurm_pods(&case(name)) {
            let first = &pod.init_containers.as_ref().unwrap()[0];
            assert_eq!(first.image.as_deref(), Some("soperator.local/soperator:0.1.0"), "{name} {pod_name}");
            let volume = &first.volume_mounts.as_ref().unwrap()[0];
            assert_eq!(volume.read_only, None);
            for container in containers(&pod).skip(1) {
                assert_eq!(container.command.as_ref().unwrap()[0], PROGRAM, "{name} {pod_name}");
                let agent = container.volume_mounts.iter().flatten().find(|mount| mount.name == volume.name);
                assert_eq!(agent.unwrap().read_only, Some(true), "{name} {pod_name}");
            }
        }
    }
}

#[test]
fn a_command_of_the_user_replaces_the_agent_also_in_the_controller() {
    let case = case(FULL);
    for (pod_name, pod) in pods(&case).iter().filter(|(name, _)| !name.starts_with("full-00")) {
        let main = &pod.containers[0];
        assert_eq!(main.command, Some(vec!["/usr/bin/program".into()]), "{pod_name}");
        assert_eq!(main.args, Some(vec!["--verbose".into()]), "{pod_name}");
        assert_eq!(main.startup_probe, None, "the agent is not there to be asked");
    }
}

#[test]
fn nothing_of_ours_kills_a_container_that_is_slow() {
    for name in [SMALL, CPU, GPU] {
        for (pod_name, pod) in pods(&case(name)) {
            for container in containers(&pod).skip(1) {
                assert_eq!(container.liveness_probe, None, "{name} {pod_name} {}", container.name);
                let startup = container.startup_probe.as_ref().unwrap();
                assert_eq!(startup.failure_threshold, Some(i32::MAX), "{name} {pod_name} {}", container.name);
                assert!(container.readiness_probe.is_some());
            }
        }
    }
}

#[test]
fn probes_of_the_user_replace_ours() {
    for (pod_name, pod) in pods(&case(FULL)) {
        let main = &pod.containers[0];
        for probe in [&main.liveness_probe, &main.readiness_probe] {
            assert!(probe.as_ref().unwrap().tcp_socket.is_some(), "{pod_name}");
        }
    }
}

#[test]
fn munge_starts_before_the_daemon_and_ends_after_it() {
    for name in ALL {
        for (pod_name, pod) in slurm_pods(&case(name)) {
            let munge = pod.init_containers.iter().flatten().find(|container| container.name == "munge");
            let needs_munge = !pod_name.ends_with("-rest") && !pod_name.ends_with("-acct-db");
            assert_eq!(munge.is_some(), needs_munge, "{name} {pod_name}");
            assert!(munge.is_none_or(|munge| munge.restart_policy.as_deref() == Some("Always")));
        }
    }
}

#[test]
fn no_change_of_files_keys_or_workers_restarts_a_pod() {
    for name in ALL {
        let mut case = case(name);
        let before = templates(&case);
        let worker = WorkerFacts { line: Some(Vec::new()), ..WorkerFacts::new("gpu-0".parse().unwrap()) };
        let facts: Facts = case.facts.clone();
        case.facts = Facts { database_password: Some(Secret::from(b"other".to_vec())), ..facts };
        case.facts.topology = Some("SwitchName=other".into());
        case.facts.more_configs.insert("job_submit.lua".into(), "-- text".into());
        case.facts.node_sets.entry("gpu".into()).or_default().workers.push(worker);
        assert_eq!(templates(&case), before, "{name}");
        case.cluster.spec.custom_slurm_config = Some("SchedulerParameters=bf_continue".into());
        case.cluster.spec.slurm_nodes.login.ssh_root_public_keys = vec!["ssh-ed25519 AAAA other".into()];
        assert_eq!(templates(&case), before, "{name}");
    }
}

#[test]
fn init_containers_of_the_user_run_after_ours_and_find_their_volumes() {
    let mut case = case(SMALL);
    let init = json!({
        "name": "prepare", "image": "soperator.local/slurm", "volumeMounts": [{ "name": "jail", "mountPath": "/jail" }],
    });
    case.cluster.spec.slurm_nodes.controller.pod.custom_init_containers =
        Some(vec![serde_json::from_value(init).unwrap()]);
    let set = case.value("StatefulSet", "slurm1-controller");
    let pod = &set["spec"]["template"]["spec"];
    let names: Vec<&str> =
        pod["initContainers"].as_array().unwrap().iter().map(|it| it["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["agent", "munge", "prepare"]);
    let volumes = pod["volumes"].as_array().unwrap();
    assert!(volumes.iter().any(|volume| volume["name"] == "jail"), "{volumes:#?}");
    // slurmctld itself cannot write to it.
    let mounts = pod["containers"][0]["volumeMounts"].as_array().unwrap();
    let jail = mounts.iter().find(|mount| mount["mountPath"] == "/mnt/jail").unwrap();
    assert_eq!(jail["readOnly"], true);
}

#[test]
fn root_in_a_login_pod_or_in_a_job_cannot_ask_kubernetes_for_anything() {
    for name in ALL {
        for (pod_name, pod) in slurm_pods(&case(name)) {
            let is_users = pod.service_account_name.as_deref() == Some("slurmctld");
            assert_eq!(
                pod.automount_service_account_token,
                (!is_users).then_some(false),
                "{name} {pod_name}"
            );
        }
    }
}

#[test]
fn only_pods_that_mount_file_systems_are_privileged() {
    for name in ALL {
        for (pod_name, pod) in pods(&case(name)) {
            let privileged: BTreeSet<&str> = containers(&pod)
                .filter(|container| {
                    container
                        .security_context
                        .as_ref()
                        .is_some_and(|context| context.privileged == Some(true))
                })
                .map(|container| container.name.as_str())
                .collect();
            let expected = match pod.containers[0].name.as_str() {
                main @ ("sshd" | "slurmd") => BTreeSet::from([main]),
                _ => BTreeSet::new(),
            };
            assert_eq!(privileged, expected, "{name} {pod_name}");
        }
    }
}

#[test]
fn every_mount_has_its_volume_and_every_path_is_there_once() {
    for name in ALL {
        let validated = case(name).validated();
        let mut all = pods(&case(name));
        for node_set in case(name).all_node_sets() {
            let template = render::worker_template(&validated, &node_set).unwrap();
            all.push((template.pod_name(7), template.pod(7).spec.unwrap()));
        }
        for (pod_name, pod) in all {
            let claims = claims_of(&case(name), &pod_name);
            let mut volumes: Vec<String> =
                pod.volumes.iter().flatten().map(|volume| volume.name.clone()).chain(claims).collect();
            volumes.sort();
            let distinct: BTreeSet<&String> = volumes.iter().collect();
            assert_eq!(distinct.len(), volumes.len(), "{name} {pod_name}: {volumes:?}");
            for container in containers(&pod) {
                let mounts: Vec<_> = container.volume_mounts.iter().flatten().collect();
                let paths: BTreeSet<_> = mounts.iter().map(|mount| &mount.mount_path).collect();
                assert_eq!(paths.len(), mounts.len(), "{name} {pod_name} {}", container.name);
                for mount in mounts {
                    assert!(
                        distinct.contains(&mount.name),
                        "{name} {pod_name}: {} has no volume",
                        mount.name
                    );
                }
            }
        }
    }
}

/// The claim templates of a StatefulSet.
fn claims_of(case: &Case, name: &str) -> Vec<String> {
    let Some(set) = case.find("StatefulSet", name) else { return Vec::new() };
    let claims: Value = set.to_value()["spec"]["volumeClaimTemplates"].clone();
    let names = claims.as_array().into_iter().flatten();
    names.map(|claim| claim["metadata"]["name"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn daemons_ask_sssd_beside_them_where_the_user_wants_it() {
    for (pod_name, pod) in pods(&case(FULL)) {
        let sssd = pod.init_containers.iter().flatten().find(|container| container.name == "sssd");
        let wanted = ["full-controller", "full-login", "full-000"].contains(&pod_name.as_str());
        assert_eq!(sssd.is_some(), wanted, "{pod_name}");
        let Some(sssd) = sssd else { continue };
        let paths = |container: &Container| -> BTreeSet<String> {
            container.volume_mounts.iter().flatten().map(|mount| mount.mount_path.clone()).collect()
        };
        assert!(paths(sssd).contains("/etc/sssd") && paths(sssd).contains("/mnt/ldapCA"), "{pod_name}");
        assert!(paths(&pod.containers[0]).contains("/var/lib/sss/pipes"), "{pod_name}");
    }
}
