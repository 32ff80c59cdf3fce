//! What a long build shows: live lines on a terminal, plain lines elsewhere.

use std::io::IsTerminal as _;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};

/// How often a part that runs long says so where there is no terminal.
const HEARTBEAT: Duration = Duration::from_secs(30);

/// The display of one build of several parts.
pub struct Progress {
    display: Option<MultiProgress>,
    total: Option<ProgressBar>,
    parts: Mutex<Vec<Finished>>,
    started: Instant,
}

/// How one part ended.
struct Finished {
    name: String,
    outcome: &'static str,
    took: Duration,
}

/// The line of one part.
pub struct Line {
    name: String,
    bar: Option<ProgressBar>,
    started: Instant,
    last_said: Mutex<Option<Instant>>,
}

impl Progress {
    /// A display for `count` parts.
    pub fn new(count: usize) -> Self {
        let display = std::io::stderr().is_terminal().then(MultiProgress::new);
        let total = display.as_ref().map(|display| {
            let bar = display.add(ProgressBar::new(count as u64));
            bar.set_style(style("{pos}/{len} parts done, {msg} {elapsed}"));
            bar.enable_steady_tick(Duration::from_millis(500));
            bar
        });
        Self { display, total, parts: Mutex::default(), started: Instant::now() }
    }

    /// Says which parts are still to do.
    pub fn left(&self, names: &[String]) {
        let text = if names.is_empty() { String::new() } else { format!("left: {};", names.join(", ")) };
        match &self.total {
            Some(bar) => bar.set_message(text),
            None if names.is_empty() => {}
            None => eprintln!("rig build: {text}"),
        }
    }

    /// Begins a part.
    pub fn begin(&self, name: &str) -> Line {
        let bar = self.display.as_ref().map(|display| {
            let bar = display.insert_from_back(1, ProgressBar::new_spinner());
            bar.set_style(style("{spinner} {prefix:14} {elapsed:>4} {wide_msg}"));
            bar.set_prefix(name.to_string());
            bar.enable_steady_tick(Duration::from_millis(200));
            bar
        });
        if bar.is_none() {
            eprintln!("rig build: {name}: begins");
        }
        Line { name: name.to_string(), bar, started: Instant::now(), last_said: Mutex::new(None) }
    }

    /// Ends a part.
    pub fn end(&self, line: Line, outcome: &'static str) {
        let took = line.started.elapsed();
        let text = format!("{:14} {outcome} {:.1} s", line.name, took.as_secs_f64());
        match (&self.display, line.bar) {
            (Some(display), Some(bar)) => {
                bar.finish_and_clear();
                // A line above the bars; without a terminal there are no bars.
                let _ = display.println(text);
            }
            _ => eprintln!("rig build: {text}"),
        }
        if let Some(total) = &self.total {
            total.inc(1);
        }
        let mut parts = self.parts.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        parts.push(Finished { name: line.name, outcome, took });
    }

    /// How long each part took, as a table.
    pub fn summary(self) -> String {
        if let Some(total) = &self.total {
            total.finish_and_clear();
        }
        let parts = self.parts.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
        let mut text = String::new();
        for part in &parts {
            text.push_str(&format!(
                "  {:20} {:>8.1} s  {}\n",
                part.name,
                part.took.as_secs_f64(),
                part.outcome
            ));
        }
        text.push_str(&format!(
            "  {:20} {:>8.1} s",
            "all, side by side",
            self.started.elapsed().as_secs_f64()
        ));
        text
    }
}

impl Line {
    /// Shows what the part is doing now.
    pub fn say(&self, text: &str) {
        match &self.bar {
            Some(bar) => bar.set_message(text.to_string()),
            None => {
                let mut last = self.last_said.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                // The first message always: it tells of a damaged entry, or of another build that it waits for.
                if last.is_none_or(|last| last.elapsed() >= HEARTBEAT) {
                    *last = Some(Instant::now());
                    eprintln!(
                        "rig build: {}: {:.0} s: {text}",
                        self.name,
                        self.started.elapsed().as_secs_f64()
                    );
                }
            }
        }
    }

    /// Tells something that must not scroll away, such as a difference of packages.
    pub fn tell(&self, text: &str) {
        match &self.bar {
            Some(bar) => bar.println(text),
            None => eprintln!("{text}"),
        }
    }
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_spinner())
}
