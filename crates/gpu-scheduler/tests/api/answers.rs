//! What the API server answers to binds and conditions, and what becomes of it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result};
use engine::client::{Answer, Call, Interceptor, Next, Verb, answer};
use engine::leader::{Candidate, Claim, Election, Times};
use engine::{Key, binding};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use gpu_scheduler::server::{Health, Options, Patience, lead};
use http::{Request, StatusCode};
use k8s_openapi::api::coordination::v1::Lease;
use kube::ResourceExt as _;
use kube::client::Body;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::world::{World, until};

/// What happens to a call.
enum Fate {
    Pass,
    /// The server says this, and does nothing.
    Refuse(u16),
    /// It reaches the server so much later.
    Late(Duration),
    /// Its answer comes so much later.
    AnsweredLate(Duration),
}

/// Decides the fate of calls, by what they are.
struct Fates(Box<dyn Fn(&Call) -> Fate + Send + Sync>);

impl std::fmt::Debug for Fates {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("Fates")
    }
}

impl Fates {
    fn of(fate: impl Fn(&Call) -> Fate + Send + Sync + 'static) -> Option<Arc<dyn Interceptor>> {
        Some(Arc::new(Self(Box::new(fate))))
    }
}

impl Interceptor for Fates {
    fn intercept<'a>(&'a self, call: &'a Call, request: Request<Body>, next: Next) -> BoxFuture<'a, Answer> {
        async move {
            match (self.0)(call) {
                Fate::Pass => next.send(request).await,
                Fate::Refuse(code) => {
                    let body = json!({
                        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
                        "message": "failed calling webhook", "reason": "InternalError", "code": code,
                    });
                    Ok(answer(StatusCode::from_u16(code)?, body.to_string()))
                }
                Fate::Late(time) => {
                    tokio::time::sleep(time).await;
                    next.send(request).await
                }
                Fate::AnsweredLate(time) => {
                    let answer = next.send(request).await;
                    tokio::time::sleep(time).await;
                    answer
                }
            }
        }
        .boxed()
    }
}

fn is_bind(call: &Call) -> bool {
    call.subresource.as_deref() == Some("binding")
}

fn is_condition(call: &Call) -> bool {
    call.verb == Verb::Patch && call.subresource.as_deref() == Some("status") && call.resource == "pods"
}

fn named(call: &Call, prefix: &str) -> bool {
    call.name.as_deref().is_some_and(|name| name.starts_with(prefix))
}

#[tokio::test]
async fn binds_that_always_fail_stand_in_nobodys_way_and_say_so_once() -> Result<()> {
    const BAD: usize = 40;
    let world = World::new("always").await?;
    world.add_node("a").await?;
    let (broken, tries) = (Arc::new(AtomicBool::new(true)), Arc::new(AtomicUsize::new(0)));
    let (is_broken, count) = (Arc::clone(&broken), Arc::clone(&tries));
    let fates = Fates::of(move |call| {
        if !is_bind(call) || !named(call, "bad") || !is_broken.load(Ordering::Relaxed) {
            return Fate::Pass;
        }
        if named(call, "bad0-") {
            count.fetch_add(1, Ordering::Relaxed);
        }
        Fate::Refuse(500)
    });
    let second = Duration::from_secs(1);
    let patience = Patience { first: second, repeats: second, settled: 2 * second };
    let running = world.start_as(Options { patience, ..world.options() }, fates, None).await?;
    for number in 0..BAD {
        world.add_pod(&format!("bad{number}-0"), &format!("0=@a:{number}"), json!({})).await?;
    }
    until("the bad ones are tried", || async { Ok((tries.load(Ordering::Relaxed) > 0).then_some(())) })
        .await?;
    world.add_pod("good-0", "0=@a:100", json!({})).await?;
    world.placed("good-0").await?;
    world.told("bad0-0", "got no clear answer").await?;
    let condition = world.scheduled("bad0-0").await?.context("a condition")?;
    assert_eq!(condition.reason.as_deref(), Some("SchedulerError"));
    // It gives up, tries again, and has nothing new to tell.
    let before = tries.load(Ordering::Relaxed);
    until("it is tried again and again", || async {
        Ok((tries.load(Ordering::Relaxed) > before + 12).then_some(()))
    })
    .await?;
    assert_eq!(world.events("bad0-0").await?.len(), 1);
    broken.store(false, Ordering::Relaxed);
    for number in 0..BAD {
        assert_eq!(world.placed(&format!("bad{number}-0")).await?.1, number.to_string());
    }
    running.stop().await;
    Ok(())
}

#[tokio::test]
async fn a_bind_that_is_forbidden_is_told_once_with_event_and_condition() -> Result<()> {
    let world = World::new("forbidden").await?;
    world.add_node("a").await?;
    let tries = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&tries);
    let fates = Fates::of(move |call| {
        if !is_bind(call) {
            return Fate::Pass;
        }
        count.fetch_add(1, Ordering::Relaxed);
        Fate::Refuse(403)
    });
    let running = world.start_with(fates, None).await?;
    world.add_pod("w-0", "0=@a:0", json!({})).await?;
    world.told("w-0", "was refused: ").await?;
    assert_eq!(
        world.scheduled("w-0").await?.and_then(|condition| condition.reason).as_deref(),
        Some("SchedulerError")
    );
    until("it is tried again", || async { Ok((tries.load(Ordering::Relaxed) >= 3).then_some(())) }).await?;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let events = world.events("w-0").await?;
    assert_eq!(events.len(), 1, "{events:?}");
    assert_eq!(events[0].0, "FailedScheduling");
    running.stop().await;
    Ok(())
}

#[tokio::test]
async fn a_pod_that_somebody_else_bound_is_not_our_success() -> Result<()> {
    let world = World::new("stolen").await?;
    world.add_node("a").await?;
    world.add_node("b").await?;
    let late = Fates::of(|call| {
        if is_bind(call) && named(call, "x") { Fate::Late(Duration::from_secs(2)) } else { Fate::Pass }
    });
    let running = world.start_with(late, None).await?;
    world.add_pod("x-0", "0=@a:0", json!({})).await?;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let uid = world.pod("x-0").await?.uid().context("a uid")?;
    let key = Key::new(world.namespace.name(), "x-0");
    binding::bind(&world.namespace.client(), &key, &uid, &world.node("b"), &BTreeMap::new()).await?;
    world.add_pod("y-0", "0=@a:0", json!({})).await?;
    world.placed("y-0").await?;
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(world.place("x-0").await?.map(|(node, _)| node).as_deref(), Some("b"));
    let events = world.events("x-0").await?;
    assert!(events.iter().all(|(reason, _)| reason != "Scheduled"), "{events:?}");
    running.stop().await;
    Ok(())
}

#[tokio::test]
async fn a_late_condition_does_not_say_that_a_bound_pod_waits() -> Result<()> {
    let world = World::new("late").await?;
    let late =
        Fates::of(|call| if is_condition(call) { Fate::Late(Duration::from_secs(3)) } else { Fate::Pass });
    let running = world.start_with(late, None).await?;
    // More than are written at once: some conditions still wait when their pods are bound.
    const PODS: usize = 40;
    for number in 0..PODS {
        world.add_pod(&format!("w{number}-0"), &format!("0=@a:{number}"), json!({})).await?;
    }
    let told = || async { Ok((world.events(&format!("w{}-0", PODS - 1)).await?.len() == 1).then_some(())) };
    until("all are refused", told).await?;
    world.add_node("a").await?;
    for number in 0..PODS {
        world.placed(&format!("w{number}-0")).await?;
    }
    tokio::time::sleep(Duration::from_secs(8)).await;
    for number in 0..PODS {
        let condition = world.scheduled(&format!("w{number}-0")).await?.context("a condition")?;
        assert_eq!(condition.status, "True", "w{number}-0: {condition:?}");
    }
    running.stop().await;
    Ok(())
}

#[tokio::test]
async fn a_condition_that_stays_false_keeps_the_time_since_when_it_is() -> Result<()> {
    let world = World::new("since").await?;
    let running = world.start().await?;
    world.add_pod("w-0", "0=@a:0", json!({})).await?;
    world.told("w-0", "no node has the name").await?;
    let since = world.scheduled("w-0").await?.and_then(|condition| condition.last_transition_time);
    assert!(since.is_some());
    tokio::time::sleep(Duration::from_secs(2)).await;
    world.add_node("a").await?;
    world.change_node("a", json!({ "spec": { "unschedulable": true } })).await?;
    world.add_pod("v-0", "0=@b:0", json!({})).await?;
    let correct = json!({ "metadata": { "annotations": { "gpu-scheduling-map": world.map("0=@b:1") } } });
    world.pods().patch("w-0", &Default::default(), &kube::api::Patch::Merge(&correct)).await?;
    world.told("w-0", "-b").await?;
    let after = world.scheduled("w-0").await?.and_then(|condition| condition.last_transition_time);
    assert_eq!(after, since);
    running.stop().await;
    Ok(())
}

#[tokio::test]
async fn every_bound_pod_is_in_the_metrics() -> Result<()> {
    const PODS: usize = 30;
    let world = World::new("metrics").await?;
    world.add_node("a").await?;
    // The watch shows the bind before its answer comes.
    let slow =
        Fates::of(
            |call| {
                if is_bind(call) { Fate::AnsweredLate(Duration::from_millis(300)) } else { Fate::Pass }
            },
        );
    let running = world.start_with(slow, None).await?;
    for number in 0..PODS {
        world.add_pod(&format!("w{number}-0"), &format!("0=@a:{number}"), json!({})).await?;
    }
    for number in 0..PODS {
        world.placed(&format!("w{number}-0")).await?;
    }
    let metrics = running.metrics.clone();
    running.stop().await;
    let mut registry = prometheus_client::registry::Registry::default();
    metrics.register(&mut registry);
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, &registry)?;
    let sum = |name: &str| -> usize {
        let lines = text.lines().filter(|line| line.starts_with(name) && !line.starts_with('#'));
        lines.filter_map(|line| line.rsplit_once(' ')?.1.parse::<usize>().ok()).sum()
    };
    assert_eq!(sum("scheduler_pod_scheduling_sli_duration_seconds_count"), PODS, "{text}");
    assert_eq!(sum("scheduler_pod_scheduling_attempts_count"), PODS, "{text}");
    let attempts = text.lines().find_map(|line| line.strip_prefix("scheduler_pod_scheduling_attempts_sum "));
    assert_eq!(attempts.context("a sum")?.parse::<f64>()?, PODS as f64, "each was tried once");
    Ok(())
}

#[tokio::test]
async fn a_lease_is_released_only_after_the_last_bind() -> Result<()> {
    let world = World::new("lease").await?;
    world.add_node("a").await?;
    world.add_pod("x-0", "0=@a:0", json!({})).await?;
    let sent = CancellationToken::new();
    let seen = sent.clone();
    let late = Fates::of(move |call| {
        if !is_bind(call) {
            return Fate::Pass;
        }
        seen.cancel();
        Fate::Late(Duration::from_millis(1500))
    });
    let claim = Claim::none();
    let client = world.client(late, Some(Arc::new(claim.clone()))).await?;
    let candidate = Candidate {
        namespace: world.namespace.name().into(),
        lease: "gpu".into(),
        identity: "first".into(),
        times: Times::default(),
    };
    let election = Election::new(client.clone(), candidate, claim);
    let stop = CancellationToken::new();
    let leading =
        tokio::spawn(lead(election, client, world.options(), Health::default(), stop.clone(), || {}));
    sent.cancelled().await;
    stop.cancel();
    let leases = world.namespace.api::<Lease>();
    until("the lease is released", || async {
        let holder = leases.get("gpu").await?.spec.and_then(|spec| spec.holder_identity);
        Ok((holder.as_deref() == Some("")).then_some(()))
    })
    .await?;
    assert_eq!(world.place("x-0").await?, Some(("a".into(), "0".into())));
    leading.await??;
    Ok(())
}

#[tokio::test]
async fn a_member_that_waits_for_its_turn_is_not_bound_to_a_node_that_went() -> Result<()> {
    let world = World::new("went").await?;
    world.add_node("a").await?;
    world.add_node("b").await?;
    let sent = CancellationToken::new();
    let seen = sent.clone();
    let late = Fates::of(move |call| {
        if !is_bind(call) || !named(call, "w-0") {
            return Fate::Pass;
        }
        seen.cancel();
        Fate::Late(Duration::from_secs(2))
    });
    let map = "0=@a:0\n1=@b:0";
    let gang = json!({ "metadata": { "annotations": { "gpu-scheduling-gang": "true" } } });
    for name in ["w-0", "w-1"] {
        world.add_pod(name, map, json!({})).await?;
        world.pods().patch(name, &Default::default(), &kube::api::Patch::Merge(&gang)).await?;
    }
    let running = world.start_as(Options { max_in_flight: 1, ..world.options() }, late, None).await?;
    sent.cancelled().await;
    world.remove_node("b").await?;
    world.placed("w-0").await?;
    world.told("w-1", "no node has the name").await?;
    assert_eq!(world.place("w-1").await?, None);
    running.stop().await;
    Ok(())
}
