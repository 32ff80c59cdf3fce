//! What is in the way of workers is told on their set; nothing is deleted by mistake.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Result;
use api::slinky::{Cluster, NodeSet};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{Namespace, Pod, Secret};
use kube::ResourceExt as _;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use rig::SlurmMachine;
use rig::slurm::{Options, Version};
use serde_json::json;
use slurm_client::unix_time;

use super::with_slurm::nobody_goes;
use super::{NOBODY, Sets, manifest};
use crate::place::Place;
use crate::slinky_cluster::{server, token};
use crate::slurm_place::links;
use crate::worker_sets::run;

/// A place whose Clusters are asked often, and not waited for long.
async fn quick_place(name: &str) -> Result<Place> {
    Place::with(name, links(String::new())).await
}

/// Where the user gives up the care for jobs.
#[derive(Clone, Copy)]
enum On {
    Set,
    Cluster,
    Namespace,
}

async fn give_up(place: &Place, on: On) -> Result<()> {
    let force = json!({ "metadata": { "annotations": { "slinky.slurm.net/force-delete": "true" } } });
    let (params, force) = (PatchParams::default(), Patch::Merge(&force));
    match on {
        On::Set => drop(place.api::<NodeSet>().patch("w", &params, &force).await?),
        On::Cluster => drop(place.api::<Cluster>().patch("slurm", &params, &force).await?),
        On::Namespace => {
            let namespaces: Api<Namespace> = Api::all(place.client.clone());
            namespaces.patch(place.name(), &params, &force).await?;
        }
    }
    Ok(())
}

/// Two workers that run; then none are wanted. Slurm says nothing that can be believed, and why is told: nothing may go.
async fn nothing_goes(place: &Place, reason: &str, part: &str, on: On) -> Result<()> {
    let sets = Sets(place);
    sets.make(&json!({})).await?;
    for pod in ["w-0", "w-1"] {
        run(place, pod).await?;
    }
    sets.change(json!({ "replicas": 0 })).await?;
    sets.until_told("SlurmAnswers", "False", reason, part).await?;
    sets.until_told("WaitingForJobs", "True", "JobsRun", "w-1").await?;
    nobody_goes(&sets, 2).await?;
    // Nor does the end of the set change anything.
    sets.api().delete("w", &DeleteParams::default()).await?;
    nobody_goes(&sets, 2).await?;
    // Until the user gives up the care.
    give_up(place, on).await?;
    place.until("the set is gone", async || Ok(sets.api().get_opt("w").await?.is_none().then_some(()))).await
}

#[tokio::test(flavor = "multi_thread")]
async fn garbage_is_no_answer() -> Result<()> {
    let place = quick_place("slinky-garbage").await?;
    Sets(&place).make_cluster(&server(Some("<html>welcome</html>")).await?, "a.b.c").await?;
    nothing_goes(&place, "NoAnswer", "", On::Cluster).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_never_answers_holds_nothing_up_but_the_workers() -> Result<()> {
    let place = quick_place("slinky-never").await?;
    Sets(&place).make_cluster(&server(None).await?, "a.b.c").await?;
    nothing_goes(&place, "NoAnswer", "did not begin its answer", On::Namespace).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_that_has_ended_is_told() -> Result<()> {
    let slurm = SlurmMachine::start(Options::new(Version::V26_05).nodes(1))?;
    let place = quick_place("slinky-expired").await?;
    let old = token(&slurm, unix_time() - 1000, 100)?;
    Sets(&place).make_cluster(&slurm.rest_url()?, &old).await?;
    nothing_goes(&place, "NoAnswer", "token", On::Set).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_without_the_key_is_told() -> Result<()> {
    let place = quick_place("slinky-no-key").await?;
    let sets = Sets(&place);
    sets.make_cluster(NOBODY, "a.b.c").await?;
    let mut secret = place.api::<Secret>().get("slurm-token").await?;
    secret.data = Some(BTreeMap::from([("other".to_string(), ByteString(b"a.b.c".to_vec()))]));
    place.api::<Secret>().replace("slurm-token", &PostParams::default(), &secret).await?;
    nothing_goes(&place, "NoAnswer", "Secret slurm-token has no key auth-token", On::Set).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slurmctld_that_knows_no_nodes_proves_nothing() -> Result<()> {
    let lines = "MaxNodeCount=10\nPartitionName=main Nodes=ALL Default=YES State=UP\n";
    let slurm = SlurmMachine::start(Options::new(Version::V26_05).nodes(0).extra_conf(lines))?;
    let place = quick_place("slinky-empty").await?;
    Sets(&place).make_cluster(&slurm.rest_url()?, &slurm.token("root", 3600)?).await?;
    nothing_goes(&place, "EmptyList", "", On::Cluster).await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_lists_of_another_cluster_prove_nothing() -> Result<()> {
    let slurm = SlurmMachine::start(Options::new(Version::V24_11).nodes(1))?;
    let place = quick_place("slinky-foreign").await?;
    Sets(&place).make_cluster(&slurm.rest_url()?, &slurm.token("root", 3600)?).await?;
    let named = json!({ "metadata": { "annotations": { "slinky.slurm.net/slurm-cluster-name": "mine" } } });
    place.api::<Cluster>().patch("slurm", &PatchParams::default(), &Patch::Merge(&named)).await?;
    nothing_goes(&place, "ForeignCluster", "", On::Namespace).await
}

#[tokio::test(flavor = "multi_thread")]
async fn sets_whose_names_and_selectors_overlap_leave_each_others_pods_alone() -> Result<()> {
    let place = Place::new("slinky-overlap").await?;
    let sets = Sets(&place);
    sets.make_cluster(NOBODY, "token").await?;
    let mut other = manifest(&json!({}));
    other["metadata"]["name"] = "w-0".into();
    let other: NodeSet = serde_json::from_value(other)?;
    sets.api().create(&PostParams::default(), &other).await?;
    sets.make(&json!({})).await?;
    for pod in ["w-0", "w-1", "w-0-0", "w-0-1"] {
        sets.until_pod(pod).await?;
    }
    let owners = async || -> Result<BTreeMap<String, (String, String)>> {
        let owner = |pod: &Pod| pod.owner_references().first().map(|owner| owner.name.clone());
        let pods = sets.pods().list(&ListParams::default()).await?;
        let entry = |pod: Pod| {
            let owner = owner(&pod).unwrap_or_default();
            (pod.name_any(), (pod.uid().unwrap_or_default(), owner))
        };
        Ok(pods.into_iter().map(entry).collect())
    };
    let before = owners().await?;
    let of: Vec<(&str, &str)> =
        before.iter().map(|(pod, (_, owner))| (pod.as_str(), owner.as_str())).collect();
    assert_eq!(of, [("w-0", "w"), ("w-0-0", "w-0"), ("w-0-1", "w-0"), ("w-1", "w")]);
    sets.change(json!({ "replicas": 0 })).await?;
    sets.until_gone("w-0").await?;
    sets.until_gone("w-1").await?;
    tokio::time::sleep(Duration::from_secs(2)).await;
    let after = owners().await?;
    assert_eq!(after.keys().collect::<Vec<_>>(), ["w-0-0", "w-0-1"]);
    assert!(after.iter().all(|(pod, known)| before.get(pod) == Some(known)), "{before:?} {after:?}");
    Ok(())
}
