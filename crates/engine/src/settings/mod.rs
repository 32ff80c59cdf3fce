//! Settings of a process: flags win over the environment, that over a file, that over defaults; each value knows where it
//! came from.
//!
//! A role takes in [`Flags`] with `#[command(flatten)]`, says what is special about it in a [`Profile`], and calls
//! [`load`]:
//!
//! ```
//! use engine::settings::{Flags, Profile, World, load};
//!
//! let profile = Profile::new("operator", "slurm-operator").with_controllers(&["nodeset", "slurmcluster"]);
//! let settings = load(&profile, &Flags::default(), &World::default())?;
//! assert!(settings.controllers.contains("nodeset"));
//! # Ok::<(), engine::settings::SettingsError>(())
//! ```

mod controllers;
mod file;
mod flags;
mod nearest;
mod outputs;
mod problem;
mod resolve;
mod setting;
mod source;
mod value;
mod webhooks;

use std::path::PathBuf;
use std::time::Duration;

pub use controllers::Controllers;
pub use flags::Flags;
pub use problem::{Problem, SettingsError};
pub use resolve::Row;
pub use setting::{SETTINGS, Setting};
pub use source::Source;
pub use value::{Address, Time};
pub use webhooks::{Certificate, Webhooks};

use crate::leader::{Candidate, Times};
use crate::logging::{self, Format, Level, Output};
use crate::optional_kinds::Overrides;
use crate::scope::Scope;
pub(crate) use outputs::level;
use resolve::Resolver;
use value::Auto;

/// Where a pod finds the namespace of its ServiceAccount.
const NAMESPACE_FILE: &str = "/var/run/secrets/kubernetes.io/serviceaccount/namespace";
/// The namespace outside of a cluster.
const NAMESPACE: &str = "soperator-system";
const CLUSTER_DOMAIN: &str = "cluster.local";
const TOPOLOGY_PREFIX: &str = "topology.nebius.com";
const TOPOLOGY_CONTROLLER: &str = "topology";
const CACHE_SYNC_TIMEOUT: Time = Time(Duration::from_secs(120));

/// What is special about a role.
#[derive(Clone, Debug)]
pub struct Profile {
    /// Its name.
    pub role: &'static str,
    /// The name of its lease, unless the user says otherwise.
    pub lease: &'static str,
    /// Whether it runs for leadership, unless the user says otherwise.
    pub leader_elect: bool,
    /// The controllers that it has.
    pub controllers: &'static [&'static str],
    /// What it logs, unless the user says otherwise.
    pub log_level: Level,
}

impl Profile {
    /// A role with one lease and no controllers that could be chosen.
    pub const fn new(role: &'static str, lease: &'static str) -> Self {
        Self { role, lease, leader_elect: true, controllers: &[], log_level: Level::Info }
    }

    /// With these controllers to choose from.
    pub const fn with_controllers(mut self, controllers: &'static [&'static str]) -> Self {
        self.controllers = controllers;
        self
    }

    /// Without leader election, unless the user asks for it.
    pub const fn without_leader_election(mut self) -> Self {
        self.leader_elect = false;
        self
    }

    /// With another level of logging.
    pub const fn with_log_level(mut self, level: Level) -> Self {
        self.log_level = level;
        self
    }
}

/// What is read beside flags and the file.
pub struct World<'a> {
    /// The environment.
    pub env: &'a dyn Fn(&str) -> Option<String>,
    /// The file with the namespace of the pod's ServiceAccount.
    pub namespace_file: PathBuf,
}

impl Default for World<'_> {
    fn default() -> Self {
        Self {
            env: &|name| std::env::var_os(name).map(|value| value.to_string_lossy().into_owned()),
            namespace_file: NAMESPACE_FILE.into(),
        }
    }
}

/// Everything that was decided.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The namespace of this program.
    pub namespace: String,
    /// Whether and by which lease it is elected.
    pub leader_election: LeaderElection,
    /// The namespaces that it looks at.
    pub watch: Scope,
    /// The controllers that run.
    pub controllers: Controllers,
    /// How many objects of one kind are worked on at the same time.
    pub max_concurrent_reconciles: usize,
    /// How long the first lists may take.
    pub cache_sync_timeout: Duration,
    /// Types of conditions of Kubernetes nodes that tell Slurm why a node is drained.
    pub node_conditions: Vec<String>,
    /// How admission webhooks are served.
    pub webhooks: Webhooks,
    /// Images that clusters fall back to.
    pub images: Images,
    /// The DNS domain of the Kubernetes cluster.
    pub cluster_domain: String,
    /// The prefix of the labels that tell the network topology.
    pub topology_label_prefix: String,
    /// Which optional kinds the user says are there, or not.
    pub optional_kinds: Overrides,
    /// What is logged, how, and where to.
    pub logging: logging::Options,
    /// How metrics are served.
    pub metrics: Metrics,
    /// Where probes are answered.
    pub health: Address,
    /// Where the inside is shown.
    pub debug: Address,
    /// The certificate of servers; none if it is not enabled.
    pub tls: Option<Tls>,
    /// What works otherwise than the user may think; to be logged once.
    pub warnings: Vec<String>,
    /// Every value and where it came from.
    pub rows: Vec<Row>,
}

/// Whether and by which lease a process is elected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaderElection {
    /// Whether it is.
    pub enabled: bool,
    /// The name of the lease.
    pub lease: String,
}

/// Images that clusters fall back to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Images {
    /// The image that slurm-agent is installed from.
    pub agent: Option<String>,
    /// The image of slurmrestd.
    pub slurmrestd: Option<String>,
    /// The image of the database.
    pub mariadb: Option<String>,
}

/// How metrics are served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Metrics {
    /// Where.
    pub address: Address,
    /// Whether over HTTPS.
    pub secure: bool,
    /// Whether callers are checked.
    pub authorization: bool,
}

/// The certificate of servers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tls {
    /// In files.
    Files {
        /// Certificates of the authority.
        ca: Option<PathBuf>,
        /// Our certificate.
        cert: PathBuf,
        /// Its key.
        key: PathBuf,
    },
    /// In a Secret of the operator's namespace.
    Secret(String),
}

impl Settings {
    /// How this process runs for leadership under a name that no other process has; none if it does not.
    pub fn candidate(&self, identity: &str) -> Option<Candidate> {
        self.leader_election.enabled.then(|| Candidate {
            namespace: self.namespace.clone(),
            lease: self.leader_election.lease.clone(),
            identity: identity.to_string(),
            times: Times::default(),
        })
    }

    /// Where the value of a key came from.
    pub fn source_of(&self, key: &str) -> Option<&Source> {
        self.rows.iter().find(|row| row.key == key).map(|row| &row.source)
    }
}

/// Decides everything, or tells all that is wrong.
pub fn load(profile: &Profile, flags: &Flags, world: &World<'_>) -> Result<Settings, SettingsError> {
    let mut from = Resolver::new(flags, world.env);
    let lease = from.get(&setting::LEASE, value::name, profile.lease.into());
    let settings = Settings {
        namespace: from.get_or(&setting::NAMESPACE, value::namespace, || own_namespace(world)),
        leader_election: LeaderElection {
            enabled: from.get(&setting::LEADER_ELECT, value::switch, profile.leader_elect),
            lease: lease.clone(),
        },
        watch: from.get(&setting::WATCH, Scope::parse, Scope::All),
        controllers: controllers(profile, &mut from),
        max_concurrent_reconciles: from.get(&setting::MAX_CONCURRENT, value::count, 1),
        cache_sync_timeout: from.get(&setting::CACHE_SYNC, Time::parse, CACHE_SYNC_TIMEOUT).0,
        node_conditions: from.get(&setting::NODE_CONDITIONS, |text| Ok(value::list(text)), Vec::new()),
        webhooks: webhooks::read(&mut from, &lease),
        images: images(&mut from),
        cluster_domain: from.get(&setting::CLUSTER_DOMAIN, value::domain, CLUSTER_DOMAIN.into()),
        topology_label_prefix: from.get(
            &setting::TOPOLOGY_PREFIX,
            value::label_prefix,
            TOPOLOGY_PREFIX.into(),
        ),
        optional_kinds: Overrides {
            prometheus: from.get(&setting::PROMETHEUS, Auto::parse, Auto(None)).0,
            mariadb: from.get(&setting::MARIADB, Auto::parse, Auto(None)).0,
            apparmor: from.get(&setting::APPARMOR, Auto::parse, Auto(None)).0,
        },
        logging: logging_options(profile, &mut from),
        // The order of the rest is not that of the fields: some defaults depend on `tls.enabled`.
        tls: tls(&mut from),
        metrics: metrics(&mut from),
        health: from.get(&setting::HEALTH_ADDRESS, Address::parse, Address::Everywhere(8081)),
        debug: from.get(&setting::DEBUG_ADDRESS, Address::parse_loopback, debug_address()),
        warnings: Vec::new(),
        rows: Vec::new(),
    };
    meaningless(&mut from);
    if !from.problems.is_empty() {
        return Err(SettingsError(from.problems));
    }
    let place = |row: &Row| SETTINGS.iter().position(|setting| setting.key == row.key);
    from.rows.sort_by_key(place);
    Ok(Settings { warnings: from.warnings, rows: from.rows, ..settings })
}

fn images(from: &mut Resolver<'_>) -> Images {
    let image = |text: &str| value::image(text).map(Some);
    Images {
        agent: from.get(&setting::AGENT_IMAGE, image, None),
        slurmrestd: from.get(&setting::SLURMRESTD_IMAGE, image, None),
        mariadb: from.get(&setting::MARIADB_IMAGE, image, None),
    }
}

fn own_namespace(world: &World<'_>) -> (String, Source) {
    // Not in a pod, or without a token: no error.
    let text = std::fs::read_to_string(&world.namespace_file).unwrap_or_default();
    match value::namespace(text.trim()) {
        Ok(namespace) => (namespace, Source::ServiceAccount),
        Err(_) => (NAMESPACE.into(), Source::Default),
    }
}

fn debug_address() -> Address {
    Address::At(([127, 0, 0, 1], 8082).into())
}

fn controllers(profile: &Profile, from: &mut Resolver<'_>) -> Controllers {
    let known = profile.controllers;
    let topology = from.get(&setting::TOPOLOGY, |text| value::switch(text).map(Some), None);
    if known.is_empty() {
        from.get(&setting::CONTROLLERS, |text| Ok(Some(text.to_string())), None);
        for setting in [&setting::CONTROLLERS, &setting::TOPOLOGY] {
            if from.source_of(setting) != Source::Default {
                from.warn(
                    setting,
                    format!("has no effect: {} has no controllers to choose from", profile.role),
                );
            }
        }
        return Controllers::default();
    }
    let mut chosen =
        from.get(&setting::CONTROLLERS, |text| Controllers::parse(text, known), Controllers::all(known));
    if let Some(runs) = topology {
        if known.contains(&TOPOLOGY_CONTROLLER) {
            chosen.set(TOPOLOGY_CONTROLLER, runs);
        } else {
            from.warn(&setting::TOPOLOGY, format!("has no effect: {} has no such controller", profile.role));
        }
    }
    chosen
}

fn logging_options(profile: &Profile, from: &mut Resolver<'_>) -> logging::Options {
    let level = from.get(&setting::LOG_LEVEL, outputs::level, profile.log_level);
    let format = from.get(&setting::LOG_FORMAT, outputs::format, Format::Json);
    let (outputs, source) = match from.node(&setting::LOG_OUTPUTS) {
        Some((source, node)) => (outputs::read(from.path(), &node, format, &mut from.problems), source),
        None => (vec![Output::Stdout { format }], Source::Default),
    };
    from.note(&setting::LOG_OUTPUTS, &outputs, source);
    logging::Options { level, outputs }
}

fn metrics(from: &mut Resolver<'_>) -> Metrics {
    let enabled = from.get(&setting::METRICS, value::switch, true);
    let address = from.get(&setting::METRICS_ADDRESS, Address::parse, Address::Everywhere(8080));
    let tls = from.rows.iter().any(|row| row.key == setting::TLS.key && row.value == true);
    let metrics = Metrics {
        address: if enabled { address } else { Address::Off },
        secure: from.get(&setting::METRICS_SECURE, value::switch, tls),
        authorization: from.get(&setting::METRICS_AUTHORIZATION, value::switch, false),
    };
    if metrics.authorization && !metrics.secure {
        from.warn(
            &setting::METRICS_AUTHORIZATION,
            "callers send their tokens unencrypted; turn on --metrics-secure as well",
        );
    }
    metrics
}

fn tls(from: &mut Resolver<'_>) -> Option<Tls> {
    let enabled = from.get(&setting::TLS, value::switch, false);
    let secret = from.get(&setting::TLS_SECRET, |text| value::name(text).map(Some), None);
    let path = |text: &str| value::path(text).map(|path| Some(PathBuf::from(path)));
    let ca = from.get(&setting::TLS_CA, path, None);
    let cert = from.get(&setting::TLS_CERT, path, None);
    let key = from.get(&setting::TLS_KEY, path, None);
    if !enabled {
        return None;
    }
    match (cert, key, secret) {
        (Some(cert), Some(key), secret) => {
            if secret.is_some() {
                from.warn(
                    &setting::TLS_SECRET,
                    "has no effect: the files of tls.cert and tls.key win over it",
                );
            }
            Some(Tls::Files { ca, cert, key })
        }
        (None, None, Some(secret)) => Some(Tls::Secret(secret)),
        (Some(_), None, _) => {
            from.problem(&setting::TLS_CERT, "needs its key: set tls.key too");
            None
        }
        (None, Some(_), _) => {
            from.problem(&setting::TLS_KEY, "needs its certificate: set tls.cert too");
            None
        }
        (None, None, None) => {
            from.problem(&setting::TLS, "needs a certificate: set tls.secretName, or tls.cert and tls.key");
            None
        }
    }
}

/// What only the original has.
fn meaningless(from: &mut Resolver<'_>) {
    if from.get(&setting::HTTP2, value::switch, false) {
        from.warn(&setting::HTTP2, "has no effect: servers speak HTTP/1.1 here");
    }
    let gates = from.get(&setting::FEATURE_GATES, feature_gates, Vec::new());
    if !gates.is_empty() {
        from.warn(
            &setting::FEATURE_GATES,
            "has no effect: there are no gates here, and NodeSets are always served",
        );
    }
}

fn feature_gates(text: &str) -> Result<Vec<String>, String> {
    let gates = text.split(',').map(str::trim).filter(|gate| !gate.is_empty());
    let read = |gate: &str| match gate.split_once('=') {
        Some((name, value)) if !name.is_empty() && value::switch(value).is_ok() => Ok(gate.to_string()),
        _ => Err(format!("{gate:?} is no feature gate: write Name=true or Name=false")),
    };
    gates.map(read).collect()
}

#[cfg(test)]
mod tests;
