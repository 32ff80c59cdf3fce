//! What the pods of all parts are built of.
//!
//! A [`Role`] becomes a container with the mounts that it needs ([`Built`]); a [`Pod`] collects containers, and finds out by
//! itself which volumes and claims it has.

mod agent;
mod container;
pub(crate) mod mount;
pub(crate) mod munge;
mod security;
pub(crate) mod sssd;

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    Container, PersistentVolumeClaimSpec, PodDNSConfig, PodSpec, PodTemplateSpec, Volume,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

pub(crate) use container::{
    JailUse, Limits, Role, field_var, place, place_of_worker, pull_policy, resources, some, var, with_jail,
};
pub(crate) use mount::Mount;
pub(crate) use security::{Rights, app_armor_profile, context as security_context};

use crate::labels::{self, Component};
use crate::validate::{PodSettings, ValidatedCluster, VolumeChoice};

/// A container and the volumes that it sees.
pub(crate) struct Built {
    pub(crate) container: Container,
    pub(crate) mounts: Vec<Mount>,
}

/// A pod in the making.
pub(crate) struct Pod<'a> {
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) annotations: BTreeMap<String, String>,
    /// Where `slurm-agent` comes from; none if the pod needs none.
    pub(crate) agent_image: Option<&'a str>,
    /// How the container that installs it is limited.
    pub(crate) agent_limits: Limits,
    /// Containers that start before the main one and end after it.
    pub(crate) sidecars: Vec<Built>,
    /// What the user says about it. Its init containers run after ours and see our volumes by name.
    pub(crate) settings: &'a PodSettings,
    pub(crate) main: Built,
    /// Volumes that only init containers of the user see.
    pub(crate) more_volumes: Vec<Mount>,
    /// Seconds from the wish that the pod ends to its end.
    pub(crate) grace: i64,
    pub(crate) hostname: Option<String>,
    pub(crate) subdomain: Option<String>,
    /// Domains in which short names of hosts are looked up.
    pub(crate) searches: Vec<String>,
    pub(crate) account: Account,
}

/// The service account of a pod.
pub(crate) enum Account {
    /// That of the namespace. No program of ours in the pod speaks to Kubernetes, so it sees no token.
    Default,
    /// One of ours; it has no rights and shows no token.
    Ours(String),
    /// One of ours with rights, for a program that speaks to Kubernetes.
    WithRights(String),
    /// One that the user names, who has a use for it.
    Users(String),
}

/// A pod, and the claims that it gets for itself, by the names of their volumes.
pub(crate) struct BuiltPod {
    pub(crate) template: PodTemplateSpec,
    pub(crate) claims: BTreeMap<String, PersistentVolumeClaimSpec>,
}

impl<'a> Pod<'a> {
    /// A pod of a part with nothing but what every pod has.
    pub(crate) fn new(
        cluster: &'a ValidatedCluster,
        component: Component,
        settings: &'a PodSettings,
        main: Built,
        grace: i64,
    ) -> Self {
        Self {
            labels: labels::object(cluster.names.cluster(), component),
            annotations: BTreeMap::new(),
            agent_image: Some(&cluster.defaults.agent_image),
            agent_limits: Limits::WithoutCpu,
            sidecars: Vec::new(),
            settings,
            main,
            more_volumes: Vec::new(),
            grace,
            hostname: None,
            subdomain: None,
            searches: Vec::new(),
            account: Account::Default,
        }
    }

    pub(crate) fn build(self) -> BuiltPod {
        let mut volumes = Volumes::default();
        let agent = self.agent_image.map(|image| agent::install(image, self.agent_limits));
        let mut init: Vec<Container> = agent.into_iter().map(|built| volumes.finish(built)).collect();
        init.extend(self.sidecars.into_iter().map(|built| volumes.finish(built)));
        init.extend(self.settings.init_containers.iter().cloned());
        let main = volumes.finish(self.main);
        for mount in &self.more_volumes {
            volumes.name_of(mount);
        }
        let mut annotations = self.annotations;
        annotations.insert(labels::DEFAULT_CONTAINER.into(), main.name.clone());
        let placement = &self.settings.placement;
        let (service_account_name, automount_service_account_token) = match self.account {
            Account::Default => (None, Some(false)),
            Account::Ours(name) => (Some(name), Some(false)),
            Account::WithRights(name) => (Some(name), Some(true)),
            Account::Users(name) => (Some(name), None),
        };
        let spec = PodSpec {
            init_containers: some(init),
            containers: vec![main],
            volumes: some(volumes.volumes),
            affinity: placement.affinity.clone(),
            node_selector: placement.node_selector.clone(),
            tolerations: placement.tolerations.clone(),
            priority_class_name: self.settings.priority_class.clone(),
            host_users: self.settings.host_users,
            image_pull_secrets: some(self.settings.image_pull_secrets.clone()),
            termination_grace_period_seconds: Some(self.grace),
            hostname: self.hostname,
            subdomain: self.subdomain,
            dns_config: some(self.searches)
                .map(|searches| PodDNSConfig { searches: Some(searches), ..PodDNSConfig::default() }),
            automount_service_account_token,
            service_account_name,
            // Variables for each Service of the namespace would change with other people's Services.
            enable_service_links: Some(false),
            ..PodSpec::default()
        };
        let metadata =
            ObjectMeta { labels: Some(self.labels), annotations: Some(annotations), ..ObjectMeta::default() };
        BuiltPod {
            template: PodTemplateSpec { metadata: Some(metadata), spec: Some(spec) },
            claims: volumes.claims,
        }
    }
}

/// The volumes of a pod, collected from the mounts of its containers.
#[derive(Default)]
struct Volumes {
    known: Vec<(String, VolumeChoice)>,
    volumes: Vec<Volume>,
    claims: BTreeMap<String, PersistentVolumeClaimSpec>,
}

impl Volumes {
    /// The container with its mounts. Of two at one path the later wins: the user's are behind ours.
    fn finish(&mut self, built: Built) -> Container {
        let mut mounts: Vec<Mount> = Vec::new();
        for mount in built.mounts {
            mounts.retain(|other| trimmed(&other.path) != trimmed(&mount.path));
            mounts.push(mount);
        }
        let mounts = mounts.iter().map(|mount| mount.volume_mount(&self.name_of(mount))).collect();
        Container { volume_mounts: some(mounts), ..built.container }
    }

    /// The name of the mount's volume in this pod. One that is the same under the same name is there once; another under a
    /// name that is taken gets a number behind it.
    fn name_of(&mut self, mount: &Mount) -> String {
        let mut name = mount.name.clone();
        for number in 2.. {
            match self.known.iter().find(|(known, _)| *known == name) {
                None => break,
                Some((_, volume)) if *volume == mount.volume => return name,
                Some(_) => name = format!("{}-{number}", mount.name),
            }
        }
        self.known.push((name.clone(), mount.volume.clone()));
        match &mount.volume {
            VolumeChoice::Source(volume) => {
                self.volumes.push(Volume { name: name.clone(), ..(**volume).clone() })
            }
            VolumeChoice::Claim(claim) => {
                self.claims.insert(name.clone(), (**claim).clone());
            }
        }
        name
    }
}

fn trimmed(path: &str) -> &str {
    path.trim_end_matches('/')
}

#[cfg(test)]
mod tests {
    use super::*;
    use mount::empty_dir;

    fn claim() -> VolumeChoice {
        VolumeChoice::Claim(Box::default())
    }

    fn finish(volumes: &mut Volumes, mounts: Vec<Mount>) -> Vec<(String, String)> {
        let container = volumes.finish(Built { container: Container::default(), mounts });
        let mounts = container.volume_mounts.unwrap_or_default();
        mounts.into_iter().map(|mount| (mount.name, mount.mount_path)).collect()
    }

    #[test]
    fn a_volume_that_two_containers_see_is_there_once() {
        let mut volumes = Volumes::default();
        finish(&mut volumes, vec![mount::munge_socket()]);
        finish(&mut volumes, vec![mount::munge_socket(), Mount::of("data", "/data", &claim())]);
        assert_eq!(volumes.volumes.len(), 1);
        assert_eq!(volumes.claims.keys().collect::<Vec<_>>(), ["data"]);
    }

    #[test]
    fn another_volume_of_a_name_that_is_taken_gets_a_name_of_its_own() {
        let mut volumes = Volumes::default();
        let mounts = finish(
            &mut volumes,
            vec![
                Mount::new("data", "/a", empty_dir()),
                Mount::of("data", "/b", &claim()),
                Mount::new("data", "/c", empty_dir()),
            ],
        );
        let names: Vec<&str> = mounts.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["data", "data-2", "data"]);
    }

    #[test]
    fn a_mount_of_the_user_wins_over_ours_at_its_path() {
        let mut volumes = Volumes::default();
        let mounts = finish(&mut volumes, vec![mount::tmp_disk(), Mount::of("scratch", "/tmp/", &claim())]);
        assert_eq!(mounts, [("scratch".into(), "/tmp/".into())]);
        assert!(volumes.volumes.is_empty());
    }
}
