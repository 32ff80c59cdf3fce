//! What the operator would make of manifests: shared by `soperator render` and `soperator diff`.

mod manifest;
mod offline;

pub(crate) use manifest::read;
pub(crate) use offline::facts;

use render::Defaults;

/// What the operator was installed with. The names are those of its own environment variables.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct OperatorArgs {
    /// The operator's own image, from which slurm-agent is installed into every Slurm pod
    #[arg(
        long,
        value_name = "IMAGE",
        env = "SOPERATOR_AGENT_IMAGE",
        default_value = concat!("soperator.local/soperator:", env!("CARGO_PKG_VERSION"))
    )]
    agent_image: String,
    /// The image of slurmrestd for clusters that name none and whose image of slurmctld holds none
    #[arg(long, value_name = "IMAGE", env = "SOPERATOR_DEFAULT_SLURMRESTD_IMAGE")]
    slurmrestd_image: Option<String>,
    /// The image of the database for clusters that name none
    #[arg(long, value_name = "IMAGE", env = "SOPERATOR_DEFAULT_MARIADB_IMAGE")]
    mariadb_image: Option<String>,
    /// The DNS domain of the Kubernetes cluster
    #[arg(long, value_name = "DOMAIN", env = "SOPERATOR_CLUSTER_DOMAIN", default_value = "cluster.local")]
    cluster_domain: String,
}

impl OperatorArgs {
    /// As the operator has them.
    pub(crate) fn defaults(&self) -> Defaults {
        Defaults {
            agent_image: self.agent_image.clone(),
            slurmrestd_image: self.slurmrestd_image.clone(),
            mariadb_image: self.mariadb_image.clone(),
            cluster_domain: self.cluster_domain.clone(),
            ..Defaults::default()
        }
    }
}
