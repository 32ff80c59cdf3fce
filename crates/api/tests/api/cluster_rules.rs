//! Bad SlurmClusters, as in [`crate::rules`].

use anyhow::Result;
use serde_json::{Value, json};

use crate::manifests::{self, with};
use crate::rules::{keep, refuse};
use crate::server::Server;

#[tokio::test]
async fn slurm_clusters() -> Result<()> {
    let partition = |refs: &[&str]| json!({ "configType": "structured", "partitions": [{ "name": "main", "nodeSetRefs": refs }] });
    refuse(
        "rules-cluster",
        manifests::slurm_cluster(),
        vec![
            ("/metadata/name", json!("1st"), &["metadata.name", "choose another name"]),
            ("/spec/populateJail", Value::Null, &["spec.populateJail", "Required"]),
            ("/spec/k8sNodeFilters", json!([]), &["spec.k8sNodeFilters", "at least 1 items"]),
            ("/spec/k8sNodeFilters/0/name", json!(""), &["spec.k8sNodeFilters[0].name", "at least 1 char"]),
            (
                "/spec/k8sNodeFilters",
                json!([{ "name": "a" }, { "name": "a" }]),
                &["spec.k8sNodeFilters[1]", "Duplicate value"],
            ),
            (
                "/spec/volumeSources",
                json!([{ "name": "a" }, { "name": "a" }]),
                &["spec.volumeSources[1]", "Duplicate value"],
            ),
            ("/spec/secrets", Value::Null, &["spec.secrets", "Required"]),
            ("/spec/clusterType", json!("tpu"), &["spec.clusterType", "\"gpu\", \"cpu\""]),
            ("/spec/maintenance", json!("yes"), &["spec.maintenance", "\"downscale\""]),
            ("/spec/cgroupVersion", json!("v3"), &["spec.cgroupVersion", "\"v1\", \"v2\""]),
            (
                "/spec/partitionConfiguration",
                partition(&["gpu"]),
                &["spec.slurmNodes.worker.size", "move these workers to a NodeSet"],
            ),
            (
                "/spec/partitionConfiguration",
                json!({ "configType": "structured" }),
                &["spec.partitionConfiguration.partitions", "at least one entry"],
            ),
            (
                "/spec/partitionConfiguration",
                json!({ "configType": "custom", "rawConfig": ["NodeName=x"] }),
                &["spec.partitionConfiguration.rawConfig[0]", "must begin with PartitionName"],
            ),
            (
                "/spec/partitionConfiguration",
                json!({ "configType": "own" }),
                &["spec.partitionConfiguration.configType", "\"structured\""],
            ),
            ("/spec/slurmConfig", json!({ "maxJobCount": "many" }), &["spec.slurmConfig.maxJobCount", "integer"]),
            (
                "/spec/plugStackConfig",
                json!({ "pyxis": { "containerImageSave": "/no/slash" } }),
                &["spec.plugStackConfig.pyxis.containerImageSave", "must end with '/'"],
            ),
            (
                "/spec/plugStackConfig",
                json!({ "ncclDebug": { "logLevel": "ALL" } }),
                &["spec.plugStackConfig.ncclDebug.logLevel", "\"TRACE\""],
            ),
            ("/spec/topology", json!({ "blockSize": 0 }), &["spec.topology.blockSize", "greater than or equal to 1"]),
            (
                "/spec/sConfigController",
                json!({ "reconfigureWaitTimeout": "10s" }),
                &["spec.sConfigController.reconfigureWaitTimeout", "longer than reconfigurePollInterval"],
            ),
            (
                "/spec/sConfigController",
                json!({ "reconfigurePollInterval": "10" }),
                &["spec.sConfigController.reconfigurePollInterval", "should match"],
            ),
            (
                "/spec/healthCheckConfig",
                json!({ "healthCheckInterval": 1, "healthCheckProgram": "/p", "healthCheckNodeState": [] }),
                &["spec.healthCheckConfig.healthCheckNodeState", "at least 1 items"],
            ),
            (
                "/spec/healthCheckConfig",
                json!({ "healthCheckInterval": 1, "healthCheckProgram": "/p", "healthCheckNodeState": [{ "state": "UP" }] }),
                &["healthCheckNodeState[0].state", "\"IDLE\""],
            ),
            ("/spec/workerFeatures", json!([{ "name": "a" }]), &["spec.workerFeatures[0].hostlistExpr", "Required"]),
        ],
    )
    .await
}

#[tokio::test]
async fn parts_of_slurm_clusters() -> Result<()> {
    refuse(
        "rules-parts",
        manifests::slurm_cluster(),
        vec![
            ("/spec/slurmNodes/controller", Value::Null, &["spec.slurmNodes.controller", "Required"]),
            (
                "/spec/slurmNodes/controller/volumes/spool",
                json!({}),
                &["spec.slurmNodes.controller.volumes.spool", "exactly one of volumeSourceName"],
            ),
            (
                "/spec/slurmNodes/controller/volumes/jail",
                json!({ "volumeSourceName": "jail", "volumeClaimTemplateSpec": {} }),
                &["spec.slurmNodes.controller.volumes.jail", "exactly one of volumeSourceName"],
            ),
            (
                "/spec/slurmNodes/login/volumes/jailSubMounts",
                json!([{ "name": "a", "mountPath": "/a" }]),
                &["spec.slurmNodes.login.volumes.jailSubMounts[0]", "exactly one of volumeSourceName"],
            ),
            (
                "/spec/slurmNodes/login/volumes/customMounts",
                json!([
                    { "name": "a", "mountPath": "/a", "volumeSourceName": "a" },
                    { "name": "b", "mountPath": "/a", "volumeSourceName": "b" },
                ]),
                &["spec.slurmNodes.login.volumes.customMounts[1]", "Duplicate value"],
            ),
            (
                "/spec/slurmNodes/login/sshdServiceType",
                json!("ClusterIP"),
                &["spec.slurmNodes.login.sshdServiceType", "\"LoadBalancer\", \"NodePort\""],
            ),
            (
                "/spec/slurmNodes/login/sshdServiceNodePort",
                json!(22),
                &["spec.slurmNodes.login.sshdServiceNodePort", "between 30000 and 32768"],
            ),
            ("/spec/slurmNodes/login/sshRootPublicKeys", Value::Null, &["sshRootPublicKeys", "Required"]),
            (
                "/spec/slurmNodes/login/size",
                json!(-1),
                &["spec.slurmNodes.login.size", "greater than or equal to 0"],
            ),
            (
                "/spec/slurmNodes/login/sshd/image",
                Value::Null,
                &["spec.slurmNodes.login.sshd.image", "Required"],
            ),
            (
                "/spec/slurmNodes/login/sshd/imagePullPolicy",
                json!("Sometimes"),
                &["spec.slurmNodes.login.sshd.imagePullPolicy", "\"IfNotPresent\""],
            ),
            (
                "/spec/slurmNodes/login/sshd/port",
                json!(70000),
                &["spec.slurmNodes.login.sshd.port", "less than or equal to 65535"],
            ),
            (
                "/spec/slurmNodes/accounting/mariadbOperator",
                json!({ "enabled": true }),
                &["spec.slurmNodes.accounting.mariadbOperator.image", "Required"],
            ),
            (
                "/spec/slurmNodes/exporter/exporter",
                json!({ "podTemplateNameRef": "t" }),
                &["spec.slurmNodes.exporter.exporter.image", "Required"],
            ),
            (
                "/spec/slurmNodes/exporter/munge",
                json!({}),
                &["spec.slurmNodes.exporter.munge.image", "Required"],
            ),
            (
                "/spec/slurmNodes/login/userIsolation",
                json!({ "memoryHigh": "2Gi" }),
                &["spec.slurmNodes.login.userIsolation", "both memoryHigh and memoryMax"],
            ),
            (
                "/spec/plugStackConfig",
                json!({ "ncclInspectorPreConf": { "dumpDirectory": "/x" } }),
                &["unknown field \"spec.plugStackConfig.ncclInspectorPreConf.dumpDirectory\""],
            ),
            (
                "/spec/slurmNodes/login/sshd/procMount",
                json!("None"),
                &["spec.slurmNodes.login.sshd.procMount", "\"Unmasked\""],
            ),
            (
                "/spec/slurmNodes/worker/maxUnavailable",
                json!("20"),
                &["spec.slurmNodes.worker.maxUnavailable", "such as 20%"],
            ),
            (
                "/spec/slurmNodes/worker/cgroupVersion",
                json!("2"),
                &["spec.slurmNodes.worker.cgroupVersion", "\"v2\""],
            ),
            (
                "/spec/slurmNodes/rest/threadCount",
                json!(1),
                &["spec.slurmNodes.rest.threadCount", "equal to 2"],
            ),
            (
                "/spec/slurmNodes/rest/threadCount",
                json!(1025),
                &["spec.slurmNodes.rest.threadCount", "equal to 1024"],
            ),
            (
                "/spec/slurmNodes/rest/maxConnections",
                json!(1),
                &["spec.slurmNodes.rest.maxConnections", "equal to 2"],
            ),
            (
                "/spec/slurmNodes/exporter/collectionInterval",
                json!("often"),
                &["spec.slurmNodes.exporter.collectionInterval", "should match"],
            ),
            (
                "/spec/slurmNodes/exporter/jobSource",
                json!("files"),
                &["spec.slurmNodes.exporter.jobSource", "\"controller\", \"accounting\""],
            ),
            (
                "/spec/slurmNodes/accounting/enabled",
                json!(true),
                &["spec.slurmNodes.accounting.slurmdbd", "needs slurmdbd.image"],
            ),
            (
                "/spec/slurmNodes/accounting/externalDB",
                json!({ "enabled": true }),
                &["spec.slurmNodes.accounting.externalDB.host", "needs host"],
            ),
            (
                "/spec/slurmNodes/accounting/slurmdbdConfig",
                json!({ "archiveJobs": "maybe" }),
                &["slurmdbdConfig.archiveJobs", "\"yes\", \"no\""],
            ),
            (
                "/spec/slurmNodes/accounting/slurmdbdConfig",
                json!({ "debugLevel": "loud" }),
                &["slurmdbdConfig.debugLevel", "\"verbose\""],
            ),
            (
                "/spec/slurmNodes/accounting/slurmdbdConfig",
                json!({ "debugFlags": "ALL" }),
                &["slurmdbdConfig.debugFlags", "\"DB_JOB\""],
            ),
            (
                "/spec/slurmNodes/accounting/slurmdbdConfig",
                json!({ "tcpTimeout": 40000 }),
                &["slurmdbdConfig.tcpTimeout", "32767"],
            ),
            (
                "/spec/slurmNodes/accounting/slurmConfig",
                json!({ "accountingStorageTRES": "CPU,Water" }),
                &["slurmConfig.accountingStorageTRES", "should match"],
            ),
            (
                "/spec/slurmNodes/accounting/slurmConfig",
                json!({ "jobAcctGatherType": "none" }),
                &["slurmConfig.jobAcctGatherType", "\"jobacct_gather/none\""],
            ),
            (
                "/spec/slurmNodes/accounting/slurmConfig",
                json!({ "jobAcctGatherParams": "x" }),
                &["slurmConfig.jobAcctGatherParams", "\"UsePss\""],
            ),
        ],
    )
    .await
}

#[tokio::test]
async fn the_protected_secret_stays_as_it_is() -> Result<()> {
    let manifest = with(
        manifests::slurm_cluster(),
        "/spec/slurmNodes/accounting/mariadbOperator",
        json!({ "image": "mariadb", "protectedSecret": true }),
    );
    let patch = json!({ "spec": { "slurmNodes": { "accounting": { "mariadbOperator": { "protectedSecret": false } } } } });
    keep(
        "keep-secret",
        manifest,
        patch,
        &["spec.slurmNodes.accounting.mariadbOperator.protectedSecret", "make a new cluster"],
    )
    .await
}

#[tokio::test]
async fn workers_and_node_sets_go_together_when_there_are_no_workers() -> Result<()> {
    let server = Server::new("both").await?;
    let manifest = with(manifests::slurm_cluster(), "/spec/slurmNodes/worker/size", json!(0));
    let manifest = with(
        manifest,
        "/spec/partitionConfiguration",
        json!({ "configType": "structured", "partitions": [{ "name": "main", "nodeSetRefs": ["gpu"] }] }),
    );
    server.created(&manifest).await?;
    Ok(())
}

/// Odd, but the original takes them.
#[tokio::test]
async fn what_the_original_accepts_is_accepted() -> Result<()> {
    let server = Server::new("odd").await?;
    let changes = [
        ("/spec/partitionConfiguration", json!({ "configType": "custom" })),
        (
            "/spec/partitionConfiguration",
            json!({ "partitions": [{ "name": "a", "isAll": true, "nodeSetRefs": [] }] }),
        ),
        // Its chart writes no user, and clusters with an external database need both.
        (
            "/spec/slurmNodes/accounting",
            json!({
                "k8sNodeFilterName": "all", "mariadbOperator": { "enabled": true, "image": "m" },
                "externalDB": { "enabled": true, "host": "h" },
            }),
        ),
    ];
    for (number, (pointer, value)) in changes.into_iter().enumerate() {
        let manifest = with(manifests::slurm_cluster(), pointer, value);
        server.created(&with(manifest, "/metadata/name", json!(format!("odd-{number}")))).await?;
    }
    Ok(())
}
