//! How the types of the fields that we read differ between API versions.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde_json::Value;

/// Recorded answer, where its objects are, and the fields that we read of them.
const READ: &[(&str, &str, &[&str])] = &[
    (
        "nodes",
        "nodes",
        &[
            "name",
            "state",
            "reason",
            "comment",
            "topology",
            "reservation",
            "features",
            "active_features",
            "partitions",
            "cpus",
            "effective_cpus",
            "alloc_cpus",
            "alloc_idle_cpus",
            "real_memory",
            "specialized_memory",
            "alloc_memory",
            "free_mem",
            "boot_time",
            "slurmd_start_time",
            "last_busy",
            "reason_changed_at",
            "gres",
            "gres_used",
            "tres",
            "tres_used",
            "hostname",
            "address",
            "version",
        ],
    ),
    (
        "jobs",
        "jobs",
        &[
            "job_id",
            "job_state",
            "nodes",
            "start_time",
            "end_time",
            "submit_time",
            "time_limit",
            "partition",
            "account",
            "user_id",
            "user_name",
            "hold",
            "node_count",
            "cpus",
            "job_resources",
            "job_resources.nodes",
            "job_resources.nodes.allocation",
            "job_resources.allocated_nodes",
            "array_job_id",
            "array_task_id",
            "array_task_string",
            "het_job_id",
            "het_job_offset",
            "state_reason",
            "exit_code",
            "tres_alloc_str",
            "suspend_time",
            "comment",
            "name",
        ],
    ),
    ("ping", "pings", &["hostname", "pinged", "responding", "primary", "mode", "latency"]),
    ("reservations", "reservations", &["name", "start_time", "end_time", "flags", "node_list", "users"]),
    ("partitions", "partitions", &["name", "nodes", "nodes.configured", "partition.state", "maximums.time"]),
    ("licenses", "licenses", &["LicenseName", "Total", "Used", "Free", "Reserved"]),
    ("nodes", "", &["last_update", "errors", "warnings", "meta"]),
    ("jobs", "", &["last_update", "last_backfill"]),
    ("job-submit", "", &["job_id", "step_id", "error_code", "result"]),
];

/// A table of the fields whose type is not the same in all recordings, and a list of the others.
pub(crate) fn differences(golden: &Path) -> Result<String> {
    let mut text = String::new();
    for (answer, list, fields) in READ {
        for field in *fields {
            let mut by_type: BTreeMap<String, Vec<String>> = BTreeMap::new();
            for (label, folder) in folders(golden)? {
                let body = fs::read_to_string(folder.join(format!("{answer}.json")))
                    .with_context(|| format!("{label} has no {answer}"))?;
                let body: Value = serde_json::from_str(&body)?;
                let objects = if list.is_empty() {
                    vec![body]
                } else {
                    body[*list].as_array().cloned().unwrap_or_default()
                };
                by_type.entry(types_of(&objects, field)).or_default().push(label);
            }
            let place = if list.is_empty() { answer } else { list };
            if by_type.len() == 1 {
                let _ =
                    writeln!(text, "{place}.{field}: {}", by_type.keys().next().map_or("", String::as_str));
            } else {
                for (types, labels) in &by_type {
                    let _ = writeln!(text, "{place}.{field}: DIFFERS: {types} in {}", labels.join(", "));
                }
            }
        }
    }
    Ok(text)
}

/// The recordings, as `24.11/v0.0.40`.
fn folders(golden: &Path) -> Result<Vec<(String, std::path::PathBuf)>> {
    let mut found = Vec::new();
    for slurm in fs::read_dir(golden)? {
        let slurm = slurm?.path();
        if !slurm.is_dir() {
            continue;
        }
        for api in fs::read_dir(&slurm)? {
            let api = api?.path();
            if api.is_dir() {
                let last = |path: &Path| path.file_name().map(|name| name.to_string_lossy().into_owned());
                let label = format!(
                    "{}/{}",
                    last(&slurm).unwrap_or_default().trim_start_matches("slurm-"),
                    last(&api).unwrap_or_default()
                );
                found.push((label, api));
            }
        }
    }
    found.sort();
    Ok(found)
}

fn types_of(objects: &[Value], field: &str) -> String {
    let mut types: Vec<String> =
        objects.iter().map(|object| kind(field.split('.').fold(object, |at, name| &at[name]))).collect();
    types.sort();
    types.dedup();
    types.join(" or ")
}

fn kind(value: &Value) -> String {
    match value {
        Value::Null => "absent".into(),
        Value::Bool(_) => "bool".into(),
        Value::Number(number) if number.is_f64() => "float".into(),
        Value::Number(_) => "integer".into(),
        Value::String(_) => "string".into(),
        Value::Array(items) => match items.first() {
            Some(first) => format!("[{}]", kind(first)),
            None => "[]".into(),
        },
        Value::Object(fields) => {
            let names: Vec<&str> = fields.keys().map(String::as_str).collect();
            let shown = if names.len() > 6 { format!("{} fields", names.len()) } else { names.join(",") };
            format!("{{{shown}}}")
        }
    }
}
