//! The API server's audit log, for tests that count calls.

use std::path::PathBuf;

use anyhow::{Context, Result};
use serde::Deserialize;

/// An audit log that grows while the API server runs.
#[derive(Clone, Debug)]
pub struct AuditLog {
    path: PathBuf,
}

/// One answered call.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Call {
    /// `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`...
    pub verb: String,
    /// Path and query of the request.
    #[serde(rename = "requestURI")]
    pub request_uri: String,
    /// What the client calls itself.
    #[serde(default)]
    pub user_agent: String,
    /// Who called.
    pub user: User,
    /// What it was about, for calls on objects.
    pub object_ref: Option<ObjectReference>,
    /// The answer, absent for watches that are still open.
    pub response_status: Option<ResponseStatus>,
}

/// Who made a call.
#[derive(Clone, Debug, Deserialize)]
pub struct User {
    /// User name, `system:serviceaccount:NAMESPACE:NAME` for service accounts.
    pub username: String,
}

/// The object or collection of a call.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ObjectReference {
    /// Plural name of the kind.
    pub resource: String,
    /// Its namespace, empty for cluster-wide kinds.
    pub namespace: String,
    /// Its name, empty for collections.
    pub name: String,
    /// `status`, `scale`, `binding`...
    pub subresource: String,
}

/// How a call was answered.
#[derive(Clone, Debug, Deserialize)]
pub struct ResponseStatus {
    /// The HTTP status.
    #[serde(default)]
    pub code: u16,
}

impl AuditLog {
    /// The log at `path`.
    pub fn at(path: PathBuf) -> Self {
        Self { path }
    }

    /// All calls so far, oldest first. The API server writes in batches: the last second may be missing.
    pub fn calls(&self) -> Result<Vec<Call>> {
        let text = match std::fs::read_to_string(&self.path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error).with_context(|| format!("cannot read {}", self.path.display())),
        };
        // The last line may be half written.
        let whole = &text[..text.rfind('\n').map_or(0, |end| end + 1)];
        whole
            .lines()
            .map(|line| serde_json::from_str(line).with_context(|| format!("not an audit event: {line}")))
            .collect()
    }
}
