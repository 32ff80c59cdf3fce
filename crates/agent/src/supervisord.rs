//! A user's supervisord.conf: which programs to run, and how. What we do not support is reported, never passed over.

use std::collections::BTreeMap;
use std::time::Duration;

use nix::sys::signal::Signal;

use crate::expand::expand;

/// What a supervisord.conf asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Supervisord {
    /// Its programs, in the order in which they start.
    pub programs: Vec<Program>,
    /// What means nothing here, e.g. `program:a: numprocs`.
    pub unsupported: Vec<String>,
}

/// When a program that ended is started again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Restart {
    /// Always.
    Always,
    /// When its exit code is none of those expected.
    Unexpected,
    /// Never.
    Never,
}

/// A program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// Its name.
    pub name: String,
    /// The command, cut into words without a shell.
    pub command: Vec<String>,
    /// Whether it starts by itself.
    pub autostart: bool,
    /// Whether it starts again.
    pub autorestart: Restart,
    /// Exit codes that are expected.
    pub exit_codes: Vec<i32>,
    /// How often a start is tried again that fails at once.
    pub start_retries: u32,
    /// How long it must run for its start to have worked.
    pub start_time: Duration,
    /// More variables.
    pub environment: BTreeMap<String, String>,
    /// Where it runs.
    pub directory: Option<String>,
    /// As whom.
    pub user: Option<String>,
    /// How it is asked to stop.
    pub stop_signal: Signal,
    /// How long it may take to stop.
    pub stop_wait: Duration,
    /// Small ones start first.
    pub priority: i32,
}

impl Program {
    fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            command: Vec::new(),
            autostart: true,
            autorestart: Restart::Unexpected,
            exit_codes: vec![0],
            start_retries: 3,
            start_time: Duration::from_secs(1),
            environment: BTreeMap::new(),
            directory: None,
            user: None,
            stop_signal: Signal::SIGTERM,
            stop_wait: Duration::from_secs(10),
            priority: 999,
        }
    }

    /// Whether an end of this kind is followed by another start.
    pub fn restarts_after(&self, code: Option<i32>) -> bool {
        match self.autorestart {
            Restart::Always => true,
            Restart::Unexpected => code.is_none_or(|code| !self.exit_codes.contains(&code)),
            Restart::Never => false,
        }
    }

    /// Sets a key; says whether it is one that we know, or what is wrong with its value.
    fn set(&mut self, key: &str, value: &str, get: &dyn Fn(&str) -> Option<String>) -> Result<bool, String> {
        let seconds = |value: &str| {
            value.parse().map(Duration::from_secs).map_err(|_| format!("{value:?} is no number of seconds"))
        };
        match key {
            "command" => self.command = words(&percent(value, get))?,
            "autostart" => self.autostart = boolean(value)?,
            "autorestart" => {
                self.autorestart = match value.to_ascii_lowercase().as_str() {
                    "unexpected" => Restart::Unexpected,
                    other if boolean(other)? => Restart::Always,
                    _ => Restart::Never,
                }
            }
            "exitcodes" => {
                let codes: Result<_, _> = value.split(',').map(|code| code.trim().parse()).collect();
                self.exit_codes = codes.map_err(|_| format!("{value:?} is no list of exit codes"))?;
            }
            "startretries" => {
                self.start_retries = value.parse().map_err(|_| format!("{value:?} is no number"))?;
            }
            "startsecs" => self.start_time = seconds(value)?,
            "stopwaitsecs" => self.stop_wait = seconds(value)?,
            "environment" => self.environment = environment(&percent(value, get))?,
            "directory" => self.directory = Some(percent(value, get)),
            "user" => self.user = Some(value.to_owned()),
            "stopsignal" => self.stop_signal = signal(value)?,
            "priority" => self.priority = value.parse().map_err(|_| format!("{value:?} is no number"))?,
            // All output goes to the container's log; the rest is what we do anyway.
            "stdout_logfile" | "stderr_logfile" => return Ok(is_container_log(value)),
            "redirect_stderr"
            | "stdout_logfile_maxbytes"
            | "stderr_logfile_maxbytes"
            | "stdout_logfile_backups"
            | "stderr_logfile_backups" => {}
            "numprocs" => return Ok(value == "1"),
            _ => return Ok(false),
        }
        Ok(true)
    }
}

fn is_container_log(value: &str) -> bool {
    [
        "/dev/stdout",
        "/dev/stderr",
        "/dev/fd/1",
        "/dev/fd/2",
        "/proc/1/fd/1",
        "/proc/1/fd/2",
        "/proc/self/fd/1",
        "/proc/self/fd/2",
        "NONE",
        "AUTO",
        "/dev/null",
    ]
    .iter()
    .any(|known| known.eq_ignore_ascii_case(value))
}

/// Sections about supervisord itself, which we are in place of. Of their keys only those that ask for nothing are known.
const HARMLESS: [(&str, &[&str]); 4] = [
    (
        "supervisord",
        &[
            "nodaemon",
            "logfile",
            "logfile_maxbytes",
            "logfile_backups",
            "loglevel",
            "pidfile",
            "user",
            "childlogdir",
            "silent",
            "minfds",
            "minprocs",
        ],
    ),
    ("supervisorctl", &["serverurl", "prompt"]),
    ("unix_http_server", &["file", "chmod"]),
    ("rpcinterface:supervisor", &["supervisor.rpcinterface_factory"]),
];

/// Reads a supervisord.conf. `get` gives variables, for `%(ENV_NAME)s`.
pub fn parse(text: &str, get: &dyn Fn(&str) -> Option<String>) -> Supervisord {
    let mut result = Supervisord::default();
    for (section, pairs) in sections(text) {
        if let Some(name) = section.strip_prefix("program:") {
            let mut program = Program::new(name.trim());
            for (key, value) in &pairs {
                match program.set(key, value, get) {
                    Ok(true) => {}
                    Ok(false) => result.unsupported.push(format!("{section}: {key}")),
                    Err(error) => result.unsupported.push(format!("{section}: {key}: {error}")),
                }
            }
            if program.command.is_empty() {
                result.unsupported.push(format!("{section}: there is no command"));
            } else {
                result.programs.push(program);
            }
            continue;
        }
        match HARMLESS.iter().find(|(known, _)| *known == section) {
            Some((_, known)) => {
                let unknown = pairs.iter().filter(|(key, _)| !known.contains(&key.as_str()));
                result.unsupported.extend(unknown.map(|(key, _)| format!("{section}: {key}")));
            }
            None => result.unsupported.push(section),
        }
    }
    result.programs.sort_by(|a, b| (a.priority, &a.name).cmp(&(b.priority, &b.name)));
    result
}

type Pairs = Vec<(String, String)>;

/// Sections with their pairs. A line that begins with a blank continues the one before; `;` and `#` begin comments.
fn sections(text: &str) -> Vec<(String, Pairs)> {
    let mut sections: Vec<(String, Pairs)> = Vec::new();
    for line in text.lines() {
        let bare = without_comment(line);
        let continues = line.starts_with([' ', '\t']);
        if bare.trim().is_empty() || line.starts_with(['#', ';']) {
            continue;
        }
        if let Some(name) = bare.trim().strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            sections.push((name.trim().to_owned(), Vec::new()));
            continue;
        }
        let Some((_, pairs)) = sections.last_mut() else { continue };
        match (continues, pairs.last_mut()) {
            (true, Some((_, value))) => {
                value.push(' ');
                value.push_str(bare.trim());
            }
            _ => {
                let (key, value) = bare.split_once(['=', ':']).unwrap_or((bare, ""));
                pairs.push((key.trim().to_ascii_lowercase(), value.trim().to_owned()));
            }
        }
    }
    sections
}

/// A `;` after a blank begins a comment.
fn without_comment(line: &str) -> &str {
    let comment = line.find(" ;").or_else(|| line.find("\t;"));
    comment.map_or(line, |at| line.split_at(at).0)
}

/// `%(ENV_NAME)s` and `%%`, as supervisord has them.
fn percent(value: &str, get: &dyn Fn(&str) -> Option<String>) -> String {
    // Its own variables in our spelling; a dollar of the user's stays one.
    let mut result = String::new();
    let mut rest = value;
    while let Some(at) = rest.find('%') {
        let (before, from) = rest.split_at(at);
        result.push_str(before);
        if let Some(after) = from.strip_prefix("%%") {
            result.push('%');
            rest = after;
        } else if let Some((name, after)) = from.strip_prefix("%(ENV_").and_then(|name| name.split_once(")s"))
        {
            result.push_str(&expand(&format!("${{{name}}}"), get));
            rest = after;
        } else {
            result.push('%');
            rest = from.get(1..).unwrap_or_default();
        }
    }
    result.push_str(rest);
    result
}

fn boolean(value: &str) -> Result<bool, String> {
    match value.to_ascii_lowercase().as_str() {
        "true" | "yes" | "on" | "1" => Ok(true),
        "false" | "no" | "off" | "0" => Ok(false),
        _ => Err(format!("{value:?} is neither true nor false")),
    }
}

fn signal(value: &str) -> Result<Signal, String> {
    let name = value.trim().to_ascii_uppercase();
    let name = if name.starts_with("SIG") { name } else { format!("SIG{name}") };
    name.parse().map_err(|_| format!("there is no signal {value}"))
}

/// `A="1",B=2`.
fn environment(value: &str) -> Result<BTreeMap<String, String>, String> {
    let mut variables = BTreeMap::new();
    let mut rest = value.trim();
    while !rest.is_empty() {
        let (name, after) = rest.split_once('=').ok_or_else(|| format!("{rest:?} is no KEY=value"))?;
        let after = after.trim_start();
        let quote = after.chars().next().filter(|c| matches!(c, '"' | '\''));
        let (value, left) = match quote {
            Some(quote) => after
                .get(1..)
                .and_then(|inner| inner.split_once(quote))
                .ok_or_else(|| format!("a {quote} is missing in {after:?}"))?,
            None => {
                after.split_once(',').map_or((after, ""), |(value, _)| (value, after.split_at(value.len()).1))
            }
        };
        variables.insert(name.trim().to_owned(), value.trim_end().to_owned());
        rest = left.trim_start().strip_prefix(',').unwrap_or(left).trim_start();
        if !left.trim_start().is_empty() && !left.trim_start().starts_with(',') {
            return Err(format!("a comma is missing before {left:?}"));
        }
    }
    Ok(variables)
}

/// Cuts a command into words as a shell does, without being one: quotes and `\`, no variables, no patterns.
pub fn words(command: &str) -> Result<Vec<String>, String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut characters = command.chars();
    while let Some(c) = characters.next() {
        match c {
            ' ' | '\t' | '\n' => words.extend(word.take()),
            '\'' | '"' => {
                let word = word.get_or_insert_default();
                loop {
                    match characters.next() {
                        None => return Err(format!("a {c} is missing")),
                        Some(end) if end == c => break,
                        Some('\\') if c == '"' => match characters.next() {
                            Some(escaped @ ('"' | '\\' | '$' | '`')) => word.push(escaped),
                            Some(other) => word.extend(['\\', other]),
                            None => return Err("a \" is missing".into()),
                        },
                        Some(other) => word.push(other),
                    }
                }
            }
            '\\' => word.get_or_insert_default().extend(characters.next()),
            other => word.get_or_insert_default().push(other),
        }
    }
    words.extend(word);
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Supervisord {
        super::parse(text, &|name| (name == "HOME").then(|| "/root".to_owned()))
    }

    /// The shape of the file that the original makes.
    const USUAL: &str = "\
[supervisord]
nodaemon=true
logfile=/dev/null ; not needed
logfile_maxbytes=0

[program:sshd]
priority=10
command=/usr/sbin/sshd -D -e -f /mnt/ssh-configs/sshd_config
autostart=true
autorestart=true
stdout_logfile=/dev/fd/1
stdout_logfile_maxbytes=0

[program:slurmd]
priority=1
command=/opt/bin/slurm/slurmd_entrypoint.sh
stopwaitsecs=10
stopsignal=TERM
";

    #[test]
    fn the_usual_file_is_understood_whole_and_starts_slurmd_first() {
        let conf = parse(USUAL);
        assert_eq!(conf.unsupported, Vec::<String>::new());
        let names: Vec<&str> = conf.programs.iter().map(|program| program.name.as_str()).collect();
        assert_eq!(names, ["slurmd", "sshd"]);
        assert_eq!(conf.programs[1].autorestart, Restart::Always);
        assert_eq!(conf.programs[1].command[3..], ["-f", "/mnt/ssh-configs/sshd_config"]);
    }

    #[test]
    fn everything_about_a_program_is_read() {
        let conf = parse(
            "[program:a]\ncommand=/bin/sh -c \"echo 'x y';ls\" \\\"q ; why\nautostart=no\nautorestart=unexpected\n\
             exitcodes=0,2\nstartretries=7\nstartsecs=0\nenvironment=A=\"1,2\",B=%(ENV_HOME)s/b , C='%%'\n\
             directory=/tmp\nuser=nobody\nstopsignal=INT\nstopwaitsecs=3\n",
        );
        assert_eq!(conf.unsupported, Vec::<String>::new());
        let a = &conf.programs[0];
        assert_eq!(a.command, ["/bin/sh", "-c", "echo 'x y';ls", "\"q"]);
        assert!(!a.autostart);
        assert!(!a.restarts_after(Some(2)));
        assert!(a.restarts_after(Some(1)) && a.restarts_after(None));
        assert_eq!((a.start_retries, a.start_time, a.stop_wait), (7, Duration::ZERO, Duration::from_secs(3)));
        let environment: Vec<String> =
            a.environment.iter().map(|(key, value)| format!("{key}={value}")).collect();
        assert_eq!(environment, ["A=1,2", "B=/root/b", "C=%"]);
        assert_eq!((a.directory.as_deref(), a.user.as_deref()), (Some("/tmp"), Some("nobody")));
        assert_eq!(a.stop_signal, Signal::SIGINT);
    }

    #[test]
    fn what_is_not_supported_is_told() {
        let conf = parse(
            "[eventlistener:x]\ncommand=a\n[inet_http_server]\nport=9001\n[supervisord]\nnocleanup=true\n\
             [program:b]\ncommand=b\nstdout_logfile=/var/log/b\nnumprocs=3\nstopsignal=NOPE\nstopasgroup=true\n[program:c]\n",
        );
        assert_eq!(
            conf.unsupported,
            [
                "eventlistener:x",
                "inet_http_server",
                "supervisord: nocleanup",
                "program:b: stdout_logfile",
                "program:b: numprocs",
                "program:b: stopsignal: there is no signal NOPE",
                "program:b: stopasgroup",
                "program:c: there is no command",
            ]
        );
        assert_eq!(conf.programs.len(), 1, "the rest of b is run");
    }

    #[test]
    fn a_line_that_begins_with_a_blank_continues_the_one_before() {
        let conf = parse("[program:a]\ncommand=/bin/a\n  --one\n\t--two\nenvironment=\n    A=1,\n    B=2\n");
        assert_eq!(conf.programs[0].command, ["/bin/a", "--one", "--two"]);
        assert_eq!(conf.programs[0].environment.len(), 2);
    }

    #[test]
    fn words_are_cut_without_a_shell() {
        assert_eq!(
            words("a 'b c' \"d \\\" e\"f g\\ h '' $X *").unwrap(),
            ["a", "b c", "d \" ef", "g h", "", "$X", "*"]
        );
        assert!(words("a 'b").is_err());
        assert!(words("a \"b").is_err());
    }
}
