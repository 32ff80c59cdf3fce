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

/// Neither by names, nor by other processes, nor by mounting something.
fn cannot_see_or_change_the_pod(cluster: &Cluster, as_user: &dyn Fn(&str) -> Result<String>) -> Result<()> {
    let job = |command: &str| as_user(&format!("srun --nodelist worker-0 sh -c '{command}'"));
    assert_eq!(job("ls -d /mnt/jail /mnt/jail.upper /opt/soperator /mnt/sshd-keys 2>/dev/null; true")?, "");
    for command in [
        "ls /proc/1/root/",
        "cat /proc/1/environ",
        "mount -t tmpfs none /tmp",
        "unshare --mount true",
        "chroot / true",
        "kill -9 1",
        "touch /etc/passwd.new",
    ] {
        let failed = job(command).unwrap_err().to_string();
        assert!(failed.contains("srun: error") || failed.contains("exit code"), "`{command}`: {failed}");
    }
    let mounts = job("cat /proc/self/mountinfo")?;
    assert!(!mounts.lines().any(|line| line.contains(" /mnt/jail ")), "the old root is gone: {mounts}");
    // The same for somebody with more power, as far as it goes by names.
    assert!(cluster.run("srun --nodelist worker-0 ls /mnt/jail.upper").is_err());
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
    Ok(())
}
