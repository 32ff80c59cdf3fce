//! The process that owns a rig: starts it, serves its users, and ends it when it should end.
//!
//! A rig that tests use lives while somebody holds a connection to the supervisor. The kernel closes connections of
//! processes that were killed, so nothing has to be undone by them.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{mpsc, oneshot, watch};

use crate::cache::{self, Cache};
use crate::client;
use crate::cluster::Cluster;
use crate::paths::RigPaths;
use crate::protocol::{Figures, Options, Reply, Request, Status, short_socket_path};
use crate::{cgroups, provisioner};

/// How long a rig waits for its first user.
const FIRST_USER_PATIENCE: Duration = Duration::from_secs(30);

/// Argument of the supervisor process.
pub const COMMAND: &str = "supervise";

#[derive(Clone, Debug)]
enum Phase {
    Starting(String),
    Ready(Figures),
    Failed(String),
}

/// What connections tell the main loop.
enum Order {
    Down(oneshot::Sender<Reply>),
    StopNode(String, oneshot::Sender<Reply>),
    StartNode(String, oneshot::Sender<Reply>),
    Status(oneshot::Sender<Reply>),
    UsersChanged,
}

#[derive(Default)]
struct Users {
    holders: AtomicUsize,
    /// Whether there was a user, or none came in time.
    first_decided: AtomicBool,
    kept: AtomicBool,
}

impl Users {
    fn none_left(&self) -> bool {
        self.first_decided.load(Ordering::SeqCst)
            && self.holders.load(Ordering::SeqCst) == 0
            && !self.kept.load(Ordering::SeqCst)
    }
}

/// `rig supervise`: runs the rig `paths` until nobody needs it any more.
pub async fn supervise(cache: &Cache, paths: &RigPaths, options: Options) -> Result<()> {
    // The terminal's Ctrl-C and hang-up are not for us: our users end us.
    let _ = nix::unistd::setsid();
    let _lock = cache::try_lock(&paths.supervisor_lock())?
        .with_context(|| format!("another supervisor of the rig {} runs", paths.name()))?;
    fs::create_dir_all(paths.volumes())?;
    let (_dir, socket) = short_socket_path(&paths.socket())?;
    let listener = UnixListener::bind(socket).context("cannot listen on the supervisor's socket")?;
    let (phase, _) = watch::channel(Phase::Starting("starting".into()));
    let phase = Arc::new(phase);
    let users = Arc::new(Users::default());
    let (orders, queue) = mpsc::channel(16);
    tokio::spawn(wait_for_first_user(Arc::clone(&users), orders.clone(), FIRST_USER_PATIENCE));
    tokio::spawn(accept(listener, Arc::clone(&phase), Arc::clone(&users), orders));

    let outcome = serve(cache, paths, options, &phase, &users, queue).await;
    clean_up(paths, outcome.is_err())?;
    outcome
}

/// Gives up on a first user who does not come: whoever started us may have died before it told what it wants.
async fn wait_for_first_user(users: Arc<Users>, orders: mpsc::Sender<Order>, patience: Duration) {
    tokio::time::sleep(patience).await;
    users.first_decided.store(true, Ordering::SeqCst);
    // An error means that the rig ends already.
    let _ = orders.send(Order::UsersChanged).await;
}

async fn serve(
    cache: &Cache,
    paths: &RigPaths,
    options: Options,
    phase: &watch::Sender<Phase>,
    users: &Users,
    mut queue: mpsc::Receiver<Order>,
) -> Result<()> {
    let started = Instant::now();
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let stage = |text: &str| {
        eprintln!("{:7.2} s: {text}", started.elapsed().as_secs_f64());
        phase.send_replace(Phase::Starting(text.to_string()));
    };
    // Dropping a half-started cluster ends its machines.
    let mut cluster = {
        let starting = Cluster::start(cache, paths, options, &stage);
        tokio::pin!(starting);
        loop {
            tokio::select! {
                result = &mut starting => match result {
                    Ok(cluster) => break cluster,
                    Err(error) => {
                        phase.send_replace(Phase::Failed(format!("{error:#}")));
                        eprintln!("{error:#}");
                        // Users read the reason before the socket goes.
                        tokio::time::sleep(Duration::from_millis(300)).await;
                        return Err(error);
                    }
                },
                _ = terminate.recv() => return Ok(()),
                _ = interrupt.recv() => return Ok(()),
                order = queue.recv() => match order {
                    Some(Order::Down(reply)) => { let _ = reply.send(Reply::Done); return Ok(()) }
                    Some(Order::UsersChanged) if users.none_left() => return Ok(()),
                    Some(Order::UsersChanged) | None => {}
                    Some(Order::Status(reply) | Order::StopNode(_, reply) | Order::StartNode(_, reply)) => {
                        let _ = reply.send(Reply::Failed("the rig is still starting".into()));
                    }
                },
            }
        }
    };
    let figures = Figures { seconds: started.elapsed().as_secs_f64(), memory: cluster.memory() };
    eprintln!("{:7.2} s: ready", figures.seconds);
    tokio::spawn(provisioner::run(client::client(&paths.kubeconfig()).await?, paths.volumes()));
    phase.send_replace(Phase::Ready(figures));

    let mut down = None;
    while down.is_none() && !users.none_left() {
        tokio::select! {
            _ = terminate.recv() => break,
            _ = interrupt.recv() => break,
            () = cluster.control_plane_ended() => bail!("the control plane's machine ended by itself"),
            order = queue.recv() => match order {
                Some(Order::Down(reply)) => down = Some(reply),
                Some(Order::StopNode(name, reply)) => answer(reply, cluster.stop_node(&name).await),
                Some(Order::StartNode(name, reply)) => answer(reply, cluster.start_node(&name).await),
                Some(Order::Status(reply)) => { let _ = reply.send(Reply::Status(status(&cluster, users))); }
                Some(Order::UsersChanged) | None => {}
            },
        }
    }
    eprintln!("{:7.2} s: ending", started.elapsed().as_secs_f64());
    cluster.stop().await
}

fn status(cluster: &Cluster, users: &Users) -> Status {
    Status {
        options: cluster.options().clone(),
        api_server: cluster.api_server().to_string(),
        nodes: cluster.nodes(),
        holders: users.holders.load(Ordering::SeqCst),
        kept: users.kept.load(Ordering::SeqCst),
        memory: cluster.memory(),
        supervisor: std::process::id(),
    }
}

fn answer(reply: oneshot::Sender<Reply>, outcome: Result<()>) {
    // Whoever asked may have gone.
    let _ = reply.send(match outcome {
        Ok(()) => Reply::Done,
        Err(error) => Reply::Failed(format!("{error:#}")),
    });
}

/// Removes what outlives the machines: cgroups and the rig's directory. Logs of a failure are kept.
pub fn clean_up(paths: &RigPaths, keep_logs: bool) -> Result<()> {
    for node in paths.known_nodes() {
        cgroups::remove(&paths.cgroup(&node))?;
    }
    let failed = paths.failed_logs();
    if keep_logs && paths.root().exists() {
        let _ = fs::remove_dir_all(&failed);
        keep_only_logs(paths)?;
        fs::rename(paths.root(), &failed)
            .with_context(|| format!("cannot keep the logs in {}", failed.display()))?;
    } else if paths.root().exists() {
        fs::remove_dir_all(paths.root())
            .with_context(|| format!("cannot remove {}", paths.root().display()))?;
    }
    Ok(())
}

fn keep_only_logs(paths: &RigPaths) -> Result<()> {
    let remove = |path: std::path::PathBuf| match fs::remove_dir_all(&path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove {}", path.display()))
        }
        _ => Ok(()),
    };
    remove(paths.volumes())?;
    remove(paths.control_plane().join("etcd"))?;
    for node in paths.known_nodes() {
        remove(paths.node(&node).join("lib"))?;
        remove(paths.node(&node).join("run"))?;
    }
    Ok(())
}

async fn accept(
    listener: UnixListener,
    phase: Arc<watch::Sender<Phase>>,
    users: Arc<Users>,
    orders: mpsc::Sender<Order>,
) {
    while let Ok((stream, _)) = listener.accept().await {
        let (phase, users, orders) = (phase.subscribe(), Arc::clone(&users), orders.clone());
        tokio::spawn(async move {
            if let Err(error) = converse(stream, phase, &users, &orders).await {
                eprintln!("a user's connection: {error:#}");
            }
        });
    }
}

async fn converse(
    stream: UnixStream,
    mut phase: watch::Receiver<Phase>,
    users: &Users,
    orders: &mpsc::Sender<Order>,
) -> Result<()> {
    let (reading, mut writing) = stream.into_split();
    let mut reading = BufReader::new(reading);
    let mut line = String::new();
    reading.read_line(&mut line).await?;
    let request: Request = serde_json::from_str(&line).context("not a request")?;
    let order = |make: fn(oneshot::Sender<Reply>) -> Order| {
        let (reply, answer) = oneshot::channel();
        (make(reply), answer)
    };
    let (order, answer) = match request {
        Request::Hold => {
            users.holders.fetch_add(1, Ordering::SeqCst);
            users.first_decided.store(true, Ordering::SeqCst);
            // A failure to write means that the user is gone, which the next read shows.
            let _ = tell_phase(&mut writing, &mut phase).await;
            let mut rest = Vec::new();
            let _ = reading.read_to_end(&mut rest).await;
            users.holders.fetch_sub(1, Ordering::SeqCst);
            return orders.send(Order::UsersChanged).await.context("the rig ends");
        }
        Request::Keep => {
            users.kept.store(true, Ordering::SeqCst);
            users.first_decided.store(true, Ordering::SeqCst);
            return tell_phase(&mut writing, &mut phase).await;
        }
        Request::Status => order(Order::Status),
        Request::Down => order(Order::Down),
        Request::StopNode(name) => {
            let (reply, answer) = oneshot::channel();
            (Order::StopNode(name, reply), answer)
        }
        Request::StartNode(name) => {
            let (reply, answer) = oneshot::channel();
            (Order::StartNode(name, reply), answer)
        }
    };
    orders.send(order).await.context("the rig ends")?;
    // No answer to `Down` but the closed connection: it is answered by the end of this process.
    let reply = answer.await.unwrap_or(Reply::Done);
    say(&mut writing, &reply).await
}

async fn tell_phase(
    writing: &mut (impl tokio::io::AsyncWrite + Unpin),
    phase: &mut watch::Receiver<Phase>,
) -> Result<()> {
    loop {
        let now = phase.borrow_and_update().clone();
        match now {
            Phase::Starting(stage) => say(writing, &Reply::Starting(stage)).await?,
            Phase::Ready(figures) => return say(writing, &Reply::Ready(figures)).await,
            Phase::Failed(reason) => return say(writing, &Reply::Failed(reason)).await,
        }
        phase.changed().await.context("the rig ends")?;
    }
}

async fn say(writing: &mut (impl tokio::io::AsyncWrite + Unpin), reply: &Reply) -> Result<()> {
    let mut line = serde_json::to_vec(reply)?;
    line.push(b'\n');
    writing.write_all(&line).await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the rig finds when its patience is over: whether it was told to look, and whether nobody needs it.
    async fn after_patience(users: Users) -> (bool, bool) {
        let (users, (orders, mut queue)) = (Arc::new(users), mpsc::channel(1));
        wait_for_first_user(Arc::clone(&users), orders, Duration::from_millis(10)).await;
        (matches!(queue.recv().await, Some(Order::UsersChanged)), users.none_left())
    }

    #[tokio::test]
    async fn a_rig_whose_first_user_never_came_ends_whether_it_starts_or_is_ready() {
        assert!(!Users::default().none_left(), "it may still come");
        assert_eq!(after_patience(Users::default()).await, (true, true));
    }

    #[tokio::test]
    async fn a_rig_with_a_user_goes_on_after_its_patience() {
        let holder = Users { holders: AtomicUsize::new(1), ..Users::default() };
        assert_eq!(after_patience(holder).await, (true, false));
        let kept = Users { kept: AtomicBool::new(true), ..Users::default() };
        assert_eq!(after_patience(kept).await, (true, false));
    }
}
