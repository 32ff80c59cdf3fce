//! The checker as a program: a line now and then, and an error as soon as promise and sight differ.

use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};

use super::{Sight, annotations, differences, gpus};
use crate::names::{CUDA_DEVICE_ORDER, CUDA_VISIBLE_DEVICES, DEVICES, NVIDIA_VISIBLE_DEVICES};

/// Variables that the chart sets, and that the line is made of.
const EXPECTED: [&str; 3] = ["NODE_NAME", "POD_NAME", "POD_NAMESPACE"];

/// Where things are.
#[derive(Clone, Debug)]
pub struct Places {
    /// The file of the downward API with the pod's annotations.
    pub annotations: PathBuf,
    /// The proc file system.
    pub proc: PathBuf,
    /// The folder of device files.
    pub dev: PathBuf,
}

/// How the checker runs.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where things are.
    pub places: Places,
    /// How long between two looks; none: one look only.
    pub interval: Option<Duration>,
}

/// Why the checker ends with an error.
#[derive(Debug, thiserror::Error)]
pub enum CheckError {
    /// Promise and sight differ.
    #[error("{}", .0.join("\n"))]
    Differs(Vec<String>),
    /// There is no promise to read.
    #[error("{path} cannot be read: {error}; mount the pod's annotations there with a downward API volume")]
    Annotations {
        /// The file.
        path: PathBuf,
        /// Why.
        error: std::io::Error,
    },
    /// The system refuses signals, or nobody reads the lines.
    #[error("the checker cannot go on")]
    System(#[from] std::io::Error),
}

/// Looks until promise and sight differ, or until SIGTERM or SIGINT, on which it ends at once and well.
///
/// # Errors
///
/// They differ, or cannot be compared.
pub fn run(
    options: &Options,
    env: &dyn Fn(&str) -> Option<String>,
    out: &mut impl Write,
) -> Result<(), CheckError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let (mut term, mut int) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
        for name in EXPECTED.iter().filter(|name| env(name).is_none()) {
            writeln!(out, "WARNING: {name} is not set")?;
        }
        loop {
            look(options, env, out)?;
            let Some(interval) = options.interval else { return Ok(()) };
            tokio::select! {
                _ = term.recv() => return Ok(()),
                _ = int.recv() => return Ok(()),
                () = tokio::time::sleep(interval) => {}
            }
        }
    })
}

fn look(
    options: &Options,
    env: &dyn Fn(&str) -> Option<String>,
    out: &mut impl Write,
) -> Result<(), CheckError> {
    let places = &options.places;
    let sight = Sight {
        node: env("NODE_NAME"),
        cuda: env(CUDA_VISIBLE_DEVICES),
        nvidia: env(NVIDIA_VISIBLE_DEVICES),
        order: env(CUDA_DEVICE_ORDER),
        gpus: gpus::read(&places.proc, &places.dev),
    };
    writeln!(out, "{}", sight.line())?;
    out.flush()?;
    let text = std::fs::read_to_string(&places.annotations)
        .map_err(|error| CheckError::Annotations { path: places.annotations.clone(), error })?;
    let found = differences(annotations::find(&text, DEVICES).as_deref(), &sight);
    if found.is_empty() { Ok(()) } else { Err(CheckError::Differs(found)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(dir: &std::path::Path) -> Options {
        let places =
            Places { annotations: dir.join("annotations"), proc: dir.join("proc"), dev: dir.join("dev") };
        Options { places, interval: None }
    }

    fn env(cuda: &'static str) -> impl Fn(&str) -> Option<String> {
        move |name| match name {
            "CUDA_VISIBLE_DEVICES" => Some(cuda.into()),
            "CUDA_DEVICE_ORDER" => Some("PCI_BUS_ID".into()),
            "NODE_NAME" => Some("node1".into()),
            _ => None,
        }
    }

    #[test]
    fn a_look_tells_what_is_seen_and_fails_when_it_is_not_what_was_promised() {
        let dir = tempfile::tempdir().unwrap();
        let mut out = Vec::new();
        let error = run(&options(dir.path()), &env("0"), &mut out).unwrap_err().to_string();
        assert!(error.contains("downward API"), "{error}");
        std::fs::write(dir.path().join("annotations"), "gpu-scheduling-devices=\"0\"\n").unwrap();
        run(&options(dir.path()), &env("0"), &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(text.contains("WARNING: POD_NAME is not set\n"), "{text}");
        assert!(text.ends_with("Node: node1, CUDA_VISIBLE_DEVICES: 0\n"), "{text}");
        let error = run(&options(dir.path()), &env("1"), &mut Vec::new()).unwrap_err();
        assert!(matches!(error, CheckError::Differs(_)), "{error}");
    }
}
