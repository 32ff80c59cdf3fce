//! Templates of pods: what will come of them is known when they are applied.

use serde_json::Value;

use super::Config;
use super::problem::Problems;
use super::shape::Shape;
use crate::index::{self, Owner};
use crate::map::{Map, Mode};
use crate::names::{GANG, INDEX};

/// A kind with a template of pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    StatefulSet,
    Deployment,
    Job,
    CronJob,
}

impl Kind {
    pub(super) fn of(kind: &str) -> Option<Self> {
        match kind {
            "StatefulSet" => Some(Self::StatefulSet),
            "Deployment" => Some(Self::Deployment),
            "Job" => Some(Self::Job),
            "CronJob" => Some(Self::CronJob),
            _ => None,
        }
    }

    /// Where the spec with the template is, as a path and in the object's data.
    pub(super) fn spec(self, data: &Value) -> (&'static str, &Value) {
        match self {
            Self::CronJob => ("spec.jobTemplate.spec", &data["spec"]["jobTemplate"]["spec"]),
            _ => ("spec", &data["spec"]),
        }
    }

    /// The template.
    pub(super) fn template(self, data: &Value) -> Shape<'_> {
        let prefix = match self {
            Self::CronJob => "spec.jobTemplate.spec.template.",
            _ => "spec.template.",
        };
        Shape::of_template(&self.spec(data).1["template"], prefix)
    }
}

/// What the workload will make of its template.
struct Pods<'a> {
    config: &'a Config,
    shape: &'a Shape<'a>,
    map: &'a Map,
    /// The path of `spec`.
    path: &'static str,
    spec: &'a Value,
    problems: &'a mut Problems,
}

/// Checks that every pod of the workload has an index, and that the map has a line for it.
pub(super) fn check(
    config: &Config,
    kind: Kind,
    data: &Value,
    shape: &Shape<'_>,
    map: &Map,
    problems: &mut Problems,
) {
    let (path, spec) = kind.spec(data);
    let mut pods = Pods { config, shape, map, path, spec, problems };
    let fixed = shape.annotation(INDEX).map(|_| index::of(&shape.clues("", true, Owner::Other)));
    match (kind, fixed) {
        // Told already, with the value.
        (_, Some(Err(_))) => {}
        (kind, Some(Ok(index))) => pods.all_alike(kind, index),
        (Kind::StatefulSet, None) => pods.of_stateful_set(),
        (Kind::Deployment, None) => pods.without_index(
            "template",
            "pods of a Deployment have no index; use a StatefulSet, or give the template the annotation gpu-scheduling-index",
        ),
        (Kind::Job | Kind::CronJob, None) => pods.of_job(),
    }
}

impl Pods<'_> {
    fn number(&self, field: &str, default: u32) -> u32 {
        let number = self.spec[field].as_u64().map(|number| u32::try_from(number).unwrap_or(u32::MAX));
        number.unwrap_or(default)
    }

    fn is_gang(&self) -> bool {
        self.shape.annotation(GANG) == Some("true")
    }

    fn is_compat(&self) -> bool {
        self.config.mode == Mode::Compat
    }

    fn invalid(&mut self, field: &str, message: impl Into<String>) {
        self.problems.invalid(format!("{}.{field}", self.path), message);
    }

    /// What the original let pass, although such pods wait for ever.
    fn without_index(&mut self, field: &str, message: impl Into<String>) {
        let compat = self.is_compat();
        self.problems.invalid_unless(compat, format!("{}.{field}", self.path), message);
    }

    fn of_stateful_set(&mut self) {
        let replicas = self.number("replicas", 1);
        let start = self.spec["ordinals"]["start"].as_u64().and_then(|start| u32::try_from(start).ok());
        self.each_has_a_line(start.unwrap_or(0), replicas, "replicas");
        if !self.is_gang() {
            return;
        }
        if self.spec["podManagementPolicy"] != "Parallel" {
            self.invalid(
                "podManagementPolicy",
                "starts one pod after the other, and the gang waits for all of them; set it to Parallel",
            );
        }
        self.gang_is_whole("replicas", replicas);
    }

    fn of_job(&mut self) {
        if self.spec["completionMode"] != "Indexed" {
            self.without_index(
                "completionMode",
                "pods of such a Job have no index; set it to Indexed, or give the template the annotation gpu-scheduling-index",
            );
            return;
        }
        let completions = self.number("completions", 1);
        self.each_has_a_line(0, completions, "completions");
        if self.is_gang() {
            let at_once = self.number("parallelism", 1).min(completions);
            self.gang_is_whole("parallelism", at_once);
        }
    }

    /// All pods have the index of the template.
    fn all_alike(&mut self, kind: Kind, index: u32) {
        let count = match kind {
            Kind::StatefulSet | Kind::Deployment => self.number("replicas", 1),
            Kind::Job | Kind::CronJob => self.number("parallelism", 1),
        };
        let path = self.shape.annotation_path(INDEX);
        if self.map.entry(index).is_none() {
            let compat = self.is_compat();
            self.problems.invalid_unless(compat, path, format!("the map has no line for index {index}"));
            return;
        }
        if self.is_gang() {
            let path = self.shape.annotation_path(GANG);
            self.problems.invalid(
                path,
                "all pods of this template have the same index, so they are no gang; remove it",
            );
        }
        if count > 1 {
            let text =
                format!("all {count} pods have the index {index}; those that find its devices taken wait");
            self.problems.warn(path, text);
        }
        if kind == Kind::Deployment && self.spec["strategy"]["type"] != "Recreate" {
            let text =
                "an update waits for ever: the new pod needs the devices of the old one; set it to Recreate";
            self.problems.warn(format!("{}.strategy.type", self.path), text);
        }
    }

    fn each_has_a_line(&mut self, start: u32, count: u32, field: &str) {
        let end = start.saturating_add(count);
        // Stops after as many steps as the map has lines.
        if let Some(missing) = (start..end).find(|index| self.map.entry(*index).is_none()) {
            let text = format!(
                "asks for the indices {start} to {}, and the map has no line for {missing}; add it, or ask for fewer pods",
                end - 1
            );
            self.without_index(field, text);
            self.problems.about(format!("no line for {missing}"), end);
        }
    }

    /// All lines of the map have their pod at the same time.
    fn gang_is_whole(&mut self, field: &str, at_once: u32) {
        let lines = self.map.len();
        // Where nobody is to run, nobody waits.
        if at_once > 0 && u32::try_from(lines).is_ok_and(|lines| lines > at_once) {
            let text = format!(
                "{at_once} pods run at once, and the gang waits for the {lines} of its map; make both the same"
            );
            self.invalid(field, text);
            self.problems.about(format!("a gang of {lines}"), 0);
        }
    }
}
