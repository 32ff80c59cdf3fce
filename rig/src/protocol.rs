//! What the rig's users and its supervisor say to each other: one JSON object per line on a Unix socket.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::fd::AsRawFd as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

/// How a rig is made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Options {
    /// How many nodes.
    pub nodes: u8,
    /// Whether the first node takes only pods that tolerate the control plane's taint.
    pub control_plane_taint: bool,
    /// Whether every API call is written to the audit log.
    pub audit: bool,
    /// Port of the API server on this machine's loopback; 0: any free one.
    pub api_port: u16,
}

impl Default for Options {
    fn default() -> Self {
        Self { nodes: 2, control_plane_taint: false, audit: false, api_port: 0 }
    }
}

/// What a user asks.
#[derive(Debug, Serialize, Deserialize)]
pub enum Request {
    /// Tell when the rig is ready. The rig lives while a connection that asked this is open.
    Hold,
    /// Tell when the rig is ready, and let it live until someone asks for `Down`.
    Keep,
    /// Tell how the rig is.
    Status,
    /// End the rig.
    Down,
    /// End a node as if its power failed.
    StopNode(String),
    /// Start a node that was stopped.
    StartNode(String),
}

/// What the supervisor answers.
#[derive(Debug, Serialize, Deserialize)]
pub enum Reply {
    /// The rig is still starting; this is what it does.
    Starting(String),
    /// The rig is ready.
    Ready(Figures),
    /// How the rig is.
    Status(Status),
    /// What was asked is done.
    Done,
    /// It could not be done.
    Failed(String),
}

/// What a start cost.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Figures {
    /// Seconds from nothing to all nodes Ready and DNS answering.
    pub seconds: f64,
    /// Bytes of memory of all processes, shared pages counted once.
    pub memory: u64,
}

/// How a rig is.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Status {
    /// How it was made.
    pub options: Options,
    /// Where its API server is reached.
    pub api_server: String,
    /// Whether each node's machine runs.
    pub nodes: BTreeMap<String, bool>,
    /// How many connections hold it.
    pub holders: usize,
    /// Whether it lives without holders.
    pub kept: bool,
    /// Bytes of memory of all processes, shared pages counted once.
    pub memory: u64,
    /// Process id of the supervisor.
    pub supervisor: u32,
}

/// A path of the socket `path` that is short enough for the kernel, which takes 108 bytes. Valid while the file is open.
pub fn short_socket_path(path: &Path) -> Result<(File, PathBuf)> {
    let parent = path.parent().context("a socket without a directory")?;
    let dir = File::open(parent).with_context(|| format!("cannot open {}", parent.display()))?;
    let name = path.file_name().context("a socket without a name")?;
    let short = PathBuf::from(format!("/proc/self/fd/{}", dir.as_raw_fd())).join(name);
    Ok((dir, short))
}
