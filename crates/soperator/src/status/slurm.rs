//! What Slurm itself says about a cluster: slurmrestd is asked through the API server.

use std::collections::BTreeMap;
use std::time::Duration;

use engine::client::Client;
use engine::error::chain;
use engine::objects;
use engine::service_proxy::ServiceProxy;
use k8s_openapi::api::core::v1::{Secret, Service};
use render::{Defaults, GeneratedSecret, Names};
use slurm::{Key as SlurmKey, KeyKind};
use slurm_client::{KeySource, MintedToken, Server, Snapshot, Timeouts};

use super::view::{Answer, Reason, Slurm};

/// Who asks. Slurm shows it in its logs.
const USER: &str = "root";
const ISSUER: &str = "soperator";
const TOKEN_LIFETIME: Duration = Duration::from_secs(300);
/// People wait for it.
const PATIENCE: Duration = Duration::from_secs(10);

/// Asks Slurm for its nodes and jobs.
pub(super) async fn ask(client: &Client, namespace: &str, cluster: &str) -> Slurm {
    match answer(client, namespace, cluster).await {
        Ok(snapshot) => Slurm::Given(summary(&snapshot)),
        Err(reason) => Slurm::None { reason },
    }
}

async fn answer(client: &Client, namespace: &str, cluster: &str) -> Result<Snapshot, String> {
    let names = Names::new(cluster, namespace, Defaults::default().cluster_domain);
    let key = |name: String| engine::Key::new(namespace, &name);
    let jwt = key(names.rest_jwt_key());
    let secret: Secret = objects::get(client, &jwt)
        .await
        .map_err(|error| {
            format!("the Secret {jwt} with the key for its tokens cannot be read: {}", chain(&error))
        })?
        .ok_or_else(|| format!("the Secret {jwt} with the key for its tokens is not there yet"))?;
    let bytes = GeneratedSecret::Jwt.key().and_then(|name| secret.data.as_ref()?.get(name).cloned());
    let bytes = bytes.ok_or_else(|| format!("the Secret {jwt} holds no key for tokens"))?;
    let jwt_key =
        SlurmKey::from_bytes(KeyKind::Jwt, bytes.0).map_err(|error| format!("Secret {jwt}: {error}"))?;

    let service = key(names.rest_internal_service());
    let port = objects::get::<Service>(client, &service)
        .await
        .map_err(|error| chain(&error))?
        .and_then(|service| service.spec?.ports?.first().map(|port| port.port))
        .ok_or_else(|| format!("the Service {service} is not there yet"))?;
    let folder = tempfile::tempdir().map_err(|error| format!("no temporary folder: {error}"))?;
    let socket = folder.path().join("slurmrestd.sock");
    let port = u16::try_from(port).map_err(|_| format!("the Service {service} has no usable port"))?;
    let proxy = ServiceProxy::start(client.clone(), &service, port, &socket)
        .map_err(|error| format!("cannot listen on {}: {error}", socket.display()))?;

    let server: Server = format!("unix:{}", socket.display()).parse().map_err(|error| format!("{error}"))?;
    let tokens = MintedToken::new(KeySource::Key(jwt_key), USER, ISSUER, TOKEN_LIFETIME);
    let slurm = slurm_client::Client::builder(server, tokens)
        .timeouts(Timeouts {
            answer: PATIENCE,
            idle: PATIENCE,
            call: PATIENCE,
            list: PATIENCE,
            ..Timeouts::default()
        })
        .retries(2)
        .build()
        .map_err(|error| error.to_string())?;
    // What the API server says about the way is better than what the client sees at its end.
    slurm.snapshot().await.map_err(|error| proxy.refusal().unwrap_or_else(|| error.to_string()))
}

fn summary(snapshot: &Snapshot) -> Answer {
    let mut answer = Answer::default();
    for node in snapshot.nodes() {
        let state = node.state.to_string();
        if !node.reason.is_empty() {
            answer.reasons.push(Reason {
                node: node.name.to_string(),
                state: state.clone(),
                reason: node.reason.to_string(),
            });
        }
        *answer.nodes.entry(state).or_default() += 1;
    }
    let jobs: &mut BTreeMap<String, usize> = &mut answer.jobs;
    for job in snapshot.jobs().iter().filter(|job| !job.state.is_finished()) {
        *jobs.entry(job.state.to_string()).or_default() += 1;
    }
    answer
}
