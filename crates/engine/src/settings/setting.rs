//! What can be set, by which names, and what holds if nobody sets it: the one table behind the command line, the
//! environment, the file and the documentation.

/// One thing that can be set.
#[derive(Debug)]
pub struct Setting {
    /// Its name in the file, with dots between the levels.
    pub key: &'static str,
    /// Its flag, without dashes.
    pub flag: Option<&'static str>,
    /// A second flag that takes the port alone.
    pub port_flag: Option<&'static str>,
    /// Its environment variable.
    pub env: Option<&'static str>,
    /// What a value looks like. `BOOL` makes a flag that may stand without a value.
    pub value: &'static str,
    /// What holds if nobody sets it, in words where it is no constant.
    pub default: &'static str,
    /// What it is for.
    pub about: &'static str,
}

/// What the value of a switch looks like.
pub const BOOL: &str = "true|false";

const fn setting(
    key: &'static str,
    value: &'static str,
    default: &'static str,
    about: &'static str,
) -> Setting {
    Setting { key, flag: None, port_flag: None, env: None, value, default, about }
}

impl Setting {
    const fn flag(mut self, flag: &'static str) -> Self {
        self.flag = Some(flag);
        self
    }

    const fn port_flag(mut self, flag: &'static str) -> Self {
        self.port_flag = Some(flag);
        self
    }

    const fn env(mut self, env: &'static str) -> Self {
        self.env = Some(env);
        self
    }
}

pub(super) const NAMESPACE: Setting = setting(
    "operatorNamespace",
    "NAME",
    "the ServiceAccount's namespace, else soperator-system",
    "Namespace of this program: its lease and its certificates live there",
)
.flag("operator-namespace")
.env("OPERATOR_NAMESPACE");

pub(super) const LEADER_ELECT: Setting = setting(
    "leaderElection.enabled",
    BOOL,
    "true for the operator, false for the other roles",
    "Whether only the holder of a lease works, so that several replicas may run",
)
.flag("leader-elect")
.env("LEADER_ELECTION");

pub(super) const LEASE: Setting =
    setting("leaderElection.id", "NAME", "slurm-operator; each other role has its own", "Name of the lease")
        .env("LEADER_ELECTION_ID");

pub(super) const WATCH: Setting = setting(
    "watchNamespaces",
    "*|NAME,NAME...",
    "*",
    "Namespaces to look at: all (*), one, or several with commas between",
)
.env("SLURM_OPERATOR_WATCH_NAMESPACES");

pub(super) const CONTROLLERS: Setting = setting(
    "controllers",
    "NAMES",
    "*",
    "Controllers to run: * for all, a name for one, -name for all but one, with commas between",
)
.flag("controllers");

pub(super) const MAX_CONCURRENT: Setting = setting(
    "maxConcurrentReconciles",
    "NUMBER",
    "1",
    "How many objects of one kind are worked on at the same time",
)
.flag("max-concurrent-reconciles");

pub(super) const CACHE_SYNC: Setting = setting(
    "cacheSyncTimeout",
    "DURATION",
    "2m",
    "How long the first lists may take before the program gives up and starts again",
)
.flag("cache-sync-timeout");

pub(super) const NODE_CONDITIONS: Setting = setting(
    "propagatedNodeConditions",
    "TYPE,TYPE...",
    "none",
    "Conditions of Kubernetes nodes that, where they are True, tell Slurm why a node is drained whose Kubernetes node is cordoned",
)
.flag("propagated-node-conditions");

pub(super) const WEBHOOKS: Setting =
    setting("webhooks.enabled", BOOL, "true", "Whether the admission webhooks are served")
        .env("ENABLE_WEBHOOKS");

pub(super) const WEBHOOK_ADDRESS: Setting = setting(
    "webhooks.bindAddress",
    "ADDRESS",
    ":9443",
    "Where the admission webhooks are served; 0 turns them off",
)
.flag("webhook-bind-address");

pub(super) const WEBHOOK_SERVICE: Setting = setting(
    "webhooks.service",
    "NAME",
    "the name of the lease and -webhook",
    "Service by which the API server calls the webhooks, in the operator's namespace",
)
.flag("webhook-service");

pub(super) const WEBHOOK_HOSTS: Setting = setting(
    "webhooks.hosts",
    "NAME,NAME...",
    "none",
    "Further names and addresses by which the API server may call them, for a program that runs outside of the cluster",
)
.flag("webhook-hosts");

pub(super) const WEBHOOK_CONFIGURATION: Setting = setting(
    "webhooks.configuration",
    "NAME",
    "the name of the lease and -webhook",
    "ValidatingWebhookConfiguration whose caBundle is kept",
)
.flag("webhook-configuration");

pub(super) const WEBHOOK_CERTIFICATE: Setting = setting(
    "webhooks.certificate",
    "own|cert-manager|secret",
    "own",
    "Who makes the certificate of the webhooks: this program, cert-manager, or the user in webhooks.secretName",
)
.flag("webhook-certificate");

pub(super) const WEBHOOK_SECRET: Setting = setting(
    "webhooks.secretName",
    "NAME",
    "the name of the lease and -webhook-tls",
    "Secret that keeps the certificate of the webhooks, in the operator's namespace",
)
.flag("webhook-secret");

pub(super) const AGENT_IMAGE: Setting = setting(
    "images.agent",
    "IMAGE",
    "none",
    "Image that slurm-agent is installed from into every Slurm pod: the image of this program itself",
)
.env("SOPERATOR_AGENT_IMAGE");

pub(super) const SLURMRESTD_IMAGE: Setting = setting(
    "images.slurmrestd",
    "IMAGE",
    "none",
    "Image of slurmrestd for clusters that name none and whose image of slurmctld holds none",
)
.env("SOPERATOR_DEFAULT_SLURMRESTD_IMAGE");

pub(super) const MARIADB_IMAGE: Setting =
    setting("images.mariadb", "IMAGE", "none", "Image of the database for clusters that name none")
        .env("SOPERATOR_DEFAULT_MARIADB_IMAGE");

pub(super) const CLUSTER_DOMAIN: Setting =
    setting("clusterDomain", "DOMAIN", "cluster.local", "DNS domain of the Kubernetes cluster")
        .env("SOPERATOR_CLUSTER_DOMAIN");

pub(super) const TOPOLOGY: Setting = setting(
    "topology.enabled",
    BOOL,
    "as `controllers` says",
    "Whether the controller `topology` runs, whatever `controllers` says about it",
)
.flag("enable-topology-controller");

pub(super) const TOPOLOGY_PREFIX: Setting = setting(
    "topology.labelPrefix",
    "PREFIX",
    "topology.nebius.com",
    "Prefix of the node labels that tell the network topology",
)
.env("TOPOLOGY_LABEL_PREFIX");

pub(super) const PROMETHEUS: Setting = setting(
    "optionalKinds.prometheus",
    "auto|true|false",
    "auto",
    "Whether PodMonitor and ServiceMonitor are served; auto asks the API server",
)
.env("IS_PROMETHEUS_CRD_INSTALLED");

pub(super) const MARIADB: Setting = setting(
    "optionalKinds.mariadb",
    "auto|true|false",
    "auto",
    "Whether MariaDB and Grant are served; auto asks the API server",
)
.env("IS_MARIADB_CRD_INSTALLED");

pub(super) const APPARMOR: Setting = setting(
    "optionalKinds.apparmor",
    "auto|true|false",
    "auto",
    "Whether AppArmorProfile is served; auto asks the API server",
)
.env("IS_APPARMOR_CRD_INSTALLED");

pub(super) const LOG_LEVEL: Setting = setting(
    "logging.level",
    "LEVEL",
    "info for the operator, debug for the other roles",
    "What is logged: trace, debug, info, warn or error (dpanic, panic and fatal mean error)",
)
.flag("log-level");

pub(super) const LOG_FORMAT: Setting =
    setting("logging.format", "json|text", "json", "How log lines look (plain means text)")
        .flag("log-format");

pub(super) const LOG_OUTPUTS: Setting =
    setting("logging.outputs", "LIST", "standard output", "Where log lines go; see below");

pub(super) const METRICS: Setting = setting("metrics.enabled", BOOL, "true", "Whether metrics are served");

pub(super) const METRICS_ADDRESS: Setting =
    setting("metrics.bindAddress", "ADDRESS", ":8080", "Where /metrics is served; 0 turns it off")
        .flag("metrics-bind-address")
        .port_flag("metrics-port");

pub(super) const METRICS_SECURE: Setting =
    setting("metrics.secure", BOOL, "as tls.enabled", "Whether /metrics is served over HTTPS")
        .flag("metrics-secure");

pub(super) const METRICS_AUTHORIZATION: Setting = setting(
    "metrics.authorization",
    BOOL,
    "false",
    "Whether /metrics answers only callers whose token the API server lets `get` the path /metrics",
)
.flag("metrics-authorization");

pub(super) const HEALTH_ADDRESS: Setting = setting(
    "health.bindAddress",
    "ADDRESS",
    ":8081",
    "Where /livez, /readyz and /healthz are served; 0 turns it off",
)
.flag("health-probe-bind-address")
.port_flag("health-port");

pub(super) const DEBUG_ADDRESS: Setting = setting(
    "debug.bindAddress",
    "ADDRESS",
    "127.0.0.1:8082",
    "Where /debug/state and /debug/log-level are served, on loopback only; 0 turns it off",
)
.flag("debug-bind-address");

pub(super) const TLS: Setting =
    setting("tls.enabled", BOOL, "false", "Whether servers use the certificate below");

pub(super) const TLS_SECRET: Setting = setting(
    "tls.secretName",
    "NAME",
    "none",
    "Secret of type kubernetes.io/tls in the operator's namespace; files below win over it",
);

pub(super) const TLS_CA: Setting =
    setting("tls.caCert", "FILE", "none", "Certificates of the authority that signed tls.cert");

pub(super) const TLS_CERT: Setting = setting("tls.cert", "FILE", "none", "Certificate, in PEM");

pub(super) const TLS_KEY: Setting = setting("tls.key", "FILE", "none", "Its private key, in PEM");

pub(super) const FEATURE_GATES: Setting = setting(
    "featureGates",
    "NAME=true|false,...",
    "none",
    "Accepted for the sake of the original; has no effect: NodeSets are always served",
)
.flag("feature-gates");

pub(super) const HTTP2: Setting = setting(
    "enableHttp2",
    BOOL,
    "false",
    "Accepted for the sake of the original; has no effect: servers speak HTTP/1.1",
)
.flag("enable-http2");

/// Everything that can be set, in the order in which help and `soperator config show` list it.
pub const SETTINGS: &[&Setting] = &[
    &NAMESPACE,
    &LEADER_ELECT,
    &LEASE,
    &WATCH,
    &CONTROLLERS,
    &MAX_CONCURRENT,
    &CACHE_SYNC,
    &NODE_CONDITIONS,
    &WEBHOOKS,
    &WEBHOOK_ADDRESS,
    &WEBHOOK_SERVICE,
    &WEBHOOK_HOSTS,
    &WEBHOOK_CONFIGURATION,
    &WEBHOOK_CERTIFICATE,
    &WEBHOOK_SECRET,
    &AGENT_IMAGE,
    &SLURMRESTD_IMAGE,
    &MARIADB_IMAGE,
    &CLUSTER_DOMAIN,
    &TOPOLOGY,
    &TOPOLOGY_PREFIX,
    &PROMETHEUS,
    &MARIADB,
    &APPARMOR,
    &LOG_LEVEL,
    &LOG_FORMAT,
    &LOG_OUTPUTS,
    &METRICS,
    &METRICS_ADDRESS,
    &METRICS_SECURE,
    &METRICS_AUTHORIZATION,
    &HEALTH_ADDRESS,
    &DEBUG_ADDRESS,
    &TLS,
    &TLS_SECRET,
    &TLS_CA,
    &TLS_CERT,
    &TLS_KEY,
    &FEATURE_GATES,
    &HTTP2,
];

/// Keys that a file may hold because they belong to the charts, and what to say about them.
pub(super) const NOT_OURS: &[(&str, &str)] = &[
    ("metrics.serviceMonitor", "has no effect here: it is a value of the chart"),
    ("customMetrics", "has no effect here: all metrics are always served"),
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn no_key_flag_or_variable_stands_for_two_things() {
        let mut names = BTreeSet::new();
        for setting in SETTINGS {
            for name in
                [Some(setting.key), setting.flag, setting.port_flag, setting.env].into_iter().flatten()
            {
                // `controllers` is both a key and a flag, of the same setting.
                assert!(names.insert(name) || setting.flag == Some(setting.key), "{name}");
            }
        }
    }

    #[test]
    fn every_setting_of_the_originals_is_here() {
        let flags: Vec<&str> =
            SETTINGS.iter().flat_map(|setting| [setting.flag, setting.port_flag]).flatten().collect();
        for flag in [
            "operator-namespace",
            "leader-elect",
            "log-level",
            "log-format",
            "cache-sync-timeout",
            "max-concurrent-reconciles",
            "enable-topology-controller",
            "feature-gates",
            "metrics-bind-address",
            "health-probe-bind-address",
            "metrics-secure",
            "enable-http2",
            "metrics-port",
            "health-port",
        ] {
            assert!(flags.contains(&flag), "--{flag}");
        }
        let variables: Vec<&str> = SETTINGS.iter().filter_map(|setting| setting.env).collect();
        for variable in [
            "ENABLE_WEBHOOKS",
            "IS_PROMETHEUS_CRD_INSTALLED",
            "IS_MARIADB_CRD_INSTALLED",
            "IS_APPARMOR_CRD_INSTALLED",
            "SLURM_OPERATOR_WATCH_NAMESPACES",
            "LEADER_ELECTION",
            "LEADER_ELECTION_ID",
            "OPERATOR_NAMESPACE",
            "TOPOLOGY_LABEL_PREFIX",
        ] {
            assert!(variables.contains(&variable), "{variable}");
        }
    }
}
