//! The jail: one root file system for all users and jobs of a cluster, and nothing of it for the daemons.

mod chart;
mod configs;
mod jobs;
mod populate;
mod power;
mod users;
