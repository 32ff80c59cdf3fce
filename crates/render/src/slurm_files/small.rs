//! The smaller files.

use api::nebius::slurm_cluster::CgroupVersion;
use slurm::conf::{AutoDetect, Comment, ConfFile, Pairs, user_pairs};
use slurm::{key, value};

use super::config::Config;
use super::nodes;
use super::slurm_conf::gpu;
use crate::Facts;

/// cgroup.conf. Keys of the user replace ours.
pub(super) fn cgroup(config: &Config) -> ConfFile {
    let ours = match config.cgroup_version {
        CgroupVersion::V1 => {
            vec![(key!("CgroupPlugin"), value!("cgroup/v1")), (key!("ConstrainSwapSpace"), value!("yes"))]
        }
        CgroupVersion::V2 => vec![
            (key!("CgroupPlugin"), value!("cgroup/v2")),
            (key!("ConstrainSwapSpace"), value!("no")),
            (key!("EnableControllers"), value!("yes")),
            (key!("IgnoreSystemd"), value!("yes")),
        ],
    };
    let always = [
        (key!("CgroupMountpoint"), value!("/sys/fs/cgroup")),
        (key!("ConstrainCores"), value!("yes")),
        (key!("ConstrainDevices"), value!("yes")),
        (key!("ConstrainRAMSpace"), value!("yes")),
    ];
    let theirs = &config.custom_cgroup;
    let mut conf = ConfFile::new();
    for (key, value) in always.into_iter().chain(ours) {
        let replaced = theirs.lines.iter().flat_map(|line| &line.pairs).any(|pair| pair.key == key);
        if !replaced {
            conf.set(key, value);
        }
    }
    conf.append(theirs);
    conf
}

/// gres.conf: what slurmd finds by itself, and what NodeSets say about their nodes.
pub(super) fn gres(config: &Config, facts: &Facts) -> ConfFile {
    let mut conf = ConfFile::new();
    conf.comment(Comment::new("Gres config"));
    if gpu(config, facts) {
        conf.set(key!("AutoDetect"), AutoDetect::Nvidia);
    }
    for set in facts.node_sets.values().filter(|set| !set.workers.is_empty()) {
        let names = nodes(set.workers.iter().map(|worker| &worker.node));
        for line in &set.gres_config {
            // Lines were checked when the NodeSet came; a wrong one is left out, the others stay.
            let pairs = user_pairs("nodeConfig.gresConfig", line, &["NodeName"]).unwrap_or_default();
            if !pairs.is_empty() {
                conf.push(Pairs::new(key!("NodeName"), &names).with_all(pairs));
            }
        }
    }
    conf
}

/// mpi.conf.
pub(super) fn mpi(config: &Config) -> ConfFile {
    let mut conf = ConfFile::new();
    conf.comment(Comment::new("PMIx config"));
    conf.set_some(key!("PMIxEnv"), config.pmix_env.as_ref());
    conf
}
