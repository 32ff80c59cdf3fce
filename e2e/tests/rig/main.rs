//! The rig is a real Kubernetes: everything that later tests lean on.

mod access;
mod charts;
mod lifecycle;
mod network;
mod nodes;
mod slurm;
mod storage;
