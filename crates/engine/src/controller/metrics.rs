//! What each controller tells about its work.

use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

/// Metrics of all controllers of a process.
#[derive(Clone, Debug)]
pub struct ReconcileMetrics {
    results: Family<ResultLabels, Counter>,
    durations: Family<ControllerLabel, Histogram, fn() -> Histogram>,
    delays: Family<ControllerLabel, Histogram, fn() -> Histogram>,
    waiting: Family<ControllerLabel, Gauge>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ResultLabels {
    controller: &'static str,
    /// `ok`, or the category of the error.
    result: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ControllerLabel {
    controller: &'static str,
}

fn seconds() -> Histogram {
    Histogram::new(exponential_buckets(0.001, 4.0, 9))
}

impl Default for ReconcileMetrics {
    fn default() -> Self {
        Self {
            results: Family::default(),
            durations: Family::new_with_constructor(seconds),
            delays: Family::new_with_constructor(seconds),
            waiting: Family::default(),
        }
    }
}

impl ReconcileMetrics {
    /// Makes the metrics part of what `/metrics` shows.
    pub fn register(&self, registry: &mut Registry) {
        registry.register("reconciles", "Reconciles by result", self.results.clone());
        registry.register("reconcile_duration_seconds", "How long reconciles take", self.durations.clone());
        registry.register("reconcile_delay_seconds", "From due to started", self.delays.clone());
        registry.register("reconcile_queue_length", "Keys that wait for their time", self.waiting.clone());
    }

    pub(super) fn started(&self, controller: &'static str, delay: Duration, waiting: usize) {
        let label = ControllerLabel { controller };
        self.delays.get_or_create(&label).observe(delay.as_secs_f64());
        self.waiting.get_or_create(&label).set(i64::try_from(waiting).unwrap_or(i64::MAX));
    }

    pub(super) fn ended(&self, controller: &'static str, result: &'static str, took: Duration) {
        self.results.get_or_create(&ResultLabels { controller, result }).inc();
        self.durations.get_or_create(&ControllerLabel { controller }).observe(took.as_secs_f64());
    }
}
