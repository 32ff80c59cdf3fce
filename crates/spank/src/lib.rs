//! What the SPANK plugins are made of. The plugins themselves, which only wire hooks to this, are in `plugins/`.
//!
//! Slurm loads plugins into `srun`, `sbatch`, `salloc`, slurmd and slurmstepd, and calls their hooks there. A panic must never
//! get out of a hook: the caller is written in C ([`hook::guarded`]).

pub mod abi;
pub mod handle;
pub mod hook;
pub mod jail;
pub mod nccl;
pub mod version;
