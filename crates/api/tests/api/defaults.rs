//! What the API server fills in.

use anyhow::Result;
use serde_json::{Value, json};

use crate::manifests::{self, with};
use crate::server::Server;

fn at<'a>(object: &'a Value, pointer: &str) -> &'a Value {
    object.pointer(pointer).unwrap_or(&Value::Null)
}

#[tokio::test]
async fn a_cluster_gets_the_defaults_of_soperator_1_23() -> Result<()> {
    let server = Server::new("cluster-defaults").await?;
    let manifest = manifests::slurm_cluster();
    let manifest =
        with(manifest, "/spec/sConfigController", json!({ "node": { "k8sNodeFilterName": "all" } }));
    let manifest = with(manifest, "/spec/slurmNodes/accounting/externalDB", json!({}));
    let manifest = with(manifest, "/spec/slurmNodes/accounting/mariadbOperator", json!({ "image": "m" }));
    let manifest =
        with(manifest, "/spec/plugStackConfig", json!({ "customPlugins": [{ "path": "/usr/lib/x.so" }] }));
    let manifest = with(
        manifest,
        "/spec/partitionConfiguration",
        json!({ "configType": "structured", "partitions": [{ "name": "main" }] }),
    );
    let manifest = with(
        manifest,
        "/spec/slurmNodes/login/volumes/customMounts",
        json!([{ "name": "a", "mountPath": "/a", "volumeSourceName": "a" }]),
    );
    let spec = server.created(&manifest).await?["spec"].take();
    assert_eq!(
        spec["slurmConfig"],
        json!({
            "defMemPerNode": 1048576, "defCpuPerGPU": 4, "completeWait": 5, "epilog": "", "prolog": "",
            "taskPluginParam": "", "maxJobCount": 20000, "minJobAge": 28800, "messageTimeout": 60,
            "topologyPlugin": "topology/tree", "topologyParam": "SwitchAsNodeRank", "topologyBlockSize": 18,
        })
    );
    assert_eq!(
        spec["plugStackConfig"],
        json!({
            "pyxis": { "required": true, "containerImageSave": "/var/cache/enroot-container-images/" },
            "ncclDebug": {
                "required": false, "enabled": false, "logLevel": "INFO", "outputToFile": true,
                "outputToStdOut": false, "outputDirectory": "/opt/soperator-outputs/nccl_logs",
            },
            "customPlugins": [{ "required": false, "path": "/usr/lib/x.so" }],
        })
    );
    assert_eq!(
        spec["slurmNodes"]["accounting"]["slurmdbdConfig"],
        json!({
            "archiveEvents": "yes", "archiveJobs": "yes", "archiveResvs": "yes", "archiveSteps": "no",
            "archiveSuspend": "no", "archiveTXN": "no", "archiveUsage": "yes", "debugLevel": "info", "tcpTimeout": 2,
            "purgeEventAfter": "1month", "purgeJobAfter": "12month", "purgeResvAfter": "1month",
            "purgeStepAfter": "1month", "purgeSuspendAfter": "1month", "purgeTXNAfter": "12month",
            "purgeUsageAfter": "24month",
        })
    );
    assert_eq!(
        spec["slurmNodes"]["accounting"]["slurmConfig"],
        json!({
            "accountingStorageTRES": "CPU,Mem,Node,VMem,Gres/gpu", "jobAcctGatherType": "jobacct_gather/cgroup",
            "jobAcctGatherFrequency": 0, "priorityWeightAge": 0, "priorityWeightFairshare": 0, "priorityWeightQOS": 0,
        })
    );
    let expected = [
        ("/clusterType", json!("gpu")),
        ("/maintenance", json!("none")),
        ("/populateJail/imagePullPolicy", json!("IfNotPresent")),
        ("/populateJail/overwrite", json!(false)),
        ("/populateJail/appArmorProfile", json!("unconfined")),
        ("/partitionConfiguration/partitions/0/isAll", json!(false)),
        ("/mpiConfig/pmixEnv", json!("OMPI_MCA_btl_tcp_if_include=eth0")),
        ("/useDefaultAppArmorProfile", json!(false)),
        ("/sConfigController/reconfigurePollInterval", json!("20s")),
        ("/sConfigController/reconfigureWaitTimeout", json!("1m")),
        ("/slurmNodes/controller/slurmctld/imagePullPolicy", json!("IfNotPresent")),
        ("/slurmNodes/controller/slurmctld/appArmorProfile", json!("unconfined")),
        ("/slurmNodes/worker/hostUsers", json!(false)),
        ("/slurmNodes/worker/maxUnavailable", json!("20%")),
        ("/slurmNodes/worker/cgroupVersion", json!("v2")),
        ("/slurmNodes/worker/enableGDRCopy", json!(false)),
        ("/slurmNodes/worker/volumes/sharedMemorySize", json!("64Gi")),
        ("/slurmNodes/login/sshdServiceNodePort", json!(0)),
        ("/slurmNodes/login/volumes/customMounts/0/subPath", json!("")),
        ("/slurmNodes/login/volumes/customMounts/0/readOnly", json!(false)),
        ("/slurmNodes/accounting/enabled", json!(false)),
        ("/slurmNodes/accounting/externalDB/enabled", json!(false)),
        ("/slurmNodes/accounting/externalDB/port", json!(3306)),
        ("/slurmNodes/accounting/mariadbOperator/protectedSecret", json!(false)),
        ("/slurmNodes/accounting/mariadbOperator/metrics/enabled", json!(true)),
        ("/slurmNodes/rest/enabled", json!(false)),
        ("/slurmNodes/rest/threadCount", json!(3)),
        ("/slurmNodes/rest/maxConnections", json!(10)),
        ("/slurmNodes/exporter/enabled", json!(false)),
        ("/slurmNodes/exporter/collectionInterval", json!("30s")),
        ("/slurmNodes/exporter/podMonitorConfig/jobLabel", json!("slurm-exporter")),
        ("/slurmNodes/exporter/podMonitorConfig/interval", json!("30s")),
        ("/slurmNodes/exporter/podMonitorConfig/scrapeTimeout", json!("20s")),
    ];
    for (pointer, value) in expected {
        assert_eq!(at(&spec, pointer), &value, "{pointer}");
    }
    // What later versions added has no default: absent means what 1.23 does.
    for pointer in [
        "/topology",
        "/cgroupVersion",
        "/slurmConfig/suspendTime",
        "/plugStackConfig/pyxis/importerPath",
        "/slurmNodes/controller/openMetrics",
        "/slurmNodes/exporter/jobSource",
        "/slurmNodes/login/userIsolation",
    ] {
        assert_eq!(at(&spec, pointer), &Value::Null, "{pointer}");
    }
    Ok(())
}

#[tokio::test]
async fn node_sets_get_their_defaults() -> Result<()> {
    let server = Server::new("set-defaults").await?;
    let manifest = with(manifests::node_set(), "/spec/drainOnDelete", json!({}));
    let manifest = with(manifest, "/spec/gpu", json!({ "nvidia": {} }));
    let manifest = with(manifest, "/spec/nodeConfig", json!({}));
    let spec = server.created(&manifest).await?["spec"].take();
    for (pointer, value) in [
        ("/replicas", json!(1)),
        ("/maxUnavailable", json!("20%")),
        ("/enableHostUserNamespace", json!(false)),
        ("/workloadDisruptionProtection", json!(true)),
        ("/drainOnDelete", json!({ "enabled": true, "onDeadline": "wait" })),
        ("/slurmd/image/pullPolicy", json!("IfNotPresent")),
        ("/slurmd/cgroupVersion", json!("v2")),
        ("/slurmd/volumes/sharedMemorySize", json!("64Gi")),
        ("/gpu/enabled", json!(false)),
        ("/gpu/nvidia/gdrCopyEnabled", json!(false)),
        ("/nodeConfig", json!({ "static": "", "dynamic": "" })),
        ("/updateStrategy", Value::Null),
        ("/slurmd/port", Value::Null),
        ("/ephemeralNodes", Value::Null),
    ] {
        assert_eq!(at(&spec, pointer), &value, "{pointer}");
    }
    let mut made = server.created(&manifests::slinky_node_set()).await?;
    let spec = made["spec"].take();
    for (pointer, value) in [
        ("/replicas", json!(1)),
        ("/revisionHistoryLimit", json!(0)),
        ("/updateStrategy", json!({ "type": "RollingUpdate" })),
        ("/workloadDisruptionProtection", json!(true)),
        ("/persistentVolumeClaimRetentionPolicy", Value::Null),
    ] {
        assert_eq!(at(&spec, pointer), &value, "{pointer}");
    }
    Ok(())
}

#[tokio::test]
async fn the_other_kinds_get_their_defaults() -> Result<()> {
    let server = Server::new("other-defaults").await?;
    let spec = server.created(&manifests::node_configurator()).await?["spec"].take();
    assert_eq!(spec, json!({ "rebooter": { "enabled": true, "logLevel": "info" } }));
    let manifest = with(manifests::active_check(), "/spec/slurmJobSpec", json!({ "jobContainer": {} }));
    let spec = server.created(&manifest).await?["spec"].take();
    for (pointer, value) in [
        ("/schedule", json!("0 0 1 1 *")),
        ("/suspend", json!(true)),
        ("/activeDeadlineSeconds", json!(1800)),
        ("/successfulJobsHistoryLimit", json!(3)),
        ("/failedJobsHistoryLimit", json!(16)),
        ("/runAfterCreation", json!(true)),
        ("/checkType", json!("k8sJob")),
        ("/slurmJobSpec/eachWorkerJobs", json!(false)),
        ("/slurmJobSpec/maxNumberOfJobs", json!(0)),
        ("/slurmJobSpec/jobContainer/appArmorProfile", json!("unconfined")),
    ] {
        assert_eq!(at(&spec, pointer), &value, "{pointer}");
    }
    let spec = server.created(&manifests::topology_config()).await?["spec"].take();
    assert_eq!(
        spec,
        json!({
            "clusterName": "slurm1", "plugin": "tree",
            "nodeLabels": { "prefix": "topology.nebius.com", "blockTier": "tier-0" },
            "unknownSwitch": { "policy": "place", "name": "unknown" },
        })
    );
    Ok(())
}

#[tokio::test]
async fn nulls_that_other_programs_write_are_dropped() -> Result<()> {
    let server = Server::new("nulls").await?;
    let mut manifest = manifests::slinky_node_set();
    manifest["spec"]["template"]["metadata"]["creationTimestamp"] = Value::Null;
    manifest["spec"]["minReadySeconds"] = Value::Null;
    let spec = server.created(&manifest).await?["spec"].take();
    assert_eq!(spec["template"]["metadata"].get("creationTimestamp"), None);
    assert_eq!(spec.get("minReadySeconds"), None);
    Ok(())
}
