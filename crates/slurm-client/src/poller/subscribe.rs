//! Telling consumers what changed.

use std::sync::Arc;

use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;

/// What changed in a snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Changed {
    /// These nodes: their record, or the jobs on them.
    Nodes(Arc<[Arc<str>]>),
    /// Anything: it is the first snapshot, or the subscriber was too slow to be told one by one.
    Everything,
}

/// Hears of changes.
#[derive(Debug)]
pub struct Subscription {
    receiver: Receiver<Changed>,
}

impl Subscription {
    pub(super) const fn new(receiver: Receiver<Changed>) -> Self {
        Self { receiver }
    }

    /// Waits for the next change; none when the poller is gone.
    pub async fn next(&mut self) -> Option<Changed> {
        match self.receiver.recv().await {
            Ok(changed) => Some(changed),
            Err(RecvError::Lagged(_)) => {
                // "Everything" includes what still waits.
                self.receiver = self.receiver.resubscribe();
                Some(Changed::Everything)
            }
            Err(RecvError::Closed) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::broadcast;

    use super::*;

    fn nodes(name: &str) -> Changed {
        Changed::Nodes([name.into()].into())
    }

    #[tokio::test]
    async fn a_subscriber_that_was_too_slow_learns_that_anything_may_have_changed() {
        let (sender, receiver) = broadcast::channel(2);
        let mut subscription = Subscription::new(receiver);
        for name in ["a", "b", "c", "d"] {
            sender.send(nodes(name)).unwrap();
        }
        assert_eq!(subscription.next().await, Some(Changed::Everything));
        sender.send(nodes("e")).unwrap();
        assert_eq!(subscription.next().await, Some(nodes("e")));
        drop(sender);
        assert_eq!(subscription.next().await, None);
    }
}
