//! NodeSets that do not say everything.

use anyhow::{Context as _, Result};
use api::nebius::NodeSet;
use api::slinky;
use kube::ResourceExt as _;
use kube::api::{DynamicObject, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::place::Place;

const PARENT: &str = "slurm.nebius.ai/parental-cluster-ref";

async fn make(place: &Place, name: &str, cluster: Option<&str>) -> Result<DynamicObject> {
    let text = include_str!("../../../../examples/api/slurm.nebius.ai/nodeset.yaml");
    let mut set: Value = serde_saphyr::from_str(text)?;
    set["metadata"] = json!({ "name": name });
    let spec = set["spec"].as_object_mut().context("a spec")?;
    spec.remove("clusterName");
    if let Some(cluster) = cluster {
        spec.insert("clusterName".into(), cluster.into());
    }
    let set = serde_json::from_value(set)?;
    Ok(place.kind::<NodeSet>().create(&PostParams::default(), &set).await?)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_set_that_names_no_cluster_gets_the_only_one() -> Result<()> {
    let place = Place::new("defaults", "http://127.0.0.1:1").await?;
    let early = make(&place, "early", None).await?;
    assert_eq!(early.annotations().get(PARENT), None, "there is none yet");
    place.make_cluster("a").await?;
    assert_eq!(make(&place, "one", None).await?.annotations().get(PARENT).map(String::as_str), Some("a"));
    assert_eq!(make(&place, "two", Some("b")).await?.annotations().get(PARENT), None, "it names its own");
    let change = Patch::Merge(json!({ "spec": { "replicas": 1 } }));
    let early = place.kind::<NodeSet>().patch("early", &PatchParams::default(), &change).await?;
    assert_eq!(early.annotations().get(PARENT).map(String::as_str), Some("a"), "with the next change");

    place.make_cluster("b").await?;
    let told = make(&place, "three", None).await.err().context("there are two")?.to_string();
    assert!(told.contains("several SlurmClusters; write one of a, b"), "{told}");
    let other = Patch::Merge(json!({ "spec": { "clusterName": "b" } }));
    let told = place.kind::<NodeSet>().patch("one", &PatchParams::default(), &other).await;
    let told = told.err().context("it has the annotation of the other")?.to_string();
    assert!(told.contains("\"a\" is another cluster than spec.clusterName, which is \"b\""), "{told}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn sets_of_slinky_may_leave_their_way_to_change_empty_and_keep_their_cluster() -> Result<()> {
    let place = Place::new("slinky", "http://127.0.0.1:1").await?;
    let text = include_str!("../../../../examples/api/slinky.slurm.net/nodeset.yaml");
    let mut set: Value = serde_saphyr::from_str(text)?;
    set["metadata"] = json!({ "name": "compute" });
    set["spec"]["updateStrategy"] = json!({ "type": "" });
    let sets = place.kind::<slinky::NodeSet>();
    let made = sets.create(&PostParams::default(), &serde_json::from_value(set)?).await?;
    assert_eq!(made.data["spec"]["updateStrategy"]["type"], "RollingUpdate");
    assert_eq!(made.data["spec"]["revisionHistoryLimit"], 0);
    for field in ["clusterName", "serviceName"] {
        let other = Patch::Merge(json!({ "spec": { field: "other" } }));
        let told = sets.patch("compute", &PatchParams::default(), &other).await;
        let told = told.err().context(field)?.to_string();
        assert!(told.contains(&format!("spec.{field} cannot be changed")), "{told}");
    }
    let selector = Patch::Merge(json!({ "spec": { "template": { "metadata": { "labels": null } } } }));
    assert!(
        sets.patch("compute", &PatchParams::default(), &selector).await.is_err(),
        "the selector fits no more"
    );
    Ok(())
}
