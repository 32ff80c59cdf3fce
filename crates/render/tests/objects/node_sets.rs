//! Workers.

use std::collections::BTreeMap;

use api::nebius::NodeSet;
use api::nebius::slurm_cluster::{PartitionConfigType, ProcMount};
use k8s_openapi::api::core::v1::Pod;
use render::labels;
use slurm::conf::user_pairs;

use crate::cases::{CLAIMS, CPU, Case, FULL, GPU, SMALL, case};

/// The NodeSet of a case: that of the user, or else the one that stands for a section of the cluster.
fn only(case: &Case) -> NodeSet {
    case.all_node_sets().pop().unwrap()
}

fn pod(case: &Case, ordinal: u32) -> Pod {
    let validated = case.validated();
    let node_set = only(case);
    render::worker_template(&validated, &node_set).unwrap().pod(ordinal)
}

fn env(pod: &Pod) -> BTreeMap<String, String> {
    let container = &pod.spec.as_ref().unwrap().containers[0];
    let variables = container.env.iter().flatten();
    variables.map(|var| (var.name.clone(), var.value.clone().unwrap_or_default())).collect()
}

fn line(pod: &Pod) -> Option<&str> {
    pod.metadata.annotations.as_ref()?.get(labels::NODE_LINE).map(String::as_str)
}

#[test]
fn workers_of_a_cluster_are_pods_with_its_name_and_nodes_without() {
    let pod = pod(&case(CPU), 2);
    assert_eq!(pod.metadata.name.as_deref(), Some("cpu-worker-2"));
    let spec = pod.spec.as_ref().unwrap();
    assert_eq!(spec.hostname.as_deref(), Some("worker-2"));
    assert_eq!(spec.subdomain.as_deref(), Some("cpu-worker-svc"));
    assert_eq!(env(&pod)["SOPERATOR_NODE_NAME"], "worker-2");
    // So that it has a DNS name under the Service, which programs of the original's images put together of these.
    assert_eq!(env(&pod)["K8S_POD_NAME"], "worker-2");
    assert_eq!(env(&pod)["K8S_SERVICE_NAME"], "cpu-worker-svc");
}

#[test]
fn workers_of_a_users_node_set_have_its_name_everywhere() {
    let mut case = case(SMALL);
    let first = pod(&case, 1);
    assert_eq!(first.metadata.name.as_deref(), Some("gpu-1"));
    let spec = first.spec.as_ref().unwrap();
    assert_eq!(spec.hostname.as_deref(), Some("gpu-1"));
    assert_eq!(spec.subdomain.as_deref(), Some("slurm1-nodeset-svc"));
    case.node_sets[0].spec.care.ordinal_padding = Some(3);
    assert_eq!(pod(&case, 1).metadata.name.as_deref(), Some("gpu-001"));
}

#[test]
fn a_worker_says_what_it_has_when_it_registers_itself() {
    let pod = pod(&case(CPU), 0);
    let env = env(&pod);
    assert_eq!(env["SOPERATOR_STATIC_NODE"], "false");
    assert_eq!(env["SLURM_REAL_MEMORY"], "256");
    assert_eq!(env["SLURM_FEATURE_fast"], "worker-[0-1]");
    assert_eq!(env["SLURM_FEATURE_cpu-worker"], "$(SOPERATOR_NODE_NAME)", "partitions refer to the set by it");
    let container = &pod.spec.as_ref().unwrap().containers[0];
    let place = |name: &str| container.env.iter().flatten().position(|var| var.name == name).unwrap();
    assert!(
        place("SOPERATOR_NODE_NAME") < place("SLURM_FEATURE_cpu-worker"),
        "the kubelet knows the variables before"
    );
    assert_eq!(env["SLURM_NODE_EXTRA"], r#"{"instance": "${INSTANCE_ID}"}"#);
    assert_eq!(env["SLURM_CLUSTER_TYPE"], "cpu");
    assert_eq!(env["SOPERATOR_CONF_SERVER"], "cpu-controller-svc.slurm.svc.cluster.local:6817");
    assert!(!env.contains_key("CGROUP_V2"), "its nodes have version 1");
    assert_eq!(line(&pod), None);
}

#[test]
fn a_worker_with_a_line_in_slurm_conf_carries_it() {
    let small = pod(&case(SMALL), 0);
    assert_eq!(env(&small)["SOPERATOR_STATIC_NODE"], "true");
    assert_eq!(line(&small), Some("CPUs=156 RealMemory=1249280 Gres=gpu:8"));
    // What the user wrote wins. SlurmdPort of this cluster is another.
    let full = pod(&case(FULL), 0);
    let expected = "Port=6818 RealMemory=1249280 Gres=gpu:8 Feature=h100,infiniband Sockets=2 CoresPerSocket=39 ThreadsPerCore=2";
    assert_eq!(line(&full), Some(expected));
    assert!(user_pairs("line", expected, &[]).is_ok());
}

#[test]
fn text_of_the_user_about_nodes_replaces_ours_key_by_key() {
    let mut case = case(SMALL);
    let spec = &mut case.node_sets[0].spec;
    spec.slurmd.port = Some(7000);
    let config = spec.node_config.get_or_insert_default();
    config.static_ = "gres=gpu:h100:8 Feature=a,b realmemory=1000 Weight=2".into();
    config.features = Some(vec!["b".into(), "c".into()]);
    let expected = "Port=7000 CPUs=156 Feature=b,c,a gres=gpu:h100:8 realmemory=1000 Weight=2";
    assert_eq!(line(&pod(&case, 0)), Some(expected));
    // The same of a node that registers itself, whose features are variables.
    case.cluster.spec.partition_configuration.config_type = PartitionConfigType::Default;
    let env = env(&pod(&case, 0));
    assert_eq!(env["SOPERATOR_NODE_CONF"], "Port=7000 gres=gpu:h100:8 realmemory=1000 Weight=2");
    for feature in ["a", "b", "c", "gpu"] {
        assert_eq!(env[&format!("SLURM_FEATURE_{feature}")], "$(SOPERATOR_NODE_NAME)");
    }
}

#[test]
fn features_by_host_list_are_in_the_lines_of_those_nodes() {
    let mut case = case(GPU);
    case.cluster.spec.slurm_config.topology_plugin = "topology/block".into();
    case.cluster.spec.worker_features = Some(
        serde_json::from_value(serde_json::json!([
            { "name": "fast", "hostlistExpr": "worker-[0-1],other" },
            { "name": "big", "hostlistExpr": "worker-1" },
        ]))
        .unwrap(),
    );
    let feature = |ordinal| {
        let pod = pod(&case, ordinal);
        let line = user_pairs("line", line(&pod).unwrap(), &[]).unwrap();
        line.into_iter().find(|(key, _)| key.as_str() == "Feature").map(|(_, value)| value.as_str().to_owned())
    };
    assert_eq!(feature(0).as_deref(), Some("fast"));
    assert_eq!(feature(1).as_deref(), Some("big,fast"));
    assert_eq!(feature(2), None);
}

#[test]
fn a_pod_of_an_older_revision_is_as_that_was_also_in_slurms_files() {
    let before = case(FULL);
    let (validated, set) = (before.validated(), only(&before));
    let old = render::worker_template(&validated, &set).unwrap();
    let mut after = case(FULL);
    let spec = &mut after.node_sets[0].spec;
    spec.slurmd.resources.insert("nvidia.com/gpu".into(), k8s_openapi::apimachinery::pkg::api::resource::Quantity("4".into()));
    spec.node_config.as_mut().unwrap().gres_config = Some(vec!["Name=gpu File=/dev/nvidia[0-3]".into()]);
    spec.slurmd.image.tag = Some("other".into());
    let (validated, set) = (after.validated(), only(&after));
    let new = render::worker_template(&validated, &set).unwrap();
    let gres = |pod: &Pod| pod.metadata.annotations.clone().unwrap_or_default().remove(labels::GRES_LINES);
    assert_eq!(gres(&new.pod(1)).as_deref(), Some("Name=gpu File=/dev/nvidia[0-3]"));
    assert!(line(&new.pod(1)).unwrap().contains("Gres=gpu:4"));

    let again = new.of_revision(&old.content()).unwrap();
    assert_eq!((again.pod(1), again.claims(1)), (old.pod(1), old.claims(1)));
    assert_eq!(again.content(), old.content());
    assert_ne!(new.content(), old.content());
    assert!(new.of_revision(&serde_json::json!({ "spec": {} })).is_none());
}

#[test]
fn a_worker_that_asks_for_whole_cpus_gets_them_for_itself() {
    for name in [SMALL, GPU] {
        let spec = pod(&case(name), 0).spec.unwrap();
        for container in spec.init_containers.iter().flatten().chain(&spec.containers) {
            let resources = container.resources.as_ref().unwrap();
            assert_eq!(resources.limits, resources.requests, "{name} {}", container.name);
            for resource in ["cpu", "memory"] {
                assert!(
                    resources.limits.as_ref().unwrap().contains_key(resource),
                    "{name} {}",
                    container.name
                );
            }
        }
    }
}

#[test]
fn munge_is_not_slowed_down_beside_a_worker_that_shares_cpus() {
    let spec = pod(&case(CPU), 0).spec.unwrap();
    for container in spec.init_containers.iter().flatten() {
        let limits = container.resources.as_ref().unwrap().limits.as_ref().unwrap();
        assert!(!limits.contains_key("cpu"), "{}", container.name);
    }
    let limits = spec.containers[0].resources.as_ref().unwrap().limits.as_ref().unwrap();
    assert!(limits.contains_key("cpu"), "slurmd is");
}

#[test]
fn only_workers_with_gpus_see_the_hosts_driver() {
    let paths = |case: &Case| -> Vec<String> {
        let spec = pod(case, 0).spec.unwrap();
        let mounts = spec.containers[0].volume_mounts.clone().unwrap();
        mounts.into_iter().map(|mount| mount.mount_path).collect()
    };
    for (name, expected) in [(CPU, false), (GPU, true), (SMALL, true)] {
        let paths = paths(&case(name));
        assert_eq!(paths.contains(&"/run/nvidia".to_owned()), expected, "{name}");
        assert_eq!(paths.contains(&"/boot".to_owned()), expected, "{name}");
    }
}

#[test]
fn jobs_may_run_on_after_somebody_wants_the_pod_to_end() {
    let spec = pod(&case(GPU), 0).spec.unwrap();
    assert_eq!(spec.termination_grace_period_seconds, Some(30 * 24 * 3600));
}

#[test]
fn each_worker_has_claims_of_its_own() {
    for (name, expected) in [
        (CPU, vec!["worker-spool-cpu-worker-1"]),
        (CLAIMS, vec!["jail-full-claims-worker-1", "worker-spool-full-claims-worker-1"]),
        (FULL, vec!["logs-full-001", "scratch-full-001"]),
    ] {
        let case = case(name);
        let validated = case.validated();
        let node_sets = case.all_node_sets();
        let node_set = node_sets.last().unwrap();
        let template = render::worker_template(&validated, node_set).unwrap();
        let claims: Vec<String> =
            template.claims(1).into_iter().map(|claim| claim.metadata.name.unwrap()).collect();
        assert_eq!(claims, expected, "{name}");
        let pod = template.pod(1).spec.unwrap();
        for claim in &expected {
            let uses = |volume: &k8s_openapi::api::core::v1::Volume| {
                volume.persistent_volume_claim.as_ref().is_some_and(|source| source.claim_name == *claim)
            };
            assert!(pod.volumes.iter().flatten().any(uses), "{name} {claim}");
        }
    }
}

#[test]
fn the_section_of_a_cluster_becomes_the_node_set_that_it_means() {
    let node_set = only(&case(GPU));
    assert_eq!(node_set.metadata.name.as_deref(), Some("slurm1-worker"));
    let spec = &node_set.spec;
    assert_eq!(spec.cluster_name.as_deref(), Some("slurm1"));
    assert_eq!(spec.replicas, 2);
    assert_eq!(spec.slurmd.image.repository, "example.com/worker_slurmd");
    assert_eq!(spec.slurmd.image.tag.as_deref(), Some("1.23.0"));
    assert!(spec.gpu.unwrap().enabled);
    assert!(!spec.enable_host_user_namespace);
    let pod = pod(&case(GPU), 0).spec.unwrap();
    assert_eq!(pod.host_users, Some(false));
    assert_eq!(pod.containers[0].image.as_deref(), Some("example.com/worker_slurmd:1.23.0"));
    assert_eq!(
        pod.containers[0].security_context.as_ref().unwrap().proc_mount.as_deref(),
        Some("Unmasked"),
        "as slurmd needs it, and as Kubernetes allows it with users of its own"
    );
}

#[test]
fn an_image_with_a_digest_stays_whole() {
    let mut case = case(GPU);
    let image = "registry.example:5000/slurmd:1@sha256:0123";
    case.cluster.spec.slurm_nodes.worker.as_mut().unwrap().slurmd.image = image.into();
    assert_eq!(only(&case).spec.slurmd.image.repository, image);
    assert_eq!(pod(&case, 0).spec.unwrap().containers[0].image.as_deref(), Some(image));
}

#[test]
fn what_a_node_set_cannot_say_comes_from_the_cluster() {
    let mut case = case(GPU);
    let worker = case.cluster.spec.slurm_nodes.worker.as_mut().unwrap();
    worker.slurmd.command = Some(vec!["/opt/start.sh".into()]);
    worker.slurmd.proc_mount = Some(ProcMount::Default);
    let container = &pod(&case, 0).spec.unwrap().containers[0];
    assert_eq!(container.command, Some(vec!["/opt/start.sh".into()]));
    assert_eq!(container.security_context.as_ref().unwrap().proc_mount.as_deref(), Some("Default"));
}

#[test]
fn a_section_with_problems_changes_no_worker() {
    let mut case = case(GPU);
    let node_set = only(&case);
    case.cluster.spec.slurm_nodes.worker.as_mut().unwrap().pod.k8s_node_filter_name = "nowhere".into();
    let validated = case.validated();
    assert!(render::worker_template(&validated, &node_set).is_none());
    assert!(render::node_set_objects(&validated, &node_set).is_empty());
}

#[test]
fn the_hash_of_workers_changes_with_all_that_a_worker_is() {
    let hash = |case: &Case| {
        let validated = case.validated();
        let node_set = only(case);
        render::worker_template(&validated, &node_set).unwrap().hash()
    };
    let before = hash(&case(SMALL));
    assert_eq!(hash(&case(SMALL)), before);
    let changes: [fn(&mut Case); 4] = [
        |case| case.node_sets[0].spec.slurmd.image.tag = Some("other".into()),
        |case| case.node_sets[0].spec.node_config.get_or_insert_default().static_ = "Weight=2".into(),
        |case| case.node_sets[0].spec.worker_annotations = Some([("a".into(), "b".into())].into()),
        |case| case.cluster.spec.use_default_app_armor_profile = true,
    ];
    for change in changes {
        let mut case = case(SMALL);
        change(&mut case);
        assert_ne!(hash(&case), before);
    }
    let mut other = case(SMALL);
    other.node_sets[0].spec.replicas = 7;
    other.node_sets[0].spec.max_unavailable =
        k8s_openapi::apimachinery::pkg::util::intstr::IntOrString::Int(1);
    other.cluster.spec.slurm_nodes.login.node.size = Some(9);
    assert_eq!(hash(&other), before, "how many there are is nothing that a worker is");
}

#[test]
fn node_sets_of_one_cluster_select_different_pods() {
    let mut one = case(SMALL);
    let mut other = one.node_sets[0].clone();
    other.metadata.name = Some("other".into());
    one.node_sets.push(other);
    let validated = one.validated();
    let templates: Vec<_> =
        one.node_sets.iter().map(|set| render::worker_template(&validated, set).unwrap()).collect();
    let labels = templates[0].pod(0).metadata.labels.unwrap();
    let selects = |selector: BTreeMap<String, String>| {
        selector.iter().all(|(key, value)| labels.get(key) == Some(value))
    };
    assert!(selects(templates[0].selector()));
    assert!(!selects(templates[1].selector()));
}
