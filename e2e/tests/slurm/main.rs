//! Real Slurm daemons without Kubernetes, both versions.

mod lifecycle;
mod machine;
