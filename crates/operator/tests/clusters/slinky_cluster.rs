//! The Clusters of Slinky: their links, and what their status tells, with a real Slurm and with servers that are none.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use api::slinky::{Cluster, ClusterStatus};
use engine::Key;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::runtime::wait::{await_condition, conditions};
use nodeset::Identity;
use operator::controllers::{self, Setup};
use operator::slurm_links::{Credential, LinkKey, SlurmLinks};
use rig::slurm::{Options, Version, basic_lines};
use rig::{ControlPlane, SlurmMachine};
use serde_json::{Value, json};
use slurm::{Claims, KeyKind, sign_token};
use slurm_client::{Pace, Timeouts, unix_time};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::place::{PATIENCE, Place, setup};

/// Looks often, and waits for nobody long.
fn quick() -> SlurmLinks {
    let second = Duration::from_secs(1);
    let pace = Pace { fast: second / 5, slow: second, longest: second, full: second * 60 };
    // slurmrestd looks for a slurmctld that is away for ten seconds before it says so.
    let timeouts = Timeouts { answer: second * 20, ..Timeouts::default() };
    SlurmLinks::with(Box::new(|_, _| String::new()), pace, timeouts)
}

fn key(place: &Place, name: &str) -> LinkKey {
    LinkKey::slinky(Key::new(place.name(), name))
}

fn cluster(name: &str, server: &str) -> Result<Cluster> {
    Ok(serde_json::from_value(json!({
        "apiVersion": "slinky.slurm.net/v1alpha1",
        "kind": "Cluster",
        "metadata": { "name": name },
        "spec": { "server": server, "token": { "secretRef": "token" } },
    }))?)
}

async fn make(place: &Place, name: &str, server: &str) -> Result<()> {
    place.api::<Cluster>().create(&PostParams::default(), &cluster(name, server)?).await?;
    Ok(())
}

async fn change(place: &Place, name: &str, patch: Value) -> Result<()> {
    place.api::<Cluster>().patch(name, &PatchParams::default(), &Patch::Merge(&patch)).await?;
    Ok(())
}

/// Makes or changes the Secret with the token.
async fn put(place: &Place, key: &str, value: &str) -> Result<()> {
    let data = [(key, ByteString(value.into()))];
    let data: BTreeMap<&str, ByteString> = data.into();
    let secret =
        json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "token" }, "data": data });
    let params = PatchParams::apply("user").force();
    place.api::<Secret>().patch("token", &params, &Patch::Apply(&secret)).await?;
    Ok(())
}

async fn put_token(place: &Place, token: &str) -> Result<()> {
    put(place, "auth-token", token).await
}

async fn status(place: &Place, name: &str) -> Result<ClusterStatus> {
    Ok(place.api::<Cluster>().get(name).await?.status.unwrap_or_default())
}

/// Waits until the condition Ready has this reason; returns its message.
async fn until_reason(place: &Place, name: &str, reason: &str) -> Result<String> {
    let found = place
        .until(&format!("{name} is {reason}"), async || {
            let status = status(place, name).await?;
            let ready = status.conditions.into_iter().flatten().find(|condition| condition.type_ == "Ready");
            let Some(ready) = ready.filter(|ready| ready.reason == reason) else { return Ok(None) };
            let answers = reason == "Answering";
            ensure!((ready.status == "True") == answers && status.is_ready == Some(answers), "{ready:?}");
            Ok(Some(ready.message))
        })
        .await;
    match found {
        Ok(message) => Ok(message),
        Err(error) => bail!("{error}; it is {:?}", status(place, name).await?),
    }
}

/// A token of this machine, for so many seconds from `from` on.
pub fn token(slurm: &SlurmMachine, from: u64, seconds: u64) -> Result<String> {
    let key = slurm::Key::from_bytes(KeyKind::Jwt, slurm.jwt_key()?)?;
    let claims = Claims::new("root", "test", from, Duration::from_secs(seconds), [7; 16]);
    Ok(String::from_utf8(sign_token(&claims, &key)?.expose().to_vec())?)
}

fn good_token(slurm: &SlurmMachine) -> Result<String> {
    token(slurm, unix_time(), 3600)
}

async fn a_cluster_follows_its_secret_and_its_slurm(version: Version) -> Result<()> {
    let slurm = SlurmMachine::start(Options::new(version).nodes(1))?;
    let links = quick();
    let place = Place::with("slinky-cluster", links.clone()).await?;
    let key = key(&place, "c");
    make(&place, "c", &slurm.rest_url()?).await?;

    let told = until_reason(&place, "c", "SecretMissing").await?;
    assert!(told.contains("Secret token") && told.contains("auth-token"), "{told}");
    assert!(links.get(&key).is_none());
    assert!(links.why_not(&key).is_some_and(|why| why.contains("Secret token")), "{:?}", links.why_not(&key));

    put(&place, "other", "x").await?;
    let told = until_reason(&place, "c", "TokenMissing").await?;
    assert!(told.contains("no key auth-token"), "{told}");
    put_token(&place, "two words").await?;
    until_reason(&place, "c", "TokenUnfit").await?;

    // As people write it: with a line break.
    put_token(&place, &format!("{}\n", good_token(&slurm)?)).await?;
    until_reason(&place, "c", "Answering").await?;
    let link = links.get(&key).context("there is a link")?;
    assert_eq!(status(&place, "c").await?.slurm_cluster_name.as_deref(), Some("test"));
    place
        .until("the link knows the cluster's name", async || {
            Ok((link.identity() == Identity::Proven).then_some(()))
        })
        .await?;
    let snapshot = link.snapshot().context("there is a snapshot")?;
    assert_eq!(snapshot.cluster(), "test");
    assert!(snapshot.node("node-1").is_some());

    place.until_quiet().await?;
    let (writes, looks) = (place.writes().len(), link.health().looks);
    tokio::time::sleep(Duration::from_secs(4)).await;
    assert!(link.health().looks > looks, "it is looked at all the time");
    assert_eq!(place.writes().len(), writes, "{:?}", &place.writes()[writes..]);

    put_token(&place, "forged.forged.forged").await?;
    let told = until_reason(&place, "c", "TokenRefused").await?;
    assert!(told.contains("Secret token") && told.contains("scontrol token"), "{told}");
    assert!(link.problem().is_some());
    put_token(&place, &token(&slurm, unix_time() - 1000, 100)?).await?;
    let told = until_reason(&place, "c", "TokenExpired").await?;
    assert!(told.contains("ended at"), "{told}");
    put_token(&place, &good_token(&slurm)?).await?;
    until_reason(&place, "c", "Answering").await?;
    assert!(
        links.get(&key).is_some_and(|now| std::sync::Arc::ptr_eq(&now, &link)),
        "a new token keeps the link"
    );

    // Without its Secret nobody knows anything any more.
    place.api::<Secret>().delete("token", &DeleteParams::default()).await?;
    until_reason(&place, "c", "SecretMissing").await?;
    assert!(links.get(&key).is_none());
    put_token(&place, &good_token(&slurm)?).await?;
    until_reason(&place, "c", "Answering").await?;

    slurm.stop("slurmctld")?;
    let told = until_reason(&place, "c", "ControllerDown").await?;
    assert!(told.contains("slurmctld on slurm does not"), "{told}");
    slurm.start_again("slurmctld")?;
    until_reason(&place, "c", "Answering").await?;

    place.api::<Cluster>().delete("c", &DeleteParams::default()).await?;
    place
        .until("the link is forgotten", async || {
            Ok((links.get(&key).is_none() && links.why_not(&key).is_none()).then_some(()))
        })
        .await?;
    let told = place.events("c").await?;
    for part in ["Slurm answers at", "is not there; make it", "ended at"] {
        assert!(told.iter().any(|note| note.contains(part)), "{part}: {told:#?}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_of_slurm_24_11_follows_its_secret_and_its_slurm() -> Result<()> {
    a_cluster_follows_its_secret_and_its_slurm(Version::V24_11).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_of_slurm_26_05_follows_its_secret_and_its_slurm() -> Result<()> {
    a_cluster_follows_its_secret_and_its_slurm(Version::V26_05).await
}

#[tokio::test(flavor = "multi_thread")]
async fn two_clusters_share_a_slurm_and_another_slurm_is_not_taken_for_it() -> Result<()> {
    let first = SlurmMachine::start(Options::controller_only(Version::V26_05).rest())?;
    let conf = basic_lines().replace("ClusterName=test", "ClusterName=other");
    let second =
        SlurmMachine::start(Options::controller_only(Version::V26_05).rest().file("slurm.conf", &conf))?;
    let links = quick();
    let mut place = Place::with("slinky-two", links.clone()).await?;
    put_token(&place, &good_token(&first)?).await?;
    for name in ["one", "two"] {
        make(&place, name, &first.rest_url()?).await?;
    }
    for name in ["one", "two"] {
        until_reason(&place, name, "Answering").await?;
    }

    // After a restart the operator asks Slurm again, and has nothing new to write.
    place.until_quiet().await?;
    let (writes, links) = (place.writes().len(), quick());
    place.restart(links.clone()).await?;
    place
        .until("both are asked again", async || {
            let asked = |name| links.get(&key(&place, name)).is_some_and(|link| link.health().looks > 3);
            Ok((asked("one") && asked("two")).then_some(()))
        })
        .await?;
    assert_eq!(place.writes().len(), writes, "{:?}", &place.writes()[writes..]);

    place.api::<Cluster>().delete("one", &DeleteParams::default()).await?;
    place
        .until("the link is forgotten", async || Ok(links.get(&key(&place, "one")).is_none().then_some(())))
        .await?;
    let link = links.get(&key(&place, "two")).context("the other stays")?;
    let looks = link.health().looks;
    place.until("it is still looked at", async || Ok((link.health().looks > looks).then_some(()))).await?;
    drop(link);

    change(&place, "two", json!({ "spec": { "server": second.rest_url()? } })).await?;
    until_reason(&place, "two", "TokenRefused").await?;
    put_token(&place, &good_token(&second)?).await?;
    let told = until_reason(&place, "two", "OtherCluster").await?;
    assert!(told.contains("`other`, not to `test`"), "{told}");
    let link = links.get(&key(&place, "two")).context("there is a link")?;
    assert_eq!(link.identity(), Identity::Foreign);

    // The move is meant.
    let named = json!({ "metadata": { "annotations": { "slinky.slurm.net/slurm-cluster-name": "other" } } });
    change(&place, "two", named).await?;
    until_reason(&place, "two", "Answering").await?;
    assert_eq!(status(&place, "two").await?.slurm_cluster_name.as_deref(), Some("other"));
    assert_eq!(link.identity(), Identity::Proven);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_link_of_a_slurm_cluster_is_forgotten_with_it() -> Result<()> {
    let links = quick();
    let place = Place::with("slinky-forget", links.clone()).await?;
    let key = LinkKey::nebius(Key::new(place.name(), "a"));
    place.make("a", |_| {}).await?;
    place.until_quiet().await?;
    let token = Credential::Token("a.b.c".to_string().into());
    links.connect(&key, "http://127.0.0.1:9".parse()?, token, None)?;
    assert!(links.get(&key).is_some());
    place.clusters().delete("a", &DeleteParams::default()).await?;
    place.until("the link is forgotten", async || Ok(links.get(&key).is_none().then_some(()))).await
}

/// Only the chart of Slinky is installed: the kinds of the other group are not defined.
#[tokio::test(flavor = "multi_thread")]
async fn a_process_for_slinky_alone_needs_no_other_definitions() -> Result<()> {
    let plane = ControlPlane::start().await?;
    let client = plane.client().await?;
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    for crd in api::crds().into_iter().filter(|crd| crd.spec.group == api::slinky::GROUP) {
        definitions.create(&PostParams::default(), &crd).await?;
        let name = crd.metadata.name.as_deref().context("a CRD has a name")?;
        await_condition(definitions.clone(), name, conditions::is_crd_established()).await?;
    }
    let (stop, elected) = (CancellationToken::new(), watch::Sender::new(true).subscribe());
    let setup = Setup { controllers: vec!["slinky-cluster"], ..setup("default") };
    tokio::spawn(controllers::run(client.clone(), setup, elected, stop.clone()));
    let clusters: Api<Cluster> = Api::namespaced(client, "default");
    clusters.create(&PostParams::default(), &cluster("c", "http://127.0.0.1:9")?).await?;
    let is_told = |cluster: Option<&Cluster>| {
        cluster
            .and_then(|cluster| cluster.status.as_ref())
            .is_some_and(|status| status.is_ready == Some(false))
    };
    tokio::time::timeout(PATIENCE, await_condition(clusters, "c", is_told)).await??;
    stop.cancel();
    Ok(())
}

/// A server that says this to everyone, or nothing at all.
pub async fn server(says: Option<&'static str>) -> Result<String> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut request = vec![0; 4096];
                let _ = stream.read(&mut request).await;
                let Some(body) = says else { return std::future::pending().await };
                let head =
                    format!("HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: {}\r\n\r\n", body.len());
                let _ = stream.write_all((head + body).as_bytes()).await;
            });
        }
    });
    Ok(format!("http://{address}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn servers_that_are_no_slurmrestd_are_told_apart() -> Result<()> {
    let links = quick();
    let place = Place::with("slinky-bad", links.clone()).await?;
    put_token(&place, "a.b.c").await?;
    // A port that was free a moment ago.
    let nobody = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?;
    make(&place, "nobody", &format!("http://{nobody}")).await?;
    make(&place, "garbage", &server(Some("<html>welcome</html>")).await?).await?;
    make(&place, "silent", &server(None).await?).await?;
    let told = until_reason(&place, "nobody", "Unreachable").await?;
    assert!(told.contains(&nobody.to_string()) && told.contains("check the address"), "{told}");
    let told = until_reason(&place, "garbage", "BadAnswer").await?;
    assert!(told.contains("check the address"), "{told}");
    let told = until_reason(&place, "silent", "NoAnswer").await?;
    assert!(told.contains("did not begin its answer"), "{told}");
    for name in ["nobody", "garbage", "silent"] {
        let link = links.get(&key(&place, name)).context("the link is there, and tries on")?;
        assert!(link.snapshot().is_none() && link.problem().is_some(), "{name}");
    }
    // Failures that go on are no news.
    place.until_quiet().await?;
    Ok(())
}
