//! Pods that are created all the time, without being kept: the API server asks the webhook, and stores nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use k8s_openapi::api::core::v1::Pod;
use kube::Client;
use kube::api::{Api, PostParams};
use serde_json::json;
use tokio::task::JoinHandle;

/// Creates until it is told to stop.
pub(crate) struct Load {
    stop: Arc<AtomicBool>,
    tasks: Vec<JoinHandle<(usize, Vec<String>)>>,
    begun: Instant,
}

impl Load {
    pub(crate) fn start(client: Client, namespace: &str) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let tasks = (0..4).map(|number| {
            let pods = Api::<Pod>::namespaced(client.clone(), namespace);
            tokio::spawn(create(pods, number, Arc::clone(&stop)))
        });
        Self { tasks: tasks.collect(), stop, begun: Instant::now() }
    }

    pub(crate) async fn was_served_without_a_failure(self) -> Result<()> {
        // Some more by the certificate that is served now.
        tokio::time::sleep(Duration::from_secs(2)).await;
        self.stop.store(true, Ordering::SeqCst);
        let mut created = 0;
        for task in self.tasks {
            let (count, failures) = task.await?;
            ensure!(failures.is_empty(), "{} creates failed, the first by: {}", failures.len(), failures[0]);
            created += count;
        }
        println!(
            "{created} creates in {:.1} s while the certificate changed; none failed",
            self.begun.elapsed().as_secs_f64()
        );
        ensure!(created >= 50, "{created} creates are no load");
        Ok(())
    }
}

async fn create(pods: Api<Pod>, number: u32, stop: Arc<AtomicBool>) -> (usize, Vec<String>) {
    let params = PostParams { dry_run: true, ..PostParams::default() };
    let (mut created, mut failures) = (0, Vec::new());
    while !stop.load(Ordering::SeqCst) {
        let pod = json!({
            "metadata": { "name": format!("load-{number}"), "annotations": { "gpu-scheduling-map": format!("{number}=node-1:9") } },
            "spec": { "schedulerName": "gpu-scheduler", "containers": [{ "name": "main", "image": "none" }] },
        });
        let outcome = match serde_json::from_value(pod) {
            Ok(pod) => pods.create(&params, &pod).await.map_err(|error| error.to_string()),
            Err(error) => Err(error.to_string()),
        };
        match outcome {
            Ok(pod) => {
                let containers = pod.spec.map(|spec| spec.containers).unwrap_or_default();
                let mut names =
                    containers.iter().flat_map(|one| one.env.iter().flatten()).map(|one| one.name.as_str());
                if names.any(|name| name == "CUDA_VISIBLE_DEVICES") {
                    created += 1;
                } else {
                    failures.push("the webhook was not asked".into());
                }
            }
            Err(error) => failures.push(error),
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    (created, failures)
}
