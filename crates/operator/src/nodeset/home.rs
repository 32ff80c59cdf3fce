//! The cluster that the workers of a set join.

use std::sync::Arc;

use api::nebius::{NodeSet, SlurmCluster};
use engine::Key;
use engine::view::Guarded;
use jiff::Timestamp;
use kube::Resource as _;
use render::{GeneratedSecret, ValidatedCluster, validate};

use crate::context::Context;
use crate::error::Error;
use crate::owner::{Parent, cluster, parent_of};
use crate::slurmcluster::{ForWorkers, for_workers};
use crate::worker_pods::is_forced;
use crate::workers::Connection;

/// The cluster of a set, or what is in the way.
pub enum Home {
    /// It is there, also while it is being deleted.
    Here(Box<Here>),
    /// There is none.
    None(String),
    /// It cannot be used, or nobody can tell which one it is.
    Unclear {
        /// A word for it.
        reason: &'static str,
        /// What is in the way, and what to do.
        message: String,
        /// The cluster is being deleted all the same.
        end: Option<End>,
    },
}

/// How a cluster is being deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct End {
    /// Since when.
    pub asked: Timestamp,
    /// The user gave up the care for running jobs.
    pub forced: bool,
}

/// A cluster that can be used.
pub struct Here {
    /// The cluster.
    pub cluster: ValidatedCluster,
    /// What its workers must know of it besides.
    pub about: ForWorkers,
}

/// Why a set is not served: its fields contradict each other.
pub const DISAGREEMENT: &str = "ClusterDisagreement";

impl Home {
    /// Looks for it.
    pub fn of(context: &Context, set: &NodeSet) -> Self {
        let key = match parent_of(&context.caches, set) {
            Parent::Cluster(key) => key,
            Parent::Unclear(0) => {
                return Self::None("waiting for a SlurmCluster: there is none in this namespace".into());
            }
            Parent::Unclear(count) => {
                return Self::Unclear {
                    reason: super::MISSING,
                    message: format!(
                        "spec.clusterName: {count} SlurmClusters are in this namespace; name the one that the workers join"
                    ),
                    end: None,
                };
            }
            Parent::Disagreement { spec, annotation } => {
                return Self::Unclear {
                    reason: DISAGREEMENT,
                    message: format!(
                        "spec.clusterName is {spec:?} and the annotation {} is {annotation:?}; remove the annotation, or \
                         write the same name to both",
                        render::labels::PARENTAL_CLUSTER
                    ),
                    end: None,
                };
            }
        };
        match cluster(&context.caches, &key) {
            Some(found) => Self::found(context, &key, &found),
            None => Self::None(format!("waiting for SlurmCluster {}: there is none of this name", key.name)),
        }
    }

    fn found(context: &Context, key: &Key, found: &Arc<Guarded<SlurmCluster>>) -> Self {
        let asked = found.meta().deletion_timestamp.as_ref().map(|time| time.0);
        let end = asked.map(|asked| End { asked, forced: is_forced(&**found) });
        let unclear = |problem: String| Self::Unclear {
            reason: super::MISSING,
            message: format!("waiting for SlurmCluster {}: {problem}", key.name),
            end,
        };
        let found = match found.get() {
            Ok(found) => found,
            Err(invalid) => return unclear(format!("it cannot be read: {}", invalid.error)),
        };
        match validate(found, &context.defaults) {
            Ok(cluster) => {
                let about = for_workers(&context.caches, found, &cluster);
                Self::Here(Box::new(Here { cluster, about }))
            }
            Err(problems) => {
                let problems: Vec<String> = problems.iter().map(ToString::to_string).collect();
                unclear(problems.join("; "))
            }
        }
    }

    /// The cluster, if it can be used.
    pub fn here(&self) -> Option<&Here> {
        match self {
            Self::Here(here) => Some(here),
            Self::None(_) | Self::Unclear { .. } => None,
        }
    }

    /// How the cluster is being deleted, if it is: its workers then leave, also where it cannot be used otherwise.
    pub fn end(&self) -> Option<End> {
        match self {
            Self::Here(here) => here.about.deleted.map(|asked| End { asked, forced: here.about.forced }),
            Self::Unclear { end, .. } => *end,
            Self::None(_) => None,
        }
    }

    /// How its Slurm can be asked.
    pub async fn connection(&self, context: &Context) -> Result<Connection, Error> {
        match self {
            Self::None(_) => Ok(Connection::NoCluster),
            Self::Unclear { message, .. } => Ok(Connection::Silent(message.clone())),
            Self::Here(here) if here.about.slurmctld_is_gone => Ok(Connection::NoCluster),
            Self::Here(here) => here.connection(context).await,
        }
    }
}

impl Here {
    async fn connection(&self, context: &Context) -> Result<Connection, Error> {
        let names = self.cluster.names();
        let secret = Key::new(names.namespace(), &names.rest_jwt_key());
        let key = GeneratedSecret::Jwt.key().unwrap_or_default();
        let value = context.secret_value(&secret, key).await;
        let value = value.map_err(|error| Error::call(format!("Secret {secret} cannot be read"), error))?;
        let Some(value) = value else {
            return Ok(Connection::Silent(format!(
                "Slurm cannot be asked: Secret {} has no key {key}",
                names.rest_jwt_key()
            )));
        };
        Ok(match context.links.of_cluster(&self.cluster, &value) {
            Ok(link) => Connection::Link(link),
            Err(error) => Connection::Silent(format!("Slurm cannot be asked: {error}")),
        })
    }
}
