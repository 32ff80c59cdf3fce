//! Serves the newest certificate as soon as the API server trusts it.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwapOption;
use jiff::Timestamp;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use tokio::sync::watch;

use super::certificate::Bundle;
use super::material::Material;
use super::metrics::AdmissionMetrics;

/// From the moment the configurations trust a new authority until every API server has noticed.
const LONGEST_SETTLE: Duration = Duration::from_secs(10);

/// The certificate that new connections get.
#[derive(Debug, Default)]
pub(super) struct Served {
    key: ArcSwapOption<CertifiedKey>,
}

impl ResolvesServerCert for Served {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.key.load_full()
    }
}

/// Hands what a source brings to the publisher and to the server, in this order.
pub(super) struct Presenter {
    pub(super) served: Arc<Served>,
    pub(super) ready: watch::Sender<bool>,
    pub(super) metrics: AdmissionMetrics,
    pub(super) grace: Duration,
}

impl Presenter {
    /// Runs until the source is gone.
    pub(super) async fn run(
        self,
        mut materials: watch::Receiver<Option<Material>>,
        wanted: watch::Sender<Option<Bundle>>,
        mut published: watch::Receiver<Option<Bundle>>,
    ) {
        let mut current: Option<Material> = None;
        loop {
            let next = materials.borrow_and_update().clone();
            if let Some(next) = next {
                // Both, until the old certificate is served no more.
                want(&wanted, together(current.as_ref().and_then(Material::bundle), next.bundle()));
                tokio::select! {
                    () = self.wait_until_trusted(current.as_ref(), &next, &mut published) => {}
                    // Something newer has come, and takes the place of what waits.
                    changed = materials.changed() => match changed {
                        Ok(()) => continue,
                        Err(_) => return,
                    },
                }
                want(&wanted, next.bundle().cloned());
                if current.as_ref().is_none_or(|current| current.certificate() != next.certificate()) {
                    self.serve(&next);
                }
                current = Some(next);
            }
            if materials.changed().await.is_err() {
                return;
            }
        }
    }

    /// While there is an old certificate that still works, the new one waits for its authority to be published.
    async fn wait_until_trusted(
        &self,
        current: Option<&Material>,
        next: &Material,
        published: &mut watch::Receiver<Option<Bundle>>,
    ) {
        let (Some(current), Some(bundle)) = (current, next.bundle()) else { return };
        if current.is_trusted_like(next) {
            return;
        }
        let trusts = |published: &Option<Bundle>| {
            published.as_ref().is_some_and(|published| published.includes(bundle))
        };
        // Published in good time, as a step of its own.
        let announced = current.bundle().is_some_and(|known| known.includes(bundle));
        if announced && trusts(&published.borrow_and_update()) {
            return;
        }
        let left = current.certificate().not_after.duration_since(Timestamp::now());
        let left = Duration::try_from(left).unwrap_or_default();
        let trusted = async {
            if published.wait_for(trusts).await.is_ok() {
                tokio::time::sleep(self.grace.min(LONGEST_SETTLE)).await;
            }
        };
        if tokio::time::timeout(left, trusted).await.is_err() {
            tracing::warn!(
                "a new certificate is served although its authority could not be published: the old one expired"
            );
        }
    }

    fn serve(&self, material: &Material) {
        self.served.key.store(Some(Arc::clone(material.key())));
        let expires = material.certificate().not_after;
        self.metrics.expires(expires);
        self.ready.send_if_modified(|ready| !std::mem::replace(ready, true));
        if material.is_valid(Timestamp::now()) {
            tracing::info!(%expires, "serving a certificate");
        } else {
            tracing::warn!(%expires, "serving a certificate that has expired: replace it");
        }
    }
}

fn want(wanted: &watch::Sender<Option<Bundle>>, bundle: Option<Bundle>) {
    wanted.send_if_modified(|known| {
        let changed = *known != bundle;
        *known = bundle;
        changed
    });
}

fn together(old: Option<&Bundle>, new: Option<&Bundle>) -> Option<Bundle> {
    match (old, new) {
        (Some(old), Some(new)) => Some(old.union(new)),
        // Without authorities of its own, a Secret leaves the configurations alone.
        (_, new) => new.cloned(),
    }
}
