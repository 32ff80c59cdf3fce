//! The program on this machine, as people run it.

use std::path::PathBuf;
use std::process::Command;

use anyhow::Result;

use super::Cluster;

impl Cluster {
    /// `soperator ARGUMENTS --namespace ...` with the rig's kubeconfig and kubectl.
    pub fn soperator(&self, arguments: &[&str]) -> Result<Command> {
        let mut command = Command::new(program()?);
        command
            .args(arguments)
            .args(["--namespace", &self.namespace])
            .env("KUBECONFIG", self.rig.kubeconfig())
            .env("KUBECTL", self.rig.kubectl()?.get_program());
        Ok(command)
    }
}

/// The program: the one that `SOPERATOR_BIN` names, or else built from this checkout.
fn program() -> Result<PathBuf> {
    match std::env::var_os("SOPERATOR_BIN") {
        Some(named) => Ok(named.into()),
        None => rig::build::cargo_program(&["--package", "soperator", "--bin", "soperator"]),
    }
}
