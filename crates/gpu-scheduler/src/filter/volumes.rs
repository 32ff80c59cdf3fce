//! Whether the volumes of a pod can be used on a node.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use super::Reason;
use crate::facts::{Claim, Class, Node, Pod, Uid, Volume};

const PLUGIN: &str = "VolumeBinding";

/// What of volumes a pod waits for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum WaitsFor {
    Claim(Arc<str>),
    Volume(Arc<str>),
    Class(Arc<str>),
}

/// What is known of volumes. Claims go by `namespace/name`.
#[derive(Debug, Default)]
pub(crate) struct Volumes {
    pub(crate) claims: HashMap<Arc<str>, Arc<Claim>>,
    pub(crate) volumes: HashMap<Arc<str>, Arc<Volume>>,
    pub(crate) classes: HashMap<Arc<str>, Class>,
    /// The pods on nodes that use a claim.
    users: HashMap<Arc<str>, BTreeSet<Uid>>,
}

/// What became of a look at the volumes of a pod.
#[derive(Debug, Default)]
pub(crate) struct Look {
    pub(crate) reasons: Vec<Reason>,
    pub(crate) waits: Vec<WaitsFor>,
    /// Claims that are to be told the node, in the pod's namespace.
    pub(crate) select: Vec<Box<str>>,
}

impl Look {
    fn refuse(&mut self, text: impl Into<String>, waits: WaitsFor) {
        self.reasons.push(Reason::new(PLUGIN, text));
        self.waits.push(waits);
    }
}

impl Volumes {
    /// A pod came to a node.
    pub(crate) fn add_user(&mut self, pod: &Pod) {
        for name in pod.claims() {
            self.users.entry(key(pod, name)).or_default().insert(pod.uid.clone());
        }
    }

    /// A pod leaves its node; returns what somebody may have waited for.
    pub(crate) fn remove_user(&mut self, pod: &Pod) -> Vec<WaitsFor> {
        let mut left = Vec::new();
        for key in pod.claims().iter().map(|name| key(pod, name)) {
            if let Some(users) = self.users.get_mut(&key) {
                users.remove(&pod.uid);
                if users.is_empty() {
                    self.users.remove(&key);
                }
            }
            left.push(WaitsFor::Claim(key));
        }
        left
    }

    /// Whether no pod uses any claim.
    #[cfg(test)]
    pub(crate) fn is_unused(&self) -> bool {
        self.users.is_empty()
    }

    /// Looks at all claims of a pod.
    pub(crate) fn look(&self, pod: &Pod, node: &Node) -> Look {
        let mut look = Look::default();
        for name in pod.claims() {
            self.claim(pod, name, node, &mut look);
        }
        look
    }

    fn claim(&self, pod: &Pod, name: &str, node: &Node, look: &mut Look) {
        let key = key(pod, name);
        let waits = WaitsFor::Claim(Arc::clone(&key));
        let Some(claim) = self.claims.get(&key) else {
            return look.refuse(format!("persistentvolumeclaim \"{name}\" not found"), waits);
        };
        if claim.terminating {
            return look.refuse(format!("persistentvolumeclaim \"{name}\" is being deleted"), waits);
        }
        let others = || self.users.get(&key).is_some_and(|users| users.iter().any(|user| *user != pod.uid));
        if claim.one_pod && others() {
            return look.refuse(
                format!("persistentvolumeclaim \"{name}\" is for one pod (ReadWriteOncePod), and another one uses it"),
                waits,
            );
        }
        if let Some(volume) = &claim.volume {
            // A claim that is bound stays so; its volume may still be unknown.
            return match self.volumes.get(&**volume) {
                Some(known) if known.0.as_ref().is_none_or(|selector| selector.matches(node)) => {}
                Some(_) => look.refuse(
                    "1 node(s) didn't match PersistentVolume's node affinity",
                    WaitsFor::Volume((&**volume).into()),
                ),
                None => look.refuse(
                    format!("persistentvolume \"{volume}\" not found"),
                    WaitsFor::Volume((&**volume).into()),
                ),
            };
        }
        let class = claim.class.as_deref().unwrap_or_default();
        match self.classes.get(class) {
            Some(known) if known.waits && known.provisions => {
                if claim.selected_node.as_deref() != Some(&*node.name) {
                    look.select.push(name.into());
                }
                look.refuse(format!("waiting for a volume of persistentvolumeclaim \"{name}\" on the node"), waits);
            }
            Some(known) if known.waits => look.refuse(
                format!(
                    "persistentvolumeclaim \"{name}\" is not bound, and nobody makes volumes of its class {class}; bind it to \
                     a volume first"
                ),
                waits,
            ),
            Some(_) => look.refuse("pod has unbound immediate PersistentVolumeClaims", waits),
            None => {
                look.refuse("pod has unbound immediate PersistentVolumeClaims", waits);
                if !class.is_empty() {
                    look.waits.push(WaitsFor::Class(class.into()));
                }
            }
        }
    }
}

fn key(pod: &Pod, claim: &str) -> Arc<str> {
    format!("{}/{claim}", pod.namespace).into()
}
