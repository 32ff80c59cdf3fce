//! Collects what rendering needs to know.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::nebius::Image as NodeSetImage;
use engine::Key;
use engine::optional_kinds::OptionalKind;
use engine::view::{JobView, WorkloadView};
use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use kube::ResourceExt as _;
use render::validate::{Database, ValidatedCluster};
use render::{
    Component, Facts, GeneratedSecret, Material, Names, PopulateFacts, PopulateMark, References, Served,
    generated_secrets, labels,
};
use slurm::Secret;

use super::kept_nodes::{self, KeptNodes};
use super::live::Live;
use super::order::{self, Image, Images, Presence};
use super::populate;
use super::worker_lines;
use crate::context::Context;
use crate::error::Error;
use crate::owner::annotation;
use crate::secrets;

/// Collects the facts. `programs` are those of slurmctld's image, as far as they are known; `before` are the nodes that
/// Slurm's files name now; `wish` is that to overwrite the jail ([`PopulateFacts::wish`]).
pub async fn gather(
    context: &Context,
    cluster: &Key,
    validated: &ValidatedCluster,
    live: &Live,
    programs: Option<BTreeSet<String>>,
    before: &KeptNodes,
    wish: Option<i64>,
) -> Result<(Facts, secrets::Names), Error> {
    let mut facts = Facts {
        served: served(context, live),
        node_sets: worker_lines::of_pods(live.node_sets(), live.workers()),
        references: references(context, &cluster.namespace),
        running: order::running(presence(validated, live)),
        held_images: order::held_images(&images(validated, live)),
        slurmctld_programs: programs,
        populate: populate_facts(live, validated.names(), wish),
        ..Facts::default()
    };
    // As long as nobody knows what slurmctld's image holds, slurmrestd stays as it is.
    if facts.slurmctld_programs.is_none()
        && validated.rest.as_ref().is_ok_and(|rest| rest.container.image.is_empty())
    {
        let running = live.rest.as_ref().and_then(|rest| rest.image(container::SLURMRESTD));
        facts.held_images.slurmrestd = running.map(String::from);
    }
    kept_nodes::keep(&mut facts.node_sets, before, live.node_sets(), validated);
    let names = generated_secrets(validated, &facts);
    facts.new_secrets = secrets::for_missing(context, &cluster.namespace, &names).await?;
    facts.database_password = database_password(context, validated, &facts, &names).await?;
    Ok((facts, names))
}

/// The Job that fills the jail, and whether somebody would see what it does. `wish` is [`PopulateFacts::wish`].
pub(super) fn populate_facts(live: &Live, names: &Names, wish: Option<i64>) -> PopulateFacts {
    let job = live.populate_jail.as_deref();
    let overwriters = live.pods_of(Component::PopulateJail).into_iter().filter(|pod| {
        !populate::has_ended(pod)
            && PopulateMark::from_annotation(annotation(&***pod, labels::POPULATE_MARK)).overwrites()
    });
    PopulateFacts {
        mark: job.map(|job| PopulateMark::from_annotation(annotation(job, labels::POPULATE_MARK))),
        is_done: job.is_some_and(JobView::is_done),
        jail_is_in_use: jail_is_in_use(live, names),
        overwriter_lives: overwriters.count() > 0,
        wish,
    }
}

/// Whether somebody may be in the jail: login and worker pods of whoever made them, and those that a set makes again the next moment.
fn jail_is_in_use(live: &Live, names: &Names) -> bool {
    let users = [Component::Login, Component::Worker, Component::NodeSet];
    let worker = names.worker();
    live.workers().next().is_some()
        || users.into_iter().any(|component| !live.pods_of(component).is_empty())
        || live.login.as_ref().is_some_and(|login| login.spec.replicas > 0)
        || live.node_sets().any(|set| {
            let ready = set.status.as_ref().and_then(|status| status.replicas).unwrap_or(0);
            ready > 0 || (set.name_any() == worker && set.spec.replicas > 0)
        })
}

/// Containers whose images take part in a change of version.
mod container {
    pub(super) const SLURMDBD: &str = "accounting";
    pub(super) const SLURMCTLD: &str = "slurmctld";
    pub(super) const SLURMRESTD: &str = "slurmrestd";
    pub(super) const SSHD: &str = "sshd";
}

/// Which optional kinds there are. A cluster keeps the kind of database that it has: a CRD that comes later would else leave
/// its data behind.
fn served(context: &Context, live: &Live) -> Served {
    let is_served = |kind| context.caches.optional_kinds.is_served(kind);
    Served {
        mariadb: is_served(OptionalKind::MariaDb)
            && is_served(OptionalKind::Grant)
            && live.database.is_none(),
        app_armor_profile: is_served(OptionalKind::AppArmorProfile),
        monitors: is_served(OptionalKind::PodMonitor) && is_served(OptionalKind::ServiceMonitor),
    }
}

fn references(context: &Context, namespace: &str) -> References {
    fn versions<K: kube::Resource>(objects: Vec<Arc<K>>, namespace: &str) -> BTreeMap<String, String> {
        let of_it = objects.into_iter().filter(|object| object.namespace().as_deref() == Some(namespace));
        of_it.map(|object| (object.name_any(), object.resource_version().unwrap_or_default())).collect()
    }
    References {
        config_maps: versions(context.caches.config_maps.list(), namespace),
        secrets: versions(context.caches.secrets.list(), namespace),
    }
}

/// How far maintenance is.
pub(super) fn presence(validated: &ValidatedCluster, live: &Live) -> Presence {
    let worker = validated.names().worker();
    let set = live.node_sets().find(|set| set.name_any() == worker);
    Presence {
        in_maintenance: validated.in_maintenance(),
        worker_pods: live.workers().next().is_some(),
        login_pods: !live.pods_of(Component::Login).is_empty(),
        login_is_stopped: live.login.as_ref().is_some_and(|login| login.spec.replicas == 0),
        workers_are_stopped: set.is_some_and(|set| set.spec.replicas == 0),
        controller_is_ready: live
            .controller
            .as_ref()
            .is_some_and(|set| set.spec.replicas > 0 && set.is_ready()),
    }
}

fn wanted(image: &str) -> Option<String> {
    if image.is_empty() { None } else { Some(image.into()) }
}

fn image<K>(live: Option<&WorkloadView<K>>, container: &str, wanted: Option<String>) -> Image {
    Image {
        live: live.and_then(|live| live.image(container)).map(String::from),
        wanted,
        is_updated: live.is_some_and(WorkloadView::is_updated),
        is_rolled_out: live.is_some_and(|live| live.spec.replicas == 0 || live.is_rolled_out()),
    }
}

/// The image of slurmdbd.
pub(super) fn slurmdbd(validated: &ValidatedCluster, live: Option<&WorkloadView<Deployment>>) -> Image {
    let accounting = validated.accounting.as_ref().ok().and_then(Option::as_ref);
    image(live, container::SLURMDBD, accounting.and_then(|part| wanted(&part.slurmdbd.image)))
}

/// The image of slurmctld.
pub(super) fn slurmctld(validated: &ValidatedCluster, live: Option<&WorkloadView<StatefulSet>>) -> Image {
    let part = validated.controller.as_ref().ok();
    image(live, container::SLURMCTLD, part.and_then(|controller| wanted(&controller.slurmctld.image)))
}

fn images(validated: &ValidatedCluster, live: &Live) -> Images {
    let slurmctld = slurmctld(validated, live.controller.as_deref());
    let rest = validated.rest.as_ref().ok();
    // Without an image of its own it may run slurmctld's.
    let slurmrestd = rest.and_then(|rest| wanted(&rest.container.image)).or_else(|| slurmctld.wanted.clone());
    let workers = validated.workers.as_ref().ok().and_then(Option::as_ref);
    let name = validated.names().worker();
    let set = live.node_sets().find(|set| set.name_any() == name);
    Images {
        slurmdbd: slurmdbd(validated, live.accounting.as_deref()),
        slurmctld,
        slurmrestd: image(live.rest.as_deref(), container::SLURMRESTD, slurmrestd),
        sshd: image(
            live.login.as_deref(),
            container::SSHD,
            validated.login.as_ref().ok().and_then(|login| wanted(&login.sshd.image)),
        ),
        slurmd: Image {
            live: set.map(|set| image_text(&set.spec.slurmd.image)),
            wanted: workers.and_then(|workers| wanted(&workers.slurmd.image)),
            is_updated: true,
            is_rolled_out: true,
        },
    }
}

fn image_text(image: &NodeSetImage) -> String {
    match image.tag.as_deref().filter(|tag| !tag.is_empty()) {
        Some(tag) => format!("{}:{tag}", image.repository),
        None => image.repository.clone(),
    }
}

/// The password of slurmdbd's user: the user's own Secret, the generated one, or the one that is about to be made.
async fn database_password(
    context: &Context,
    validated: &ValidatedCluster,
    facts: &Facts,
    names: &secrets::Names,
) -> Result<Option<Secret>, Error> {
    let Ok(Some(accounting)) = &validated.accounting else { return Ok(None) };
    let (secret, key) = match accounting.database(facts) {
        Database::External(external) => match &external.password {
            Some((secret, key)) => (secret.clone(), key.clone()),
            None => return Ok(None),
        },
        Database::Operator(_) | Database::Plain(_) => {
            if let Some(Material::Bytes(password)) = facts.new_secrets.get(&GeneratedSecret::DatabasePassword)
            {
                return Ok(Some(password.clone()));
            }
            let kind = GeneratedSecret::DatabasePassword;
            match (names.get(&kind), kind.key()) {
                (Some(name), Some(key)) => (name.clone(), key.into()),
                _ => return Ok(None),
            }
        }
    };
    let secret = Key::new(validated.names().namespace(), &secret);
    context.secret_value(&secret, &key).await.map_err(|error| {
        Error::call(format!("Secret {secret} with the database's password cannot be read"), error)
    })
}
