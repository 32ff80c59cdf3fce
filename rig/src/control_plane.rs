//! Only etcd and kube-apiserver, on loopback: what a test of API behaviour needs. No root, no nodes.

use std::fs;
use std::io;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use kube::Client;
use nix::fcntl::Flock;
use tokio::sync::OnceCell;

use crate::addresses;
use crate::audit::AuditLog;
use crate::build;
use crate::cache::{self, Cache};
use crate::client::{self, Namespace};
use crate::components::{self, Audit, Program};
use crate::pki::ControlPlaneFiles;
use crate::processes::{spawn_bound, tail};

const START_PATIENCE: Duration = Duration::from_secs(60);
/// Somebody else can take a free port between our look and the server's bind.
const PORT_ATTEMPTS: usize = 3;

/// A running control plane; it ends with this value, or with the process.
pub struct ControlPlane {
    dir: PathBuf,
    programs: Programs,
    kubectl: PathBuf,
    children: Mutex<Vec<(Program, Child)>>,
    controller_manager: Program,
    audited: bool,
    _lock: Flock<fs::File>,
}

/// How a control plane differs from the usual one.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// Whether every call is written to the audit log.
    pub audit: bool,
}

impl ControlPlane {
    /// Starts etcd and kube-apiserver, built before if need be.
    pub async fn start() -> Result<Self> {
        Self::start_with(Options::default()).await
    }

    /// One control plane for all tests of this process, each in its own namespace. It has a controller manager.
    pub async fn shared() -> Result<&'static Self> {
        static SHARED: OnceCell<ControlPlane> = OnceCell::const_new();
        SHARED.get_or_try_init(|| async { Self::start().await?.with_controller_manager() }).await
    }

    /// Starts a control plane that is not the usual one.
    pub async fn start_with(options: Options) -> Result<Self> {
        let cache = Cache::open()?;
        let programs = Programs::choose(&cache, std::env::var_os("KUBEBUILDER_ASSETS").map(PathBuf::from));
        let mut last = None;
        for _ in 0..PORT_ATTEMPTS {
            match Self::attempt(&cache, &programs, options).await {
                Err(error) if format!("{error:#}").contains("address already in use") => last = Some(error),
                other => return other,
            }
        }
        Err(last.unwrap_or_else(|| anyhow::anyhow!("no attempt was made")))
    }

    async fn attempt(cache: &Cache, programs: &Programs, options: Options) -> Result<Self> {
        let (dir, lock) = new_directory(&cache.root().join("control-planes"))?;
        let files = ControlPlaneFiles::create(&dir.join("pki"), &addresses::api_server_names())?;
        let path = |name: &str| dir.join(name).display().to_string();
        let audit =
            options.audit.then(|| Audit { policy: path("audit-policy.json"), log: path("audit.log") });
        if let Some(audit) = &audit {
            fs::write(&audit.policy, components::audit_policy().to_string())?;
        }
        let [etcd_port, port] = free_ports()?;
        let bin = programs.directory_of("kube-apiserver")?.display().to_string();
        let plane = components::ControlPlane {
            bin: &bin,
            files: &files,
            etcd_data: path("etcd"),
            etcd_port,
            bind_address: "127.0.0.1".into(),
            advertise_address: None,
            port,
            audit,
        };
        let kubeconfig = path("kubeconfig");
        crate::pki::write_private(
            Path::new(&kubeconfig),
            &files.admin_kubeconfig(&format!("https://127.0.0.1:{port}"))?,
        )?;
        let controller_manager = plane.controller_manager(&kubeconfig);
        let started = Self {
            dir: dir.clone(),
            programs: programs.clone(),
            kubectl: programs.directory_of("kubectl")?.join("kubectl"),
            children: Mutex::default(),
            controller_manager,
            audited: options.audit,
            _lock: lock,
        };
        started.spawn(plane.etcd())?;
        started.spawn(plane.api_server())?;
        client::wait_until_ready(&started.client().await?, START_PATIENCE, || started.check_children())
            .await?;
        Ok(started)
    }

    /// Adds a controller manager: garbage collection, service accounts, ownership, the built-in workloads.
    pub fn with_controller_manager(self) -> Result<Self> {
        let mut program = self.controller_manager.clone();
        let directory = self.programs.directory_of(&program.name)?;
        program.command[0] = directory.join(&program.name).display().to_string();
        self.spawn(program)?;
        Ok(self)
    }

    /// Path of the kubeconfig of someone who may do everything.
    pub fn kubeconfig(&self) -> PathBuf {
        self.dir.join("kubeconfig")
    }

    /// `kubectl` of someone who may do everything, with a cache of its own.
    pub fn kubectl(&self) -> Command {
        let mut command = Command::new(&self.kubectl);
        command.env("KUBECONFIG", self.kubeconfig()).env("KUBECACHEDIR", self.dir.join("kubectl"));
        command
    }

    /// A client that may do everything.
    pub async fn client(&self) -> Result<Client> {
        client::client(&self.kubeconfig()).await
    }

    /// A namespace of its own for one test.
    pub async fn namespace(&self, prefix: &str) -> Result<Namespace> {
        Namespace::create(self.client().await?, prefix).await
    }

    /// Kills the API server, waits, and starts it again on the same port; returns when it is ready.
    pub async fn pause_api_server(&self, time: Duration) -> Result<()> {
        let program = {
            let mut children = self.children.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            let index = children
                .iter()
                .position(|(program, _)| program.name == "kube-apiserver")
                .context("the API server does not run")?;
            let (program, mut child) = children.remove(index);
            child.kill()?;
            child.wait()?;
            program
        };
        tokio::time::sleep(time).await;
        self.spawn(program)?;
        client::wait_until_ready(&self.client().await?, START_PATIENCE, || self.check_children()).await
    }

    /// The audit log, if it was asked for.
    pub fn audit_log(&self) -> Option<AuditLog> {
        self.audited.then(|| AuditLog::at(self.dir.join("audit.log")))
    }

    /// Starts a program that ends with this control plane; its output is in a log beside the others'.
    pub(crate) fn spawn(&self, program: Program) -> Result<()> {
        let child = spawn_bound(&program, &self.log(&program))?;
        self.children.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push((program, child));
        Ok(())
    }

    fn log(&self, program: &Program) -> PathBuf {
        self.dir.join(format!("{}.log", program.name))
    }

    fn check_children(&self) -> Result<()> {
        let mut children = self.children.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        for (program, child) in children.iter_mut() {
            if let Some(status) = child.try_wait()? {
                bail!(
                    "{} ended ({status}) while it started:\n{}",
                    program.name,
                    tail(&self.log(program), 15)
                );
            }
        }
        Ok(())
    }
}

impl Drop for ControlPlane {
    fn drop(&mut self) {
        let children = self.children.get_mut().unwrap_or_else(std::sync::PoisonError::into_inner);
        for (_, child) in children.iter_mut() {
            // Ended already, perhaps.
            let _ = child.kill();
        }
        for (_, child) in children.iter_mut() {
            let _ = child.wait();
        }
        // The next start removes what cannot be removed now.
        let _ = fs::remove_dir_all(&self.dir);
    }
}

/// Where the programs of a control plane are taken from.
#[derive(Clone, Debug)]
struct Programs {
    assets: Option<PathBuf>,
    cache: Cache,
}

impl Programs {
    /// Those of `KUBEBUILDER_ASSETS` count if both servers are there: of one alone nobody knows whether it fits ours.
    fn choose(cache: &Cache, assets: Option<PathBuf>) -> Self {
        let servers = ["etcd", "kube-apiserver"];
        let assets = assets.filter(|assets| servers.iter().all(|name| assets.join(name).exists()));
        Self { assets, cache: cache.clone() }
    }

    /// The directory that holds a program; our own are built if need be.
    fn directory_of(&self, name: &str) -> Result<PathBuf> {
        match self.in_assets(name) {
            Some(assets) => Ok(assets.to_owned()),
            None => build::go_program(&self.cache, &build::go::KUBE),
        }
    }

    /// The usual assets hold etcd, kube-apiserver and kubectl, and nothing else.
    fn in_assets(&self, name: &str) -> Option<&Path> {
        self.assets.as_deref().filter(|assets| assets.join(name).exists())
    }
}

/// A directory of its own for a control plane, locked while it lives; those of dead ones are removed on the way.
fn new_directory(parent: &Path) -> Result<(PathBuf, Flock<fs::File>)> {
    static COUNTER: AtomicU32 = AtomicU32::new(0);
    fs::create_dir_all(parent).with_context(|| format!("cannot make {}", parent.display()))?;
    let _parent_lock = cache::lock(&parent.join(".lock"), || ())?;
    for item in fs::read_dir(parent)? {
        let path = item?.path();
        if path.is_dir() {
            remove_if_stale(&path)?;
        }
    }
    let dir = parent.join(format!("{}-{}", std::process::id(), COUNTER.fetch_add(1, Ordering::Relaxed)));
    fs::create_dir(&dir).with_context(|| format!("cannot make {}", dir.display()))?;
    let lock = cache::try_lock(&dir.join(".lock"))?.context("a new directory is locked already")?;
    Ok((dir, lock))
}

/// Removes the directory of a dead control plane. One that ends by itself removes its own meanwhile.
fn remove_if_stale(dir: &Path) -> Result<()> {
    let removed = cache::try_lock(&dir.join(".lock")).and_then(|lock| match lock {
        Some(_lock) => {
            fs::remove_dir_all(dir).with_context(|| format!("cannot remove the stale {}", dir.display()))
        }
        None => Ok(()),
    });
    removed.or_else(|error| match error.downcast_ref::<io::Error>() {
        Some(cause) if cause.kind() == io::ErrorKind::NotFound => Ok(()),
        _ => Err(error),
    })
}

fn free_ports<const N: usize>() -> Result<[u16; N]> {
    // All at once, so that they differ.
    let listeners = [(); N].map(|()| TcpListener::bind(("127.0.0.1", 0)));
    let mut ports = [0; N];
    for (port, listener) in ports.iter_mut().zip(listeners) {
        *port = listener.context("no free port on loopback")?.local_addr()?.port();
    }
    Ok(ports)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Assets with these programs, and a cache in which nothing is built.
    fn programs(names: &[&str]) -> (tempfile::TempDir, Programs) {
        let dir = tempfile::tempdir().unwrap();
        for name in names {
            fs::write(dir.path().join(name), "").unwrap();
        }
        let cache = Cache::at(dir.path().join("cache")).unwrap();
        let programs = Programs::choose(&cache, Some(dir.path().into()));
        (dir, programs)
    }

    #[test]
    fn what_the_usual_assets_lack_is_our_own() {
        let (dir, programs) = programs(&["etcd", "kube-apiserver", "kubectl"]);
        for name in ["etcd", "kube-apiserver", "kubectl"] {
            assert_eq!(programs.in_assets(name), Some(dir.path()), "{name}");
        }
        assert_eq!(programs.in_assets("kube-controller-manager"), None);
    }

    #[test]
    fn assets_without_both_servers_are_not_used() {
        let (_dir, programs) = programs(&["kube-apiserver", "kubectl"]);
        assert_eq!(programs.in_assets("kubectl"), None);
    }

    #[test]
    fn a_control_plane_that_removes_itself_is_gone_and_no_error() {
        let dir = tempfile::tempdir().unwrap();
        remove_if_stale(&dir.path().join("gone")).unwrap();
        let stale = dir.path().join("stale");
        fs::create_dir(&stale).unwrap();
        let lock = cache::try_lock(&stale.join(".lock")).unwrap();
        remove_if_stale(&stale).unwrap();
        assert!(stale.exists(), "it lives");
        drop(lock);
        remove_if_stale(&stale).unwrap();
        assert!(!stale.exists());
    }
}
