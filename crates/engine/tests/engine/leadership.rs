//! Two processes, one lease: exactly one works, and the other takes over.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use engine::client;
use engine::leader::{Candidate, Claim, Election, Times};
use http::HeaderValue;
use http::header::USER_AGENT;
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::PostParams;
use kube::{Api, Client};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

use crate::sample::{self, Bug, Widget, WidgetSpec};
use crate::server::{self, config};

const LEASE: &str = "widgets";
const TIMES: Times =
    Times { lease: Duration::from_secs(3), renew: Duration::from_secs(2), retry: Duration::from_millis(400) };

/// Not a test: the program of the processes below, which are this very program with this filter.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "started by the tests of this file"]
async fn candidate_process() -> Result<()> {
    let (namespace, identity) = (std::env::var("CANDIDATE_NAMESPACE")?, std::env::var("CANDIDATE_IDENTITY")?);
    let kubeconfig = kube::config::Kubeconfig::read_from(std::env::var("CANDIDATE_KUBECONFIG")?)?;
    let mut config = kube::Config::from_custom_kubeconfig(kubeconfig, &Default::default()).await?;
    config.headers.push((USER_AGENT, HeaderValue::from_str(&identity)?));
    let claim = Claim::none();
    let options = client::Options { gate: Some(Arc::new(claim.clone())), ..client::Options::default() };
    let client = client::connect(config, options)?;
    let candidate = Candidate { namespace: namespace.clone(), lease: LEASE.into(), identity, times: TIMES };
    let election = Election::new(client.clone(), candidate, claim);
    let (elected, stop) = (election.elected(), CancellationToken::new());
    tokio::spawn(sample::run_when(client, namespace, stop.clone(), Bug::None, elected));
    match election.run(stop).await {
        Ok(()) => Ok(()),
        Err(lost) => {
            eprintln!("{lost}");
            std::process::exit(3)
        }
    }
}

struct Candidates {
    namespace: rig::Namespace,
    children: Vec<(String, Child)>,
}

impl Candidates {
    async fn start() -> Result<Self> {
        let server = server::server().await?;
        let namespace = server.namespace("lease").await?;
        let mut children = Vec::new();
        for name in ["a", "b"] {
            let identity = format!("{}-{name}", namespace.name());
            let child = Command::new(std::env::current_exe()?)
                .args(["--exact", "leadership::candidate_process", "--ignored", "--nocapture"])
                .env("CANDIDATE_NAMESPACE", namespace.name())
                .env("CANDIDATE_IDENTITY", &identity)
                .env("CANDIDATE_KUBECONFIG", server.kubeconfig())
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .spawn()?;
            children.push((identity, child));
        }
        Ok(Self { namespace, children })
    }

    fn client(&self) -> Client {
        self.namespace.client()
    }

    /// Who holds the lease now.
    async fn holder(&self) -> Result<Option<String>> {
        let lease = Api::<Lease>::namespaced(self.client(), self.namespace.name()).get_opt(LEASE).await?;
        Ok(lease.and_then(|lease| lease.spec?.holder_identity))
    }

    async fn holder_other_than(&self, not: &str) -> Result<String> {
        until("the lease has a new holder", async || Ok(self.holder().await?.filter(|holder| holder != not)))
            .await
    }

    fn signal(&self, identity: &str, signal: Signal) -> Result<()> {
        let (_, child) =
            self.children.iter().find(|(name, _)| name == identity).context("no such candidate")?;
        Ok(kill(Pid::from_raw(i32::try_from(child.id())?), signal)?)
    }

    async fn make_widgets(&self, names: std::ops::Range<usize>) -> Result<()> {
        for number in names {
            let spec = WidgetSpec { text: number.to_string(), ..WidgetSpec::default() };
            let widget = Widget::new(&format!("w{number}"), spec);
            self.namespace.api::<Widget>().create(&PostParams::default(), &widget).await?;
        }
        Ok(())
    }

    async fn all_applied(&self, count: usize) -> Result<()> {
        let api = self.namespace.api::<Widget>();
        until("all widgets are applied", async || {
            let done = api
                .list(&Default::default())
                .await?
                .iter()
                .filter(|widget| {
                    widget
                        .status
                        .as_ref()
                        .is_some_and(|status| engine::condition::is_true(&status.conditions, "Applied"))
                })
                .count();
            Ok((done == count).then_some(()))
        })
        .await
    }

    /// How many writes the API server saw from this process, without refused ones.
    fn writes_of(&self, identity: &str) -> Result<usize> {
        let log =
            tokio::task::block_in_place(|| tokio::runtime::Handle::current().block_on(server::server()))?
                .audit_log()
                .context("an audit log")?;
        let wrote = |call: &&rig::Call| {
            call.user_agent == identity
                && matches!(call.verb.as_str(), "create" | "update" | "patch" | "delete")
                && call.response_status.as_ref().is_some_and(|status| status.code < 300)
        };
        Ok(log.calls()?.iter().filter(wrote).count())
    }
}

impl Drop for Candidates {
    fn drop(&mut self) {
        for (_, child) in &mut self.children {
            // Ended already, perhaps.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

async fn until<T>(what: &str, mut check: impl AsyncFnMut() -> Result<Option<T>>) -> Result<T> {
    let deadline = Instant::now() + Duration::from_secs(30);
    while Instant::now() < deadline {
        if let Some(value) = check().await? {
            return Ok(value);
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    bail!("waited 30 s until {what}")
}

#[tokio::test(flavor = "multi_thread")]
async fn when_the_leader_is_killed_the_other_finishes_its_work() -> Result<()> {
    let candidates = Candidates::start().await?;
    let leader = candidates.holder_other_than("").await?;
    candidates.make_widgets(0..6).await?;
    candidates.signal(&leader, Signal::SIGKILL)?;
    let killed = Instant::now();
    candidates.make_widgets(6..8).await?;
    candidates.holder_other_than(&leader).await?;
    // Twice, because the lease may have been renewed just before, and this machine may be slow.
    assert!(killed.elapsed() < TIMES.lease * 2, "{:?}", killed.elapsed());
    candidates.all_applied(8).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_that_was_paused_past_its_lease_writes_nothing_more_and_ends() -> Result<()> {
    for _ in 0..rounds() {
        let mut candidates = Candidates::start().await?;
        let leader = candidates.holder_other_than("").await?;
        candidates.make_widgets(0..1).await?;
        candidates.all_applied(1).await?;
        candidates.signal(&leader, Signal::SIGSTOP)?;
        candidates.holder_other_than(&leader).await?;
        // Work that the paused one will find in its watches when it wakes up.
        candidates.make_widgets(1..4).await?;
        candidates.all_applied(4).await?;
        // The audit log is written in batches.
        tokio::time::sleep(Duration::from_secs(2)).await;
        let before = candidates.writes_of(&leader)?;
        assert!(before > 0, "the log shows its earlier writes");
        candidates.signal(&leader, Signal::SIGCONT)?;
        let (_, child) =
            candidates.children.iter_mut().find(|(name, _)| *name == leader).context("the leader")?;
        let status = until("the old leader has ended", async || Ok(child.try_wait()?)).await?;
        assert_eq!(status.code(), Some(3));
        tokio::time::sleep(Duration::from_secs(2)).await;
        assert_eq!(candidates.writes_of(&leader)?, before);
    }
    Ok(())
}

/// Once in `make test`; as often as asked in `make soak`.
fn rounds() -> usize {
    std::env::var("SOPERATOR_SOAK").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(1)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stopped_leader_releases_its_lease_at_once() -> Result<()> {
    let namespace = server::server().await?.namespace("release").await?;
    let client = server::client(config().await?, None)?;
    let candidate = Candidate {
        namespace: namespace.name().into(),
        lease: LEASE.into(),
        identity: "me".into(),
        times: Times { lease: Duration::from_secs(600), ..Times::default() },
    };
    let (claim, stop) = (Claim::none(), CancellationToken::new());
    let election = Election::new(client.clone(), candidate, claim.clone());
    let mut elected = election.elected();
    let running = tokio::spawn(election.run(stop.clone()));
    elected.wait_for(|elected| *elected).await?;
    assert!(claim.is_held());
    stop.cancel();
    running.await??;
    assert!(!claim.is_held());
    let lease = Api::<Lease>::namespaced(client, namespace.name()).get(LEASE).await?;
    assert_eq!(lease.spec.context("a spec")?.holder_identity.as_deref(), Some(""));
    Ok(())
}
