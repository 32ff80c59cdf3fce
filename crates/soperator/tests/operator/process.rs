//! Starts the program and talks to it.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rig::ControlPlane;
use tempfile::TempDir;

pub const PROGRAM: &str = env!("CARGO_BIN_EXE_soperator");

/// An API server of its own, because kinds come and go.
pub struct Place {
    pub plane: ControlPlane,
}

impl Place {
    pub async fn new() -> Self {
        Self { plane: ControlPlane::start().await.unwrap() }
    }

    /// Runs kubectl with a text as its input.
    pub fn kubectl(&self, args: &[&str], input: &str) -> Output {
        let mut command = self.plane.kubectl();
        command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        child.wait_with_output().unwrap()
    }

    /// The same, for what must succeed; returns what it prints.
    pub fn must(&self, args: &[&str], input: &str) -> String {
        let output = self.kubectl(args, input);
        assert!(output.status.success(), "kubectl {args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    pub fn install_definitions(&self) {
        let printed = Command::new(PROGRAM).arg("crds").output().unwrap().stdout;
        self.must(&["apply", "-f", "-"], &String::from_utf8(printed).unwrap());
    }

    pub fn holder(&self) -> String {
        let get =
            ["get", "lease", "slurm-operator", "--ignore-not-found", "-o", "jsonpath={.spec.holderIdentity}"];
        self.must(&get, "")
    }

    pub fn operator(&self) -> Operator {
        self.operator_with(&[])
    }

    /// Starts the operator in the namespace `default`.
    pub fn operator_with(&self, env: &[(&str, &str)]) -> Operator {
        Operator::start(&self.plane.kubeconfig(), env, "60s")
    }
}

/// The program at work; it is killed with this value.
pub struct Operator {
    child: Child,
    folder: TempDir,
    pub health: u16,
    pub metrics: u16,
    pub webhooks: u16,
}

impl Operator {
    fn start(kubeconfig: &Path, env: &[(&str, &str)], patience: &str) -> Self {
        let folder = TempDir::new().unwrap();
        let log = File::create(folder.path().join("log")).unwrap();
        let [health, metrics, webhooks] = free_ports();
        let child = Command::new(PROGRAM)
            .args(["operator", "--operator-namespace=default", "--debug-bind-address=0"])
            .arg(format!("--health-probe-bind-address=127.0.0.1:{health}"))
            .arg(format!("--metrics-bind-address=127.0.0.1:{metrics}"))
            .arg(format!("--webhook-bind-address=127.0.0.1:{webhooks}"))
            .args(["--webhook-hosts=127.0.0.1", "--cache-sync-timeout", patience])
            .env("KUBECONFIG", kubeconfig)
            .envs(env.iter().copied())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap();
        Self { child, folder, health, metrics, webhooks }
    }

    /// With a kubeconfig in which nothing answers, so that nobody waits long for it.
    pub fn start_for(kubeconfig: &Path) -> Self {
        Self::start(kubeconfig, &[], "2s")
    }

    pub fn log(&self) -> String {
        std::fs::read_to_string(PathBuf::from(self.folder.path()).join("log")).unwrap()
    }

    pub fn signal(&self, name: &str) {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").args(["-s", name, &id]).status().unwrap().success());
    }

    /// Waits for its end, and returns the exit code.
    pub fn end(&mut self) -> Option<i32> {
        until("the program ends", || self.child.try_wait().unwrap()).code()
    }

    /// Status and body of `/readyz`; nothing while nobody answers.
    pub fn readyz(&self) -> Option<(u16, String)> {
        get(self.health, "/readyz")
    }

    pub fn until_ready(&self) {
        until("it is ready", || {
            let answer = self.readyz();
            if answer.as_ref().is_some_and(|(status, _)| *status == 200) { Some(()) } else { None }
        });
    }
}

impl Drop for Operator {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            eprintln!("{}", self.log());
        }
    }
}

fn free_ports<const COUNT: usize>() -> [u16; COUNT] {
    // All are held until the last one is known.
    let listeners = [(); COUNT].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    listeners.map(|listener| listener.local_addr().unwrap().port())
}

/// A GET over plain HTTP.
pub fn get(port: u16, path: &str) -> Option<(u16, String)> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    let status = answer.split(' ').nth(1)?.parse().ok()?;
    Some((status, answer.split_once("\r\n\r\n")?.1.to_string()))
}

pub fn until<T>(what: &str, mut check: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(value) = check() {
            return value;
        }
        assert!(start.elapsed() < Duration::from_secs(40), "waited 40 s until {what}");
        sleep(Duration::from_millis(100));
    }
}
