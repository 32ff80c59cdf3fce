//! Real Slurm daemons without Kubernetes, both versions.

mod conf_bad_lines;
mod conf_controller;
mod conf_host_lists;
mod conf_keys;
mod conf_topology;
mod conf_written;
mod lifecycle;
mod machine;
