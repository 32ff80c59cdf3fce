//! Log lines: JSON or text, to standard output and to files that are rotated, at a level that can be changed while the
//! process runs.

mod json;
mod rotate;

use std::path::PathBuf;
use std::sync::Arc;
use std::{fmt, io};

use serde::Serialize;
use tracing::Subscriber;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::fmt::writer::BoxMakeWriter;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::{Layer, Registry, reload};

use crate::settings::Time;
use json::JsonLine;
use rotate::Rotating;

/// Libraries that tell too much below this level.
const CHATTY: &[&str] = &["h2", "hyper", "hyper_util", "kube_client", "rustls", "tokio_util", "tower"];

/// How much is logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// What libraries tell too.
    Trace,
    /// What helps to find a mistake.
    Debug,
    /// Changes of state.
    Info,
    /// What may need a look.
    Warn,
    /// What failed.
    Error,
}

impl fmt::Display for Level {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Trace => "trace",
            Self::Debug => "debug",
            Self::Info => "info",
            Self::Warn => "warn",
            Self::Error => "error",
        })
    }
}

/// How a line looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    /// One JSON object.
    Json,
    /// For human eyes.
    Text,
}

/// A file that is replaced when it grows too large.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RotatingFile {
    /// The file that is written.
    pub path: PathBuf,
    /// Before it would grow larger than this many bytes, it is renamed and a new one begun.
    pub max_size: u64,
    /// Renamed files older than this are removed; zero keeps them.
    pub max_age: Time,
    /// Of renamed files, only the newest are kept; zero keeps all that are young enough.
    pub max_backups: usize,
}

/// Where lines go.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "type", rename_all = "lowercase")]
pub enum Output {
    /// Standard output.
    Stdout {
        /// How they look there.
        format: Format,
    },
    /// A file.
    File {
        /// How they look there.
        format: Format,
        /// Which.
        #[serde(flatten)]
        file: RotatingFile,
    },
}

/// What is logged, and where to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// How much.
    pub level: Level,
    /// Where to.
    pub outputs: Vec<Output>,
}

/// Why logging cannot start.
#[derive(Debug, thiserror::Error)]
pub enum LoggingError {
    /// A file cannot be written.
    #[error("cannot log to {path}: {error}; see logging.outputs")]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// The process logs already.
    #[error("logging was started twice")]
    Twice,
}

/// Changes the level while the process runs. Cheap to clone.
#[derive(Clone, Debug)]
pub struct LevelHandle {
    filter: reload::Handle<Targets, Registry>,
}

impl LevelHandle {
    /// Logs at this level from now on.
    pub fn set(&self, level: Level) {
        // Fails only when logging itself is gone.
        let _ = self.filter.reload(filter(level));
    }

    /// The level now.
    pub fn get(&self) -> Option<Level> {
        let level = self.filter.with_current(Targets::default_level).ok()??;
        [Level::Trace, Level::Debug, Level::Info, Level::Warn, Level::Error]
            .into_iter()
            .find(|known| LevelFilter::from(*known) == level)
    }
}

impl From<Level> for LevelFilter {
    fn from(level: Level) -> Self {
        match level {
            Level::Trace => Self::TRACE,
            Level::Debug => Self::DEBUG,
            Level::Info => Self::INFO,
            Level::Warn => Self::WARN,
            Level::Error => Self::ERROR,
        }
    }
}

fn filter(level: Level) -> Targets {
    let targets = Targets::new().with_default(LevelFilter::from(level));
    if level == Level::Debug {
        targets.with_targets(CHATTY.iter().map(|name| (*name, LevelFilter::INFO)))
    } else {
        targets
    }
}

/// Starts logging for the whole process.
pub fn start(options: &Options) -> Result<LevelHandle, LoggingError> {
    let (subscriber, handle) = subscriber(options)?;
    tracing::subscriber::set_global_default(subscriber).map_err(|_| LoggingError::Twice)?;
    Ok(handle)
}

/// What [`start`] makes the default, for those who want it for less than the whole process.
pub fn subscriber(
    options: &Options,
) -> Result<(impl Subscriber + Send + Sync + use<>, LevelHandle), LoggingError> {
    let (filter, handle) = reload::Layer::new(filter(options.level));
    let outputs: Vec<_> = options.outputs.iter().map(layer).collect::<Result<_, _>>()?;
    Ok((tracing_subscriber::registry().with(filter).with(outputs), LevelHandle { filter: handle }))
}

fn layer<S>(output: &Output) -> Result<Box<dyn Layer<S> + Send + Sync>, LoggingError>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    let (format, writer) = match output {
        Output::Stdout { format } => (*format, BoxMakeWriter::new(io::stdout)),
        Output::File { format, file } => {
            let opened = Rotating::open(file.clone(), jiff::Timestamp::now)
                .map_err(|error| LoggingError::File { path: file.path.clone(), error })?;
            (*format, BoxMakeWriter::new(FileWriter(Arc::new(opened))))
        }
    };
    let lines = tracing_subscriber::fmt::layer().with_ansi(false).with_writer(writer);
    Ok(match format {
        Format::Json => Box::new(lines.json().event_format(JsonLine)),
        Format::Text => Box::new(lines),
    })
}

/// Writes each line as a whole: the formatter hands it over in one piece.
struct FileWriter(Arc<Rotating>);

impl<'a> MakeWriter<'a> for FileWriter {
    type Writer = &'a Rotating;

    fn make_writer(&'a self) -> Self::Writer {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn logged(level: Level, format: Format, log: impl FnOnce(&LevelHandle)) -> String {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("logs/test.log");
        let file = RotatingFile {
            path: path.clone(),
            max_size: 1_000_000,
            max_age: Time(std::time::Duration::ZERO),
            max_backups: 1,
        };
        let options = Options { level, outputs: vec![Output::File { format, file }] };
        let (subscriber, handle) = subscriber(&options).unwrap();
        tracing::subscriber::with_default(subscriber, || log(&handle));
        std::fs::read_to_string(path).unwrap()
    }

    #[test]
    fn json_lines_hold_message_fields_and_those_of_all_spans() {
        let text = logged(Level::Info, Format::Json, |_| {
            let _outer = tracing::info_span!("reconcile", name = "a", namespace = "ns").entered();
            let _inner = tracing::info_span!("step", number = 1).entered();
            tracing::info!(pods = 3, "scaled \"up\"");
            tracing::info!(name = "b", "other");
        });
        let lines: Vec<serde_json::Value> =
            text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let mut first = lines[0].clone();
        let at = first.as_object_mut().unwrap().remove("timestamp").unwrap();
        at.as_str().unwrap().parse::<jiff::Timestamp>().unwrap();
        let expected = serde_json::json!({
            "level": "info", "target": "engine::logging::tests", "message": "scaled \"up\"",
            "name": "a", "namespace": "ns", "number": 1, "pods": 3,
        });
        assert_eq!(first, expected);
        assert_eq!(lines[1]["name"], "b", "the event's own field wins");
    }

    #[test]
    fn text_lines_are_plain() {
        let text = logged(Level::Info, Format::Text, |_| tracing::warn!(pods = 3, "scaled"));
        assert!(text.contains(" WARN ") && text.ends_with("scaled pods=3\n"), "{text:?}");
    }

    #[test]
    fn the_level_holds_and_can_be_changed() {
        let text = logged(Level::Warn, Format::Text, |handle| {
            tracing::info!("first");
            assert_eq!(handle.get(), Some(Level::Warn));
            handle.set(Level::Debug);
            assert_eq!(handle.get(), Some(Level::Debug));
            tracing::debug!("second");
            tracing::debug!(target: "hyper::proto", "chatter");
        });
        assert!(!text.contains("first") && text.contains("second") && !text.contains("chatter"), "{text:?}");
    }

    #[test]
    fn a_file_that_cannot_be_written_is_named() {
        let file = RotatingFile {
            path: "/proc/nowhere/x.log".into(),
            max_size: 1,
            max_age: Time(std::time::Duration::ZERO),
            max_backups: 1,
        };
        let options =
            Options { level: Level::Info, outputs: vec![Output::File { format: Format::Json, file }] };
        let Err(error) = subscriber(&options) else { panic!("no error") };
        assert!(error.to_string().starts_with("cannot log to /proc/nowhere/x.log"), "{error}");
    }
}
