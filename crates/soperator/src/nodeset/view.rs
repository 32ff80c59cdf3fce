//! `soperator nodeset status`: a set on one screen.

use std::io::{self, Write};

use clap::ValueEnum;
use engine::error::chain;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use serde::Serialize;
use slurm::{Job, Node};
use slurm_client::Snapshot;

use super::pod::{self, Pod};
use super::set::Set;
use super::time::{Until, ago, stamp};
use super::whose::{Whose, whose};
use super::word::Word;
use super::{Target, explain, find};
use crate::cli::Error;
use crate::place::Place;
use crate::slurm::{job_number, table};
use crate::slurm_access::SlurmAccess;
use crate::unmet;

/// More jobs than this do not fit into a cell.
const JOBS: usize = 3;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    target: Target,
    /// The form of the answer
    #[arg(long, short, value_enum, default_value_t = Output::Text)]
    output: Output,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Output {
    /// For people
    Text,
    /// A JSON object
    Json,
}

/// Looks, and prints what it sees.
pub(super) async fn run(args: &Args, out: &mut impl Write) -> Result<(), Error> {
    let place = Place::find(args.target.namespace.as_deref()).await?;
    let set = find::find(&place, &args.target).await?.set();
    let pods = pod::of(&place.client, &set).await?;
    let newest = pod::newest_revision(&place.client, &set).await;
    let cluster = find::cluster_of(&place.client, &set).await;
    let answer = match &cluster {
        Ok(cluster) => ask(&place, &set, cluster).await,
        Err(reason) => Err(reason.clone()),
    };
    let now = slurm_client::unix_time();
    let view = View::new(&set, cluster.ok(), &pods, newest.as_deref(), &answer, now);
    match args.output {
        Output::Json => {
            let text = serde_json::to_string_pretty(&view).map_err(|error| Error::Bug(chain(&error)))?;
            writeln!(out, "{text}")?;
        }
        Output::Text => view.write(out, now)?,
    }
    Ok(())
}

async fn ask(place: &Place, set: &Set, cluster: &str) -> Result<Snapshot, String> {
    access(place, set, cluster).await?.snapshot().await
}

/// The way to the Slurm of a set.
pub(super) async fn access(place: &Place, set: &Set, cluster: &str) -> Result<SlurmAccess, String> {
    match set.api {
        super::Api::Nebius => SlurmAccess::of_slurm_cluster(&place.client, &set.namespace, cluster).await,
        super::Api::Slinky => SlurmAccess::of_slinky_cluster(&place.client, &set.namespace, cluster).await,
    }
}

/// What a person wants to know about a set.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct View {
    #[serde(skip)]
    title: String,
    api: &'static str,
    namespace: String,
    name: String,
    /// None where it is not clear.
    cluster: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    phase: Option<String>,
    is_deleted: bool,
    replicas: i32,
    /// The label of the newest revision, if somebody tells it.
    revision: Option<String>,
    workers: Vec<Worker>,
    /// What is not as it should be, in the operator's words.
    waits: Vec<Wait>,
    /// Why Slurm tells nothing, if it does not.
    slurm_problem: Option<String>,
}

/// A worker.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Worker {
    pod: String,
    kubernetes_node: Option<String>,
    is_ready: bool,
    is_terminating: bool,
    revision: Option<String>,
    /// None if somebody does not tell.
    is_newest: Option<bool>,
    slurm_node: String,
    /// None if Slurm does not tell, or does not have it.
    slurm_state: Option<String>,
    jobs: Vec<JobView>,
    /// When the last of its jobs must have ended.
    until: Option<String>,
    drain: Option<Drain>,
    /// What becomes of it, and why; empty when nothing does.
    next: String,
    #[serde(skip)]
    until_text: String,
}

/// A job on a worker.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct JobView {
    /// As users know it from squeue.
    id: String,
    name: String,
    user: String,
    state: String,
    until: Option<String>,
}

/// A drain.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Drain {
    /// `operator`, `pod` or `person`.
    by: &'static str,
    user: String,
    since: Option<String>,
    reason: String,
    #[serde(skip)]
    since_time: u64,
}

/// A condition that does not hold.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
struct Wait {
    condition: String,
    reason: String,
    message: String,
}

impl View {
    fn new(
        set: &Set,
        cluster: Option<String>,
        pods: &[Pod],
        newest: Option<&str>,
        answer: &Result<Snapshot, String>,
        now: u64,
    ) -> Self {
        let worker = |pod: &Pod| {
            let word = Word::of(answer.as_ref().map_err(String::as_str), &pod.slurm_node);
            Worker::new(set, pod, newest, &word, now)
        };
        let mut waits: Vec<Wait> =
            set.conditions.iter().filter(|condition| unmet::is_unmet(condition)).map(Wait::new).collect();
        if !set.is_observed {
            waits.insert(0, Wait::not_observed());
        }
        Self {
            title: set.title(),
            api: set.api.group(),
            namespace: set.namespace.clone(),
            name: set.name.clone(),
            cluster,
            phase: set.phase.clone(),
            is_deleted: set.is_deleted,
            replicas: set.replicas,
            revision: newest.map(Into::into),
            workers: pods.iter().map(worker).collect(),
            waits,
            slurm_problem: answer.as_ref().err().cloned(),
        }
    }

    /// The whole screen.
    fn write(&self, out: &mut impl Write, now: u64) -> io::Result<()> {
        let state = match &self.phase {
            _ if self.is_deleted => ": it is being deleted".into(),
            Some(phase) => format!(": {phase}"),
            None => String::new(),
        };
        writeln!(out, "{}{state}", self.title)?;
        let count = |is: &dyn Fn(&Worker) -> bool| self.workers.iter().filter(|worker| is(worker)).count();
        let ready = count(&|worker| worker.is_ready && !worker.is_terminating);
        let newest = count(&|worker| worker.is_newest == Some(true));
        let newest = if self.revision.is_some() {
            format!(", {newest} of the newest revision")
        } else {
            String::new()
        };
        let cluster = self.cluster.as_ref().map(|name| format!("cluster {name}; ")).unwrap_or_default();
        let pods = self.workers.len();
        writeln!(out, "{cluster}{} replicas, {pods} pods, {ready} ready{newest}", self.replicas)?;
        if !self.workers.is_empty() {
            writeln!(out)?;
            let titles = ["POD", "SLURM NODE", "STATE", "JOBS", "UNTIL", "REVISION", "WHAT NEXT"];
            let rows: Vec<_> = self.workers.iter().map(Worker::row).collect();
            table::write(out, &titles, &rows)?;
        }
        if !self.waits.is_empty() {
            writeln!(out, "\nWaits for:")?;
            for wait in &self.waits {
                writeln!(out, "  {}", wait.line())?;
            }
        }
        let drains: Vec<_> = self.workers.iter().filter_map(|worker| worker.drain_row(now)).collect();
        if !drains.is_empty() {
            writeln!(out, "\nDrained:")?;
            table::write(out, &["SLURM NODE", "BY", "SINCE", "REASON"], &drains)?;
        }
        match &self.slurm_problem {
            Some(problem) => writeln!(out, "\nSlurm does not answer: {problem}"),
            None => Ok(()),
        }
    }
}

impl Worker {
    fn new(set: &Set, pod: &Pod, newest: Option<&str>, word: &Word<'_>, now: u64) -> Self {
        let until = word.jobs().iter().map(|job| Until::of(job)).max();
        Self {
            pod: pod.name.clone(),
            kubernetes_node: pod.kube_node.clone(),
            is_ready: pod.is_ready,
            is_terminating: pod.is_terminating,
            revision: pod.revision.clone(),
            is_newest: pod.revision.as_deref().zip(newest).map(|(own, newest)| own == newest),
            slurm_node: pod.slurm_node.clone(),
            slurm_state: word.node().map(|node| node.state.to_string()),
            jobs: word.jobs().iter().map(|job| JobView::new(job)).collect(),
            until: until.and_then(Until::stamp),
            drain: word.node().and_then(Drain::of),
            next: explain::next(set, pod, newest, word),
            until_text: until.map(|until| until.text(now)).unwrap_or_default(),
        }
    }

    fn row(&self) -> Vec<String> {
        let mut jobs: Vec<String> = self.jobs.iter().take(JOBS).map(|job| job.id.clone()).collect();
        if self.jobs.len() > JOBS {
            jobs.push(format!("and {} more", self.jobs.len() - JOBS));
        }
        let revision = match self.is_newest {
            Some(true) => "newest",
            Some(false) => "old",
            None => "",
        };
        vec![
            self.pod.clone(),
            self.slurm_node.clone(),
            table::cell(self.slurm_state.as_deref().unwrap_or_default()),
            table::cell(&jobs.join(", ")),
            table::cell(&self.until_text),
            table::cell(revision),
            table::cell(&self.next),
        ]
    }

    fn drain_row(&self, now: u64) -> Option<Vec<String>> {
        let drain = self.drain.as_ref()?;
        Some(vec![
            self.slurm_node.clone(),
            table::cell(if drain.by == PERSON { &drain.user } else { drain.by }),
            table::cell(&ago(drain.since_time, now)),
            table::cell(&drain.reason),
        ])
    }
}

impl JobView {
    fn new(job: &Job) -> Self {
        Self {
            id: job_number(job),
            name: job.name.to_string(),
            user: job.origin.user.to_string(),
            state: job.state.to_string(),
            until: Until::of(job).stamp(),
        }
    }
}

const PERSON: &str = "person";

impl Drain {
    fn of(node: &Node) -> Option<Self> {
        let by = match whose(node)? {
            Whose::Operator => "operator",
            Whose::Pod => "pod",
            Whose::Person => PERSON,
        };
        Some(Self {
            by,
            user: node.reason_user.to_string(),
            since: stamp(node.reason_time),
            reason: node.reason.to_string(),
            since_time: node.reason_time,
        })
    }
}

impl Wait {
    fn new(condition: &Condition) -> Self {
        Self {
            condition: condition.type_.clone(),
            reason: condition.reason.clone(),
            message: condition.message.clone(),
        }
    }

    fn not_observed() -> Self {
        Self {
            condition: "Observed".into(),
            reason: "NewGeneration".into(),
            message: "the operator has not looked at the latest change yet".into(),
        }
    }

    fn line(&self) -> String {
        let text = if self.message.is_empty() { &self.reason } else { &self.message };
        table::cell(&format!("{}: {text}", self.condition))
    }
}

#[cfg(test)]
mod tests {
    use api::nebius;
    use serde_json::json;
    use slurm::{JobId, NodeState, Number, Occupancy, Reason};

    use super::super::time::tests::job;
    use super::*;

    const NOW: u64 = 1060;

    fn set() -> Set {
        let text = std::fs::read_to_string("../../examples/api/slurm.nebius.ai/nodeset.yaml").unwrap();
        let mut set: nebius::NodeSet = serde_saphyr::from_str(&text).unwrap();
        set.metadata.name = Some("gpu".into());
        set.metadata.namespace = Some("a".into());
        set.metadata.generation = Some(3);
        set.spec.cluster_name = Some("slurm1".into());
        set.spec.replicas = 2;
        let condition = |type_: &str, status: &str, message: &str| {
            json!({
                "type": type_, "status": status, "reason": "R", "message": message,
                "lastTransitionTime": "2026-01-01T00:00:00Z",
            })
        };
        set.status = serde_json::from_value(json!({
            "phase": "Provisioning", "observedGeneration": 3,
            "conditions": [
                condition("PodsReady", "True", "2 of 2 workers are ready"),
                condition("WaitingForJobs", "True", "before they may leave, these wait: gpu-0 (job 17 is on it)"),
                condition("StatefulSetUpdated", "False", "1 workers have an old revision"),
            ],
        }))
        .unwrap();
        Set::from(&set)
    }

    fn pod(ordinal: u32, revision: &str) -> Pod {
        Pod {
            name: format!("gpu-{ordinal}"),
            ordinal: Some(ordinal),
            slurm_node: format!("gpu-{ordinal}"),
            kube_node: Some("machine".into()),
            phase: "Running".into(),
            is_ready: true,
            is_terminating: false,
            revision: Some(revision.into()),
        }
    }

    fn shown(view: &View) -> String {
        let mut out = Vec::new();
        view.write(&mut out, NOW).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_set_in_the_middle_of_an_update_fits_on_a_screen() {
        let set = set();
        let silent = Err("no endpoints available".to_string());
        let mut view = View::new(&set, Some("slurm1".into()), &[], Some("new"), &silent, NOW);
        let drained = Node {
            name: "gpu-0".into(),
            state: NodeState::from_words(["MIXED", "DRAIN"]),
            reason: "slurm-operator: Pod (a/gpu-0) is pending replacement for an update".into(),
            reason_time: 1000,
            reason_user: "root".into(),
            ..Node::default()
        };
        let held = Node {
            name: "gpu-1".into(),
            state: NodeState::from_words(["IDLE", "DRAIN"]),
            reason: "bad\ndisk".into(),
            reason_time: 1030,
            reason_user: "ann".into(),
            ..Node::default()
        };
        let (one, two) = (job(17, "RUNNING", Number::Value(2)), job(18, "RUNNING", Number::Value(4)));
        let busy = Occupancy::Busy(Reason::Job(JobId(17)));
        let words = [
            Word::Told { node: &drained, occupancy: busy, jobs: vec![&one, &two] },
            Word::Told { node: &held, occupancy: Occupancy::Free, jobs: vec![] },
        ];
        view.slurm_problem = None;
        view.workers = [pod(0, "old"), pod(1, "new")]
            .iter()
            .zip(&words)
            .map(|(pod, word)| Worker::new(&set, pod, Some("new"), word, NOW))
            .collect();
        assert_eq!(
            shown(&view),
            "NodeSet a/gpu of slurm.nebius.ai: Provisioning\n\
             cluster slurm1; 2 replicas, 2 pods, 2 ready, 1 of the newest revision\n\n\
             POD    SLURM NODE  STATE        JOBS    UNTIL  REVISION  WHAT NEXT\n\
             gpu-0  gpu-0       MIXED+DRAIN  17, 18  in 3m  old       has an old revision: replaced when it is free (job 17 is on it)\n\
             gpu-1  gpu-1       IDLE+DRAIN   -       -      newest    stays; drained by somebody, until `soperator nodeset undrain`\n\n\
             Waits for:\n  \
             WaitingForJobs: before they may leave, these wait: gpu-0 (job 17 is on it)\n  \
             StatefulSetUpdated: 1 workers have an old revision\n\n\
             Drained:\n\
             SLURM NODE  BY        SINCE    REASON\n\
             gpu-0       operator  1m ago   slurm-operator: Pod (a/gpu-0) is pending replacement for an update\n\
             gpu-1       ann       30s ago  bad disk\n"
        );
        let json = serde_json::to_value(&view).unwrap();
        assert_eq!(json["workers"][0]["jobs"][1]["until"], "1970-01-01T00:20:40Z");
        assert_eq!(json["workers"][0]["until"], "1970-01-01T00:20:40Z");
        assert_eq!(json["workers"][1]["drain"]["by"], "person");
        assert_eq!(json["workers"][1]["next"], view.workers[1].next);
    }

    #[test]
    fn when_slurm_is_silent_the_rest_is_shown() {
        let silent = Err("no endpoints available".to_string());
        let text =
            shown(&View::new(&set(), Some("slurm1".into()), &[pod(0, "old")], Some("new"), &silent, NOW));
        assert!(text.contains("gpu-0  gpu-0       -      -     -      old       has an old revision: replaced when Slurm answers"), "{text}");
        assert!(text.ends_with("\nSlurm does not answer: no endpoints available\n"), "{text}");
    }

    #[test]
    fn a_status_of_an_older_spec_is_said_to_be_old() {
        let mut set = set();
        set.is_observed = false;
        let text = shown(&View::new(&set, None, &[], None, &Err("x".into()), NOW));
        assert!(
            text.contains("  Observed: the operator has not looked at the latest change yet\n"),
            "{text}"
        );
        assert!(text.contains("\n2 replicas, 0 pods, 0 ready\n"), "{text}");
    }

    #[test]
    fn more_jobs_than_fit_are_counted() {
        let node =
            Node { name: "gpu-0".into(), state: NodeState::from_words(["ALLOCATED"]), ..Node::default() };
        let jobs: Vec<Job> = (1..=5).map(|id| job(id, "RUNNING", Number::Infinite)).collect();
        let busy = Occupancy::Busy(Reason::Job(JobId(1)));
        let word = Word::Told { node: &node, occupancy: busy, jobs: jobs.iter().collect() };
        let row = Worker::new(&set(), &pod(0, "new"), Some("new"), &word, NOW).row();
        assert_eq!((row[3].as_str(), row[4].as_str()), ("1, 2, 3, and 2 more", "no limit"));
    }
}
