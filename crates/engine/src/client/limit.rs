//! A bound on calls in flight that lets the more important ones go first.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::oneshot;

use super::call::{Call, Verb};

/// Who goes first when calls have to wait; the smaller the earlier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Priority {
    /// Leadership must not be lost because we are busy.
    Lease,
    /// Deletes free capacity, and drains wait for them.
    Delete,
    /// Users look at status.
    Status,
    /// All the rest.
    Normal,
}

impl Priority {
    /// The priority of a call.
    pub fn of(call: &Call) -> Self {
        if call.resource == "leases" {
            Self::Lease
        } else if matches!(call.verb, Verb::Delete | Verb::DeleteCollection)
            || call.subresource.as_deref() == Some("eviction")
        {
            Self::Delete
        } else if call.subresource.as_deref() == Some("status") {
            Self::Status
        } else {
            Self::Normal
        }
    }
}

/// Hands out a fixed number of permits, by priority and then in order of asking.
#[derive(Clone, Debug)]
pub struct PriorityLimit {
    state: Arc<Mutex<State>>,
}

#[derive(Debug)]
struct State {
    free: usize,
    asked: u64,
    waiting: BTreeMap<(Priority, u64), oneshot::Sender<Permit>>,
}

/// The right to make one call; given back on drop.
#[derive(Debug)]
pub struct Permit {
    /// None once the right has been handed on.
    state: Option<Arc<Mutex<State>>>,
}

impl PriorityLimit {
    /// A limit of `permits` calls at once; at least one.
    pub fn new(permits: usize) -> Self {
        let state = State { free: permits.max(1), asked: 0, waiting: BTreeMap::new() };
        Self { state: Arc::new(Mutex::new(state)) }
    }

    /// Waits for a permit. Dropping the future gives up the place in the queue.
    pub async fn acquire(&self, priority: Priority) -> Permit {
        let place = {
            let mut state = self.state.lock();
            if state.free > 0 {
                state.free -= 1;
                return Permit { state: Some(Arc::clone(&self.state)) };
            }
            let (send, receive) = oneshot::channel();
            let place = (priority, state.asked);
            state.asked += 1;
            state.waiting.insert(place, send);
            receive
        };
        match place.await {
            Ok(permit) => permit,
            // The sender lives in the queue, which we hold, until it is used.
            Err(_) => Permit { state: None },
        }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let Some(state) = self.state.take() else { return };
        // To the next one whose caller still waits.
        loop {
            let next = {
                let mut state = state.lock();
                match state.waiting.pop_first() {
                    Some((_, next)) => next,
                    None => {
                        state.free += 1;
                        return;
                    }
                }
            };
            match next.send(Permit { state: Some(Arc::clone(&state)) }) {
                Ok(()) => return,
                // It comes back as a value, whose drop must not start this all over.
                Err(mut refused) => refused.state = None,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_more_important_goes_first_and_equals_in_order() {
        let limit = PriorityLimit::new(1);
        let first = limit.acquire(Priority::Normal).await;
        let order = Arc::new(Mutex::new(Vec::new()));
        let mut tasks = Vec::new();
        let asked = [
            (Priority::Normal, "a"),
            (Priority::Normal, "b"),
            (Priority::Status, "s"),
            (Priority::Lease, "l"),
            (Priority::Delete, "d"),
        ];
        for (priority, name) in asked {
            let (limit, order) = (limit.clone(), Arc::clone(&order));
            tasks.push(tokio::spawn(async move {
                let _permit = limit.acquire(priority).await;
                order.lock().push(name);
            }));
            tokio::task::yield_now().await;
        }
        drop(first);
        for task in tasks {
            task.await.unwrap();
        }
        assert_eq!(*order.lock(), ["l", "d", "s", "a", "b"]);
    }

    #[tokio::test]
    async fn a_caller_that_gave_up_takes_no_permit_along() {
        let limit = PriorityLimit::new(1);
        let first = limit.acquire(Priority::Normal).await;
        let gave_up = tokio::spawn({
            let limit = limit.clone();
            async move { drop(limit.acquire(Priority::Lease).await) }
        });
        tokio::task::yield_now().await;
        gave_up.abort();
        let _ = gave_up.await;
        drop(first);
        let _again = limit.acquire(Priority::Normal).await;
        assert_eq!(limit.state.lock().free, 0);
    }
}
