//! The jail's root has no power over the daemons.

use anyhow::Result;
use e2e::cluster::Cluster;

use crate::on_both_versions;

on_both_versions!(a_root_shell_in_the_jail_cannot_change_what_slurmctld_reads_or_runs);

/// What an attacker with a root shell in the jail would try: other configuration, other programs, other users, other libraries.
const ATTACK: &str = r#"
set -e
mkdir -p /e2e-backup
cp -a /etc/passwd /etc/group /etc/slurm/slurm.conf /e2e-backup/
for program in /usr/sbin/slurmctld /usr/bin/scontrol; do
    test -e $program && cp -a $program /e2e-backup/ || true
done
echo 'SlurmUser=nobody' >> /etc/slurm/slurm.conf
echo 'evil:x:0:0::/root:/bin/bash' >> /etc/passwd
echo 'evil2:x:1777:0::/:/bin/sh' >> /etc/passwd
sed -i 's/^root:.*/root:x:4242:4242::\/:\/bin\/false/; s/^slurm:.*/slurm:x:0:0::\/:\/bin\/sh/' /etc/passwd
printf '#!/bin/sh\ntouch /mnt/jail/e2e-owned /tmp/e2e-owned\n' > /usr/sbin/slurmctld
chmod 755 /usr/sbin/slurmctld
echo /e2e-evil.so > /etc/ld.so.preload
"#;

const REPAIR: &str = r#"
cd /e2e-backup
cp -a passwd group /etc/
cp -a slurm.conf /etc/slurm/
rm -f /etc/ld.so.preload /usr/sbin/slurmctld
test ! -e slurmctld || cp -a slurmctld /usr/sbin/
rm -r /e2e-backup
"#;

fn a_root_shell_in_the_jail_cannot_change_what_slurmctld_reads_or_runs(cluster: &Cluster) -> Result<()> {
    let facts = || -> Result<(String, String, String, String)> {
        Ok((
            cluster.config_value("SlurmUser")?,
            cluster.on_controller(&["getent", "passwd", "root"])?,
            cluster.on_controller(&["sh", "-c", "getent passwd slurm; getent passwd 0"])?,
            cluster.on_controller(&[
                "sh",
                "-c",
                "sha256sum $(command -v slurmctld scontrol) /etc/ld.so.cache",
            ])?,
        ))
    };
    let before = facts()?;
    // From the pod, as the jail's own programs may not start any more afterwards.
    let in_jail = |script: &str| {
        cluster.exec(&cluster.login(), "sshd", &["chroot", "/mnt/jail", "/bin/sh", "-c", script])
    };
    in_jail(ATTACK)?;
    // The agents look every 5 s.
    std::thread::sleep(std::time::Duration::from_secs(12));
    let seen = facts();
    let refused = cluster.on_controller(&["touch", "/mnt/jail/e2e-owned"]);
    let uid = cluster.pod_uid(&cluster.controller())?;
    cluster.kubectl(&["delete", "pod", &cluster.controller(), "--wait=false"])?;
    let restarted = cluster.wait("slurmctld starts anew", || {
        cluster.on_controller(&["scontrol", "ping"])?;
        Ok(cluster.pod_uid(&cluster.controller())? != uid)
    });
    let after = facts();
    let unknown = cluster.on_controller(&["getent", "passwd", "evil"]);
    let owned = cluster.on_controller(&["sh", "-c", "ls /mnt/jail/e2e-owned /tmp/e2e-owned"]);
    cluster.exec(&cluster.login(), "sshd", &["rm", "-f", "/mnt/jail/etc/ld.so.preload"])?;
    in_jail(REPAIR)?;

    restarted?;
    assert_eq!(seen?, before, "while it runs");
    assert_eq!(after?, before, "when it starts anew");
    assert!(refused.unwrap_err().to_string().contains("Read-only file system"));
    assert!(unknown.is_err(), "a user with root's number is not known");
    assert!(owned.is_err(), "nothing of the jail was run");
    cluster.wait_idle(2)?;
    cluster.wait_available()?;
    assert_eq!(cluster.run("srun -N2 hostname")?.lines().count(), 2, "all is well again");
    Ok(())
}
