//! The machines of one rig and the order in which they come up. Lives in the supervisor.

use std::collections::BTreeMap;
use std::fs;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use k8s_openapi::api::core::v1::{Node, ServiceAccount};
use kube::api::{Api, Patch, PatchParams};
use kube::{Client, ResourceExt};
use nix::fcntl::Flock;
use serde_json::json;

use crate::cache::{self, Cache};
use crate::components::{self, Audit, CONTROL_PLANE_LABEL, NODE_DIR};
use crate::machine::{Bind, Machine, Spec};
use crate::paths::RigPaths;
use crate::pki::{ControlPlaneFiles, Name, write_private};
use crate::protocol::Options;
use crate::{addresses, base_objects, build, cgroups, client, forward, image, image_store, memory, network};

const API_PATIENCE: Duration = Duration::from_secs(60);
const NODES_PATIENCE: Duration = Duration::from_secs(120);

/// Values that kubelet writes to sysctls of the whole machine, shown to it by plain files instead.
const SYSCTLS: &[(&str, &str)] = &[
    ("vm/overcommit_memory", "1"),
    ("kernel/panic", "10"),
    ("kernel/panic_on_oops", "1"),
    ("kernel/keys/root_maxkeys", "1000000"),
    ("kernel/keys/root_maxbytes", "25000000"),
];

/// All machines of a rig.
pub struct Cluster {
    paths: RigPaths,
    options: Options,
    programs: PathBuf,
    image_store: PathBuf,
    soperator_archive: Option<PathBuf>,
    files: ControlPlaneFiles,
    api_server: String,
    control_plane: Machine,
    nodes: BTreeMap<String, NodeMachine>,
    // A node that is started again needs them still, however many were built since.
    _in_use: Vec<Flock<fs::File>>,
}

struct NodeMachine {
    number: u8,
    machine: Option<Machine>,
}

/// Name of the node with this number.
pub fn node_name(number: u8) -> String {
    format!("node-{number}")
}

impl Cluster {
    /// Brings everything up; `stage` is told what happens.
    pub async fn start(
        cache: &Cache,
        paths: &RigPaths,
        options: Options,
        stage: &dyn Fn(&str),
    ) -> Result<Self> {
        stage("starting the control plane");
        let kube = build::go::KUBE.find(cache).context("kube is not built: `rig build kube`")?;
        let coredns = build::go::COREDNS
            .find(cache)
            .context("coredns is not built: `rig build coredns`")?
            .join("coredns");
        let image_store =
            image_store::find(cache)?.context("the images are not there: `rig build images image-store`")?;
        let soperator_archive = image_store::soperator_archive(cache);
        let in_use = [&kube, &coredns, &image_store].into_iter().chain(&soperator_archive);
        let in_use = in_use.map(|path| cache::hold(path)).collect::<Result<_>>()?;
        let listener = forward::listen(options.api_port)?;
        let api_server = format!("https://127.0.0.1:{}", listener.local_addr()?.port());
        let files = ControlPlaneFiles::create(&paths.control_plane(), &addresses::api_server_names())?;
        write_private(&paths.kubeconfig(), &files.admin_kubeconfig(&api_server)?)?;

        let spec = control_plane_spec(paths, &options, &kube, &coredns, &files)?;
        let control_plane = start_control_plane(paths, &spec, listener).await?;
        let mut cluster = Self {
            paths: paths.clone(),
            programs: kube,
            image_store,
            soperator_archive,
            files,
            api_server,
            control_plane,
            nodes: BTreeMap::new(),
            options,
            _in_use: in_use,
        };
        cluster.control_plane.run("etcd").await?;
        cluster.control_plane.run("kube-apiserver").await?;

        // Machines come up while the API server does; kubelets start after it, because they wait long between attempts.
        stage("starting the nodes' machines");
        for number in 1..=cluster.options.nodes {
            cluster.nodes.insert(node_name(number), NodeMachine { number, machine: None });
            cluster.start_machine(&node_name(number)).await?;
        }
        stage("waiting for the API server");
        let client = client::client(&paths.kubeconfig()).await?;
        client::wait_until_ready(&client, API_PATIENCE, || Ok(())).await?;
        for program in ["kube-controller-manager", "kube-scheduler"] {
            cluster.control_plane.run(program).await?;
        }
        for node in cluster.nodes.values_mut() {
            run_kubelet(node).await?;
        }
        base_objects::apply(&client).await?;
        cluster.control_plane.run("coredns").await?;
        stage("waiting for the nodes to be Ready");
        cluster.wait_for_nodes(&client).await?;
        stage("waiting for DNS");
        cluster.wait_for_dns().await?;
        stage("waiting for the default service account");
        until(API_PATIENCE, "the default service account", async || {
            Ok(Api::<ServiceAccount>::default_namespaced(client.clone()).get_opt("default").await?.is_some())
        })
        .await?;
        if let Some(archive) = cluster.soperator_archive.clone() {
            stage("loading the soperator image");
            for node in cluster.nodes.keys() {
                cluster.load(node, &archive).await?;
            }
        }
        Ok(cluster)
    }

    /// Where the API server is reached from outside.
    pub fn api_server(&self) -> &str {
        &self.api_server
    }

    /// How the rig was made.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// Whether each node's machine runs.
    pub fn nodes(&self) -> BTreeMap<String, bool> {
        self.nodes.iter().map(|(name, node)| (name.clone(), node.machine.is_some())).collect()
    }

    /// Bytes of memory of all machines.
    pub fn memory(&self) -> u64 {
        let nodes = self.nodes.values().filter_map(|node| node.machine.as_ref());
        memory::of_machines(&nodes.chain([&self.control_plane]).map(Machine::pid).collect::<Vec<_>>())
    }

    /// Waits for the end of the control plane's machine, which only happens when something is badly wrong.
    pub async fn control_plane_ended(&mut self) {
        self.control_plane.ended().await;
    }

    /// Ends a node as if its power failed.
    pub async fn stop_node(&mut self, name: &str) -> Result<()> {
        let node = self.node(name)?;
        let Some(machine) = node.machine.take() else { bail!("{name} is stopped already") };
        let number = node.number;
        let _ = fs::remove_file(self.pid_file(name));
        cgroups::thaw(&self.paths.cgroup(name))?;
        machine.stop().await?;
        // The kernel takes the cable away with the namespace, though not at once; the error says that it has.
        let _ = network::ip(self.control_plane.pid(), &network::unplug_command(number)).await;
        Ok(())
    }

    /// Starts a node that was stopped; its pods come back as after a reboot.
    pub async fn start_node(&mut self, name: &str) -> Result<()> {
        if self.node(name)?.machine.is_some() {
            bail!("{name} runs already");
        }
        self.start_machine(name).await?;
        run_kubelet(self.node(name)?).await
    }

    /// Ends everything and leaves nothing behind but the rig's directory.
    pub async fn stop(self) -> Result<()> {
        for (name, node) in self.nodes {
            if let Some(machine) = node.machine {
                cgroups::thaw(&self.paths.cgroup(&name))?;
                machine.stop().await?;
            }
        }
        self.control_plane.stop().await?;
        Ok(())
    }

    fn node(&mut self, name: &str) -> Result<&mut NodeMachine> {
        let names: Vec<&String> = self.nodes.keys().collect();
        let unknown = format!("no node is called {name:?}; the nodes are {names:?}");
        self.nodes.get_mut(name).context(unknown)
    }

    fn pid_file(&self, node: &str) -> PathBuf {
        pid_file(&self.paths, node)
    }

    async fn start_machine(&mut self, name: &str) -> Result<()> {
        let number = self.node(name)?.number;
        let cgroup = self.paths.cgroup(name);
        // A kubelet looks for a while at each cgroup that a killed one left.
        cgroups::remove(&cgroup)?;
        cgroups::create(&cgroup)?;
        let spec_file = self.prepare_node(name, number, &cgroup)?;
        let mut machine = Machine::start(&spec_file).await.with_context(|| format!("cannot start {name}"))?;
        let plug = network::cable_commands(number, machine.pid());
        network::ip(self.control_plane.pid(), &plug).await?;
        network::ip(machine.pid(), &network::node_commands(number, self.options.nodes)).await?;
        machine.run("containerd").await?;
        fs::write(self.pid_file(name), machine.pid().to_string())?;
        self.node(name)?.machine = Some(machine);
        Ok(())
    }

    /// Writes everything that a node reads, and returns the file that describes its machine.
    fn prepare_node(&self, name: &str, number: u8, cgroup: &str) -> Result<PathBuf> {
        let dir = self.paths.node(name);
        let (run, lib, log, sysctl) = (dir.join("run"), dir.join("lib"), dir.join("log"), dir.join("sysctl"));
        // As after a reboot.
        let _ = fs::remove_dir_all(&run);
        let own = lib.join(Path::new(NODE_DIR).strip_prefix("/var/lib")?);
        for made in [
            &run.join("rig/bin"),
            &run.join("lock"),
            &lib,
            &log,
            &sysctl,
            &own.join("cni"),
            &own.join("volumes"),
        ] {
            fs::create_dir_all(made).with_context(|| format!("cannot make {}", made.display()))?;
        }
        if !lib.join("containerd").exists() {
            image_store::copy_to(&self.image_store, &lib.join("containerd"))?;
        }
        let node = components::Node {
            name,
            number,
            cgroup_root: &format!("/{cgroup}"),
            control_plane_taint: self.options.control_plane_taint && number == 1,
        };
        let pause = pause_image()?;
        let kubeconfig = |user: &str, group: Option<&str>| {
            self.files.kubeconfig_for(&addresses::api_server_url(), user, group)
        };
        write_private(&own.join("containerd.toml"), &node.containerd_config(&pause))?;
        write_private(&own.join("cni/10-rig.conflist"), &node.cni_config().to_string())?;
        write_private(&own.join("kubelet.json"), &node.kubelet_config().to_string())?;
        write_private(&own.join("kube-proxy.json"), &node.kube_proxy_config().to_string())?;
        write_private(
            &own.join("kubelet.kubeconfig"),
            &kubeconfig(&format!("system:node:{name}"), Some("system:nodes"))?,
        )?;
        write_private(&own.join("kube-proxy.kubeconfig"), &kubeconfig("system:kube-proxy", None)?)?;
        write_private(&own.join("ca.crt"), self.files.authority().certificate_pem())?;
        fs::write(own.join("resolv.conf"), components::resolv_conf())?;
        let names = [Name::Dns(name.to_string()), Name::Ip(IpAddr::V4(addresses::node(number)))];
        self.files.authority().server(name, &names)?.write(&own, "kubelet")?;

        let bind = |source: PathBuf, target: PathBuf| Bind { source, target };
        let mut binds = vec![
            bind(self.programs.clone(), run.join("rig/bin")),
            bind(self.paths.volumes(), own.join("volumes")),
        ];
        for (number, (name, value)) in SYSCTLS.iter().enumerate() {
            let file = sysctl.join(number.to_string());
            fs::write(&file, format!("{value}\n"))?;
            binds.push(bind(file, Path::new("/proc/sys").join(name)));
        }
        binds.extend([bind(log, "/var/log".into()), bind(run, "/run".into()), bind(lib, "/var/lib".into())]);
        let spec = Spec {
            hostname: name.to_string(),
            root: None,
            binds,
            shared_mounts: true,
            restart: true,
            programs: vec![node.containerd(), node.kubelet(), node.kube_proxy()],
            log_dir: "/var/log".into(),
        };
        write_spec(&dir, &spec)
    }

    async fn wait_for_nodes(&self, client: &Client) -> Result<()> {
        let nodes = Api::<Node>::all(client.clone());
        let names: Vec<&String> = self.nodes.keys().collect();
        let waited = until(NODES_PATIENCE, "the nodes to be Ready", async || {
            let ready = nodes.list(&Default::default()).await?.items;
            Ok(names.iter().all(|name| ready.iter().any(|node| node.name_any() == **name && is_ready(node))))
        });
        waited.await?;
        // A kubelet may not give itself this label.
        let label = json!({"metadata": {"labels": {CONTROL_PLANE_LABEL: ""}}});
        nodes.patch(&node_name(1), &PatchParams::default(), &Patch::Merge(label)).await?;
        Ok(())
    }

    async fn wait_for_dns(&self) -> Result<()> {
        until(API_PATIENCE, "DNS to answer", async || {
            forward::dns_answers(self.control_plane.pid()).await.map(|()| true)
        })
        .await
    }

    /// Imports an image archive into a node.
    async fn load(&self, node: &str, archive: &Path) -> Result<()> {
        let machine =
            self.nodes.get(node).and_then(|node| node.machine.as_ref()).context("the node is stopped")?;
        load_image(machine.pid(), archive)
            .await
            .with_context(|| format!("cannot load {} into {node}", archive.display()))
    }
}

/// Where the process id of a node's process 1 is noted, for those who enter its namespaces.
pub fn pid_file(paths: &RigPaths, node: &str) -> PathBuf {
    paths.node(node).join("pid")
}

/// Imports the image archive at `archive` into the node whose process 1 is `pid`.
pub async fn load_image(pid: u32, archive: &Path) -> Result<()> {
    let output = tokio::process::Command::new("nsenter")
        .args([
            "--mount",
            "--pid",
            "--target",
            &pid.to_string(),
            "ctr",
            "--namespace",
            image_store::CONTAINERD_NAMESPACE,
        ])
        .args(["images", "import", "-"])
        .stdin(fs::File::open(archive).with_context(|| format!("cannot read {}", archive.display()))?)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .output()
        .await
        .context("cannot run nsenter")?;
    if !output.status.success() {
        bail!(
            "not an image archive that containerd takes: {}",
            String::from_utf8_lossy(&output.stderr).trim()
        );
    }
    Ok(())
}

/// The image of the process that holds a pod's namespaces.
fn pause_image() -> Result<String> {
    let recipe = image::recipes()?
        .into_iter()
        .find(|recipe| recipe.name() == "pause")
        .context("no recipe is called pause")?;
    Ok(recipe.reference().to_string())
}

fn write_spec(dir: &Path, spec: &Spec) -> Result<PathBuf> {
    let file = dir.join("machine.json");
    fs::write(&file, serde_json::to_vec_pretty(spec)?)?;
    Ok(file)
}

fn control_plane_spec(
    paths: &RigPaths,
    options: &Options,
    kube: &Path,
    coredns: &Path,
    files: &ControlPlaneFiles,
) -> Result<Spec> {
    let dir = paths.control_plane();
    let path = |name: &str| dir.join(name).display().to_string();
    let audit = options
        .audit
        .then(|| Audit { policy: path("audit-policy.json"), log: paths.audit_log().display().to_string() });
    if let Some(audit) = &audit {
        fs::write(&audit.policy, components::audit_policy().to_string())?;
    }
    let bin = kube.display().to_string();
    let plane = components::ControlPlane {
        bin: &bin,
        files,
        etcd_data: path("etcd"),
        etcd_port: 2379,
        bind_address: "0.0.0.0".into(),
        advertise_address: Some(addresses::CONTROL_PLANE.to_string()),
        port: addresses::API_SERVER_PORT,
        audit,
    };
    let server = addresses::api_server_url();
    let kubeconfig = |user: &str| -> Result<String> {
        let file = dir.join(format!("{}.kubeconfig", user.trim_start_matches("system:")));
        write_private(&file, &files.kubeconfig_for(&server, user, None)?)?;
        Ok(file.display().to_string())
    };
    write_private(&dir.join("Corefile"), &components::corefile(&kubeconfig(base_objects::DNS_USER)?))?;
    let programs = vec![
        plane.etcd(),
        plane.api_server(),
        plane.controller_manager(&kubeconfig("system:kube-controller-manager")?),
        plane.scheduler(&kubeconfig("system:kube-scheduler")?),
        components::coredns(&coredns.display().to_string(), &path("Corefile")),
    ];
    Ok(Spec {
        hostname: format!("rig-{}", paths.name()),
        root: None,
        binds: Vec::new(),
        shared_mounts: false,
        restart: true,
        programs,
        log_dir: dir.join("log"),
    })
}

async fn start_control_plane(paths: &RigPaths, spec: &Spec, listener: TcpListener) -> Result<Machine> {
    let machine = Machine::start(&write_spec(&paths.control_plane(), spec)?)
        .await
        .context("cannot start the control plane")?;
    network::ip(machine.pid(), &network::bridge_commands()).await?;
    let target = SocketAddr::from((addresses::CONTROL_PLANE, addresses::API_SERVER_PORT));
    forward::forward(listener, machine.pid(), target)?;
    Ok(machine)
}

async fn run_kubelet(node: &mut NodeMachine) -> Result<()> {
    let machine = node.machine.as_mut().context("the node is stopped")?;
    machine.run("kubelet").await?;
    machine.run("kube-proxy").await
}

/// Ready, and with an address: a kubelet with a wrong `--node-ip` is Ready without one.
fn is_ready(node: &Node) -> bool {
    let Some(status) = &node.status else { return false };
    let ready = status
        .conditions
        .iter()
        .flatten()
        .any(|condition| condition.type_ == "Ready" && condition.status == "True");
    ready && status.addresses.iter().flatten().any(|address| address.type_ == "InternalIP")
}

async fn until(patience: Duration, what: &str, condition: impl AsyncFn() -> Result<bool>) -> Result<()> {
    let deadline = Instant::now() + patience;
    loop {
        let outcome = condition().await;
        if matches!(outcome, Ok(true)) {
            return Ok(());
        }
        if Instant::now() > deadline {
            let waited = format!("waited {} s for {what} in vain", patience.as_secs());
            outcome.context(waited.clone())?;
            bail!(waited);
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}
