//! Installs the operator and clusters by Helm, in the way that `make up` does.

use std::ops::Deref;
use std::sync::{LazyLock, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use rig::Rig;
use rig::slurm::Version;
use serde_json::{Value, json};

use super::{Cluster, NAME, Ssh, WORKERS, helm, is_webhook_away, root, with_version};
use crate::{PATIENCE, output_of};

pub(super) const OPERATOR_NAMESPACE: &str = "soperator-system";

/// One operator for the kinds of both groups.
const CONTROLLERS: &str = "controllerManager.manager.controllers=\
     {slurmcluster,nodeset,nodeconfigurator,topology,slinky-cluster,slinky-nodeset}";

/// How a cluster differs from the example.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// The namespace, made if it is missing.
    pub namespace: String,
    /// Its name; empty: [`NAME`].
    pub name: String,
    /// More values, over those of the example.
    pub values: Value,
}

impl Cluster {
    /// Installs the operator, if no test has, and a cluster, or brings the one that is there up to date. It may not work yet.
    pub fn install(rig: &'static Rig, version: Version, settings: &Settings) -> Result<Self> {
        operator(rig)?;
        let start = Instant::now();
        let namespace = settings.namespace.clone();
        let name = if settings.name.is_empty() { NAME.to_string() } else { settings.name.clone() };
        let ssh = Ssh::new(rig, &namespace, &format!("{name}-login-svc"))?;
        output_of(rig.kubectl()?.args(["apply", "--filename", "-"]), Some(&namespace_manifest(&namespace)))?;

        let example = |file: &str| -> Result<String> {
            let path = root().join("examples/rig").join(file);
            std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))
        };
        let folder = rig.kubeconfig().parent().context("the rig's directory")?.join("values");
        std::fs::create_dir_all(&folder)?;
        let write = |file: String, text: &str| -> Result<String> {
            let path = folder.join(file);
            std::fs::write(&path, text)?;
            Ok(path.display().to_string())
        };
        let values =
            write(format!("{namespace}-{name}.yaml"), &with_version(&example("values.yaml")?, version)?)?;
        let own = write(format!("{namespace}-{name}-own.json"), &own_values(&name, &ssh)?.to_string())?;
        let more = if settings.values.is_null() { json!({}) } else { settings.values.clone() };
        let more = write(format!("{namespace}-{name}-more.json"), &more.to_string())?;
        let storage = write(format!("{namespace}-storage.yaml"), &example("storage-values.yaml")?)?;

        if settings.name.is_empty() {
            let release = ["upgrade", "--install", "slurm-storage", "./helm/slurm-cluster-storage"];
            helm(rig, &[&release[..], &["--namespace", &namespace, "--values", &storage]].concat(), None)?;
        }
        let release = ["upgrade", "--install", &name, "./helm/slurm-cluster"];
        let options = ["--namespace", &namespace, "--values", &values, "--values", &own, "--values", &more];
        let arguments = [&release[..], &options].concat();
        // While a test has killed the operator, its webhook is away.
        while let Err(error) = helm(rig, &arguments, None) {
            if !is_webhook_away(&error) || start.elapsed() > PATIENCE {
                return Err(error);
            }
            std::thread::sleep(Duration::from_secs(1));
        }
        Ok(Self { rig, namespace, name, version, ssh })
    }
}

fn namespace_manifest(name: &str) -> String {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}).to_string()
}

/// What differs from the example for every cluster of the tests: its name, its key, any free port, a REST API, and workers
/// that are small enough for several clusters.
fn own_values(name: &str, ssh: &Ssh) -> Result<Value> {
    Ok(json!({
        "clusterName": name,
        "slurmNodes": {
            "login": {"sshRootPublicKeys": [ssh.public_key()?], "sshdServiceNodePort": 0},
            "rest": {"enabled": true},
            "worker": {"slurmd": {"resources": {"cpu": "200m", "memory": "256Mi"}}},
        },
    }))
}

/// Installs the definitions and the operator, once per test program.
fn operator(rig: &'static Rig) -> Result<()> {
    static INSTALLED: OnceLock<Result<(), String>> = OnceLock::new();
    let installed = INSTALLED.get_or_init(|| install_operator(rig).map_err(|error| format!("{error:#}")));
    installed.clone().map_err(|error| anyhow!("the operator was not installed: {error}"))
}

fn install_operator(rig: &Rig) -> Result<()> {
    let place = ["--namespace", OPERATOR_NAMESPACE];
    let release = ["upgrade", "--install", "soperator-crds", "./helm/soperator-crds", "--create-namespace"];
    helm(rig, &[&release[..], &place].concat(), None)?;
    // Too large for what a plain apply notes of it in the object.
    let mut slinky = rig.kubectl()?;
    slinky.args(["apply", "--server-side", "--filename", "./helm/slurm-operator/crds"]).current_dir(root());
    output_of(&mut slinky, None)?;
    let values = ["--values", "examples/rig/soperator-values.yaml", "--set", CONTROLLERS];
    let release = ["upgrade", "--install", "soperator", "./helm/soperator", "--wait", "--timeout", "180s"];
    helm(rig, &[&release[..], &place, &values].concat(), None)?;
    Ok(())
}

/// A test's turn with a shared cluster.
pub struct Turn {
    _turn: MutexGuard<'static, ()>,
    cluster: &'static Cluster,
}

impl Deref for Turn {
    type Target = Cluster;

    fn deref(&self) -> &Cluster {
        self.cluster
    }
}

#[derive(Default)]
struct Slot {
    turn: Mutex<()>,
    cluster: OnceLock<Cluster>,
}

/// The cluster of this version that tests share. One test has it at a time; it is made by the first, and left as it was found.
pub fn shared(rig: &'static Rig, version: Version) -> Result<Turn> {
    static OLD: LazyLock<Slot> = LazyLock::new(Slot::default);
    static NEW: LazyLock<Slot> = LazyLock::new(Slot::default);
    let slot: &'static Slot = match version {
        Version::V24_11 => &OLD,
        Version::V26_05 => &NEW,
    };
    // A test that failed leaves a cluster that the next one waits for.
    let turn = slot.turn.lock().unwrap_or_else(PoisonError::into_inner);
    let cluster = match slot.cluster.get() {
        Some(cluster) => cluster,
        None => {
            let namespace = format!("e2e-{}", super::recipe(version).replace('.', "-"));
            let made = Cluster::install(rig, version, &Settings { namespace, ..Settings::default() })?;
            slot.cluster.get_or_init(|| made)
        }
    };
    cluster.wait_idle(WORKERS)?;
    // A node that is new to Slurm takes jobs when Slurm has read the file with it.
    cluster.wait_available()?;
    Ok(Turn { _turn: turn, cluster })
}
