//! One look at one Cluster: its link, and how it is.

use std::sync::Arc;

use api::slinky::Cluster;
use engine::apply::Kind;
use engine::controller::Wake;
use engine::events::EventType;
use engine::{Key, condition, malformed, status};
use jiff::Timestamp;
use kube::ResourceExt as _;
use slurm_client::Error as SlurmError;

use super::Memory;
use super::connect::{connect, expected_name, secret};
use super::judge::{READY, Seen, Trouble, judge};
use super::status::fold;
use crate::context::Context;
use crate::error::Error;
use crate::slurm_links::{Credential, Link, LinkKey};

/// Keeps the link of a Cluster as its spec says, and writes down how it is.
pub async fn reconcile(context: &Context, memory: &Memory, key: Key) -> Result<Wake, Error> {
    let link_key = LinkKey::slinky(key.clone());
    let Some(object) = context.caches.slinky_clusters.get(&key) else {
        memory.refused.lock().remove(&key);
        context.links.forget(&link_key);
        return Ok(Wake::OnChange);
    };
    let cluster = match object.get() {
        Ok(cluster) => cluster,
        Err(invalid) => {
            context.links.refuse(&link_key, &format!("the Cluster cannot be read: {}", invalid.error));
            let kind = Kind::erase::<Cluster>(&());
            let (meta, error) = (&invalid.metadata, &invalid.error);
            malformed::report(&context.client, &context.events, crate::MANAGER, &kind, meta, error)
                .await
                .map_err(Error::Status)?;
            return Err(Error::Malformed(invalid.error.clone()));
        }
    };
    let link = match link_of(context, memory, &key, cluster).await {
        Ok(link) => link,
        Err(error) => {
            let error = Error::call(format!("Secret {} cannot be read", secret(cluster)), error);
            let note = engine::error::chain(&error);
            context.tell(cluster, EventType::Warning, "SecretUnreadable", &note);
            return Err(error);
        }
    };
    match link {
        Ok(link) => {
            let snapshot = link.snapshot();
            let name = snapshot.as_ref().map(|snapshot| snapshot.cluster()).filter(|name| !name.is_empty());
            let found = judge_link(cluster, &link, name.unwrap_or_default());
            // Only an answer that counts gives the cluster its name.
            let name = name.filter(|_| found.is_ok());
            tell(context, cluster, &found, &link.client().server().to_string(), name).await?;
        }
        Err(trouble) => {
            context.links.refuse(&link_key, &trouble.message());
            tell(context, cluster, &Err(trouble), &cluster.spec.server, None).await?;
        }
    }
    Ok(Wake::OnChange)
}

/// The link. When Slurm refuses the token, its Secret is read once more: a watch can be late. After that only a change helps.
async fn link_of(
    context: &Context,
    memory: &Memory,
    key: &Key,
    cluster: &Cluster,
) -> Result<Result<Arc<Link>, Trouble>, kube::Error> {
    let link = match connect(context, cluster).await? {
        Ok(link) => link,
        Err(trouble) => return Ok(Err(trouble)),
    };
    let is_refused = matches!(link.health().error.as_deref(), Some(SlurmError::Unauthorised { .. }));
    if !is_refused {
        memory.refused.lock().remove(key);
        return Ok(Ok(link));
    }
    let before = memory.refused.lock().insert(key.clone(), link.credential());
    if before == Some(link.credential()) {
        return Ok(Ok(link));
    }
    tracing::debug!("Slurm refuses the token; its Secret is read once more");
    let secret = secret(cluster);
    context.forget_secrets(&secret.namespace, &secret.name);
    connect(context, cluster).await
}

fn judge_link(cluster: &Cluster, link: &Link, told: &str) -> Result<(), Trouble> {
    let (health, Credential::Token(token) | Credential::JwtKey(token)) = (link.health(), link.credential());
    judge(&Seen {
        health: &health,
        pulse: link.pulse(),
        identity: link.identity(),
        told,
        expected: expected_name(cluster),
        secret: &cluster.spec.token.secret_ref,
        token: &token,
        now: Timestamp::now(),
    })
}

/// Writes the status if it differs, and tells users of what became of the Cluster.
async fn tell(
    context: &Context,
    cluster: &Cluster,
    found: &Result<(), Trouble>,
    server: &str,
    name: Option<&str>,
) -> Result<(), Error> {
    let uid = cluster.uid().unwrap_or_default();
    let cache = &context.caches.slinky_clusters;
    if cache.awaits(&uid) || !cache.is_latest(&Key::of(cluster), cluster) {
        // Its last status is still under way, or came just now, and wakes us.
        return Ok(());
    }
    let next = fold(cluster, found, server, name, Timestamp::now());
    let written = status::write(&context.client, crate::MANAGER, cluster, cluster.status.as_ref(), &next)
        .await
        .map_err(Error::Status)?;
    let Some(version) = written else { return Ok(()) };
    context.caches.slinky_clusters.wrote(Key::of(cluster), &version, &uid);
    let ready = |status: &api::slinky::ClusterStatus| {
        let conditions = status.conditions.as_deref().unwrap_or_default();
        let ready = conditions.iter().find(|condition| condition.type_ == READY)?;
        Some((ready.reason.clone(), ready.message.clone()))
    };
    let (before, now) = (cluster.status.as_ref().and_then(ready), ready(&next));
    let Some((reason, message)) = now.filter(|now| before.as_ref().is_none_or(|before| before.0 != now.0))
    else {
        return Ok(());
    };
    let is_ready = condition::is_true(next.conditions.as_deref().unwrap_or_default(), READY);
    // To connect is no news worth an event.
    if is_ready || !matches!(found, Err(Trouble::Connecting)) {
        let type_ = if is_ready { EventType::Normal } else { EventType::Warning };
        tracing::info!(reason, message, "the state of the Cluster changed");
        context.tell(cluster, type_, &reason, &message);
    }
    Ok(())
}
