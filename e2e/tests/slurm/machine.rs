//! A Slurm machine is a real Slurm: everything that other tests lean on.

use anyhow::Result;
use e2e::http::{Request, Server};
use e2e::on_both_slurm_versions;
use rig::SlurmMachine;
use rig::slurm::{Options, Version, basic_lines};

on_both_slurm_versions!(
    nodes_are_idle_and_the_version_is_the_right_one,
    a_job_runs_on_both_nodes,
    a_batch_job_runs_and_accounting_has_it,
    slurmrestd_answers_by_tcp_and_by_a_unix_socket,
    tokens_are_made_for_a_user_and_a_time,
);

fn nodes_are_idle_and_the_version_is_the_right_one(slurm: &SlurmMachine) -> Result<()> {
    assert!(slurm.exec(&["sinfo", "--version"])?.contains(&slurm.version().to_string()));
    assert_eq!(slurm.nodes(), ["node-1", "node-2"]);
    for node in slurm.nodes() {
        slurm.wait_for_node(&node, &["idle", "allocated", "mixed"])?;
    }
    Ok(())
}

fn a_job_runs_on_both_nodes(slurm: &SlurmMachine) -> Result<()> {
    let printed =
        slurm.exec_as("tester", &["srun", "-N2", "sh", "-c", "echo $SLURMD_NODENAME $(id --user --name)"])?;
    let mut lines: Vec<&str> = printed.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["node-1 tester", "node-2 tester"]);
    Ok(())
}

fn a_batch_job_runs_and_accounting_has_it(slurm: &SlurmMachine) -> Result<()> {
    let job = slurm.exec_as(
        "tester",
        &["sbatch", "--parsable", "--output", "/tmp/%j.out", "--wrap", "echo job $SLURM_JOB_ID"],
    )?;
    let job = job.trim();
    slurm.wait_for_job(job, &["COMPLETED"])?;
    assert_eq!(slurm.exec(&["cat", &format!("/tmp/{job}.out")])?, format!("job {job}\n"));
    slurm.wait_until("sacct shows the job", || {
        let format = "--format=JobID,User,Account,State";
        let shown =
            slurm.exec(&["sacct", "--noheader", "--parsable2", "--allocations", "--jobs", job, format])?;
        Ok(shown == format!("{job}|tester|testing|COMPLETED\n"))
    })
}

fn slurmrestd_answers_by_tcp_and_by_a_unix_socket(slurm: &SlurmMachine) -> Result<()> {
    let token = slurm.token("tester", 600)?;
    for server in [Server::Url(slurm.rest_url()?), Server::Socket(slurm.rest_socket())] {
        let answer = server.get("/slurm/v0.0.42/nodes", &token)?;
        assert_eq!(answer.status, 200, "{}", answer.body);
        assert!(answer.body.contains("\"node-2\""), "{}", answer.body);
        let answer = server.get("/slurmdb/v0.0.42/clusters", &token)?;
        assert_eq!(answer.status, 200, "{}", answer.body);
        let request = Request { method: "GET", path: "/slurm/v0.0.42/nodes", ..Request::default() };
        assert_eq!(server.send(request)?.status, 401, "without a token");
    }
    Ok(())
}

fn tokens_are_made_for_a_user_and_a_time(slurm: &SlurmMachine) -> Result<()> {
    assert!(slurm.jwt_key()?.len() >= 32);
    let tokens = [slurm.token("tester", 60)?, slurm.token("root", 60)?];
    assert_ne!(tokens[0], tokens[1]);
    assert_eq!(tokens[0].split('.').count(), 3, "three parts");
    Ok(())
}

#[test]
fn a_controller_alone_takes_a_configuration_of_the_test_with_thousands_of_nodes() -> Result<()> {
    for version in Version::ALL {
        let conf = format!(
            "{}SlurmctldTimeout=77\nInclude nodes.conf\nPartitionName=all Nodes=ALL Default=YES\n",
            basic_lines()
        );
        let options = Options::controller_only(version)
            .file("slurm.conf", &conf)
            .file("nodes.conf", "NodeName=w-[0-4999] NodeAddr=127.0.0.1 CPUs=8 RealMemory=1000\n");
        let slurm = SlurmMachine::start(options)?;
        assert!(slurm.exec(&["scontrol", "show", "config"])?.contains("SlurmctldTimeout        = 77 sec"));
        let nodes = slurm.exec(&["sinfo", "--noheader", "--Node", "--format", "%N"])?;
        assert_eq!(nodes.lines().count(), 5000);

        slurm.write_conf("nodes.conf", "NodeName=w-[0-9] NodeAddr=127.0.0.1 CPUs=8 RealMemory=1000\n")?;
        slurm.stop("slurmctld")?;
        slurm.forget_state()?;
        slurm.start_again("slurmctld")?;
        let nodes = slurm.exec(&["sinfo", "--noheader", "--Node", "--format", "%N"])?;
        assert_eq!(nodes.lines().count(), 10);
    }
    Ok(())
}

#[test]
fn thousands_of_emulated_nodes_are_idle_and_can_be_allocated() -> Result<()> {
    for version in Version::ALL {
        let slurm = SlurmMachine::start(Options::controller_only(version).emulated(3000))?;
        slurm.exec_as("tester", &["salloc", "--quiet", "--no-shell", "--exclusive", "--nodes=100"])?;
        let states = slurm.exec(&["sinfo", "--noheader", "--format", "%T %D"])?;
        let mut states: Vec<&str> = states.lines().collect();
        states.sort_unstable();
        assert_eq!(states, ["allocated 100", "idle 2900"]);
    }
    Ok(())
}

#[test]
fn a_configuration_that_slurmctld_refuses_is_told_with_its_log() -> Result<()> {
    for version in Version::ALL {
        let options = Options::controller_only(version).extra_conf("NodeName=a CPUs=nonsense");
        let error = SlurmMachine::start(options).err().map(|error| format!("{error:#}")).unwrap_or_default();
        assert!(error.contains("slurmctld ended while it started (exit code 1)"), "{error}");
        assert!(error.contains("nonsense"), "{error}");
    }
    Ok(())
}
