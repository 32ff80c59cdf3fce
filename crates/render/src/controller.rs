//! slurmctld.

use slurm::agent::{command, path};

use crate::labels::Component;
use crate::login::searches;
use crate::pod::{self, Account, Limits, Mount, Pod, Rights, Role, mount, munge, sssd};
use crate::validate::Controller;
use crate::workload::{self, Replace};
use crate::{Facts, Rendered, ValidatedCluster};

/// Seconds for slurmctld to write its state, which is large where there are many jobs. Jobs go on meanwhile.
const GRACE: i64 = 180;

const CONTAINER: &str = "slurmctld";

pub(crate) fn render(cluster: &ValidatedCluster, facts: &Facts) -> Vec<Rendered> {
    let Ok(controller) = &cluster.controller else { return Vec::new() };
    let names = &cluster.names;
    let mut objects = Vec::new();
    if controller.service_account.is_none() {
        let name = names.controller_service_account();
        let account = workload::service_account(cluster, Component::Controller, name);
        objects.push(Rendered::apply(Component::Controller, account));
    }
    let mut service = workload::service(
        cluster,
        Component::Controller,
        names.controller_service(),
        CONTAINER,
        cluster.ports.slurmctld,
    );
    if let Some(spec) = &mut service.spec {
        // slurmctld and its probe reach it by this Service, so it cannot wait until it is ready.
        spec.publish_not_ready_addresses = Some(true);
    }
    objects.push(Rendered::apply(Component::Controller, service));
    let set = workload::stateful_set(
        cluster,
        Component::Controller,
        names.controller(),
        names.controller_service(),
        i32::from(facts.running.controller),
        Replace::AtOnce,
        pod(cluster, controller, facts),
    );
    objects.push(Rendered::recreate(Component::Controller, set));
    objects
}

fn pod(cluster: &ValidatedCluster, controller: &Controller, facts: &Facts) -> pod::BuiltPod {
    let names = &cluster.names;
    let host_users = controller.pod.host_users;
    let mut mounts = vec![
        Mount::of("controller-spool", path::SLURMCTLD_SPOOL, &controller.spool),
        mount::jail_users(&controller.jail),
        mount::munge_socket(),
        mount::slurm_configs(names.slurm_configs()),
        mount::jwt_key(names.rest_jwt_key()),
        mount::security_limits(names.security_limits(Component::Controller)),
    ];
    mounts.extend(mount::custom(&controller.custom_mounts));
    let mut sidecars = vec![munge::sidecar(&controller.munge, names.munge(), Limits::WithoutCpu, host_users)];
    if let Some(sssd) = &controller.sssd {
        sidecars.push(sssd::sidecar(sssd, Limits::WithoutCpu, host_users));
        mounts.insert(0, sssd::pipes());
    }
    let main = Role {
        name: CONTAINER,
        command: command::SLURMCTLD,
        settings: &controller.slurmctld,
        image: facts.held_images.slurmctld.as_deref(),
        port: Some(cluster.ports.slurmctld),
        rights: Rights::Plain,
        limits: Limits::WithoutCpu,
        host_users,
        env: pod::with_jail(pod::place(), pod::JailUse::Users),
        mounts,
    };
    Pod {
        sidecars,
        // It calls back the srun of a login pod by its host name, and stands still for seconds where that is unknown.
        searches: searches(cluster),
        account: match &controller.service_account {
            Some(name) => Account::Users(name.clone()),
            None => Account::Ours(names.controller_service_account()),
        },
        ..Pod::new(cluster, Component::Controller, &controller.pod, main.build(), GRACE)
    }
    .build()
}
