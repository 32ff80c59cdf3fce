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
pub(crate) struct Served {
    key: ArcSwapOption<CertifiedKey>,
}

impl ResolvesServerCert for Served {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.key.load_full()
    }
}

impl Served {
    /// Gives this one to new connections.
    pub(crate) fn show(&self, key: Arc<CertifiedKey>) {
        self.key.store(Some(key));
    }

    /// The one that new connections get.
    #[cfg(test)]
    pub(crate) fn shown(&self) -> Option<Arc<CertifiedKey>> {
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
        self.served.show(Arc::clone(material.key()));
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

#[cfg(test)]
mod tests {
    use super::super::rotation::{Content, Data, Policy, Step};
    use super::*;

    /// A certificate of a new authority.
    fn material(lifetime: u64) -> Material {
        let mut data = Data::new();
        let lifetime = Duration::from_secs(lifetime);
        let policy = Policy {
            authority_lifetime: lifetime,
            serving_lifetime: lifetime,
            ..Policy::for_names(vec!["a.b.svc".into()])
        };
        Content::read(&data).take(Step::Start, &policy, &mut data, Timestamp::now()).unwrap();
        Material::read(&data).unwrap()
    }

    struct Parts {
        served: Arc<Served>,
        materials: watch::Sender<Option<Material>>,
        wanted: watch::Receiver<Option<Bundle>>,
        published: watch::Sender<Option<Bundle>>,
    }

    impl Parts {
        /// A presenter that serves `first`, whose authority is published.
        async fn serving(first: &Material) -> Self {
            let served = Arc::new(Served::default());
            let presenter = Presenter {
                served: Arc::clone(&served),
                ready: watch::Sender::new(false),
                metrics: AdmissionMetrics::default(),
                grace: Duration::from_secs(60),
            };
            let (materials, to_present) = watch::channel(Some(first.clone()));
            let (wants, wanted) = watch::channel(None);
            let (published, is_published) = watch::channel(first.bundle().cloned());
            tokio::spawn(presenter.run(to_present, wants, is_published));
            let parts = Self { served, materials, wanted, published };
            assert!(parts.serves(first, 1).await, "the first certificate is served at once");
            parts
        }

        /// Whether `material` is served some seconds later.
        async fn serves(&self, material: &Material, seconds: u64) -> bool {
            tokio::time::sleep(Duration::from_secs(seconds)).await;
            self.served.key.load_full().is_some_and(|key| Arc::ptr_eq(&key, material.key()))
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_certificate_of_a_new_authority_is_served_when_it_is_published_and_has_settled() {
        let (old, new) = (material(1000), material(1000));
        let parts = Parts::serving(&old).await;
        parts.materials.send_replace(Some(new.clone()));
        assert!(parts.serves(&old, 100).await, "not published");
        let both = old.bundle().unwrap().union(new.bundle().unwrap());
        assert_eq!(parts.wanted.borrow().as_ref(), Some(&both), "both are wanted until then");
        parts.published.send_replace(Some(both));
        assert!(parts.serves(&old, 9).await, "not settled");
        assert!(parts.serves(&new, 2).await);
        assert_eq!(parts.wanted.borrow().as_ref(), new.bundle(), "the old one is not wanted any more");
    }

    #[tokio::test(start_paused = true)]
    async fn a_new_certificate_does_not_wait_longer_than_the_old_one_works() {
        let (old, new) = (material(50), material(1000));
        let parts = Parts::serving(&old).await;
        parts.materials.send_replace(Some(new.clone()));
        assert!(parts.serves(&old, 40).await);
        assert!(parts.serves(&new, 11).await);
    }

    #[tokio::test(start_paused = true)]
    async fn what_waits_gives_way_to_something_newer() {
        let (old, skipped, new) = (material(1000), material(1000), material(1000));
        let parts = Parts::serving(&old).await;
        parts.materials.send_replace(Some(skipped.clone()));
        assert!(parts.serves(&old, 5).await);
        parts.materials.send_replace(Some(new.clone()));
        parts.published.send_replace(Some(skipped.bundle().unwrap().union(new.bundle().unwrap())));
        assert!(parts.serves(&new, 11).await);
    }
}
