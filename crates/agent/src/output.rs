//! What daemons print: each line goes to our output with the daemon's name in front, and the last ones are kept.

use std::collections::VecDeque;
use std::io::{self, PipeWriter, Read, Write as _};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Longer lines are broken here.
const MAX_LINE: usize = 16 << 10;
/// How many lines are kept.
const KEPT: usize = 200;
/// How many lines tell what went wrong.
const WORDS: usize = 4;

/// Where a daemon prints to, through all its restarts: its orphans may hold the pipe longer than itself.
pub struct Output {
    pipe: PipeWriter,
    lines: Arc<Mutex<Lines>>,
}

#[derive(Default)]
struct Lines {
    kept: VecDeque<String>,
    /// How many lines there were in all.
    count: u64,
}

impl Lines {
    fn since(&self, mark: u64) -> impl Iterator<Item = &str> {
        let fresh = usize::try_from(self.count.saturating_sub(mark)).unwrap_or(KEPT).min(self.kept.len());
        self.kept.iter().skip(self.kept.len() - fresh).map(String::as_str)
    }
}

fn lock(lines: &Mutex<Lines>) -> MutexGuard<'_, Lines> {
    lines.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Output {
    /// Starts to read.
    pub fn new(name: &str) -> io::Result<Self> {
        let (reader, pipe) = io::pipe()?;
        let lines = Arc::new(Mutex::new(Lines::default()));
        let (name, kept) = (name.to_owned(), Arc::clone(&lines));
        std::thread::spawn(move || read(reader, |line| take(&name, line, &kept)));
        Ok(Self { pipe, lines })
    }

    /// The end to print to.
    pub fn pipe(&self) -> io::Result<PipeWriter> {
        self.pipe.try_clone()
    }

    /// How many lines there were until now; see [`Output::words_since`].
    pub fn mark(&self) -> u64 {
        lock(&self.lines).count
    }

    /// What the lines since a mark say about a failure.
    pub fn words_since(&self, mark: u64) -> String {
        let lines = lock(&self.lines);
        words(&lines.since(mark).collect::<Vec<_>>())
    }

    /// The last lines since a mark that are errors.
    pub fn complaint_since(&self, mark: u64) -> Option<String> {
        complaint(&lock(&self.lines).since(mark).collect::<Vec<_>>())
    }
}

/// The last error, with the one just before it: some daemons tell the cause first.
fn complaint(lines: &[&str]) -> Option<String> {
    let is_error = |line: &&&str| line.contains("error:") || line.contains("fatal:");
    let last = lines.iter().rposition(|line| is_error(&line))?;
    let before = lines.iter().take(last).next_back().filter(is_error);
    let shown: Vec<&str> = before.into_iter().chain(lines.get(last)).map(|line| without_time(line)).collect();
    Some(shown.join("\n"))
}

/// The lines that tell why a daemon ended: the fatal one, with what follows it and the errors just before; else the last.
fn words(lines: &[&str]) -> String {
    let lines: Vec<&str> = lines.iter().map(|line| without_time(line)).collect();
    let chosen = match lines.iter().rposition(|line| line.contains("fatal:")) {
        Some(fatal) => {
            let errors = lines[..fatal].iter().rev().take_while(|line| line.contains("error:")).count();
            &lines[fatal - errors.min(2)..]
        }
        None => &lines[lines.len().saturating_sub(WORDS)..],
    };
    let shown: Vec<&str> = chosen.iter().take(WORDS + 2).map(|line| line.trim()).collect();
    shown.join("\n")
}

/// A line without the time at its beginning, `[2026-01-02T03:04:05.678] `.
fn without_time(line: &str) -> &str {
    match line.strip_prefix('[').and_then(|rest| rest.split_once("] ")) {
        Some((time, rest)) if time.starts_with(|c: char| c.is_ascii_digit()) && time.contains('T') => rest,
        _ => line,
    }
}

fn take(name: &str, line: &str, lines: &Mutex<Lines>) {
    // Some daemons say their own name.
    let line = line.strip_prefix(name).and_then(|rest| rest.strip_prefix(": ")).unwrap_or(line);
    say(name, line);
    let mut lines = lock(lines);
    lines.count += 1;
    lines.kept.push_back(line.to_owned());
    if lines.kept.len() > KEPT {
        lines.kept.pop_front();
    }
}

/// Prints a line in the name of a daemon, or of the agent itself.
pub fn say(name: &str, text: &str) {
    let lines: String = text.split('\n').map(|line| format!("{name}: {line}\n")).collect();
    // One write, so that lines of several daemons do not mix. Nobody is there to be told when it fails.
    let _ = io::stdout().lock().write_all(lines.as_bytes());
}

/// Cuts a stream into lines.
fn read(mut from: impl Read, mut each: impl FnMut(&str)) {
    let mut buffer = Vec::new();
    let mut chunk = [0_u8; 4096];
    loop {
        let read = match from.read(&mut chunk) {
            Ok(0) => break,
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(_) => break,
        };
        for byte in chunk.iter().take(read) {
            if *byte == b'\n' || buffer.len() >= MAX_LINE {
                each(String::from_utf8_lossy(&buffer).trim_end_matches('\r'));
                buffer.clear();
            }
            if *byte != b'\n' {
                buffer.push(*byte);
            }
        }
    }
    if !buffer.is_empty() {
        each(&String::from_utf8_lossy(&buffer));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_becomes_lines_also_its_end_and_what_is_too_long() {
        let mut lines = Vec::new();
        let long = "x".repeat(MAX_LINE + 5);
        read(format!("a\r\n\n{long}\nb").as_bytes(), |line| lines.push(line.to_owned()));
        assert_eq!(lines.iter().map(String::len).collect::<Vec<_>>(), [1, 0, MAX_LINE, 5, 1]);
        assert_eq!((lines[0].as_str(), lines[4].as_str()), ("a", "b"));
    }

    #[test]
    fn the_words_about_a_failure_are_the_fatal_line_and_its_errors() {
        let of_24 = [
            "error: Configured MailProg is invalid",
            "slurmctld version",
            "error: MaxJobCount value (abc) is not a valid number",
            "fatal: Unable to process configuration file",
        ];
        assert_eq!(
            words(&of_24),
            "error: MaxJobCount value (abc) is not a valid number\nfatal: Unable to process configuration file"
        );
        let of_26 = ["[2026-11-16T06:21:18.981] error: bad", "[2026-11-16T06:21:18.981] fatal: worse"];
        assert_eq!(words(&of_26), "error: bad\nfatal: worse");
        assert_eq!(words(&["1", "2", "3", "4", "5"]), "2\n3\n4\n5");
        assert_eq!(words(&[]), "");
    }

    #[test]
    fn a_complaint_is_the_last_error_and_its_cause() {
        let lines =
            ["error: old", "started", "[2026-11-16T06:21:18.981] error: denied", "error: trying again", "x"];
        assert_eq!(complaint(&lines).as_deref(), Some("error: denied\nerror: trying again"));
        assert_eq!(complaint(&["a", "error: b"]).as_deref(), Some("error: b"));
        assert_eq!(complaint(&["a", "b"]), None);
    }
}
