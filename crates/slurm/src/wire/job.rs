//! Jobs, as the REST API writes them.

use serde::Deserialize;

use super::{Record, Text, list};
use crate::{Interner, Job, JobId, JobOrigin, JobState, Number};

#[derive(Default, Deserialize)]
#[serde(default)]
struct Wire<'a> {
    job_id: Number,
    array_job_id: Number,
    array_task_id: Number,
    het_job_id: Number,
    node_count: Number,
    cpus: Number,
    job_state: JobState,
    #[serde(borrow)]
    name: Text<'a>,
    #[serde(borrow)]
    nodes: Text<'a>,
    user_id: Number,
    #[serde(borrow)]
    user_name: Text<'a>,
    #[serde(borrow)]
    account: Text<'a>,
    #[serde(borrow)]
    partition: Text<'a>,
    #[serde(borrow)]
    qos: Text<'a>,
    #[serde(borrow)]
    resv_name: Text<'a>,
    #[serde(borrow)]
    state_reason: Text<'a>,
    #[serde(borrow)]
    tres_alloc_str: Text<'a>,
    submit_time: Number,
    start_time: Number,
    end_time: Number,
    time_limit: Number,
}

impl Record for Job {
    const LIST: &'static str = "jobs";

    fn decode(json: &[u8], interner: &mut Interner) -> Result<Self, serde_json::Error> {
        let wire: Wire<'_> = list::read(json)?;
        // Slurm writes 0 for "part of none".
        let other_id = |number: Number| number.value_u32().filter(|id| *id != 0).map(JobId);
        let array_job_id = other_id(wire.array_job_id);
        let origin = JobOrigin {
            user_id: wire.user_id.or_zero_u32(),
            user: interner.text(&wire.user_name),
            account: interner.text(&wire.account),
            partition: interner.text(&wire.partition),
            qos: interner.text(&wire.qos),
            reservation: interner.text(&wire.resv_name),
        };
        Ok(Self {
            id: JobId(wire.job_id.or_zero_u32()),
            array_job_id,
            array_task_id: array_job_id.and_then(|_| wire.array_task_id.value_u32()),
            het_job_id: other_id(wire.het_job_id),
            node_count: wire.node_count.or_zero_u32(),
            cpus: wire.cpus.or_zero_u32(),
            state: wire.job_state,
            name: wire.name.into(),
            nodes: interner.text(&wire.nodes),
            origin: interner.origin(origin),
            reason: interner.text(&wire.state_reason),
            tres: interner.text(&wire.tres_alloc_str),
            submit_time: wire.submit_time.or_zero(),
            start_time: wire.start_time.or_zero(),
            end_time: wire.end_time.or_zero(),
            time_limit: wire.time_limit,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Hold;

    #[test]
    fn a_job_is_read() {
        let mut interner = Interner::default();
        let job = Job::decode(
            br#"{"job_id": 7, "array_job_id": {"set": true, "infinite": false, "number": 5},
                "array_task_id": {"set": true, "infinite": false, "number": 2},
                "het_job_id": {"set": true, "infinite": false, "number": 0},
                "job_state": ["RUNNING"], "name": "train", "nodes": "w-[0-1]", "partition": "gpu",
                "user_name": "ann", "user_id": 1001, "time_limit": {"set": true, "infinite": true, "number": 0}}"#,
            &mut interner,
        )
        .unwrap();
        assert_eq!(job.id, JobId(7));
        assert_eq!((job.array_job_id, job.array_task_id), (Some(JobId(5)), Some(2)));
        assert_eq!(job.het_job_id, None);
        assert_eq!((&*job.nodes, &*job.origin.partition, &*job.origin.user), ("w-[0-1]", "gpu", "ann"));
        assert_eq!(job.time_limit, Number::Infinite);
    }

    #[test]
    fn a_job_without_a_state_holds_its_nodes_as_far_as_we_can_tell() {
        let job = Job::decode(br#"{"job_id": 7, "nodes": "w-0"}"#, &mut Interner::default()).unwrap();
        assert_eq!(job.state.holds_nodes(), Hold::Unclear);
    }

    #[test]
    fn jobs_of_the_same_origin_share_it() {
        let mut interner = Interner::default();
        let json = br#"{"job_id": 7, "partition": "gpu", "user_name": "ann"}"#;
        let (one, two) =
            (Job::decode(json, &mut interner).unwrap(), Job::decode(json, &mut interner).unwrap());
        assert!(std::sync::Arc::ptr_eq(&one.origin, &two.origin));
    }

    #[test]
    fn a_job_takes_little_memory() {
        assert!(size_of::<Job>() <= 168, "{}", size_of::<Job>());
    }
}
