//! Certificates from a Secret that somebody else writes: the user, or cert-manager.

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::Secret;
use kube::Client;
use kube::api::Api;
use tokio::sync::watch;

use super::material::Material;
use crate::follow::follow;
use crate::key::Key;

/// Brings each version of the Secret to `materials`. Never ends.
pub(super) async fn run(client: Client, secret: Key, materials: watch::Sender<Option<Material>>) {
    let api: Api<Secret> = Api::namespaced(client, &secret.namespace);
    let mut changes = std::pin::pin!(follow(api, &secret.name));
    while let Some(change) = changes.next().await {
        match change {
            Some(object) => super::bring(&materials, &secret, &object.data.unwrap_or_default(), true),
            None => {
                tracing::warn!(%secret, "the Secret with the admission certificate does not exist (yet); it needs tls.crt, tls.key and ca.crt");
            }
        }
    }
}
