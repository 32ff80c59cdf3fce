//! What was measured, against its limits.

use std::fmt::Display;
use std::time::Duration;

/// Prints figures as they come, and notes which are over their limits.
#[derive(Debug, Default)]
pub struct Report {
    over: Vec<String>,
}

impl Report {
    /// The title of a part.
    pub fn part(&self, title: &str) {
        println!("\n{title}");
    }

    /// A figure without a limit.
    pub fn note(&self, text: impl Display) {
        println!("        {text}");
    }

    /// A figure that must not be larger than its limit.
    pub fn at_most(&mut self, what: &str, value: f64, limit: f64, unit: &str) {
        self.judge(value <= limit, what, value, &format!("at most {limit}"), unit);
    }

    /// A figure that must not be smaller than its limit.
    pub fn at_least(&mut self, what: &str, value: f64, limit: f64, unit: &str) {
        self.judge(value >= limit, what, value, &format!("at least {limit}"), unit);
    }

    fn judge(&mut self, good: bool, what: &str, value: f64, limit: &str, unit: &str) {
        let verdict = if good { "PASS" } else { "over" };
        // Counts have no digits behind the point.
        let value = if value.fract() == 0.0 { format!("{value}") } else { format!("{value:.2}") };
        println!("  {verdict}  {what}: {value} {unit} ({limit})");
        if !good {
            self.over.push(what.to_owned());
        }
    }

    /// Says which limits were missed. Returns whether none was.
    pub fn end(&self) -> bool {
        if !self.over.is_empty() {
            println!("\nover their limits: {}", self.over.join("; "));
        }
        self.over.is_empty()
    }
}

/// Objects per second.
pub fn rate(count: usize, time: Duration) -> f64 {
    count as f64 / time.as_secs_f64().max(1e-9)
}

/// The smallest value, the one in the middle, and the largest.
pub fn spread(mut values: Vec<Duration>) -> (Duration, Duration, Duration) {
    values.sort();
    let at = |place: usize| values.get(place).copied().unwrap_or_default();
    (at(0), at(values.len() / 2), at(values.len().saturating_sub(1)))
}
