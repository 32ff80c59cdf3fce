//! What jobs see.

use std::io::Write as _;
use std::process::Stdio;

use anyhow::{Context as _, Result};
use e2e::cluster::Cluster;
use e2e::output_of;

use crate::on_both_versions;

on_both_versions!(
    every_kind_of_job_sees_the_jail_as_its_root,
    a_shell_of_a_job_is_interactive_inside_the_jail,
    the_logs_of_nccl_are_collected,
    soperator_opens_a_shell_in_the_jail,
);

/// A file of the agent, which is in the pods and not in the jail.
const ONLY_IN_PODS: &str = "/opt/soperator/bin/slurm-agent";

fn every_kind_of_job_sees_the_jail_as_its_root(cluster: &Cluster) -> Result<()> {
    cluster.exec(&cluster.worker(0), "slurmd", &["test", "-e", ONLY_IN_PODS])?;
    cluster.run("echo from-the-jail > /e2e-marker")?;
    let look = format!("cat /e2e-marker && test ! -e {ONLY_IN_PODS} && test -e /.soperator-jail.json");

    let step = cluster.run(&format!("srun -N2 sh -c '{look}'"))?;
    assert_eq!(step.lines().collect::<Vec<_>>(), ["from-the-jail"; 2], "steps on both nodes");

    let batch = cluster.sbatch("--output /root/e2e-batch.out", &look)?;
    cluster.wait_completed(&batch)?;
    // Of two outputs Slurm takes the last, which is that of the options.
    assert_eq!(
        cluster.run("cat /root/e2e-batch.out")?.trim(),
        "from-the-jail",
        "a batch script, and its output"
    );

    let allocated = cluster.run(&format!("salloc -N1 srun --interactive sh -c '{look}' 2>/dev/null"))?;
    assert_eq!(allocated.trim(), "from-the-jail", "an interactive step");

    let written =
        cluster.run("srun --nodelist worker-1 sh -c 'hostname > /e2e-written' && cat /e2e-written")?;
    assert_eq!(written.trim(), "worker-1", "what a job writes is seen by all");
    assert!(
        cluster.exec(&cluster.worker(1), "slurmd", &["test", "-e", "/e2e-written"]).is_err(),
        "it is not written to the pod's own root"
    );
    cluster.run("rm /e2e-marker /e2e-written /root/e2e-batch.out").map(drop)
}

fn a_shell_of_a_job_is_interactive_inside_the_jail(cluster: &Cluster) -> Result<()> {
    let said = cluster.ssh().terminal(
        "srun --nodelist worker-0 --pty bash",
        &format!("tty; hostname; test -e {ONLY_IN_PODS} || echo in-jail-$((40 + 2)); exit 0\n"),
    )?;
    for part in ["/dev/pts/", "worker-0", "in-jail-42"] {
        assert!(said.contains(part), "{part} is not in: {said}");
    }
    Ok(())
}

fn the_logs_of_nccl_are_collected(cluster: &Cluster) -> Result<()> {
    // What NCCL does: it opens the file that the variable names, and writes to it.
    let program = "echo $NCCL_DEBUG rank $SLURM_PROCID > \"$NCCL_DEBUG_FILE\"";
    let directory = "/opt/e2e-nccl";
    let said = cluster.run(&format!(
        "srun -N1 -n2 --overcommit --nccld-enabled=1 --nccld-log-level=TRACE --nccld-out-dir={directory} --nccld-out-stdout=1 \
         sh -c '{program}'"
    ))?;
    let mut lines: Vec<&str> = said.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["TRACE rank 0", "TRACE rank 1"], "in the output");
    let file = cluster.run(&format!("cat {directory}/*.out"))?;
    let mut lines: Vec<&str> = file.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["TRACE rank 0", "TRACE rank 1"], "in the file of the node");
    let off = cluster.run("srun -N1 sh -c 'echo debug=$NCCL_DEBUG'")?;
    assert_eq!(off.trim(), "debug=", "off by default");
    let wrong = cluster.run("srun --nccld-log-level=LOUD true").unwrap_err().to_string();
    assert!(wrong.contains("VERSION, WARN, INFO or TRACE"), "{wrong}");
    cluster.run(&format!("rm -r {directory}")).map(drop)
}

fn soperator_opens_a_shell_in_the_jail(cluster: &Cluster) -> Result<()> {
    cluster.run("echo from-the-jail > /e2e-marker")?;
    let mut shell = cluster.soperator(&["jail", "shell", cluster.name()])?;
    let mut child = shell.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    child.stdin.take().context("a pipe")?.write_all(b"cat /e2e-marker; exit 7\n")?;
    let output = child.wait_with_output()?;
    let told = String::from_utf8_lossy(&output.stderr);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "from-the-jail\n", "{told}");
    assert_eq!(output.status.code(), Some(7), "the code is that of the shell: {told}");
    assert!(!told.contains("TTY"), "{told}");
    let mut command = cluster.soperator(&["jail", "shell"])?;
    assert_eq!(output_of(command.args(["--", "cat", "/e2e-marker"]), None)?, "from-the-jail\n");
    cluster.run("rm /e2e-marker").map(drop)
}
