//! Ten thousand workers and a hundred thousand jobs: the most memory that the operator takes, while it makes the pods, and from
//! a start on, with both lists decoded again and again.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use bench::mb;
use bench::recorded::{self, Lists, Recorded};
use tokio::net::TcpListener;

use crate::options::Options;
use crate::place::{Place, With};
use crate::pods::{Pods, Stage};
use crate::proxy::Proxy;
use crate::report::Report;
use crate::subject::{Program, Running};
use crate::work::Work;

const PATIENCE: Duration = Duration::from_secs(3600);
/// Lists of jobs that are read before the peak is taken: the second is decoded while the first is held.
const LOOKS: usize = 3;

pub async fn run(options: &Options, report: &mut Report) -> Result<()> {
    let (nodes, jobs) = (options.workers * 10, options.workers * 100);
    report.part(&format!("memory: {nodes} workers, {jobs} jobs"));
    let lists = Lists { node: Recorded::node(true)?, job: Recorded::job(true)?, nodes, jobs };
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let target = format!("http://{}", listener.local_addr()?);
    let server = tokio::spawn(recorded::serve(listener, Arc::new(lists)));
    let proxy = Proxy::start(&target, 0).await?;

    let program = Program::ours(options)?;
    let place = Place::start(With { kwok: true, ..With::default() }).await?;
    let home = place.namespace("sets").await?;
    let work = Work::new(&place.client, home.name());
    let pods = Pods::follow(place.client.clone(), home.name());
    let begun = Instant::now();
    let running = program.start(&place.plane.kubeconfig(), home.name())?;
    work.connect(&proxy.url(), "token").await?;
    work.make("w", nodes).await?;
    pods.until(Stage::Ready, nodes, PATIENCE).await.with_context(|| running.last_words())?;
    let wanted = i32::try_from(nodes).ok();
    let ready = work.until_status("w", PATIENCE, |status| status.ready_replicas == wanted).await;
    ready.with_context(|| running.last_words())?;
    until_looked(&proxy, begun, &running).await?;
    let (growing, after) = (running.peak()?, running.memory()?);
    report.note(format!(
        "all ready after {:.0} s; RSS then {:.1} MB, peak {:.1} MB",
        begun.elapsed().as_secs_f64(),
        mb(after),
        mb(growing)
    ));

    drop(running);
    let begun = Instant::now();
    let running = program.start(&place.plane.kubeconfig(), home.name())?;
    until_looked(&proxy, begun, &running).await?;
    let (started, after) = (running.peak()?, running.memory()?);
    report.note(format!("after a restart: RSS {:.1} MB, peak {:.1} MB", mb(after), mb(started)));
    report.at_most("peak of RSS", mb(growing.max(started)), 160.0, "MB");
    server.abort();
    Ok(())
}

/// Waits until both lists have been read some times since `begun`.
async fn until_looked(proxy: &Proxy, begun: Instant, running: &Running) -> Result<()> {
    // One that is asked for is not read yet; the next one shows that it was.
    while proxy.since(begun).iter().filter(|request| request.lists("jobs")).count() <= LOOKS {
        running.memory()?;
        if begun.elapsed() > PATIENCE {
            bail!("both lists have not been read {LOOKS} times after {} s", PATIENCE.as_secs());
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    Ok(())
}
