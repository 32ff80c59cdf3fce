//! Finds the set that is meant, and its cluster.

use api::{nebius, slinky};
use engine::client::Client;
use engine::{Key, ask, objects};

use super::set::Set;
use super::{Api, Target};
use crate::cli::Error;
use crate::place::{Place, untold};

/// A NodeSet, as the API server has it.
#[derive(Debug)]
pub(super) enum Found {
    Nebius(Box<nebius::NodeSet>),
    Slinky(Box<slinky::NodeSet>),
}

impl Found {
    pub(super) fn set(&self) -> Set {
        match self {
            Self::Nebius(set) => Set::from(&**set),
            Self::Slinky(set) => Set::from(&**set),
        }
    }
}

/// Finds the set.
pub(super) async fn find(place: &Place, target: &Target) -> Result<Found, Error> {
    let key = Key::new(&place.namespace, &target.name);
    let is_asked = |api: Api| target.api.is_none_or(|wanted| wanted == api);
    let (mut found, mut trouble) = (Vec::new(), None);
    if is_asked(Api::Nebius) {
        match objects::get::<nebius::NodeSet>(&place.client, &key).await {
            Ok(set) => found.extend(set.map(|set| Found::Nebius(Box::new(set)))),
            Err(error) => trouble = Some(error),
        }
    }
    if is_asked(Api::Slinky) {
        match objects::get::<slinky::NodeSet>(&place.client, &key).await {
            Ok(set) => found.extend(set.map(|set| Found::Slinky(Box::new(set)))),
            Err(error) => trouble = Some(error),
        }
    }
    match (found.len(), trouble) {
        (0, Some(error)) => Err(untold(error)),
        (0, None) => Err(missing(place, target).await),
        // Whoever may read sets of one group only has got the one that it is.
        (1, _) => found.pop().ok_or_else(|| Error::Bug("a set is gone".into())),
        _ => Err(Error::Refused(both(&key))),
    }
}

fn both(key: &Key) -> String {
    let words: Vec<String> = [Api::Nebius, Api::Slinky]
        .iter()
        .map(|api| format!("--api {} for the one of {}", api.word(), api.group()))
        .collect();
    format!(
        "there are two NodeSets {} in the namespace {}; add {}",
        key.name,
        key.namespace,
        words.join(", or ")
    )
}

/// That there is no such set, and which there are.
async fn missing(place: &Place, target: &Target) -> Error {
    let namespace = Some(place.namespace.as_str());
    let mut names = Vec::new();
    // A group whose definitions are not installed has no sets.
    if let Ok(sets) = ask::list::<nebius::NodeSet>(&place.client, namespace, "").await {
        names.extend(sets.into_iter().filter_map(|set| Some((set.metadata.name?, Api::Nebius))));
    }
    if let Ok(sets) = ask::list::<slinky::NodeSet>(&place.client, namespace, "").await {
        names.extend(sets.into_iter().filter_map(|set| Some((set.metadata.name?, Api::Slinky))));
    }
    Error::Refused(no_such_set(&place.namespace, target, &names))
}

fn no_such_set(namespace: &str, target: &Target, names: &[(String, Api)]) -> String {
    let group = target.api.map(|api| format!(" of {}", api.group())).unwrap_or_default();
    let there: Vec<String> = names.iter().map(|(name, api)| format!("{name} ({})", api.group())).collect();
    let rest = if there.is_empty() {
        "nor any other; name another namespace with -n".into()
    } else {
        format!("there is {}", there.join(", "))
    };
    format!("there is no NodeSet {}{group} in the namespace {namespace}; {rest}", target.name)
}

/// The cluster of the set: the one that it names, or else the only SlurmCluster in its namespace. The error says why there is
/// none.
pub(super) async fn cluster_of(client: &Client, set: &Set) -> Result<String, String> {
    if let Some(name) = &set.cluster {
        return Ok(name.clone());
    }
    let clusters: Vec<nebius::SlurmCluster> = ask::list(client, Some(&set.namespace), "")
        .await
        .map_err(|error| format!("the SlurmClusters cannot be listed: {}", engine::error::chain(&error)))?;
    let mut names: Vec<String> = clusters.into_iter().filter_map(|cluster| cluster.metadata.name).collect();
    match names.len() {
        1 => Ok(names.remove(0)),
        0 => Err("the set names no cluster, and there is no SlurmCluster in its namespace".into()),
        count => {
            Err(format!("the set names no cluster, and {count} are in its namespace; write spec.clusterName"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(api: Option<Api>) -> Target {
        Target { name: "gpu".into(), namespace: None, api }
    }

    #[test]
    fn a_missing_set_is_told_with_those_that_are_there() {
        let names = [("cpu".to_string(), Api::Nebius), ("big".to_string(), Api::Slinky)];
        assert_eq!(
            no_such_set("a", &target(None), &names),
            "there is no NodeSet gpu in the namespace a; there is cpu (slurm.nebius.ai), big (slinky.slurm.net)"
        );
        assert_eq!(
            no_such_set("a", &target(Some(Api::Slinky)), &[]),
            "there is no NodeSet gpu of slinky.slurm.net in the namespace a; nor any other; name another namespace with -n"
        );
    }

    #[test]
    fn two_sets_of_one_name_need_a_word_more() {
        assert_eq!(
            both(&Key::new("a", "gpu")),
            "there are two NodeSets gpu in the namespace a; add --api nebius for the one of slurm.nebius.ai, \
             or --api slinky for the one of slinky.slurm.net"
        );
    }
}
