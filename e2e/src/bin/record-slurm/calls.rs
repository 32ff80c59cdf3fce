//! What is asked, by name.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use super::Slurm;
use super::recording::Recording;
use super::scene::{self, Facts};

/// Tokens to ask with.
pub(crate) struct Tokens {
    pub(crate) good: String,
    ordinary: String,
    expired: String,
    forged: String,
}

impl Tokens {
    /// Makes them, and waits until the one that shall be expired is.
    pub(crate) fn make(slurm: &Slurm) -> Result<Self> {
        let good = slurm.token("root", 3600)?;
        let ordinary = slurm.token("tester", 3600)?;
        let expired = slurm.token("root", 1)?;
        let (signed, _) = good.rsplit_once('.').context("a token without a signature")?;
        let forged = format!("{signed}.{}", "A".repeat(43));
        std::thread::sleep(Duration::from_secs(3));
        Ok(Self { good, ordinary, expired, forged })
    }
}

/// Everything that changes nothing.
pub(crate) fn read(recording: &mut Recording, tokens: &Tokens, facts: &Facts) -> Result<()> {
    let node = |name: &str| format!("/slurm/{{v}}/node/{name}");
    let job = |id: &str| format!("/slurm/{{v}}/job/{id}");
    let plain = |path: &str| format!("/slurm/{{v}}/{path}");
    let database = |path: &str| format!("/slurmdb/{{v}}/{path}");
    let gets = [
        ("ping", plain("ping")),
        ("diag", plain("diag")),
        ("nodes", plain("nodes")),
        ("node-suspended", node(scene::SUSPENDED)),
        ("node-draining", node(scene::DRAINING)),
        ("node-drained", node(scene::DRAINED)),
        ("node-down", node(scene::DOWN)),
        ("node-completing", node(scene::COMPLETING)),
        ("node-maintenance", node(scene::MAINTENANCE)),
        ("node-dynamic", node(scene::DYNAMIC)),
        ("node-unknown", node("no-such-node")),
        ("jobs", plain("jobs")),
        ("jobs-state", plain("jobs/state")),
        ("job-suspended", job(&facts.suspended)),
        ("job-running", job(&facts.running)),
        ("job-pending", job(&facts.pending)),
        ("job-completing", job(&facts.completing)),
        ("job-completed", job(&facts.completed)),
        ("job-failed", job(&facts.failed)),
        ("job-array", job(&facts.array)),
        ("job-heterogeneous", job(&facts.heterogeneous)),
        ("job-unknown", job("999999")),
        ("partitions", plain("partitions")),
        ("partition", plain("partition/main")),
        ("partition-unknown", plain("partition/no-such-partition")),
        ("reservations", plain("reservations")),
        ("reservation", plain("reservation/maintenance")),
        ("reservation-unknown", plain("reservation/no-such-reservation")),
        ("licenses", plain("licenses")),
        ("shares", plain("shares")),
        ("slurmdb-ping", database("ping")),
        ("slurmdb-jobs", database("jobs")),
        ("slurmdb-job", database(&format!("job/{}", facts.completed))),
        ("slurmdb-users", database("users")),
        ("slurmdb-accounts", database("accounts")),
        ("slurmdb-associations", database("associations")),
        ("slurmdb-qos", database("qos")),
        ("slurmdb-clusters", database("clusters")),
        ("no-such-path", plain("no-such-path")),
    ];
    for (name, path) in gets {
        recording.record(name, "GET", &path, Some(&tokens.good), None)?;
    }
    no_change(recording, tokens, "nodes")?;
    no_change(recording, tokens, "jobs")?;
    let refused = [
        ("no-token", None),
        ("expired-token", Some(&tokens.expired)),
        ("forged-token", Some(&tokens.forged)),
    ];
    for (name, token) in refused {
        for endpoint in ["ping", "nodes"] {
            let token = token.map(String::as_str);
            recording.record(&format!("{endpoint}-{name}"), "GET", &plain(endpoint), token, None)?;
        }
    }
    recording.record("wrong-version", "GET", "/slurm/v0.0.1/nodes", Some(&tokens.good), None)?;
    Ok(())
}

/// Slurm's name of the error "Unable to convert Data type".
const CANNOT_CONVERT: u64 = 9202;

/// Asks with the time of the last answer until nothing has changed since.
fn no_change(recording: &mut Recording, tokens: &Tokens, what: &str) -> Result<()> {
    let good = Some(tokens.good.as_str());
    let path = format!("/slurm/{{v}}/{what}");
    // Old API versions of 24.11 take the time in another form only.
    let mut prefix = "";
    for _ in 0..20 {
        let all: Value = serde_json::from_str(&recording.ask("GET", &path, good, None)?.body)?;
        let time =
            all["last_update"]["number"].as_u64().with_context(|| format!("{what} has no last_update"))?;
        let path = format!("{path}?update_time={prefix}{time}");
        let answer = recording.ask("GET", &path, good, None)?;
        let body: Value = serde_json::from_str(&answer.body).unwrap_or_default();
        if body["errors"][0]["error_number"] == CANNOT_CONVERT {
            if !prefix.is_empty() {
                bail!("{what} takes update_time in no form: {}", answer.body);
            }
            recording.keep(&format!("{what}-update-time-refused"), "GET", &path, None, &answer)?;
            prefix = "uts";
        } else if body[what].as_array().is_none_or(Vec::is_empty) {
            return recording.keep(&format!("{what}-no-change"), "GET", &path, None, &answer);
        }
        std::thread::sleep(Duration::from_millis(200));
    }
    bail!("{what} changed all the time")
}

/// Everything that changes something, and changes it back.
pub(crate) fn write(recording: &mut Recording, tokens: &Tokens, facts: &Facts, slurm: &Slurm) -> Result<()> {
    let good = Some(tokens.good.as_str());
    let node = format!("/slurm/{{v}}/node/{}", scene::FREE[1]);
    recording.record("node-update", "POST", &node, good, Some(json!({"comment": "recorded"})))?;
    recording.record(
        "node-update-drain",
        "POST",
        &node,
        good,
        Some(json!({"state": ["DRAIN"], "reason": "recorded"})),
    )?;
    recording.record("node-update-resume", "POST", &node, good, Some(json!({"state": ["RESUME"]})))?;
    recording.record(
        "node-update-unknown",
        "POST",
        "/slurm/{v}/node/no-such-node",
        good,
        Some(json!({"state": ["DRAIN"], "reason": "recorded"})),
    )?;
    recording.record(
        "node-update-forbidden",
        "POST",
        &node,
        Some(&tokens.ordinary),
        Some(json!({"state": ["DRAIN"], "reason": "recorded"})),
    )?;
    recording.record("node-update-bad-state", "POST", &node, good, Some(json!({"state": ["NONSENSE"]})))?;

    let submitted =
        recording.record("job-submit", "POST", "/slurm/{v}/job/submit", good, Some(job_to_submit("main")))?;
    recording.record(
        "job-submit-refused",
        "POST",
        "/slurm/{v}/job/submit",
        good,
        Some(job_to_submit("no-such-partition")),
    )?;
    let body: Value = serde_json::from_str(&submitted.body)?;
    let id = body["job_id"].as_u64().with_context(|| format!("no job id in {}", submitted.body))?;
    let job = format!("/slurm/{{v}}/job/{id}");
    recording.record("job-update", "POST", &job, good, Some(json!({"comment": "recorded"})))?;
    recording.record("job-cancel", "DELETE", &job, good, None)?;
    recording.record("job-cancel-again", "DELETE", &job, good, None)?;
    recording.record("job-cancel-unknown", "DELETE", "/slurm/{v}/job/999999", good, None)?;

    let reservation = json!({
        "name": "recorded",
        "start_time": {"set": true, "number": 4_000_000_000_u64},
        "duration": {"set": true, "number": 60},
        "flags": ["MAINT", "IGNORE_JOBS"],
        "node_list": [scene::FREE[1]],
        "users": ["root"],
    });
    recording.record("reservation-create", "POST", "/slurm/{v}/reservation", good, Some(reservation))?;
    recording.record("reservation-delete", "DELETE", "/slurm/{v}/reservation/recorded", good, None)?;
    recording.record(
        "reservation-delete-unknown",
        "DELETE",
        "/slurm/{v}/reservation/no-such-reservation",
        good,
        None,
    )?;
    recording.record(
        "node-delete-busy",
        "DELETE",
        &format!("/slurm/{{v}}/node/{}", scene::DRAINING),
        good,
        None,
    )?;
    recording.record("reconfigure", "GET", "/slurm/{v}/reconfigure", good, None)?;
    // Reconfiguring takes slurmctld a moment, in which it may not answer.
    slurm.wait_until("slurmctld answers", || Ok(slurm.exec(&["scontrol", "ping"])?.contains(" is UP")))?;
    slurm.wait_for_job(&facts.running, &["RUNNING"])
}

fn job_to_submit(partition: &str) -> Value {
    json!({
        "job": {
            "name": "submitted",
            "partition": partition,
            "script": "#!/bin/sh\nsleep 1\n",
            "hold": true,
            "current_working_directory": "/tmp",
            "standard_output": "/dev/null",
            "environment": ["PATH=/usr/bin:/bin"],
        }
    })
}
