//! What can be said about the logs: in plugstack.conf, then by variables, then by options. The last one counts.

use std::ffi::CStr;
use std::fmt;

/// Something that can be said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    /// Whether the plugin does anything.
    Enabled,
    /// How much NCCL logs.
    LogLevel,
    /// Whether logs go to a file per node and step.
    OutFile,
    /// The directory of these files.
    OutDir,
    /// Whether logs go to the output of the job.
    OutStdout,
}

impl Key {
    /// All of them; the place of each is the number of its option.
    pub const ALL: [Self; 5] = [Self::Enabled, Self::LogLevel, Self::OutFile, Self::OutDir, Self::OutStdout];

    /// As plugstack.conf writes it.
    #[must_use]
    pub const fn argument(self) -> &'static str {
        match self {
            Self::Enabled => "enabled",
            Self::LogLevel => "log-level",
            Self::OutFile => "out-file",
            Self::OutDir => "out-dir",
            Self::OutStdout => "out-stdout",
        }
    }

    /// The variable of the job.
    #[must_use]
    pub const fn variable(self) -> &'static CStr {
        match self {
            Self::Enabled => c"SNCCLD_ENABLED",
            Self::LogLevel => c"SNCCLD_LOG_LEVEL",
            Self::OutFile => c"SNCCLD_OUT_FILE",
            Self::OutDir => c"SNCCLD_OUT_DIR",
            Self::OutStdout => c"SNCCLD_OUT_STDOUT",
        }
    }

    /// The option, one word for its value, and a sentence.
    #[must_use]
    pub const fn option(self) -> (&'static CStr, &'static CStr, &'static CStr) {
        match self {
            Self::Enabled => (c"nccld-enabled", c"0|1", c"Collect the logs of NCCL"),
            Self::LogLevel => {
                (c"nccld-log-level", c"VERSION|WARN|INFO|TRACE", c"How much NCCL logs (NCCL_DEBUG)")
            }
            Self::OutFile => {
                (c"nccld-out-file", c"0|1", c"Write the logs of NCCL to a file per node and step")
            }
            Self::OutDir => (c"nccld-out-dir", c"DIRECTORY", c"Directory of the files of nccld-out-file"),
            Self::OutStdout => {
                (c"nccld-out-stdout", c"0|1", c"Write the logs of NCCL to the output of the job")
            }
        }
    }
}

/// How much NCCL logs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogLevel {
    /// Its version.
    Version,
    /// Warnings.
    Warn,
    /// What it does.
    Info,
    /// Everything.
    Trace,
}

impl LogLevel {
    /// As NCCL reads it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Version => "VERSION",
            Self::Warn => "WARN",
            Self::Info => "INFO",
            Self::Trace => "TRACE",
        }
    }
}

/// What is wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Whether the plugin does anything.
    pub enabled: bool,
    /// How much NCCL logs.
    pub log_level: LogLevel,
    /// Whether logs go to a file per node and step.
    pub out_file: bool,
    /// The directory of these files.
    pub out_dir: String,
    /// Whether logs go to the output of the job.
    pub out_stdout: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            enabled: false,
            log_level: LogLevel::Info,
            out_file: true,
            out_dir: "/opt/soperator-outputs/nccl_logs".into(),
            out_stdout: false,
        }
    }
}

/// Something that was said and means nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadSetting(String);

impl fmt::Display for BadSetting {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl Settings {
    /// Settings as the words of plugstack.conf say.
    ///
    /// # Errors
    ///
    /// A word is not `key=value` of a known key with a value that it takes.
    pub fn from_arguments(words: &[String]) -> Result<Self, BadSetting> {
        let mut settings = Self::default();
        for word in words {
            let (name, value) = word.split_once('=').unwrap_or((word, ""));
            let key = Key::ALL.into_iter().find(|key| key.argument() == name).ok_or_else(|| {
                let known = Key::ALL.map(Key::argument).join(", ");
                BadSetting(format!("plugstack.conf: {name} is not known; known are {known}"))
            })?;
            settings.say(key, name, value)?;
        }
        Ok(settings)
    }

    /// Changes one setting; `name` is how the user calls it.
    ///
    /// # Errors
    ///
    /// The setting does not take the value.
    pub fn say(&mut self, key: Key, name: &str, value: &str) -> Result<(), BadSetting> {
        match key {
            Key::Enabled => self.enabled = flag(name, value)?,
            Key::OutFile => self.out_file = flag(name, value)?,
            Key::OutStdout => self.out_stdout = flag(name, value)?,
            Key::LogLevel => {
                let levels = [LogLevel::Version, LogLevel::Warn, LogLevel::Info, LogLevel::Trace];
                let found = levels.into_iter().find(|level| level.as_str().eq_ignore_ascii_case(value));
                self.log_level = found.ok_or_else(|| {
                    BadSetting(format!("{name} is VERSION, WARN, INFO or TRACE, not `{value}`"))
                })?;
            }
            Key::OutDir if value.starts_with('/') => {
                self.out_dir = value.trim_end_matches('/').to_owned();
            }
            Key::OutDir => return Err(BadSetting(format!("{name} is an absolute path, not `{value}`"))),
        }
        Ok(())
    }
}

fn flag(name: &str, value: &str) -> Result<bool, BadSetting> {
    match value.to_ascii_lowercase().as_str() {
        "1" | "true" => Ok(true),
        "0" | "false" => Ok(false),
        _ => Err(BadSetting(format!("{name} is 0 or 1, not `{value}`"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn from(words: &str) -> Result<Settings, BadSetting> {
        Settings::from_arguments(&words.split_whitespace().map(String::from).collect::<Vec<_>>())
    }

    #[test]
    fn the_line_that_the_operator_writes_is_read() {
        let read = from("enabled=1 log-level=TRACE out-file=0 out-dir=/logs/ out-stdout=true").unwrap();
        let expected = Settings {
            enabled: true,
            log_level: LogLevel::Trace,
            out_file: false,
            out_dir: "/logs".into(),
            out_stdout: true,
        };
        assert_eq!(read, expected);
        assert_eq!(from("").unwrap(), Settings::default());
    }

    #[test]
    fn a_mistake_is_told_with_what_would_be_right() {
        for (words, told) in [
            ("enable=1", "known are enabled, log-level"),
            ("enabled=yes", "enabled is 0 or 1, not `yes`"),
            ("log-level=LOUD", "VERSION, WARN, INFO or TRACE"),
            ("out-dir=logs", "an absolute path"),
        ] {
            let error = from(words).unwrap_err().to_string();
            assert!(error.contains(told), "{words}: {error}");
        }
    }
}
