//! The chart soperator-custom-configmaps: its files come into the jail, and do something there.

use anyhow::Result;
use e2e::cluster::{Cluster, root};
use e2e::output_of;

use crate::on_both_versions;

on_both_versions!(files_of_the_chart_come_and_go_and_who_logs_in_is_greeted);

const RELEASE: &str = "e2e-configs";
const MESSAGE: &str = "Maintenance is on Sunday.";

fn files_of_the_chart_come_and_go_and_who_logs_in_is_greeted(cluster: &Cluster) -> Result<()> {
    let helm = |arguments: &[&str]| {
        let mut helm = cluster.rig().helm()?;
        helm.args(arguments).args(["--namespace", cluster.namespace()]).current_dir(root());
        output_of(&mut helm, None)
    };
    let values = format!("clusterName={},motd.message={MESSAGE}", cluster.name());
    cluster.wait("the chart is installed", || {
        // Again while the operator's webhook is away.
        let chart = ["upgrade", "--install", RELEASE, "./helm/soperator-custom-configmaps"];
        helm(&[&chart[..], &["--set", &values]].concat()).map(|_| true)
    })?;
    cluster.wait("its files are in the jail", || {
        cluster.run("test -e /etc/docker/daemon.json -a -e /etc/enroot/enroot.conf -a -x /etc/update-motd.d/95-nebius-o11y")?;
        cluster.run("test -e /etc/profile.d/95-nebius-o11y.sh").map(|_| true)
    })?;
    let seen = cluster.exec(&cluster.worker(0), "slurmd", &["cat", "/mnt/jail/etc/docker/daemon.json"])?;
    assert!(seen.contains("\"default-runtime\": \"nvidia\""), "where dockerd reads it: {seen}");
    let conf = cluster.run("srun -N2 cat /etc/enroot/enroot.conf")?;
    assert_eq!(conf.matches("ENROOT_MOUNT_HOME yes\n").count(), 2, "jobs see it: {conf}");
    // A shell as a login makes it; sshd gives one for no command.
    let greeted = cluster.ssh().terminal("exec bash --login", "exit\n")?;
    assert!(greeted.contains(MESSAGE), "{greeted}");
    assert_eq!(cluster.run("true")?, "", "a command is not disturbed");
    let job = cluster.ssh().terminal("srun -N1 --pty bash --login -c 'echo in a job'", "")?;
    assert!(job.contains("in a job") && !job.contains(MESSAGE), "{job}");

    helm(&["uninstall", RELEASE, "--wait"])?;
    cluster.wait("its files are gone", || {
        cluster
            .run("test ! -e /etc/docker/daemon.json -a ! -e /etc/profile.d/95-nebius-o11y.sh")
            .map(|_| true)
    })?;
    cluster.wait_available()
}
