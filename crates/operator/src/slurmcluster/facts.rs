//! Collects what rendering needs to know.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::nebius::{Image as NodeSetImage, NodeSet};
use engine::Key;
use engine::optional_kinds::OptionalKind;
use engine::view::PodView;
use kube::ResourceExt as _;
use render::validate::{Database, ValidatedCluster};
use render::{
    Facts, GeneratedSecret, Material, NodeSetFacts, References, Served, WorkerFacts, generated_secrets,
    labels,
};
use slurm::{NodeName, Secret};

use super::error::Error;
use super::live::Live;
use super::order::{self, Image, Images, Presence};
use crate::context::Context;
use crate::owner::{annotation, label};
use crate::secrets;

/// Collects the facts. `programs` are those of slurmctld's image, as far as they are known.
pub async fn gather(
    context: &Context,
    cluster: &Key,
    validated: &ValidatedCluster,
    live: &Live,
    programs: Option<BTreeSet<String>>,
) -> Result<(Facts, secrets::Names), Error> {
    let mut facts = Facts {
        served: served(context, live),
        node_sets: live.node_sets().map(|set| (set.name_any(), node_set(set, live))).collect(),
        references: references(context, &cluster.namespace),
        running: order::running(presence(validated, live)),
        held_images: order::held_images(&images(validated, live)),
        slurmctld_programs: programs,
        ..Facts::default()
    };
    // As long as nobody knows what slurmctld's image holds, slurmrestd stays as it is.
    if facts.slurmctld_programs.is_none()
        && validated.rest.as_ref().is_ok_and(|rest| rest.container.image.is_empty())
    {
        let running = live.rest.as_ref().and_then(|rest| rest.image(container::SLURMRESTD));
        facts.held_images.slurmrestd = running.map(String::from);
    }
    let names = generated_secrets(validated, &facts);
    facts.new_secrets = secrets::for_missing(context, &cluster.namespace, &names).await?;
    facts.database_password = database_password(context, validated, &facts, &names).await?;
    Ok((facts, names))
}

/// Containers whose images take part in a change of version.
mod container {
    pub(super) const SLURMDBD: &str = "accounting";
    pub(super) const SLURMCTLD: &str = "slurmctld";
    pub(super) const SLURMRESTD: &str = "slurmrestd";
    pub(super) const SSHD: &str = "sshd";
    pub(super) const SLURMD: &str = "slurmd";
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

fn node_set(set: &NodeSet, live: &Live) -> NodeSetFacts {
    let name = set.name_any();
    let mut pods: Vec<&Arc<PodView>> =
        live.workers().filter(|pod| label(&***pod, labels::NODE_SET) == Some(&name)).collect();
    pods.sort_by_key(|pod| crate::nodeset::ordinal(&pod.name_any()));
    NodeSetFacts {
        gpu: set.spec.gpu.is_some_and(|gpu| gpu.enabled),
        gres_config: set
            .spec
            .node_config
            .iter()
            .flat_map(|config| config.gres_config.clone())
            .flatten()
            .collect(),
        workers: pods.into_iter().filter_map(|pod| worker(pod)).collect(),
    }
}

/// A worker that Slurm can know; a pod whose name Slurm would not take cannot be one.
fn worker(pod: &PodView) -> Option<WorkerFacts> {
    let line = annotation(pod, labels::NODE_LINE)
        .and_then(|text| slurm::conf::user_pairs(labels::NODE_LINE, text, &[]).ok());
    let slurmd = pod.status.container_statuses.iter().find(|status| &*status.name == container::SLURMD);
    Some(WorkerFacts {
        node: NodeName::new(crate::nodeset::slurm_node(pod)).ok()?,
        line,
        address: pod.status.pod_ip.as_deref().and_then(|address| address.parse().ok()),
        registered: slurmd.is_some_and(|slurmd| slurmd.started == Some(true)),
    })
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

fn presence(validated: &ValidatedCluster, live: &Live) -> Presence {
    let worker = validated.names().worker();
    let set = live.node_sets().find(|set| set.name_any() == worker);
    Presence {
        in_maintenance: validated.in_maintenance(),
        worker_pods: live.workers().next().is_some(),
        login_pods: !live.pods_of(render::Component::Login).is_empty(),
        login_is_stopped: live.login.as_ref().is_some_and(|login| login.spec.replicas == 0),
        workers_are_stopped: set.is_some_and(|set| set.spec.replicas == 0),
        controller_is_ready: live
            .controller
            .as_ref()
            .is_some_and(|set| set.spec.replicas > 0 && set.is_ready()),
    }
}

fn images(validated: &ValidatedCluster, live: &Live) -> Images {
    fn wanted(image: &str) -> Option<String> {
        if image.is_empty() { None } else { Some(image.into()) }
    }
    macro_rules! image {
        ($live:expr, $container:expr, $wanted:expr) => {
            Image {
                live: $live.as_ref().and_then(|live| live.image($container)).map(String::from),
                wanted: $wanted,
                is_rolled_out: $live
                    .as_ref()
                    .is_some_and(|live| live.spec.replicas == 0 || live.is_rolled_out()),
            }
        };
    }
    let accounting = validated.accounting.as_ref().ok().and_then(Option::as_ref);
    let slurmctld =
        validated.controller.as_ref().ok().and_then(|controller| wanted(&controller.slurmctld.image));
    let rest = validated.rest.as_ref().ok();
    // Without an image of its own it may run slurmctld's.
    let slurmrestd = rest.and_then(|rest| wanted(&rest.container.image)).or_else(|| slurmctld.clone());
    let workers = validated.workers.as_ref().ok().and_then(Option::as_ref);
    let name = validated.names().worker();
    let set = live.node_sets().find(|set| set.name_any() == name);
    Images {
        slurmdbd: image!(
            live.accounting,
            container::SLURMDBD,
            accounting.and_then(|part| wanted(&part.slurmdbd.image))
        ),
        slurmctld: image!(live.controller, container::SLURMCTLD, slurmctld),
        slurmrestd: image!(live.rest, container::SLURMRESTD, slurmrestd),
        sshd: image!(
            live.login,
            container::SSHD,
            validated.login.as_ref().ok().and_then(|login| wanted(&login.sshd.image))
        ),
        slurmd: Image {
            live: set.map(|set| image_text(&set.spec.slurmd.image)),
            wanted: workers.and_then(|workers| wanted(&workers.slurmd.image)),
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
