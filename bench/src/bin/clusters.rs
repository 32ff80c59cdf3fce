//! Twenty SlurmClusters at once on a bare control plane: how long until all of them are applied, and the memory of the
//! operator, which runs as a process of its own: the `soperator` beside this program, or the one that is named.

use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use api::nebius::SlurmCluster;
use bench::{mb, memory_of};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, ListParams, PostParams};
use kube::runtime::wait::{await_condition, conditions};
use rig::ControlPlane;
use serde_json::Value;

const CLUSTERS: usize = 20;
const LIMIT: Duration = Duration::from_secs(10);
const MEMORY_LIMIT: u64 = 40_000_000;
/// Clusters that the operator works on at the same time.
const AT_ONCE: usize = 2;

fn main() -> Result<()> {
    let program = bench::soperator(std::env::args_os().nth(1).map(PathBuf::from))?;
    tokio::runtime::Runtime::new()?.block_on(measure(&program))
}

struct Operator(Child);

impl Drop for Operator {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn start(program: &Path, kubeconfig: &Path, folder: &Path) -> Result<Operator> {
    let file = folder.join("settings.yaml");
    let text = format!(
        "operatorNamespace: default\nimages: {{ agent: soperator.local/soperator:1, mariadb: soperator.local/mariadb:1 }}\n\
         health: {{ bindAddress: '127.0.0.1:0' }}\nmetrics: {{ enabled: false }}\ndebug: {{ bindAddress: '0' }}\nwebhooks: {{ enabled: false }}\n\
         maxConcurrentReconciles: {AT_ONCE}\nlogging: {{ level: warn }}\n"
    );
    std::fs::write(&file, text)?;
    let mut command = Command::new(program);
    command.args(["operator", "--controllers", "nodeset,slurmcluster", "--config"]).arg(&file);
    let child = command.env("KUBECONFIG", kubeconfig).spawn().context("the operator cannot be started")?;
    Ok(Operator(child))
}

async fn measure(program: &Path) -> Result<()> {
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
        "{:>8.2} s until all {CLUSTERS} clusters were applied, {AT_ONCE} at a time; at most {} s",
        took.as_secs_f64(),
        LIMIT.as_secs()
    );
    println!("{:>8.1} MB of memory afterwards; at most {}", mb(memory), mb(MEMORY_LIMIT));
    ensure!(took <= LIMIT, "too slow");
    ensure!(memory <= MEMORY_LIMIT, "too much memory");
    Ok(())
}
