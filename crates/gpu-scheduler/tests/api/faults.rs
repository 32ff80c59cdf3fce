//! Calls that fail, hang or get no answer, and schedulers that die.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Result;
use engine::client::WriteGate;
use engine::testing::{Fault, Injector, Schedule, WatchFault};
use kube::ResourceExt as _;
use kube::api::ListParams;
use serde_json::json;

use crate::world::{World, until};

/// The first write is the bind of `x-0`; two pods want one device.
async fn one_device_two_pods(name: &str, fault: Fault) -> Result<()> {
    let world = World::new("fault").await?;
    world.add_node("a").await?;
    world.add_pod("x-0", "0=@a:0", json!({})).await?;
    let schedule = Schedule { writes: BTreeMap::from([(1, fault)]), ..Schedule::default() };
    let injector = Arc::new(Injector::new(schedule));
    let running = world.start_with(Some(injector.clone()), None).await?;
    world.add_pod("y-0", "0=@a:0", json!({})).await?;
    let bound = || async {
        let (x, y) = (world.place("x-0").await?, world.place("y-0").await?);
        assert!(x.is_none() || y.is_none(), "{name}: both pods have the device");
        Ok(x.or(y))
    };
    until(&format!("{name}: one is bound"), bound).await?;
    let first = if world.place("x-0").await?.is_some() { "x-0" } else { "y-0" };
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert!(bound().await?.is_some());
    // The other one follows when the first goes: nothing is held that nobody has.
    world.remove_pod(first).await?;
    world.placed(if first == "x-0" { "y-0" } else { "x-0" }).await?;
    running.stop().await;
    Ok(())
}

#[tokio::test]
async fn no_answer_to_a_bind_makes_two_owners_or_none() -> Result<()> {
    let faults = [
        Fault::Fail(409),
        Fault::Fail(429),
        Fault::Fail(500),
        Fault::Fail(403),
        Fault::Drop,
        Fault::FailAfterCommit(500),
        Fault::FailAfterCommit(409),
        Fault::DropAfterCommit,
        Fault::Delay(Duration::from_secs(3)),
    ];
    let cases = faults.map(|fault| async move { one_device_two_pods(&fault.to_string(), fault).await });
    futures::future::try_join_all(cases).await?;
    Ok(())
}

#[tokio::test]
async fn watches_that_break_lose_nothing() -> Result<()> {
    for (number, fault) in
        [WatchFault::Close, WatchFault::Gone, WatchFault::Duplicate].into_iter().enumerate()
    {
        let world = World::new("watch").await?;
        world.add_node("a").await?;
        let watches = BTreeMap::from([("pods".to_string(), (3, fault))]);
        let injector = Arc::new(Injector::new(Schedule { watches, ..Schedule::default() }));
        let running = world.start_with(Some(injector), None).await?;
        for index in 0..6 {
            world.add_pod(&format!("w{index}-0"), &format!("0=@a:{index}"), json!({})).await?;
        }
        for index in 0..6 {
            let devices = world.placed(&format!("w{index}-0")).await?.1;
            assert_eq!(devices, index.to_string(), "fault {number}");
        }
        running.stop().await;
    }
    Ok(())
}

/// Each device has at most one owner among the pods that are bound; returns how many are.
async fn check_owners(world: &World) -> Result<usize> {
    let mut owners: BTreeMap<(String, String), String> = BTreeMap::new();
    let mut bound = 0;
    for pod in world.pods().list(&ListParams::default()).await? {
        let Some(node) = pod.spec.as_ref().and_then(|spec| spec.node_name.clone()) else { continue };
        bound += 1;
        let devices = pod.annotations().get("gpu-scheduling-devices").cloned().unwrap_or_default();
        assert!(!devices.is_empty(), "{} is bound without its annotation", pod.name_any());
        for device in devices.split(',') {
            let other = owners.insert((node.clone(), device.into()), pod.name_any());
            assert_eq!(other, None, "device {device} of {node} has two owners, one is {}", pod.name_any());
        }
    }
    Ok(bound)
}

/// 60 devices, 120 pods that want them, and schedulers that are killed at one of their first writes.
#[tokio::test]
async fn schedulers_that_are_killed_in_mid_drain_book_nothing_twice_and_lose_no_pod() -> Result<()> {
    const DEVICES: usize = 60;
    let world = World::new("killed").await?;
    world.add_node("a").await?;
    for number in 0..2 * DEVICES {
        world.add_pod(&format!("w{number}-0"), &format!("0=@a:{}", number / 2), json!({})).await?;
    }
    let all_owned = || async { Ok((check_owners(&world).await? == DEVICES).then_some(())) };
    let mut deaths = 0;
    for (round, crash) in
        [Fault::Crash, Fault::CrashAfterCommit, Fault::Crash, Fault::CrashAfterCommit].into_iter().enumerate()
    {
        let schedule = Schedule { writes: BTreeMap::from([(3, crash)]), ..Schedule::default() };
        let injector = Arc::new(Injector::new(schedule));
        let crashed = injector.crashed();
        let running = world.start_with(Some(injector), None).await?;
        // How many binds get through before it dies depends on how many are under way: there may be nothing left to die of.
        tokio::select! {
            () = crashed.cancelled() => deaths += 1,
            done = until("every device has an owner", all_owned) => done?,
        }
        running.kill().await;
        let bound = check_owners(&world).await?;
        assert!(bound <= DEVICES, "round {round}: {bound}");
    }
    assert!(deaths > 1, "only {deaths} of them died");
    let running = world.start().await?;
    until("every device has an owner", all_owned).await?;
    // Those that have none say who is in their way.
    let pods = world.pods().list(&ListParams::default()).await?;
    for pod in pods.iter().filter(|pod| pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_none())) {
        world.told(&pod.name_any(), "held by pod").await?;
    }
    for pod in pods.iter().filter(|pod| pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_some())) {
        world.remove_pod(&pod.name_any()).await?;
    }
    until("the others follow", all_owned).await?;
    running.stop().await;
    Ok(())
}

/// A claim that ends.
#[derive(Debug)]
struct Until(Option<Instant>);

impl WriteGate for Until {
    fn may_write_until(&self) -> Option<Instant> {
        self.0
    }
}

#[tokio::test]
async fn a_scheduler_without_its_lease_binds_nothing() -> Result<()> {
    let world = World::new("fenced").await?;
    world.add_node("a").await?;
    world.add_pod("w-0", "0=@a:0", json!({})).await?;
    let closed = world.start_with(None, Some(Arc::new(Until(None)))).await?;
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert!(closed.health.ready().is_ok(), "it looks, but must not write");
    assert_eq!(world.place("w-0").await?, None);
    closed.kill().await;
    let open = world
        .start_with(None, Some(Arc::new(Until(Some(Instant::now() + Duration::from_secs(600))))))
        .await?;
    world.placed("w-0").await?;
    open.stop().await;
    Ok(())
}
