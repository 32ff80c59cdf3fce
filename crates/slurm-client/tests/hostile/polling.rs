//! The poller: what it hands out, and that no failure makes it lose or invent anything.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use slurm::{JobId, Occupancy, Reason};
use slurm_client::{Changed, Error, Pace, Poller, Subscription};
use tokio::time::{sleep, timeout};

use crate::client;
use crate::server::{Reply, Server};

const QUICK: Pace = Pace {
    fast: Duration::from_millis(20),
    slow: Duration::from_millis(100),
    longest: Duration::from_millis(100),
    full: Duration::from_secs(60),
};
const SOON: Duration = Duration::from_secs(20);

const DRAINED: &str =
    r#"{"nodes": [{"name": "a", "state": ["IDLE", "DRAIN"]}, {"name": "b", "state": ["IDLE"]}]}"#;

fn jobs(state: &str) -> String {
    format!(
        r#"{{"jobs": [{{"job_id": 7, "job_state": ["{state}"], "nodes": "a"}}],
            "last_update": {{"set": true, "infinite": false, "number": 1000}}}}"#
    )
}

const NO_CHANGE: &str = r#"{"jobs": [], "last_update": {"set": true, "number": 0},
    "warnings": [{"description": "No job changes since update_time[1000]"}]}"#;

/// Waits until something is true.
async fn until(what: &str, check: impl Fn() -> bool) {
    timeout(SOON, async {
        while !check() {
            sleep(Duration::from_millis(5)).await;
        }
    })
    .await
    .unwrap_or_else(|_| panic!("not in time: {what}"));
}

fn occupancy(poller: &Poller, node: &str) -> Occupancy {
    poller.latest().unwrap().occupancy(node, SOON)
}

#[tokio::test]
async fn a_snapshot_has_both_lists_and_tells_who_is_busy() {
    let server = Server::start(|request, _| {
        Reply::ok(if request.contains("/nodes") { DRAINED.to_owned() } else { jobs("SUSPENDED") })
    })
    .await;
    let poller = Poller::start(client(&server), QUICK);
    let snapshot = poller.refresh(SOON).await.unwrap();
    assert_eq!(snapshot.nodes().len(), 2);
    assert_eq!(snapshot.occupancy("a", SOON), Occupancy::Busy(Reason::Job(JobId(7))));
    assert_eq!(snapshot.occupancy("b", SOON), Occupancy::Idle);
    assert_eq!(snapshot.occupancy("c", SOON), Occupancy::Free, "Slurm has no such node");
    assert_eq!(snapshot.jobs_on("a").count(), 1);
    sleep(Duration::from_millis(5)).await;
    assert_eq!(snapshot.occupancy("b", Duration::from_millis(1)), Occupancy::Busy(Reason::JobsOld));
}

#[tokio::test]
async fn jobs_are_always_read_after_nodes_and_never_two_requests_at_once() {
    let (log, running) = (Arc::new(Mutex::new(Vec::new())), Arc::new(AtomicUsize::new(0)));
    let seen = Arc::clone(&log);
    let server = Server::start(move |request, _| {
        assert_eq!(running.fetch_add(1, Ordering::SeqCst), 0, "two requests at once");
        std::thread::sleep(Duration::from_millis(2));
        running.fetch_sub(1, Ordering::SeqCst);
        let nodes = request.contains("/nodes");
        seen.lock().unwrap().push(if nodes { 'n' } else { 'j' });
        Reply::ok(if nodes { DRAINED.to_owned() } else { jobs("RUNNING") })
    })
    .await;
    let poller = Poller::start(client(&server), QUICK);
    // Many want a look at once.
    let (one, two, three) = tokio::join!(poller.refresh(SOON), poller.refresh(SOON), poller.refresh(SOON));
    assert!(one.is_ok() && two.is_ok() && three.is_ok());
    until("ten requests", || log.lock().unwrap().len() >= 10).await;
    let log: String = log.lock().unwrap().iter().collect();
    assert!(log.starts_with("njnjnjnj"), "{log}");
}

#[tokio::test]
async fn after_every_kind_of_failure_the_last_snapshot_stays_and_gets_older() {
    let failures = [
        Reply::ok(r#"{"nodes": [{"name": "a"#),
        Reply::ok("<html>"),
        Reply::Answer(401, "no".into()),
        Reply::Answer(500, r#"{"errors": [{"error_number": 1800, "error": "no controller"}]}"#.into()),
        Reply::Answer(404, "no such path".into()),
        Reply::Endless(r#"{"nodes": [{"a": ""#.into(), "x".repeat(1000)),
        Reply::Silence,
        Reply::Reset(r#"{"nodes": ["#.into()),
        Reply::Answer(304, String::new()),
        Reply::ok(""),
        Reply::ok("{}"),
    ];
    // All at once, or the test would take long.
    let mut cases = tokio::task::JoinSet::new();
    for failure in failures {
        cases.spawn(survives(failure.clone(), true));
        cases.spawn(survives(failure, false));
    }
    while let Some(case) = cases.join_next().await {
        case.unwrap();
    }
}

/// Reading nodes (or jobs) fails for a while.
async fn survives(failure: Reply, on_nodes: bool) {
    let broken = Arc::new(AtomicBool::new(false));
    let (seen, reply) = (Arc::clone(&broken), failure.clone());
    let server = Server::start(move |request, _| {
        let nodes = request.contains("/nodes");
        if seen.load(Ordering::SeqCst) && nodes == on_nodes {
            return reply.clone();
        }
        Reply::ok(if nodes { DRAINED.to_owned() } else { jobs("RUNNING") })
    })
    .await;
    let poller = Poller::start(client(&server), QUICK);
    let before = poller.refresh(SOON).await.unwrap();
    broken.store(true, Ordering::SeqCst);
    // A refresh asks for the full list, so that no "as before" can hide the failure.
    let refreshed = poller.refresh(Duration::from_millis(1500)).await;
    assert!(refreshed.is_err(), "{failure:?}: {refreshed:?}");
    until("two failures", || poller.health().failures >= 2).await;
    let after = poller.latest().unwrap();
    assert_eq!(after.nodes().len(), 2, "{failure:?}");
    assert_eq!(after.job(JobId(7)).unwrap().state.to_string(), "RUNNING");
    assert!(after.age() >= Duration::from_millis(500), "{failure:?}: {:?}", after.age());
    assert!(occupancy(&poller, "a").is_busy());
    assert!(after.occupancy("b", Duration::from_millis(100)).is_busy(), "what is old is busy");
    // And it comes back.
    broken.store(false, Ordering::SeqCst);
    let again = poller.refresh(SOON).await.unwrap();
    assert!(again.asked() > before.asked(), "{failure:?}");
    assert!(poller.health().error.is_none());
}

/// The job was never lost, not even for one look: that would have been a change of its node.
async fn assert_no_change(changes: &mut Subscription) {
    let change = timeout(Duration::from_millis(50), changes.next()).await;
    assert!(change.is_err(), "{change:?}");
}

#[tokio::test]
async fn nothing_has_changed_is_never_read_as_no_jobs() {
    let asked_for_changes = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&asked_for_changes);
    let server = Server::start(move |request, _| {
        if request.contains("/nodes") {
            return Reply::ok(DRAINED);
        }
        if !request.contains("update_time") {
            return Reply::ok(jobs("SUSPENDED"));
        }
        assert!(request.ends_with("?update_time=1000"), "{request}");
        // All ways in which Slurm says it.
        match counter.fetch_add(1, Ordering::SeqCst) % 3 {
            0 => Reply::ok(NO_CHANGE),
            1 => Reply::Answer(304, String::new()),
            _ => Reply::Answer(500, r#"{"errors": [{"error_number": 1900, "error": "No change"}]}"#.into()),
        }
    })
    .await;
    let poller = Poller::start(client(&server), QUICK);
    poller.refresh(SOON).await.unwrap();
    let mut changes = poller.subscribe();
    let _guard = poller.watch_closely();
    until("six looks", || asked_for_changes.load(Ordering::SeqCst) >= 6).await;
    assert_no_change(&mut changes).await;
    assert_eq!(occupancy(&poller, "a"), Occupancy::Busy(Reason::Job(JobId(7))));
    assert_eq!(poller.health().failures, 0);
}

#[tokio::test]
async fn an_ambiguous_answer_is_asked_for_again_in_full() {
    let full = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&full);
    let server = Server::start(move |request, _| {
        if request.contains("/nodes") {
            return Reply::ok(DRAINED);
        }
        if request.contains("update_time") {
            // Empty, and no warning: who knows what it means.
            return Reply::ok(r#"{"jobs": [], "warnings": [], "errors": []}"#);
        }
        counter.fetch_add(1, Ordering::SeqCst);
        Reply::ok(jobs("RUNNING"))
    })
    .await;
    let poller = Poller::start(client(&server), QUICK);
    poller.refresh(SOON).await.unwrap();
    let mut changes = poller.subscribe();
    let _guard = poller.watch_closely();
    until("three more full lists", || full.load(Ordering::SeqCst) >= 4).await;
    assert_no_change(&mut changes).await;
    assert_eq!(occupancy(&poller, "a"), Occupancy::Busy(Reason::Job(JobId(7))));
}

#[tokio::test]
async fn a_refresh_reads_all_jobs_anew() {
    let full = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&full);
    let server = Server::start(move |request, _| {
        if request.contains("/nodes") {
            return Reply::ok(DRAINED);
        }
        if request.contains("update_time") {
            return Reply::ok(NO_CHANGE);
        }
        counter.fetch_add(1, Ordering::SeqCst);
        Reply::ok(jobs("RUNNING"))
    })
    .await;
    let slow = Pace { slow: Duration::from_secs(60), ..QUICK };
    let poller = Poller::start(client(&server), slow);
    poller.refresh(SOON).await.unwrap();
    let before = full.load(Ordering::SeqCst);
    let moment = slurm_client::now();
    let snapshot = poller.refresh(SOON).await.unwrap();
    assert!(snapshot.asked() >= moment);
    assert!(full.load(Ordering::SeqCst) > before, "`as before` is not enough before a deletion");
}

#[tokio::test]
async fn subscribers_hear_which_nodes_changed_and_of_nothing_else() {
    let state = Arc::new(Mutex::new(("IDLE", "PENDING", 5)));
    let seen = Arc::clone(&state);
    let server = Server::start(move |request, _| {
        let mut state = seen.lock().unwrap();
        // The load changes with every look.
        state.2 += 1;
        let (node, job, load) = *state;
        Reply::ok(if request.contains("/nodes") {
            format!(
                r#"{{"nodes": [{{"name": "a", "state": ["{node}"], "cpu_load": {load}}}, {{"name": "b", "state": ["IDLE"]}}]}}"#
            )
        } else {
            format!(r#"{{"jobs": [{{"job_id": 7, "job_state": ["{job}"], "nodes": "b"}}]}}"#)
        })
    })
    .await;
    let poller = Poller::start(client(&server), QUICK);
    let mut changes = poller.subscribe();
    let mut next = async || timeout(SOON, changes.next()).await.unwrap().unwrap();
    assert_eq!(next().await, Changed::Everything);
    state.lock().unwrap().0 = "MIXED";
    assert_eq!(next().await, Changed::Nodes(["a".into()].into()));
    // The node's own record stays the same when a job on it is suspended.
    state.lock().unwrap().1 = "SUSPENDED";
    assert_eq!(next().await, Changed::Nodes(["b".into()].into()));
    let looks = poller.health().looks;
    until("more looks", || poller.health().looks > looks + 5).await;
    let quiet = timeout(Duration::from_millis(50), changes.next()).await;
    assert!(quiet.is_err(), "the load alone is no news: {quiet:?}");
}

#[tokio::test]
async fn it_looks_often_while_somebody_waits_and_seldom_while_nothing_happens() {
    let server = Server::start(|request, _| {
        Reply::ok(if request.contains("/nodes") { DRAINED.to_owned() } else { jobs("RUNNING") })
    })
    .await;
    let pace = Pace { slow: Duration::from_millis(600), ..QUICK };
    let poller = Poller::start(client(&server), pace);
    poller.refresh(SOON).await.unwrap();
    // Long enough to have slowed down.
    sleep(Duration::from_millis(1500)).await;
    let looks = async |time| {
        let before = poller.health().looks;
        sleep(time).await;
        poller.health().looks - before
    };
    let idle = looks(Duration::from_millis(1000)).await;
    let guard = poller.watch_closely();
    let watched = looks(Duration::from_millis(1000)).await;
    drop(guard);
    assert!(idle <= 3, "{idle} looks while nothing happens");
    assert!(watched >= 10, "{watched} looks while somebody waits");
}

#[tokio::test]
async fn a_dropped_poller_asks_no_more() {
    let server = Server::start(|request, _| {
        Reply::ok(if request.contains("/nodes") { DRAINED.to_owned() } else { jobs("RUNNING") })
    })
    .await;
    let poller = Poller::start(client(&server), QUICK);
    poller.refresh(SOON).await.unwrap();
    drop(poller);
    sleep(Duration::from_millis(50)).await;
    let requests = server.requests();
    sleep(Duration::from_millis(300)).await;
    assert_eq!(server.requests(), requests);
}

#[tokio::test]
async fn a_poller_that_never_got_an_answer_has_no_snapshot_and_says_why() {
    let server = Server::start(|_, _| Reply::Answer(401, "no".into())).await;
    let poller = Poller::start(client(&server), QUICK);
    let stale = poller.refresh(Duration::from_millis(300)).await.unwrap_err();
    assert!(matches!(stale.0.as_deref(), Some(Error::Unauthorised { .. })), "{stale}");
    assert!(poller.latest().is_none());
}

fn of_cluster(name: &str, request: &str) -> Reply {
    let list = if request.contains("/nodes") { r#""nodes": []"# } else { r#""jobs": []"# };
    Reply::ok(format!(r#"{{{list}, "meta": {{"slurm": {{"release": "24.11.5", "cluster": "{name}"}}}}}}"#))
}

#[tokio::test]
async fn a_snapshot_tells_which_cluster_answered_also_when_its_lists_are_empty() {
    let moved = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&moved);
    let server = Server::start(move |request, _| {
        of_cluster(if seen.load(Ordering::SeqCst) { "two" } else { "one" }, request)
    })
    .await;
    let poller = Poller::start(client(&server), QUICK);
    let snapshot = poller.refresh(SOON).await.unwrap();
    assert_eq!((snapshot.cluster(), snapshot.nodes().len()), ("one", 0));
    let mut changes = poller.subscribe();
    moved.store(true, Ordering::SeqCst);
    let change = timeout(SOON, changes.next()).await.unwrap();
    assert_eq!(change, Some(Changed::Everything), "all that was known is of another cluster");
    assert_eq!(poller.latest().unwrap().cluster(), "two");
}

#[tokio::test]
async fn nodes_of_one_cluster_and_jobs_of_another_are_no_answer() {
    let server = Server::start(|request, _| {
        of_cluster(if request.contains("/nodes") { "one" } else { "two" }, request)
    })
    .await;
    let poller = Poller::start(client(&server), QUICK);
    let stale = poller.refresh(Duration::from_millis(300)).await.unwrap_err();
    assert!(stale.to_string().contains("jobs are those of cluster `two`"), "{stale}");
    assert!(poller.latest().is_none());
}

#[tokio::test]
async fn as_before_counts_only_for_the_cluster_that_was_asked_before() {
    let moved = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&moved);
    let server = Server::start(move |request, _| {
        let name = if seen.load(Ordering::SeqCst) { "two" } else { "one" };
        let meta = format!(r#""meta": {{"slurm": {{"cluster": "{name}"}}}}"#);
        let update = r#""last_update": {"set": true, "number": 1000}"#;
        if request.contains("/nodes") {
            return Reply::ok(format!(r#"{{"nodes": [{{"name": "a", "state": ["IDLE"]}}], {meta}}}"#));
        }
        if request.contains("update_time") {
            return Reply::Answer(304, String::new());
        }
        let id = if name == "one" { 1 } else { 2 };
        let job = format!(r#"{{"job_id": {id}, "job_state": ["RUNNING"], "nodes": "a"}}"#);
        Reply::ok(format!(r#"{{"jobs": [{job}], {update}, {meta}}}"#))
    })
    .await;
    let poller = Poller::start(client(&server), QUICK);
    poller.refresh(SOON).await.unwrap();
    moved.store(true, Ordering::SeqCst);
    until("the other cluster answers", || poller.latest().unwrap().cluster() == "two").await;
    assert_eq!(occupancy(&poller, "a"), Occupancy::Busy(Reason::Job(JobId(2))));
}

#[tokio::test]
async fn after_a_change_of_ours_the_next_look_comes_soon() {
    let server = Server::start(|request, _| {
        Reply::ok(if request.contains("/nodes") { DRAINED.to_owned() } else { jobs("RUNNING") })
    })
    .await;
    let pace = Pace { slow: Duration::from_secs(60), ..QUICK };
    let poller = Poller::start(client(&server), pace);
    // Slow by now.
    until("seven looks", || poller.health().looks >= 7).await;
    let looks = poller.health().looks;
    poller.look_soon();
    timeout(Duration::from_secs(1), async {
        while poller.health().looks == looks {
            sleep(Duration::from_millis(5)).await;
        }
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn a_refused_token_is_left_alone_until_there_is_another() {
    let good = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&good);
    let server = Server::start(move |request, _| {
        if !seen.load(Ordering::SeqCst) {
            return Reply::Answer(401, "no".into());
        }
        Reply::ok(if request.contains("/nodes") { DRAINED.to_owned() } else { jobs("RUNNING") })
    })
    .await;
    let pace = Pace { longest: Duration::from_secs(600), ..QUICK };
    let poller = Poller::start(client(&server), pace);
    until("two looks", || poller.health().looks == 2).await;
    sleep(Duration::from_millis(500)).await;
    assert_eq!(poller.health().looks, 2);
    good.store(true, Ordering::SeqCst);
    poller.look_anew();
    until("an answer", || poller.latest().is_some()).await;
    let looks = poller.health().looks;
    until("it goes on as ever", || poller.health().looks > looks + 3).await;
}
