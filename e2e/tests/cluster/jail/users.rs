//! Users live in the jail.

use anyhow::Result;
use e2e::cluster::Cluster;

use crate::on_both_versions;

on_both_versions!(a_file_and_a_user_added_over_ssh_are_seen_by_a_job_on_both_nodes);

const USER: &str = "alice";

fn a_file_and_a_user_added_over_ssh_are_seen_by_a_job_on_both_nodes(cluster: &Cluster) -> Result<()> {
    let key = cluster.ssh().other_key()?;
    let public = std::fs::read_to_string(key.with_extension("pub"))?;
    cluster.run(&format!(
        "useradd --create-home --uid 1500 --shell /bin/bash {USER} && echo hello > /home/{USER}/note && \
         mkdir -m 700 /home/{USER}/.ssh && echo '{}' > /home/{USER}/.ssh/authorized_keys && chown -R {USER}: /home/{USER}",
        public.trim()
    ))?;
    let as_user = |command: &str| cluster.ssh().run_as(USER, &key, command);
    cluster
        .wait("the user logs in with the key in the jail's home", || Ok(as_user("id -un")?.trim() == USER))?;
    cluster.wait("a job of the user runs on both nodes, and reads the file", || {
        let said = as_user("srun -N2 sh -c 'id -un; cat ~/note'")?;
        let mut lines: Vec<&str> = said.lines().collect();
        lines.sort_unstable();
        Ok(lines == [USER, USER, "hello", "hello"])
    })?;
    let known = cluster.on_controller(&["getent", "passwd", USER])?;
    assert!(
        known.starts_with(&format!("{USER}:")) && known.contains(":1500:"),
        "slurmctld knows the user: {known}"
    );

    cannot_see_or_change_the_pod(cluster, &as_user)?;
    copies_files(cluster, &key)?;
    // It complains about a mail spool that nobody has.
    cluster.run(&format!("userdel --remove {USER} 2>/dev/null; test ! -e /home/{USER}"))?;
    cluster.wait("the user is forgotten", || Ok(cluster.on_controller(&["getent", "passwd", USER]).is_err()))
}

/// Names of files that pods have and the jail has not.
const ONLY_IN_PODS: [&str; 3] = ["/opt/soperator/bin/slurm-agent", "/mnt/jail/etc", "/mnt/sshd-keys"];

/// What a job sees is the jail and what is mounted in it; all of it is compared with the pod, which sees more. By names this is so for
/// root's jobs, too, whose rights go further (docs/spank.md).
fn cannot_see_or_change_the_pod(cluster: &Cluster, as_user: &dyn Fn(&str) -> Result<String>) -> Result<()> {
    let in_pod = |script: &str| cluster.exec(&cluster.worker(0), "slurmd", &["sh", "-c", script]);
    let as_root = |command: &str| cluster.run(command);
    let same = |path: &str| format!("stat --dereference --format %d:%i {path}");
    let (jail, pod) = (in_pod(&same("/mnt/jail/"))?, in_pod(&same("/"))?);
    assert_ne!(jail, pod);
    let points = |table: &str| -> Vec<String> {
        table.lines().filter_map(|line| line.split(' ').nth(4).map(str::to_owned)).collect()
    };
    // Mount points of the pod that are in the jail, by their names there.
    let below: Vec<String> = points(&in_pod("cat /proc/self/mountinfo")?)
        .iter()
        .filter_map(|point| point.strip_prefix("/mnt/jail").map(str::to_owned))
        .collect();
    for (who, run) in [(USER, as_user), ("root", &as_root)] {
        let job = |command: &str| run(&format!("srun --nodelist worker-0 sh -c '{command}'"));
        for path in ["/", "/proc/self/root/", "/proc/self/cwd/../../../../../../.."] {
            assert_eq!(job(&same(path))?, jail, "{path} of {who}");
        }
        let seen = points(&job("cat /proc/self/mountinfo")?);
        assert!(seen.iter().any(|point| point == "/"), "{seen:?}");
        let foreign: Vec<&String> = seen
            .iter()
            .filter(|point| *point != "/" && *point != "/proc" && !below.contains(point))
            .collect();
        assert!(foreign.is_empty(), "{who} sees {foreign:?} beside {below:?}");
        for name in ONLY_IN_PODS {
            in_pod(&format!("test -e {name}"))?;
            assert_eq!(job(&format!("test -e {name} || echo none"))?.trim(), "none", "{name} of {who}");
        }
    }
    // What even root changes is the jail's.
    as_root("srun --nodelist worker-0 touch /etc/e2e-changed")?;
    in_pod(
        "test -e /mnt/jail/etc/e2e-changed && test ! -e /etc/e2e-changed && rm /mnt/jail/etc/e2e-changed",
    )?;
    // What users without power see of the pod's first process: that there is one.
    assert!(as_user("srun --nodelist worker-0 readlink /proc/1/root").is_err());
    assert_eq!(as_root("srun --nodelist worker-0 cat /proc/1/comm")?.trim(), "slurm-agent");
    Ok(())
}

fn copies_files(cluster: &Cluster, key: &std::path::Path) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let (there, back) = (folder.path().join("there"), folder.path().join("back"));
    std::fs::write(&there, "by scp")?;
    cluster.ssh().copy_to(USER, key, &there, "copied")?;
    cluster.ssh().copy_from(USER, key, "copied", &back)?;
    assert_eq!(std::fs::read_to_string(back)?, "by scp");
    assert_eq!(cluster.run(&format!("cat /home/{USER}/copied"))?, "by scp", "it lies in the jail");
    let by_sftp = folder.path().join("by-sftp");
    let batch =
        format!("put {} put\nrename put got\nget got {}\nls -l got\n", there.display(), by_sftp.display());
    let told = cluster.ssh().sftp(USER, key, &batch)?;
    assert!(told.contains(USER), "{told}");
    assert_eq!(std::fs::read_to_string(by_sftp)?, "by scp");
    assert_eq!(cluster.run(&format!("cat /home/{USER}/got"))?, "by scp", "it lies in the jail");
    Ok(())
}
