//! Certificates from cert-manager: an Issuer that signs itself, and a Certificate, both kept by server-side apply.

use std::net::IpAddr;
use std::time::Duration;

use futures::StreamExt as _;
use kube::Client;
use kube::api::{Api, DynamicObject, Patch, PatchParams};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::apply::{Kind, MANAGED_BY_LABEL};
use crate::error::chain;
use crate::follow::follow;
use crate::key::Key;

/// After a write that failed; also how soon a newly installed cert-manager is noticed.
const RETRY: Duration = Duration::from_secs(10);

/// Keeps the two objects. cert-manager answers with a Secret.
pub(super) struct CertManager {
    pub(super) client: Client,
    pub(super) manager: String,
    /// The Secret that cert-manager writes; Issuer and Certificate have its name.
    pub(super) secret: Key,
    pub(super) names: Vec<String>,
}

fn kind(kind: &str, plural: &str) -> Kind {
    Kind {
        group: "cert-manager.io".into(),
        version: "v1".into(),
        api_version: "cert-manager.io/v1".into(),
        kind: kind.into(),
        plural: plural.into(),
    }
}

impl CertManager {
    /// Issuer and Certificate as they should be.
    fn objects(&self) -> [(Kind, Value); 2] {
        let object = |kind: &Kind, spec: Value| {
            json!({
                "apiVersion": kind.api_version,
                "kind": kind.kind,
                "metadata": { "name": self.secret.name, "labels": { MANAGED_BY_LABEL: self.manager } },
                "spec": spec,
            })
        };
        let (issuer, certificate) = (kind("Issuer", "issuers"), kind("Certificate", "certificates"));
        let mut spec = json!({
            "secretName": self.secret.name,
            "issuerRef": { "name": self.secret.name, "kind": "Issuer", "group": "cert-manager.io" },
            "privateKey": { "algorithm": "ECDSA", "rotationPolicy": "Always" },
            "usages": ["digital signature", "server auth"],
        });
        // An address among the DNS names would be in the certificate, and no client would find it there.
        let (addresses, names): (Vec<_>, Vec<_>) =
            self.names.iter().partition(|name| name.parse::<IpAddr>().is_ok());
        for (field, values) in [("dnsNames", names), ("ipAddresses", addresses)] {
            if !values.is_empty() {
                spec[field] = json!(values);
            }
        }
        let bodies = (object(&issuer, json!({ "selfSigned": {} })), object(&certificate, spec));
        [(issuer, bodies.0), (certificate, bodies.1)]
    }

    /// Keeps both objects as they should be. Never ends.
    pub(super) async fn run(self) {
        let [issuer, certificate] = self.objects();
        tokio::join!(self.keep(&issuer), self.keep(&certificate));
    }

    async fn keep(&self, (kind, body): &(Kind, Value)) {
        let api: Api<DynamicObject> = Api::namespaced_with(self.client.clone(), &self.secret.namespace, kind);
        while !self.apply(&api, kind, body).await {
            tokio::time::sleep(RETRY).await;
        }
        let mut changes = std::pin::pin!(follow(api.clone(), &self.secret.name));
        let mut retry: Option<Instant> = None;
        loop {
            tokio::select! {
                Some(live) = changes.next() => {
                    if live.is_some_and(|live| live.data.get("spec").is_some_and(|spec| holds(spec, &body["spec"]))) {
                        retry = None;
                        continue;
                    }
                }
                () = super::sleep_until(retry) => {}
            }
            retry = (!self.apply(&api, kind, body).await).then(|| Instant::now() + RETRY);
        }
    }

    async fn apply(&self, api: &Api<DynamicObject>, kind: &Kind, body: &Value) -> bool {
        let params = PatchParams::apply(&self.manager).force();
        match api.patch(&self.secret.name, &params, &Patch::Apply(body)).await {
            Ok(_) => return true,
            Err(kube::Error::Api(status)) if status.code == 404 => {
                tracing::warn!(kind = kind.kind, secret = %self.secret, "the API server does not serve cert-manager.io/v1: install cert-manager, or choose another source of certificates");
            }
            Err(error) => {
                tracing::warn!(kind = kind.kind, secret = %self.secret, error = %chain(&error), "cert-manager's object could not be written; trying again");
            }
        }
        false
    }
}

/// Whether `live` has all that we want; what others added does not matter.
fn holds(live: &Value, wanted: &Value) -> bool {
    match (live, wanted) {
        (Value::Object(live), Value::Object(wanted)) => {
            wanted.iter().all(|(name, wanted)| live.get(name).is_some_and(|live| holds(live, wanted)))
        }
        _ => live == wanted,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_added_is_no_reason_to_write() {
        let wanted =
            json!({ "secretName": "s", "privateKey": { "algorithm": "ECDSA" }, "usages": ["server auth"] });
        let mut live = wanted.clone();
        live["duration"] = json!("2160h");
        live["privateKey"]["encoding"] = json!("PKCS1");
        assert!(holds(&live, &wanted));
        live["usages"] = json!(["server auth", "client auth"]);
        assert!(!holds(&live, &wanted), "lists are ours as a whole");
    }
}
