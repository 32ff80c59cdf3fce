//! Submissions, as the REST API wants them.

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::Text;
use super::reservation::encode_number;
use crate::{JobId, Number, Submission, Submitted};

/// The body of `POST job/submit`.
pub fn encode_submission(submission: &Submission) -> Value {
    let Submission {
        script,
        name,
        working_directory,
        environment,
        partition,
        account,
        nodes,
        required_nodes,
        tasks,
        time_limit,
        array,
        reservation,
        standard_output,
        standard_error,
        comment,
    } = submission;
    let mut job = Map::new();
    let mut put = |key: &str, value: Option<Value>| {
        if let Some(value) = value {
            job.insert(key.into(), value);
        }
    };
    put("script", Some(script.clone().into()));
    put("current_working_directory", Some(working_directory.clone().into()));
    put("environment", Some(environment.clone().into()));
    put("name", name.clone().map(Into::into));
    put("partition", partition.clone().map(Into::into));
    put("account", account.clone().map(Into::into));
    put("nodes", nodes.clone().map(Into::into));
    // A list of one host list: commas inside brackets must not be split.
    put("required_nodes", required_nodes.clone().map(|nodes| vec![nodes].into()));
    put("tasks", tasks.map(Into::into));
    put("time_limit", time_limit.map(encode_number));
    put("array", array.clone().map(Into::into));
    put("reservation", reservation.clone().map(Into::into));
    put("standard_output", standard_output.clone().map(Into::into));
    put("standard_error", standard_error.clone().map(Into::into));
    put("comment", comment.clone().map(Into::into));
    json!({ "job": job })
}

/// Reads the answer to `POST job/submit`; none if it names no job.
pub fn decode_submitted(json: &[u8]) -> Result<Option<Submitted>, serde_json::Error> {
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Wire<'a> {
        job_id: Number,
        #[serde(borrow)]
        job_submit_user_msg: Text<'a>,
    }
    let wire: Wire<'_> = serde_json::from_slice(json)?;
    let id = wire.job_id.value_u32().filter(|id| *id != 0);
    Ok(id.map(|id| Submitted { id: JobId(id), message: wire.job_submit_user_msg.into() }))
}

/// Whether the answer to `DELETE job/{id}` says that there is no such job. It has status 200 and no errors all the same.
pub fn says_no_such_job(json: &[u8]) -> bool {
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Wire {
        status: Vec<Status>,
    }
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Status {
        error: Code,
    }
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Code {
        code: Number,
    }
    const INVALID_JOB_ID: u64 = 2017;
    let wire: Wire = serde_json::from_slice(json).unwrap_or_default();
    wire.status.iter().any(|status| status.error.code == Number::Value(INVALID_JOB_ID))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_submission_sends_only_what_was_asked_for() {
        let submission = Submission {
            script: "#!/bin/sh\n".into(),
            working_directory: "/tmp".into(),
            environment: vec!["PATH=/bin".into()],
            required_nodes: Some("w-[0,2]".into()),
            time_limit: Some(Number::Value(5)),
            ..Submission::default()
        };
        assert_eq!(
            encode_submission(&submission),
            json!({
                "job": {
                    "script": "#!/bin/sh\n",
                    "current_working_directory": "/tmp", "environment": ["PATH=/bin"],
                    "required_nodes": ["w-[0,2]"],
                    "time_limit": {"set": true, "infinite": false, "number": 5},
                },
            })
        );
    }

    #[test]
    fn an_answer_without_a_job_is_none() {
        assert_eq!(decode_submitted(br#"{"job_id": 0}"#).unwrap(), None);
        assert_eq!(decode_submitted(br#"{"job_id": 7}"#).unwrap().unwrap().id, JobId(7));
    }
}
