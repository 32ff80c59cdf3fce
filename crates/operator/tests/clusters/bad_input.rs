//! What is wrong is told on the object, with the field, and breaks nothing that runs.

use anyhow::{Context as _, Result};
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::api::{Patch, PatchParams};
use kube::{Resource as _, ResourceExt as _};
use serde_json::{Value, json};

use crate::place::Place;

/// A change of the spec, the condition that tells of it, and words that it tells.
struct Case {
    name: &'static str,
    patch: Value,
    tells: &'static [&'static str],
}

fn cases() -> Vec<Case> {
    vec![
        Case {
            name: "an unknown node filter",
            patch: json!({ "slurmNodes": { "login": { "k8sNodeFilterName": "nowhere" } } }),
            tells: &["spec.slurmNodes.login.k8sNodeFilterName", "nowhere"],
        },
        Case {
            name: "a volume source that is missing",
            patch: json!({ "slurmNodes": { "controller": { "volumes": { "spool": { "volumeSourceName": "gone" } } } } }),
            tells: &["spec.slurmNodes.controller.volumes.spool.volumeSourceName", "gone"],
        },
        Case {
            name: "a partition line that injects another",
            patch: json!({ "partitionConfiguration": {
                "configType": "custom",
                "rawConfig": ["PartitionName=all Nodes=ALL\nSlurmUser=root"],
            } }),
            tells: &["spec.partitionConfiguration.rawConfig[0]"],
        },
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_spec_is_told_with_its_field_and_what_runs_stays() -> Result<()> {
    let place = Place::new("bad-input").await?;
    place.make("a", |_| {}).await?;
    place.until_quiet().await?;
    let snapshot = async || -> Result<Vec<Option<Value>>> {
        let mut seen = Vec::new();
        for name in ["a-controller", "a-login"] {
            let set = place.api::<StatefulSet>().get_opt(name).await?;
            seen.push(set.map(|set| json!({ "uid": set.uid(), "generation": set.meta().generation })));
        }
        let map = place.api::<ConfigMap>().get_opt("a-slurm-configs").await?;
        seen.push(map.map(|map| json!(map.data)));
        Ok(seen)
    };
    let before = snapshot().await?;
    let good = crate::place::manifest("a")?;
    for case in cases() {
        place.change("a", json!({ "spec": case.patch })).await?;
        for part in case.tells {
            place.until_told("a", "Valid", part).await.with_context(|| case.name.to_string())?;
        }
        let told = place
            .until("an event tells it", async || {
                let events = place.events("a").await?;
                Ok(events.into_iter().find(|note| note.contains(case.tells[0])))
            })
            .await?;
        assert!(told.contains(case.tells[0]), "{told}");
        place.until_quiet().await?;
        assert_eq!(snapshot().await?, before, "{}: what runs has changed", case.name);
        let params = PatchParams::default();
        let replace = json!([{ "op": "replace", "path": "/spec", "value": good["spec"] }]);
        let patch: json_patch::Patch = serde_json::from_value(replace)?;
        place.api::<api::nebius::SlurmCluster>().patch("a", &params, &Patch::Json::<()>(patch)).await?;
        place
            .until("the spec is valid again", async || {
                Ok(place.condition("a", "Valid").await?.filter(|(status, _)| status == "True"))
            })
            .await?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn what_only_the_api_server_can_refuse_is_refused_there() -> Result<()> {
    let place = Place::new("refused").await?;
    let mut refused = Vec::new();
    for (name, port) in [("too great", 99_999), ("too small", 80)] {
        let patch = json!({ "sshdServiceType": "NodePort", "sshdServiceNodePort": port });
        let made = place
            .make("a", |manifest| json_patch::merge(&mut manifest["spec"]["slurmNodes"]["login"], &patch))
            .await;
        match made {
            Err(error) => refused.push(format!("{error:#}")),
            Ok(()) => anyhow::bail!("a port that is {name} was taken"),
        }
    }
    assert!(refused.iter().all(|message| message.contains("sshdServiceNodePort")), "{refused:?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_password_that_is_not_there_is_waited_for_and_used_when_it_comes() -> Result<()> {
    let place = Place::new("external").await?;
    place
        .make("a", |manifest| {
            manifest["spec"]["slurmNodes"]["accounting"]["externalDB"] = json!({
                "enabled": true,
                "host": "db.example",
                "port": 3306,
                "user": "slurm",
                "passwordSecretKeyRef": { "name": "db", "key": "pass" },
            });
        })
        .await?;
    let told = place.until_told("a", "AccountingAvailable", "waiting for key pass of Secret db").await?;
    assert!(told.contains("spec.slurmNodes.accounting.externalDB.passwordSecretKeyRef"), "{told}");
    place.until_quiet().await?;
    let secret: Secret =
        serde_json::from_value(json!({ "metadata": { "name": "db" }, "stringData": { "pass": "hunter2" } }))?;
    place.api::<Secret>().create(&Default::default(), &secret).await?;
    place
        .until("slurmdbd.conf has it", async || {
            let conf = place.api::<Secret>().get_opt("a-slurmdbd-configs").await?;
            let text = conf.and_then(|conf| conf.data?.remove("slurmdbd.conf"));
            let text = text.map(|bytes| String::from_utf8_lossy(&bytes.0).into_owned());
            Ok(text.filter(|text| text.contains("StoragePass=hunter2") && text.contains("db.example")))
        })
        .await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_that_is_pending_is_named() -> Result<()> {
    let place = Place::new("claim").await?;
    place.make("a", |_| {}).await?;
    place.until_told("a", "ControllersAvailable", "waiting for PVC jail-pvc: it does not exist").await?;
    let claim: k8s_openapi::api::core::v1::PersistentVolumeClaim = serde_json::from_value(json!({
        "metadata": { "name": "jail-pvc" },
        "spec": { "accessModes": ["ReadWriteMany"], "resources": { "requests": { "storage": "1Gi" } } },
    }))?;
    place.api().create(&Default::default(), &claim).await?;
    place.until_told("a", "ControllersAvailable", "no StorageClass is named and none is the default").await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_image_that_cannot_be_pulled_is_told_as_the_kubelet_says_it() -> Result<()> {
    let place = Place::new("image").await?;
    place
        .make("a", |manifest| {
            manifest["spec"]["volumeSources"] =
                json!([{ "name": "jail", "hostPath": { "path": "/srv/jail" } }]);
        })
        .await?;
    place
        .until("slurmctld has a pod", async || {
            Ok(place.api::<k8s_openapi::api::core::v1::Pod>().get_opt("a-controller-0").await?)
        })
        .await?;
    let status = json!({ "status": { "phase": "Pending", "containerStatuses": [{
        "name": "slurmctld", "image": "soperator.local/slurm:1", "imageID": "", "ready": false, "restartCount": 0,
        "state": { "waiting": { "reason": "ErrImagePull", "message": "no such image" } },
    }] } });
    let pods = place.api::<k8s_openapi::api::core::v1::Pod>();
    pods.patch_status("a-controller-0", &PatchParams::default(), &Patch::Merge(&status)).await?;
    let told = place.until_told("a", "ControllersAvailable", "ErrImagePull: no such image").await?;
    assert!(told.contains("soperator.local/slurm:1"), "{told}");
    assert_eq!(place.cluster_status("a").await?.phase.as_deref(), Some("Pending"));
    Ok(())
}
