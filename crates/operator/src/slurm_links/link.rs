//! The link to one cluster.

use std::sync::Arc;
use std::time::Duration;

use nodeset::Identity;
use parking_lot::{Mutex, RwLock};
use slurm::Moment;
use slurm_client::{Client, Health, Pace, Poller, Server, Snapshot, Stale, Timeouts, WatchGuard, now};
use tokio::task::JoinSet;

use super::credential::{Credential, Tokens};
use super::follow::{self, Teller};
use super::{LinkKey, Listeners, NoLink};

/// An answer that is older counts for nothing. It is three times the longest pause between two looks that go well.
pub const LONGEST_BELIEVED: Duration = Duration::from_secs(90);

/// How a link behaves.
#[derive(Clone, Copy, Debug)]
pub(super) struct Options {
    pub(super) pace: Pace,
    pub(super) timeouts: Timeouts,
    /// Whether the controllers are pinged with each look.
    pub(super) pings: bool,
}

/// What a ping said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pulse {
    /// A controller answers.
    Up,
    /// None does. These are their hosts.
    Down(Vec<String>),
}

/// The link to one cluster: a client, and a poller that everyone shares. The poller ends with the last who holds the link.
#[derive(Debug)]
pub struct Link {
    key: LinkKey,
    client: Client,
    tokens: Tokens,
    poller: Poller,
    expected: RwLock<Option<Box<str>>>,
    last_write: Mutex<Moment>,
    pulse: RwLock<Option<Pulse>>,
    /// They end with the link.
    followers: Mutex<JoinSet<()>>,
}

impl Link {
    pub(super) fn start(
        key: &LinkKey,
        server: Server,
        credential: Credential,
        options: Options,
        listeners: &Arc<Listeners>,
    ) -> Result<Arc<Self>, NoLink> {
        let tokens = Tokens::new(credential)?;
        // Controllers try again themselves.
        let client = Client::builder(server, tokens.clone()).timeouts(options.timeouts).retries(0).build()?;
        let poller = Poller::start(client.clone(), options.pace);
        let (changes, health) = (poller.subscribe(), poller.watch_health());
        let link = Arc::new(Self {
            key: key.clone(),
            client,
            tokens,
            poller,
            expected: RwLock::default(),
            last_write: Mutex::default(),
            pulse: RwLock::default(),
            followers: Mutex::default(),
        });
        let teller =
            Teller { link: Arc::downgrade(&link), key: key.clone(), listeners: Arc::clone(listeners) };
        let mut followers = link.followers.lock();
        if options.pings {
            followers.spawn(follow::ping(teller.clone(), link.client.clone(), health.clone()));
        }
        followers.spawn(follow::tell(teller, changes, health));
        drop(followers);
        Ok(link)
    }

    /// Whose link it is.
    pub const fn key(&self) -> &LinkKey {
        &self.key
    }

    /// The client, for changes in Slurm. Nobody reads lists by it.
    pub const fn client(&self) -> &Client {
        &self.client
    }

    /// The last lists, with their age; none before the first answer.
    pub fn snapshot(&self) -> Option<Arc<Snapshot>> {
        self.poller.latest()
    }

    /// How reading goes.
    pub fn health(&self) -> Health {
        self.poller.health()
    }

    /// Why there is no snapshot, or why the last look failed.
    pub fn problem(&self) -> Option<String> {
        let health = self.health();
        match health.error {
            Some(error) => Some(error.to_string()),
            None if health.looks == 0 => Some("Slurm is being asked for the first time".into()),
            None => None,
        }
    }

    /// What the last ping said; none if nobody pings this cluster, or the ping itself failed.
    pub fn pulse(&self) -> Option<Pulse> {
        self.pulse.read().clone()
    }

    /// Whose lists the last snapshot has.
    pub fn identity(&self) -> Identity {
        self.snapshot().map_or(Identity::Unproven, |snapshot| self.identity_of(&snapshot))
    }

    /// Whose lists these are, by the name of the cluster in Slurm's answer.
    pub fn identity_of(&self, snapshot: &Snapshot) -> Identity {
        identity(snapshot.cluster(), self.expected.read().as_deref())
    }

    /// A list that was asked for before this moment is too old: something of ours came after it, or it is too long ago.
    pub fn not_before(&self) -> Moment {
        let believed = now().earlier(LONGEST_BELIEVED);
        believed.max(*self.last_write.lock())
    }

    /// Notes that we just changed something in Slurm: what was read before is too old, and the next look comes soon.
    pub fn wrote(&self) {
        *self.last_write.lock() = now();
        self.poller.look_soon();
    }

    /// A snapshot that was asked for after this call: the look just before a deletion. See [`Link::identity_of`].
    pub async fn refresh(&self, limit: Duration) -> Result<Arc<Snapshot>, Stale> {
        self.poller.refresh(limit).await
    }

    /// Makes looks come often while somebody waits for a drain.
    pub fn watch_closely(&self) -> WatchGuard {
        self.poller.watch_closely()
    }

    /// What is shown to slurmrestd.
    pub fn credential(&self) -> Credential {
        self.tokens.credential()
    }

    /// Shows another credential from now on, and tries it at once.
    pub(super) fn show(&self, credential: Credential) -> Result<(), NoLink> {
        if self.tokens.show(credential)? {
            self.poller.look_anew();
        }
        Ok(())
    }

    /// Expects Slurm to call the cluster so.
    pub(super) fn expect_name(&self, name: Option<&str>) {
        if self.expected.read().as_deref() != name {
            *self.expected.write() = name.map(Into::into);
        }
    }

    pub(super) fn last_write(&self) -> Moment {
        *self.last_write.lock()
    }

    pub(super) fn note_pulse(&self, pulse: Option<Pulse>) -> bool {
        let mut known = self.pulse.write();
        let differs = *known != pulse;
        *known = pulse;
        differs
    }
}

/// Whose answer it is. Slurm writes all names of clusters in lower case.
fn identity(told: &str, expected: Option<&str>) -> Identity {
    match expected {
        // It does not tell, or nobody knows what to expect.
        _ if told.is_empty() => Identity::Unproven,
        None => Identity::Unproven,
        Some(expected) if told.eq_ignore_ascii_case(expected) => Identity::Proven,
        Some(_) => Identity::Foreign,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_expected_name_proves_whose_answer_it_is() {
        assert_eq!(identity("a", Some("a")), Identity::Proven);
        assert_eq!(identity("a", Some("A")), Identity::Proven);
        assert_eq!(identity("b", Some("a")), Identity::Foreign);
        assert_eq!(identity("", Some("a")), Identity::Unproven);
        assert_eq!(identity("b", None), Identity::Unproven);
        assert_eq!(identity("", None), Identity::Unproven);
        assert_eq!(identity("", Some("")), Identity::Unproven, "no name proves nothing");
    }
}
