//! What the pods of a node use, and whether another one fits beside them.

use super::Reason;
use crate::facts::{Amounts, Node, Pod, Port, Uid};

/// What the pods of a node use.
#[derive(Clone, Debug, Default)]
pub struct Usage {
    amounts: Amounts,
    pods: i64,
    ports: Vec<(Uid, Port)>,
    plugin_gpus: i64,
}

impl Usage {
    /// A pod came. `foreign`: what a device plugin gave it is not of a map.
    pub fn add(&mut self, pod: &Pod, foreign: bool) {
        self.amounts.add(&pod.requests);
        self.pods += 1;
        self.ports.extend(pod.ports.iter().map(|port| (pod.uid.clone(), port.clone())));
        self.plugin_gpus += if foreign { pod.requests.plugin_gpus() } else { 0 };
    }

    /// A pod went.
    pub fn remove(&mut self, pod: &Pod, foreign: bool) {
        self.amounts.subtract(&pod.requests);
        self.pods -= 1;
        if !pod.ports.is_empty() {
            self.ports.retain(|(uid, _)| *uid != pod.uid);
        }
        self.plugin_gpus -= if foreign { pod.requests.plugin_gpus() } else { 0 };
    }

    /// Whether a pod that was so and is so now leaves something to others.
    pub fn frees(was: &Pod, is: &Pod) -> bool {
        was.requests.iter().any(|(name, amount)| amount > is.requests.get(name))
            || was.ports.iter().any(|port| !is.ports.contains(port))
    }

    /// Whether no pod is left.
    pub fn is_empty(&self) -> bool {
        self.pods == 0
    }

    /// GPUs that a device plugin gave to pods of others.
    pub fn plugin_gpus(&self) -> i64 {
        self.plugin_gpus
    }

    /// What is used.
    pub fn amounts(&self) -> &Amounts {
        &self.amounts
    }

    pub(super) fn fit(&self, node: &Node, wanted: &Amounts) -> Vec<Reason> {
        let mut reasons = Vec::new();
        if self.pods + 1 > node.pods {
            reasons.push(Reason::new("NodeResourcesFit", "1 Too many pods"));
        }
        for (name, amount) in wanted.iter().filter(|(_, amount)| *amount > 0) {
            if self.amounts.get(name).saturating_add(amount) > node.allocatable.get(name) {
                reasons.push(Reason::new("NodeResourcesFit", format!("1 Insufficient {name}")));
            }
        }
        reasons
    }

    pub(super) fn takes_port(&self, ports: &[Port]) -> bool {
        ports.iter().any(|port| self.ports.iter().any(|(_, taken)| taken.conflicts(port)))
    }
}
