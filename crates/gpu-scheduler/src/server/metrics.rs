//! Metrics: by kube-scheduler's names where the meaning is the same, and of the ledger.

use std::sync::Arc;
use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

use crate::core::{Core, DEVICE_CONFLICT};

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ResultLabels {
    result: &'static str,
    profile: Arc<str>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct QueueLabels {
    queue: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct IncomingLabels {
    queue: &'static str,
    event: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct PluginLabels {
    plugin: &'static str,
    profile: Arc<str>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct AttemptLabels {
    attempts: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct TypeLabels {
    r#type: &'static str,
}

fn micros() -> Histogram {
    Histogram::new(exponential_buckets(0.000_001, 4.0, 10))
}

fn seconds() -> Histogram {
    Histogram::new(exponential_buckets(0.001, 2.0, 15))
}

/// What the scheduler counts. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Metrics {
    profile: Arc<str>,
    attempts: Family<ResultLabels, Counter>,
    attempt_time: Family<ResultLabels, Histogram, fn() -> Histogram>,
    algorithm_time: Histogram,
    sli: Family<AttemptLabels, Histogram, fn() -> Histogram>,
    attempts_of_pod: Histogram,
    pending: Family<QueueLabels, Gauge>,
    incoming: Family<IncomingLabels, Counter>,
    unschedulable: Family<PluginLabels, Counter>,
    unschedulable_pods: Family<PluginLabels, Gauge>,
    conflicts: Counter,
    cache: Family<TypeLabels, Gauge>,
    devices: Gauge,
    overbooked: Gauge,
    in_flight: Gauge,
    limit: Gauge,
    events_dropped: Counter,
}

impl Metrics {
    /// The metrics of the scheduler of this name.
    pub fn new(profile: &str) -> Self {
        Self {
            profile: profile.into(),
            attempts: Family::default(),
            attempt_time: Family::new_with_constructor(seconds),
            algorithm_time: micros(),
            sli: Family::new_with_constructor(seconds),
            attempts_of_pod: Histogram::new([1.0, 2.0, 4.0, 8.0, 16.0]),
            pending: Family::default(),
            incoming: Family::default(),
            unschedulable: Family::default(),
            unschedulable_pods: Family::default(),
            conflicts: Counter::default(),
            cache: Family::default(),
            devices: Gauge::default(),
            overbooked: Gauge::default(),
            in_flight: Gauge::default(),
            limit: Gauge::default(),
            events_dropped: Counter::default(),
        }
    }

    /// Makes the metrics part of what `/metrics` shows.
    pub fn register(&self, registry: &mut Registry) {
        let all = &mut *registry;
        all.register(
            "scheduler_schedule_attempts",
            "Attempts to schedule pods, by result",
            self.attempts.clone(),
        );
        all.register(
            "scheduler_scheduling_attempt_duration_seconds",
            "From a decision to its bind, or to the word that there is no place",
            self.attempt_time.clone(),
        );
        all.register(
            "scheduler_scheduling_algorithm_duration_seconds",
            "How long a decision takes",
            self.algorithm_time.clone(),
        );
        all.register(
            "scheduler_pod_scheduling_sli_duration_seconds",
            "From when a pod was first seen to its bind",
            self.sli.clone(),
        );
        all.register(
            "scheduler_pod_scheduling_attempts",
            "Attempts until a pod was bound",
            self.attempts_of_pod.clone(),
        );
        all.register("scheduler_pending_pods", "Pods that wait, by queue", self.pending.clone());
        all.register(
            "scheduler_unschedulable_attempts",
            "Attempts that found no place, by the filter that said no",
            self.unschedulable.clone(),
        );
        all.register(
            "scheduler_queue_incoming_pods",
            "Pods that came into a queue, by queue and by what brought them there",
            self.incoming.clone(),
        );
        all.register(
            "scheduler_unschedulable_pods",
            "Pods that wait, by the filter that said no",
            self.unschedulable_pods.clone(),
        );
        all.register(
            "gpu_scheduler_device_conflicts",
            "Attempts that found a device in the hands of another pod",
            self.conflicts.clone(),
        );
        all.register(
            "scheduler_cache_size",
            "Pods, nodes and assumed pods that are known",
            self.cache.clone(),
        );
        all.register("gpu_scheduler_devices_held", "Devices that a pod has", self.devices.clone());
        all.register(
            "gpu_scheduler_devices_overbooked",
            "Devices with more owners than these allow, which others than this scheduler brought about",
            self.overbooked.clone(),
        );
        all.register("gpu_scheduler_binds_in_flight", "Binds under way", self.in_flight.clone());
        all.register("gpu_scheduler_binds_limit", "How many binds may be under way", self.limit.clone());
        all.register(
            "gpu_scheduler_events_dropped",
            "Events for users that were not sent",
            self.events_dropped.clone(),
        );
    }

    fn result(&self, result: &'static str) -> ResultLabels {
        ResultLabels { result, profile: Arc::clone(&self.profile) }
    }

    pub(super) fn decided(&self, took: Duration) {
        self.algorithm_time.observe(took.as_secs_f64());
    }

    pub(super) fn attempted(&self, result: &'static str, took: Duration) {
        self.attempts.get_or_create(&self.result(result)).inc();
        self.attempt_time.get_or_create(&self.result(result)).observe(took.as_secs_f64());
    }

    pub(super) fn refused(&self, plugins: &[&'static str], took: Duration) {
        self.attempted("unschedulable", took);
        for plugin in plugins {
            self.unschedulable.get_or_create(&self.plugin(plugin)).inc();
        }
        if plugins.contains(&DEVICE_CONFLICT) {
            self.conflicts.inc();
        }
    }

    fn plugin(&self, plugin: &'static str) -> PluginLabels {
        PluginLabels { plugin, profile: Arc::clone(&self.profile) }
    }

    pub(super) fn bound(&self, took: Duration, attempts: u32, since_seen: Duration) {
        self.attempted("scheduled", took);
        self.attempts_of_pod.observe(f64::from(attempts));
        let attempts = match attempts {
            0 | 1 => "1",
            2 => "2",
            3 => "3",
            4 => "4",
            _ => "5+",
        };
        self.sli.get_or_create(&AttemptLabels { attempts }).observe(since_seen.as_secs_f64());
    }

    pub(super) fn event_dropped(&self) {
        self.events_dropped.inc();
    }

    /// How many events were not sent.
    pub fn events_dropped(&self) -> u64 {
        self.events_dropped.get()
    }

    pub(super) fn show(&self, core: &Core, in_flight: usize, limit: usize) {
        let number = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
        let counts = core.counts();
        for (queue, count) in [
            ("active", counts.active),
            ("backoff", counts.backoff),
            ("unschedulable", counts.unschedulable),
            ("gated", core.gated()),
        ] {
            self.pending.get_or_create(&QueueLabels { queue }).set(number(count));
        }
        for ((queue, event), count) in core.incoming() {
            let counter = self.incoming.get_or_create_owned(&IncomingLabels { queue, event });
            counter.inc_by(count.saturating_sub(counter.get()));
        }
        for (plugin, count) in core.refused() {
            self.unschedulable_pods.get_or_create(&self.plugin(plugin)).set(number(*count));
        }
        let (pods, nodes, assumed) = core.sizes();
        for (r#type, count) in [("pods", pods), ("nodes", nodes), ("assumed_pods", assumed)] {
            self.cache.get_or_create(&TypeLabels { r#type }).set(number(count));
        }
        self.in_flight.set(number(in_flight));
        self.limit.set(number(limit));
    }

    pub(super) fn show_ledger(&self, core: &Core) {
        let number = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
        self.devices.set(number(core.ledger().len()));
        self.overbooked.set(number(core.ledger().overbooked().count()));
    }
}
