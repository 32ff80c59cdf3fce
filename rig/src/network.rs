//! The rig's network: a bridge in the control plane's namespace and a cable to each node. Nothing is made outside.

use std::fmt::Write as _;
use std::process::Stdio;

use anyhow::{Context, Result, bail};
use tokio::io::AsyncWriteExt as _;

use crate::addresses;

const BRIDGE: &str = "br0";

/// `ip` commands for the control plane's side of the bridge.
///
/// Its hardware address is fixed: by itself a bridge takes the lowest one of its ports, which changes when a node is
/// unplugged, and then the other nodes cannot reach the API server until their neighbour entries expire.
pub fn bridge_commands() -> String {
    format!(
        "link set lo up\n\
         link add {BRIDGE} address 02:00:0a:0a:00:00 type bridge\n\
         address add {}/{} dev {BRIDGE}\n\
         link set {BRIDGE} up\n",
        addresses::CONTROL_PLANE,
        addresses::NODE_PREFIX_LENGTH
    )
}

/// `ip` commands, in the control plane, that plug in the node whose process 1 is `pid`.
pub fn cable_commands(number: u8, pid: u32) -> String {
    // Fixed hardware addresses: neighbours keep the old one of a restarted node for half a minute otherwise.
    format!(
        "link add node{number} type veth peer name eth0 address 02:00:0a:0a:00:{number:02x} netns {pid}\n\
         link set node{number} master {BRIDGE} up\n\
         route replace {} via {}\n",
        addresses::pod_cidr(number),
        addresses::node(number)
    )
}

/// `ip` command that unplugs a node whose namespace may not be quite gone yet.
pub fn unplug_command(number: u8) -> String {
    format!("link del node{number}\n")
}

/// `ip` commands for a node's own side. No default route anywhere: nothing can leave.
pub fn node_commands(number: u8, nodes: u8) -> String {
    let mut text = format!(
        "link set lo up\n\
         address add {}/{} dev eth0\n\
         link set eth0 up\n\
         route add {} via {}\n",
        addresses::node(number),
        addresses::NODE_PREFIX_LENGTH,
        addresses::SERVICE_CIDR,
        addresses::CONTROL_PLANE
    );
    for other in (1..=nodes).filter(|other| *other != number) {
        let _ = writeln!(text, "route add {} via {}", addresses::pod_cidr(other), addresses::node(other));
    }
    text
}

/// Runs `ip` commands in the network namespace of process `pid`.
pub async fn ip(pid: u32, commands: &str) -> Result<()> {
    let mut child = tokio::process::Command::new("nsenter")
        .args(["--net", "--target", &pid.to_string(), "ip", "-batch", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .context("cannot run nsenter")?;
    if let Some(mut stdin) = child.stdin.take() {
        stdin.write_all(commands.as_bytes()).await?;
    }
    let output = child.wait_with_output().await?;
    if !output.status.success() {
        bail!("cannot set up the network: {}\n{commands}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bridge_keeps_its_hardware_address_when_nodes_come_and_go() {
        assert!(bridge_commands().contains("link add br0 address 02:00:0a:0a:00:00 type bridge"));
    }

    #[test]
    fn a_node_reaches_the_pods_of_every_other_node_and_no_more() {
        let commands = node_commands(2, 3);
        assert!(commands.contains("route add 10.244.1.0/24 via 10.10.0.11\n"));
        assert!(commands.contains("route add 10.244.3.0/24 via 10.10.0.13\n"));
        assert!(!commands.contains("10.244.2.0/24"), "its own pods hang on its own bridge");
        assert!(!commands.contains("default"), "nothing may leave the rig");
    }
}
