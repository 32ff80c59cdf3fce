//! slurmdbd.

use slurm::agent::{command, path};

use crate::labels::Component;
use crate::pod::{self, Limits, Mount, Pod, Rights, Role, mount, munge};
use crate::slurm_files::{TLS_CA_DIR, TLS_CLIENT_DIR};
use crate::validate::{Accounting, Database};
use crate::workload::{self, Roll};
use crate::{Facts, Rendered, ValidatedCluster, database};

/// Seconds for slurmdbd to finish what it writes to the database.
const GRACE: i64 = 120;

const CONTAINER: &str = "accounting";

/// The host that slurmdbd.conf names as `DbdHost`: slurmdbd refuses to run on another.
const HOST: &str = "accounting";

pub(crate) fn render(cluster: &ValidatedCluster, facts: &Facts) -> Vec<Rendered> {
    let Ok(Some(accounting)) = &cluster.accounting else { return Vec::new() };
    let names = &cluster.names;
    let mut objects = database::render(cluster, accounting, facts);
    let service = workload::service(
        cluster,
        Component::Accounting,
        names.accounting_service(),
        CONTAINER,
        cluster.ports.slurmdbd,
    );
    objects.push(Rendered::apply(Component::Accounting, service));
    let deployment = workload::deployment(
        cluster,
        Component::Accounting,
        names.accounting(),
        i32::from(facts.running.accounting),
        // Two slurmdbd on one database would both write.
        Roll::OneAfterTheOther,
        pod(cluster, accounting, facts),
    );
    objects.push(Rendered::recreate(Component::Accounting, deployment));
    objects
}

fn pod(cluster: &ValidatedCluster, accounting: &Accounting, facts: &Facts) -> pod::BuiltPod {
    let names = &cluster.names;
    let host_users = accounting.pod.host_users;
    let mut mounts = vec![
        mount::slurmdbd_config(names.slurmdbd_configs()),
        Mount::new("slurmdbd-spool", path::SLURMDBD_SPOOL, mount::empty_dir()),
        mount::munge_socket(),
        mount::jwt_key(names.rest_jwt_key()),
        mount::security_limits(names.security_limits(Component::Accounting)),
    ];
    let mut env = pod::place();
    if let Some(jail) = &cluster.jail {
        mounts.push(mount::jail_users(jail));
        env = pod::with_jail(env, pod::JailUse::Users);
    }
    if let Database::External(external) = accounting.database(facts) {
        let tls = &external.tls;
        let secrets = [
            ("slurmdbd-ssl-ca-cert", TLS_CA_DIR, &tls.server_ca_secret_ref),
            ("slurmdbd-ssl-client-key", TLS_CLIENT_DIR, &tls.client_cert_secret_ref),
        ];
        for (name, path, secret) in secrets {
            if let Some(secret) = secret.as_deref().filter(|secret| !secret.is_empty()) {
                mounts.push(Mount::new(name, path, mount::secret(secret)).read_only());
            }
        }
    }
    let main = Role {
        name: CONTAINER,
        command: command::SLURMDBD,
        settings: &accounting.slurmdbd,
        image: facts.held_images.slurmdbd.as_deref(),
        port: Some(cluster.ports.slurmdbd),
        rights: Rights::Plain,
        limits: Limits::WithoutCpu,
        host_users,
        env,
        mounts,
    };
    Pod {
        sidecars: vec![munge::sidecar(&accounting.munge, names.munge(), Limits::WithoutCpu, host_users)],
        hostname: Some(HOST.into()),
        ..Pod::new(cluster, Component::Accounting, &accounting.pod, main.build(), GRACE)
    }
    .build()
}
