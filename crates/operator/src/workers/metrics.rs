//! What is counted of sets of workers.

use std::collections::HashMap;
use std::sync::Arc;

use engine::Key;
use nodeset::{Plan, UnixTime};
use parking_lot::Mutex;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

/// Metrics of the sets of workers of both APIs. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct WorkerMetrics {
    planned: Family<ActionLabels, Counter>,
    waiting: Family<ControllerLabel, Gauge>,
    oldest: Family<ControllerLabel, Gauge>,
    protected: Family<ControllerLabel, Gauge>,
    sets: Arc<Mutex<HashMap<(&'static str, Key), Figures>>>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ActionLabels {
    controller: &'static str,
    action: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ControllerLabel {
    controller: &'static str,
}

/// How one set stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Figures {
    waiting: i64,
    oldest: Option<UnixTime>,
    protected: i64,
}

impl WorkerMetrics {
    /// Makes the metrics part of what `/metrics` shows.
    pub fn register(&self, registry: &mut Registry) {
        registry.register("worker_actions_planned", "Actions that plans asked for", self.planned.clone());
        registry.register(
            "worker_drains_waiting",
            "Workers that are to leave or change and wait for their jobs",
            self.waiting.clone(),
        );
        registry.register(
            "worker_oldest_drain_start_seconds",
            "Since when the worker waits that has waited longest, in seconds since 1970; 0 if none does",
            self.oldest.clone(),
        );
        registry.register(
            "worker_pods_protected",
            "Pods that are guarded against eviction",
            self.protected.clone(),
        );
    }

    /// Notes a plan.
    pub(super) fn note(&self, controller: &'static str, key: &Key, plan: &Plan, oldest: Option<UnixTime>) {
        for action in &plan.actions {
            self.planned.get_or_create(&ActionLabels { controller, action: action.kind() }).inc();
        }
        let figures = Figures {
            waiting: i64::from(plan.status.waiting),
            oldest,
            protected: i64::from(plan.status.protected),
        };
        self.put(controller, key, Some(figures));
    }

    /// The set is gone.
    pub(super) fn forget(&self, controller: &'static str, key: &Key) {
        self.put(controller, key, None);
    }

    fn put(&self, controller: &'static str, key: &Key, figures: Option<Figures>) {
        let mut sets = self.sets.lock();
        let slot = (controller, key.clone());
        let before = match figures {
            Some(figures) => sets.insert(slot, figures),
            None => sets.remove(&slot),
        };
        if before == figures {
            return;
        }
        let of_it = || sets.iter().filter(|((name, _), _)| *name == controller).map(|(_, figures)| figures);
        let label = ControllerLabel { controller };
        self.waiting.get_or_create(&label).set(of_it().map(|figures| figures.waiting).sum());
        self.protected.get_or_create(&label).set(of_it().map(|figures| figures.protected).sum());
        let oldest = of_it().filter_map(|figures| figures.oldest).min().unwrap_or_default();
        self.oldest.get_or_create(&label).set(i64::try_from(oldest.0).unwrap_or(i64::MAX));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_the_sum_of_all_sets_and_go_with_them() {
        let metrics = WorkerMetrics::default();
        let plan = |waiting: u32| {
            let mut plan = Plan::default();
            plan.status.waiting = waiting;
            plan.status.protected = 2;
            plan
        };
        let (a, b) = (Key::new("n", "a"), Key::new("n", "b"));
        metrics.note("c", &a, &plan(1), Some(UnixTime(5)));
        metrics.note("c", &b, &plan(3), Some(UnixTime(4)));
        metrics.note("other", &b, &plan(7), None);
        let label = ControllerLabel { controller: "c" };
        let now = || {
            (
                metrics.waiting.get_or_create(&label).get(),
                metrics.protected.get_or_create(&label).get(),
                metrics.oldest.get_or_create(&label).get(),
            )
        };
        assert_eq!(now(), (4, 4, 4));
        metrics.forget("c", &b);
        assert_eq!(now(), (1, 2, 5));
        metrics.note("c", &a, &plan(0), None);
        assert_eq!(now(), (0, 2, 0));
    }

    #[test]
    fn the_names_are_those_of_the_documentation() {
        let metrics = WorkerMetrics::default();
        let mut registry = Registry::default();
        metrics.register(&mut registry);
        let plan = Plan { actions: vec![nodeset::Action::AddFinalizer], ..Plan::default() };
        metrics.note("nodeset", &Key::new("n", "a"), &plan, None);
        let mut shown = String::new();
        prometheus_client::encoding::text::encode(&mut shown, &registry).unwrap();
        let documented = include_str!("../../../../docs/nodesets.md");
        for (name, labels) in [
            ("worker_actions_planned_total", r#"{controller="nodeset",action="AddFinalizer"} 1"#),
            ("worker_drains_waiting", r#"{controller="nodeset"} 0"#),
            ("worker_oldest_drain_start_seconds", r#"{controller="nodeset"} 0"#),
            ("worker_pods_protected", r#"{controller="nodeset"} 0"#),
        ] {
            assert!(shown.contains(&format!("{name}{labels}")), "{name}: {shown}");
            assert!(documented.contains(&format!("`{name}{{")), "{name} is not documented");
        }
    }
}
