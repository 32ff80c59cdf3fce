//! Configuration files of a Slurm machine. Pure: options in, text out.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::options::Options;

/// The host name of every Slurm machine.
pub(super) const HOST_NAME: &str = "slurm";
pub(super) const ETC: &str = "/etc/slurm";
pub(super) const JWT_KEY: &str = "/etc/slurm/jwt_hs256.key";
pub(super) const STATE: &str = "/var/spool/slurmctld";
pub(super) const CLUSTER: &str = "test";
pub(super) const DATABASE_USER: &str = "slurm";
/// Not a secret: the database listens on the loopback of a network that nobody else is in.
pub(super) const DATABASE_PASSWORD: &str = "slurm";
pub(super) const MAIN_FILE: &str = "slurm.conf";
pub(super) const DATABASE_FILE: &str = "slurmdbd.conf";

const FIRST_NODE_PORT: u16 = 7000;

/// The name of node `number`, from 1.
pub fn node_name(number: u16) -> String {
    format!("node-{number}")
}

/// All emulated nodes, as a host list.
pub(super) fn emulated_nodes(count: u32) -> String {
    format!("e-[1-{count}]")
}

/// The lines that every slurm.conf needs to run in a Slurm machine: names, keys, paths, and plugins that need no privilege.
/// No nodes, no partitions.
pub fn basic_lines() -> String {
    format!(
        "ClusterName={CLUSTER}\n\
         SlurmctldHost={HOST_NAME}(127.0.0.1)\n\
         SlurmUser=slurm\n\
         AuthType=auth/munge\n\
         CredType=cred/munge\n\
         AuthAltTypes=auth/jwt\n\
         AuthAltParameters=jwt_key={JWT_KEY}\n\
         StateSaveLocation={STATE}\n\
         SlurmctldPidFile=/run/slurm/slurmctld.pid\n\
         SlurmdSpoolDir=/var/spool/slurmd-%n\n\
         SlurmdPidFile=/run/slurm/slurmd-%n.pid\n\
         ProctrackType=proctrack/linuxproc\n\
         TaskPlugin=task/none\n\
         MpiDefault=none\n\
         ReturnToService=2\n\
         SlurmdParameters=config_overrides\n"
    )
}

/// All files of `/etc/slurm`, by name.
pub(super) fn files(options: &Options) -> BTreeMap<String, String> {
    let mut files = BTreeMap::from([
        (MAIN_FILE.to_string(), slurm_conf(options)),
        ("cgroup.conf".to_string(), "CgroupPlugin=disabled\n".to_string()),
    ]);
    if options.accounting {
        files.insert(DATABASE_FILE.to_string(), slurmdbd_conf());
    }
    files.extend(options.files.clone());
    files
}

fn slurm_conf(options: &Options) -> String {
    let mut text = basic_lines();
    if options.accounting {
        text.push_str("AccountingStorageType=accounting_storage/slurmdbd\nAccountingStorageHost=127.0.0.1\n");
    }
    text.push_str("SelectType=select/cons_tres\nSelectTypeParameters=CR_Core\n");
    // Jobs start when they come, not at the next round.
    text.push_str("SchedulerParameters=sched_min_interval=0,batch_sched_delay=0\n");
    for number in 1..=options.nodes {
        let port = FIRST_NODE_PORT + number;
        let _ = writeln!(
            text,
            "NodeName={} NodeAddr=127.0.0.1 Port={port} CPUs=4 RealMemory=4000 State=UNKNOWN",
            node_name(number)
        );
    }
    if options.emulated > 0 {
        // Without a timeout slurmctld believes what it is told about them.
        let _ = writeln!(
            text,
            "SlurmdTimeout=0\nNodeName={} NodeAddr=127.0.0.1 CPUs=4 RealMemory=4000 State=UNKNOWN",
            emulated_nodes(options.emulated)
        );
    }
    if options.nodes > 0 || options.emulated > 0 {
        text.push_str("PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP\n");
    }
    text.push_str(&options.extra_conf);
    text
}

fn slurmdbd_conf() -> String {
    format!(
        "AuthType=auth/munge\n\
         AuthAltTypes=auth/jwt\n\
         AuthAltParameters=jwt_key={JWT_KEY}\n\
         DbdHost={HOST_NAME}\n\
         DbdAddr=127.0.0.1\n\
         SlurmUser=slurm\n\
         PidFile=/run/slurm/slurmdbd.pid\n\
         StorageType=accounting_storage/mysql\n\
         StorageHost=127.0.0.1\n\
         StorageUser={DATABASE_USER}\n\
         StoragePass={DATABASE_PASSWORD}\n"
    )
}

#[cfg(test)]
mod tests {
    use super::super::Version;
    use super::*;

    #[test]
    fn a_file_of_the_test_stands_in_place_of_ours() {
        let files =
            files(&Options::new(Version::V24_11).file(MAIN_FILE, "mine").file("gres.conf", "Name=gpu"));
        assert_eq!(files[MAIN_FILE], "mine");
        assert_eq!(files["gres.conf"], "Name=gpu");
        assert_eq!(files["cgroup.conf"], "CgroupPlugin=disabled\n");
    }

    #[test]
    fn each_node_has_a_port_of_its_own_and_extra_lines_come_last() {
        let text =
            files(&Options::new(Version::V26_05).nodes(3).extra_conf("MaxJobCount=7"))[MAIN_FILE].clone();
        assert!(text.contains("NodeName=node-1 NodeAddr=127.0.0.1 Port=7001 "));
        assert!(text.contains("NodeName=node-3 NodeAddr=127.0.0.1 Port=7003 "));
        assert!(text.ends_with("\nMaxJobCount=7\n"));
        assert!(!text.contains("slurmdbd"), "accounting was not asked for");
    }
}
