//! Every fault at every place in the life of JailedConfigs: the end is the same, in the API and in the jail.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use api::nebius::JailedConfig;
use engine::client::BoxError;
use engine::testing::sweep::{self, Choice, Scenario, Step};
use engine::testing::{Injector, World, Write};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use kube::core::ApiResource;
use kube::{Client, Config};
use sconfig::Times;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::place::{self, CLUSTER, apply_map, config, connect, jailed, make_cluster, tell_slurmctld, tree};

/// Make a group and a single one; change files, and move one; delete.
struct Life {
    config: Config,
    folder: tempfile::TempDir,
}

impl Life {
    fn jail(&self, namespace: &str) -> PathBuf {
        self.folder.path().join(namespace)
    }
}

/// What the operator and slurmctld do.
async fn slurm_takes(client: &Client, namespace: &str, text: &str) -> Result<()> {
    let data = json!({ "slurm.conf": "s", "x.conf": text });
    apply_map(client, namespace, &format!("{CLUSTER}-slurm-configs"), data).await?;
    let hash = slurm::agent::set_hash([("slurm.conf", &b"s"[..]), ("x.conf", text.as_bytes())]);
    tell_slurmctld(client, namespace, json!({ "inUse": hash })).await
}

impl Scenario for Life {
    fn name(&self) -> &str {
        "jailedconfig"
    }

    fn client(&self, injector: Arc<Injector>) -> Result<Client, BoxError> {
        Ok(connect(self.config.clone(), Some(injector))?)
    }

    fn plain_client(&self) -> Result<Client, BoxError> {
        Ok(connect(self.config.clone(), None)?)
    }

    fn namespace(&self) -> Step<'_, String> {
        async {
            let namespace = place::server().await?.namespace("sweep").await?.name().to_string();
            fs::create_dir(self.jail(&namespace))?;
            fs::write(self.jail(&namespace).join(".soperator-jail.json"), "{}")?;
            Ok(namespace)
        }
        .boxed()
    }

    fn start(&self, client: Client, namespace: &str, stop: CancellationToken) -> BoxFuture<'static, ()> {
        let times = Times { leftovers: Duration::from_millis(300), ..place::times() };
        place::operate(client, namespace.into(), self.jail(namespace), times, stop).boxed()
    }

    fn steps(&self) -> usize {
        3
    }

    fn at_once(&self) -> usize {
        4
    }

    fn act<'a>(&'a self, client: &'a Client, namespace: &'a str, step: usize) -> Step<'a, ()> {
        async move {
            let configs: Api<JailedConfig> = Api::namespaced(client.clone(), namespace);
            match step {
                0 => {
                    make_cluster(client, namespace, CLUSTER).await?;
                    slurm_takes(client, namespace, "1").await?;
                    for name in ["a", "b", "alone"] {
                        apply_map(client, namespace, name, json!({ "k": "1" })).await?;
                    }
                    let label = json!({ "slurm.nebius.ai/jailed-aggregation": "common" });
                    for (name, path) in [("a", "/etc/slurm/x.conf"), ("b", "/etc/b"), ("alone", "/opt/alone")]
                    {
                        let mut value = jailed(name, &[("k", path)]);
                        if name != "alone" {
                            value["metadata"]["labels"] = label.clone();
                            value["spec"]["updateActions"] = json!(["Reconfigure"]);
                        }
                        configs.create(&PostParams::default(), &serde_json::from_value(value)?).await?;
                    }
                }
                1 => {
                    slurm_takes(client, namespace, "2").await?;
                    for name in ["a", "b", "alone"] {
                        apply_map(client, namespace, name, json!({ "k": "2" })).await?;
                    }
                    let moved = json!({ "spec": { "items": [{ "key": "k", "path": "/opt/moved" }] } });
                    configs.patch("alone", &PatchParams::default(), &Patch::Merge(&moved)).await?;
                }
                _ => {
                    configs.delete("b", &DeleteParams::default()).await?;
                    configs.delete("alone", &DeleteParams::default()).await?;
                }
            }
            Ok(())
        }
        .boxed()
    }

    fn is_done<'a>(&'a self, client: &'a Client, namespace: &'a str, step: usize) -> Step<'a, bool> {
        async move {
            let configs: Api<JailedConfig> = Api::namespaced(client.clone(), namespace);
            let all = configs.list(&kube::api::ListParams::default()).await?.items;
            let is_told = |config: &JailedConfig| {
                let conditions = config.status.iter().flat_map(|status| status.conditions.iter().flatten());
                let done = conditions.filter(|known| {
                    known.status == "True" && known.observed_generation == config.metadata.generation
                });
                done.count() == 2
            };
            let files = tree(&self.jail(namespace));
            let has = |path: &str, text: &str| files.get(path).map(String::as_str) == Some(text);
            let is_clean = !files.keys().any(|path| path.contains(".sconfig-"));
            let expected = match step {
                0 => {
                    all.len() == 3
                        && has("etc/slurm/x.conf", "1")
                        && has("etc/b", "1")
                        && has("opt/alone", "1")
                }
                1 => {
                    has("etc/slurm/x.conf", "2")
                        && has("etc/b", "2")
                        && has("opt/moved", "2")
                        && !files.contains_key("opt/alone")
                }
                _ => all.len() == 1 && !files.contains_key("etc/b") && !files.contains_key("opt/moved"),
            };
            Ok(expected && is_clean && all.iter().all(is_told))
        }
        .boxed()
    }

    fn world<'a>(&'a self, client: &'a Client, namespace: &'a str) -> Step<'a, World> {
        async move {
            let kinds = [ApiResource::erase::<JailedConfig>(&())];
            let mut world = World::read(client, namespace, &kinds, |_, _| {}).await?;
            for (path, text) in tree(&self.jail(namespace)) {
                world.objects.insert(format!("File {path}"), Value::String(text));
            }
            Ok(world)
        }
        .boxed()
    }

    fn monitor(&self, writes: &[Write]) -> Result<(), String> {
        let statuses: Vec<&Write> = writes.iter().filter(|write| write.call.subresource.is_some()).collect();
        for name in ["a", "b", "alone"] {
            let of: Vec<&Value> = statuses
                .iter()
                .filter(|write| write.body["metadata"]["name"] == name)
                .map(|write| &write.body["status"])
                .collect();
            if of.windows(4).any(|same| same.iter().all(|status| *status == same[0])) {
                return Err(format!("the same status of {name} was written again and again"));
            }
        }
        if writes.len() > 60 {
            return Err(format!("{} writes for three JailedConfigs", writes.len()));
        }
        Ok(())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_fault_leads_to_the_same_end() -> Result<()> {
    let life = Arc::new(Life { config: config().await?, folder: tempfile::tempdir()? });
    let report = sweep::run(life, Choice::from_env(16, 9)).await;
    println!("{} of {} cases ran, {} failed", report.cases, report.of, report.failures.len());
    assert!(report.cases > 0);
    assert!(report.failures.is_empty(), "{}", report.failures.join("\n"));
    Ok(())
}
