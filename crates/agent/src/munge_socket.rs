//! munge's socket, which the daemons of a pod share with its munge container.

use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use slurm::agent::path;

/// The socket.
pub fn file() -> PathBuf {
    Path::new(path::MUNGE_SOCKET_DIR).join("munge.socket.2")
}

/// Whether munged listens.
///
/// # Errors
///
/// It does not, as a sentence.
pub fn listens() -> Result<(), String> {
    let file = file();
    UnixStream::connect(&file)
        .map(drop)
        .map_err(|error| format!("munge does not answer at {}: {error}", file.display()))
}
