//! What rendering needs to know of the world.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use slurm::conf::{Key, Value};
use slurm::{NodeName, Secret};

use crate::secrets::{GeneratedSecret, Material};

/// What rendering needs to know of the world and cannot find out. The default is a new cluster of which nothing exists.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Facts {
    /// The password with which slurmdbd logs in to its database, from the Secret of the user or the generated one. Without
    /// it slurmdbd.conf is not written yet, and slurmdbd not started.
    pub database_password: Option<Secret>,
    /// Content for generated Secrets that do not exist yet; they are rendered to be made once. Those that exist are not
    /// in here, and are not rendered.
    pub new_secrets: BTreeMap<GeneratedSecret, Material>,
    /// NodeSets of the cluster, also the one that stands for `slurmNodes.worker`, by name.
    pub node_sets: BTreeMap<String, NodeSetFacts>,
    /// topology.conf, where something writes it. Without it a text is rendered that lets slurmctld start.
    pub topology: Option<String>,
    /// Further files of the effective set, by name: ConfigMaps of JailedConfigs whose paths lie below `/etc/slurm`. A name
    /// that the operator writes itself is passed over.
    pub more_configs: BTreeMap<String, Vec<u8>>,
    /// Optional kinds that the API server serves.
    pub served: Served,
    /// Slurm programs in slurmctld's image, as its agent reports them. `None`: not known yet.
    pub slurmctld_programs: Option<BTreeSet<String>>,
    /// ConfigMaps and Secrets of the user.
    pub references: References,
    /// Which parts have pods now.
    pub running: Running,
    /// Images that a part keeps while a change of version has not come to it.
    pub held_images: HeldImages,
    /// The Job that fills the jail.
    pub populate: PopulateFacts,
}

/// The Job that fills the jail, as it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PopulateFacts {
    /// What the Job that exists was made for; `None` where there is none.
    pub mark: Option<PopulateMark>,
    /// Whether it has done its work.
    pub is_done: bool,
    /// Whether login or worker pods are there, or about to be, which see the jail.
    pub jail_is_in_use: bool,
    /// Whether a pod that overwrites the jail has not ended yet, also one whose Job is gone.
    pub overwriter_lives: bool,
    /// The generation with which `maintenance: downscaleAndOverwritePopulateJail` came. `None` where the spec has another mode, or
    /// the status does not tell yet.
    pub wish: Option<i64>,
}

/// What a Job that fills the jail was made for. It is written on the Job ([`crate::labels::POPULATE_MARK`]), so that an
/// operator that was started anew knows whether a wish to overwrite the jail was followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PopulateMark {
    /// To fill a jail; one that is full stays.
    Fill,
    /// To fill it anew, for `populateJail.overwrite`.
    FillAnew,
    /// To overwrite it for `maintenance: downscaleAndOverwritePopulateJail`, and for which wish ([`PopulateFacts::wish`]).
    Overwrite(i64),
}

/// How marks begin that stand for [`PopulateMark::Overwrite`].
const OVERWRITE: &str = "overwrite";
const FILL: &str = "fill";
const FILL_ANEW: &str = "fill-anew";

impl PopulateMark {
    /// As the annotation writes it.
    #[must_use]
    pub fn to_annotation(self) -> String {
        match self {
            Self::Fill => FILL.into(),
            Self::FillAnew => FILL_ANEW.into(),
            Self::Overwrite(wish) => format!("{OVERWRITE}-{wish}"),
        }
    }

    /// What the annotation says. One that says nothing known fills.
    #[must_use]
    pub fn from_annotation(text: Option<&str>) -> Self {
        match text {
            Some(FILL_ANEW) => Self::FillAnew,
            Some(text) => text.strip_prefix(OVERWRITE).map_or(Self::Fill, |wish| {
                Self::Overwrite(wish.strip_prefix('-').and_then(|wish| wish.parse().ok()).unwrap_or(0))
            }),
            None => Self::Fill,
        }
    }

    /// Whether such a Job takes away what is in the jail.
    #[must_use]
    pub const fn overwrites(self) -> bool {
        matches!(self, Self::FillAnew | Self::Overwrite(_))
    }
}

/// A NodeSet of the cluster and its pods.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeSetFacts {
    /// Whether its workers have GPUs, or a pod of it was made with them (annotation [`crate::labels::GPUS`]).
    pub gpu: bool,
    /// Its pods, whatever they do, in the order of their ordinals.
    pub workers: Vec<WorkerFacts>,
}

/// A worker's pod that exists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerFacts {
    /// Its Slurm node.
    pub node: NodeName,
    /// What stands behind `NodeName=` in slurm.conf, as the pod itself carries it in the annotation
    /// [`crate::labels::NODE_LINE`] (read by `slurm::conf::user_pairs`): a line changes only when its pod does. `None`: the
    /// node registers itself and has no line.
    pub line: Option<Vec<(Key, Value)>>,
    /// What stands behind `NodeName=` in gres.conf: the lines of the annotation [`crate::labels::GRES_LINES`]. They are the pod's,
    /// as those of slurm.conf are: Slurm fails the jobs of a node whose GRES change.
    pub gres: Vec<String>,
    /// The address of the pod, once it has one. A node with a line gets it only then: slurmctld waits 10 s for each name that it
    /// cannot resolve, and forgets the node.
    pub address: Option<IpAddr>,
    /// Whether slurmd was up once (the startup probe of its container has passed, `containerStatuses[].started`), so that
    /// Slurm has the node. A node that registers itself is put into topology.conf only then: Slurm looks at that file when
    /// it is told to reconfigure, passes over nodes that it does not have, and runs no job on a node outside of it.
    pub registered: bool,
}

impl WorkerFacts {
    /// A pod that was just made, of a node that registers itself.
    #[must_use]
    pub const fn new(node: NodeName) -> Self {
        Self { node, line: None, gres: Vec::new(), address: None, registered: false }
    }

    /// Whether slurm.conf has a line for the node.
    #[must_use]
    pub fn has_line(&self) -> bool {
        self.line.is_some() && self.address.is_some()
    }

    /// Whether Slurm has the node, or will have it when it reads slurm.conf.
    #[must_use]
    pub fn is_known(&self) -> bool {
        self.has_line() || (self.line.is_none() && self.registered)
    }
}

/// Optional kinds that the API server serves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Served {
    /// `MariaDB` and `Grant` of `k8s.mariadb.com`.
    pub mariadb: bool,
    /// `AppArmorProfile` of `security-profiles-operator.x-k8s.io`.
    pub app_armor_profile: bool,
    /// `PodMonitor` and `ServiceMonitor` of `monitoring.coreos.com`.
    pub monitors: bool,
}

/// ConfigMaps and Secrets that the user refers to: a version (resource version, or a hash of the content) for each that
/// exists. What changes in there restarts a pod only where the pod cannot see it by itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct References {
    /// ConfigMaps by name.
    pub config_maps: BTreeMap<String, String>,
    /// Secrets by name.
    pub secrets: BTreeMap<String, String>,
}

/// Which parts have pods now. Maintenance stops them in a safe order (workers drained, workers, login, slurmctld) and starts
/// them in the reverse one; the operator says how far it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Running {
    /// slurmdbd, and its database where it is ours.
    pub accounting: bool,
    /// slurmctld.
    pub controller: bool,
    /// slurmrestd. It lives as long as slurmctld: without it nobody can be drained.
    pub rest: bool,
    /// Workers of `slurmNodes.worker`; the NodeSet then has 0 replicas, and its controller drains.
    pub workers: bool,
    /// Login pods.
    pub login: bool,
}

impl Default for Running {
    fn default() -> Self {
        Self { accounting: true, controller: true, rest: true, workers: true, login: true }
    }
}

/// The images that parts keep until a change of Slurm's version comes to them (slurmdbd, slurmctld, then login, REST and
/// workers). `None`: what the spec says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HeldImages {
    /// Of container `accounting`.
    pub slurmdbd: Option<String>,
    /// Of container `slurmctld`.
    pub slurmctld: Option<String>,
    /// Of container `slurmrestd`.
    pub slurmrestd: Option<String>,
    /// Of container `sshd` of login pods.
    pub sshd: Option<String>,
    /// Of container `slurmd` of the NodeSet that stands for `slurmNodes.worker`.
    pub slurmd: Option<String>,
}
