//! What the configuration files say, checked.

use std::collections::BTreeSet;

use api::nebius::slurm_cluster::{
    AccountingSlurmConfig, CgroupVersion, CustomPlugin, HealthCheckState, JobAcctGatherParams,
    JobAcctGatherType, NcclDebug, NcclLogLevel, PlugStackConfig, Pyxis, SlurmClusterSpec,
};
use slurm::agent::path;
use slurm::conf::{
    Document, FileKind, Key, NoIncludes, Plugin, Plugstack, SlurmVersion, Value, Word, known_keys_behind,
    read,
};
use slurm::{key, value};

use super::partitions::Partitions;
use super::plain;
use super::topology::TopologyPlugin;
use crate::Names;
use crate::validate::Ports;

/// What the configuration files say, checked. It is made of one spec, so it says nothing about pods.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    pub(super) ports: Ports,
    /// `slurmConfig`.
    pub(super) settings: Vec<(Key, Value)>,
    pub(super) resume_timeout: u16,
    pub(super) health_check: Vec<(Key, Value)>,
    pub(super) partitions: Partitions,
    /// Empty where accounting is off.
    pub(super) accounting: Vec<(Key, Value)>,
    pub(super) metrics: bool,
    pub(super) custom: Option<String>,
    /// Settings in `custom`, in lower case.
    pub(super) custom_keys: BTreeSet<String>,
    pub(super) cgroup_version: CgroupVersion,
    pub(super) custom_cgroup: Document,
    pub(super) pmix_env: Option<Value>,
    pub(super) plugstack: Plugstack,
    pub(super) topology: Option<TopologyPlugin>,
    /// Workers that `slurmNodes.worker` asks for.
    pub(super) workers: u32,
    /// Whether those have GPUs.
    pub(super) gpu: bool,
}

impl Config {
    pub(crate) fn new(spec: &SlurmClusterSpec, names: &Names, ports: Ports) -> Self {
        let slurm = &spec.slurm_config;
        let worker = spec.slurm_nodes.worker.as_ref();
        let accounting = &spec.slurm_nodes.accounting;
        let cgroup_version = spec.cgroup_version.or_else(|| worker.map(|worker| worker.cgroup_version));
        let block_size = spec.topology.as_ref().and_then(|topology| topology.block_size);
        let block_size = block_size.unwrap_or(slurm.topology_block_size);
        let custom_cgroup = spec.custom_cgroup_config.as_deref().unwrap_or_default();
        let metrics = spec.slurm_nodes.controller.open_metrics.as_ref();
        Self {
            ports,
            settings: settings(spec),
            resume_timeout: slurm.resume_timeout.and_then(|it| u16::try_from(it).ok()).unwrap_or(1800),
            health_check: health_check(spec),
            partitions: Partitions::new(spec),
            accounting: if accounting.enabled {
                accounting_settings(&accounting.slurm_config, names, ports)
            } else {
                Vec::new()
            },
            metrics: metrics.and_then(|metrics| metrics.enabled).unwrap_or(false),
            custom: spec.custom_slurm_config.clone().filter(|text| !text.trim().is_empty()),
            custom_keys: custom_keys(spec.custom_slurm_config.as_deref().unwrap_or_default()),
            cgroup_version: cgroup_version.unwrap_or_default(),
            custom_cgroup: read("customCgroupConfig", custom_cgroup, &mut NoIncludes),
            pmix_env: text("mpiConfig.pmixEnv", &spec.mpi_config.pmix_env),
            plugstack: plugstack(&spec.plug_stack_config),
            topology: TopologyPlugin::new(&slurm.topology_plugin, block_size),
            workers: worker.and_then(|worker| u32::try_from(worker.size.unwrap_or(0)).ok()).unwrap_or(0),
            gpu: worker.is_some() && spec.cluster_type == api::nebius::slurm_cluster::ClusterType::Gpu,
        }
    }
}

impl Config {
    /// Whether `customSlurmConfig` sets this, in lower case.
    pub(crate) fn is_custom(&self, setting: &str) -> bool {
        self.custom_keys.contains(setting)
    }
}

/// Settings that stand alone on a line. Those that begin a longer line, such as `PartitionName`, add to ours.
fn custom_keys(text: &str) -> BTreeSet<String> {
    // Files that it includes are in the pods, not here.
    let mut absent = |name: &str, _: &str| Ok((name.to_owned(), String::new()));
    let document = read("customSlurmConfig", text, &mut absent);
    let alone = |key: &str| known_keys_behind(FileKind::Slurm, key, SlurmVersion::V26_05).next().is_none();
    let keys = document.lines.iter().filter_map(|line| line.pairs.first()).map(|pair| pair.key.as_str());
    keys.filter(|key| alone(key)).map(str::to_ascii_lowercase).collect()
}

/// A text of the user that was checked; empty means that there is none.
fn text(field: &str, text: &str) -> Option<Value> {
    if text.is_empty() { None } else { Value::new(field, text).ok() }
}

/// A number that was checked.
fn number(number: i32) -> Option<Value> {
    u32::try_from(number).ok().map(Value::from)
}

fn present<const N: usize>(pairs: [(Key, Option<Value>); N]) -> Vec<(Key, Value)> {
    pairs.into_iter().filter_map(|(key, value)| Some((key, value?))).collect()
}

fn settings(spec: &SlurmClusterSpec) -> Vec<(Key, Value)> {
    let config = &spec.slurm_config;
    present([
        (key!("DefMemPerNode"), number(config.def_mem_per_node)),
        (key!("DefCpuPerGPU"), number(config.def_cpu_per_gpu)),
        (key!("CompleteWait"), number(config.complete_wait)),
        (key!("Epilog"), text("slurmConfig.epilog", &config.epilog)),
        (key!("Prolog"), text("slurmConfig.prolog", &config.prolog)),
        (
            key!("TaskProlog"),
            text("slurmConfig.taskProlog", config.task_prolog.as_deref().unwrap_or_default()),
        ),
        (key!("TaskPluginParam"), text("slurmConfig.taskPluginParam", &config.task_plugin_param)),
        (key!("MaxJobCount"), number(config.max_job_count)),
        (key!("MinJobAge"), number(config.min_job_age)),
        (key!("MessageTimeout"), number(config.message_timeout)),
        (key!("TopologyPlugin"), text("slurmConfig.topologyPlugin", &config.topology_plugin)),
        (key!("TopologyParam"), text("slurmConfig.topologyParam", &config.topology_param)),
        // Negative means never, as without it.
        (key!("SuspendTime"), config.suspend_time.and_then(number)),
    ])
}

fn health_check(spec: &SlurmClusterSpec) -> Vec<(Key, Value)> {
    let Some(health) = &spec.health_check_config else { return Vec::new() };
    let states = health.health_check_node_state.iter().map(|state| match state.state {
        HealthCheckState::Alloc => value!("ALLOC"),
        HealthCheckState::Any => value!("ANY"),
        HealthCheckState::Cycle => value!("CYCLE"),
        HealthCheckState::Idle => value!("IDLE"),
        HealthCheckState::NondrainedIdle => value!("NONDRAINED_IDLE"),
        HealthCheckState::Mixed => value!("MIXED"),
    });
    present([
        (key!("HealthCheckInterval"), number(health.health_check_interval)),
        (
            key!("HealthCheckProgram"),
            text("healthCheckConfig.healthCheckProgram", &health.health_check_program),
        ),
        (key!("HealthCheckNodeState"), Some(Value::list(states))),
    ])
}

fn accounting_settings(config: &AccountingSlurmConfig, names: &Names, ports: Ports) -> Vec<(Key, Value)> {
    let some = |name: &str, given: Option<&String>| text(name, given.map(String::as_str).unwrap_or_default());
    let params = config.job_acct_gather_params.map(|params| match params {
        JobAcctGatherParams::NoShared => value!("NoShared"),
        JobAcctGatherParams::UsePss => value!("UsePss"),
        JobAcctGatherParams::OverMemoryKill => value!("OverMemoryKill"),
        JobAcctGatherParams::DisableGPUAcct => value!("DisableGPUAcct"),
    });
    let gather = match config.job_acct_gather_type {
        JobAcctGatherType::Linux => value!("jobacct_gather/linux"),
        JobAcctGatherType::Cgroup => value!("jobacct_gather/cgroup"),
        JobAcctGatherType::None => value!("jobacct_gather/none"),
    };
    present([
        (key!("AccountingStorageType"), Some(value!("accounting_storage/slurmdbd"))),
        (key!("AccountingStorageHost"), Some(plain(&names.dns(&names.accounting_service())))),
        (key!("AccountingStoragePort"), Some(ports.slurmdbd.into())),
        (key!("JobCompType"), Some(value!("jobcomp/none"))),
        (key!("AccountingStorageTRES"), some("accountingStorageTRES", Some(&config.accounting_storage_tres))),
        (key!("AccountingStoreFlags"), some("accountingStoreFlags", config.accounting_store_flags.as_ref())),
        (
            key!("AcctGatherInterconnectType"),
            some("acctGatherInterconnectType", config.acct_gather_interconnect_type.as_ref()),
        ),
        (
            key!("AcctGatherFilesystemType"),
            some("acctGatherFilesystemType", config.acct_gather_filesystem_type.as_ref()),
        ),
        (
            key!("AcctGatherProfileType"),
            some("acctGatherProfileType", config.acct_gather_profile_type.as_ref()),
        ),
        (key!("JobAcctGatherType"), Some(gather)),
        (key!("JobAcctGatherFrequency"), number(config.job_acct_gather_frequency)),
        (key!("JobAcctGatherParams"), params),
        (key!("PriorityWeightAge"), number(config.priority_weight_age)),
        (key!("PriorityWeightFairshare"), number(config.priority_weight_fairshare)),
        (key!("PriorityWeightQOS"), number(config.priority_weight_qos)),
        (key!("PriorityWeightTRES"), some("priorityWeightTRES", config.priority_weight_tres.as_ref())),
    ])
}

fn plugstack(config: &PlugStackConfig) -> Plugstack {
    let mut plugins = Vec::new();
    // First, so that the others see the jail.
    plugins.extend(plugin(true, "chroot.so", &[path::JAIL.to_owned()]));
    plugins.extend(pyxis(&config.pyxis));
    plugins.extend(nccl_debug(&config.nccl_debug));
    plugins.extend(config.custom_plugins.iter().flatten().filter_map(custom_plugin));
    Plugstack { plugins }
}

/// A plugin with its arguments; words were checked.
fn plugin(required: bool, file: &str, arguments: &[String]) -> Option<Plugin> {
    let word = |text: &str| Word::new("plugStackConfig", text).ok();
    let arguments = arguments.iter().filter_map(|argument| word(argument)).collect();
    Some(Plugin { required, file: word(file)?, arguments })
}

fn pyxis(pyxis: &Pyxis) -> Option<Plugin> {
    if pyxis.enabled == Some(false) {
        return None;
    }
    let mut arguments: Vec<String> =
        ["runtime_path=/run/pyxis", "execute_entrypoint=0", "container_scope=global", "sbatch_support=1"]
            .map(str::to_owned)
            .into();
    arguments.push(format!("container_image_save={}", pyxis.container_image_save));
    if let Some(squashfuse) = pyxis.use_squashfuse {
        arguments.push(format!("use_squashfuse={}", u8::from(squashfuse)));
    }
    if let Some(importer) = pyxis.importer_path.as_deref().filter(|path| !path.is_empty()) {
        arguments.push(format!("importer={importer}"));
    }
    plugin(pyxis.required, "spank_pyxis.so", &arguments)
}

fn nccl_debug(nccl: &NcclDebug) -> Option<Plugin> {
    let level = match nccl.log_level {
        NcclLogLevel::Version => "VERSION",
        NcclLogLevel::Warn => "WARN",
        NcclLogLevel::Info => "INFO",
        NcclLogLevel::Trace => "TRACE",
    };
    let arguments = [
        format!("enabled={}", u8::from(nccl.enabled)),
        format!("log-level={level}"),
        format!("out-file={}", u8::from(nccl.output_to_file)),
        format!("out-dir={}", nccl.output_directory),
        format!("out-stdout={}", u8::from(nccl.output_to_std_out)),
    ];
    plugin(nccl.required, "spanknccldebug.so", &arguments)
}

fn custom_plugin(custom: &CustomPlugin) -> Option<Plugin> {
    let arguments: Vec<String> =
        custom.arguments.iter().flatten().map(|(key, value)| format!("{key}={value}")).collect();
    plugin(custom.required, &custom.path, &arguments)
}
