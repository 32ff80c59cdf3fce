//! What `slurm-agent` and those who put it into pods agree on: its commands, where it finds things, and what it answers.
//!
//! `slurm-agent` is the first process of every Slurm container. An init container (`slurm-agent install`) copies it into
//! the directory [`PROGRAM_DIR`], which all containers of the pod share.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// The directory, shared by all containers of a pod, that holds the program.
pub const PROGRAM_DIR: &str = "/opt/soperator/bin";

/// The program inside Slurm containers.
pub const PROGRAM: &str = "/opt/soperator/bin/slurm-agent";

/// The program inside the image that it is installed from.
pub const PROGRAM_IN_IMAGE: &str = "/usr/bin/slurm-agent";

/// Where every main container answers `GET /state` with an [`AgentState`]. The munge container answers nothing.
pub const STATE_PORT: u16 = 8790;

/// The reason of a drain that the agent makes while its pod stops begins with this. The agent of the next pod takes it back.
pub const DRAIN_MARKER: &str = "slurm-agent:";

/// Commands of the program. Each but the first two runs one kind of container until it is told to stop.
pub mod command {
    /// `install DIR`: copies the program there.
    pub const INSTALL: &str = "install";
    /// `probe DAEMON`: exit code 0 when the daemon of this pod works.
    pub const PROBE: &str = "probe";
    /// slurmctld, and the one caller of reconfigure.
    pub const SLURMCTLD: &str = "slurmctld";
    /// slurmdbd, once its database answers.
    pub const SLURMDBD: &str = "slurmdbd";
    /// slurmrestd, neither as root nor as Slurm's user.
    pub const SLURMRESTD: &str = "slurmrestd";
    /// slurmd, and sshd beside it; or the programs of a supervisord.conf.
    pub const SLURMD: &str = "slurmd";
    /// munged.
    pub const MUNGE: &str = "munge";
    /// sshd of a login pod.
    pub const LOGIN: &str = "login";
    /// mariadbd: makes the database, the user and its password, and keeps the password true.
    pub const MARIADB: &str = "mariadb";
    /// Fills the jail from the file system of its own container, or from [`path::JAIL_SNAPSHOT`] if that is mounted, and ends.
    ///
    /// [`path::JAIL_SNAPSHOT`]: super::path::JAIL_SNAPSHOT
    pub const POPULATE_JAIL: &str = "populate-jail";
}

/// Where containers find what is mounted for them. Secrets are copied from here with the owner and mode that a daemon
/// wants, and looked at again every few seconds, because the kubelet replaces them when they rotate.
pub mod path {
    /// The effective set of configuration files: slurmctld, slurmrestd, login.
    pub const CONFIGS: &str = "/mnt/slurm-configs";
    /// slurmdbd.conf, from a Secret of its own.
    pub const SLURMDBD_CONFIG: &str = "/mnt/slurmdbd-configs/slurmdbd.conf";
    /// The key of munge.
    pub const MUNGE_KEY: &str = "/mnt/munge-key/munge.key";
    /// The directory of munge's socket, shared between the containers of a pod.
    pub const MUNGE_SOCKET_DIR: &str = "/run/munge";
    /// The key that signs tokens: slurmctld and slurmdbd.
    pub const JWT_KEY: &str = "/mnt/rest-jwt-key/rest_jwt.key";
    /// State of slurmctld; it holds the private copies of the configuration too, so that they outlive the pod.
    pub const SLURMCTLD_SPOOL: &str = "/var/spool/slurmctld";
    /// Spool of slurmdbd.
    pub const SLURMDBD_SPOOL: &str = "/var/spool/slurmdbd";
    /// Spool of slurmd.
    pub const SLURMD_SPOOL: &str = "/var/spool/slurmd";
    /// The copy of the key that signs tokens, as slurm.conf names it.
    pub const SLURMCTLD_JWT_KEY: &str = "/var/spool/slurmctld/jwt_hs256.key";
    /// The copy of the key that signs tokens, as slurmdbd.conf names it.
    pub const SLURMDBD_JWT_KEY: &str = "/var/spool/slurmdbd/jwt_hs256.key";
    /// sshd_config: login and slurmd.
    pub const SSHD_CONFIG: &str = "/mnt/ssh-configs/sshd_config";
    /// Host keys as the Secret holds them: login and slurmd.
    pub const SSHD_KEYS: &str = "/mnt/sshd-keys";
    /// Host keys as sshd reads them, and as sshd_config names them.
    pub const SSHD_KEYS_COPY: &str = "/etc/ssh/sshd_keys";
    /// Keys of users who may log in as root, as the ConfigMap holds them. They are copied to [`ROOT_KEYS_COPY`].
    pub const ROOT_KEYS: &str = "/mnt/ssh-root-keys/authorized_keys";
    /// Keys of users who may log in as root, as sshd reads them.
    pub const ROOT_KEYS_COPY: &str = "/root/.ssh/authorized_keys";
    /// A supervisord.conf of the user: slurmd.
    pub const SUPERVISORD_CONFIG: &str = "/etc/supervisor/conf.d/supervisord.conf";
    /// The shared root file system.
    pub const JAIL: &str = "/mnt/jail";
    /// Tells that the jail is complete: made last, in one step, by `populate-jail`.
    pub const JAIL_MARKER: &str = "/mnt/jail/.soperator-jail.json";
    /// Tells that the jail is being filled, or was not filled to its end: made before anything else in it is changed.
    pub const JAIL_JOURNAL: &str = "/mnt/jail/.soperator-jail.partial";
    /// By any of these directories at its top a jail that another program has filled is known.
    pub const JAIL_ROOT_LIKE: [&str; 3] = ["dev", "etc", "usr"];
    /// A snapshot that the jail is filled from: populate-jail.
    pub const JAIL_SNAPSHOT: &str = "/jail";
    /// What is mounted into the jail later.
    pub const JAIL_UPPER: &str = "/mnt/jail.upper";
    /// The password of slurmdbd's user of the database: mariadb.
    pub const DATABASE_PASSWORD: &str = "/mnt/database-password/password";
    /// The password of the database's root: mariadb.
    pub const DATABASE_ROOT_PASSWORD: &str = "/mnt/database-root-password/password";
    /// Files of the database: mariadb.
    pub const DATABASE: &str = "/var/lib/mysql";
}

/// Variables that containers get, besides those that users ask for.
pub mod env {
    /// Name of the pod; in worker pods the host name, which is the Slurm node's, as programs of the original's images expect.
    pub const POD_NAME: &str = "K8S_POD_NAME";
    /// Namespace of the pod.
    pub const POD_NAMESPACE: &str = "K8S_POD_NAMESPACE";
    /// Name of the Kubernetes node; slurmd's instance id.
    pub const INSTANCE_ID: &str = "INSTANCE_ID";
    /// The headless Service that gives the pod its DNS name: slurmd.
    pub const SERVICE_NAME: &str = "K8S_SERVICE_NAME";
    /// `gpu` or `cpu`.
    pub const CLUSTER_TYPE: &str = "SLURM_CLUSTER_TYPE";
    /// MiB of memory of a worker: slurmd.
    pub const REAL_MEMORY: &str = "SLURM_REAL_MEMORY";
    /// Text for the node's `Extra`, in which variables are expanded: slurmd.
    pub const NODE_EXTRA: &str = "SLURM_NODE_EXTRA";
    /// `true` where control groups are of version 2: slurmd.
    pub const CGROUP_V2: &str = "CGROUP_V2";
    /// `SLURM_FEATURE_<feature>` holds the host list of the workers that have the feature: slurmd.
    pub const FEATURE_PREFIX: &str = "SLURM_FEATURE_";
    /// The Slurm node that the pod is: slurmd.
    pub const NODE_NAME: &str = "SOPERATOR_NODE_NAME";
    /// `HOST:PORT` of slurmctld: slurmd fetches its configuration there, and others wait for it.
    pub const CONF_SERVER: &str = "SOPERATOR_CONF_SERVER";
    /// `true` where slurm.conf has the node's line; else the node registers itself (`slurmd -Z`): slurmd.
    pub const STATIC_NODE: &str = "SOPERATOR_STATIC_NODE";
    /// More `Key=Value` pairs for a node that registers itself: slurmd.
    pub const NODE_CONF: &str = "SOPERATOR_NODE_CONF";
    /// slurmd starts after a random part of this many seconds.
    pub const REGISTRATION_DELAY: &str = "SOPERATOR_REGISTRATION_DELAY_SECONDS";
    /// What the jail is to the container: `root` (its users live and work in it: login, slurmd) or `users` (only its users and
    /// groups are known: the other daemons). Not set where there is no jail.
    pub const JAIL: &str = "SOPERATOR_JAIL";
    /// `1`: the jail is filled anew, also where it is complete: populate-jail.
    pub const OVERWRITE: &str = "OVERWRITE";
    /// The uid of the Job, by which its pods know what an earlier one of them has done: populate-jail.
    pub const POPULATE_JOB: &str = "POPULATE_JOB";
    /// Threads of slurmrestd.
    pub const REST_THREADS: &str = "SLURMRESTD_THREAD_COUNT";
    /// Connections of slurmrestd.
    pub const REST_CONNECTIONS: &str = "SLURMRESTD_MAX_CONNECTIONS";
    /// The port of slurmrestd, and of sshd in login and worker pods.
    pub const PORT: &str = "SOPERATOR_PORT";
    /// The database that is made: mariadb.
    pub const DATABASE_NAME: &str = "SOPERATOR_DATABASE_NAME";
    /// The user that is made: mariadb.
    pub const DATABASE_USER: &str = "SOPERATOR_DATABASE_USER";
}

/// What the agent of a main container answers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AgentState {
    /// The command that it runs, e.g. `slurmctld`.
    pub daemon: String,
    /// Whether the daemon runs now.
    pub running: bool,
    /// What it waits for, as a sentence for people; none when it does not wait.
    pub waiting_for: Option<String>,
    /// How often a daemon ended by itself and was started again.
    pub restarts: u32,
    /// The last thing that went wrong, in the daemon's own words where it said any.
    pub last_error: Option<String>,
    /// The version of Slurm in the container, e.g. `24.11.5`.
    pub slurm_version: Option<String>,
    /// Slurm programs that the container holds.
    pub programs: Vec<String>,
    /// slurmctld: its configuration.
    pub config: Option<ConfigState>,
    /// slurmctld: it does not start, because its state was saved under another id of the cluster than slurmdbd has in its database.
    /// Somebody has to decide which one counts.
    pub cluster_mismatch: Option<ClusterMismatch>,
    /// login: sessions of users that are open.
    pub sessions: Option<u32>,
    /// slurmd: job steps that live now, e.g. `17.0` or `17.batch`.
    pub job_steps: Option<Vec<String>>,
    /// slurmd: those of them whose processes have ended, and that live only until slurmctld was told so.
    pub ended_steps: Vec<String>,
    /// Keys of the user's supervisord.conf that mean nothing here.
    pub unsupported: Vec<String>,
}

impl AgentState {
    /// Job steps whose processes live; `None` if the agent does not know. Where slurmctld is gone for good these alone count, because
    /// nobody will ever hear of the end of the others.
    #[must_use]
    pub fn running_steps(&self) -> Option<Vec<&str>> {
        let has_ended = |step: &&String| self.ended_steps.contains(step);
        let steps = self.job_steps.as_ref()?.iter().filter(|step| !has_ended(step));
        Some(steps.map(String::as_str).collect())
    }
}

/// slurmctld's state and slurmdbd's database are not of one cluster: one of them was lost, or replaced.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClusterMismatch {
    /// The file that holds the id of the state. Without it slurmctld takes the id that slurmdbd has.
    pub file: String,
    /// What slurmctld said.
    pub words: String,
}

/// Which configuration slurmctld runs with.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ConfigState {
    /// [`set_hash`] of the set that it runs with.
    pub in_use: String,
    /// [`set_hash`] of the set that it was last given.
    pub seen: String,
    /// Why the set that it was last given is not in use, in Slurm's own words.
    pub refused: Option<String>,
}

/// The hash of a set of configuration files: the same for the same names and texts.
pub fn set_hash<'a>(files: impl IntoIterator<Item = (&'a str, &'a [u8])>) -> String {
    let sorted: BTreeMap<&str, &[u8]> = files.into_iter().collect();
    let mut hasher = Sha256::new();
    for (name, text) in sorted {
        // Lengths keep apart what else could run together.
        hasher.update((name.len() as u64).to_be_bytes());
        hasher.update(name);
        hasher.update((text.len() as u64).to_be_bytes());
        hasher.update(text);
    }
    hasher.finalize().iter().take(16).fold(String::new(), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(files: &[(&str, &str)]) -> String {
        set_hash(files.iter().map(|(name, text)| (*name, text.as_bytes())))
    }

    #[test]
    fn the_order_of_files_does_not_matter_and_their_borders_do() {
        assert_eq!(hash(&[("a", "1"), ("b", "2")]), hash(&[("b", "2"), ("a", "1")]));
        assert_ne!(hash(&[("a", "1b")]), hash(&[("a", "1"), ("b", "")]));
        assert_ne!(hash(&[("a", "1")]), hash(&[("a", "2")]));
        assert_eq!(hash(&[]).len(), 32);
    }

    #[test]
    fn an_answer_with_unknown_or_missing_fields_is_read() {
        let state: AgentState = serde_json::from_str(r#"{"daemon":"login","sessions":2,"later":1}"#).unwrap();
        assert_eq!((state.daemon.as_str(), state.sessions, state.running), ("login", Some(2), false));
    }
}
