//! `soperator status` and `soperator diff`, as people type them.

use anyhow::Result;
use e2e::cluster::Cluster;
use e2e::output_of;
use serde_json::Value;

use crate::on_both_versions;

on_both_versions!(status_shows_parts_nodes_and_jobs);

fn status_shows_parts_nodes_and_jobs(cluster: &Cluster) -> Result<()> {
    let job = cluster.sbatch("--nodelist worker-0", "sleep 600")?;
    cluster.wait_running(&job)?;
    let shown = output_of(&mut cluster.soperator(&["status", cluster.name()])?, None)?;
    for line in ["controller", "accounting", "database", "rest", "login"] {
        assert!(shown.lines().any(|row| row.starts_with(line) && row.contains("1/1")), "{line}: {shown}");
    }
    assert!(shown.contains(": Available\n") && shown.contains("Slurm jobs:  1 RUNNING\n"), "{shown}");
    assert!(shown.contains("2/2"), "both workers: {shown}");

    let json = output_of(&mut cluster.soperator(&["status", "--output", "json"])?, None)?;
    let clusters: Value = serde_json::from_str(&json)?;
    assert_eq!(clusters[0]["available"], true, "{json}");
    let nodes = clusters[0]["slurm"]["nodes"]
        .as_object()
        .map(|states| states.values().filter_map(Value::as_u64).sum::<u64>());
    assert_eq!(nodes, Some(2), "{json}");
    cluster.run(&format!("scancel {}", job.0)).map(drop)
}
