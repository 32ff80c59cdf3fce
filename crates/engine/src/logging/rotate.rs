//! A log file that is replaced when it grows too large. Replaced files keep the time in their name, and are removed when
//! they are too old or too many.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use jiff::{Timestamp, ToSpan as _};
use parking_lot::Mutex;

use super::RotatingFile;

/// How the time stands in the name of a replaced file: sorts by time, and no character troubles a file system.
const STAMP: &str = "%Y-%m-%dT%H-%M-%S%.3f";
/// Old files are looked for this often while lines come, and at each replacement.
const LOOK_EVERY_HOURS: i64 = 1;

pub(super) struct Rotating {
    options: RotatingFile,
    now: fn() -> Timestamp,
    state: Mutex<State>,
}

struct State {
    file: File,
    size: u64,
    next_look: Timestamp,
    /// Time and number in the name of the file that was replaced last.
    replaced: (Timestamp, u64),
    /// The last write failed, and standard error knows.
    failing: bool,
}

impl Rotating {
    /// Opens the file, after what is in it already.
    pub(super) fn open(options: RotatingFile, now: fn() -> Timestamp) -> io::Result<Self> {
        if let Some(folder) = options.path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            fs::create_dir_all(folder)?;
        }
        let file = append_to(&options.path)?;
        let size = file.metadata()?.len();
        let state =
            State { file, size, next_look: Timestamp::MIN, replaced: (Timestamp::MIN, 0), failing: false };
        Ok(Self { options, now, state: Mutex::new(state) })
    }

    fn write_line(&self, line: &[u8]) -> io::Result<()> {
        let mut state = self.state.lock();
        let now = (self.now)();
        let length = u64::try_from(line.len()).unwrap_or(u64::MAX);
        if state.size > 0 && state.size.saturating_add(length) > self.options.max_size {
            let first = if state.replaced.0 == now { state.replaced.1 + 1 } else { 0 };
            let (number, name) = self.free_name(now, first);
            fs::rename(&self.options.path, name)?;
            state.replaced = (now, number);
            state.file = append_to(&self.options.path)?;
            state.size = 0;
            state.next_look = now;
        }
        state.file.write_all(line)?;
        state.size += length;
        if now >= state.next_look {
            state.next_look = now.saturating_add(LOOK_EVERY_HOURS.hours()).unwrap_or(Timestamp::MAX);
            self.remove_old(now)?;
        }
        Ok(())
    }

    /// The name of a replaced file: `soperator-2026-11-16T03-52-10.000.log`, with a number if it is taken.
    fn free_name(&self, now: Timestamp, first: u64) -> (u64, PathBuf) {
        let stamp = now.strftime(STAMP);
        let (before, after) = self.around_stamp();
        let mut number = first;
        loop {
            let suffix = if number == 0 { String::new() } else { format!("-{number}") };
            let name = self.folder().join(format!("{before}{stamp}{suffix}{after}"));
            if !name.exists() {
                return (number, name);
            }
            number += 1;
        }
    }

    fn folder(&self) -> &Path {
        match self.options.path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        }
    }

    /// What stands before and after the time in the names of replaced files.
    fn around_stamp(&self) -> (String, String) {
        let text = |part: Option<&std::ffi::OsStr>| part.unwrap_or_default().to_string_lossy().into_owned();
        let extension = text(self.options.path.extension());
        let after = if extension.is_empty() { extension } else { format!(".{extension}") };
        (format!("{}-", text(self.options.path.file_stem())), after)
    }

    fn remove_old(&self, now: Timestamp) -> io::Result<()> {
        let (before, after) = self.around_stamp();
        let mut replaced: Vec<((Timestamp, u64), PathBuf)> = Vec::new();
        for entry in fs::read_dir(self.folder())? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let stamp =
                name.strip_prefix(&before).and_then(|rest| rest.strip_suffix(&after)).and_then(stamp_of);
            if let Some(stamp) = stamp {
                replaced.push((stamp, entry.path()));
            }
        }
        // Newest first; of one time, the higher number.
        replaced.sort_by(|a, b| b.cmp(a));
        for (index, ((stamp, _), path)) in replaced.iter().enumerate() {
            let too_many = self.options.max_backups > 0 && index >= self.options.max_backups;
            let age = now.duration_since(*stamp).unsigned_abs();
            let too_old = !self.options.max_age.0.is_zero() && *stamp < now && age > self.options.max_age.0;
            if too_many || too_old {
                fs::remove_file(path)?;
            }
        }
        Ok(())
    }
}

fn append_to(path: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).append(true).open(path)
}

/// The time and number in the name of a replaced file, if it is one of ours.
fn stamp_of(text: &str) -> Option<(Timestamp, u64)> {
    let length = "2026-11-16T03-52-10.000".len();
    let (stamp, number) = (text.get(..length)?, text.get(length..)?);
    let number = if number.is_empty() { 0 } else { number.strip_prefix('-')?.parse().ok()? };
    let time = jiff::civil::DateTime::strptime(STAMP, stamp).ok()?;
    Some((time.to_zoned(jiff::tz::TimeZone::UTC).ok()?.timestamp(), number))
}

impl Write for &Rotating {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let result = self.write_line(line);
        let mut state = self.state.lock();
        match &result {
            Ok(()) => state.failing = false,
            // A full disk must not stop the work; the first line of many says so.
            Err(error) if !state.failing => {
                state.failing = true;
                eprintln!("cannot log to {}: {error}", self.options.path.display());
            }
            Err(_) => {}
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::time::Duration;

    use super::*;
    use crate::settings::Time;

    thread_local! {
        static NOW: Cell<i64> = const { Cell::new(1_800_000_000) };
    }

    fn now() -> Timestamp {
        Timestamp::from_second(NOW.get()).unwrap()
    }

    fn pass(seconds: i64) {
        NOW.set(NOW.get() + seconds);
    }

    struct Case {
        folder: tempfile::TempDir,
        log: Rotating,
    }

    fn case(max_size: u64, max_age: u64, max_backups: usize) -> Case {
        let folder = tempfile::tempdir().unwrap();
        let options = RotatingFile {
            path: folder.path().join("s.log"),
            max_size,
            max_age: Time(Duration::from_secs(max_age)),
            max_backups,
        };
        Case { log: Rotating::open(options, now).unwrap(), folder }
    }

    impl Case {
        fn write(&self, line: &str) {
            (&self.log).write_all(line.as_bytes()).unwrap();
        }

        /// Every file and what is in it, sorted by name.
        fn files(&self) -> Vec<(String, String)> {
            let mut files: Vec<_> = fs::read_dir(self.folder.path())
                .unwrap()
                .map(|entry| entry.unwrap().path())
                .map(|path| {
                    let name = path.file_name().unwrap().to_string_lossy().into_owned();
                    (name, fs::read_to_string(path).unwrap())
                })
                .collect();
            files.sort();
            files
        }

        fn contents(&self) -> Vec<String> {
            self.files().into_iter().map(|(_, text)| text).collect()
        }
    }

    #[test]
    fn a_file_never_grows_beyond_its_size_and_no_line_is_lost_or_cut() {
        let case = case(10, 0, 0);
        let long = "a line longer than a file may be\n";
        for line in [long, "aaaa\n", "bbbb\n", "cccc\n", long, "dddd\n"] {
            case.write(line);
            pass(1);
        }
        assert_eq!(case.contents(), [long, "aaaa\nbbbb\n", "cccc\n", long, "dddd\n"], "{:?}", case.files());
        assert_eq!(case.files()[0].0, "s-2027-01-15T08-00-01.000.log");
    }

    #[test]
    fn only_the_newest_are_kept() {
        let case = case(5, 0, 2);
        for line in ["aaaa\n", "bbbb\n", "cccc\n", "dddd\n", "eeee\n"] {
            case.write(line);
            pass(1);
        }
        assert_eq!(case.contents(), ["cccc\n", "dddd\n", "eeee\n"]);
    }

    #[test]
    fn replacements_within_one_moment_do_not_overwrite_each_other() {
        let case = case(5, 0, 2);
        for line in ["aaaa\n", "bbbb\n", "cccc\n", "dddd\n", "eeee\n"] {
            case.write(line);
        }
        assert_eq!(case.contents(), ["cccc\n", "dddd\n", "eeee\n"], "{:?}", case.files());
    }

    #[test]
    fn old_ones_go_even_when_nothing_is_replaced() {
        let case = case(5, 3 * 3600, 0);
        case.write("aaaa\n");
        case.write("bbbb\n");
        pass(2 * 3600);
        case.write("c");
        assert_eq!(case.contents().len(), 3, "young enough: {:?}", case.files());
        pass(2 * 3600);
        fs::write(case.folder.path().join("s-notes.log"), "mine").unwrap();
        case.write("d");
        let names: Vec<String> = case.files().into_iter().map(|(name, _)| name).collect();
        assert_eq!(names.len(), 3, "the oldest is gone, other files stay: {names:?}");
        assert!(names.contains(&"s-notes.log".into()) && names.contains(&"s.log".into()), "{names:?}");
    }

    #[test]
    fn a_file_that_is_there_is_continued() {
        let first = case(10, 0, 0);
        first.write("aaaa\n");
        let again = Rotating::open(first.log.options.clone(), now).unwrap();
        (&again).write_all(b"bbbb\n").unwrap();
        (&again).write_all(b"cccc\n").unwrap();
        assert_eq!(first.contents(), ["aaaa\nbbbb\n", "cccc\n"]);
    }
}
