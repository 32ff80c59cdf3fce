//! Follows a poller, and tells those who want to hear of it.

use std::sync::{Arc, Weak};

use slurm::{ControllerPing, Moment};
use slurm_client::{Changed, Client, Error, Health, Subscription};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use super::link::{LONGEST_BELIEVED, Link, Pulse};
use super::{LinkKey, Listeners};

/// Tells listeners of a link.
#[derive(Clone)]
pub(super) struct Teller {
    /// Weak: the tasks that follow a link do not keep it.
    pub(super) link: Weak<Link>,
    pub(super) key: LinkKey,
    pub(super) listeners: Arc<Listeners>,
}

impl Teller {
    fn tell(&self, changed: &Changed) {
        self.listeners.tell(&self.key, changed);
    }
}

/// What was seen of a link so far.
#[derive(Debug, Default)]
struct Seen {
    looks: u64,
    /// The kind of the failure; none while it answers.
    failure: Option<&'static str>,
    /// The last own write that has been followed by an answer.
    write: Moment,
    /// When the last answer is too old to be believed, while none comes.
    too_old_at: Option<Instant>,
}

/// Tells of changes, of the begin and end of answers, and of the first answer after each own write.
pub(super) async fn tell(teller: Teller, mut changes: Subscription, mut health: watch::Receiver<Health>) {
    let mut seen = Seen::default();
    // The first look may be over already.
    health.mark_changed();
    loop {
        let too_old_at = seen.too_old_at;
        tokio::select! {
            changed = changes.next() => match changed {
                Some(changed) => teller.tell(&changed),
                None => return,
            },
            looked = health.changed() => {
                if looked.is_err() {
                    return;
                }
                let health = health.borrow_and_update().clone();
                let Some(link) = teller.link.upgrade() else { return };
                if seen.look(&link, &health) {
                    teller.tell(&Changed::Everything);
                }
            }
            () = at(too_old_at) => {
                seen.too_old_at = None;
                teller.tell(&Changed::Everything);
            }
        }
    }
}

async fn at(time: Option<Instant>) {
    match time {
        Some(time) => sleep_until(time).await,
        None => std::future::pending().await,
    }
}

impl Seen {
    /// Takes in the outcome of a look. Returns whether it is news beyond a change of nodes or jobs.
    fn look(&mut self, link: &Link, health: &Health) -> bool {
        if health.looks == 0 {
            return false;
        }
        let failure = health.error.as_ref().map(|error| error.category());
        let mut news = self.looks == 0 || failure != self.failure;
        self.looks = health.looks;
        let Some(snapshot) = link.snapshot() else {
            self.failure = failure;
            return news;
        };
        if failure.is_none() {
            self.too_old_at = None;
            let write = link.last_write();
            if write > self.write && snapshot.asked() >= write {
                self.write = write;
                news = true;
            }
        } else if self.failure.is_none() {
            self.too_old_at = Some(Instant::now() + LONGEST_BELIEVED.saturating_sub(snapshot.age()));
        }
        self.failure = failure;
        news
    }
}

/// Pings the controllers after each look, where a ping can tell more than the look did.
pub(super) async fn ping(teller: Teller, client: Client, mut health: watch::Receiver<Health>) {
    loop {
        let told = health.borrow_and_update().clone();
        let pulse =
            if is_worth_a_ping(&told) { client.ping().await.ok().map(|pings| pulse(&pings)) } else { None };
        let Some(link) = teller.link.upgrade() else { return };
        let is_news = link.note_pulse(pulse);
        drop(link);
        if is_news {
            teller.tell(&Changed::Everything);
        }
        if health.changed().await.is_err() {
            return;
        }
    }
}

/// slurmrestd answers, but what about slurmctld? Where slurmrestd itself does not, or refuses the token, a ping tells nothing.
fn is_worth_a_ping(health: &Health) -> bool {
    health.looks > 0
        && match health.error.as_deref() {
            None => true,
            Some(error) => matches!(error, Error::Refused { .. }),
        }
}

fn pulse(pings: &[ControllerPing]) -> Pulse {
    if pings.iter().any(|ping| ping.responding) {
        return Pulse::Up;
    }
    let mut hosts: Vec<String> = pings.iter().map(|ping| ping.hostname.clone()).collect();
    hosts.sort();
    Pulse::Down(hosts)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ping(hostname: &str, responding: bool) -> ControllerPing {
        ControllerPing { hostname: hostname.into(), responding, primary: false, latency: 0 }
    }

    #[test]
    fn one_controller_that_answers_is_enough() {
        assert_eq!(pulse(&[ping("b", false), ping("a", true)]), Pulse::Up);
        assert_eq!(pulse(&[ping("b", false), ping("a", false)]), Pulse::Down(vec!["a".into(), "b".into()]));
        assert_eq!(pulse(&[]), Pulse::Down(Vec::new()));
    }
}
