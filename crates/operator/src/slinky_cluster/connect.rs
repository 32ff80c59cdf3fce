//! From a Cluster and its Secret to the link.

use std::sync::Arc;

use api::slinky::Cluster;
use engine::Key;
use kube::ResourceExt as _;
use slurm_client::{Server, ServerError};

use super::SLURM_NAME;
use super::judge::Trouble;
use crate::context::Context;
use crate::owner::annotation;
use crate::slurm_links::{Credential, Link, LinkKey, NoLink};

/// The key of the token in its Secret.
pub const TOKEN_KEY: &str = "auth-token";

/// The link to a Cluster's Slurm, made if there is none, or why there can be none. The error is that of the API server.
pub async fn connect(
    context: &Context,
    cluster: &Cluster,
) -> Result<Result<Arc<Link>, Trouble>, kube::Error> {
    let secret = secret(cluster);
    let server: Result<Server, ServerError> = cluster.spec.server.parse();
    let server = match server {
        Ok(server) => server,
        Err(error) => return Ok(Err(Trouble::BadAddress(error.to_string()))),
    };
    let token = context.secret_value(&secret, TOKEN_KEY).await?;
    let Some(token) = token else {
        // Whether it is the Secret that is not there, or its key.
        let is_there = context.secret(&secret).is_some();
        let secret = secret.name.into();
        return Ok(Err(if is_there { Trouble::NoToken(secret) } else { Trouble::NoSecret(secret) }));
    };
    let key = LinkKey::slinky(Key::of(cluster));
    let link = context.links.connect(&key, server, Credential::Token(token), expected_name(cluster));
    Ok(link.map_err(|error| match error {
        NoLink::Token(why) => Trouble::BadToken { secret: secret.name.into(), why },
        error @ (NoLink::Key(_) | NoLink::Address(_) | NoLink::Client(_)) => {
            Trouble::BadAddress(error.to_string())
        }
    }))
}

/// The Secret with the token.
pub(super) fn secret(cluster: &Cluster) -> Key {
    Key::new(&cluster.namespace().unwrap_or_default(), &cluster.spec.token.secret_ref)
}

/// How Slurm must call the cluster: as the user says, or as it did when it answered first.
pub fn expected_name(cluster: &Cluster) -> Option<&str> {
    let seen = || cluster.status.as_ref()?.slurm_cluster_name.as_deref();
    annotation(cluster, SLURM_NAME).or_else(seen).filter(|name| !name.is_empty())
}
