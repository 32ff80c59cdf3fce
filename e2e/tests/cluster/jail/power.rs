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
echo 'e2e-honest:x:1888:1888::/:/bin/sh' >> /etc/passwd
echo /e2e-evil.so > /etc/ld.so.preload
"#;
/// A user who is added among all this, and whom the daemons take: then they have looked.
const HONEST: &str = "e2e-honest";

const REPAIR: &str = r#"
cd /e2e-backup || exit 0
cp -a passwd group /etc/
cp -a slurm.conf /etc/slurm/
rm -f /etc/ld.so.preload /usr/sbin/slurmctld
test ! -e slurmctld || cp -a slurmctld /usr/sbin/
rm -r /e2e-backup
"#;

/// Puts the jail right again, however the test ends.
struct Repair<'a>(&'a Cluster);

impl Drop for Repair<'_> {
    fn drop(&mut self) {
        let pod = self.0.login();
        // From the pod, as the jail's own programs may not start any more.
        let steps: [&[&str]; 2] =
            [&["rm", "-f", "/mnt/jail/etc/ld.so.preload"], &["chroot", "/mnt/jail", "/bin/sh", "-c", REPAIR]];
        for step in steps {
            if let Err(error) = self.0.exec(&pod, "sshd", step) {
                eprintln!("the jail is not repaired: {error:#}");
            }
        }
    }
}

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
    let knows = |name: &str| cluster.on_controller(&["getent", "passwd", name]).is_ok();
    assert!(!knows(HONEST));
    let repair = Repair(cluster);
    // A session of root over SSH is a root shell in the jail.
    cluster.run(ATTACK)?;
    cluster.wait("slurmctld's agent has looked", || Ok(knows(HONEST)))?;
    assert_eq!(facts()?, before, "while it runs");
    let refused = cluster.on_controller(&["touch", "/mnt/jail/e2e-owned"]).unwrap_err().to_string();
    assert!(refused.contains("Read-only file system"), "{refused}");
    let uid = cluster.pod_uid(&cluster.controller())?;
    cluster.kubectl(&["delete", "pod", &cluster.controller(), "--wait=false"])?;
    cluster.wait("slurmctld starts anew", || {
        cluster.on_controller(&["scontrol", "ping"])?;
        Ok(cluster.pod_uid(&cluster.controller())? != uid && knows(HONEST))
    })?;
    assert_eq!(facts()?, before, "when it starts anew");
    assert!(!knows("evil") && !knows("evil2"), "users with root's number or group are not known");
    let owned = cluster.on_controller(&["sh", "-c", "ls /mnt/jail/e2e-owned /tmp/e2e-owned"]);
    assert!(owned.is_err(), "nothing of the jail was run");
    drop(repair);

    cluster.wait("the user is forgotten", || Ok(!knows(HONEST)))?;
    cluster.wait_idle(2)?;
    cluster.wait_available()?;
    assert_eq!(cluster.run("srun -N2 hostname")?.lines().count(), 2, "all is well again");
    Ok(())
}
