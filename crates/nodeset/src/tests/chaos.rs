//! How the world goes on: by itself, by users and admins, and by accidents.

use super::dice::Dice;
use super::lines::node_lines;
use super::world::*;
use crate::*;

/// A job that only completes.
const OVER: u8 = u8::MAX;

impl World {
    /// Any world: pods in all stages, nodes drained by anybody, jobs of all kinds.
    pub(crate) fn any(dice: &mut Dice<'_>) -> Self {
        let mut world = Self::new(dice.pick(&[Api::Nebius, Api::Slinky]));
        world.dynamic = !dice.chance(40);
        world.proven = !dice.chance(30);
        world.stop_script = world.api == Api::Slinky && dice.chance(50);
        world.protect = !dice.chance(10);
        world.history = dice.below(3);
        world.retention = Retention { delete_with_set: dice.chance(50), delete_when_scaled: dice.chance(50) };
        // Sometimes so many that their drains share one reason.
        let many = dice.chance(2);
        world.replicas = if many { 9 } else { 1 } + dice.below(4) as u32;
        world.padding = dice.pick(&[0, 0, 0, 2]);
        world.min_ready = dice.pick(&[0, 0, 0, 2 * TICK]);
        world.strategy = dice.pick(&[
            Strategy::RollingUpdate,
            Strategy::RollingUpdate,
            Strategy::InPlaceIfPossible,
            Strategy::OnDelete,
        ]);
        world.wish_budget(dice);
        for number in 0..=dice.below(3) {
            let hash = CONTENTS[number].hash(0);
            let name = format!("w-{hash}");
            world.revisions.push(SimRevision { name, hash, number: 1 + number as i64, content: number });
        }
        world.content = dice.below(world.revisions.len());
        for ordinal in 0..(world.replicas + 1).max(6) {
            if ordinal < world.replicas || dice.chance(25) {
                if !dice.chance(12) {
                    world.any_pod(dice, ordinal);
                } else if world.dynamic && dice.chance(50) {
                    // A record that an earlier pod left.
                    let name = world.name(ordinal);
                    let of_one = format!("Pod (ns/{name}) is");
                    let of = dice.pick(&[&*of_one, "Pods of NodeSet (ns/w) are"]);
                    let reason = format!("{REASON_PREFIX}{of} pending termination for scale-in");
                    let node = SimNode { drain: true, reason, ..SimNode::default() };
                    world.nodes.insert(name, node);
                }
            }
        }
        // There is no slurm.conf yet that could lose something.
        let _ = world.apply_conf();
        world
    }

    pub(crate) fn wish_budget(&mut self, dice: &mut Dice<'_>) {
        self.max_unavailable = dice.pick(&[
            Amount::Count(1),
            Amount::Count(2),
            Amount::Percent(10),
            Amount::Percent(50),
            Amount::Count(0),
            Amount::Count(1),
        ]);
    }

    fn any_pod(&mut self, dice: &mut Dice<'_>, ordinal: u32) {
        let revision = self.revisions[dice.below(self.revisions.len())].hash.clone();
        self.add_pod(ordinal, revision);
        let name = self.name(ordinal);
        let (now, kube) = (self.now, dice.below(3));
        let stage = dice.below(12);
        let (sick, agent, mute) = (dice.chance(8), !dice.chance(30), dice.chance(6));
        let (cost, identity) = (dice.pick(&[0, 0, 0, 0, -5, 10]), !dice.chance(4));
        let Some(pod) = self.pods.get_mut(&name) else { return };
        (pod.cost, pod.identity) = (cost, identity);
        pod.created = now - 10 * TICK;
        (pod.sick, pod.has_agent, pod.mute) = (sick, agent, mute);
        match stage {
            10 => return,
            11 => {
                pod.phase = PodPhase::Failed;
                pod.kube = Some(kube);
                return;
            }
            _ => {}
        }
        pod.kube = Some(kube);
        pod.phase = PodPhase::Running;
        pod.started = Some(now - 9 * TICK);
        pod.ready = (!sick).then_some(now - 8 * TICK);
        if dice.chance(8) {
            pod.terminating = Some(1);
        }
        if dice.chance(5) {
            pod.cordon = Cordon::User;
        }
        let uid = pod.uid.clone();
        if mute && self.dynamic {
            return;
        }
        let registered = if mute { 0 } else { now - 8 * TICK };
        let mut node = SimNode { answers: (!mute).then_some(uid), registered, ..SimNode::default() };
        if dice.chance(25) {
            node.drain = true;
            node.reason = match dice.below(3) {
                0 => format!("{REASON_PREFIX}Pod (ns/{name}) is pending replacement for an update"),
                1 => format!("{REASON_PREFIX}Pod (ns/{name}) is pending termination for scale-in"),
                _ => ADMIN.into(),
            };
        }
        let takes_jobs = node.answers.is_some();
        self.nodes.insert(name.clone(), node);
        if takes_jobs && dice.chance(35) {
            self.start_job(dice, &[name]);
        }
    }

    pub(crate) fn add_pod(&mut self, ordinal: u32, revision: String) {
        let name = self.name(ordinal);
        let (uid, version) = (format!("uid-{}", self.fresh()), self.fresh());
        let pod = SimPod {
            uid,
            version,
            version_text: version.to_string(),
            revision,
            node: name.clone(),
            kube: None,
            phase: PodPhase::Pending,
            started: None,
            ready: None,
            created: self.now,
            terminating: None,
            cordon: Cordon::None,
            restarting: None,
            protected: self.protect,
            deadline: None,
            conditions: Default::default(),
            sick: false,
            mute: false,
            has_agent: true,
            identity: true,
            cost: 0,
            lost: None,
        };
        self.pods.insert(name, pod);
    }

    fn start_job(&mut self, dice: &mut Dice<'_>, nodes: &[String]) {
        let work = dice.pick(&[Work::Running, Work::Suspended, Work::Completing, Work::Running]);
        let (left, endless) = (dice.below(4) as u8, dice.chance(20));
        let id = self.fresh() as u32;
        self.jobs.push(SimJob { id, work, nodes: nodes.to_vec(), left, endless, start: self.now });
    }

    /// Nodes that Slurm would start a job on.
    fn open_nodes(&self) -> Vec<String> {
        let open =
            self.nodes.iter().filter(|(_, node)| node.answers.is_some() && !node.drain && !node.garbled);
        open.map(|(name, _)| name.clone()).collect()
    }

    /// Something happens that nobody asked for.
    pub(crate) fn accident(&mut self, dice: &mut Dice<'_>) {
        match dice.below(23) {
            0..=2 => self.replicas = dice.below(5) as u32,
            3 | 4 => self.content = dice.below(CONTENTS.len()),
            5 => self.wish_budget(dice),
            6 => self.paused = !self.paused,
            7 => self.partition = dice.below(3) as u32,
            8 => {
                let at = dice.below(3);
                self.cordoned[at] = !self.cordoned[at];
            }
            9 => {
                if let Some(node) = self.any_node(dice) {
                    node.drain = !node.drain;
                    node.reason = if node.drain { ADMIN.into() } else { String::new() };
                }
            }
            10..=12 => {
                let open = self.open_nodes();
                if !open.is_empty() {
                    let first = open[dice.below(open.len())].clone();
                    self.start_job(dice, &[first]);
                }
            }
            13 => {
                if let Some(job) = self.jobs.first_mut() {
                    job.work = dice.pick(&[Work::Suspended, Work::Running, Work::Completing]);
                }
            }
            14 | 15 => {
                self.mode = dice.pick(&[
                    Mode::Up,
                    Mode::Silent,
                    Mode::Stale,
                    Mode::Empty,
                    Mode::Foreign,
                    Mode::NoJobs,
                    Mode::WrongOrder,
                ]);
            }
            16 => {
                let at = dice.below(self.pods.len());
                if let Some(pod) = self.pods.values_mut().nth(at) {
                    pod.phase = PodPhase::Failed;
                    (pod.ready, pod.restarting) = (None, None);
                }
                self.lose_the_dead();
            }
            17 => {
                if let Some(node) = self.any_node(dice) {
                    node.garbled = !node.garbled;
                }
            }
            18 if dice.chance(40) => {
                self.deletion = self.deletion.or(Some(self.now));
                self.namespace_ends |= dice.chance(30);
            }
            18 => {
                let at = dice.below(self.pods.len());
                if let Some(pod) = self.pods.values_mut().nth(at) {
                    pod.cordon = if pod.cordon == Cordon::User { Cordon::None } else { Cordon::User };
                }
            }
            19 => {
                let at = dice.below(self.pods.len());
                if let Some(pod) = self.pods.values_mut().nth(at) {
                    (pod.identity, pod.cost) = (false, -1);
                    pod.touch();
                }
            }
            20 => {
                let at = dice.below(self.pods.len());
                if let Some(pod) = self.pods.values_mut().filter(|pod| pod.kube.is_some()).nth(at) {
                    (pod.lost, pod.ready, pod.restarting) = (Some(2), None, None);
                    pod.touch();
                }
                self.lose_the_dead();
            }
            21 => self.forced = dice.chance(25),
            _ => {
                self.drain.deadline = Some(std::time::Duration::from_secs(TICK * (1 + dice.below(3) as u64)));
                self.drain.force = dice.chance(50);
            }
        }
    }

    fn any_node(&mut self, dice: &mut Dice<'_>) -> Option<&mut SimNode> {
        let at = dice.below(self.nodes.len());
        self.nodes.values_mut().nth(at)
    }

    /// Nothing happens any more that nobody asked for.
    pub(crate) fn calm(&mut self, dice: &mut Dice<'_>) {
        (self.proven, self.forced) = (true, false);
        self.mode = if self.deletion.is_some() && dice.chance(30) { Mode::NoCluster } else { Mode::Up };
        self.drain.without_slurm = Some(std::time::Duration::from_secs(5 * TICK));
        self.queue = dice.below(3) as u8;
        for pod in self.pods.values_mut() {
            pod.sick = false;
        }
        for node in self.nodes.values_mut() {
            node.garbled = false;
        }
        for job in &mut self.jobs {
            job.work = if job.work == Work::Completing { Work::Completing } else { Work::Running };
        }
    }

    /// Kubelets and slurmctld do their part. An error is a job that somebody lost.
    pub(crate) fn tick(&mut self, calm: bool) -> Result<(), String> {
        self.now += TICK;
        let now = self.now;
        let mut gone = Vec::new();
        for (name, pod) in &mut self.pods {
            // Nobody is left who could do anything in it.
            if let Some(left) = pod.lost.as_mut().or(pod.terminating.as_mut()) {
                if *left == 0 {
                    gone.push(name.clone());
                }
                *left = left.saturating_sub(1);
                continue;
            }
            if pod.phase == PodPhase::Pending {
                if pod.kube.is_none() {
                    pod.kube = Some(name.len() * 7 % 3);
                } else {
                    pod.phase = PodPhase::Running;
                    pod.started = Some(now);
                }
                pod.touch();
            } else if let Some(left) = &mut pod.restarting {
                if *left == 0 {
                    pod.restarting = None;
                    (pod.started, pod.ready) = (Some(now), Some(now));
                } else {
                    *left -= 1;
                    pod.ready = None;
                    // The container is replaced in this moment.
                    if let Some(node) = self.nodes.get_mut(&pod.node) {
                        node.answers = None;
                    }
                    if self.jobs.iter().any(|job| job.nodes.contains(&pod.node)) {
                        return Err(format!("{name} restarted in place under a job"));
                    }
                }
                pod.touch();
            } else if pod.phase == PodPhase::Running && pod.ready.is_none() && !pod.sick {
                pod.ready = Some(now);
                pod.touch();
            }
        }
        for name in gone {
            self.remove_pod(&name);
        }
        self.lose_the_dead();
        self.register();
        self.apply_conf()?;
        self.work(calm);
        Ok(())
    }

    /// The pod is gone, with all that ran in it.
    fn remove_pod(&mut self, name: &str) {
        let Some(pod) = self.pods.remove(name) else { return };
        self.claims
            .retain(|_, claim| !matches!(&claim.owner, ClaimOwner::Pod { uid, .. } if *uid == pod.uid));
        if let Some(node) = self.nodes.get_mut(&pod.node)
            && node.answers.as_deref() == Some(&*pod.uid)
        {
            node.answers = None;
            if self.stop_script {
                node.reason = "preStop".into();
            } else if self.api == Api::Nebius && pod.has_agent && !node.drain {
                (node.drain, node.reason) = (true, "slurm-agent: the pod stops".into());
            }
        }
    }

    /// Jobs on nodes whose slurmd is gone fail.
    fn lose_the_dead(&mut self) {
        let alive = |node: &SimNode, pods: &std::collections::BTreeMap<String, SimPod>| {
            let works = |pod: &SimPod| pod.phase == PodPhase::Running && pod.lost.is_none();
            node.answers.as_ref().is_some_and(|uid| pods.values().any(|pod| pod.uid == *uid && works(pod)))
        };
        for (name, node) in &mut self.nodes {
            if !alive(node, &self.pods) {
                node.answers = None;
                self.jobs.retain(|job| !job.nodes.contains(name));
            }
        }
    }

    fn register(&mut self) {
        for pod in self.pods.values() {
            let runs = pod.phase == PodPhase::Running && pod.started.is_some_and(|at| at < self.now);
            if !runs
                || pod.mute
                || pod.lost.is_some()
                || pod.terminating.is_some()
                || pod.restarting.is_some()
            {
                continue;
            }
            if self.dynamic {
                self.nodes.entry(pod.node.clone()).or_default();
            }
            if let Some(node) = self.nodes.get_mut(&pod.node)
                && node.answers.as_deref() != Some(&*pod.uid)
            {
                node.answers = Some(pod.uid.clone());
                node.registered = self.now;
                if node.reason.starts_with("slurm-agent:") && pod.has_agent {
                    (node.drain, node.reason) = (false, "the pod runs again".into());
                }
            }
        }
    }

    /// slurm.conf has the lines of the pods. Slurm fails the jobs of a node that has none, or another one.
    fn apply_conf(&mut self) -> Result<(), String> {
        if self.dynamic {
            return Ok(());
        }
        let lines = node_lines(&self.facts());
        let conf: std::collections::BTreeMap<_, _> =
            lines.into_iter().map(|line| (line.node, line.revision)).collect();
        let old = std::mem::replace(&mut self.conf, conf);
        for name in self.conf.keys() {
            self.nodes.entry(name.clone()).or_default();
        }
        for job in &self.jobs {
            if let Some(node) = job.nodes.iter().find(|node| {
                self.conf.get(*node).is_none_or(|line| old.get(*node).is_some_and(|old| old != line))
            }) {
                return Err(format!("law 4: the line of {node} changed under job {}", job.id));
            }
        }
        let conf = &self.conf;
        self.nodes.retain(|name, _| conf.contains_key(name));
        Ok(())
    }

    /// Whether nothing would happen any more without us.
    pub(crate) fn is_still(&self) -> bool {
        let still = |pod: &SimPod| {
            let registered = pod.mute
                || self.nodes.get(&pod.node).is_none_or(|node| node.answers.as_deref() == Some(&*pod.uid));
            let ended = pod.phase == PodPhase::Failed;
            pod.terminating.is_none()
                && pod.lost.is_none()
                && pod.restarting.is_none()
                && (ended || (pod.ready.is_some() && registered))
        };
        self.jobs.is_empty() && self.pods.values().all(still)
    }

    fn work(&mut self, calm: bool) {
        if calm {
            self.jobs.retain(|job| job.left != OVER);
            for job in &mut self.jobs {
                if job.left == 0 {
                    (job.work, job.left) = (Work::Completing, OVER);
                } else {
                    job.left -= 1;
                }
            }
        }
        let open = self.open_nodes();
        let free = open.into_iter().find(|name| self.jobs_on(name).next().is_none());
        if let Some(free) = free.filter(|_| self.queue > 0 && calm) {
            self.queue -= 1;
            let (id, start) = (self.fresh() as u32, self.now);
            self.jobs.push(SimJob {
                id,
                work: Work::Running,
                nodes: vec![free],
                left: 2,
                endless: false,
                start,
            });
        }
    }
}

impl SimPod {
    pub(crate) fn touch(&mut self) {
        self.version += 1000;
        self.version_text = self.version.to_string();
    }
}
