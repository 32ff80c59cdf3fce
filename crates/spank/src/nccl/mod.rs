//! Logs of NCCL, collected per node and step.
//!
//! A [`Settings`] says what a user or an admin wants; [`output::Plan`] what follows for one task; [`output::Plan::carry_out`] does it.

pub mod output;
mod settings;

pub use settings::{BadSetting, Key, LogLevel, Settings};
