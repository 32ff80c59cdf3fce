//! Answers and their index, as files.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use e2e::http::{Answer, Request, Server};
use serde::Serialize;

/// All answers of one API version.
pub(crate) struct Recording {
    server: Server,
    folder: PathBuf,
    api: String,
    kernel: String,
    index: Vec<Entry>,
}

#[derive(Serialize)]
struct Entry {
    name: String,
    method: String,
    path: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    body: Option<serde_json::Value>,
    status: u16,
    /// The file with the body: `.txt` where it is not JSON; none where it is empty.
    file: Option<String>,
}

impl Recording {
    /// Starts the folder of one API version.
    pub(crate) fn start(server: Server, folder: &Path, api: &str) -> Result<Self> {
        let folder = folder.join(api);
        fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
        let release = fs::read_to_string("/proc/sys/kernel/osrelease")?;
        let build = fs::read_to_string("/proc/sys/kernel/version")?;
        let kernel = format!("{} {}", release.trim(), build.trim());
        Ok(Self { server, folder, api: api.to_string(), kernel, index: Vec::new() })
    }

    /// Asks without writing anything down. `{v}` in the path is the API version.
    pub(crate) fn ask(
        &self,
        method: &str,
        path: &str,
        token: Option<&str>,
        body: Option<&str>,
    ) -> Result<Answer> {
        let path = path.replace("{v}", &self.api);
        self.server.send(Request { method, path: &path, token, body })
    }

    /// Asks, and writes the answer down as `name`.
    pub(crate) fn record(
        &mut self,
        name: &str,
        method: &str,
        path: &str,
        token: Option<&str>,
        body: Option<serde_json::Value>,
    ) -> Result<Answer> {
        let sent = body.as_ref().map(ToString::to_string);
        let answer = self.ask(method, path, token, sent.as_deref())?;
        self.keep(name, method, path, body, &answer)?;
        Ok(answer)
    }

    /// Writes an answer down as `name`.
    pub(crate) fn keep(
        &mut self,
        name: &str,
        method: &str,
        path: &str,
        body: Option<serde_json::Value>,
        answer: &Answer,
    ) -> Result<()> {
        // Which kernel it was recorded on is nobody's business.
        let text = answer.body.replace(&self.kernel, "6.1.0 #1 SMP");
        let is_json = serde_json::from_str::<serde_json::Value>(&text).is_ok();
        let file = format!("{name}.{}", if is_json { "json" } else { "txt" });
        if !text.is_empty() {
            fs::write(self.folder.join(&file), &text)?;
        }
        self.index.push(Entry {
            name: name.into(),
            method: method.into(),
            path: path.replace("{v}", &self.api),
            body,
            status: answer.status,
            file: (!text.is_empty()).then_some(file),
        });
        Ok(())
    }

    /// Writes the index; returns what was recorded, in words.
    pub(crate) fn finish(self) -> Result<String> {
        let mut text = serde_json::to_string_pretty(&self.index)?;
        text.push('\n');
        fs::write(self.folder.join("index.json"), text)?;
        Ok(format!("{}: {} answers", self.api, self.index.len()))
    }
}
