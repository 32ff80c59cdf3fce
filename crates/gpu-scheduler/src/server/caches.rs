//! The watches, and how what they see reaches the core.

use std::sync::Arc;

use engine::Scope;
use engine::cache::{Cache, Change, Selection};
use engine::client::Client;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::core::{Core, Time};
use crate::view::{ClaimView, ClassView, NodeView, PodView, VolumeView};

/// Something that a watch saw.
#[derive(Debug)]
pub(super) enum News {
    Pod(Change<PodView>),
    Node(Change<NodeView>),
    Claim(Change<ClaimView>),
    Volume(Change<VolumeView>),
    Class(Change<ClassView>),
}

impl News {
    /// Tells the core.
    pub(super) fn tell(self, core: &mut Core, now: Time) {
        match self {
            Self::Pod(change) => {
                let after = change.after.as_ref().map(|view| &view.facts);
                let before = change.before.as_ref().map(|view| &view.facts.uid);
                // One of the same name that came while we did not look is another pod.
                if let Some(uid) = before.filter(|uid| after.is_none_or(|after| after.uid != **uid)) {
                    core.remove_pod(uid, now);
                }
                if let Some(pod) = after {
                    core.set_pod(Arc::clone(pod), now);
                }
            }
            Self::Node(change) => match &change.after {
                Some(view) => core.set_node(Arc::clone(&view.facts), now),
                None => core.remove_node(&change.key.name, now),
            },
            Self::Claim(change) => {
                let claim = change.after.map(|view| Arc::clone(&view.facts));
                core.set_claim(&change.key.namespace, &change.key.name, claim, now);
            }
            Self::Volume(change) => {
                let volume = change.after.map(|view| Arc::clone(&view.facts));
                core.set_volume(&change.key.name, volume, now);
            }
            Self::Class(change) => {
                core.set_class(&change.key.name, change.after.map(|view| *view.facts), now);
            }
        }
    }
}

/// The watches.
pub(super) struct Caches {
    pub(super) pods: Cache<PodView>,
    nodes: Cache<NodeView>,
    pub(super) claims: Cache<ClaimView>,
    volumes: Cache<VolumeView>,
    classes: Cache<ClassView>,
}

impl Caches {
    /// Starts watching; what is seen comes out of `news`.
    pub(super) fn start(
        client: &Client,
        news: &mpsc::UnboundedSender<News>,
        stop: &CancellationToken,
    ) -> Self {
        let caches = Self {
            pods: Cache::start(client, Selection::all(Scope::All), stop),
            nodes: Cache::start_cluster_scoped(client, Selection::all(Scope::All), stop),
            claims: Cache::start(client, Selection::all(Scope::All), stop),
            volumes: Cache::start_cluster_scoped(client, Selection::all(Scope::All), stop),
            classes: Cache::start_cluster_scoped(client, Selection::all(Scope::All), stop),
        };
        // Nobody listens at the end of the process.
        macro_rules! pass_on {
            ($cache:ident, $kind:ident) => {
                let sender = news.clone();
                caches.$cache.subscribe(move |change| drop(sender.send(News::$kind(change.clone()))));
            };
        }
        pass_on!(pods, Pod);
        pass_on!(nodes, Node);
        pass_on!(claims, Claim);
        pass_on!(volumes, Volume);
        pass_on!(classes, Class);
        caches
    }

    /// Waits for the first lists. What they brought is among the news then.
    pub(super) async fn ready(&self) {
        tokio::join!(
            self.pods.ready(),
            self.nodes.ready(),
            self.claims.ready(),
            self.volumes.ready(),
            self.classes.ready()
        );
    }
}
