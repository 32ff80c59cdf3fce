//! Decisions: where a pod goes, or why it goes nowhere.

use std::sync::Arc;

use super::key::Key;
use super::maps::Read;
use super::{Assignment, Assumed, Core, Decision, Refusal, Time, Trouble, message};
use crate::facts::{Ask, Name, Node, Pod, Told, Uid};
use crate::filter::{self, Reason, Usage};
use crate::ledger::{Conflict, Grant, shared_annotation};
use crate::map::Entry;
use crate::names;
use crate::nodes::Found;

/// The reason that kube-scheduler gives where a pod has its place, but could not be bound.
const TROUBLE: &str = "SchedulerError";

/// The filter that says no to a device that another pod has.
pub const DEVICE_CONFLICT: &str = "DeviceConflict";

/// Where a pod can go.
pub(super) struct Place {
    read: Arc<Read>,
    index: u32,
    node: Arc<Node>,
    warning: Option<String>,
}

/// Why a pod can go nowhere, and what would change that.
pub(super) struct No {
    pub(super) plugins: Vec<&'static str>,
    pub(super) message: String,
    pub(super) keys: Vec<Key>,
    /// Claims that are to be told the node.
    select: Option<(Name, Vec<Box<str>>)>,
}

impl No {
    pub(super) fn new(plugin: &'static str, message: impl Into<String>, keys: Vec<Key>) -> Self {
        Self { plugins: vec![plugin], message: message::shorten(message.into()), keys, select: None }
    }
}

impl Core {
    /// Decides about the next pod, and with it about its whole gang. Returns whether there was one.
    pub fn decide(&mut self, now: Time, out: &mut Vec<Decision>) -> bool {
        let Some(uid) = self.queue.pop(now) else { return false };
        let Some(pod) = self.pods.get(&uid).cloned() else {
            self.queue.remove(&uid);
            return true;
        };
        if pod.member.is_some() {
            self.decide_gang(&pod, now, out);
            return true;
        }
        match self.place(&pod) {
            Ok(place) => out.push(Decision::Bind(self.assume(&pod, place))),
            Err(no) => self.refuse(&pod, *no, now, out),
        }
        true
    }

    /// Where a pod can go.
    pub(super) fn place(&mut self, pod: &Pod) -> Result<Place, Box<No>> {
        let Some(ask) = &pod.ask else {
            return Err(Box::new(No::new("Map", "the pod asks for nothing", Vec::new())));
        };
        let read = self.read(ask).map_err(|(plugin, text)| Box::new(No::new(plugin, text, Vec::new())))?;
        let (index, entry) =
            entry(ask, &read).map_err(|(plugin, text)| Box::new(No::new(plugin, text, Vec::new())))?;
        let called = || Key::Node(Name::from(&*entry.node));
        let node = match self.nodes.find(&entry.node) {
            Found::One(node) => Arc::clone(node),
            Found::None => {
                let text = format!(
                    "0/{} nodes are available: no node has the name {name}, or the label {}={name}, as the map says for index \
                     {index}.",
                    self.nodes.len(),
                    self.nodes.label(),
                    name = entry.node,
                );
                return Err(Box::new(No::new("NodeName", text, vec![called()])));
            }
            Found::Several(names) => {
                let text = format!(
                    "0/{} nodes are available: the map gives index {index} node {}, which is the label {} of {}; name one of \
                     them.",
                    self.nodes.len(),
                    entry.node,
                    self.nodes.label(),
                    names.join(", "),
                );
                return Err(Box::new(No::new("NodeName", text, vec![called()])));
            }
        };
        let mut no = No { plugins: Vec::new(), message: String::new(), keys: vec![called()], select: None };
        let mut reasons = filter::node(&node, ask);
        let empty = Usage::default();
        let usage = self.usage.get(&node.name).unwrap_or(&empty);
        let room = filter::room(&node, usage, pod);
        if !room.is_empty() {
            no.keys.push(Key::Room(node.name.clone()));
            reasons.extend(room);
        }
        let mut warning = None;
        if !entry.claims.is_empty() {
            let device = self.devices(pod, &node, entry, &mut no.keys);
            if device.is_empty() && usage.plugin_gpus() > 0 {
                warning = Some(format!(
                    "pods of other schedulers have {} GPUs of node {} from its device plugin, which does not know of maps: both \
                     may use the same card",
                    usage.plugin_gpus(),
                    node.name
                ));
            }
            reasons.extend(device);
        }
        let volumes = self.volumes.look(pod, &node);
        // A volume is asked for only where the pod can follow it.
        if reasons.is_empty() && !volumes.select.is_empty() {
            no.select = Some((node.name.clone(), volumes.select));
        }
        no.keys.extend(volumes.waits.into_iter().map(Key::Volumes));
        reasons.extend(volumes.reasons);
        if reasons.is_empty() {
            return Ok(Place { index, node, warning, read });
        }
        no.plugins = reasons.iter().map(|reason| reason.plugin).collect();
        no.plugins.dedup();
        no.message = message::refused(&node.name, &entry.node, index, &reasons);
        Err(Box::new(no))
    }

    /// The pod's map, or what keeps us from looking at it.
    fn read(&mut self, ask: &Ask) -> Result<Arc<Read>, (&'static str, String)> {
        if let [first, ..] = &*ask.unsupported {
            let text = format!(
                "{} does not support {}: remove it, or use another scheduler",
                self.options.scheduler,
                if ask.unsupported.len() > 1 { ask.unsupported.join(", ") } else { (*first).to_string() }
            );
            return Err(("Unsupported", text));
        }
        let Some(text) = &ask.map else {
            let text =
                format!("the annotation {} is missing: write a line such as 0=node1:0,1 into it", names::MAP);
            return Err(("Map", text));
        };
        let read = self.maps.read(text);
        match &read.map {
            Ok(_) => Ok(read),
            Err(error) => Err(("Map", format!("annotation {}: {error}", names::MAP))),
        }
    }

    /// What is said against the devices; and what to wait for then.
    fn devices(&self, pod: &Pod, node: &Node, entry: &Entry, keys: &mut Vec<Key>) -> Vec<Reason> {
        let usage = self.usage.get(&node.name);
        let new = entry
            .claims
            .iter()
            .filter(|claim| !self.ledger.devices(&node.name).any(|(device, _)| *device == claim.device));
        let ours = self.ledger.count(&node.name) + new.count();
        let empty = Usage::default();
        let mut reasons = filter::gpus(node, usage.unwrap_or(&empty), pod, ours, self.options.strict);
        if !reasons.is_empty() {
            keys.push(Key::Room(node.name.clone()));
        }
        if let Err(conflict) = self.ledger.check(&pod.uid, &node.name, &entry.claims) {
            let text = match conflict {
                Conflict::Held { device, by } => {
                    keys.push(Key::Device(node.name.clone(), device.clone()));
                    format!("1 node(s) had device {device} held by pod {}", self.name_of(&by))
                }
                Conflict::Full { device, most } => {
                    keys.push(Key::Device(node.name.clone(), device.clone()));
                    format!("1 node(s) had device {device} shared by {most} pods already")
                }
                Conflict::Naming { device, other } => {
                    keys.push(Key::Room(node.name.clone()));
                    format!(
                        "1 node(s) had devices held by {}, which device {device} could be one of; name devices of a node in \
                         one way",
                        other.word()
                    )
                }
            };
            reasons.push(Reason::new(DEVICE_CONFLICT, text));
        }
        reasons
    }

    fn name_of(&self, uid: &Uid) -> String {
        self.pods.get(uid).map_or_else(|| uid.to_string(), |pod| format!("{}/{}", pod.namespace, pod.name))
    }

    /// Holds everything for a pod that is to be bound.
    pub(super) fn assume(&mut self, pod: &Arc<Pod>, place: Place) -> Assignment {
        let Place { read, index, node, warning } = place;
        let entry = read.map.as_ref().ok().and_then(|map| map.entry(index));
        let claims = entry.map(|entry| entry.claims.clone()).unwrap_or_default();
        let assignment = Assignment {
            pod: Arc::clone(pod),
            node: node.name.clone(),
            devices: entry.map(Entry::visible_devices).unwrap_or_default().to_string(),
            shared: shared_annotation(&claims),
            map_hash: read.hash.clone(),
            warning,
            attempts: self.queue.attempts(&pod.uid),
            since: self.queue.since(&pod.uid).unwrap_or_default(),
        };
        self.ledger.record(&pod.uid, Grant { node: node.name.clone(), claims });
        self.take_room(pod, &node.name);
        self.assumed.insert(pod.uid.clone(), Assumed { node: node.name.clone(), pod: Arc::clone(pod) });
        assignment
    }

    /// Puts a pod aside until something changes, and tells why.
    pub(super) fn refuse(&mut self, pod: &Arc<Pod>, no: No, now: Time, out: &mut Vec<Decision>) {
        let No { plugins, message, keys, select } = no;
        self.queue.park(&pod.uid, keys, &plugins, now);
        if let Some((node, claims)) = select {
            out.push(Decision::Select { pod: Arc::clone(pod), node, claims });
        }
        let news = self.say(pod, "Unschedulable", &message);
        out.push(Decision::Refuse(Refusal { pod: Arc::clone(pod), plugins, message, news }));
    }
}

impl Core {
    /// Notes what is told of a pod. Returns whether that is news: its condition does not say so yet.
    fn say(&mut self, pod: &Pod, reason: &str, message: &str) -> bool {
        let told = Told { reason: reason.into(), message: message.into() };
        let known = self.said.get(&pod.uid).map(|said| &**said).or(pod.told.as_deref());
        let news = known != Some(&told);
        if news {
            self.said.insert(pod.uid.clone(), Box::new(told));
        }
        news
    }

    /// A bind did not do what it should, and the pod still waits for it. Returns what to tell, if that is news.
    pub fn bind_trouble(&mut self, uid: &Uid, text: String) -> Option<Trouble> {
        let pod = self.pods.get(uid).filter(|pod| pod.ask.is_some() && !pod.terminating).cloned()?;
        let message = message::shorten(text);
        self.say(&pod, TROUBLE, &message).then_some(Trouble { pod, reason: TROUBLE, message })
    }
}

/// The line of the map that is the pod's.
fn entry<'a>(ask: &Ask, read: &'a Read) -> Result<(u32, &'a Entry), (&'static str, String)> {
    let index = match &ask.index {
        Ok(index) => *index,
        Err(error) => return Err(("Index", error.to_string())),
    };
    let Ok(map) = &read.map else { return Err(("Map", "the map cannot be read".into())) };
    match map.entry(index) {
        Some(entry) => Ok((index, entry)),
        None => {
            let mut known: Vec<String> = map.entries().take(10).map(|(index, _)| index.to_string()).collect();
            if map.len() > known.len() {
                known.push("...".into());
            }
            let known = if known.is_empty() { "none".to_string() } else { known.join(", ") };
            Err(("Map", format!("annotation {} has no line for index {index}; it has {known}", names::MAP)))
        }
    }
}
