//! Nothing is lost between the API server and our types.

use anyhow::Result;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::manifests::{self, with};
use crate::server::Server;

/// The manifest as the API server gives it back, and as it comes out of our type.
async fn round_trip<K: DeserializeOwned + Serialize>(server: &Server, manifest: &Value) -> Result<()> {
    let read = server.created(manifest).await?;
    let typed: K = serde_json::from_value(read.clone())?;
    let written = serde_json::to_value(&typed)?;
    // Kubernetes writes managed fields with more detail than k8s-openapi's type keeps in order.
    assert_eq!(written["spec"], read["spec"], "{}", manifest["kind"]);
    assert_eq!(written["kind"], read["kind"]);
    assert_eq!(written["apiVersion"], read["apiVersion"]);
    assert_eq!(written["metadata"]["name"], read["metadata"]["name"]);
    Ok(())
}

fn probe() -> Value {
    json!({ "httpGet": { "path": "/livez", "port": "http" }, "periodSeconds": 5 })
}

fn tolerations() -> Value {
    json!([{ "key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule" }])
}

fn affinity() -> Value {
    json!({ "nodeAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": { "nodeSelectorTerms": [
        { "matchExpressions": [{ "key": "a", "operator": "In", "values": ["b"] }] },
    ]}}})
}

fn init_container() -> Value {
    json!([{ "name": "first", "image": "busybox", "command": [], "securityContext": { "privileged": true } }])
}

/// What k8s-openapi reads as a text is one here; a number would come back as a text.
fn container() -> Value {
    json!({
        "image": "i", "command": ["a"], "args": [], "imagePullPolicy": "Always", "port": 22,
        "resources": { "cpu": "100m", "memory": "1Gi" }, "securityLimitsConfig": "* soft nofile 1024",
        "appArmorProfile": "localhost/x", "customEnv": [{ "name": "A", "value": "" }],
        "livenessProbe": probe(), "readinessProbe": probe(), "procMount": "Unmasked",
    })
}

fn rich_cluster() -> Value {
    let mut cluster = manifests::slurm_cluster();
    for part in ["controller", "login"] {
        let section = &mut cluster["spec"]["slurmNodes"][part];
        section["munge"] = container();
        section["sssd"] = container();
        section["sssdDebugLevel"] = json!(3);
        section["sssdConfSecretRefName"] = json!("sssd");
        section["sssdLdapCAConfigMapRefName"] = json!("ca");
        section["customInitContainers"] = init_container();
        section["priorityClass"] = json!("high");
        section["hostUsers"] = json!(true);
        section["volumes"]["customMounts"] = json!([{ "name": "a", "mountPath": "/a", "subPath": "s", "readOnly": true, "volumeSourceName": "a" }]);
    }
    cluster["spec"]["slurmNodes"]["controller"]["slurmctld"] = container();
    cluster["spec"]["slurmNodes"]["controller"]["openMetrics"] =
        json!({ "enabled": true, "serviceMonitor": { "interval": "30s", "endpoints": ["jobs"] } });
    cluster["spec"]["slurmNodes"]["login"]["sshd"] = container();
    let worker = &mut cluster["spec"]["slurmNodes"]["worker"];
    worker["slurmd"] = container();
    worker["munge"] = container();
    worker["maxUnavailable"] = json!(3);
    worker["drainOnDelete"] = json!({ "enabled": true, "deadline": "2h", "onDeadline": "force" });
    let cluster = with(
        cluster,
        "/spec/k8sNodeFilters/0",
        json!({ "name": "all", "affinity": affinity(), "tolerations": tolerations(), "nodeSelector": {} }),
    );
    let cluster = with(cluster, "/spec/slurmNodes/rest/rest", container());
    let cluster = with(
        cluster,
        "/spec/slurmNodes/accounting",
        json!({
            "k8sNodeFilterName": "all", "enabled": true, "size": 1, "slurmdbd": container(), "munge": container(),
            "mariadb": {
                "image": "mariadb", "resources": { "requests": { "cpu": "1" } },
                "storage": { "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "10Gi" } } },
            },
            "externalDB": {
                "enabled": false, "host": "h", "user": "u", "passwordSecretKeyRef": { "name": "n", "key": "k" },
                "tls": { "serverCASecretRef": "a", "clientCertSecretRef": "b" }, "storageParameters": { "a": "b" },
            },
            "mariadbOperator": {
                "enabled": false, "image": "m", "port": 3306, "replicas": 2, "replication": { "enabled": true },
                "storage": { "size": "1Gi", "anything": [1, { "deep": null }] },
                "podSecurityContext": { "fsGroup": 1 }, "securityContext": {}, "priorityClassName": "p",
            },
            "slurmdbdConfig": { "debugFlags": "DB_JOB", "privateData": "jobs", "tcpTimeout": 5 },
            "slurmConfig": { "jobAcctGatherParams": "UsePss", "priorityWeightTRES": "CPU=1" },
        }),
    );
    let cluster = with(
        cluster,
        "/spec/slurmNodes/exporter",
        json!({
            "k8sNodeFilterName": "all", "enabled": true, "exporterContainer": container(), "jobSource": "accounting",
            "podMonitorConfig": { "relabelConfig": [{ "action": "drop", "regex": "x" }] },
            "exporter": { "image": "", "podTemplateNameRef": "t" }, "munge": { "image": "m" },
            "volumes": { "jail": { "volumeSourceName": "jail" } },
        }),
    );
    let cluster = with(
        cluster,
        "/spec/plugStackConfig",
        json!({
            "pyxis": { "containerImageSave": "", "useSquashfuse": true },
            "ncclInspectorPreConf": { "enabled": true, "dumpThreadIntervalMicroseconds": 5000000000_i64 },
            "customPlugins": [{ "path": "p", "arguments": { "b": "2", "a": "1" } }],
        }),
    );
    let cluster = with(
        cluster,
        "/spec/sConfigController",
        json!({
            "node": { "k8sNodeFilterName": "all", "size": 1 }, "container": container(), "runAsUid": 0, "runAsGid": 5,
            "hostUsers": false, "serviceAccountName": "s",
        }),
    );
    let cluster = with(
        cluster,
        "/spec/healthCheckConfig",
        json!({
            "healthCheckInterval": 120, "healthCheckProgram": "/p",
            "healthCheckNodeState": [{ "state": "ANY" }, { "state": "NONDRAINED_IDLE" }],
        }),
    );
    let cluster = with(
        cluster,
        "/spec/partitionConfiguration",
        json!({ "configType": "custom", "rawConfig": ["PartitionName=main Nodes=ALL"], "partitions": [] }),
    );
    let cluster = with(cluster, "/spec/topology", json!({ "blockSize": 16 }));
    let cluster = with(cluster, "/spec/imagePullSecrets", json!([{ "name": "pull" }]));
    with(cluster, "/spec/workerFeatures", json!([{ "name": "f", "hostlistExpr": "worker-[0-1]" }]))
}

#[tokio::test]
async fn a_cluster_survives_the_way_through_our_types() -> Result<()> {
    let server = Server::new("trip-cluster").await?;
    round_trip::<api::nebius::SlurmCluster>(&server, &rich_cluster()).await
}

#[tokio::test]
async fn node_sets_survive_the_way_through_our_types() -> Result<()> {
    let server = Server::new("trip-sets").await?;
    let set = manifests::node_set();
    let set = with(set, "/spec/slurmd/resources", json!({ "cpu": "4", "nvidia.com/gpu": "8" }));
    let set = with(set, "/spec/affinity", affinity());
    let set = with(set, "/spec/tolerations", tolerations());
    let set = with(set, "/spec/customInitContainers", init_container());
    let set = with(set, "/spec/updateStrategy", json!("slurmAwareRollingUpdate"));
    let set = with(set, "/spec/maxUnavailable", json!(2));
    let set = with(
        set,
        "/spec/nodeConfig",
        json!({ "features": [], "static": "Sockets=2", "gresConfig": ["Name=gpu"], "autoResume": false }),
    );
    let set = with(
        set,
        "/spec/slurmd/volumes/jailSubMounts",
        json!([
            { "name": "a", "mountPath": "/a", "volumeSource": { "emptyDir": { "sizeLimit": "1Gi" } } },
            { "name": "b", "mountPath": "/b", "volumeClaimTemplateSpec": { "accessModes": ["ReadWriteOnce"] } },
        ]),
    );
    let set = with(set, "/spec/slurmd/security", json!({ "limitsConfig": "x" }));
    let set = with(
        set,
        "/spec/slurmd/volumes/persistentVolumeClaimRetentionPolicy",
        json!({ "whenDeleted": "Delete" }),
    );
    round_trip::<api::nebius::NodeSet>(&server, &set).await?;

    let set = manifests::slinky_node_set();
    let set = with(
        set,
        "/spec/volumeClaimTemplates",
        json!([
            { "metadata": { "name": "a" }, "spec": { "resources": { "requests": { "storage": "1Gi" } } } },
            { "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": { "name": "b" }, "status": {} },
        ]),
    );
    let set = with(
        set,
        "/spec/updateStrategy",
        json!({ "type": "InPlaceIfPossible", "paused": true, "rollingUpdate": { "maxUnavailable": "10%", "partition": 2 } }),
    );
    let set = with(
        set,
        "/spec/template/spec",
        json!({
            "affinity": affinity(), "tolerations": tolerations(), "initContainers": init_container(),
            "imagePullSecrets": [{ "name": "x" }], "volumes": [{ "name": "v", "emptyDir": {} }],
            "containers": [{
                "name": "slurmd", "image": "i", "livenessProbe": probe(), "resources": { "limits": { "cpu": "1" } },
                "ports": [{ "containerPort": 6818, "protocol": "TCP" }],
                "env": [{ "name": "A", "valueFrom": { "fieldRef": { "fieldPath": "metadata.name" } } }],
                "volumeMounts": [{ "name": "v", "mountPath": "/v", "mountPropagation": "Bidirectional" }],
            }],
        }),
    );
    let set = with(set, "/spec/persistentVolumeClaimRetentionPolicy", json!({ "whenScaled": "Delete" }));
    round_trip::<api::slinky::NodeSet>(&server, &set).await
}

#[tokio::test]
async fn the_other_kinds_survive_the_way_through_our_types() -> Result<()> {
    let server = Server::new("trip-others").await?;
    round_trip::<api::slinky::Cluster>(&server, &manifests::slinky_cluster()).await?;
    let configurator = with(
        manifests::node_configurator(),
        "/spec",
        json!({
            "rebooter": {
                "enabled": false, "evictionMethod": "evict", "logFormat": "json", "image": { "repository": "r" },
                "resources": {}, "env": [{ "name": "A", "value": "1" }], "affinity": affinity(),
                "tolerations": tolerations(), "livenessProbe": probe(), "hostUsers": true,
            },
            "nodeConfigurator": { "enabled": true, "priorityClassName": "p" },
            "initContainers": init_container(),
        }),
    );
    round_trip::<api::nebius::NodeConfigurator>(&server, &configurator).await?;
    let check = with(
        manifests::active_check(),
        "/spec",
        json!({
            "name": "c", "slurmClusterRefName": "s", "dependsOn": ["other"], "checkType": "slurmJob",
            "slurmJobSpec": {
                "sbatchScript": "#!/bin/bash\ntrue\n", "eachWorkerJobs": true, "maxNumberOfJobs": 5,
                "mungeContainer": { "image": "m" },
                "jobContainer": {
                    "image": "i", "env": [{ "name": "A", "value": "1" }],
                    "volumes": [{ "name": "v", "configMap": { "name": "c", "defaultMode": 420 } }],
                    "volumeMounts": [{ "name": "v", "mountPath": "/v" }],
                },
            },
            "failureReactions": {
                "drainSlurmNode": { "drainReasonPrefix": "[node_problem]" }, "commentSlurmNode": {},
                "addReservation": { "prefix": "x" }, "removeReservation": {},
            },
            "successReactions": {},
        }),
    );
    round_trip::<api::nebius::ActiveCheck>(&server, &check).await?;
    let config = with(manifests::jailed_config(), "/spec/updateActions", json!(["Reconfigure"]));
    round_trip::<api::nebius::JailedConfig>(&server, &config).await?;
    let topology = with(
        manifests::topology_config(),
        "/spec",
        json!({
            "clusterName": "s", "plugin": "tree", "unknownSwitch": { "policy": "omit" },
            "switches": [
                { "name": "top", "children": ["leaf"] },
                { "name": "leaf", "nodeNames": ["gpu-[0-7]"], "nodeSelector": { "rack": "1" } },
            ],
        }),
    );
    round_trip::<api::nebius::TopologyConfig>(&server, &topology).await
}

#[tokio::test]
async fn statuses_survive_the_way_through_our_types() -> Result<()> {
    let server = Server::new("trip-status").await?;
    let condition = json!([{
        "type": "Ready", "status": "True", "reason": "Fine", "message": "", "observedGeneration": 2,
        "lastTransitionTime": "2026-01-02T03:04:05Z",
    }]);
    let check = server.created(&manifests::active_check()).await?;
    let status = json!({
        "updateStatus": "updating", "reason": "r", "observedGeneration": 1, "conditions": condition,
        "k8sJobsStatus": { "lastTransitionTime": "2026-01-02T03:04:05Z", "lastJobName": "j", "lastJobStatus": "Active" },
        "slurmJobsStatus": {
            "lastRunId": "1,2", "lastRunStatus": "Failed",
            "lastRunFailJobsAndReasons": [{ "jobID": "1", "reason": "r" }], "lastRunErrorJobsAndReasons": [],
        },
    });
    let read = server.patch(&check, "/status", &json!({ "status": status })).await?.unwrap();
    assert_eq!(read["status"], status);
    let typed: api::nebius::ActiveCheck = serde_json::from_value(read)?;
    assert_eq!(serde_json::to_value(typed)?["status"], status);

    let set = server.created(&manifests::slinky_node_set()).await?;
    let status = json!({
        "replicas": 1, "updatedReplicas": 1, "readyReplicas": 1, "availableReplicas": 1, "unavailableReplicas": 0,
        "slurmIdle": 1, "slurmAllocated": 0, "slurmDown": 0, "slurmDrain": 0, "observedGeneration": 1,
        "nodeSetHash": "h", "collisionCount": 0, "conditions": condition, "selector": "a=b",
    });
    let read = server.patch(&set, "/status", &json!({ "status": status })).await?.unwrap();
    assert_eq!(read["status"], status);
    let typed: api::slinky::NodeSet = serde_json::from_value(read)?;
    assert_eq!(serde_json::to_value(typed)?["status"], status);
    Ok(())
}

/// A quantity may be written as a number. The API server gives the objects of Kubernetes back with a text, and so do our
/// types; the objects of our kinds come back from it as they were sent.
#[tokio::test]
async fn a_number_for_a_quantity_is_read_as_kubernetes_reads_it() -> Result<()> {
    let server = Server::new("trip-quantities").await?;
    let amounts =
        json!({ "cpu": 4, "memory": 1_073_741_824, "nvidia.com/gpu": 8, "ephemeral-storage": "1Gi" });
    let template = json!({
        "metadata": { "labels": { "app.kubernetes.io/name": "slurmd" } },
        "spec": {
            "containers": [{
                "name": "slurmd", "image": "i", "resources": { "requests": amounts, "limits": amounts },
                "livenessProbe": { "tcpSocket": { "port": 6818 } },
            }],
            "volumes": [{ "name": "v", "emptyDir": { "sizeLimit": 1024 } }],
        },
    });
    let core = json!({
        "apiVersion": "v1", "kind": "PodTemplate", "metadata": { "name": "t" }, "template": template,
    });
    let path = server.path(&manifests::slinky_node_set());
    let namespace = path.split('/').nth(5).unwrap();
    let path = format!("/api/v1/namespaces/{namespace}/podtemplates");
    let core = server.send("POST", &path, "application/json", &core).await?.unwrap();

    let set = with(manifests::slinky_node_set(), "/spec/template", template.clone());
    let read = server.created(&set).await?;
    assert_eq!(read["spec"]["template"], template, "a kind of ours comes back as it was sent");
    let typed: api::slinky::NodeSet = serde_json::from_value(read)?;
    let written = serde_json::to_value(typed)?["spec"]["template"].take();
    for pointer in [
        "/spec/containers/0/resources",
        "/spec/containers/0/livenessProbe/tcpSocket/port",
        "/spec/volumes/0/emptyDir/sizeLimit",
    ] {
        let kubernetes = core["template"].pointer(pointer).unwrap();
        assert_eq!(written.pointer(pointer), Some(kubernetes), "{pointer}");
    }
    assert_eq!(written["spec"]["containers"][0]["resources"]["limits"]["cpu"], "4");

    let set: api::nebius::NodeSet = serde_json::from_value(manifests::node_set())?;
    assert_eq!(set.spec.slurmd.resources["nvidia.com/gpu"].0, "8");
    let cluster: api::nebius::SlurmCluster = serde_json::from_value(manifests::slurm_cluster())?;
    let resources = cluster.spec.slurm_nodes.login.sshd.resources.unwrap();
    assert_eq!(resources["cpu"].0, "1");
    Ok(())
}
