//! Why a file is not in the jail, and what to do about it.

use nix::errno::Errno;

use super::JailPath;

/// Why a file is not in the jail, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JailError {
    /// The jail itself is not there.
    #[error("the jail {path} cannot be opened: {}; mount its volume there, or change --jail-path", .error.desc())]
    Root {
        /// Where it should be.
        path: String,
        /// Why.
        error: Errno,
    },
    /// A link could lead the write elsewhere.
    #[error(
        "{path} is a symbolic link in the jail, and links are not followed; remove it, and the file is written"
    )]
    Link {
        /// The file.
        path: JailPath,
    },
    /// A link could lead the write elsewhere.
    #[error(
        "a directory on the way to {path} is a symbolic link in the jail, and links are not followed; put a directory in its \
         place, or change the path"
    )]
    LinkOnTheWay {
        /// The file.
        path: JailPath,
    },
    /// A directory is not replaced.
    #[error("{path} is a directory in the jail; remove it, or change the path")]
    Directory {
        /// The file.
        path: JailPath,
    },
    /// A device, a pipe or a socket is not replaced.
    #[error("{path} is neither a file nor a directory in the jail; remove it, or change the path")]
    NoFile {
        /// The file.
        path: JailPath,
    },
    /// A file is not replaced by a directory.
    #[error(
        "a part of {path} is a file in the jail and would have to be a directory; remove it, or change the path"
    )]
    FileOnTheWay {
        /// The file.
        path: JailPath,
    },
    /// Somebody else writes there at the same time.
    #[error("{path} is changed by somebody else at the same time; it is tried again")]
    Disturbed {
        /// The file.
        path: JailPath,
    },
    /// No space.
    #[error(
        "{path} cannot be written: no space is left in the jail; make room, and it is tried again. What was there is unchanged"
    )]
    Full {
        /// The file.
        path: JailPath,
    },
    /// The volume cannot be written.
    #[error("{path} cannot be written: the jail is mounted read-only; make its volume writable")]
    ReadOnly {
        /// The file.
        path: JailPath,
    },
    /// The rights of this process do not suffice.
    #[error(
        "{path} cannot be written: its directory belongs to another user; set slurmNodes.sConfigController.runAsUid to 0, or give \
         the directory to the user of the sconfigcontroller"
    )]
    Denied {
        /// The file.
        path: JailPath,
    },
    /// Anything else.
    #[error("{path} cannot be {what}: {}", .error.desc())]
    System {
        /// The file.
        path: JailPath,
        /// What did not work: `read`, `written`, `removed`.
        what: &'static str,
        /// What the system said.
        error: Errno,
    },
}

impl JailError {
    /// What an error of the system means for a file.
    pub(super) fn of(path: &JailPath, what: &'static str, error: Errno) -> Self {
        let path = path.clone();
        match error {
            Errno::ENOSPC | Errno::EDQUOT => Self::Full { path },
            Errno::EROFS => Self::ReadOnly { path },
            Errno::EACCES | Errno::EPERM => Self::Denied { path },
            Errno::EISDIR => Self::Directory { path },
            error => Self::System { path, what, error },
        }
    }

    /// What an error of the system means for the directory of a file.
    pub(super) fn on_the_way(path: &JailPath, error: Errno) -> Self {
        match error {
            // RESOLVE_BENEATH answers EXDEV to whatever would lead out.
            Errno::ELOOP | Errno::EXDEV => Self::LinkOnTheWay { path: path.clone() },
            Errno::ENOTDIR => Self::FileOnTheWay { path: path.clone() },
            error => Self::of(path, "written", error),
        }
    }
}
