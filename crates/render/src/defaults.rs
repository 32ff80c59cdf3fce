//! Settings of the operator that clusters fall back to.

/// What the operator was installed with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Defaults {
    /// The image that `slurm-agent` is installed from into every Slurm pod (`SOPERATOR_AGENT_IMAGE`).
    pub agent_image: String,
    /// The image of slurmrestd where neither `rest.rest.image` is given nor slurmctld's image holds one.
    pub slurmrestd_image: Option<String>,
    /// The image of the plain MariaDB where `accounting.mariadb.image` is absent.
    pub mariadb_image: Option<String>,
    /// The DNS domain of the Kubernetes cluster.
    pub cluster_domain: String,
    /// The version of the operator.
    pub version: String,
}

impl Default for Defaults {
    fn default() -> Self {
        Self {
            agent_image: String::new(),
            slurmrestd_image: None,
            mariadb_image: None,
            cluster_domain: "cluster.local".into(),
            version: env!("CARGO_PKG_VERSION").into(),
        }
    }
}
