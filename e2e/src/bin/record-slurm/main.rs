//! Records what real slurmrestds answer, for the tests of the crate `slurm`: `hack/record-slurm`.
//!
//! For each Slurm version and each API version that it offers, every answer is written as it was sent to
//! `crates/slurm/tests/golden/slurm-<version>/<API version>/<name>.json`, with an `index.json` that tells the request and the
//! status of each.

mod calls;
mod recording;
mod scene;
mod types;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use e2e::http::Server;
use rig::SlurmMachine;
use rig::slurm::Version;

use recording::Recording;

fn main() -> Result<()> {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/slurm/tests/golden");
    if !std::env::args().any(|argument| argument == "--only-types") {
        let runs = Version::ALL.map(|version| {
            let golden = golden.clone();
            std::thread::spawn(move || record(version, &golden))
        });
        for run in runs {
            match run.join() {
                Ok(outcome) => outcome?,
                Err(_) => bail!("a recording panicked"),
            }
        }
    }
    print!("{}", types::differences(&golden)?);
    Ok(())
}

/// Records all of one Slurm version, in place of what was recorded before.
fn record(version: Version, golden: &Path) -> Result<()> {
    let slurm = scene::start(version).with_context(|| format!("Slurm {version}"))?;
    let facts = scene::set(&slurm).with_context(|| format!("Slurm {version}"))?;
    let folder = golden.join(version.image());
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    let server = Server::Url(slurm.rest_url()?);
    let tokens = calls::Tokens::make(&slurm)?;
    let paths = offered_paths(&server, &tokens.good)?;
    write_paths(&folder, &paths)?;
    let versions = api_versions(&paths);
    if versions.is_empty() {
        bail!("Slurm {version} offers no API version");
    }
    let start = |api: &String| Recording::start(server.clone(), &folder, api);
    let mut recordings = versions.iter().map(start).collect::<Result<Vec<_>>>()?;
    // First all that only reads, so that each API version tells the same facts.
    for recording in &mut recordings {
        calls::read(recording, &tokens, &facts)?;
    }
    for recording in &mut recordings {
        calls::write(recording, &tokens, &facts, &slurm)?;
    }
    for recording in recordings {
        println!("Slurm {version}: {}", recording.finish()?);
    }
    Ok(())
}

/// The paths in the server's description of itself.
fn offered_paths(server: &Server, token: &str) -> Result<Vec<String>> {
    let answer = server.get("/openapi/v3", token)?;
    let description: serde_json::Value =
        serde_json::from_str(&answer.body).with_context(|| format!("status {}", answer.status))?;
    let paths = description["paths"].as_object().context("the description has no paths")?;
    let mut paths: Vec<String> = paths.keys().cloned().collect();
    paths.sort();
    Ok(paths)
}

/// The description itself has megabytes; which paths there are is what a client looks for.
fn write_paths(folder: &PathBuf, paths: &[String]) -> Result<()> {
    fs::create_dir_all(folder)?;
    let mut text = serde_json::to_string_pretty(&serde_json::json!({ "paths": paths }))?;
    text.push('\n');
    Ok(fs::write(folder.join("openapi-paths.json"), text)?)
}

fn api_versions(paths: &[String]) -> Vec<String> {
    let mut versions: Vec<String> = paths
        .iter()
        .filter_map(|path| path.strip_prefix("/slurm/")?.split('/').next())
        .filter(|name| name.starts_with('v'))
        .map(String::from)
        .collect();
    versions.sort();
    versions.dedup();
    versions
}

/// The machine that is recorded on, with its type for the other modules.
type Slurm = SlurmMachine;
