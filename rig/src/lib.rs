//! A real Kubernetes on one machine, with real Slurm images: for `make up` and for the tests.
//!
//! Tests use [`ControlPlane`] (etcd and kube-apiserver alone, no root needed) or [`Rig`] (a whole cluster with nodes that
//! run containers). Both hand out kube clients and a fresh [`Namespace`] per test, and end with their last user.
//! Tests of Slurm alone use a [`SlurmMachine`]: the real daemons without Kubernetes.

pub mod addresses;
pub mod audit;
mod base_objects;
pub mod build;
pub mod cache;
mod cert_manager;
mod cgroups;
pub mod client;
pub mod cluster;
pub mod components;
mod control_plane;
mod forward;
pub mod image;
pub mod image_store;
mod kwok;
pub mod machine;
mod machine_root;
mod memory;
mod network;
pub mod paths;
pub mod pki;
mod preflight;
mod processes;
pub mod protocol;
mod provisioner;
pub mod rig;
pub mod slurm;
pub mod supervisor;

pub use audit::{AuditLog, Call};
pub use cert_manager::CertManager;
pub use client::Namespace;
pub use control_plane::{ControlPlane, Options as ControlPlaneOptions};
pub use kwok::Kwok;
pub use protocol::Options;
pub use rig::Rig;
pub use slurm::SlurmMachine;
