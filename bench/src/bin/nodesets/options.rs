//! The words on the command line.

use std::path::PathBuf;

use clap::{Parser, ValueEnum};

/// Speed and memory of sets of workers, on a real API server with a real Slurm.
#[derive(Clone, Debug, Parser)]
#[command(name = "nodesets")]
pub struct Options {
    /// What to measure; all parts if none is named
    #[arg(value_enum)]
    parts: Vec<Part>,
    /// How many workers the measured sets have; other counts shrink and grow with it
    #[arg(long, default_value_t = 1000)]
    pub workers: usize,
    /// How many workers wait for the end of their job in `drain`
    #[arg(long, default_value_t = 16)]
    pub drains: usize,
    /// Seconds of a measurement in steady state
    #[arg(long, default_value_t = 60)]
    pub seconds: u64,
    /// The program to measure; without it, `soperator` beside this program
    #[arg(long, value_name = "PATH")]
    pub program: Option<PathBuf>,
    #[command(flatten)]
    pub peer: Peer,
}

/// A program to compare with.
#[derive(Clone, Debug, clap::Args)]
pub struct Peer {
    /// A program to compare with, such as the manager of Slinky v0.3.1; `steady` runs it on the same work
    #[arg(long = "peer", value_name = "PATH")]
    pub path: Option<PathBuf>,
    /// Its flags, with blanks between; it finds the API server by KUBECONFIG
    #[arg(long = "peer-flags", value_name = "FLAGS", default_value = "", allow_hyphen_values = true)]
    pub flags: String,
    /// A variable of its environment; may be given more than once
    #[arg(long = "peer-env", value_name = "NAME=VALUE")]
    pub env: Vec<String>,
    /// What it works on, where that is not a Cluster and a NodeSet of v1alpha1: definitions and objects, in which NAMESPACE, SERVER,
    /// TOKEN and REPLICAS are replaced
    #[arg(long = "peer-objects", value_name = "FILE")]
    pub objects: Option<PathBuf>,
    /// The port of this machine at which it looks for slurmrestd, if it has one of its own
    #[arg(long = "peer-rest-port", value_name = "PORT", default_value_t = 0)]
    pub rest_port: u16,
}

/// A part of the benchmark.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Part {
    /// From 0 to many and back, against raw loops
    Scale,
    /// Nothing changes; then one thing does
    Steady,
    /// A hundred sets, and a restart
    Many,
    /// From drained to deleted
    Drain,
    /// Ten thousand workers and a hundred thousand jobs
    Memory,
}

impl Options {
    /// Whether this part is to run.
    pub fn wants(&self, part: Part) -> bool {
        self.parts.is_empty() || self.parts.contains(&part)
    }
}
