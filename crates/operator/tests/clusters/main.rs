//! The controllers on a real API server with a controller manager, and without nodes: pods are made and wait for ever.

mod adoption;
mod bad_input;
mod cordon;
mod creation;
mod ending;
mod jail;
mod jailed;
mod kube_nodes;
mod last_look;
mod lines;
mod place;
mod slinky_cluster;
mod slinky_sets;
mod slurm_between;
mod slurm_faults;
mod slurm_place;
mod sweeps;
mod with_slurm;
mod worker_bad_input;
mod worker_ending;
mod worker_sets;
mod worker_sweeps;
mod worker_updates;
