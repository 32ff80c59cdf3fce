//! Names of the objects of a cluster.

use std::fmt::Write as _;

use sha2::{Digest as _, Sha256};

/// The longest name of a Service, a label value and a host name.
const LONGEST: usize = 63;
/// The longest name of a StatefulSet: the label with its revision has 11 characters more.
const LONGEST_SET: usize = 52;

/// Names of the objects of one cluster: `<cluster>-...`, always short enough. Where a cluster's name leaves no room, its end
/// is replaced by a hash of all of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Names {
    cluster: String,
    namespace: String,
    domain: String,
}

macro_rules! names {
    ($($(#[$doc:meta])* $name:ident: $limit:expr, $suffix:literal;)*) => {
        $($(#[$doc])*
        #[must_use]
        pub fn $name(&self) -> String {
            self.with($suffix, $limit)
        })*
    };
}

impl Names {
    /// Names for a cluster.
    #[must_use]
    pub fn new(
        cluster: impl Into<String>,
        namespace: impl Into<String>,
        cluster_domain: impl Into<String>,
    ) -> Self {
        Self { cluster: cluster.into(), namespace: namespace.into(), domain: cluster_domain.into() }
    }

    /// The cluster.
    #[must_use]
    pub fn cluster(&self) -> &str {
        &self.cluster
    }

    /// Its namespace.
    #[must_use]
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    names! {
        /// StatefulSet of slurmctld.
        controller: LONGEST_SET, "controller";
        /// StatefulSet of login pods.
        login: LONGEST_SET, "login";
        /// StatefulSet of the plain MariaDB, its Service, and the MariaDB and Grant of the MariaDB operator.
        database: LONGEST_SET, "acct-db";
        /// NodeSet that stands for `slurmNodes.worker`.
        worker: LONGEST_SET, "worker";
        /// Deployment of slurmdbd.
        accounting: LONGEST, "accounting";
        /// Deployment of slurmrestd.
        rest: LONGEST, "rest";
        /// Job that fills the jail.
        populate_jail: LONGEST, "populate-jail";
        /// Deployment of the program that writes configuration files into the jail.
        sconfig_controller: LONGEST, "sconfigcontroller";

        /// Service of slurmctld.
        controller_service: LONGEST, "controller-svc";
        /// Service by which users log in.
        login_service: LONGEST, "login-svc";
        /// Headless Service of login pods.
        login_headless_service: LONGEST, "login-headless-svc";
        /// Service of slurmdbd.
        accounting_service: LONGEST, "accounting-svc";
        /// Service of slurmrestd for users.
        rest_service: LONGEST, "rest-svc";
        /// Service of slurmrestd for the operator.
        rest_internal_service: LONGEST, "rest-internal";
        /// Service with the metrics of the program that writes configuration files into the jail.
        sconfig_controller_service: LONGEST, "sconfigcontroller-metrics";
        /// Headless Service of the workers of `slurmNodes.worker`.
        worker_service: LONGEST, "worker-svc";
        /// Headless Service of all workers of NodeSets.
        node_sets_service: LONGEST, "nodeset-svc";

        /// ConfigMap with the effective set of Slurm's configuration files, and the JailedConfig that brings it to the jail.
        slurm_configs: LONGEST, "slurm-configs";
        /// ConfigMap with sshd_config of login pods.
        ssh_configs: LONGEST, "ssh-configs";
        /// ConfigMap with sshd_config of workers.
        ssh_configs_worker: LONGEST, "ssh-configs-worker";
        /// ConfigMap with the public keys of root.
        ssh_root_keys: LONGEST, "ssh-root-keys";
        /// ConfigMap with sysctl.conf of workers.
        sysctl: LONGEST, "sysctl";

        /// Secret with munge's key.
        munge: LONGEST, "munge";
        /// Secret with the key that signs tokens.
        rest_jwt_key: LONGEST, "rest-jwt-key";
        /// Secret with SSH host keys, where the user names none.
        sshd_keys: LONGEST, "sshd-keys";
        /// Secret with slurmdbd.conf.
        slurmdbd_configs: LONGEST, "slurmdbd-configs";
        /// Secret with the password of slurmdbd's user of the database.
        database_password: LONGEST, "mariadb-password";
        /// Secret with the password of the database's root.
        database_root_password: LONGEST, "mariadb-root";

        /// ServiceAccount of workers.
        worker_service_account: LONGEST, "worker-sa";
        /// ServiceAccount of slurmctld.
        controller_service_account: LONGEST, "controller-sa";
        /// ServiceAccount of the program that writes configuration files into the jail.
        sconfig_controller_service_account: LONGEST, "sconfigcontroller-sa";
        /// Its Role.
        sconfig_controller_role: LONGEST, "sconfigcontroller-configmaps-role";
        /// Its RoleBinding.
        sconfig_controller_role_binding: LONGEST, "sconfigcontroller-configmaps-role-binding";
    }

    /// ConfigMap with limits.conf of a part: `<cluster>-<component>-security-limits`.
    #[must_use]
    pub fn security_limits(&self, component: crate::Component) -> String {
        self.with(&format!("{}-security-limits", component.as_str()), LONGEST)
    }

    /// ConfigMap with limits.conf of a NodeSet.
    #[must_use]
    pub fn node_set_security_limits(&self, node_set: &str) -> String {
        self.with(&format!("nodeset-{node_set}-security-limits"), LONGEST)
    }

    /// The headless Service under which the workers of a NodeSet have their DNS names. Those of users share one, so that
    /// login pods find all workers by their short names and need not know which NodeSets there are.
    #[must_use]
    pub fn domain_service(&self, node_set: &str) -> String {
        if node_set == self.worker() { self.worker_service() } else { self.node_sets_service() }
    }

    /// Headless Service of the workers of one NodeSet.
    #[must_use]
    pub fn node_set_service(&self, node_set: &str) -> String {
        self.with(&format!("nodeset-{node_set}-svc"), LONGEST)
    }

    /// AppArmorProfile of login and worker pods. It is not namespaced on the hosts, so the namespace is part of it.
    #[must_use]
    pub fn app_armor_profile(&self) -> String {
        shortened(&format!("soperator-cluster-{}-ns-{}", self.cluster, self.namespace), LONGEST)
    }

    /// The one pod of slurmctld, which is its host name too.
    #[must_use]
    pub fn controller_pod(&self) -> String {
        format!("{}-0", self.controller())
    }

    /// The full DNS name of a Service of the cluster.
    #[must_use]
    pub fn dns(&self, service: &str) -> String {
        format!("{service}.{}.svc.{}", self.namespace, self.domain)
    }

    fn with(&self, suffix: &str, longest: usize) -> String {
        shortened(&format!("{}-{suffix}", self.cluster), longest)
    }
}

/// The name, or its beginning and a hash of all of it.
fn shortened(name: &str, longest: usize) -> String {
    const HASH_BYTES: usize = 5;
    if name.len() <= longest {
        return name.to_owned();
    }
    let hash = Sha256::digest(name).iter().take(HASH_BYTES).fold(String::new(), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}");
        hex
    });
    let end = name.floor_char_boundary(longest - hash.len() - 1);
    format!("{}-{hash}", name[..end].trim_end_matches(['-', '.']))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::Component;

    fn names(cluster: &str) -> Names {
        Names::new(cluster, "slurm", "cluster.local")
    }

    fn all(names: &Names) -> Vec<String> {
        vec![
            names.controller_pod(),
            names.login(),
            names.database(),
            names.controller_service(),
            names.login_headless_service(),
            names.ssh_configs_worker(),
            names.security_limits(Component::Controller),
            names.node_set_security_limits(&"n".repeat(60)),
            names.node_set_service(&"n".repeat(60)),
            names.app_armor_profile(),
        ]
    }

    #[test]
    fn names_begin_with_the_cluster() {
        let names = names("c1");
        assert_eq!(names.controller_pod(), "c1-controller-0");
        assert_eq!(names.slurm_configs(), "c1-slurm-configs");
        assert_eq!(names.dns(&names.rest_service()), "c1-rest-svc.slurm.svc.cluster.local");
    }

    #[test]
    fn every_name_of_the_longest_clusters_fits_and_differs() {
        let (one, other) = ("a".repeat(60), format!("{}b", "a".repeat(59)));
        let names: Vec<String> = all(&names(&one)).into_iter().chain(all(&names(&other))).collect();
        for name in &names {
            assert!(name.len() <= LONGEST, "{name}");
            assert!(name.starts_with('a') || name.starts_with("soperator"), "{name}");
            assert!(!name.contains("--") && !name.ends_with('-'), "{name}");
        }
        assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len());
        assert_eq!(self::names(&one).login().len(), LONGEST_SET);
    }
}
