//! Settings as a whole.

use clap::{Args as _, FromArgMatches as _};

use super::*;

const OPERATOR: Profile =
    Profile::new("operator", "slurm-operator").with_controllers(&["nodeset", "slurmcluster", "topology"]);

struct Case {
    folder: tempfile::TempDir,
    words: Vec<String>,
    env: Vec<(&'static str, &'static str)>,
}

fn case() -> Case {
    Case { folder: tempfile::tempdir().unwrap(), words: Vec::new(), env: Vec::new() }
}

impl Case {
    fn flags(mut self, words: &[&str]) -> Self {
        self.words.extend(words.iter().map(ToString::to_string));
        self
    }

    fn env(mut self, name: &'static str, value: &'static str) -> Self {
        self.env.push((name, value));
        self
    }

    fn file(mut self, text: &str) -> Self {
        let path = self.folder.path().join("c.yaml");
        std::fs::write(&path, text).unwrap();
        self.words.push(format!("--config={}", path.display()));
        self
    }

    fn service_account(self, namespace: &str) -> Self {
        std::fs::write(self.folder.path().join("namespace"), namespace).unwrap();
        self
    }

    fn load_as(&self, profile: &Profile) -> Result<Settings, String> {
        let words = std::iter::once("role".to_string()).chain(self.words.iter().cloned());
        let matches = Flags::augment_args(clap::Command::new("role")).try_get_matches_from(words).unwrap();
        let env = |name: &str| {
            self.env.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_string())
        };
        let world = World { env: &env, namespace_file: self.folder.path().join("namespace") };
        let folder = format!("{}/", self.folder.path().display());
        load(profile, &Flags::from_arg_matches(&matches).unwrap(), &world)
            .map_err(|error| error.to_string().replace(&folder, ""))
    }

    fn load(&self) -> Settings {
        self.load_as(&OPERATOR).unwrap()
    }

    fn error(&self) -> String {
        self.load_as(&OPERATOR).unwrap_err()
    }
}

fn source(settings: &Settings, key: &str) -> String {
    let source = settings.source_of(key).unwrap().to_string();
    // Without the folder of the test.
    source.rsplit('/').next().unwrap().to_string()
}

#[test]
fn flags_win_over_the_environment_and_that_over_the_file_and_that_over_defaults() {
    let file = "operatorNamespace: from-file\nleaderElection:\n  id: from-file\n  enabled: false\n";
    let all =
        case().flags(&["--operator-namespace=from-flag"]).env("OPERATOR_NAMESPACE", "from-env").file(file);
    let all = all.env("LEADER_ELECTION_ID", "from-env").load();
    assert_eq!(
        (all.namespace.as_str(), source(&all, "operatorNamespace")),
        ("from-flag", "flag --operator-namespace".into())
    );
    assert_eq!(
        (all.leader_election.lease.as_str(), source(&all, "leaderElection.id")),
        ("from-env", "env LEADER_ELECTION_ID".into())
    );
    assert_eq!(
        (all.leader_election.enabled, source(&all, "leaderElection.enabled")),
        (false, "c.yaml:4".into())
    );
    assert_eq!((all.webhooks.enabled, source(&all, "webhooks.enabled")), (true, "default".into()));
}

#[test]
fn without_anything_the_defaults_hold() {
    let settings = case().load();
    assert_eq!(settings.namespace, "soperator-system");
    assert_eq!(settings.leader_election, LeaderElection { enabled: true, lease: "slurm-operator".into() });
    assert_eq!((settings.watch.clone(), settings.max_concurrent_reconciles), (Scope::All, 1));
    assert_eq!(settings.cache_sync_timeout, Duration::from_secs(120));
    assert_eq!(settings.topology_label_prefix, "topology.nebius.com");
    assert_eq!(settings.optional_kinds, Overrides::default());
    assert_eq!(settings.logging.outputs, [Output::Stdout { format: Format::Json }]);
    assert_eq!(settings.metrics.address.to_string(), ":8080");
    assert_eq!((settings.metrics.secure, settings.metrics.authorization), (false, false));
    assert_eq!(
        (settings.health.to_string(), settings.debug.to_string()),
        (":8081".into(), "127.0.0.1:8082".into())
    );
    assert_eq!(settings.tls, None);
    assert_eq!(settings.warnings, Vec::<String>::new());
}

#[test]
fn a_process_runs_for_the_lease_that_the_settings_name() {
    let settings = case().flags(&["--operator-namespace=slurm"]).env("LEADER_ELECTION_ID", "mine").load();
    let candidate = settings.candidate("pod-1").unwrap();
    let names = (candidate.namespace.as_str(), candidate.lease.as_str(), candidate.identity.as_str());
    assert_eq!(names, ("slurm", "mine", "pod-1"));
    assert!(case().flags(&["--leader-elect=false"]).load().candidate("pod-1").is_none());
}

#[test]
fn every_setting_has_one_row_in_the_order_of_the_table() {
    let rows: Vec<&str> = case().load().rows.iter().map(|row| row.key).collect();
    let table: Vec<&str> = SETTINGS.iter().map(|setting| setting.key).collect();
    assert_eq!(rows, table);
}

#[test]
fn the_namespace_of_the_service_account_wins_over_the_default_only() {
    let settings = case().service_account("slurm\n").load();
    assert_eq!(
        (settings.namespace.as_str(), source(&settings, "operatorNamespace")),
        ("slurm", "ServiceAccount".into())
    );
    assert_eq!(case().service_account("slurm").env("OPERATOR_NAMESPACE", "other").load().namespace, "other");
    assert_eq!(
        case().service_account("slurm").flags(&["--operator-namespace", ""]).load().namespace,
        "slurm"
    );
}

#[test]
fn each_variable_of_the_original_counts() {
    let settings = case()
        .env("LEADER_ELECTION", "false")
        .env("ENABLE_WEBHOOKS", "false")
        .env("SLURM_OPERATOR_WATCH_NAMESPACES", "b,a")
        .env("IS_PROMETHEUS_CRD_INSTALLED", "true")
        .env("IS_MARIADB_CRD_INSTALLED", "false")
        .env("IS_APPARMOR_CRD_INSTALLED", "")
        .env("TOPOLOGY_LABEL_PREFIX", "topology.example.com")
        .load();
    assert!(!settings.leader_election.enabled && !settings.webhooks.enabled);
    assert_eq!(settings.watch, Scope::Namespaces(vec!["a".into(), "b".into()]));
    let overrides = Overrides { prometheus: Some(true), mariadb: Some(false), apparmor: None };
    assert_eq!(settings.optional_kinds, overrides);
    assert_eq!(settings.topology_label_prefix, "topology.example.com");
}

#[test]
fn the_file_of_the_architecture_document_is_taken() {
    let file = "logging:\n  level: \"info\"\n  format: \"json\"\n  outputs:\n    - type: stdout\n      format: json\n    - \
                type: file\n      path: /var/log/soperator.log\n      maxSize: 100MB\n      maxAge: 30d\n      \
                maxBackups: 3\ntls:\n  enabled: true\n  secretName: slurm-operator-tls\n  caCert: /path/to/ca.crt\n  \
                cert: /path/to/tls.crt\n  key: /path/to/tls.key\nmetrics:\n  enabled: true\n  serviceMonitor:\n    \
                enabled: true\n    interval: 30s\n";
    let settings = case().file(file).load();
    let files = Tls::Files {
        ca: Some("/path/to/ca.crt".into()),
        cert: "/path/to/tls.crt".into(),
        key: "/path/to/tls.key".into(),
    };
    assert_eq!(settings.tls, Some(files));
    assert_eq!(settings.logging.outputs.len(), 2);
    assert!(settings.metrics.secure, "with a certificate, metrics are served over HTTPS");
    assert_eq!(settings.warnings.len(), 2, "{:?}", settings.warnings);
}

#[test]
fn all_that_is_wrong_is_told_at_once_with_its_place() {
    let told = case()
        .flags(&["--log-level=loud", "--metrics-bind-address=8080", "--controllers=nodesets"])
        .env("LEADER_ELECTION", "maybe")
        .file("cacheSyncTimeout: soon\nhealth:\n  bindAddress: [1]\nlogin: x\n")
        .error();
    for line in [
        "c.yaml:4: login: unknown key; did you mean `logging`?",
        "environment variable LEADER_ELECTION: \"maybe\" is neither true nor false",
        "--controllers: no controller is called \"nodesets\"; did you mean `nodeset`?",
        "c.yaml:1: cacheSyncTimeout: \"soon\" is no duration",
        "--log-level: \"loud\" is no level",
        "--metrics-bind-address: \"8080\" is no address",
        "c.yaml:3: health.bindAddress: expects ADDRESS, not a list",
    ] {
        assert!(told.lines().any(|told| told.starts_with(line)), "{line:?} is not in:\n{told}");
    }
    assert_eq!(told.lines().count(), 7, "{told}");
}

#[test]
fn a_file_that_is_not_there_is_named() {
    let told = case().flags(&["--config=/nowhere/c.yaml"]).error();
    assert!(told.starts_with("--config: cannot read /nowhere/c.yaml: "), "{told}");
}

#[test]
fn the_topology_flag_adds_and_removes_its_controller() {
    let runs = |flags: &[&str]| case().flags(flags).load().controllers.contains("topology");
    assert!(runs(&[]));
    assert!(!runs(&["--enable-topology-controller=false"]));
    assert!(!runs(&["--controllers=nodeset"]));
    assert!(runs(&["--controllers=nodeset", "--enable-topology-controller"]));
}

#[test]
fn what_means_nothing_here_warns_once() {
    let settings = case().flags(&["--enable-http2", "--feature-gates=NodeSetWorkers=false,X=true"]).load();
    assert_eq!(settings.warnings.len(), 2, "{:?}", settings.warnings);
    assert!(settings.warnings[0].starts_with("--enable-http2: has no effect"), "{:?}", settings.warnings);
    assert_eq!(case().flags(&["--enable-http2=false"]).load().warnings, Vec::<String>::new());
    assert!(case().flags(&["--feature-gates=NodeSetWorkers"]).error().contains("Name=true"));
    let plain = Profile::new("exporter", "exporter");
    let settings =
        case().flags(&["--enable-topology-controller", "--controllers=x"]).load_as(&plain).unwrap();
    assert_eq!(settings.warnings.len(), 2, "{:?}", settings.warnings);
}

#[test]
fn a_role_has_its_own_defaults() {
    let profile = Profile::new("soperatorchecks", "soperatorchecks")
        .without_leader_election()
        .with_log_level(Level::Debug);
    let settings = case().load_as(&profile).unwrap();
    assert_eq!(settings.leader_election, LeaderElection { enabled: false, lease: "soperatorchecks".into() });
    assert_eq!(settings.logging.level, Level::Debug);
    assert_eq!(settings.rows.len(), SETTINGS.len());
}

#[test]
fn a_port_alone_will_do() {
    let settings = case().flags(&["--metrics-port=9090", "--health-port", "9091"]).load();
    assert_eq!(
        (settings.metrics.address.to_string(), settings.health.to_string()),
        (":9090".into(), ":9091".into())
    );
    assert_eq!(source(&settings, "metrics.bindAddress"), "flag --metrics-port");
    assert_eq!(case().file("metrics:\n  enabled: false\n").load().metrics.address, Address::Off);
}

#[test]
fn a_certificate_needs_its_key_and_tls_needs_a_certificate() {
    assert!(
        case()
            .file("tls:\n  enabled: true\n")
            .error()
            .starts_with("c.yaml:2: tls.enabled: needs a certificate")
    );
    let told = case().file("tls:\n  enabled: true\n  cert: a\n").error();
    assert!(told.starts_with("c.yaml:3: tls.cert: needs its key"), "{told}");
    let settings = case().file("tls:\n  enabled: true\n  secretName: s\n").load();
    assert_eq!(settings.tls, Some(Tls::Secret("s".into())));
    assert_eq!(case().file("tls:\n  cert: a\n").load().tls, None, "not enabled");
}

#[test]
fn the_content_of_a_key_is_never_shown() {
    let told = case()
        .file("tls:\n  enabled: true\n  cert: a\n  key: |\n    -----BEGIN KEY-----\n    MIIsecret\n")
        .error();
    assert!(told.contains("c.yaml:4: tls.key: holds the content"), "{told}");
    assert!(!told.contains("MII"), "{told}");
}

#[test]
fn tokens_over_plain_http_warn() {
    let settings = case().flags(&["--metrics-authorization"]).load();
    assert!(settings.warnings[0].contains("unencrypted"), "{:?}", settings.warnings);
    let settings = case().flags(&["--metrics-authorization", "--metrics-secure"]).load();
    assert!(settings.metrics.secure && settings.metrics.authorization && settings.warnings.is_empty());
}

#[test]
fn names_of_the_webhooks_follow_the_lease_unless_they_are_set() {
    let webhooks = case().env("LEADER_ELECTION_ID", "slinky").load().webhooks;
    assert_eq!((&*webhooks.service, &*webhooks.configuration), ("slinky-webhook", "slinky-webhook"));
    assert_eq!((&*webhooks.secret, webhooks.certificate), ("slinky-webhook-tls", Certificate::Own));
    let flags = ["--webhook-service=s", "--webhook-hosts=127.0.0.1, a.b", "--webhook-certificate=secret"];
    let webhooks = case().flags(&flags).load().webhooks;
    assert_eq!((&*webhooks.service, webhooks.certificate), ("s", Certificate::Secret));
    assert_eq!(webhooks.hosts, ["127.0.0.1", "a.b"]);
    let error = case().flags(&["--webhook-certificate=letsencrypt"]).error();
    assert!(error.contains("none of own, cert-manager, secret"), "{error}");
}

#[test]
fn conditions_of_nodes_are_named_with_commas_between() {
    let flag = "--propagated-node-conditions=GpuUnhealthy, KernelDeadlock,";
    assert_eq!(case().flags(&[flag]).load().node_conditions, ["GpuUnhealthy", "KernelDeadlock"]);
    assert!(case().load().node_conditions.is_empty());
}
