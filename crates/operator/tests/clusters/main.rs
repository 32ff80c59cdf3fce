//! The controllers on a real API server with a controller manager, and without nodes: pods are made and wait for ever.

mod bad_input;
mod creation;
mod place;
mod slinky_cluster;
mod sweeps;
mod with_slurm;
mod worker_sets;
