//! Certificates of an authority of our own, kept in a Secret that all replicas share.
//!
//! Whichever replica gets there first takes a step: each write carries the version it is based on, and the others find the
//! result in the watch.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::StreamExt as _;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Api, ObjectMeta, PostParams};
use kube::{Client, ResourceExt as _};
use tokio::sync::watch;

use super::certificate::Bundle;
use super::material::Material;
use super::pki::PkiError;
use super::rotation::{Content, Plan, Policy, Step};
use crate::apply::MANAGED_BY_LABEL;
use crate::error::chain;
use crate::follow::follow;
use crate::key::Key;

/// After a step that failed.
const RETRY: Duration = Duration::from_secs(5);
/// Timers do not run while a machine sleeps: look at the clock now and then.
const LONGEST_NAP: Duration = Duration::from_secs(600);

/// Keeps the Secret.
pub(super) struct OwnAuthority {
    pub(super) client: Client,
    pub(super) manager: String,
    pub(super) secret: Key,
    pub(super) policy: Policy,
    pub(super) grace: Duration,
}

#[derive(Debug, thiserror::Error)]
enum StepError {
    #[error(transparent)]
    Pki(#[from] PkiError),
    #[error("the Secret cannot be written")]
    Write(#[from] kube::Error),
}

impl OwnAuthority {
    /// Brings each version of the Secret to `materials`, and keeps it current. Never ends.
    pub(super) async fn run(
        self,
        materials: watch::Sender<Option<Material>>,
        mut published: watch::Receiver<Option<Bundle>>,
    ) {
        let api: Api<Secret> = Api::namespaced(self.client.clone(), &self.secret.namespace);
        let mut changes = std::pin::pin!(follow(api.clone(), &self.secret.name));
        // Not known yet, which is not the same as not there.
        let mut secret: Option<Option<Secret>> = None;
        loop {
            let mut nap = LONGEST_NAP;
            if let Some(known) = &secret {
                let data = known.as_ref().and_then(|secret| secret.data.clone()).unwrap_or_default();
                super::bring(&materials, &self.secret, &data, false);
                let content = Content::read(&data);
                let is_published =
                    published.borrow_and_update().as_ref().is_some_and(|all| all.includes(content.bundle()));
                let now = Timestamp::now();
                match content.plan(&self.policy, self.grace, is_published, now) {
                    Plan::Later(at) => {
                        // A tick more, so that the clock is past it and not just before.
                        let left = Duration::try_from(at.duration_since(now)).unwrap_or_default();
                        nap = nap.min(left + Duration::from_millis(10));
                    }
                    Plan::Now(step) => match self.write(&api, known.as_ref(), &content, step, now).await {
                        Ok(Some(written)) => {
                            secret = Some(Some(written));
                            continue;
                        }
                        // Somebody was faster; the watch brings what they wrote.
                        Ok(None) => nap = RETRY,
                        Err(error) => {
                            tracing::warn!(secret = %self.secret, ?step, error = %chain(&error), "certificates could not be renewed; trying again");
                            nap = RETRY;
                        }
                    },
                }
            }
            tokio::select! {
                Some(change) = changes.next() => secret = Some(change),
                Ok(()) = published.changed() => {}
                () = tokio::time::sleep(nap) => {}
            }
        }
    }

    /// Takes a step; none if another replica was faster.
    async fn write(
        &self,
        api: &Api<Secret>,
        known: Option<&Secret>,
        content: &Content,
        step: Step,
        now: Timestamp,
    ) -> Result<Option<Secret>, StepError> {
        let mut next = known.cloned().unwrap_or_else(|| self.empty());
        content.take(step, &self.policy, next.data.get_or_insert_default(), now)?;
        let params = PostParams { field_manager: Some(self.manager.clone()), ..PostParams::default() };
        let written = if known.is_some() {
            api.replace(&self.secret.name, &params, &next).await
        } else {
            api.create(&params, &next).await
        };
        match written {
            Ok(written) => {
                tracing::info!(secret = %self.secret, ?step, version = written.resource_version(), "certificates changed");
                Ok(Some(written))
            }
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    fn empty(&self) -> Secret {
        Secret {
            metadata: ObjectMeta {
                name: Some(self.secret.name.to_string()),
                namespace: Some(self.secret.namespace.to_string()),
                labels: Some(BTreeMap::from([(MANAGED_BY_LABEL.to_string(), self.manager.clone())])),
                ..ObjectMeta::default()
            },
            type_: Some("kubernetes.io/tls".into()),
            ..Secret::default()
        }
    }
}
