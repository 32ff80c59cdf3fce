//! The scheduler without I/O: what happens in the cluster goes in, decisions come out.
//!
//! It is told of every pod, node and volume, and of what became of its own binds. It never asks, waits or looks at a clock.

mod decide;
mod gang;
mod key;
mod maps;
mod message;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use crate::facts::{Claim, Class, Name, Node, Phase, Pod, Told, Uid, Volume};
use crate::filter::{Usage, Volumes, WaitsFor};
use crate::ledger::{Grant, Ledger, granted};
use crate::map::Mode;
use crate::names;
use crate::nodes::Nodes;
pub use crate::queue::Time;
use crate::queue::{Counts, Incoming, Queue};
pub use decide::DEVICE_CONFLICT;
use key::Key;
use maps::Maps;

/// How the scheduler works.
#[derive(Clone, Debug)]
pub struct Options {
    /// The name by which pods ask for it.
    pub scheduler: String,
    /// The label that maps may call nodes by.
    pub node_label: String,
    /// How maps are read.
    pub mode: Mode,
    /// Whether nodes with a device plugin for GPUs are refused.
    pub strict: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            scheduler: names::SCHEDULER.into(),
            node_label: names::NODE_NAME_LABEL.into(),
            mode: Mode::Strict,
            strict: false,
        }
    }
}

/// A pod that is to be bound.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assignment {
    /// Which pod.
    pub pod: Arc<Pod>,
    /// To which node.
    pub node: Name,
    /// The annotation with its devices.
    pub devices: String,
    /// The annotation with those that it shares; none if there are none.
    pub shared: Option<String>,
    /// The hash of its map.
    pub map_hash: String,
    /// What its owner should know, although it is placed.
    pub warning: Option<String>,
    /// How often it was tried, with this time.
    pub attempts: u32,
    /// When it came.
    pub since: Time,
}

/// A pod that cannot be placed now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Which pod.
    pub pod: Arc<Pod>,
    /// Which filters said no.
    pub plugins: Vec<&'static str>,
    /// Why.
    pub message: String,
    /// Whether its condition does not say so yet.
    pub news: bool,
}

/// A pod that has its place, and could not be bound.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trouble {
    /// Which pod.
    pub pod: Arc<Pod>,
    /// A word.
    pub reason: &'static str,
    /// Why.
    pub message: String,
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Bind a pod.
    Bind(Assignment),
    /// Tell why a pod cannot be placed.
    Refuse(Refusal),
    /// Ask for volumes of these claims of the pod on the node.
    Select {
        /// The pod.
        pod: Arc<Pod>,
        /// The node.
        node: Name,
        /// The names of the claims.
        claims: Vec<Box<str>>,
    },
}

/// Why a pod was not bound.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BindError {
    /// It is gone, or it is another one now.
    Gone,
    /// It is not as it was, or the server does not want it now; to be tried again after at least this time.
    Again(Duration),
}

/// What is held for a pod that is being bound.
#[derive(Clone, Debug)]
struct Assumed {
    node: Name,
    pod: Arc<Pod>,
}

/// The scheduler.
#[derive(Debug)]
pub struct Core {
    options: Options,
    nodes: Nodes,
    usage: HashMap<Name, Usage>,
    pods: HashMap<Uid, Arc<Pod>>,
    assumed: HashMap<Uid, Assumed>,
    ledger: Ledger,
    queue: Queue<Key>,
    volumes: Volumes,
    maps: Maps,
    gangs: HashMap<Arc<str>, BTreeMap<u32, BTreeSet<Uid>>>,
    /// What was said of pods whose condition does not show it yet.
    said: HashMap<Uid, Box<Told>>,
    gated: BTreeSet<Uid>,
}

impl Core {
    /// A scheduler that knows nothing yet.
    pub fn new(options: Options) -> Self {
        Self {
            nodes: Nodes::new(&options.node_label),
            maps: Maps::new(options.mode),
            options,
            usage: HashMap::new(),
            pods: HashMap::new(),
            assumed: HashMap::new(),
            ledger: Ledger::default(),
            queue: Queue::default(),
            volumes: Volumes::default(),
            gangs: HashMap::new(),
            said: HashMap::new(),
            gated: BTreeSet::new(),
        }
    }

    /// A node is new or has changed.
    pub fn set_node(&mut self, node: Arc<Node>, now: Time) {
        let name = node.name.clone();
        let calls = self.nodes.set(node);
        if !calls.is_empty() {
            self.wake(&Key::Room(name), now);
        }
        self.wake_calls(calls, now);
    }

    /// A node is gone.
    pub fn remove_node(&mut self, name: &str, now: Time) {
        let calls = self.nodes.remove(name);
        self.wake_calls(calls, now);
    }

    /// Something changed: whoever waits for it is tried again.
    fn wake(&mut self, key: &Key, now: Time) {
        self.queue.wake(key, key.event(), now);
    }

    fn wake_calls(&mut self, calls: Vec<Name>, now: Time) {
        for call in calls {
            self.wake(&Key::Node(call), now);
        }
    }

    /// A claim is new or has changed; none if it is gone.
    pub fn set_claim(&mut self, namespace: &str, name: &str, claim: Option<Arc<Claim>>, now: Time) {
        let key: Arc<str> = format!("{namespace}/{name}").into();
        match claim {
            Some(claim) => self.volumes.claims.insert(Arc::clone(&key), claim),
            None => self.volumes.claims.remove(&key),
        };
        self.wake(&Key::Volumes(WaitsFor::Claim(key)), now);
    }

    /// A volume is new or has changed; none if it is gone.
    pub fn set_volume(&mut self, name: &str, volume: Option<Arc<Volume>>, now: Time) {
        let key: Arc<str> = name.into();
        match volume {
            Some(volume) => self.volumes.volumes.insert(Arc::clone(&key), volume),
            None => self.volumes.volumes.remove(&key),
        };
        self.wake(&Key::Volumes(WaitsFor::Volume(key)), now);
    }

    /// A class of volumes is new or has changed; none if it is gone.
    pub fn set_class(&mut self, name: &str, class: Option<Class>, now: Time) {
        let key: Arc<str> = name.into();
        match class {
            Some(class) => self.volumes.classes.insert(Arc::clone(&key), class),
            None => self.volumes.classes.remove(&key),
        };
        self.wake(&Key::Volumes(WaitsFor::Class(key)), now);
    }

    /// A pod is new or has changed.
    pub fn set_pod(&mut self, pod: Arc<Pod>, now: Time) {
        let uid = pod.uid.clone();
        let before = self.pods.insert(uid.clone(), Arc::clone(&pod));
        if pod.told.is_some() && self.said.get(&uid).map(|said| &**said) == pod.told.as_deref() {
            self.said.remove(&uid);
        }
        let changed = before.as_ref().is_none_or(|before| before.differs(&pod));
        if !changed {
            return;
        }
        self.account(before.as_deref(), &pod, now);
        if before.as_ref().and_then(|before| before.member.as_ref()) != pod.member.as_ref() {
            self.leave_gang(before.as_deref(), now);
        }
        self.join_gang(&pod, now);
        match self.wants(&pod) {
            Some((priority, created)) => self.queue.put(&uid, priority, created, now),
            // One that is being bound stays with the binder until that is over, unless it shows that it is bound.
            None if self.assumed.contains_key(&uid) => {}
            None => {
                self.queue.remove(&uid);
                self.said.remove(&uid);
            }
        }
    }

    /// A pod is gone.
    pub fn remove_pod(&mut self, uid: &Uid, now: Time) {
        let Some(pod) = self.pods.remove(uid) else { return };
        if pod.holds() {
            self.free_room(&pod, pod.node.clone(), now);
        }
        self.forget(uid, now);
        self.release(uid, now);
        self.leave_gang(Some(&pod), now);
        self.queue.remove(uid);
        self.said.remove(uid);
        self.gated.remove(uid);
    }

    /// The priority and age of a pod that is ours to place; none if it is not.
    fn wants(&mut self, pod: &Pod) -> Option<(i32, i64)> {
        let ours = *pod.scheduler == *self.options.scheduler && !pod.terminating;
        let ask = pod.ask.as_ref().filter(|_| ours);
        if ask.is_some_and(|ask| ask.gated) {
            self.gated.insert(pod.uid.clone());
        } else {
            self.gated.remove(&pod.uid);
        }
        ask.filter(|ask| !ask.gated).map(|ask| (ask.priority, ask.created))
    }

    /// Notes what a pod uses now in place of what it used.
    fn account(&mut self, before: Option<&Pod>, pod: &Pod, now: Time) {
        let uid = &pod.uid;
        let before = before.filter(|before| before.holds());
        if !pod.holds() {
            if let Some(before) = before {
                self.free_room(before, before.node.clone(), now);
            }
        } else {
            // It uses the same as before in most cases: then nothing is free, and nobody is woken.
            let assumed = self.assumed.remove(uid);
            let was = before.map(|before| (before.node.clone(), before));
            let was = was.or_else(|| assumed.as_ref().map(|was| (Some(was.node.clone()), &*was.pod)));
            if let Some((Some(node), was)) = was {
                self.leave_room(was, &node);
                let foreign = self.is_foreign(was) && !self.is_foreign(pod);
                if pod.node.as_ref() != Some(&node) || foreign || Usage::frees(was, pod) {
                    self.wake(&Key::Room(node), now);
                }
            }
            if let Some(node) = &pod.node {
                self.take_room(pod, node);
                // Only our own word counts: anybody could write the annotation on a pod of another scheduler.
                let devices = pod.devices.as_deref().filter(|_| *pod.scheduler == *self.options.scheduler);
                let claims =
                    devices.map(|devices| granted(devices, pod.shared.as_deref())).unwrap_or_default();
                let lost = self.ledger.record(uid, Grant { node: node.clone(), claims });
                self.wake_devices(lost, now);
            }
            self.queue.remove(uid);
        }
        if pod.phase == Phase::Ended {
            self.forget(uid, now);
            self.release(uid, now);
        }
    }

    /// Whether the GPUs that a device plugin gave to a pod are not those of a map. Only our own word for that counts.
    fn is_foreign(&self, pod: &Pod) -> bool {
        let ours = pod.devices.is_some() && *pod.scheduler == *self.options.scheduler;
        pod.ask.is_none() && !ours
    }

    /// A pod uses a node.
    fn take_room(&mut self, pod: &Pod, node: &Name) {
        let foreign = self.is_foreign(pod);
        self.usage.entry(node.clone()).or_default().add(pod, foreign);
        self.volumes.add_user(pod);
    }

    /// A pod does not use a node any more. Returns the claims that it used.
    fn leave_room(&mut self, pod: &Pod, node: &Name) -> Vec<WaitsFor> {
        let foreign = self.is_foreign(pod);
        if let Some(usage) = self.usage.get_mut(node) {
            usage.remove(pod, foreign);
            if usage.is_empty() {
                self.usage.remove(node);
            }
        }
        self.volumes.remove_user(pod)
    }

    fn free_room(&mut self, pod: &Pod, node: Option<Name>, now: Time) {
        let Some(node) = node else { return };
        for claim in self.leave_room(pod, &node) {
            self.wake(&Key::Volumes(claim), now);
        }
        self.wake(&Key::Room(node), now);
    }

    fn release(&mut self, uid: &Uid, now: Time) {
        let lost = self.ledger.release(uid);
        self.wake_devices(lost, now);
    }

    fn wake_devices(&mut self, lost: Option<Grant>, now: Time) {
        let Some(grant) = lost else { return };
        for claim in &grant.claims {
            self.wake(&Key::Device(grant.node.clone(), claim.device.clone()), now);
        }
        self.wake(&Key::Room(grant.node), now);
    }

    /// Frees the room that is held for a pod, but not its devices.
    fn forget_room(&mut self, uid: &Uid, now: Time) {
        if let Some(assumed) = self.assumed.remove(uid) {
            self.free_room(&assumed.pod, Some(assumed.node), now);
        }
    }

    /// Frees all that is held for a pod that is being bound.
    fn forget(&mut self, uid: &Uid, now: Time) {
        if self.assumed.contains_key(uid) {
            self.forget_room(uid, now);
            self.release(uid, now);
        }
    }

    /// Takes back what was held a moment ago. Nobody is woken: everything is as it was when they were looked at.
    fn take_back(&mut self, uid: &Uid) {
        let Some(assumed) = self.assumed.remove(uid) else { return };
        self.ledger.release(uid);
        self.leave_room(&assumed.pod, &assumed.node);
    }

    /// A pod was not bound. What was held for it is free again.
    pub fn bind_failed(&mut self, uid: &Uid, error: &BindError, now: Time) {
        self.forget(uid, now);
        let wants = self.pods.get(uid).cloned().and_then(|pod| self.wants(&pod));
        match (wants, error) {
            (Some(_), BindError::Again(wait)) => self.queue.retry(uid, *wait, now),
            // The watch will tell.
            (Some(_), BindError::Gone) => self.queue.retry(uid, Duration::ZERO, now),
            (None, _) => self.queue.remove(uid),
        }
    }

    /// The condition of a pod could not be written; it is told again when it is tried again.
    pub fn not_told(&mut self, uid: &Uid) {
        self.said.remove(uid);
    }

    /// Whether a pod of this uid is known and waits to be bound by us.
    pub fn is_assumed(&self, uid: &Uid) -> bool {
        self.assumed.contains_key(uid)
    }

    /// When something is due, if nothing happens before.
    pub fn next_time(&self) -> Option<Time> {
        self.queue.next_time()
    }

    /// Whether there is a pod to decide about.
    pub fn has_work(&mut self, now: Time) -> bool {
        self.queue.has_active(now)
    }

    /// How many pods wait, and where.
    pub fn counts(&self) -> Counts {
        self.queue.counts()
    }

    /// How many pods came into which part of the queue since the beginning, by what brought them there.
    pub fn incoming(&self) -> &BTreeMap<Incoming, u64> {
        self.queue.incoming()
    }

    /// How many pods wait, by the filters that said no.
    pub fn refused(&self) -> &BTreeMap<&'static str, usize> {
        self.queue.refused()
    }

    /// How many pods wait for their gates.
    pub fn gated(&self) -> usize {
        self.gated.len()
    }

    /// How many pods, nodes and pods being bound are known.
    pub fn sizes(&self) -> (usize, usize, usize) {
        (self.pods.len(), self.nodes.len(), self.assumed.len())
    }

    /// Who has which device.
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// The nodes.
    pub fn nodes(&self) -> &Nodes {
        &self.nodes
    }

    /// A pod.
    pub fn pod(&self, uid: &Uid) -> Option<&Arc<Pod>> {
        self.pods.get(uid)
    }
}

#[cfg(test)]
mod tests;
