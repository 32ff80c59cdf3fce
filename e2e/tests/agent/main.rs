//! `slurm-agent` with real daemons of both Slurm versions, in pods without Kubernetes.

mod accounting;
mod config;
mod jail;
mod keys;
mod lab;
mod login;
mod populate;
mod program;
mod rest;
mod worker;
