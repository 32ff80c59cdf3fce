//! What is in the way of workers is told on their set; nothing is deleted by mistake.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Result;
use api::nebius::NodeSet;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod, Secret, ServiceAccount};
use kube::ResourceExt as _;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use rig::SlurmMachine;
use rig::slurm::{Options, Version};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use crate::place::Place;
use crate::slurm_place::{CLUSTER, SET, jwt_secret, links, machine, node_set, worker_account};
use crate::worker_sets::{run, until_told};

async fn make_cluster(place: &Place, name: &str) -> Result<()> {
    place.make(name, |manifest| manifest["spec"]["slurmNodes"]["worker"]["size"] = 0.into()).await
}

async fn make_set(place: &Place, set: NodeSet) -> Result<()> {
    place.api::<NodeSet>().create(&PostParams::default(), &set).await?;
    Ok(())
}

async fn uids(place: &Place) -> Result<BTreeMap<String, String>> {
    let params = ListParams::default().labels("slurm.nebius.ai/nodeset");
    let pods = place.api::<Pod>().list(&params).await?;
    Ok(pods.into_iter().map(|pod| (pod.name_any(), pod.uid().unwrap_or_default())).collect())
}

async fn until_there(place: &Place, pod: &str) -> Result<Pod> {
    place.until(&format!("{pod} is there"), async || Ok(place.api::<Pod>().get_opt(pod).await?)).await
}

fn by_hand(name: &str) -> Result<Pod> {
    Ok(serde_json::from_value(json!({
        "metadata": { "name": name },
        "spec": { "containers": [{ "name": "c", "image": "i" }] },
    }))?)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_made_by_hand_with_the_name_of_a_worker_is_told_and_left_alone() -> Result<()> {
    let place = Place::new("by-hand").await?;
    let foreign = place.api::<Pod>().create(&PostParams::default(), &by_hand("gpu-1")?).await?;
    make_set(&place, node_set("gpu", "a", 3)?).await?;
    make_cluster(&place, "a").await?;
    until_there(&place, "gpu-2").await?;
    let told = until_told(&place, "gpu", "Valid", "False", "NameTaken").await?;
    assert!(told.contains("the pod gpu-1 has a name that this set wants"), "{told}");
    let now = place.api::<Pod>().get("gpu-1").await?;
    assert_eq!((now.uid(), now.metadata.owner_references), (foreign.uid(), None));
    place
        .until("an event tells it", async || {
            Ok(place.events("gpu").await?.into_iter().find(|note| note.contains("gpu-1 has a name")))
        })
        .await?;
    place.api::<Pod>().delete("gpu-1", &DeleteParams::default().grace_period(0)).await?;
    place
        .until("the worker takes the place", async || {
            let pod = place.api::<Pod>().get_opt("gpu-1").await?;
            Ok(pod.filter(|pod| pod.metadata.owner_references.is_some()))
        })
        .await?;
    until_told(&place, "gpu", "Valid", "True", "").await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn sets_whose_names_overlap_leave_each_others_pods_alone() -> Result<()> {
    let place = Place::new("overlap").await?;
    make_cluster(&place, "a").await?;
    make_set(&place, node_set("gpu", "a", 2)?).await?;
    make_set(&place, node_set("gpu-0", "a", 2)?).await?;
    for pod in ["gpu-0", "gpu-1", "gpu-0-0", "gpu-0-1"] {
        until_there(&place, pod).await?;
    }
    place.until_quiet().await?;
    let before = uids(&place).await?;
    let scale = json!({ "spec": { "replicas": 0 } });
    place.api::<NodeSet>().patch("gpu", &PatchParams::default(), &Patch::Merge(&scale)).await?;
    place
        .until("the pods of gpu are gone", async || {
            let names: Vec<String> = uids(&place).await?.into_keys().collect();
            Ok((names == ["gpu-0-0", "gpu-0-1"]).then_some(()))
        })
        .await?;
    let after = uids(&place).await?;
    assert!(after.iter().all(|(name, uid)| before.get(name) == Some(uid)), "{before:?} {after:?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_set_whose_spec_and_annotation_name_two_clusters_is_refused() -> Result<()> {
    let place = Place::new("disagree").await?;
    make_cluster(&place, "a").await?;
    let mut set = node_set("gpu", "a", 1)?;
    set.annotations_mut().insert("slurm.nebius.ai/parental-cluster-ref".into(), "b".into());
    make_set(&place, set).await?;
    let told = until_told(&place, "gpu", "Valid", "False", "ClusterDisagreement").await?;
    assert!(told.contains("\"a\"") && told.contains("\"b\""), "{told}");
    assert!(place.api::<Pod>().get_opt("gpu-0").await?.is_none());
    let same = json!({ "metadata": { "annotations": { "slurm.nebius.ai/parental-cluster-ref": null } } });
    place.api::<NodeSet>().patch("gpu", &PatchParams::default(), &Patch::Merge(&same)).await?;
    until_there(&place, "gpu-0").await?;
    until_told(&place, "gpu", "Valid", "True", "").await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_waits_for_a_claim_that_is_being_deleted() -> Result<()> {
    let place = Place::new("claim-goes").await?;
    place.make("a", |_| {}).await?;
    until_there(&place, "a-worker-1").await?;
    let claims = place.api::<PersistentVolumeClaim>();
    let name = place
        .until("the worker has a claim", async || {
            let all = claims.list(&ListParams::default()).await?;
            Ok(all.into_iter().map(|claim| claim.name_any()).find(|name| name.ends_with("-a-worker-1")))
        })
        .await?;
    let hold = json!({ "metadata": { "finalizers": ["example.com/hold"] } });
    claims.patch(&name, &PatchParams::default(), &Patch::Merge(&hold)).await?;
    claims.delete(&name, &DeleteParams::default()).await?;
    place.api::<Pod>().delete("a-worker-1", &DeleteParams::default().grace_period(0)).await?;
    let told = until_told(&place, "a-worker", "Valid", "False", "ClaimInTheWay").await?;
    assert!(told.contains(&name), "{told}");
    assert!(place.api::<Pod>().get_opt("a-worker-1").await?.is_none());
    let free = json!({ "metadata": { "finalizers": null } });
    claims.patch(&name, &PatchParams::default(), &Patch::Merge(&free)).await?;
    until_there(&place, "a-worker-1").await?;
    let claim = place.until("a new claim is there", async || Ok(claims.get_opt(&name).await?)).await?;
    let owner = claim.metadata.owner_references.unwrap_or_default();
    assert_eq!(owner.first().map(|owner| owner.kind.as_str()), Some("NodeSet"));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn labels_that_somebody_took_from_a_worker_come_back_and_the_pod_stays() -> Result<()> {
    let place = Place::new("labels").await?;
    make_cluster(&place, "a").await?;
    make_set(&place, node_set("gpu", "a", 1)?).await?;
    let before = until_there(&place, "gpu-0").await?;
    place.until_quiet().await?;
    // The second is the one by which the operator watches pods: it does not see this one any more.
    for label in ["statefulset.kubernetes.io/pod-name", "app.kubernetes.io/name"] {
        let take = json!({ "metadata": { "labels": { label: null } } });
        place.api::<Pod>().patch("gpu-0", &PatchParams::default(), &Patch::Merge(&take)).await?;
        place
            .until(&format!("{label} is back"), async || {
                let pod = place.api::<Pod>().get("gpu-0").await?;
                Ok((pod.labels().get(label) == before.labels().get(label)).then_some(()))
            })
            .await?;
    }
    assert_eq!(place.api::<Pod>().get("gpu-0").await?.uid(), before.uid());
    Ok(())
}

/// Answers every connection in this way, or never.
async fn server(answer: Option<&'static str>) -> Result<String> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let url = format!("http://{}", listener.local_addr()?);
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut request = [0; 4096];
                while stream.read(&mut request).await.is_ok_and(|length| length > 0) {
                    match answer {
                        Some(answer) => {
                            let _ = stream.write_all(answer.as_bytes()).await;
                        }
                        None => std::future::pending::<()>().await,
                    }
                }
            });
        }
    });
    Ok(url)
}

/// Two workers that run; then none are wanted. Slurm says nothing that can be believed, and why is told: nothing may go.
async fn nothing_goes(name: &str, cluster: &str, url: String, key: Vec<u8>, told: &[&str]) -> Result<()> {
    let place = Place::with(name, links(url)).await?;
    place.api::<Secret>().create(&PostParams::default(), &jwt_secret(cluster, key)?).await?;
    make_cluster(&place, cluster).await?;
    make_set(&place, node_set(SET, cluster, 2)?).await?;
    for pod in ["w-0", "w-1"] {
        until_there(&place, pod).await?;
        run(&place, pod).await?;
    }
    let before = uids(&place).await?;
    let scale = json!({ "spec": { "replicas": 0 } });
    place.api::<NodeSet>().patch(SET, &PatchParams::default(), &Patch::Merge(&scale)).await?;
    until_told(&place, SET, "WaitingForJobs", "True", "w-1").await?;
    for part in told {
        until_told(&place, SET, "SlurmAnswers", "False", part).await?;
    }
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(uids(&place).await?, before);
    // Nor does the end of the set change anything.
    place.api::<NodeSet>().delete(SET, &DeleteParams::background()).await?;
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(uids(&place).await?, before);
    // Until the user gives up the care.
    let force = json!({ "metadata": { "annotations": { "slurm.nebius.ai/force-delete": "true" } } });
    place.api::<NodeSet>().patch(SET, &PatchParams::default(), &Patch::Merge(&force)).await?;
    place
        .until("the set is gone", async || {
            Ok(place.api::<NodeSet>().get_opt(SET).await?.is_none().then_some(()))
        })
        .await
}

const KEY: [u8; 32] = *b"0123456789abcdef0123456789abcdef";

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_without_the_key_is_told_and_nothing_goes() -> Result<()> {
    // The controller of clusters would make the key.
    let place = Place::with_controller("no-key", operator::nodeset::NAME).await?;
    let mut secret = jwt_secret(CLUSTER, KEY.into())?;
    secret.data = Some([("other.key".to_string(), ByteString(KEY.into()))].into());
    place.api::<Secret>().create(&PostParams::default(), &secret).await?;
    place.api::<ServiceAccount>().create(&PostParams::default(), &worker_account(CLUSTER)?).await?;
    make_cluster(&place, CLUSTER).await?;
    make_set(&place, node_set(SET, CLUSTER, 1)?).await?;
    run(&place, "w-0").await?;
    let before = uids(&place).await?;
    let scale = json!({ "spec": { "replicas": 0 } });
    place.api::<NodeSet>().patch(SET, &PatchParams::default(), &Patch::Merge(&scale)).await?;
    until_told(&place, SET, "SlurmAnswers", "False", "test-rest-jwt-key has no key rest_jwt.key").await?;
    until_told(&place, SET, "WaitingForJobs", "True", "w-0").await?;
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(uids(&place).await?, before);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn garbage_is_no_answer() -> Result<()> {
    let url = server(Some("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n<garbage>")).await?;
    nothing_goes("garbage", CLUSTER, url, KEY.into(), &["NoAnswer", "slurmrestd"]).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_never_answers_holds_nothing_up_but_the_workers() -> Result<()> {
    let url = server(None).await?;
    nothing_goes("never", CLUSTER, url, KEY.into(), &["NoAnswer", "did not"]).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_that_slurm_does_not_take_is_told() -> Result<()> {
    let slurm = machine(Version::V26_05, 2)?;
    nothing_goes("token", CLUSTER, slurm.rest_url()?, KEY.into(), &["NoAnswer", "does not accept the token"])
        .await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_lists_of_another_cluster_prove_nothing() -> Result<()> {
    let slurm = machine(Version::V24_11, 2)?;
    nothing_goes("foreign", "mine", slurm.rest_url()?, slurm.jwt_key()?, &["ForeignCluster"]).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slurmctld_that_knows_no_nodes_proves_nothing() -> Result<()> {
    let lines = "MaxNodeCount=10\nPartitionName=main Nodes=ALL Default=YES State=UP\n";
    let slurm = SlurmMachine::start(Options::new(Version::V26_05).nodes(0).extra_conf(lines))?;
    nothing_goes("empty", CLUSTER, slurm.rest_url()?, slurm.jwt_key()?, &["EmptyList"]).await
}
