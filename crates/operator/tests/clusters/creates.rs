//! How pods are made: few at first, none after one that was refused; and what is told of it.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, ensure};
use api::nebius::NodeSet;
use engine::client::{Answer, Call, Interceptor, Next, Verb, answer};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::{Request, StatusCode};
use k8s_openapi::api::core::v1::{Event, Pod, ResourceQuota, ServiceAccount};
use kube::api::{ListParams, PostParams};
use kube::client::Body;
use parking_lot::Mutex;
use serde_json::json;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::place::{Place, config, connect, operate_with, setup};
use crate::slurm_place::{node_set, worker_account};

/// Takes its time for each pod, and counts how many are made at the same time.
#[derive(Default)]
struct Slow {
    state: Mutex<(usize, Vec<usize>)>,
}

impl fmt::Debug for Slow {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Slow")
    }
}

impl Interceptor for Slow {
    fn intercept<'a>(&'a self, call: &'a Call, request: Request<Body>, next: Next) -> BoxFuture<'a, Answer> {
        async move {
            if call.verb != Verb::Create || call.resource != "pods" {
                return next.send(request).await;
            }
            {
                let (now, batches) = &mut *self.state.lock();
                if *now == 0 {
                    batches.push(0);
                }
                *now += 1;
                if let Some(last) = batches.last_mut() {
                    *last += 1;
                }
            }
            tokio::time::sleep(Duration::from_millis(500)).await;
            let made = next.send(request).await;
            self.state.lock().0 -= 1;
            made
        }
        .boxed()
    }
}

/// Answers writes of the status of sets with this.
#[derive(Debug)]
struct NoStatus {
    with: StatusCode,
    writes: Mutex<usize>,
}

impl Interceptor for NoStatus {
    fn intercept<'a>(&'a self, call: &'a Call, request: Request<Body>, next: Next) -> BoxFuture<'a, Answer> {
        async move {
            if call.resource != "nodesets" || call.subresource.is_none() || !call.verb.writes() {
                return next.send(request).await;
            }
            *self.writes.lock() += 1;
            let code = self.with.as_u16();
            let body = json!({
                "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
                "message": "on purpose", "reason": "x", "code": code,
            });
            Ok(answer(self.with, body.to_string()))
        }
        .boxed()
    }
}

/// A place whose controller of NodeSets goes through this.
async fn place(name: &str, interceptor: Arc<dyn Interceptor>) -> Result<(Place, DropGuard)> {
    let place = Place::idle(name).await?;
    place.make("a", |_| {}).await?;
    place.api::<ServiceAccount>().create(&PostParams::default(), &worker_account("a")?).await?;
    let mut setup = setup(place.name());
    setup.controllers = vec![operator::nodeset::NAME];
    let stop = CancellationToken::new();
    tokio::spawn(operate_with(connect(config().await?, Some(interceptor))?, setup, stop.clone()));
    Ok((place, stop.drop_guard()))
}

/// The reasons of events about an object.
async fn reasons(place: &Place, name: &str) -> Result<BTreeSet<String>> {
    let events = place.api::<Event>().list(&ListParams::default()).await?;
    let about = events.into_iter().filter(|event| event.involved_object.name.as_deref() == Some(name));
    Ok(about.filter_map(|event| event.reason).collect())
}

async fn until_reasons(place: &Place, name: &str, wanted: &[&str]) -> Result<BTreeSet<String>> {
    place
        .until(&format!("events {wanted:?} about {name}"), async || {
            let found = reasons(place, name).await?;
            Ok(wanted.iter().all(|reason| found.contains(*reason)).then_some(found))
        })
        .await
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_are_made_in_batches_that_grow() -> Result<()> {
    let slow = Arc::new(Slow::default());
    let (place, _stop) = place("slow-start", Arc::clone(&slow) as Arc<dyn Interceptor>).await?;
    place.api::<NodeSet>().create(&PostParams::default(), &node_set("w", "a", 7)?).await?;
    place
        .until("all are made", async || {
            let pods = place.api::<Pod>().list(&ListParams::default()).await?;
            Ok((pods.items.len() == 7).then_some(()))
        })
        .await?;
    assert_eq!(slow.state.lock().1, [1, 2, 4]);
    until_reasons(&place, "w", &["ScalingUp", "SuccessfulCreate"]).await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_pod_that_the_quota_refuses_no_other_is_tried() -> Result<()> {
    let place = Place::idle("quota").await?;
    let quota: ResourceQuota = serde_json::from_value(json!({
        "metadata": { "name": "none" },
        "spec": { "hard": { "pods": "0" } },
    }))?;
    place.api::<ResourceQuota>().create(&PostParams::default(), &quota).await?;
    place
        .until("the quota counts", async || {
            let quota = place.api::<ResourceQuota>().get("none").await?;
            Ok(quota.status.and_then(|status| status.hard))
        })
        .await?;
    place.start(|setup| setup.controllers = vec![operator::nodeset::NAME]).await?;
    place.make("a", |_| {}).await?;
    place.api::<ServiceAccount>().create(&PostParams::default(), &worker_account("a")?).await?;
    place.api::<NodeSet>().create(&PostParams::default(), &node_set("w", "a", 5)?).await?;
    until_reasons(&place, "w", &["FailedCreate"]).await?;
    tokio::time::sleep(Duration::from_secs(3)).await;
    let tried: Vec<String> = place
        .writes()
        .into_iter()
        .filter(|write| write.call.resource == "pods")
        .map(|write| write.body["metadata"]["name"].as_str().unwrap_or_default().to_owned())
        .collect();
    ensure!(!tried.is_empty() && tried.iter().all(|name| name == "w-0"), "one attempt each time: {tried:?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_set_without_its_cluster_tells_so_in_an_event() -> Result<()> {
    let place = Place::with_controller("no-cluster-event", operator::nodeset::NAME).await?;
    place.api::<NodeSet>().create(&PostParams::default(), &node_set("w", "gone", 2)?).await?;
    until_reasons(&place, "w", &["ControllerRefFailed"]).await?;
    ensure!(place.api::<Pod>().list(&ListParams::default()).await?.items.is_empty());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_set_that_goes_while_its_status_is_written_is_no_failure() -> Result<()> {
    // One of them waits for its cluster, the other has pods.
    for (with, fails) in [(StatusCode::NOT_FOUND, false), (StatusCode::FORBIDDEN, true)] {
        for cluster in ["a", "gone"] {
            let none = Arc::new(NoStatus { with, writes: Mutex::default() });
            let (place, _stop) = place("no-status", Arc::clone(&none) as Arc<dyn Interceptor>).await?;
            place.api::<NodeSet>().create(&PostParams::default(), &node_set("w", cluster, 1)?).await?;
            let written = || *none.writes.lock();
            place.until("a status is written", async || Ok((written() > 0).then_some(()))).await?;
            // Until all that follows from the making of the pod is over.
            tokio::time::sleep(Duration::from_secs(3)).await;
            let before = written();
            tokio::time::sleep(Duration::from_secs(5)).await;
            assert_eq!(written() > before, fails, "{with} {cluster}: it is tried again only where it failed");
        }
    }
    Ok(())
}
