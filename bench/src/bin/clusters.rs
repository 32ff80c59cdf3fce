//! Twenty SlurmClusters at once on a bare control plane: how long until all of them are applied, and the memory of the
//! operator, which runs as a process of its own. The program to measure may be named: `clusters target/release/soperator`.

use std::path::Path;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use api::nebius::SlurmCluster;
use bench::{mb, memory_of};
use engine::settings::{Flags, Profile, World, load};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, ListParams, PostParams};
use kube::runtime::wait::{await_condition, conditions};
use rig::ControlPlane;
use serde_json::Value;

const CLUSTERS: usize = 20;
const LIMIT: Duration = Duration::from_secs(10);
const MEMORY_LIMIT: u64 = 40_000_000;
/// The second life of this program: the operator, with the settings in the file that the next word names.
const OPERATE: &str = "operate";

fn main() -> Result<()> {
    let mut args = std::env::args().skip(1);
    match args.next().as_deref() {
        Some(OPERATE) => operate(&args.next().context("the file with settings is missing")?),
        program => tokio::runtime::Runtime::new()?.block_on(measure(program)),
    }
}

fn operate(file: &str) -> Result<()> {
    let profile = Profile::new("operator", "slurm-operator").with_controllers(&["nodeset", "slurmcluster"]);
    let mut flags = Flags::default();
    flags.config = Some(file.into());
    Ok(operator::run(&load(&profile, &flags, &World::default())?)?)
}

struct Operator(Child);

impl Drop for Operator {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts the operator: `program`, or else this program itself.
fn start(program: Option<&str>, kubeconfig: &Path, folder: &Path) -> Result<Operator> {
    let file = folder.join("settings.yaml");
    let text = "operatorNamespace: default\nimages: { agent: soperator.local/soperator:1, mariadb: soperator.local/mariadb:1 }\n\
                health: { bindAddress: '127.0.0.1:0' }\nmetrics: { enabled: false }\ndebug: { bindAddress: '0' }\nwebhooks: { enabled: false }\n\
                logging: { level: warn }\n";
    std::fs::write(&file, text)?;
    let mut command = match program {
        Some(program) => {
            let mut command = Command::new(program);
            command.arg("operator").arg("--config").arg(&file);
            command
        }
        None => {
            let mut command = Command::new(std::env::current_exe()?);
            command.arg(OPERATE).arg(&file);
            command
        }
    };
    let child = command.env("KUBECONFIG", kubeconfig).spawn().context("the operator cannot be started")?;
    Ok(Operator(child))
}

async fn measure(program: Option<&str>) -> Result<()> {
    let plane = ControlPlane::start().await?;
    let client = plane.client().await?;
    let crds: Api<CustomResourceDefinition> = Api::all(client.clone());
    for crd in api::crds() {
        crds.create(&PostParams::default(), &crd).await?;
    }
    for crd in api::crds() {
        let name = crd.metadata.name.as_deref().context("a CRD has a name")?;
        await_condition(crds.clone(), name, conditions::is_crd_established()).await?;
    }
    let folder = tempfile::tempdir()?;
    let operator = start(program, &plane.kubeconfig(), folder.path())?;
    let id = operator.0.id().to_string();
    tokio::time::sleep(Duration::from_secs(5)).await;
    println!("{:>8.1} MB of memory before the first cluster", mb(memory_of(&id)?));

    let text = include_str!("../../../crates/operator/tests/clusters/cluster.yaml");
    let clusters: Api<SlurmCluster> = Api::namespaced(client.clone(), "default");
    let begin = Instant::now();
    for number in 0..CLUSTERS {
        let manifest: Value = serde_saphyr::from_str(&text.replace("NAME", &format!("c{number}")))?;
        clusters.create(&PostParams::default(), &serde_json::from_value(manifest)?).await?;
    }
    let took = loop {
        let all = clusters.list(&ListParams::default()).await?;
        let is_applied = |cluster: &SlurmCluster| {
            let status = cluster.status.as_ref();
            // It waits for what nobody brings here; everything of ours is there.
            status.is_some_and(|status| status.phase.as_deref() == Some("Pending"))
        };
        if all.iter().filter(|cluster| is_applied(cluster)).count() == CLUSTERS {
            break begin.elapsed();
        }
        if begin.elapsed() > Duration::from_secs(300) {
            bail!("not all clusters are applied after 5 minutes");
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    tokio::time::sleep(Duration::from_secs(5)).await;
    let memory = memory_of(&id)?;
    println!(
        "{:>8.2} s until all {CLUSTERS} clusters were applied; at most {} s",
        took.as_secs_f64(),
        LIMIT.as_secs()
    );
    println!("{:>8.1} MB of memory afterwards; at most {}", mb(memory), mb(MEMORY_LIMIT));
    ensure!(took <= LIMIT, "too slow");
    ensure!(memory <= MEMORY_LIMIT, "too much memory");
    Ok(())
}
