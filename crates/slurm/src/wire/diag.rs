//! Counters, as the REST API writes them.

use serde::Deserialize;

use super::Text;
use crate::{Diag, Number, RpcCount};

#[derive(Default, Deserialize)]
#[serde(default)]
struct Answer<'a> {
    #[serde(borrow)]
    statistics: Option<Wire<'a>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Wire<'a> {
    server_thread_count: Number,
    agent_queue_size: Number,
    dbd_agent_queue_size: Number,
    schedule_cycle_last: Number,
    schedule_cycle_max: Number,
    schedule_cycle_mean: Number,
    bf_cycle_last: Number,
    bf_cycle_mean: Number,
    jobs_pending: Number,
    jobs_running: Number,
    jobs_submitted: Number,
    jobs_started: Number,
    jobs_completed: Number,
    jobs_canceled: Number,
    jobs_failed: Number,
    #[serde(borrow)]
    rpcs_by_message_type: Vec<WireRpc<'a>>,
    #[serde(borrow)]
    rpcs_by_user: Vec<WireRpc<'a>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct WireRpc<'a> {
    #[serde(borrow)]
    message_type: Text<'a>,
    #[serde(borrow)]
    user: Text<'a>,
    count: Number,
    total_time: Number,
}

/// Reads the answer to `GET diag`; none if it has no counters.
pub fn decode_diag(json: &[u8]) -> Result<Option<Diag>, serde_json::Error> {
    let answer: Answer<'_> = serde_json::from_slice(json)?;
    let rpcs = |wires: Vec<WireRpc<'_>>| {
        let count = |wire: WireRpc<'_>| RpcCount {
            count: wire.count.or_zero(),
            total_time: wire.total_time.or_zero(),
            name: if wire.user.is_empty() { wire.message_type } else { wire.user }.into(),
        };
        wires.into_iter().map(count).collect()
    };
    Ok(answer.statistics.map(|wire| Diag {
        server_threads: wire.server_thread_count.or_zero(),
        agent_queue: wire.agent_queue_size.or_zero(),
        dbd_agent_queue: wire.dbd_agent_queue_size.or_zero(),
        schedule_cycle_last: wire.schedule_cycle_last.or_zero(),
        schedule_cycle_max: wire.schedule_cycle_max.or_zero(),
        schedule_cycle_mean: wire.schedule_cycle_mean.or_zero(),
        backfill_cycle_last: wire.bf_cycle_last.or_zero(),
        backfill_cycle_mean: wire.bf_cycle_mean.or_zero(),
        jobs_pending: wire.jobs_pending.or_zero(),
        jobs_running: wire.jobs_running.or_zero(),
        jobs_submitted: wire.jobs_submitted.or_zero(),
        jobs_started: wire.jobs_started.or_zero(),
        jobs_completed: wire.jobs_completed.or_zero(),
        jobs_canceled: wire.jobs_canceled.or_zero(),
        jobs_failed: wire.jobs_failed.or_zero(),
        rpcs_by_type: rpcs(wire.rpcs_by_message_type),
        rpcs_by_user: rpcs(wire.rpcs_by_user),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_read() {
        let json = br#"{"statistics": {"server_thread_count": 3, "jobs_running": 2,
            "rpcs_by_message_type": [{"message_type": "REQUEST_PING", "type_id": 1008, "count": 5, "total_time": 50}],
            "rpcs_by_user": [{"user": "root", "user_id": 0, "count": 1, "total_time": 9}]}}"#;
        let diag = decode_diag(json).unwrap().unwrap();
        assert_eq!((diag.server_threads, diag.jobs_running), (3, 2));
        assert_eq!(diag.rpcs_by_type[0].name, "REQUEST_PING");
        assert_eq!(diag.rpcs_by_user[0].name, "root");
        assert_eq!(decode_diag(b"{}").unwrap(), None);
    }
}
