//! Whole clusters.

use std::collections::BTreeSet;
use std::net::IpAddr;

use api::nebius::slurm_cluster::{
    PartitionConfigType, PartitionConfiguration, SlurmCluster, SlurmClusterSpec, SlurmNodeAccounting,
    SlurmNodeLogin,
};
use serde_json::{Map, Value};
use slurm::conf::{FileKind, Name};
use slurm::key;

use super::problem::{Problem, Problems, field};
use super::{duration, quantity, slurm_text, volumes, worker as workers};

/// What is wrong with a SlurmCluster.
#[must_use]
pub fn slurm_cluster(cluster: &SlurmCluster) -> Vec<Problem> {
    let mut problems = Problems::default();
    let spec = &cluster.spec;
    quantity::check(&mut problems, spec);
    references(&mut problems, spec);
    partitions(&mut problems, &spec.partition_configuration);
    settings(&mut problems, spec);
    plugins(&mut problems, spec);
    features(&mut problems, spec);
    if let Some(text) = &spec.custom_slurm_config {
        slurm_text::part(&mut problems, FileKind::Slurm, "spec.customSlurmConfig", text);
    }
    if let Some(text) = &spec.custom_cgroup_config {
        slurm_text::part(&mut problems, FileKind::Cgroup, "spec.customCgroupConfig", text);
    }
    accounting(&mut problems, &spec.slurm_nodes.accounting);
    login(&mut problems, &spec.slurm_nodes.login);
    monitors(&mut problems, spec);
    jail(&mut problems, spec);
    if let Some(worker) = &spec.slurm_nodes.worker {
        let path = "spec.slurmNodes.worker";
        let text = worker.slurm_node_extra.as_deref().unwrap_or_default();
        workers::extra(&mut problems, &format!("{path}.slurmNodeExtra"), text);
        workers::drain_on_delete(
            &mut problems,
            &format!("{path}.drainOnDelete"),
            worker.drain_on_delete.as_ref(),
        );
    }
    problems.into_vec()
}

/// Fields that name an entry of a list: the field, and where the list is.
const REFERENCES: [(&str, &str, &str); 2] =
    [("k8sNodeFilterName", "k8sNodeFilters", "name"), ("volumeSourceName", "volumeSources", "name")];

/// Checks that what is named in the same object is there, and can be used. Parts that are turned off are passed over.
fn references(problems: &mut Problems, spec: &SlurmClusterSpec) {
    let unusable = volumes::one_source(problems, spec.volume_sources.as_deref().unwrap_or_default());
    // What was read from JSON can be written to it.
    let spec = serde_json::to_value(spec).unwrap_or_default();
    for (reference, list, key) in REFERENCES {
        let entries = spec[list].as_array().into_iter().flatten();
        let names: BTreeSet<&str> = entries.filter_map(|entry| entry[key].as_str()).collect();
        look(problems, "spec", &spec, &|problems, path, name, value| {
            if name != reference || value.is_empty() {
                return;
            }
            if !names.contains(value) {
                let known: Vec<&str> = names.iter().copied().collect();
                let known = if known.is_empty() { "none".into() } else { known.join(", ") };
                problems.error(
                    path,
                    format!(
                        "spec.{list} has no entry {value:?}; add it, or name one that is there ({known})"
                    ),
                );
            } else if list == "volumeSources" && unusable.contains(value) {
                problems
                    .error(path, format!("the entry {value:?} of spec.{list} has not exactly one source"));
            }
        });
    }
}

type Look<'a> = &'a dyn Fn(&mut Problems, String, &str, &str);

fn look(problems: &mut Problems, path: &str, value: &Value, found: Look<'_>) {
    match value {
        Value::Object(fields) if !is_off(fields) => {
            for (key, value) in fields {
                let path = field(path, key);
                match value {
                    Value::String(text) => found(problems, path, key, text),
                    _ => look(problems, &path, value, found),
                }
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                look(problems, &format!("{path}[{index}]"), item, found);
            }
        }
        _ => {}
    }
}

/// Whether a part is turned off, or has no pods.
fn is_off(fields: &Map<String, Value>) -> bool {
    fields.get("enabled") == Some(&Value::Bool(false))
        || fields.get("size").and_then(Value::as_i64) == Some(0)
}

/// Checks that the Job that fills the jail has a volume: a claim for each pod is none that it could fill for others.
fn jail(problems: &mut Problems, spec: &SlurmClusterSpec) {
    let has_entry = spec.volume_sources.iter().flatten().any(|volume| volume.name == "jail");
    let controllers = &spec.slurm_nodes.controller.volumes.jail;
    let is_named = controllers.volume_claim_template_spec.is_none()
        && controllers.volume_source_name.as_deref().is_some_and(|name| !name.is_empty());
    if !has_entry && !is_named {
        problems.error(
            "spec.populateJail",
            "nobody says which volume is the jail that is filled; add an entry \"jail\" to spec.volumeSources, a volume that all \
             nodes share",
        );
    }
}

/// Checks the partitions that are used; texts for another type of configuration are left alone.
fn partitions(problems: &mut Problems, configuration: &PartitionConfiguration) {
    let path = "spec.partitionConfiguration";
    match configuration.config_type {
        PartitionConfigType::Default => {}
        PartitionConfigType::Custom => {
            let lines = configuration.raw_config.as_deref().unwrap_or_default();
            let path = format!("{path}.rawConfig");
            slurm_text::lines(problems, FileKind::Slurm, &path, lines, &["PartitionName"], &[]);
        }
        PartitionConfigType::Structured => {
            for (index, partition) in configuration.partitions.iter().flatten().enumerate() {
                let path = format!("{path}.partitions[{index}]");
                let Some(name) = slurm_text::name(problems, &format!("{path}.name"), &partition.name) else {
                    continue;
                };
                let text = partition.config.as_deref().unwrap_or_default();
                let line = (key!("PartitionName"), Name::into(name));
                slurm_text::behind(problems, line, &format!("{path}.config"), text, &["PartitionName"]);
            }
        }
    }
}

/// The largest number that fits where Slurm has 16 bits; the two above it mean something else.
const LARGEST_U16: i32 = 65_533;

/// Checks texts and numbers that become values of slurm.conf and mpi.conf.
fn settings(problems: &mut Problems, spec: &SlurmClusterSpec) {
    let config = &spec.slurm_config;
    for (name, text) in [
        ("epilog", &config.epilog),
        ("prolog", &config.prolog),
        ("taskProlog", config.task_prolog.as_ref().unwrap_or(&String::new())),
        ("taskPluginParam", &config.task_plugin_param),
        ("topologyPlugin", &config.topology_plugin),
        ("topologyParam", &config.topology_param),
    ] {
        slurm_text::value(problems, &format!("spec.slurmConfig.{name}"), text);
    }
    for (name, number, most) in [
        ("defMemPerNode", config.def_mem_per_node, i32::MAX),
        ("defCpuPerGPU", config.def_cpu_per_gpu, i32::MAX),
        ("completeWait", config.complete_wait, LARGEST_U16),
        ("maxJobCount", config.max_job_count, i32::MAX),
        ("minJobAge", config.min_job_age, i32::MAX),
        ("messageTimeout", config.message_timeout, LARGEST_U16),
        ("resumeTimeout", config.resume_timeout.unwrap_or(0), LARGEST_U16),
    ] {
        if !(0..=most).contains(&number) {
            let message = format!("{number} is no number for Slurm; write one from 0 to {most}");
            problems.error(format!("spec.slurmConfig.{name}"), message);
        }
    }
    slurm_text::value(problems, "spec.mpiConfig.pmixEnv", &spec.mpi_config.pmix_env);
    if let Some(health) = &spec.health_check_config {
        slurm_text::value(
            problems,
            "spec.healthCheckConfig.healthCheckProgram",
            &health.health_check_program,
        );
    }
}

/// Checks texts that become words of plugstack.conf.
fn plugins(problems: &mut Problems, spec: &SlurmClusterSpec) {
    let config = &spec.plug_stack_config;
    let path = "spec.plugStackConfig";
    slurm_text::word(
        problems,
        &format!("{path}.pyxis.containerImageSave"),
        &config.pyxis.container_image_save,
    );
    let importer = config.pyxis.importer_path.as_deref().unwrap_or_default();
    slurm_text::word(problems, &format!("{path}.pyxis.importerPath"), importer);
    slurm_text::word(
        problems,
        &format!("{path}.ncclDebug.outputDirectory"),
        &config.nccl_debug.output_directory,
    );
    for (index, plugin) in config.custom_plugins.iter().flatten().enumerate() {
        let path = format!("{path}.customPlugins[{index}]");
        slurm_text::word(problems, &format!("{path}.path"), &plugin.path);
        for (name, value) in plugin.arguments.iter().flatten() {
            slurm_text::word(
                problems,
                &field(&format!("{path}.arguments"), name),
                &format!("{name}={value}"),
            );
        }
    }
}

fn features(problems: &mut Problems, spec: &SlurmClusterSpec) {
    for (index, feature) in spec.worker_features.iter().flatten().enumerate() {
        let path = format!("spec.workerFeatures[{index}]");
        slurm_text::name(problems, &format!("{path}.name"), &feature.name);
        slurm_text::host_list(problems, &format!("{path}.hostlistExpr"), &feature.hostlist_expr);
        if let Some(name) = feature.nodeset_name.as_deref().filter(|name| !name.is_empty()) {
            slurm_text::name(problems, &format!("{path}.nodesetName"), name);
        }
    }
}

fn accounting(problems: &mut Problems, accounting: &SlurmNodeAccounting) {
    let path = "spec.slurmNodes.accounting";
    let config = &accounting.slurmdbd_config;
    for (name, text) in [
        ("purgeEventAfter", &config.purge_event_after),
        ("purgeJobAfter", &config.purge_job_after),
        ("purgeResvAfter", &config.purge_resv_after),
        ("purgeStepAfter", &config.purge_step_after),
        ("purgeSuspendAfter", &config.purge_suspend_after),
        ("purgeTXNAfter", &config.purge_txn_after),
        ("purgeUsageAfter", &config.purge_usage_after),
    ] {
        if !text.is_empty() && !is_purge_time(text) {
            let message =
                format!("{text:?} is no time for slurmdbd; write for example 12month, 30days or 48hours");
            problems.error(format!("{path}.slurmdbdConfig.{name}"), message);
        }
    }
    let private = config.private_data.as_deref().unwrap_or_default();
    slurm_text::value(problems, &format!("{path}.slurmdbdConfig.privateData"), private);
    let slurm = &accounting.slurm_config;
    for (name, text) in [
        ("accountingStoreFlags", &slurm.accounting_store_flags),
        ("acctGatherInterconnectType", &slurm.acct_gather_interconnect_type),
        ("acctGatherFilesystemType", &slurm.acct_gather_filesystem_type),
        ("acctGatherProfileType", &slurm.acct_gather_profile_type),
        ("priorityWeightTRES", &slurm.priority_weight_tres),
    ] {
        slurm_text::value(
            problems,
            &format!("{path}.slurmConfig.{name}"),
            text.as_deref().unwrap_or_default(),
        );
    }
    if let Some(db) = &accounting.external_db {
        for (name, text) in [("host", &db.host), ("user", &db.user)] {
            let text = text.as_deref().unwrap_or_default();
            slurm_text::value(problems, &format!("{path}.externalDB.{name}"), text);
        }
    }
    let parameters = accounting.external_db.as_ref().and_then(|db| db.storage_parameters.as_ref());
    for (name, value) in parameters.into_iter().flatten() {
        let path = field(&format!("{path}.externalDB.storageParameters"), name);
        slurm_text::word(problems, &path, &format!("{name}={value}"));
    }
}

/// A number, and hours, days or months, which may be shortened; months if there is none.
fn is_purge_time(text: &str) -> bool {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let unit = unit.to_ascii_lowercase();
    let known = ["hours", "days", "months"].iter().any(|known| known.starts_with(&unit));
    number.parse::<u16>().is_ok_and(|number| number > 0) && known
}

fn login(problems: &mut Problems, login: &SlurmNodeLogin) {
    let path = "spec.slurmNodes.login";
    if let Some(address) = login.sshd_service_load_balancer_ip.as_deref().filter(|text| !text.is_empty())
        && address.parse::<IpAddr>().is_err()
    {
        let message = format!("{address:?} is no address; write for example 203.0.113.7");
        problems.error(format!("{path}.sshdServiceLoadBalancerIP"), message);
    }
    for (index, range) in login.sshd_service_load_balancer_source_ranges.iter().flatten().enumerate() {
        if !is_network(range) {
            let message = format!("{range:?} is no network; write for example 203.0.113.0/24");
            problems.error(format!("{path}.sshdServiceLoadBalancerSourceRanges[{index}]"), message);
        }
    }
}

fn is_network(text: &str) -> bool {
    let Some((address, bits)) = text.trim().split_once('/') else { return false };
    let most = match address.parse() {
        Ok(IpAddr::V4(_)) => 32,
        Ok(IpAddr::V6(_)) => 128,
        Err(_) => return false,
    };
    bits.parse::<u8>().is_ok_and(|bits| bits <= most)
}

/// Checks how often Prometheus reads, and how long it waits.
fn monitors(problems: &mut Problems, spec: &SlurmClusterSpec) {
    let exporter = &spec.slurm_nodes.exporter;
    let path = "spec.slurmNodes.exporter";
    let monitor = &exporter.pod_monitor_config;
    scrape(
        problems,
        &format!("{path}.podMonitorConfig"),
        Some(&monitor.interval),
        Some(&monitor.scrape_timeout),
    );
    let lookback = exporter.accounting_jobs_lookback.as_ref();
    for (name, text) in
        [("collectionInterval", Some(&exporter.collection_interval)), ("accountingJobsLookback", lookback)]
    {
        if let Some(Err(message)) = text.map(|text| duration::go(text)) {
            problems.error(format!("{path}.{name}"), message);
        }
    }
    let metrics = spec.slurm_nodes.controller.open_metrics.as_ref();
    if let Some(monitor) = metrics.and_then(|metrics| metrics.service_monitor.as_ref()) {
        let path = "spec.slurmNodes.controller.openMetrics.serviceMonitor";
        scrape(problems, path, monitor.interval.as_deref(), monitor.scrape_timeout.as_deref());
    }
}

fn scrape(problems: &mut Problems, path: &str, interval: Option<&str>, timeout: Option<&str>) {
    let mut read =
        |name: &str, text: Option<&str>| match text.filter(|text| !text.is_empty()).map(duration::prometheus)
        {
            Some(Err(message)) => {
                problems.error(format!("{path}.{name}"), message);
                None
            }
            other => other.and_then(Result::ok),
        };
    let (interval, timeout) = (read("interval", interval), read("scrapeTimeout", timeout));
    if let (Some(interval), Some(timeout)) = (interval, timeout)
        && timeout > interval
    {
        let message = "is longer than the interval, which Prometheus refuses; write at most the interval";
        problems.error(format!("{path}.scrapeTimeout"), message);
    }
}
