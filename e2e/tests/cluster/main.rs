//! Slurm clusters that the operator makes: real daemons of both versions, real jobs, users who log in over SSH.
//!
//! Tests of one version share a cluster and have it one after the other; each leaves it as it found it.

#![allow(clippy::expect_used, clippy::unwrap_used, clippy::panic, reason = "this file is a test")]

mod accounting;
mod config;
mod controller;

mod jail;
mod jobs;
mod lifecycle;
mod login;
mod maintenance;
mod rest;
mod rotation;
mod status;
mod worker;

/// Makes a test for each version of a function that takes the shared cluster: `NAME::slurm_24_11` and `NAME::slurm_26_05`.
///
/// The versions come last in the names, so that a run with two threads works on both clusters at once.
macro_rules! on_both_versions {
    ($($test:ident),* $(,)?) => {
        $(mod $test {
            use rig::slurm::Version;

            #[tokio::test]
            async fn slurm_24_11() -> anyhow::Result<()> {
                let cluster = e2e::cluster::shared(rig::Rig::shared().await?, Version::V24_11)?;
                super::$test(&cluster)
            }

            #[tokio::test]
            async fn slurm_26_05() -> anyhow::Result<()> {
                let cluster = e2e::cluster::shared(rig::Rig::shared().await?, Version::V26_05)?;
                super::$test(&cluster)
            }
        })*
    };
}
pub(crate) use on_both_versions;
