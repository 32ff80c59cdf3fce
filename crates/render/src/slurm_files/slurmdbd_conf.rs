//! slurmdbd.conf.

use std::collections::BTreeMap;

use api::nebius::slurm_cluster::{
    DatabaseTls, SlurmdbdConfig, SlurmdbdDebugFlags, SlurmdbdDebugLevel, YesNo,
};
use slurm::agent::path;
use slurm::conf::{ConfFile, Value};
use slurm::{key, value};

use super::plain;
use crate::validate::{Accounting, Database};
use crate::{Facts, ValidatedCluster};

/// The database that slurmdbd uses.
pub const DATABASE: &str = "slurm_acct_db";
/// The user that slurmdbd is to a database of ours.
pub const DATABASE_USER: &str = "slurm";
/// The port of a database of ours.
pub const DATABASE_PORT: u16 = 3306;
/// Where a Secret with `ca.crt` is mounted.
pub const TLS_CA_DIR: &str = "/mnt/slurmdbd-ssl-ca-cert";
/// Where a Secret with `tls.crt` and `tls.key` is mounted.
pub const TLS_CLIENT_DIR: &str = "/mnt/slurmdbd-ssl-client-key";

/// The text of slurmdbd.conf; a secret, because the password is in it. `None`: the password is not known yet, or has a
/// character that cannot be written (`"` or a control character).
#[must_use]
pub fn slurmdbd_conf(cluster: &ValidatedCluster, accounting: &Accounting, facts: &Facts) -> Option<String> {
    let names = cluster.names();
    let mut conf = ConfFile::new();
    conf.set(key!("AuthType"), value!("auth/munge"))
        // slurmrestd always runs, for the operator.
        .set(key!("AuthAltTypes"), value!("auth/jwt"))
        .set(key!("AuthAltParameters"), plain(&format!("jwt_key={}", path::SLURMDBD_JWT_KEY)))
        .set(key!("SlurmUser"), value!("root"))
        .set(key!("LogFile"), value!("/dev/null"))
        .set(key!("PidFile"), value!("/var/run/slurmdbd.pid"))
        // The host name of the pod.
        .set(key!("DbdHost"), value!("accounting"))
        .set(key!("DbdPort"), accounting.slurmdbd.port)
        .set(key!("StorageLoc"), plain(DATABASE))
        .set(key!("StorageType"), value!("accounting_storage/mysql"));
    let database = accounting.database(facts);
    if needs_password(database) {
        let password = String::from_utf8(facts.database_password.as_ref()?.expose().to_vec()).ok()?;
        let password = password.trim_end_matches(['\r', '\n']);
        conf.set(key!("StoragePass"), Value::escaped("password", password).ok()?);
    }
    match database {
        Database::External(external) => {
            conf.set(key!("StorageUser"), &external.user)
                .set(key!("StorageHost"), &external.host)
                .set(key!("StoragePort"), external.port)
                .set_some(key!("StorageParameters"), parameters(&external.parameters, &external.tls));
        }
        Database::Operator(operator) => {
            let port = operator.container.port.and_then(|port| u16::try_from(port).ok());
            conf.set(key!("StorageUser"), plain(DATABASE_USER))
                .set(key!("StorageHost"), plain(&names.database()))
                .set(key!("StoragePort"), port.filter(|port| *port > 0).unwrap_or(DATABASE_PORT));
        }
        Database::Plain(_) => {
            conf.set(key!("StorageUser"), plain(DATABASE_USER))
                .set(key!("StorageHost"), plain(&names.database()))
                .set(key!("StoragePort"), DATABASE_PORT);
        }
    }
    settings(&mut conf, &accounting.config);
    Some(conf.to_string())
}

/// Whether slurmdbd logs in with a password. An external database may want none.
fn needs_password(database: Database<'_>) -> bool {
    match database {
        Database::External(external) => external.password.is_some(),
        Database::Operator(_) | Database::Plain(_) => true,
    }
}

/// `k=v` sorted by key; what the user writes wins over what follows from the certificates.
fn parameters(given: &BTreeMap<String, String>, tls: &DatabaseTls) -> Option<Value> {
    let mut all = BTreeMap::new();
    if tls.server_ca_secret_ref.as_deref().is_some_and(|name| !name.is_empty()) {
        all.insert("SSL_CA".to_owned(), format!("{TLS_CA_DIR}/ca.crt"));
    }
    if tls.client_cert_secret_ref.as_deref().is_some_and(|name| !name.is_empty()) {
        all.insert("SSL_CERT".to_owned(), format!("{TLS_CLIENT_DIR}/tls.crt"));
        all.insert("SSL_KEY".to_owned(), format!("{TLS_CLIENT_DIR}/tls.key"));
    }
    all.extend(given.iter().map(|(key, value)| (key.clone(), value.clone())));
    let pairs: Vec<Value> = all
        .iter()
        .filter_map(|(key, value)| Value::new("storageParameters", format!("{key}={value}")).ok())
        .collect();
    (!pairs.is_empty()).then(|| Value::list(pairs))
}

fn settings(conf: &mut ConfFile, config: &SlurmdbdConfig) {
    let yes = |answer: YesNo| match answer {
        YesNo::Yes => value!("yes"),
        YesNo::No => value!("no"),
    };
    let text = |text: &str| if text.is_empty() { None } else { Value::new("slurmdbdConfig", text).ok() };
    conf.set(key!("ArchiveEvents"), yes(config.archive_events))
        .set(key!("ArchiveJobs"), yes(config.archive_jobs))
        .set(key!("ArchiveResvs"), yes(config.archive_resvs))
        .set(key!("ArchiveSteps"), yes(config.archive_steps))
        .set(key!("ArchiveSuspend"), yes(config.archive_suspend))
        .set(key!("ArchiveTXN"), yes(config.archive_txn))
        .set(key!("ArchiveUsage"), yes(config.archive_usage))
        .set(key!("DebugLevel"), level(config.debug_level))
        .set_some(key!("TCPTimeout"), u16::try_from(config.tcp_timeout).ok())
        .set_some(key!("PurgeEventAfter"), text(&config.purge_event_after))
        .set_some(key!("PurgeJobAfter"), text(&config.purge_job_after))
        .set_some(key!("PurgeResvAfter"), text(&config.purge_resv_after))
        .set_some(key!("PurgeStepAfter"), text(&config.purge_step_after))
        .set_some(key!("PurgeSuspendAfter"), text(&config.purge_suspend_after))
        .set_some(key!("PurgeTXNAfter"), text(&config.purge_txn_after))
        .set_some(key!("PurgeUsageAfter"), text(&config.purge_usage_after))
        .set_some(key!("PrivateData"), text(config.private_data.as_deref().unwrap_or_default()))
        .set_some(key!("DebugFlags"), config.debug_flags.map(flags));
}

const fn level(level: SlurmdbdDebugLevel) -> Value {
    match level {
        SlurmdbdDebugLevel::Quiet => value!("quiet"),
        SlurmdbdDebugLevel::Fatal => value!("fatal"),
        SlurmdbdDebugLevel::Error => value!("error"),
        SlurmdbdDebugLevel::Info => value!("info"),
        SlurmdbdDebugLevel::Verbose => value!("verbose"),
        SlurmdbdDebugLevel::Debug => value!("debug"),
        SlurmdbdDebugLevel::Debug2 => value!("debug2"),
        SlurmdbdDebugLevel::Debug3 => value!("debug3"),
        SlurmdbdDebugLevel::Debug4 => value!("debug4"),
        SlurmdbdDebugLevel::Debug5 => value!("debug5"),
    }
}

const fn flags(flags: SlurmdbdDebugFlags) -> Value {
    match flags {
        SlurmdbdDebugFlags::AuditRPCs => value!("AuditRPCs"),
        SlurmdbdDebugFlags::DbArchive => value!("DB_ARCHIVE"),
        SlurmdbdDebugFlags::DbAssoc => value!("DB_ASSOC"),
        SlurmdbdDebugFlags::DbEvent => value!("DB_EVENT"),
        SlurmdbdDebugFlags::DbJob => value!("DB_JOB"),
        SlurmdbdDebugFlags::DbQos => value!("DB_QOS"),
        SlurmdbdDebugFlags::DbQuery => value!("DB_QUERY"),
        SlurmdbdDebugFlags::DbReservation => value!("DB_RESERVATION"),
        SlurmdbdDebugFlags::DbResource => value!("DB_RESOURCE"),
        SlurmdbdDebugFlags::DbStep => value!("DB_STEP"),
        SlurmdbdDebugFlags::DbTres => value!("DB_TRES"),
        SlurmdbdDebugFlags::DbUsage => value!("DB_USAGE"),
        SlurmdbdDebugFlags::Network => value!("Network"),
    }
}
