//! The smaller files.

use std::collections::BTreeMap;

use api::nebius::slurm_cluster::CgroupVersion;
use slurm::conf::{AutoDetect, Comment, ConfFile, Pairs, user_pairs};
use slurm::{NodeName, key, value};

use super::config::Config;
use super::nodes;
use super::slurm_conf::gpu;
use crate::{Facts, labels};

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

/// gres.conf: what slurmd finds by itself, and what pods say about themselves.
pub(super) fn gres(config: &Config, facts: &Facts) -> ConfFile {
    let mut conf = ConfFile::new();
    conf.comment(Comment::new("Gres config"));
    if gpu(config, facts) {
        conf.set(key!("AutoDetect"), AutoDetect::Nvidia);
    }
    for set in facts.node_sets.values() {
        // Pods that were made of different revisions have different lines.
        let mut same: BTreeMap<&[String], Vec<&NodeName>> = BTreeMap::new();
        for worker in set.workers.iter().filter(|worker| !worker.gres.is_empty()) {
            same.entry(&worker.gres).or_default().push(&worker.node);
        }
        for (lines, workers) in same {
            let names = nodes(workers);
            for line in lines {
                // Lines were checked when the pod was made; a wrong one is left out, the others stay.
                let pairs = user_pairs(labels::GRES_LINES, line, &["NodeName"]).unwrap_or_default();
                if !pairs.is_empty() {
                    conf.push(Pairs::new(key!("NodeName"), &names).with_all(pairs));
                }
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
