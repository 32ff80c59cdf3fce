//! Whether the volumes of a pod can be used on a node.

use std::collections::HashMap;
use std::sync::Arc;

use super::Reason;
use crate::facts::{Ask, Claim, Class, Node, Volume};

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
    /// Looks at all claims of a pod.
    pub(crate) fn look(&self, namespace: &str, ask: &Ask, node: &Node) -> Look {
        let mut look = Look::default();
        for name in &ask.claims {
            self.claim(namespace, name, node, &mut look);
        }
        look
    }

    fn claim(&self, namespace: &str, name: &str, node: &Node, look: &mut Look) {
        let key: Arc<str> = format!("{namespace}/{name}").into();
        let waits = WaitsFor::Claim(Arc::clone(&key));
        let Some(claim) = self.claims.get(&key) else {
            return look.refuse(format!("persistentvolumeclaim \"{name}\" not found"), waits);
        };
        if claim.terminating {
            return look.refuse(format!("persistentvolumeclaim \"{name}\" is being deleted"), waits);
        }
        // Which pods use a claim is not known here, and kubelet would refuse the second one for ever.
        if claim.one_pod {
            return look.refuse(
                format!(
                    "persistentvolumeclaim \"{name}\" has the access mode ReadWriteOncePod, which this scheduler does not \
                     support; use ReadWriteOnce"
                ),
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
