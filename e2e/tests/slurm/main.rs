//! Real Slurm daemons without Kubernetes, both versions.

mod client_calls;
mod client_cli;
mod client_poller;
mod conf_bad_lines;
mod conf_controller;
mod conf_host_lists;
mod conf_keys;
mod conf_topology;
mod conf_written;
mod lifecycle;
mod machine;
mod scripts;
mod spank;
