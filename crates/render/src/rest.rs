//! slurmrestd: the operator's own, and with a Service of theirs also the users'.

use slurm::agent::{command, env};

use crate::labels::Component;
use crate::login::conf_server;
use crate::pod::{self, Limits, Pod, Rights, Role, mount, var};
use crate::validate::Rest;
use crate::workload::{self, Roll};
use crate::{Facts, Rendered, ValidatedCluster};

/// Seconds for requests to be answered.
const GRACE: i64 = 30;

const CONTAINER: &str = "slurmrestd";

pub(crate) fn render(cluster: &ValidatedCluster, facts: &Facts) -> Vec<Rendered> {
    let Ok(rest) = &cluster.rest else { return Vec::new() };
    let names = &cluster.names;
    let mut services = vec![names.rest_internal_service()];
    if rest.enabled {
        services.push(names.rest_service());
    }
    let mut objects: Vec<Rendered> = services
        .into_iter()
        .map(|name| {
            let port = cluster.ports.slurmrestd;
            let service = workload::service(cluster, Component::Rest, name, CONTAINER, port);
            Rendered::apply(Component::Rest, service)
        })
        .collect();
    // No image, no slurmrestd; a condition says so.
    let Some(image) = rest.image(facts) else { return objects };
    let replicas = if facts.running.rest { rest.size } else { 0 };
    let budget = workload::one_at_a_time(cluster, Component::Rest, names.rest(), replicas);
    objects.extend(budget.map(|budget| Rendered::apply(Component::Rest, budget)));
    let deployment = workload::deployment(
        cluster,
        Component::Rest,
        names.rest(),
        replicas,
        Roll::Overlapping,
        pod(cluster, rest, image),
    );
    objects.push(Rendered::recreate(Component::Rest, deployment));
    objects
}

fn pod(cluster: &ValidatedCluster, rest: &Rest, image: &str) -> pod::BuiltPod {
    let names = &cluster.names;
    let mut env = pod::place();
    env.extend([
        var(env::CONF_SERVER, conf_server(cluster)),
        var(env::PORT, cluster.ports.slurmrestd.to_string()),
        var(env::REST_THREADS, rest.threads.to_string()),
        var(env::REST_CONNECTIONS, rest.connections.to_string()),
    ]);
    let mut mounts = vec![
        mount::slurm_configs(names.slurm_configs()),
        mount::security_limits(names.security_limits(Component::Rest)),
    ];
    if let Some(jail) = &cluster.jail {
        mounts.push(mount::jail_users(jail));
        env = pod::with_jail(env, pod::JailUse::Users);
    }
    let main = Role {
        name: CONTAINER,
        command: command::SLURMRESTD,
        settings: &rest.container,
        image: Some(image),
        port: Some(cluster.ports.slurmrestd),
        rights: Rights::Plain,
        limits: Limits::WithoutCpu,
        host_users: rest.pod.host_users,
        env,
        mounts,
    };
    Pod::new(cluster, Component::Rest, &rest.pod, main.build(), GRACE).build()
}
