//! What is written when.

use api::nebius::slurm_cluster::{PartitionConfigType, PlugStackConfig};
use render::NodeSetFacts;
use serde_json::json;

use crate::cases::{CPU, Case, DEFAULT, FULL, GPU, case, worker};

fn lines<'a>(text: &'a str, key: &str) -> Vec<&'a str> {
    text.lines().filter(|line| line.strip_prefix(key).is_some_and(|rest| rest.starts_with('='))).collect()
}

fn with_workers(name: &str, workers: Vec<render::WorkerFacts>) -> Case {
    let mut case = case(name);
    let set = format!("{}-worker", case.cluster.metadata.name.as_deref().unwrap_or_default());
    case.facts.node_sets.insert(set, NodeSetFacts { workers, ..NodeSetFacts::default() });
    case
}

#[test]
fn what_the_user_sets_is_not_set_twice() {
    let mut case = case(CPU);
    let custom = "killwait=7\nPartitionName=more Nodes=ALL\nSlurmctldParameters=enable_configless";
    case.cluster.spec.custom_slurm_config = Some(custom.into());
    let conf = case.slurm_conf();
    assert_eq!(lines(&conf, "KillWait"), Vec::<&str>::new());
    assert_eq!(lines(&conf, "SlurmctldParameters"), Vec::<&str>::new());
    assert_eq!(lines(&conf, "PartitionName").len(), 2, "partitions of the user come on top");
    assert!(conf.ends_with("include custom_slurm.conf\n"));
    assert_eq!(case.files()["custom_slurm.conf"], format!("# CUSTOM SLURM CONFIG\n{custom}\n"));
}

#[test]
fn a_node_has_a_line_as_long_as_its_pod_exists_and_not_before_it_has_an_address() {
    let mut case = case(FULL);
    let set = case.facts.node_sets.get_mut("gpu").unwrap();
    set.workers.push(worker("gpu-2", Some("CPUs=4")));
    set.workers[2].address = None;
    set.workers[1].registered = false;
    let conf = case.slurm_conf();
    assert_eq!(
        lines(&conf, "NodeName"),
        [
            "NodeName=gpu-0 NodeHostname=gpu-0 NodeAddr=10.0.0.7 CPUs=16 RealMemory=64000 Gres=gpu:8 Feature=h100",
            "NodeName=gpu-1 NodeHostname=gpu-1 NodeAddr=10.0.0.7 CPUs=16 RealMemory=64000 Gres=gpu:8 Feature=h100",
        ]
    );
    assert_eq!(lines(&conf, "NodeSet"), ["NodeSet=gpu Feature=gpu Nodes=gpu-[0-1]"]);
    // The spec of the cluster has no say in it: pods that were made with a line keep it.
    case.cluster.spec.partition_configuration.config_type = PartitionConfigType::Default;
    assert_eq!(lines(&case.slurm_conf(), "NodeName").len(), 2);
}

#[test]
fn a_partition_waits_for_a_node_set_that_is_not_there() {
    let mut case = case(FULL);
    case.facts.node_sets.clear();
    let conf = case.slurm_conf();
    assert!(conf.contains("# WARNING: partition gpu waits for NodeSet gpu, which is not there\n"), "{conf}");
    assert!(conf.contains("PartitionName=gpu Nodes=\"\" MaxTime=24:00:00\n"), "{conf}");
    assert!(conf.contains("PartitionName=main Nodes=ALL Default=YES"), "{conf}");
}

#[test]
fn a_node_that_registers_itself_is_in_the_topology_once_slurm_has_it() {
    let mut workers = vec![worker("worker-0", None), worker("worker-1", None)];
    workers[1].registered = false;
    let mut case = with_workers(CPU, workers);
    assert_eq!(case.files()["topology.conf"], "SwitchName=unknown Nodes=worker-0\n");
    assert_eq!(lines(&case.slurm_conf(), "NodeName"), Vec::<&str>::new());
    case.facts.node_sets.clear();
    assert_eq!(case.files()["topology.conf"], "SwitchName=unknown Nodes=none\n");
    case.facts.topology = Some("SwitchName=s Nodes=worker-0\n".into());
    assert_eq!(case.files()["topology.conf"], "SwitchName=s Nodes=worker-0\n");
    case.cluster.spec.slurm_config.topology_plugin = "topology/flat".into();
    assert_eq!(case.files().get("topology.conf"), None, "left to the user");
}

#[test]
fn blocks_wait_for_their_first_node() {
    let mut case = case(FULL);
    assert_eq!(case.files()["topology.conf"], "BlockName=unknown Nodes=gpu-[0-1]\nBlockSizes=2\n");
    assert_eq!(lines(&case.slurm_conf(), "TopologyPlugin"), ["TopologyPlugin=topology/block"]);
    assert!(case.validated().static_nodes);
    case.facts.node_sets.clear();
    assert_eq!(case.files().get("topology.conf"), None);
    assert_eq!(lines(&case.slurm_conf(), "TopologyPlugin"), Vec::<&str>::new());
}

#[test]
fn gpus_are_looked_for_where_a_worker_has_one() {
    for (name, gpu) in [(DEFAULT, false), (CPU, false), (GPU, true), (FULL, true)] {
        let case = case(name);
        assert_eq!(case.slurm_conf().contains("GresTypes=gpu\n"), gpu, "{name}");
        assert_eq!(case.files()["gres.conf"].contains("AutoDetect=nvidia\n"), gpu, "{name}");
    }
    let gres = case(FULL).files().remove("gres.conf").unwrap();
    assert!(gres.contains("NodeName=gpu-[0-1] Name=gpu Type=h100 File=/dev/nvidia[0-7]\n"), "{gres}");
}

#[test]
fn gres_of_a_node_are_those_that_its_pod_was_made_with() {
    let mut case = case(FULL);
    let set = case.facts.node_sets.get_mut("gpu").unwrap();
    set.workers[1].gres =
        vec!["Name=gpu Type=h200 File=/dev/nvidia[0-7]".into(), "NodeName=all Name=x".into()];
    set.workers.push(worker("gpu-2", Some("CPUs=4")));
    let gres = case.files().remove("gres.conf").unwrap();
    assert_eq!(
        lines(&gres, "NodeName"),
        [
            "NodeName=gpu-0 Name=gpu Type=h100 File=/dev/nvidia[0-7]",
            "NodeName=gpu-1 Name=gpu Type=h200 File=/dev/nvidia[0-7]",
        ]
    );
}

#[test]
fn there_is_room_for_more_nodes_than_a_thousand() {
    let workers = (0..1500).map(|number| worker(&format!("worker-{number}"), None)).collect();
    assert_eq!(lines(&with_workers(CPU, workers).slurm_conf(), "MaxNodeCount"), ["MaxNodeCount=2048"]);
    assert_eq!(lines(&case(CPU).slurm_conf(), "MaxNodeCount"), ["MaxNodeCount=1024"]);
}

#[test]
fn keys_of_the_user_replace_ours_in_cgroup_conf() {
    let mut case = case(DEFAULT);
    case.cluster.spec.custom_cgroup_config = Some("constraincores=no\nMemorySwappiness=0".into());
    let text = &case.files()["cgroup.conf"];
    assert!(text.contains("constraincores=no\n") && !text.contains("ConstrainCores=yes"), "{text}");
    assert!(text.contains("ConstrainDevices=yes\n") && text.ends_with("MemorySwappiness=0\n"), "{text}");
}

#[test]
fn arguments_of_plugins_are_in_order() {
    let mut case = case(DEFAULT);
    let config: PlugStackConfig = serde_json::from_value(json!({
        "pyxis": { "required": false, "containerImageSave": "" },
        "customPlugins": [{ "path": "/a.so", "arguments": { "z": "1", "a": "2" } }],
    }))
    .unwrap();
    case.cluster.spec.plug_stack_config = config;
    assert_eq!(
        case.files()["plugstack.conf"],
        "required chroot.so /mnt/jail\n\
         optional spank_pyxis.so runtime_path=/run/pyxis execute_entrypoint=0 container_scope=global sbatch_support=1 \
         container_image_save=\n\
         optional spanknccldebug.so enabled=0 log-level=INFO out-file=1 out-dir=/opt/soperator-outputs/nccl_logs \
         out-stdout=0\n\
         optional /a.so a=2 z=1\n"
    );
}

#[test]
fn files_of_others_join_the_set_and_never_replace_ours() {
    let mut case = case(DEFAULT);
    let before = render::config_hash(&case.validated(), &case.facts);
    case.facts.more_configs.insert("job_submit.lua".into(), "-- text".into());
    case.facts.more_configs.insert("slurm.conf".into(), "SlurmUser=nobody".into());
    case.facts.more_configs.insert("prolog.d/10.bin".into(), vec![0xff, 0]);
    case.facts.more_configs.insert("no key/ä".into(), "x".into());
    let set = render::effective_set(&case.validated(), &case.facts).unwrap();
    assert_eq!(set["job_submit.lua"], b"-- text");
    assert!(set["slurm.conf"].starts_with(b"ClusterName=default\n"));
    assert_eq!(set.get("no key/ä"), None, "no ConfigMap could carry it");
    assert_ne!(render::config_hash(&case.validated(), &case.facts), before);
    let objects = render::render(&case.validated(), &case.facts);
    let map = objects.iter().find_map(|rendered| match &rendered.object {
        render::Object::ConfigMap(map) if map.data.as_ref()?.contains_key("slurm.conf") => Some(map),
        _ => None,
    });
    let map = map.unwrap();
    assert_eq!(map.data.as_ref().unwrap()["job_submit.lua"], "-- text");
    assert_eq!(map.binary_data.as_ref().unwrap()["prolog.d..10.bin"].0, [0xff, 0]);
}

fn slurmdbd_conf(case: &Case) -> Option<String> {
    case.all_files().into_iter().find(|(name, _)| name.ends_with("/slurmdbd.conf")).map(|(_, text)| text)
}

#[test]
fn slurmdbd_conf_waits_for_the_password_and_takes_any_that_can_be_written() {
    let mut case = case(CPU);
    assert!(slurmdbd_conf(&case).unwrap().contains("StoragePass=pass\\#word\n"));
    case.facts.database_password = Some(slurm::Secret::from("with\nSlurmUser=nobody".to_owned()));
    assert_eq!(slurmdbd_conf(&case), None);
    case.facts.database_password = Some(slurm::Secret::from("a b\n".to_owned()));
    assert!(slurmdbd_conf(&case).unwrap().contains("StoragePass=\"a b\"\n"));
    case.facts.database_password = None;
    assert_eq!(slurmdbd_conf(&case), None);
}

#[test]
fn an_external_database_may_want_no_password_and_its_certificates_are_named() {
    let mut case = case(FULL);
    let text = slurmdbd_conf(&case).unwrap();
    let parameters = "StorageParameters=SSL_CA=/mnt/slurmdbd-ssl-ca-cert/ca.crt,\
                      SSL_CERT=/mnt/slurmdbd-ssl-client-key/tls.crt,SSL_CIPHER=ECDHE-RSA-AES256-GCM-SHA384,\
                      SSL_KEY=/mnt/slurmdbd-ssl-client-key/tls.key\n";
    assert!(text.contains(parameters), "{text}");
    case.facts.database_password = None;
    assert_eq!(slurmdbd_conf(&case), None, "it names a Secret that is not there");
    let external = case.cluster.spec.slurm_nodes.accounting.external_db.as_mut().unwrap();
    external.password_secret_key_ref = None;
    external.port = 0;
    let text = slurmdbd_conf(&case).unwrap();
    assert!(!text.contains("StoragePass") && text.contains("StoragePort=3306\n"), "{text}");
}
