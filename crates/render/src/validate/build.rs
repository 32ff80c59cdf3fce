//! Builds the parts. Nothing here can fail: what is wrong was found before.

use api::nebius::slurm_cluster::{
    ExternalDb, NodeContainer, NodePod, NodeVolume, PopulateJail as SpecOfPopulateJail,
    SConfigController as SpecOfSConfigController, SlurmClusterSpec, SlurmNodeAccounting, SlurmNodeController,
    SlurmNodeLogin, SlurmNodeWorker, SlurmRest,
};
use slurm::conf::Value;
use slurm::value;

use super::parts::{
    Accounting, Controller, ExternalDatabase, Login, LoginService, PlainDatabase, PopulateJail, Rest,
    SConfigController, Workers,
};
use super::resolve::{Resolver, sssd};
use super::shapes::{ContainerSettings, VolumeChoice};
use super::{DEFAULT_PORTS, Ports, port};
use crate::Defaults;

/// The user of slurmdbd where nothing else is said.
const DATABASE_USER: Value = value!("slurm");
const DATABASE_PORT: u16 = 3306;

pub(super) struct Builder<'a> {
    spec: &'a SlurmClusterSpec,
    defaults: &'a Defaults,
    names: Resolver<'a>,
}

pub(super) fn ports(spec: &SlurmClusterSpec) -> Ports {
    let nodes = &spec.slurm_nodes;
    let of = |container: Option<&NodeContainer>, default| {
        port(container.and_then(|container| container.port), default)
    };
    Ports {
        slurmctld: of(Some(&nodes.controller.slurmctld), DEFAULT_PORTS.slurmctld),
        slurmd: of(nodes.worker.as_ref().map(|worker| &worker.slurmd), DEFAULT_PORTS.slurmd),
        slurmdbd: of(nodes.accounting.slurmdbd.as_ref(), DEFAULT_PORTS.slurmdbd),
        slurmrestd: of(nodes.rest.rest.as_ref(), DEFAULT_PORTS.slurmrestd),
        sshd: of(Some(&nodes.login.sshd), DEFAULT_PORTS.sshd),
    }
}

/// Public keys of root. A text of several lines is several keys.
pub(super) fn root_keys(spec: &SlurmClusterSpec) -> Vec<String> {
    let keys = spec.slurm_nodes.login.ssh_root_public_keys.iter().flat_map(|keys| keys.lines());
    keys.map(str::trim).filter(|key| !key.is_empty()).map(str::to_owned).collect()
}

/// Who writes into the jail. The original's own user, which its charts name, could write to no directory but one that was given to
/// it before; here it stands for the jail's root.
fn run_as(wanted: Option<i64>) -> i64 {
    const OF_THE_ORIGINAL: i64 = 1001;
    wanted.filter(|id| *id != OF_THE_ORIGINAL).unwrap_or(0)
}

/// Settings of a container of which the user says nothing.
fn no_container() -> ContainerSettings {
    ContainerSettings {
        image: String::new(),
        pull_policy: api::common::PullPolicy::default(),
        command: Vec::new(),
        args: Vec::new(),
        port: 0,
        resources: std::collections::BTreeMap::new(),
        limits: None,
        app_armor_profile: "unconfined".into(),
        env: Vec::new(),
        probes: api::nebius::Probes::default(),
        proc_mount: None,
    }
}

fn text(text: Option<&String>) -> Option<String> {
    text.filter(|text| !text.is_empty()).cloned()
}

impl<'a> Builder<'a> {
    pub(super) fn new(spec: &'a SlurmClusterSpec, defaults: &'a Defaults) -> Self {
        Self { spec, defaults, names: Resolver::new(spec) }
    }

    pub(super) fn controller(&self, controller: &SlurmNodeController) -> Controller {
        Controller {
            pod: self.names.pod(&controller.pod, controller.host_users),
            slurmctld: ContainerSettings::new(&controller.slurmctld, DEFAULT_PORTS.slurmctld),
            munge: ContainerSettings::new(&controller.munge, 0),
            spool: self.names.volume(&controller.volumes.spool),
            jail: self.names.volume(&controller.volumes.jail),
            custom_mounts: self.names.mounts(controller.volumes.custom_mounts.as_deref()),
            service_account: text(controller.service_account_name.as_ref()),
            sssd: sssd(&controller.sssd),
            open_metrics: controller.open_metrics.clone(),
        }
    }

    /// The volume named `jail`, as the original wants it; else the one that slurmctld names.
    pub(super) fn jail(&self) -> Option<VolumeChoice> {
        let named = || NodeVolume { volume_source_name: Some("jail".into()), ..NodeVolume::default() };
        if self.spec.volume_sources.iter().flatten().any(|volume| volume.name == "jail") {
            return Some(self.names.volume(&named()));
        }
        let controllers = self.names.volume(&self.spec.slurm_nodes.controller.volumes.jail);
        // A claim for each pod is not the volume that all share.
        matches!(controllers, VolumeChoice::Source(_)).then_some(controllers)
    }

    pub(super) fn populate_jail(&self, populate: &SpecOfPopulateJail) -> PopulateJail {
        let pod = NodePod {
            k8s_node_filter_name: populate.k8s_node_filter_name.clone(),
            priority_class: populate.priority_class.clone(),
            ..NodePod::default()
        };
        PopulateJail {
            pod: self.names.pod(&pod, populate.host_users),
            image: populate.image.clone(),
            pull_policy: populate.image_pull_policy,
            snapshot: populate.jail_snapshot_volume.as_ref().map(|volume| self.names.volume(volume)),
            overwrite: populate.overwrite,
            app_armor_profile: populate.app_armor_profile.clone(),
        }
    }

    pub(super) fn sconfig_controller(&self, wanted: Option<&SpecOfSConfigController>) -> SConfigController {
        let controller = &self.spec.slurm_nodes.controller;
        let node = wanted.and_then(|wanted| wanted.node.as_ref());
        let host_users = node
            .and_then(|node| node.host_users)
            .or_else(|| wanted.and_then(|wanted| wanted.host_users))
            .or(if node.is_none() { controller.host_users } else { None });
        let duration = |text: Option<&String>, default: &str| {
            text.filter(|text| !text.is_empty()).cloned().unwrap_or_else(|| default.to_owned())
        };
        let container = wanted.and_then(|wanted| wanted.container.as_ref());
        SConfigController {
            size: node.and_then(|node| node.size).unwrap_or(1).max(1),
            pod: self.names.pod(node.map_or(&controller.pod, |node| &node.pod), host_users),
            container: container.map_or_else(no_container, |container| ContainerSettings::new(container, 0)),
            run_as_uid: run_as(wanted.and_then(|wanted| wanted.run_as_uid)),
            run_as_gid: run_as(wanted.and_then(|wanted| wanted.run_as_gid)),
            wait_timeout: duration(wanted.map(|wanted| &wanted.reconfigure_wait_timeout), "1m"),
            service_account: wanted.and_then(|wanted| text(wanted.service_account_name.as_ref())),
        }
    }

    pub(super) fn login(&self, login: &SlurmNodeLogin) -> Login {
        let mounts = &login.volumes.mounts;
        Login {
            size: login.node.size.unwrap_or(0),
            pod: self.names.pod(&login.node.pod, login.node.host_users),
            sshd: ContainerSettings::new(&login.sshd, DEFAULT_PORTS.sshd),
            munge: ContainerSettings::new(&login.munge, 0),
            service: LoginService {
                kind: login.sshd_service_type,
                annotations: login.sshd_service_annotations.clone().unwrap_or_default(),
                load_balancer_ip: text(login.sshd_service_load_balancer_ip.as_ref()),
                source_ranges: login.sshd_service_load_balancer_source_ranges.clone().unwrap_or_default(),
                node_port: Some(login.sshd_service_node_port).filter(|port| *port > 0),
            },
            sshd_config_map: text(login.sshd_config_map_ref_name.as_ref()),
            jail: self.names.volume(&login.volumes.jail),
            jail_sub_mounts: self.names.mounts(mounts.jail_sub_mounts.as_deref()),
            custom_mounts: self.names.mounts(mounts.custom_mounts.as_deref()),
            sssd: sssd(&login.sssd),
            user_isolation: login.user_isolation.clone(),
        }
    }

    pub(super) fn accounting(&self, accounting: &SlurmNodeAccounting) -> Accounting {
        let controller = &self.spec.slurm_nodes.controller;
        // The schema wants slurmdbd where accounting is enabled; slurmctld's image often holds it, too.
        let slurmdbd = accounting.slurmdbd.as_ref().unwrap_or(&controller.slurmctld);
        let mut slurmdbd_settings = ContainerSettings::new(slurmdbd, DEFAULT_PORTS.slurmdbd);
        slurmdbd_settings.port = ports(self.spec).slurmdbd;
        let plain = accounting.mariadb.clone().unwrap_or_default();
        Accounting {
            pod: self.names.pod(&accounting.node.pod, accounting.node.host_users),
            slurmdbd: slurmdbd_settings,
            munge: ContainerSettings::new(accounting.munge.as_ref().unwrap_or(&controller.munge), 0),
            config: accounting.slurmdbd_config.clone(),
            external: accounting.external_db.as_ref().filter(|db| db.enabled).map(external),
            mariadb_operator: accounting.mariadb_operator.clone().filter(|operator| operator.enabled),
            plain: PlainDatabase {
                image: text(plain.image.as_ref()).or_else(|| self.defaults.mariadb_image.clone()),
                resources: plain.resources,
                storage: plain.storage,
            },
        }
    }

    pub(super) fn rest(&self, rest: &SlurmRest) -> Rest {
        let controller = &self.spec.slurm_nodes.controller;
        let pod = if rest.enabled || self.names.has_filter(&rest.node.pod.k8s_node_filter_name) {
            self.names.pod(&rest.node.pod, rest.node.host_users)
        } else {
            self.names.pod(&controller.pod, controller.host_users)
        };
        let mut container = rest.rest.as_ref().map_or_else(
            || ContainerSettings {
                image: String::new(),
                // Those of slurmctld are sized for slurmctld.
                resources: std::collections::BTreeMap::new(),
                command: Vec::new(),
                args: Vec::new(),
                env: Vec::new(),
                probes: api::nebius::Probes::default(),
                limits: None,
                ..ContainerSettings::new(&controller.slurmctld, DEFAULT_PORTS.slurmrestd)
            },
            |container| ContainerSettings::new(container, DEFAULT_PORTS.slurmrestd),
        );
        container.port = ports(self.spec).slurmrestd;
        Rest {
            enabled: rest.enabled,
            size: if rest.enabled { rest.node.size.unwrap_or(1).max(1) } else { 1 },
            pod,
            container,
            threads: rest.thread_count,
            connections: rest.max_connections,
            slurmctld_image: controller.slurmctld.image.clone(),
            default_image: self.defaults.slurmrestd_image.clone(),
        }
    }

    pub(super) fn workers(&self, worker: &SlurmNodeWorker) -> Workers {
        let volumes = &worker.volumes;
        Workers {
            size: worker.size.unwrap_or(0),
            pod: self.names.pod(&worker.pod, Some(worker.host_users)),
            max_unavailable: worker.max_unavailable.clone(),
            slurmd: ContainerSettings::new(&worker.slurmd, DEFAULT_PORTS.slurmd),
            munge: ContainerSettings::new(&worker.munge, 0),
            supervisord_config_map: text(worker.supervisord_config_map_ref_name.as_ref()),
            sshd_config_map: text(worker.sshd_config_map_ref_name.as_ref()),
            annotations: worker.worker_annotations.clone().unwrap_or_default(),
            spool: self.names.volume(&volumes.spool),
            jail: self.names.volume(&volumes.jail),
            jail_sub_mounts: self.names.mounts(volumes.mounts.jail_sub_mounts.as_deref()),
            custom_mounts: self.names.mounts(volumes.mounts.custom_mounts.as_deref()),
            shared_memory: volumes.shared_memory_size.clone(),
            cgroup_version: worker.cgroup_version,
            gdr_copy: worker.enable_gdr_copy,
            extra: text(worker.slurm_node_extra.as_ref()),
            drain_on_delete: worker.drain_on_delete.clone(),
        }
    }
}

fn external(db: &ExternalDb) -> ExternalDatabase {
    let path = "spec.slurmNodes.accounting.externalDB";
    let checked = |text: Option<&String>, name: &str| {
        text.filter(|text| !text.is_empty())
            .and_then(|text| Value::new(&format!("{path}.{name}"), text.as_str()).ok())
    };
    let reference = db.password_secret_key_ref.as_ref();
    let name = reference.and_then(|reference| text(reference.name.as_ref()));
    ExternalDatabase {
        host: checked(db.host.as_ref(), "host").unwrap_or(value!("localhost")),
        port: port(Some(db.port), DATABASE_PORT),
        user: checked(db.user.as_ref(), "user").unwrap_or(DATABASE_USER),
        password: name.map(|name| {
            let key = reference.and_then(|reference| text(reference.key.as_ref()));
            (name, key.unwrap_or_else(|| "password".to_owned()))
        }),
        tls: db.tls.clone().unwrap_or_default(),
        parameters: db.storage_parameters.clone().unwrap_or_default(),
    }
}
