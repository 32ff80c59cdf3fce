//! The way to a cluster's slurmrestd for commands that people run: through the API server where it is a Service, so that
//! nothing has to be reachable from outside.

use std::time::Duration;

use api::slinky;
use engine::Key;
use engine::client::Client;
use engine::error::chain;
use engine::objects;
use engine::service_proxy::ServiceProxy;
use k8s_openapi::api::core::v1::{Secret, Service};
use render::{Defaults, GeneratedSecret, Names};
use slurm::{Key as SlurmKey, KeyKind};
use slurm_client::{KeySource, MintedToken, Server, Snapshot, StaticToken, Timeouts, TokenProvider};
use tempfile::TempDir;

/// Who asks. Slurm shows it in its logs.
const USER: &str = "root";
const ISSUER: &str = "soperator";
const TOKEN_LIFETIME: Duration = Duration::from_secs(300);
/// People wait for it.
const PATIENCE: Duration = Duration::from_secs(10);
/// Where the token is in the Secret of a Cluster of `slinky.slurm.net`.
const SLINKY_TOKEN: &str = "auth-token";

/// A way to a slurmrestd; it ends with this value.
pub(crate) struct SlurmAccess {
    client: slurm_client::Client,
    passage: Option<Passage>,
}

/// The way through the API server: a socket in a folder that only its owner can reach.
struct Passage {
    proxy: ServiceProxy,
    _folder: TempDir,
}

impl SlurmAccess {
    /// To the slurmrestd that the operator runs for a SlurmCluster, with a token made from the cluster's key.
    pub(crate) async fn of_slurm_cluster(
        client: &Client,
        namespace: &str,
        cluster: &str,
    ) -> Result<Self, String> {
        let names = Names::new(cluster, namespace, Defaults::default().cluster_domain);
        let jwt = Key::new(namespace, &names.rest_jwt_key());
        let secret: Secret = objects::get(client, &jwt)
            .await
            .map_err(|error| {
                format!("the Secret {jwt} with the key for its tokens cannot be read: {}", chain(&error))
            })?
            .ok_or_else(|| format!("the Secret {jwt} with the key for its tokens is not there yet"))?;
        let bytes = GeneratedSecret::Jwt.key().and_then(|name| secret.data.as_ref()?.get(name).cloned());
        let bytes = bytes.ok_or_else(|| format!("the Secret {jwt} holds no key for tokens"))?;
        let key =
            SlurmKey::from_bytes(KeyKind::Jwt, bytes.0).map_err(|error| format!("Secret {jwt}: {error}"))?;

        let service = Key::new(namespace, &names.rest_internal_service());
        let port = objects::get::<Service>(client, &service)
            .await
            .map_err(|error| chain(&error))?
            .and_then(|service| service.spec?.ports?.first().map(|port| port.port))
            .ok_or_else(|| format!("the Service {service} is not there yet"))?;
        let port = u16::try_from(port).map_err(|_| format!("the Service {service} has no usable port"))?;
        let tokens = MintedToken::new(KeySource::Key(key), USER, ISSUER, TOKEN_LIFETIME);
        Self::through(client, &service, port, tokens)
    }

    /// To the slurmrestd that a Cluster of `slinky.slurm.net` names, with the token that it names.
    pub(crate) async fn of_slinky_cluster(
        client: &Client,
        namespace: &str,
        cluster: &str,
    ) -> Result<Self, String> {
        let key = Key::new(namespace, cluster);
        let cluster: slinky::Cluster = objects::get(client, &key)
            .await
            .map_err(|error| format!("the Cluster {key} cannot be read: {}", chain(&error)))?
            .ok_or_else(|| format!("the Cluster {key} does not exist"))?;
        let secret = Key::new(namespace, &cluster.spec.token.secret_ref);
        let found: Secret = objects::get(client, &secret)
            .await
            .map_err(|error| format!("the Secret {secret} with the token cannot be read: {}", chain(&error)))?
            .ok_or_else(|| format!("the Secret {secret} with the token does not exist"))?;
        let token = found.data.as_ref().and_then(|data| data.get(SLINKY_TOKEN));
        let token = token
            .and_then(|token| std::str::from_utf8(&token.0).ok())
            .filter(|token| !token.trim().is_empty())
            .ok_or_else(|| format!("the Secret {secret} has no token under the key {SLINKY_TOKEN}"))?;
        let tokens = StaticToken::new(token);
        let server: Server = cluster
            .spec
            .server
            .parse()
            .map_err(|error| format!("the Cluster {key} has a wrong spec.server: {error}"))?;
        match service_of(client, &server, namespace).await {
            Some((service, port)) => Self::through(client, &service, port, tokens),
            None => Self::new(server, tokens, None),
        }
    }

    fn through(
        client: &Client,
        service: &Key,
        port: u16,
        tokens: impl TokenProvider + 'static,
    ) -> Result<Self, String> {
        let folder = tempfile::tempdir().map_err(|error| format!("no temporary folder: {error}"))?;
        let socket = folder.path().join("slurmrestd.sock");
        let proxy = ServiceProxy::start(client.clone(), service, port, &socket)
            .map_err(|error| format!("cannot listen on {}: {error}", socket.display()))?;
        let server: Server =
            format!("unix:{}", socket.display()).parse().map_err(|error| format!("{error}"))?;
        Self::new(server, tokens, Some(Passage { proxy, _folder: folder }))
    }

    fn new(
        server: Server,
        tokens: impl TokenProvider + 'static,
        passage: Option<Passage>,
    ) -> Result<Self, String> {
        let timeouts = Timeouts {
            answer: PATIENCE,
            idle: PATIENCE,
            call: PATIENCE,
            list: PATIENCE,
            ..Timeouts::default()
        };
        let client = slurm_client::Client::builder(server, tokens).timeouts(timeouts).retries(2).build();
        Ok(Self { client: client.map_err(|error| error.to_string())?, passage })
    }

    /// The client.
    pub(crate) const fn client(&self) -> &slurm_client::Client {
        &self.client
    }

    /// All nodes and jobs.
    pub(crate) async fn snapshot(&self) -> Result<Snapshot, String> {
        self.client.snapshot().await.map_err(|error| self.explain(&error))
    }

    /// Why a call failed. What the API server says about the way is better than what the client sees at its end.
    pub(crate) fn explain(&self, error: &slurm_client::Error) -> String {
        let refusal = self.passage.as_ref().and_then(|passage| passage.proxy.refusal());
        refusal.unwrap_or_else(|| error.to_string())
    }
}

/// The Service that the address means, if it means one of this Kubernetes cluster.
async fn service_of(client: &Client, server: &Server, namespace: &str) -> Option<(Key, u16)> {
    let (host, port) = server.plain_http()?;
    let (service, is_sure) = service_name(host, namespace)?;
    // A short name may be any host's.
    let is_there = is_sure || matches!(objects::get::<Service>(client, &service).await, Ok(Some(_)));
    is_there.then_some((service, port))
}

/// The Service that a host may be, and whether it can be nothing else.
fn service_name(host: &str, namespace: &str) -> Option<(Key, bool)> {
    let parts: Vec<&str> = host.split('.').collect();
    match parts.as_slice() {
        [name] => Some((Key::new(namespace, name), false)),
        [name, namespace] => Some((Key::new(namespace, name), false)),
        [name, namespace, "svc", ..] => Some((Key::new(namespace, name), true)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_pods_use_for_a_service_are_known() {
        for (host, service, is_sure) in [
            ("slurm-restapi", "here/slurm-restapi", false),
            ("rest.slurm", "slurm/rest", false),
            ("rest.slurm.svc", "slurm/rest", true),
            ("rest.slurm.svc.cluster.local", "slurm/rest", true),
        ] {
            let (found, sure) = service_name(host, "here").unwrap();
            assert_eq!((found.to_string().as_str(), sure), (service, is_sure));
        }
        for host in ["127.0.0.1", "slurm.example.com", "::1"] {
            assert!(service_name(host, "here").is_none_or(|(_, sure)| !sure), "{host}");
        }
    }
}
