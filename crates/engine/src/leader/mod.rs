//! Leader election by a Lease: one process writes, the others keep warm caches.
//!
//! Expiry is judged by when *we* last saw the lease change, on the monotonic clock; each write carries the version it is
//! based on, so that two candidates cannot both win; and every write of the client is gated by the claim, so that a leader
//! that was paused past its lease writes nothing more.

mod decide;

use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use kube::api::{Api, PostParams};
use kube::{Client, ResourceExt as _};
use parking_lot::RwLock;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::client::WriteGate;
use crate::error::chain;
pub use decide::Times;
use decide::{Decision, Followed, Seen};

/// The right to write, as the gate of the client and the controllers see it.
#[derive(Clone, Debug)]
pub struct Claim {
    until: Arc<RwLock<Option<Instant>>>,
}

impl Claim {
    /// A claim that is not held yet.
    pub fn none() -> Self {
        Self { until: Arc::default() }
    }

    /// Whether we hold it now.
    pub fn is_held(&self) -> bool {
        self.until.read().is_some_and(|until| Instant::now() < until)
    }

    fn hold(&self, until: Instant) {
        *self.until.write() = Some(until);
    }

    fn drop_it(&self) {
        *self.until.write() = None;
    }
}

impl WriteGate for Claim {
    fn may_write_until(&self) -> Option<Instant> {
        *self.until.read()
    }
}

/// Which lease, and under which name we hold it.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// The namespace of the Lease.
    pub namespace: String,
    /// Its name.
    pub lease: String,
    /// Our name: unique per process.
    pub identity: String,
    /// How long claims last.
    pub times: Times,
}

/// A name for this process that no other has: that of its pod or machine, and something random, because a container that
/// starts again in the same pod is another process.
pub fn identity() -> String {
    let host = std::env::var("HOSTNAME").ok().or_else(|| std::fs::read_to_string("/etc/hostname").ok());
    let host = host.as_deref().map(str::trim).filter(|host| !host.is_empty()).unwrap_or("soperator");
    format!("{host}_{:016x}", rand::random::<u64>())
}

/// Why a process is not the leader any more.
#[derive(Debug, thiserror::Error)]
pub enum Lost {
    /// The API server could not be asked for too long.
    #[error("the lease {0} could not be renewed in time")]
    NotRenewed(String),
    /// Somebody else has it.
    #[error("the lease {0} was taken by {1}")]
    Taken(String, String),
}

/// A candidate at work.
#[derive(Debug)]
pub struct Election {
    candidate: Candidate,
    api: Api<Lease>,
    claim: Claim,
    followed: Followed,
    elected: watch::Sender<bool>,
}

impl Election {
    /// Prepares to run for leadership. `claim` is the one that the client's gate asks.
    pub fn new(client: Client, candidate: Candidate, claim: Claim) -> Self {
        let api = Api::namespaced(client, &candidate.namespace);
        Self { candidate, api, claim, followed: Followed::default(), elected: watch::Sender::new(false) }
    }

    /// Becomes true when we are elected.
    pub fn elected(&self) -> watch::Receiver<bool> {
        self.elected.subscribe()
    }

    /// Runs for leadership and keeps it, until `stop` (then the lease is released) or until it is lost: then the process
    /// should end, because what it does now may be outdated.
    pub async fn run(mut self, stop: CancellationToken) -> Result<(), Lost> {
        let mut renewed: Option<Instant> = None;
        let result = loop {
            let wait = match stop.run_until_cancelled(self.step(&mut renewed)).await {
                None => break Ok(()),
                Some(Ok(wait)) => wait,
                Some(Err(lost)) => break Err(lost),
            };
            if stop.run_until_cancelled(tokio::time::sleep(wait)).await.is_none() {
                break Ok(());
            }
        };
        let held = self.claim.is_held();
        self.claim.drop_it();
        self.elected.send_replace(false);
        if held && result.is_ok() {
            self.release().await;
        }
        result
    }

    /// Looks once and acts once; returns how long to wait.
    async fn step(&mut self, renewed: &mut Option<Instant>) -> Result<Duration, Lost> {
        let times = self.candidate.times;
        let asked_at = Instant::now();
        let turn = tokio::time::timeout(times.renew / 2, self.look_and_act()).await;
        let now = Instant::now();
        match turn {
            Ok(Ok(Turn::Held)) => {
                // From before we asked: whoever sees the lease change does so later.
                *renewed = Some(asked_at);
                self.claim.hold(asked_at + times.renew);
                if !*self.elected.borrow() {
                    tracing::info!(
                        lease = self.candidate.lease,
                        identity = self.candidate.identity,
                        "became leader"
                    );
                    self.elected.send_replace(true);
                }
                return Ok(times.retry);
            }
            Ok(Ok(Turn::Waiting { holder, wait })) => {
                if renewed.is_some() {
                    return Err(Lost::Taken(self.candidate.lease.clone(), holder));
                }
                return Ok(wait);
            }
            Ok(Err(error)) => {
                tracing::warn!(lease = self.candidate.lease, error = %chain(&error), "the lease could not be read or written");
            }
            Err(_) => tracing::warn!(lease = self.candidate.lease, "no answer about the lease"),
        }
        match renewed {
            Some(renewed) if now.saturating_duration_since(*renewed) >= times.renew => {
                Err(Lost::NotRenewed(self.candidate.lease.clone()))
            }
            _ => Ok(times.retry),
        }
    }

    async fn look_and_act(&mut self) -> Result<Turn, kube::Error> {
        let lease = self.api.get_opt(&self.candidate.lease).await?;
        let now = Instant::now();
        self.followed.observe(lease.as_ref().map(seen), now);
        let candidate = &self.candidate;
        let written = match self.followed.decide(&candidate.identity, candidate.times, now) {
            Decision::Create => self.api.create(&PostParams::default(), &self.lease(None, true)).await,
            Decision::Take { version, new_holder } => {
                let mut next = self.lease(lease.as_ref(), new_holder);
                next.metadata.resource_version = Some(version);
                self.api.replace(&candidate.lease, &PostParams::default(), &next).await
            }
            Decision::Wait(wait) => {
                let holder = lease.as_ref().map(seen).map(|lease| lease.holder).unwrap_or_default();
                return Ok(Turn::Waiting { holder, wait });
            }
        };
        match written {
            Ok(lease) => {
                self.followed.observe(Some(seen(&lease)), now);
                Ok(Turn::Held)
            }
            // Somebody was faster; we look again at once and learn who.
            Err(kube::Error::Api(status)) if status.code == 409 => {
                Ok(Turn::Waiting { holder: "another process".into(), wait: Duration::from_millis(100) })
            }
            Err(error) => Err(error),
        }
    }

    fn lease(&self, before: Option<&Lease>, new_holder: bool) -> Lease {
        let now = MicroTime(Timestamp::now());
        let spec = before.and_then(|lease| lease.spec.clone()).unwrap_or_default();
        let transitions = spec.lease_transitions.unwrap_or(0) + i32::from(new_holder && before.is_some());
        let acquired = if new_holder { Some(now.clone()) } else { spec.acquire_time.or(Some(now.clone())) };
        Lease {
            metadata: before.map_or_else(
                || ObjectMeta { name: Some(self.candidate.lease.clone()), ..ObjectMeta::default() },
                |lease| lease.metadata.clone(),
            ),
            spec: Some(LeaseSpec {
                holder_identity: Some(self.candidate.identity.clone()),
                lease_duration_seconds: i32::try_from(self.candidate.times.lease.as_secs().max(1)).ok(),
                acquire_time: acquired,
                renew_time: Some(now),
                lease_transitions: Some(transitions),
                ..LeaseSpec::default()
            }),
        }
    }

    /// Lets the next one take over at once.
    async fn release(&self) {
        let released = async {
            let Some(mut lease) = self.api.get_opt(&self.candidate.lease).await? else { return Ok(()) };
            if seen(&lease).holder != self.candidate.identity {
                return Ok(());
            }
            if let Some(spec) = &mut lease.spec {
                (spec.holder_identity, spec.lease_duration_seconds) = (Some(String::new()), Some(1));
            }
            self.api.replace(&self.candidate.lease, &PostParams::default(), &lease).await.map(|_| ())
        };
        let error = match tokio::time::timeout(Duration::from_secs(3), released).await {
            Ok(Ok(())) => return tracing::info!(lease = self.candidate.lease, "released the lease"),
            Ok(Err(error)) => chain(&error),
            Err(_) => "no answer".to_string(),
        };
        tracing::warn!(
            lease = self.candidate.lease,
            error,
            "the lease could not be released; it will run out"
        );
    }
}

enum Turn {
    Held,
    Waiting { holder: String, wait: Duration },
}

fn seen(lease: &Lease) -> Seen {
    let spec = lease.spec.as_ref();
    Seen {
        holder: spec.and_then(|spec| spec.holder_identity.clone()).unwrap_or_default(),
        duration: Duration::from_secs(
            spec.and_then(|spec| spec.lease_duration_seconds)
                .and_then(|seconds| u64::try_from(seconds).ok())
                .unwrap_or(0),
        ),
        version: lease.resource_version().unwrap_or_default(),
    }
}
