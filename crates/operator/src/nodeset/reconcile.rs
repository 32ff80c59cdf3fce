//! One look at one NodeSet.

use api::nebius::NodeSet;
use engine::apply::Kind;
use engine::controller::Wake;
use engine::error::status_of;
use engine::events::EventType;
use engine::{Key, malformed};
use jiff::Timestamp;
use kube::{Resource as _, ResourceExt as _};

use super::home::Home;
use super::keys::FINALIZER;
use super::set::NebiusSet;
use super::status;
use crate::context::Context;
use crate::error::Error;
use crate::workers::Workers;

/// Reason of the event about a cluster that is missing or of no use, as Slinky's users know it.
const CLUSTER_REFUSED: &str = "ControllerRefFailed";

/// Brings a set one step nearer to what its spec says.
pub async fn reconcile(context: &Context, workers: &Workers, key: Key) -> Result<Wake, Error> {
    let Some(object) = context.caches.node_sets.get(&key) else {
        workers.forget::<NodeSet>(&key, &context.caches.pods).await?;
        return Ok(Wake::OnChange);
    };
    let set = match object.get() {
        Ok(set) => set,
        Err(invalid) => {
            let kind = Kind::erase::<NodeSet>(&());
            let (meta, error) = (&invalid.metadata, &invalid.error);
            malformed::report(&context.client, &context.events, crate::MANAGER, &kind, meta, error)
                .await
                .map_err(Error::Status)?;
            return Err(Error::Malformed(invalid.error.clone()));
        }
    };
    let deleted = set.meta().deletion_timestamp.is_some();
    if deleted && !engine::finalizer::has(set.meta(), FINALIZER) {
        // Somebody else holds it; its pods are no business of ours any more.
        workers.forget::<NodeSet>(&key, &context.caches.pods).await?;
        return Ok(Wake::OnChange);
    }
    let home = Home::of(context, set);
    // Workers leave with their set or their cluster, whatever else is wrong.
    let ends = deleted || home.end().is_some();
    let waits = match &home {
        _ if ends => None,
        Home::Here(_) => None,
        Home::None(message) => Some((super::MISSING, message)),
        Home::Unclear { reason, message, .. } => Some((*reason, message)),
    };
    if let Some((reason, message)) = waits {
        tell(context, set, reason, message).await?;
        return Ok(Wake::OnChange);
    }
    let connection = home.connection(context).await?;
    let view = NebiusSet::new(&context.caches, set, &home, connection);
    if view.template.is_none() && !ends {
        // What is there stays as it is.
        let message = "waiting for spec.slurmNodes.worker of the SlurmCluster to be valid";
        tell(context, set, super::MISSING, message).await?;
        return Ok(Wake::OnChange);
    }
    Box::pin(workers.sync(&view)).await
}

/// Tells that nothing can be done now, and why.
async fn tell(context: &Context, set: &NodeSet, reason: &str, message: &str) -> Result<(), Error> {
    let uid = set.uid().unwrap_or_default();
    if context.caches.awaits(&uid) || !context.caches.node_sets.is_latest(&Key::of(set), set) {
        return Ok(());
    }
    let pods = context.caches.pods.owned_by(&uid);
    let next = status::waiting(set, &pods, reason, message, Timestamp::now());
    let written =
        engine::status::write(&context.client, crate::MANAGER, set, set.status.as_ref(), &next).await;
    match written {
        Ok(Some(version)) => {
            context.caches.node_sets.wrote(Key::of(set), &version, &uid);
            context.tell(set, EventType::Warning, CLUSTER_REFUSED, message);
        }
        Ok(None) => {}
        // It has just gone.
        Err(error) if status_of(&error) == Some(404) => {}
        Err(error) => return Err(Error::Status(error)),
    }
    Ok(())
}
