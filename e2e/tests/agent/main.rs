//! `slurm-agent` with real daemons of both Slurm versions, in pods without Kubernetes.

mod accounting;
mod config;
mod keys;
mod lab;
mod login;
mod program;
mod rest;
mod worker;
