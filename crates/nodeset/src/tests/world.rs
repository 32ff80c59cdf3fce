//! A small Kubernetes and a small Slurm, with the truth about both, and what the planner is told of it.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use serde_json::json;
use slurm::{Holders, Job, JobId, JobState, Moment, Node, NodeState, Number, Reading};

use crate::*;

/// One step of the simulation, in seconds.
pub(crate) const TICK: u64 = 60;
/// The time that workers may take to register.
pub(crate) const GRACE: u64 = 3 * TICK;
/// What is older is not believed.
pub(crate) const MAX_AGE: u64 = 2 * TICK;
pub(crate) const KUBE_NODES: [&str; 3] = ["k0", "k1", "k2"];
pub(crate) const ADMIN: &str = "bad disk";

/// Four contents: other resources, or only another image.
pub(crate) static CONTENTS: LazyLock<Vec<Content>> = LazyLock::new(|| {
    let content = |cpu: u32, image: u32| {
        let container =
            json!({"name": "slurmd", "image": format!("slurmd:{image}"), "resources": {"cpu": cpu}});
        Content::new(&json!({"spec": {"template": {"spec": {"containers": [container]}}}}))
    };
    vec![content(1, 1), content(1, 2), content(2, 1), content(2, 2)]
});

#[derive(Clone, Debug)]
pub(crate) struct SimPod {
    pub(crate) uid: String,
    pub(crate) version: u64,
    pub(crate) version_text: String,
    pub(crate) revision: String,
    pub(crate) node: String,
    pub(crate) kube: Option<usize>,
    pub(crate) phase: PodPhase,
    pub(crate) started: Option<u64>,
    pub(crate) ready: Option<u64>,
    pub(crate) created: u64,
    /// Ticks that are left until it is gone.
    pub(crate) terminating: Option<u8>,
    pub(crate) cordon: Cordon,
    /// Ticks until changed containers run anew.
    pub(crate) restarting: Option<u8>,
    pub(crate) protected: bool,
    pub(crate) deadline: Option<u64>,
    pub(crate) conditions: BTreeMap<String, String>,
    /// Never becomes ready.
    pub(crate) sick: bool,
    /// Never registers.
    pub(crate) mute: bool,
    pub(crate) has_agent: bool,
    /// Its labels are as they were made.
    pub(crate) identity: bool,
    pub(crate) cost: i32,
    /// Its machine is gone. After so many ticks Kubernetes notices, and the pod is gone too.
    pub(crate) lost: Option<u8>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct SimNode {
    pub(crate) drain: bool,
    pub(crate) reason: String,
    pub(crate) comment: String,
    /// The uid of the pod whose slurmd answers.
    pub(crate) answers: Option<String>,
    /// A state that nobody can read.
    pub(crate) garbled: bool,
    /// When its slurmd registered last.
    pub(crate) registered: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    Running,
    Suspended,
    Completing,
}

#[derive(Clone, Debug)]
pub(crate) struct SimJob {
    pub(crate) id: u32,
    pub(crate) work: Work,
    pub(crate) nodes: Vec<String>,
    /// Ticks until it ends, once the world is calm.
    pub(crate) left: u8,
    pub(crate) endless: bool,
    pub(crate) start: u64,
}

/// How Slurm answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Up,
    Silent,
    /// It answered once, and does not any more.
    Stale,
    Empty,
    Foreign,
    NoJobs,
    /// The jobs are read before the nodes.
    WrongOrder,
    NoCluster,
}

#[derive(Debug)]
pub(crate) struct Seen {
    pub(crate) nodes: Vec<Arc<Node>>,
    pub(crate) jobs: Vec<Arc<Job>>,
    pub(crate) holders: Holders,
    pub(crate) nodes_read: Reading,
    pub(crate) jobs_read: Reading,
    pub(crate) has_jobs: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct SimRevision {
    pub(crate) name: String,
    pub(crate) hash: String,
    pub(crate) number: i64,
    pub(crate) content: usize,
}

#[derive(Clone, Debug)]
pub(crate) struct SimClaim {
    pub(crate) uid: String,
    pub(crate) owner: ClaimOwner,
}

#[derive(Debug)]
pub(crate) struct World {
    pub(crate) now: u64,
    pub(crate) api: Api,
    pub(crate) dynamic: bool,
    pub(crate) replicas: u32,
    pub(crate) strategy: Strategy,
    pub(crate) max_unavailable: Amount,
    pub(crate) partition: u32,
    pub(crate) paused: bool,
    pub(crate) content: usize,
    pub(crate) retention: Retention,
    pub(crate) history: usize,
    pub(crate) protect: bool,
    pub(crate) finalizer: bool,
    pub(crate) deletion: Option<u64>,
    pub(crate) forced: bool,
    pub(crate) namespace_ends: bool,
    pub(crate) min_ready: u64,
    pub(crate) padding: usize,
    pub(crate) drain: DrainOnDelete,
    /// Pods write a reason over Slurm's when they stop.
    pub(crate) stop_script: bool,
    pub(crate) proven: bool,
    pub(crate) cordoned: [bool; 3],
    pub(crate) pods: BTreeMap<String, SimPod>,
    pub(crate) nodes: BTreeMap<String, SimNode>,
    pub(crate) jobs: Vec<SimJob>,
    /// Jobs that wait for a node.
    pub(crate) queue: u8,
    /// The lines of slurm.conf: node and revision.
    pub(crate) conf: BTreeMap<String, Option<String>>,
    pub(crate) claims: BTreeMap<String, SimClaim>,
    pub(crate) revisions: Vec<SimRevision>,
    pub(crate) mode: Mode,
    pub(crate) seen: Option<Seen>,
    /// When we last wrote to Slurm.
    pub(crate) wrote: Moment,
    pub(crate) counter: u64,
    pub(crate) finalized: bool,
}

pub(crate) fn moment(milliseconds: u64) -> Moment {
    Moment::after_start(Duration::from_millis(milliseconds))
}

impl World {
    pub(crate) fn new(api: Api) -> Self {
        Self {
            now: 100_000,
            api,
            dynamic: true,
            replicas: 3,
            strategy: Strategy::RollingUpdate,
            max_unavailable: Amount::Count(1),
            partition: 0,
            paused: false,
            content: 0,
            retention: Retention::default(),
            history: 0,
            protect: true,
            finalizer: true,
            deletion: None,
            forced: false,
            namespace_ends: false,
            min_ready: 0,
            padding: 0,
            drain: DrainOnDelete::default(),
            stop_script: false,
            proven: true,
            cordoned: [false; 3],
            pods: BTreeMap::new(),
            nodes: BTreeMap::new(),
            jobs: Vec::new(),
            queue: 0,
            conf: BTreeMap::new(),
            claims: BTreeMap::new(),
            revisions: Vec::new(),
            mode: Mode::Up,
            seen: None,
            wrote: moment(0),
            counter: 0,
            finalized: false,
        }
    }

    /// Everything that matters, in few lines.
    pub(crate) fn brief(&self) -> String {
        let mut text = format!(
            "{:?} dynamic {} replicas {} {:?} {:?} partition {} paused {} content {} {:?} proven {} stop script {} cordoned {:?} \
             deletion {:?} at {}, {:?} forced {} namespace ends {} min ready {} padding {}\nrevisions {:?}\n",
            self.api,
            self.dynamic,
            self.replicas,
            self.strategy,
            self.max_unavailable,
            self.partition,
            self.paused,
            self.content,
            self.mode,
            self.proven,
            self.stop_script,
            self.cordoned,
            self.deletion,
            self.now,
            self.drain,
            self.forced,
            self.namespace_ends,
            self.min_ready,
            self.padding,
            self.revisions,
        );
        for (name, pod) in &self.pods {
            let _ = writeln!(text, "{name}: {pod:?}");
        }
        for (name, node) in &self.nodes {
            let _ = writeln!(text, "{name}: {node:?}");
        }
        let _ = writeln!(text, "jobs {:?}\nclaims {:?}", self.jobs, self.claims);
        text
    }

    pub(crate) fn fresh(&mut self) -> u64 {
        self.counter += 1;
        self.counter
    }

    /// The name of a pod, and of its node.
    pub(crate) fn name(&self, ordinal: u32) -> String {
        format!("w-{ordinal:0width$}", width = self.padding)
    }

    pub(crate) fn pod_of(&self, node: &str) -> Option<&SimPod> {
        self.pods.values().find(|pod| pod.node == node)
    }

    pub(crate) fn jobs_on<'w>(&'w self, node: &'w str) -> impl Iterator<Item = &'w SimJob> {
        self.jobs.iter().filter(move |job| job.nodes.iter().any(|name| name == node))
    }

    fn state(&self, name: &str, node: &SimNode) -> NodeState {
        let mut words = Vec::with_capacity(4);
        let running = self.jobs_on(name).any(|job| job.work == Work::Running);
        words.push(match (node.answers.is_some(), running) {
            (false, _) => "DOWN",
            (true, true) => "MIXED",
            (true, false) => "IDLE",
        });
        if node.answers.is_none() {
            words.push("NOT_RESPONDING");
        }
        if self.jobs_on(name).any(|job| job.work == Work::Completing) {
            words.push("COMPLETING");
        }
        if node.drain {
            words.push("DRAIN");
        }
        if self.dynamic {
            words.push("DYNAMIC_NORM");
        }
        if node.garbled {
            words.push("WOBBLING");
        }
        NodeState::from_words(words)
    }

    /// Reads Slurm's lists, as it answers now.
    pub(crate) fn look(&mut self) {
        match self.mode {
            Mode::Silent | Mode::NoCluster => self.seen = None,
            Mode::Stale => {}
            Mode::Up | Mode::Empty | Mode::Foreign | Mode::NoJobs | Mode::WrongOrder => self.read(),
        }
    }

    fn read(&mut self) {
        let mut nodes: Vec<Arc<Node>> = match self.mode {
            Mode::Empty => Vec::new(),
            Mode::Foreign => vec![idle("elsewhere-0")],
            _ => self.nodes.iter().map(|(name, node)| record(name, self.state(name, node), node)).collect(),
        };
        if !matches!(self.mode, Mode::Empty | Mode::Foreign) {
            nodes.push(idle("other-0"));
        }
        let empty = matches!(self.mode, Mode::Empty | Mode::Foreign);
        let jobs: Vec<Arc<Job>> =
            self.jobs.iter().filter(|_| !empty).map(|job| Arc::new(job.record())).collect();
        let at = self.now * 1000;
        let reading = |from: u64| Reading { asked: moment(from), answered: moment(from + 10) };
        self.seen = Some(Seen {
            holders: Holders::new(jobs.iter().map(Arc::as_ref)),
            nodes,
            jobs,
            nodes_read: reading(at + 10),
            jobs_read: reading(if self.mode == Mode::WrongOrder { at } else { at + 20 }),
            has_jobs: self.mode != Mode::NoJobs,
        });
    }

    /// What the planner is told.
    pub(crate) fn facts(&self) -> Facts<'_> {
        let set = Set {
            namespace: "ns",
            name: "w",
            uid: "set-uid",
            api: self.api,
            replicas: self.replicas,
            padding: self.padding,
            host_prefix: None,
            content: &CONTENTS[self.content],
            collisions: 0,
            history_limit: self.history,
            strategy: self.strategy,
            max_unavailable: self.max_unavailable,
            partition: self.partition,
            kept: None,
            paused: self.paused,
            min_ready: Duration::from_secs(self.min_ready),
            claim_templates: vec!["data"],
            retention: self.retention,
            selector: Selector::Usable,
            protect: self.protect,
            has_finalizer: self.finalizer,
            deletion: self.deletion.map(|asked| Deletion { asked: UnixTime(asked) }),
            drain_on_delete: self.drain,
            forced: self.forced,
            namespace_ends: self.namespace_ends,
            registration_grace: Duration::from_secs(GRACE),
            burst: 250,
        };
        let slurm = match (self.mode, &self.seen) {
            (Mode::NoCluster, _) => Slurm::NoCluster,
            (_, None) => Slurm::Silent("slurmrestd does not answer"),
            (_, Some(seen)) => Slurm::Answer(Answer {
                identity: match (self.mode, self.proven) {
                    (Mode::Foreign, true) => Identity::Foreign,
                    (_, true) => Identity::Proven,
                    (_, false) => Identity::Unproven,
                },
                nodes: &seen.nodes,
                nodes_read: seen.nodes_read,
                jobs: seen.has_jobs.then_some(Jobs {
                    holders: &seen.holders,
                    list: &seen.jobs,
                    read: seen.jobs_read,
                }),
                not_before: moment(self.now * 1000).earlier(Duration::from_secs(MAX_AGE)).max(self.wrote),
            }),
        };
        Facts {
            now: UnixTime(self.now),
            set,
            pods: self.pods.iter().map(|(name, pod)| self.pod_facts(name, pod)).collect(),
            claims: self.claims.iter().map(|(name, claim)| claim.facts(name)).collect(),
            revisions: self.revisions.iter().map(SimRevision::facts).collect(),
            slurm,
        }
    }

    fn pod_facts<'w>(&'w self, name: &'w str, pod: &'w SimPod) -> Pod<'w> {
        Pod {
            name,
            uid: &pod.uid,
            resource_version: &pod.version_text,
            owner: Owner::Set,
            selected: true,
            identity_kept: pod.identity,
            revision: Some(&pod.revision),
            slurm_node: &pod.node,
            kube_node: pod.kube.map(|at| KubeNode {
                name: KUBE_NODES[at],
                cordoned: self.cordoned[at],
                gone: pod.lost.is_some(),
                ..KubeNode::default()
            }),
            phase: pod.phase,
            started: pod.started.map(UnixTime),
            ready: pod.ready.map(UnixTime),
            created: UnixTime(pod.created),
            terminating: pod.terminating.is_some(),
            cordon: pod.cordon,
            deletion_cost: pod.cost,
            forced: false,
            restarting: pod.restarting.is_some(),
            marks: Marks {
                protected: pod.protected,
                deadline: pod.deadline.map(UnixTime),
                conditions: pod.conditions.iter().map(|(type_, text)| (&**type_, &**text)).collect(),
            },
            agent: if pod.has_agent && pod.lost.is_none() && self.mode == Mode::NoCluster {
                Agent::Steps(self.jobs_on(&pod.node).count())
            } else {
                Agent::Unasked
            },
        }
    }
}

fn record(name: &str, state: NodeState, node: &SimNode) -> Arc<Node> {
    Arc::new(Node {
        name: name.into(),
        state,
        reason: (&*node.reason).into(),
        comment: (&*node.comment).into(),
        slurmd_start_time: node.registered,
        ..Node::default()
    })
}

fn idle(name: &str) -> Arc<Node> {
    record(name, NodeState::from_words(["IDLE"]), &SimNode::default())
}

impl SimJob {
    fn record(&self) -> Job {
        let state = match self.work {
            Work::Running => ["RUNNING"].as_slice(),
            Work::Suspended => &["SUSPENDED"],
            Work::Completing => &["COMPLETED", "COMPLETING"],
        };
        Job {
            id: JobId(self.id),
            array_job_id: None,
            array_task_id: None,
            het_job_id: None,
            node_count: 1,
            cpus: 1,
            state: JobState::from_words(state.iter().copied()),
            name: "".into(),
            nodes: self.nodes.join(",").into(),
            origin: Arc::default(),
            reason: "".into(),
            tres: "".into(),
            submit_time: 0,
            start_time: self.start,
            end_time: 0,
            time_limit: if self.endless { Number::Infinite } else { Number::Value(60) },
        }
    }
}

impl SimClaim {
    fn facts<'w>(&'w self, name: &'w str) -> Claim<'w> {
        let target = match &self.owner {
            ClaimOwner::Nobody => None,
            ClaimOwner::Set => Some(RefTarget::Set { uid: "set-uid" }),
            ClaimOwner::Pod { name, uid } => Some(RefTarget::Pod { name, uid }),
        };
        let owners = target.map(|target| ClaimRef { target, controller: true }).into_iter().collect();
        Claim { name, uid: &self.uid, deleting: false, owners }
    }
}

impl SimRevision {
    fn facts(&self) -> Revision<'_> {
        Revision {
            name: &self.name,
            uid: &self.name,
            number: self.number,
            created: UnixTime(1),
            hash: Some(&self.hash),
            owner: Owner::Set,
            content: &CONTENTS[self.content],
        }
    }
}
