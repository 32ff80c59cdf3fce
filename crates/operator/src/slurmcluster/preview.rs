//! What a look at a cluster would write, without writing it.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use api::nebius::SlurmCluster;
use engine::apply::{Difference, Owner};
use engine::events::Events;
use engine::optional_kinds::Overrides;
use engine::{Key, Scope};
use kube::{Client, Resource as _};
use render::{Defaults, HeldImages, Problem, render, validate};
use tokio_util::sync::CancellationToken;

use super::Memory;
use super::desired::desired;
use super::facts;
use super::jailed::Jailed;
use super::kept_nodes;
use super::live::Live;
use super::lost_pods;
use super::reconcile::Look;
use super::status::wish;
use crate::caches::{Caches, Groups};
use crate::context::Context;
use crate::error::Error;
use crate::slurm_links::SlurmLinks;
use crate::workers::WorkerMetrics;

/// The uid of a cluster that does not exist.
const NO_UID: &str = "00000000-0000-0000-0000-000000000000";

/// How the objects of a cluster would change.
#[derive(Debug, Default)]
pub struct Preview {
    /// Objects that would be made or changed.
    pub changed: Vec<Difference>,
    /// Objects that would be deleted.
    pub deleted: Vec<String>,
}

/// Why there is no preview.
#[derive(Debug, thiserror::Error)]
pub enum PreviewError {
    /// The API server did not tell in time what is there.
    #[error(
        "the API server has not told what is there after {0:?}; may you list and watch all kinds that a cluster has?"
    )]
    NotFilled(Duration),
    /// The spec is wrong.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    Invalid(Vec<Problem>),
    /// What rendering needs to know cannot be found out.
    #[error(transparent)]
    Facts(#[from] Error),
    /// The API server refuses an object.
    #[error("the API server refuses")]
    Refused(#[source] kube::Error),
}

/// Tells how the objects of a cluster would change if this were its spec, once all of it has come about. The API server is
/// asked by dry runs; nothing is written.
pub async fn preview(
    client: Client,
    mut cluster: SlurmCluster,
    defaults: Defaults,
    patience: Duration,
) -> Result<Preview, PreviewError> {
    let key = Key::of(&cluster);
    let stop = CancellationToken::new();
    let _stop = stop.clone().drop_guard();
    let scope = Scope::Namespaces(vec![key.namespace.to_string()]);
    let caches = Caches::start(&client, &scope, Groups::NEBIUS, Overrides::default(), &stop);
    tokio::time::timeout(patience, caches.ready()).await.map_err(|_| PreviewError::NotFilled(patience))?;

    let known = caches.clusters.get(&key);
    let uid = known.as_ref().and_then(|live| live.meta().uid.clone());
    cluster.metadata.uid = Some(uid.unwrap_or_else(|| NO_UID.into()));
    cluster.status = known.as_ref().and_then(|live| live.ok()?.status.clone());
    // A wish to overwrite the jail that is new becomes that of the next generation.
    let next = known.as_ref().and_then(|live| live.meta().generation).unwrap_or(0) + 1;
    let wish = wish(&cluster).unwrap_or(next);
    let Some(owner) = Owner::of(&cluster) else { return Ok(Preview::default()) };
    let validated = validate(&cluster, &defaults).map_err(PreviewError::Invalid)?;
    let events = Events::start(client.clone(), crate::MANAGER, "preview");
    let (links, metrics) = (SlurmLinks::default(), WorkerMetrics::default());
    let context = Context::new(client, caches, events, defaults, links, metrics, Vec::new());
    let mut live = Live::of(&context.caches, &key, validated.names());
    // Whether slurmctld's image holds slurmrestd is seen when it runs; a new one is taken to.
    let programs = live.rest.is_none().then(|| ["slurmctld", "slurmrestd"].map(String::from).into());
    let before = kept_nodes::in_place(&context, &validated).await?;
    let lost = lost_pods::find(&context, validated.names(), &live, &before, &mut BTreeSet::new()).await?;
    live.pods.extend(lost);
    let (mut facts, names) =
        facts::gather(&context, &key, &validated, &live, programs, &before, Some(wish)).await?;
    let own = validated.names().slurm_configs();
    facts.more_configs = Jailed::default().look(&context, &key, &own, Instant::now()).await?.files;
    // The end of a change of version, not its first step.
    let slurmrestd = facts.held_images.slurmrestd.take().filter(|_| facts.slurmctld_programs.is_none());
    facts.held_images = HeldImages { slurmrestd, ..HeldImages::default() };

    let rendered = render(&validated, &facts);
    let objects = rendered.iter().map(desired).collect::<Result<Vec<_>, _>>().map_err(Error::from)?;
    let memory = Memory::default();
    let look = Look {
        context: &context,
        memory: &memory,
        key: &key,
        cluster: &cluster,
        owner: owner.clone(),
        validated,
    };
    let deleted =
        context.applier.superfluous(&owner, &objects, |kind, meta| look.is_spared(&names, kind, meta));
    let changed = context.applier.diff(&owner, objects).await.map_err(PreviewError::Refused)?;
    Ok(Preview { changed, deleted })
}
