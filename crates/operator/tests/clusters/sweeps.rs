//! Every fault at every place of the creation and of an update of a cluster: the end is the same.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use api::nebius::{JailedConfig, NodeSet, SlurmCluster};
use engine::client::{BoxError, Verb};
use engine::testing::sweep::{self, Choice, Scenario, Step};
use engine::testing::{Injector, World, Write};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ConfigMap, PersistentVolumeClaim, Pod, Secret, Service, ServiceAccount};
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use kube::api::{Api, Patch, PatchParams, PostParams};
use kube::core::ApiResource;
use kube::{Client, Config, Resource as _};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::place::{config, connect, manifest, operate, server};

/// Make a cluster, then change its configuration, its login pods and its workers, and turn off the Service for users.
struct Life {
    config: Config,
}

fn kinds() -> Vec<ApiResource> {
    vec![
        ApiResource::erase::<SlurmCluster>(&()),
        ApiResource::erase::<NodeSet>(&()),
        ApiResource::erase::<ConfigMap>(&()),
        ApiResource::erase::<Secret>(&()),
        ApiResource::erase::<Service>(&()),
        ApiResource::erase::<ServiceAccount>(&()),
        ApiResource::erase::<StatefulSet>(&()),
        ApiResource::erase::<Deployment>(&()),
        ApiResource::erase::<Job>(&()),
        ApiResource::erase::<JailedConfig>(&()),
        ApiResource::erase::<Role>(&()),
        ApiResource::erase::<RoleBinding>(&()),
        ApiResource::erase::<PersistentVolumeClaim>(&()),
        ApiResource::erase::<Pod>(&()),
    ]
}

impl Scenario for Life {
    fn name(&self) -> &str {
        "cluster"
    }

    fn client(&self, injector: Arc<Injector>) -> Result<Client, BoxError> {
        Ok(connect(self.config.clone(), Some(injector))?)
    }

    fn plain_client(&self) -> Result<Client, BoxError> {
        Ok(connect(self.config.clone(), None)?)
    }

    fn namespace(&self) -> Step<'_, String> {
        async { Ok(server().await?.namespace("sweep").await?.name().to_string()) }.boxed()
    }

    fn start(&self, client: Client, namespace: &str, stop: CancellationToken) -> BoxFuture<'static, ()> {
        operate(client, namespace.into(), stop).boxed()
    }

    fn steps(&self) -> usize {
        2
    }

    fn patience(&self) -> Duration {
        Duration::from_secs(60)
    }

    fn at_once(&self) -> usize {
        4
    }

    fn act<'a>(&'a self, client: &'a Client, namespace: &'a str, step: usize) -> Step<'a, ()> {
        async move {
            let clusters: Api<SlurmCluster> = Api::namespaced(client.clone(), namespace);
            if step == 0 {
                let cluster = serde_json::from_value(manifest("a")?)?;
                clusters.create(&PostParams::default(), &cluster).await?;
            } else {
                let change = json!({ "spec": {
                    "slurmConfig": { "maxJobCount": 777 },
                    "slurmNodes": {
                        "rest": { "enabled": false },
                        "login": { "size": 2 },
                        "worker": { "size": 1 },
                    },
                } });
                clusters.patch("a", &PatchParams::default(), &Patch::Merge(&change)).await?;
            }
            Ok(())
        }
        .boxed()
    }

    fn is_done<'a>(&'a self, client: &'a Client, namespace: &'a str, step: usize) -> Step<'a, bool> {
        async move {
            let cluster = Api::<SlurmCluster>::namespaced(client.clone(), namespace).get("a").await?;
            let status = cluster.status.clone().unwrap_or_default();
            let set = Api::<NodeSet>::namespaced(client.clone(), namespace).get_opt("a-worker").await?;
            let set_seen = set.is_some_and(|set| {
                let observed = set.status.as_ref().and_then(|status| status.observed_generation);
                observed == set.meta().generation
            });
            if status.observed_generation != cluster.meta().generation
                || status.phase.as_deref() != Some("Pending")
                || !set_seen
            {
                return Ok(false);
            }
            let service = Api::<Service>::namespaced(client.clone(), namespace).get_opt("a-rest-svc").await?;
            let login = Api::<StatefulSet>::namespaced(client.clone(), namespace).get_opt("a-login").await?;
            let logins = login.and_then(|login| login.spec).and_then(|spec| spec.replicas);
            let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
            let second = pods.get_opt("a-worker-1").await?.is_some();
            let map =
                Api::<ConfigMap>::namespaced(client.clone(), namespace).get_opt("a-slurm-configs").await?;
            let conf = map.and_then(|map| map.data?.remove("slurm.conf")).unwrap_or_default();
            Ok(if step == 0 {
                service.is_some() && logins == Some(1) && second
            } else {
                service.is_none() && logins == Some(2) && !second && conf.contains("MaxJobCount=777")
            })
        }
        .boxed()
    }

    fn world<'a>(&'a self, client: &'a Client, namespace: &'a str) -> Step<'a, World> {
        async move {
            let mask = |kind: &str, value: &mut Value| {
                let name = value["metadata"]["name"].as_str().unwrap_or_default().to_string();
                // Pods of Deployments have names that are drawn.
                if kind == "Pod" && !name.starts_with("a-worker-") {
                    *value = Value::Null;
                    return;
                }
                if kind == "Secret" {
                    let keys: Vec<String> =
                        value["data"].as_object().into_iter().flatten().map(|(key, _)| key.clone()).collect();
                    value["data"] = json!(keys);
                }
                if !["SlurmCluster", "NodeSet"].contains(&kind)
                    && let Some(object) = value.as_object_mut()
                {
                    object.remove("status");
                }
                // How a name cannot be reached that is nobody's differs from look to look.
                if let Some(conditions) = value["status"]["conditions"].as_array_mut() {
                    let slurm = conditions.iter_mut().find(|condition| condition["type"] == "SlurmAnswers");
                    if let Some(slurm) = slurm {
                        slurm["message"] = Value::Null;
                    }
                }
                // Drawn by the API server.
                if kind == "Service"
                    && let Some(ports) = value["spec"]["ports"].as_array_mut()
                {
                    ports.iter_mut().for_each(|port| port["nodePort"] = Value::Null);
                    value["spec"]["healthCheckNodePort"] = Value::Null;
                }
                if let Some(annotations) = value["metadata"]["annotations"].as_object_mut() {
                    annotations.retain(|name, _| !name.starts_with("deployment.kubernetes.io/"));
                }
                // The namespace is part of the template, and each run has its own.
                if let Some(labels) = value["metadata"]["labels"].as_object_mut() {
                    labels.remove(operator::nodeset::REVISION);
                }
            };
            Ok(World::read(client, namespace, &kinds(), mask).await?)
        }
        .boxed()
    }

    fn monitor(&self, writes: &[Write]) -> Result<(), String> {
        let done: Vec<&Write> =
            writes.iter().filter(|write| write.status.is_some_and(|status| status < 300)).collect();
        for write in &done {
            if write.call.verb == Verb::Delete && write.body["preconditions"]["uid"].is_null() {
                return Err(format!("{} without the uid of what was meant", write.call));
            }
            let makes =
                matches!(write.call.verb, Verb::Create | Verb::Apply) && write.call.subresource.is_none();
            if makes && write.body["metadata"]["ownerReferences"].is_null() {
                return Err(format!("{} makes an object without an owner", write.call));
            }
        }
        let of = |resource: &str, name: &str| {
            let named =
                |write: &&&Write| write.call.resource == resource && write.body["metadata"]["name"] == name;
            done.iter().filter(named).count()
        };
        for name in ["a-munge", "a-rest-jwt-key", "a-sshd-keys", "a-mariadb-password"] {
            if of("secrets", name) > 1 {
                return Err(format!("Secret {name} was written {} times", of("secrets", name)));
            }
        }
        let statuses: Vec<&Value> = done
            .iter()
            .filter(|write| write.call.subresource.is_some() && write.call.resource == "slurmclusters")
            .map(|write| &write.body["status"])
            .collect();
        if statuses.windows(3).any(|same| same[0] == same[1] && same[1] == same[2]) {
            return Err("the same status was written again and again".into());
        }
        if writes.len() > 150 {
            return Err(format!("{} writes for one cluster", writes.len()));
        }
        Ok(())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_fault_leads_to_the_same_end() -> Result<()> {
    let life = Arc::new(Life { config: config().await? });
    let report = sweep::run(life, Choice::from_env(6, 7)).await;
    println!("{} of {} cases ran, {} failed", report.cases, report.of, report.failures.len());
    assert!(report.cases > 0);
    assert!(report.failures.is_empty(), "{}", report.failures.join("\n"));
    Ok(())
}
