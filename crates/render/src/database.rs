//! The database of accounting: one of the MariaDB operator, or a plain MariaDB of ours.

use std::collections::BTreeMap;

use api::common::PullPolicy;
use api::nebius::Probes;
use api::nebius::slurm_cluster::MariaDbOperator;
use k8s_openapi::api::core::v1::{PersistentVolumeClaimSpec, VolumeResourceRequirements};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use serde_json::{Map, Value, json};
use slurm::agent::{command, env, path};

use crate::labels::Component;
use crate::pod::{Limits, Mount, Pod, Rights, Role, mount, place, var};
use crate::slurm_files::{DATABASE, DATABASE_PORT, DATABASE_USER};
use crate::validate::{Accounting, ContainerSettings, Database, PlainDatabase, VolumeChoice};
use crate::workload::{self, Replace};
use crate::{Dynamic, Facts, Rendered, ValidatedCluster, amount};

/// The key of the Secrets with passwords.
const PASSWORD: &str = "password";

const CONTAINER: &str = "mariadb";
const MARIADB_VERSION: &str = "k8s.mariadb.com/v1alpha1";
/// Seconds for the database to write what it holds in memory.
const GRACE: i64 = 300;

pub(crate) fn render(cluster: &ValidatedCluster, accounting: &Accounting, facts: &Facts) -> Vec<Rendered> {
    match accounting.database(facts) {
        Database::External(_) => Vec::new(),
        Database::Operator(operator) => {
            vec![
                Rendered::apply(Component::Database, mariadb(cluster, accounting, operator, facts)),
                Rendered::apply(Component::Database, grant(cluster)),
            ]
        }
        Database::Plain(plain) => match &plain.image {
            Some(image) => stateful_set(cluster, accounting, plain, image, facts),
            // A condition says so.
            None => Vec::new(),
        },
    }
}

/// A MariaDB as a StatefulSet of ours.
fn stateful_set(
    cluster: &ValidatedCluster,
    accounting: &Accounting,
    plain: &PlainDatabase,
    image: &str,
    facts: &Facts,
) -> Vec<Rendered> {
    let names = &cluster.names;
    let service = workload::service(cluster, Component::Database, names.database(), CONTAINER, DATABASE_PORT);
    let claim = VolumeChoice::Claim(Box::new(plain.storage.clone().unwrap_or_else(default_claim)));
    let secret = |name: &str, file: &str, secret: String| {
        let directory = file.rsplit_once('/').map_or(file, |(directory, _)| directory);
        Mount::new(name, directory, mount::secret(secret)).read_only()
    };
    let settings = ContainerSettings {
        image: image.to_owned(),
        pull_policy: PullPolicy::IfNotPresent,
        command: Vec::new(),
        args: Vec::new(),
        port: DATABASE_PORT,
        resources: BTreeMap::new(),
        limits: None,
        app_armor_profile: String::new(),
        env: Vec::new(),
        probes: Probes::default(),
        proc_mount: None,
    };
    let mut env = place();
    env.extend([var(env::DATABASE_NAME, DATABASE), var(env::DATABASE_USER, DATABASE_USER)]);
    let mut main = Role {
        name: CONTAINER,
        command: command::MARIADB,
        settings: &settings,
        image: None,
        port: Some(DATABASE_PORT),
        rights: Rights::Plain,
        limits: Limits::WithoutCpu,
        host_users: accounting.pod.host_users,
        env,
        mounts: vec![
            Mount::of("data", path::DATABASE, &claim),
            secret("database-password", path::DATABASE_PASSWORD, names.database_password()),
            secret("database-root-password", path::DATABASE_ROOT_PASSWORD, names.database_root_password()),
        ],
    }
    .build();
    main.container.resources = plain.resources.clone();
    // Init containers of the user are slurmdbd's.
    let mut pod_settings = accounting.pod.clone();
    pod_settings.init_containers.clear();
    let pod = Pod::new(cluster, Component::Database, &pod_settings, main, GRACE).build();
    let set = workload::stateful_set(
        cluster,
        Component::Database,
        names.database(),
        names.database(),
        i32::from(facts.running.accounting),
        Replace::AtOnce,
        pod,
    );
    vec![Rendered::apply(Component::Database, service), Rendered::recreate(Component::Database, set)]
}

fn default_claim() -> PersistentVolumeClaimSpec {
    let storage = BTreeMap::from([("storage".to_owned(), Quantity("10Gi".into()))]);
    PersistentVolumeClaimSpec {
        access_modes: Some(vec!["ReadWriteOnce".into()]),
        resources: Some(VolumeResourceRequirements {
            requests: Some(storage),
            ..VolumeResourceRequirements::default()
        }),
        ..PersistentVolumeClaimSpec::default()
    }
}

/// A MariaDB that the MariaDB operator runs.
fn mariadb(
    cluster: &ValidatedCluster,
    accounting: &Accounting,
    operator: &MariaDbOperator,
    facts: &Facts,
) -> Dynamic {
    let names = &cluster.names;
    let replicas = operator.replicas.unwrap_or(1);
    let container = &operator.container;
    let password = |secret: String| json!({ "name": secret, "key": PASSWORD, "generate": false });
    let mut spec = Map::new();
    let mut set = |key: &str, value: Value| {
        if !value.is_null() {
            spec.insert(key.to_owned(), value);
        }
    };
    set("database", DATABASE.into());
    set("username", DATABASE_USER.into());
    set("passwordSecretKeyRef", password(names.database_password()));
    set("rootPasswordSecretKeyRef", password(names.database_root_password()));
    set("image", container.image.clone().into());
    set("imagePullPolicy", to_value(&container.image_pull_policy));
    set("imagePullSecrets", to_value(&some(&accounting.pod.image_pull_secrets)));
    set("port", container.port.filter(|port| *port > 0).unwrap_or(DATABASE_PORT.into()).into());
    set("replicas", if facts.running.accounting { replicas } else { 0 }.into());
    set("service", json!({ "type": "ClusterIP" }));
    set("myCnf", my_cnf(container.resources.as_ref()).into());
    set("metrics", json!({ "enabled": operator.metrics.enabled }));
    set("affinity", affinity(accounting, replicas));
    set("nodeSelector", to_value(&accounting.pod.placement.node_selector));
    set("tolerations", to_value(&accounting.pod.placement.tolerations));
    set("priorityClassName", to_value(&operator.priority_class_name));
    set("resources", resources(container.resources.as_ref()));
    set("podSecurityContext", to_value(&operator.pod_security_context));
    set("securityContext", to_value(&operator.security_context));
    set("replication", to_value(&operator.replication));
    set("storage", to_value(&operator.storage));
    dynamic(cluster, "MariaDB", "mariadbs", Value::Object(spec))
}

/// All rights of slurmdbd's user on its database.
fn grant(cluster: &ValidatedCluster) -> Dynamic {
    let spec = json!({
        "mariaDbRef": { "name": cluster.names.database() },
        "privileges": ["ALL PRIVILEGES"],
        "database": DATABASE,
        "table": "*",
        "username": DATABASE_USER,
        "host": "%",
        "grantOption": true,
        "requeueInterval": "30s",
        "retryInterval": "5s",
    });
    dynamic(cluster, "Grant", "grants", spec)
}

fn dynamic(cluster: &ValidatedCluster, kind: &'static str, plural: &'static str, spec: Value) -> Dynamic {
    Dynamic {
        api_version: MARIADB_VERSION,
        kind,
        plural,
        metadata: cluster.metadata(cluster.names.database(), Component::Database),
        body: json!({ "spec": spec }),
    }
}

/// What slurmdbd needs of a database (Slurm's guide to accounting). Half of the memory holds tables. With snapshot isolation,
/// slurmdbd 26.05 ends when two transactions meet; servers before 11.6 do not know it.
fn my_cnf(resources: Option<&BTreeMap<String, Quantity>>) -> String {
    const MIB: u64 = 1 << 20;
    let memory = resources.and_then(|resources| resources.get("memory")).and_then(amount::whole);
    let pool = memory.map_or(512, |memory| memory / 2 / MIB).max(128);
    format!(
        "[mariadb]\nbind-address=*\ninnodb_buffer_pool_size={pool}M\ninnodb_log_file_size=64M\n\
         innodb_lock_wait_timeout=900\nmax_allowed_packet=16M\n\
         loose_innodb_snapshot_isolation=OFF\n"
    )
}

/// The MariaDB operator takes only these two kinds of affinity. Several pods are kept on different nodes.
fn affinity(accounting: &Accounting, replicas: i32) -> Value {
    let mut fields = Map::new();
    if let Some(affinity) = &accounting.pod.placement.affinity {
        for (key, value) in [
            ("nodeAffinity", to_value(&affinity.node_affinity)),
            ("podAntiAffinity", to_value(&affinity.pod_anti_affinity)),
        ] {
            if !value.is_null() {
                fields.insert(key.into(), value);
            }
        }
    }
    if replicas > 1 {
        fields.insert("antiAffinityEnabled".into(), true.into());
    }
    if fields.is_empty() { Value::Null } else { Value::Object(fields) }
}

fn resources(requests: Option<&BTreeMap<String, Quantity>>) -> Value {
    let Some(requests) = requests.filter(|requests| !requests.is_empty()) else { return Value::Null };
    let mut limits = requests.clone();
    limits.remove("cpu");
    json!({ "requests": requests, "limits": limits })
}

fn some<T>(list: &[T]) -> Option<&[T]> {
    (!list.is_empty()).then_some(list)
}

/// Types of Kubernetes always become JSON.
fn to_value(value: &impl serde::Serialize) -> Value {
    serde_json::to_value(value).unwrap_or_default()
}
