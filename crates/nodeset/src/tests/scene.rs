//! Worlds for tests that tell a story: at rest first, and then one thing is different.

use super::world::*;
use crate::*;

impl World {
    /// A set of so many idle workers with which all is well.
    pub(crate) fn at_rest(api: Api, replicas: u32) -> Self {
        let mut world = Self::new(api);
        world.replicas = replicas;
        world.settle();
        world
    }

    /// Lets time go on until nothing is left to do.
    pub(crate) fn settle(&mut self) {
        for _ in 0..60 {
            self.step();
        }
        assert_eq!(self.plan().actions, [], "{}", self.brief());
    }

    /// One tick, one plan, carried out.
    pub(crate) fn step(&mut self) -> Plan {
        self.tick(true).expect("no job is lost");
        let plan = self.plan();
        super::oracle::check(&self.facts(), &plan).expect("the law is kept");
        self.execute(&plan, usize::MAX).expect("it can be done");
        plan
    }

    /// Reads Slurm, and plans.
    pub(crate) fn plan(&mut self) -> Plan {
        self.look();
        plan(&self.facts())
    }

    pub(crate) fn pod_mut(&mut self, ordinal: u32) -> &mut SimPod {
        self.pods.get_mut(&format!("w-{ordinal}")).expect("the pod is there")
    }

    pub(crate) fn node_mut(&mut self, ordinal: u32) -> &mut SimNode {
        self.nodes.get_mut(&format!("w-{ordinal}")).expect("the node is there")
    }

    /// A job runs on the worker.
    pub(crate) fn job(&mut self, ordinal: u32, work: Work) {
        let (id, start) = (self.fresh() as u32, self.now);
        let nodes = vec![format!("w-{ordinal}")];
        self.jobs.push(SimJob { id, work, nodes, left: 3, endless: false, start });
    }

    /// Somebody drains the worker's node.
    pub(crate) fn drained(&mut self, ordinal: u32, reason: &str) {
        let node = self.node_mut(ordinal);
        (node.drain, node.reason) = (true, reason.into());
    }
}

impl Plan {
    pub(crate) fn deleted(&self) -> Vec<&str> {
        self.pick(|action| match action {
            Action::DeletePod { pod, .. } => Some(&*pod.name),
            _ => None,
        })
    }

    pub(crate) fn created(&self) -> Vec<&str> {
        self.pick(|action| match action {
            Action::CreatePod { name, .. } => Some(&**name),
            _ => None,
        })
    }

    pub(crate) fn drains(&self) -> Vec<&str> {
        self.pick(|action| match action {
            Action::Drain { node, .. } => Some(&**node),
            _ => None,
        })
    }

    pub(crate) fn drain_reason(&self) -> &str {
        let reasons = self.pick(|action| match action {
            Action::Drain { reason, .. } => Some(&**reason),
            _ => None,
        });
        reasons.first().copied().unwrap_or_default()
    }

    pub(crate) fn undrains(&self) -> Vec<&str> {
        self.pick(|action| match action {
            Action::Undrain { node, .. } => Some(&**node),
            _ => None,
        })
    }

    pub(crate) fn cordons(&self, cordoned: bool) -> Vec<&str> {
        self.pick(|action| match action {
            Action::MarkPod { pod, marks } if marks.cordoned == Some(cordoned) => Some(&*pod.name),
            _ => None,
        })
    }

    pub(crate) fn waiting(&self) -> Vec<(&str, &str)> {
        self.waits.iter().map(|wait| (&*wait.pod, &*wait.why)).collect()
    }

    pub(crate) fn condition(&self, type_: &str) -> &Condition {
        self.status
            .conditions
            .iter()
            .find(|condition| condition.type_ == type_)
            .expect("the condition is there")
    }

    fn pick<'p>(&'p self, of: impl Fn(&'p Action) -> Option<&'p str>) -> Vec<&'p str> {
        self.actions.iter().filter_map(of).collect()
    }
}
