//! Sets of workers, of both groups.

use std::collections::BTreeMap;

use api::common::JobCare;
use api::{nebius, slinky};
use render::check::problem::{Problem, Problems, field};
use render::check::{quantity, slurm_text, worker};
use render::labels::PARENTAL_CLUSTER;
use slurm::conf::FileKind;
use slurm::{key, value};

use super::labels;

/// The longest host name.
const HOST_NAME: usize = 63;

/// What is wrong with a NodeSet of `slurm.nebius.ai`.
#[must_use]
pub fn node_set(set: &nebius::NodeSet) -> Vec<Problem> {
    let mut problems = Problems::default();
    let spec = &set.spec;
    quantity::check(&mut problems, spec);
    host_names(&mut problems, set.metadata.name.as_deref(), spec.replicas, &spec.care);
    care(&mut problems, &spec.care);
    cluster(&mut problems, set);
    if let Some(fabric) =
        spec.topology.as_ref().and_then(|topology| topology.fabric.as_deref()).filter(|it| !it.is_empty())
    {
        slurm_text::name(&mut problems, "spec.topology.fabric", fabric);
    }
    if let Some(config) = &spec.node_config {
        node_config(&mut problems, config);
    }
    problems.into_vec()
}

/// Two ways to name the cluster: the field, and the annotation that was there before it.
fn cluster(problems: &mut Problems, set: &nebius::NodeSet) {
    let annotations = set.metadata.annotations.as_ref();
    let annotated = annotations.and_then(|all| all.get(PARENTAL_CLUSTER)).filter(|name| !name.is_empty());
    let named = set.spec.cluster_name.as_ref().filter(|name| !name.is_empty());
    if let (Some(named), Some(annotated)) = (named, annotated)
        && named != annotated
    {
        problems.error(
            field("metadata.annotations", PARENTAL_CLUSTER),
            format!("{annotated:?} is another cluster than spec.clusterName, which is {named:?}; remove one of the two"),
        );
    }
}

fn node_config(problems: &mut Problems, config: &nebius::NodeConfig) {
    for (index, feature) in config.features.iter().flatten().enumerate() {
        slurm_text::name(problems, &format!("spec.nodeConfig.features[{index}]"), feature);
    }
    let line = (key!("NodeName"), value!("node"));
    let taken = ["NodeName", "NodeHostname", "NodeAddr"];
    slurm_text::behind(problems, line, "spec.nodeConfig.static", &config.static_, &taken);
    worker::extra(problems, "spec.nodeConfig.dynamic", &config.dynamic);
    let lines = config.gres_config.as_deref().unwrap_or_default();
    let begins = ["Name", "AutoDetect"];
    slurm_text::lines(problems, FileKind::Gres, "spec.nodeConfig.gresConfig", lines, &begins, &["NodeName"]);
}

/// What is wrong with a NodeSet of `slinky.slurm.net`.
#[must_use]
pub fn slinky_node_set(set: &slinky::NodeSet) -> Vec<Problem> {
    let mut problems = Problems::default();
    let spec = &set.spec;
    quantity::check(&mut problems, spec);
    host_names(&mut problems, set.metadata.name.as_deref(), spec.replicas, &spec.care);
    care(&mut problems, &spec.care);
    let none = BTreeMap::new();
    let of_pods =
        spec.template.metadata.as_ref().and_then(|metadata| metadata.labels.as_ref()).unwrap_or(&none);
    labels::check(&mut problems, "spec.template.metadata.labels", of_pods);
    labels::selector(&mut problems, "spec.selector", &spec.selector, of_pods);
    problems.into_vec()
}

/// What both groups' sets have.
fn care(problems: &mut Problems, care: &JobCare) {
    worker::drain_on_delete(problems, "spec.drainOnDelete", care.drain_on_delete.as_ref());
}

/// Workers are called after the set and their number, and that is their host name too.
fn host_names(problems: &mut Problems, name: Option<&str>, replicas: i32, care: &JobCare) {
    let last = (replicas.max(1) - 1).to_string().len();
    let padded = usize::try_from(care.ordinal_padding.unwrap_or(0)).unwrap_or(0);
    let room = HOST_NAME - 1 - last.max(padded);
    let length = name.unwrap_or_default().len();
    if length > room {
        problems.error(
            "metadata.name",
            format!(
                "has {length} characters; with so many replicas at most {room} leave room for the numbers of the workers, \
                 whose host names have at most {HOST_NAME}; choose a shorter name"
            ),
        );
    }
}
