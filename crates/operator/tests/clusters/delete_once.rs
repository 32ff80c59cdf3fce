//! A deletion that failed is not sent again before Slurm was looked at again: by then a job may be there.

use std::fmt;
use std::sync::Arc;

use anyhow::Result;
use api::nebius::NodeSet;
use engine::client::{Answer, Call, Interceptor, Next, Verb, answer};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::{Request, StatusCode};
use k8s_openapi::api::core::v1::{Secret, ServiceAccount};
use kube::client::Body;
use parking_lot::Mutex;
use rig::SlurmMachine;
use rig::slurm::Version;
use tokio_util::sync::CancellationToken;

use crate::place::{Place, config, connect, operate_with, setup};
use crate::slurm_place::{
    CLUSTER, Kubelet, SET, SlurmPlace, jwt_secret, links, machine, node_set, start_job, worker_account,
};

/// An API server that is away for the first deletion of `w-1`, while an administrator takes the drain back and a job comes.
struct Away {
    slurm: Arc<SlurmMachine>,
    job: Mutex<Option<String>>,
}

impl fmt::Debug for Away {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Away")
    }
}

impl Away {
    fn let_a_job_come(&self) -> Result<()> {
        let mut job = self.job.lock();
        if job.is_none() {
            self.slurm.exec(&["scontrol", "update", "NodeName=w-1", "State=UNDRAIN"])?;
            *job = Some(start_job(&self.slurm, "w-1", "sleep 1000")?);
        }
        Ok(())
    }
}

impl Interceptor for Away {
    fn intercept<'a>(&'a self, call: &'a Call, request: Request<Body>, next: Next) -> BoxFuture<'a, Answer> {
        async move {
            let first = call.verb == Verb::Delete
                && request.uri().path().ends_with("/pods/w-1")
                && self.job.lock().is_none();
            if !first {
                return next.send(request).await;
            }
            tokio::task::block_in_place(|| self.let_a_job_come())?;
            Ok(answer(StatusCode::SERVICE_UNAVAILABLE, "{}"))
        }
        .boxed()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_comes_while_the_api_server_is_away_keeps_its_worker() -> Result<()> {
    let slurm = machine(Version::V26_05, 2)?;
    let away = Arc::new(Away { slurm: Arc::clone(&slurm), job: Mutex::default() });
    let place = Place::idle("delete-once").await?;
    let client = connect(config().await?, Some(Arc::clone(&away) as Arc<dyn Interceptor>))?;
    let mut setup = setup(place.name());
    setup.links = links(slurm.rest_url()?);
    setup.controllers = vec![operator::nodeset::NAME];
    let stop = CancellationToken::new();
    let _stop = stop.clone().drop_guard();
    tokio::spawn(operate_with(client, setup, stop));
    place.api::<Secret>().create(&Default::default(), &jwt_secret(CLUSTER, slurm.jwt_key()?)?).await?;
    place.api::<ServiceAccount>().create(&Default::default(), &worker_account(CLUSTER)?).await?;
    place.make(CLUSTER, |manifest| manifest["spec"]["slurmNodes"]["worker"]["size"] = 0.into()).await?;
    place.api::<NodeSet>().create(&Default::default(), &node_set(SET, CLUSTER, 2)?).await?;
    let kubelet = Kubelet::start(place.client.clone(), place.name(), Arc::clone(&slurm));
    let place = SlurmPlace { kubelet, place, slurm };
    for node in ["w-0", "w-1"] {
        place.until_idle(node).await?;
    }
    place
        .until("the set is ready", async || {
            Ok(place.set().await?.status.filter(|status| status.phase == "Ready"))
        })
        .await?;

    let before = place.uids().await?;
    place.scale(1).await?;
    let job = place.until("the job came", async || Ok(away.job.lock().clone())).await?;
    place.until_told("WaitingForJobs", "True", &format!("job {job} is on it")).await?;
    tokio::time::sleep(std::time::Duration::from_secs(3)).await;
    assert_eq!(place.uids().await?, before);
    assert_eq!(place.kubelet.lost(), Vec::<String>::new());
    place.slurm.exec(&["scancel", &job])?;
    place.until_pods(&["w-0"]).await?;
    Ok(())
}
