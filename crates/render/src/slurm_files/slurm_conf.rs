//! slurm.conf, and the files that it includes or that include it.

use slurm::agent::path;
use slurm::conf::{Comment, ConfFile, IncludePath, Value};
use slurm::{key, value};

use super::config::Config;
use super::{CUSTOM_SLURM_CONF, SLURM_CONF, plain, topology};
use crate::{Facts, ValidatedCluster};

/// Node records that Slurm makes room for, at least. Nodes that register themselves need a free one.
const LEAST_NODES: u32 = 1024;

pub(super) fn slurm_conf(cluster: &ValidatedCluster, config: &Config, facts: &Facts) -> ConfFile {
    let names = cluster.names();
    let mut conf = ConfFile::new();
    let host = format!("{}({})", names.controller_pod(), names.controller_service());
    conf.set(key!("ClusterName"), plain(names.cluster()))
        .set(key!("SlurmctldHost"), plain(&host))
        .set(key!("AuthType"), value!("auth/munge"))
        .set(key!("CredType"), value!("cred/munge"))
        // slurmrestd always runs, for the operator.
        .set(key!("AuthAltTypes"), value!("auth/jwt"))
        .set(key!("AuthAltParameters"), plain(&format!("jwt_key={}", path::SLURMCTLD_JWT_KEY)));
    for (key, value) in &config.settings {
        conf.set(key.clone(), value);
    }
    if gpu(config, facts) {
        conf.set(key!("GresTypes"), value!("gpu"));
    }
    daemons(&mut conf, config);
    for (key, value) in &config.health_check {
        conf.set(key.clone(), value);
    }
    limits(&mut conf, config, node_count(config, facts));
    config.partitions.write(&mut conf, facts);
    for (key, value) in &config.accounting {
        conf.set(key.clone(), value);
    }
    if topology::is_impossible(config, facts) {
        conf.remove(|key| *key == key!("TopologyPlugin"));
    }
    // What comes last counts, but every command would complain about what comes twice.
    conf.remove(|key| config.custom_keys.contains(&key.as_str().to_ascii_lowercase()));
    include(&mut conf, CUSTOM_SLURM_CONF);
    conf
}

fn daemons(conf: &mut ConfFile, config: &Config) {
    conf.set(key!("MpiDefault"), value!("pmix"))
        .set(key!("MailProg"), value!("/usr/bin/true"))
        .set(key!("ProctrackType"), value!("proctrack/cgroup"))
        .set(key!("ReturnToService"), value!("2"))
        .set(key!("SlurmctldPidFile"), value!("/var/run/slurmctld.pid"))
        .set(key!("SlurmctldPort"), config.ports.slurmctld)
        .set(key!("SlurmdPidFile"), value!("/var/run/slurmd.pid"))
        .set(key!("SlurmdPort"), config.ports.slurmd)
        .set(key!("SlurmdSpoolDir"), plain(path::SLURMD_SPOOL))
        .set(key!("SlurmUser"), value!("root"))
        .set(key!("StateSaveLocation"), plain(path::SLURMCTLD_SPOOL))
        .set(key!("TaskPlugin"), value!("task/cgroup,task/affinity"))
        .set(key!("CliFilterPlugins"), value!("cli_filter/user_defaults"))
        .set(key!("LaunchParameters"), value!("use_interactive_step"))
        .set(key!("ScronParameters"), value!("enable,explicit_scancel"))
        .set(key!("PropagateResourceLimits"), value!("NONE"))
        .set(key!("SchedulerParameters"), value!("nohold_on_prolog_fail,extra_constraints"));
}

fn limits(conf: &mut ConfFile, config: &Config, nodes: u32) {
    conf.set(key!("InactiveLimit"), value!("0"))
        .set(key!("KillOnBadExit"), value!("1"))
        .set(key!("KillWait"), value!("180"))
        .set(key!("UnkillableStepTimeout"), value!("600"))
        .set(key!("SlurmctldTimeout"), value!("180"))
        .set(key!("SlurmdTimeout"), value!("180"))
        .set(key!("TCPTimeout"), value!("15"))
        .set(key!("WaitTime"), value!("0"))
        // Workers have no configuration of their own.
        .set(key!("SlurmctldParameters"), value!("enable_configless,conmgr_max_connections=512"))
        .set(key!("RebootProgram"), value!("/opt/bin/slurm/reboot.sh"))
        .set(key!("ResumeTimeout"), config.resume_timeout)
        .set(key!("SchedulerType"), value!("sched/backfill"))
        .set(key!("SelectType"), value!("select/cons_tres"))
        .set(key!("SelectTypeParameters"), value!("CR_Core_Memory,CR_CORE_DEFAULT_DIST_BLOCK"))
        .set(key!("SlurmctldDebug"), value!("verbose"))
        .set(key!("SlurmctldLogFile"), value!("/dev/null"))
        .set(key!("SlurmdDebug"), value!("verbose"))
        .set(key!("SlurmdLogFile"), value!("/dev/null"))
        .set(key!("DebugFlags"), value!("Script"))
        .set(key!("MaxNodeCount"), nodes.next_power_of_two().max(LEAST_NODES))
        .set(key!("MaxArraySize"), value!("1024"))
        .set(key!("JobRequeue"), value!("1"))
        .set(key!("PreemptMode"), value!("REQUEUE"))
        .set(key!("PreemptType"), value!("preempt/partition_prio"));
    if config.metrics {
        conf.set(key!("MetricsType"), value!("metrics/openmetrics"));
    }
}

/// Whether any worker has GPUs.
pub(super) fn gpu(config: &Config, facts: &Facts) -> bool {
    config.gpu || facts.node_sets.values().any(|set| set.gpu)
}

/// Nodes that there are or should be.
fn node_count(config: &Config, facts: &Facts) -> u32 {
    let pods: usize = facts.node_sets.values().map(|set| set.workers.len()).sum();
    config.workers.max(u32::try_from(pods).unwrap_or(u32::MAX))
}

fn include(conf: &mut ConfFile, name: &'static str) {
    if let Ok(path) = IncludePath::new("include", name) {
        conf.include(path);
    }
}

/// What the user wrote, as it stands: keys that we do not know may be known to the image's Slurm.
pub(super) fn custom(config: &Config) -> String {
    let mut text = format!("{}\n", Comment::new("CUSTOM SLURM CONFIG"));
    if let Some(custom) = &config.custom {
        text.push_str(custom);
        if !custom.ends_with('\n') {
            text.push('\n');
        }
    }
    text
}

pub(super) fn rest() -> ConfFile {
    let mut conf = ConfFile::new();
    conf.comment(Comment::new("REST API config"));
    include(&mut conf, SLURM_CONF);
    conf.set(key!("AuthType"), Value::from(&value!("auth/jwt")));
    conf
}
