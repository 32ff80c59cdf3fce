//! The custom resources of both API groups: types, defaults, validation rules and CRDs. No logic.
//!
//! [`slinky`] is `slinky.slurm.net` (SchedMD's Slinky), [`nebius`] is `slurm.nebius.ai` (Nebius Soperator). The rustdoc
//! of each field is what `kubectl explain` shows.
//!
//! ```
//! let crds = api::crds();
//! assert_eq!(crds.len(), 8);
//! assert!(crds.iter().all(|crd| crd.spec.scope == "Namespaced"));
//! ```

// Two printer columns of one type are no mistake.
#![allow(clippy::duplicated_attributes, reason = "false alarm for lists of kube attributes")]

pub mod common;
pub mod crd;
pub mod nebius;
pub mod slinky;

pub use crd::{Kind, crds, file_name, group_names, kinds};
