//! Pods without Kubernetes: containers in namespaces of their own inside a Slurm machine, with `slurm-agent` as their first
//! process, real daemons, and volumes as the kubelet makes them.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::PathBuf;
use std::process::Command;
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result, bail};
use rig::SlurmMachine;
use rig::slurm::{DATABASE_ROOT, Options, Running, Version};
use slurm::agent::{AgentState, PROGRAM, STATE_PORT, command, env, path};

const CONTAINER_SCRIPT: &str = include_str!("container.sh");
const POD_SCRIPT: &str = include_str!("pod.sh");
const PODS: &str = "/pods";
/// The image of containers that fill a jail; see [`Lab::jail_image`].
pub const JAIL_IMAGE: &str = "/jail-image";

/// Names of pods and Services with their addresses.
const HOSTS: &str = "\
127.0.0.1 localhost
10.9.0.11 c-controller-0 c-controller-svc
10.9.0.21 worker-0 worker-0.workers.ns.svc
10.9.0.31 accounting c-accounting
10.9.0.41 c-acct-db
10.9.0.51 rest
10.9.0.61 login-0
10.9.0.71 populate
10.9.0.72 populate-too
";

/// A configuration with nothing but what runs without privileges.
pub const SLURM_CONF: &str = "\
ClusterName=c
SlurmctldHost=c-controller-0(c-controller-svc)
SlurmUser=root
AuthType=auth/munge
CredType=cred/munge
AuthAltTypes=auth/jwt
AuthAltParameters=jwt_key=/var/spool/slurmctld/jwt_hs256.key
StateSaveLocation=/var/spool/slurmctld
SlurmctldPidFile=/var/run/slurmctld.pid
SlurmdSpoolDir=/var/spool/slurmd
SlurmdPidFile=/var/run/slurmd.pid
SlurmctldParameters=enable_configless
SlurmctldLogFile=/dev/null
SlurmdLogFile=/dev/null
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
ReturnToService=2
SlurmdParameters=config_overrides
MaxNodeCount=100
MailProg=/usr/bin/true
SchedulerParameters=sched_min_interval=0,batch_sched_delay=0
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP
";

/// The lines of accounting.
pub const ACCOUNTING: &str =
    "AccountingStorageType=accounting_storage/slurmdbd\nAccountingStorageHost=c-accounting\n";

/// A machine with pods.
pub struct Lab {
    machine: SlurmMachine,
    mounts: Cell<u32>,
}

/// A container, running or not.
pub struct Container<'a> {
    lab: &'a Lab,
    pod: &'static Pod,
    name: &'static str,
}

/// A pod that can be made.
pub struct Pod {
    name: &'static str,
    host: &'static str,
    address: &'static str,
    munge: bool,
}

pub const CONTROLLER: Pod =
    Pod { name: "controller", host: "c-controller-0", address: "10.9.0.11", munge: true };
pub const WORKER: Pod = Pod { name: "worker", host: "worker-0", address: "10.9.0.21", munge: true };
pub const ACCOUNTING_POD: Pod =
    Pod { name: "accounting", host: "accounting", address: "10.9.0.31", munge: true };
pub const DATABASE: Pod = Pod { name: "database", host: "c-acct-db", address: "10.9.0.41", munge: false };
pub const REST: Pod = Pod { name: "rest", host: "rest", address: "10.9.0.51", munge: false };
pub const POPULATE: Pod = Pod { name: "populate", host: "populate", address: "10.9.0.71", munge: false };
pub const POPULATE_TOO: Pod =
    Pod { name: "populate-too", host: "populate-too", address: "10.9.0.72", munge: false };
pub const LOGIN: Pod = Pod { name: "login", host: "login-0", address: "10.9.0.61", munge: true };

/// The agent, built once for all tests of a process.
pub fn agent_program() -> Result<PathBuf> {
    static BUILT: Mutex<Option<PathBuf>> = Mutex::new(None);
    let mut built = BUILT.lock().unwrap_or_else(PoisonError::into_inner);
    if built.is_none() {
        *built = Some(rig::build::agent_program()?);
    }
    built.clone().context("the agent was not built")
}

impl Lab {
    /// A machine without pods, with all volumes that they share.
    pub fn start(version: Version) -> Result<Self> {
        let machine = SlurmMachine::start(Options::nothing_started(version).database_files())?;
        let lab = Self { machine, mounts: Cell::new(0) };
        fs::write(lab.machine.path("/etc/hosts"), HOSTS)?;
        fs::create_dir(lab.machine.path(PODS))?;
        for (name, text) in [("container.sh", CONTAINER_SCRIPT), ("pod.sh", POD_SCRIPT)] {
            fs::write(lab.path(name), text)?;
        }
        let program = agent_program()?;
        for root in ["", DATABASE_ROOT] {
            let target = lab.machine.path(&format!("{root}{PROGRAM}"));
            fs::create_dir_all(target.parent().context("no parent")?)?;
            fs::copy(&program, &target)?;
        }
        fs::write(lab.machine.path(&format!("{DATABASE_ROOT}/etc/hosts")), HOSTS)?;
        lab.mount("munge-key", &[("munge.key", &lab.random(64)?)])?;
        lab.mount("rest-jwt-key", &[("rest_jwt.key", &lab.random(32)?)])?;
        lab.mount_conf("")?;
        Ok(lab)
    }

    pub fn machine(&self) -> &SlurmMachine {
        &self.machine
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.machine.path(&format!("{PODS}/{name}"))
    }

    pub fn random(&self, length: usize) -> Result<Vec<u8>> {
        let mut bytes = vec![0; length];
        std::io::Read::read_exact(&mut fs::File::open("/dev/urandom")?, &mut bytes)?;
        Ok(bytes)
    }

    /// Makes or replaces a volume of a ConfigMap or Secret, all files at once, as the kubelet does.
    pub fn mount(&self, volume: &str, files: &[(&str, &[u8])]) -> Result<()> {
        let number = self.mounts.get() + 1;
        self.mounts.set(number);
        let (directory, version) = (self.path(volume), format!("..{number}"));
        fs::create_dir_all(directory.join(&version))?;
        for (name, text) in files {
            let file = directory.join(&version).join(name);
            fs::write(&file, text)?;
            fs::set_permissions(&file, fs::Permissions::from_mode(0o440))?;
            if !directory.join(name).exists() {
                let _ = fs::remove_file(directory.join(name));
                symlink(format!("..data/{name}"), directory.join(name))?;
            }
        }
        symlink(&version, directory.join("..new"))?;
        Ok(fs::rename(directory.join("..new"), directory.join("..data"))?)
    }

    /// Mounts the configuration with more lines.
    pub fn mount_conf(&self, lines: &str) -> Result<()> {
        let text = format!("{SLURM_CONF}{lines}");
        self.mount(
            "slurm-configs",
            &[("slurm.conf", text.as_bytes()), ("cgroup.conf", b"CgroupPlugin=disabled\n")],
        )
    }

    /// Makes a pod, with munge in it where it has that.
    pub fn pod(&self, pod: &'static Pod) -> Result<()> {
        let directory = format!("{PODS}/{}", pod.name);
        self.machine.exec(&["bash", &format!("{PODS}/pod.sh"), &directory, pod.host, pod.address])?;
        let socket = self.path(&format!("{}/munge-socket", pod.name));
        fs::create_dir(&socket)?;
        fs::set_permissions(&socket, fs::Permissions::from_mode(0o777))?;
        if pod.munge {
            self.container(pod, command::MUNGE, &[], &[])?;
        }
        Ok(())
    }

    /// Starts a container of a pod by the name of its role. Its spool outlives it.
    pub fn container(
        &self,
        pod: &'static Pod,
        name: &'static str,
        environment: &[(&str, &str)],
        volumes: &[(&str, &str)],
    ) -> Result<Container<'_>> {
        let directory = self.path(&format!("{}/{name}", pod.name));
        fs::create_dir_all(&directory)?;
        let shared = |name: &str| format!("{PODS}/{name}");
        let own = |name: &str| format!("{PODS}/{}/{name}", pod.name);
        let mut mounted = vec![
            (shared("munge-key"), "/mnt/munge-key".to_owned()),
            (shared("rest-jwt-key"), "/mnt/rest-jwt-key".to_owned()),
            (shared("slurm-configs"), path::CONFIGS.to_owned()),
            (own("munge-socket"), path::MUNGE_SOCKET_DIR.to_owned()),
        ];
        // It is no daemon, and a jail has a place for whatever is mounted where it is filled.
        if name == command::POPULATE_JAIL {
            mounted.clear();
        }
        let spools = [
            (command::SLURMCTLD, path::SLURMCTLD_SPOOL),
            (command::SLURMDBD, path::SLURMDBD_SPOOL),
            (command::SLURMD, path::SLURMD_SPOOL),
            (command::MARIADB, path::DATABASE),
        ];
        if let Some((_, target)) = spools.iter().find(|(role, _)| *role == name) {
            fs::create_dir_all(self.path(&format!("{}/spool", pod.name)))?;
            mounted.push((own("spool"), (*target).to_owned()));
        }
        mounted.extend(volumes.iter().map(|(volume, target)| (shared(volume), (*target).to_owned())));
        let lines =
            |words: Vec<String>| words.into_iter().fold(String::new(), |text, word| text + &word + "\n");
        let root = match name {
            command::MARIADB => DATABASE_ROOT,
            command::POPULATE_JAIL => JAIL_IMAGE,
            _ => "/",
        };
        fs::write(directory.join("root"), root)?;
        fs::write(
            directory.join("volumes"),
            lines(mounted.iter().map(|(source, target)| format!("{source} {target}")).collect()),
        )?;
        let mut variables: BTreeMap<&str, &str> = environment.iter().copied().collect();
        variables.entry(env::POD_NAME).or_insert(pod.host);
        fs::write(
            directory.join("environment"),
            lines(variables.iter().map(|(name, value)| format!("{name}={value}")).collect()),
        )?;
        fs::write(directory.join("command"), lines(vec![PROGRAM.to_owned(), name.to_owned()]))?;
        let container = Container { lab: self, pod, name };
        container.start()?;
        Ok(container)
    }

    /// Makes the image that jails are filled from: what this machine's own image has, without what the lab added.
    pub fn jail_image(&self) -> Result<()> {
        let script = format!(
            "mkdir {JAIL_IMAGE} && cd / && cp --archive bin sbin lib* etc usr root home {JAIL_IMAGE} && cd {JAIL_IMAGE} \
             && mkdir -p dev proc run sys mnt opt/own srv var/log var/spool var/cache var/lib && mkdir -m 1777 tmp \
             && rm -rf etc/slurm/*"
        );
        self.machine.exec(&["bash", "-c", &script]).map(drop)
    }

    /// Makes an empty volume.
    pub fn volume(&self, name: &str) -> Result<PathBuf> {
        let directory = self.path(name);
        fs::create_dir(&directory)?;
        Ok(directory)
    }

    /// The controller's pod with slurmctld, not waited for.
    pub fn controller(&self) -> Result<Container<'_>> {
        self.pod(&CONTROLLER)?;
        self.container(&CONTROLLER, command::SLURMCTLD, &[], &[])
    }

    /// A worker's pod with slurmd, not waited for.
    pub fn worker(&self, environment: &[(&str, &str)], volumes: &[(&str, &str)]) -> Result<Container<'_>> {
        self.pod(&WORKER)?;
        let usual = [
            (env::CONF_SERVER, "c-controller-svc:6817"),
            (env::NODE_NAME, "worker-0"),
            (env::SERVICE_NAME, "workers"),
            (env::POD_NAMESPACE, "ns"),
        ];
        self.container(&WORKER, command::SLURMD, &[&usual[..], environment].concat(), volumes)
    }
}

impl Container<'_> {
    fn process(&self) -> String {
        format!("{}-{}", self.pod.name, self.name)
    }

    /// Starts it, again if it has ended.
    pub fn start(&self) -> Result<()> {
        let directory = format!("{PODS}/{}/{}", self.pod.name, self.name);
        let pid_file = self.lab.path(&format!("{}/{}/pid", self.pod.name, self.name));
        let _ = fs::remove_file(&pid_file);
        let _ = fs::remove_file(pid_file.with_file_name("exit-code"));
        self.lab
            .machine
            .start_daemon(&self.process(), &["/bin/bash", &format!("{PODS}/container.sh"), &directory])?;
        self.wait_until("it runs", || Ok(pid_file.exists()))
    }

    pub fn pid(&self) -> Result<String> {
        let file = self.lab.path(&format!("{}/{}/pid", self.pod.name, self.name));
        Ok(fs::read_to_string(file)?.trim().to_owned())
    }

    /// Sends a signal to its first process.
    pub fn signal(&self, signal: &str) -> Result<()> {
        self.lab.machine.exec(&["kill", signal, &self.pid()?]).map(drop)
    }

    /// What it ended with.
    pub fn exit_code(&self) -> Result<i32> {
        let file = self.lab.path(&format!("{}/{}/exit-code", self.pod.name, self.name));
        Ok(fs::read_to_string(file)?.trim().parse()?)
    }

    pub fn has_ended(&self) -> bool {
        self.lab.machine.running(&self.process()) != Some(Running::Yes)
    }

    /// Tells it to stop, as the kubelet does, and waits for its end.
    pub fn stop(&self) -> Result<()> {
        self.signal("-TERM")?;
        self.wait_until("it has ended", || Ok(self.has_ended()))
    }

    /// A command inside.
    pub fn command(&self, words: &[&str]) -> Result<Command> {
        let pid = self.pid()?;
        let environment = self.lab.path(&format!("{}/{}/environment", self.pod.name, self.name));
        let environment = fs::read_to_string(environment)?;
        let words = [&["env"][..], &environment.lines().collect::<Vec<_>>(), words].concat();
        let enter =
            ["nsenter", "--target", &pid, "--mount", "--net", "--uts", "--pid", "--root", "--wd", "--"];
        Ok(self.lab.machine.command(&[&enter[..], &words].concat()))
    }

    /// Runs a command inside, as `kubectl exec` does, and returns what it printed.
    pub fn exec(&self, words: &[&str]) -> Result<String> {
        e2e::output_of(&mut self.command(words)?, None)
    }

    /// Runs a command inside as a user.
    pub fn exec_as(&self, user: &str, words: &[&str]) -> Result<String> {
        self.exec(&[&["setpriv", "--reuid", user, "--regid", user, "--init-groups", "--"], words].concat())
    }

    /// What the agent answers.
    pub fn state(&self) -> Result<AgentState> {
        let script = format!(
            "exec 3<>/dev/tcp/{}/{STATE_PORT}; printf 'GET /state HTTP/1.1\\r\\n\\r\\n' >&3; cat <&3",
            self.pod.address
        );
        let answer = self.lab.machine.exec(&["bash", "-c", &script])?;
        let (head, body) = answer.split_once("\r\n\r\n").context("no HTTP")?;
        if !head.starts_with("HTTP/1.1 200") {
            bail!("{head}");
        }
        Ok(serde_json::from_str(body)?)
    }

    /// What it has printed.
    pub fn logs(&self) -> String {
        self.lab.machine.logs(&self.process())
    }

    /// Waits until `condition` holds; the error shows all logs.
    pub fn wait_until(&self, what: &str, condition: impl Fn() -> Result<bool>) -> Result<()> {
        self.lab.machine.wait_until(&format!("{}: {what}", self.process()), condition)
    }

    /// Waits until the state is as wanted.
    pub fn wait_for_state(&self, what: &str, wanted: impl Fn(&AgentState) -> bool) -> Result<()> {
        let waited = self.wait_until(what, || Ok(wanted(&self.state()?)));
        waited.with_context(|| format!("{:#?}", self.state()))
    }

    /// Waits until its own probe is content.
    pub fn wait_until_ready(&self) -> Result<()> {
        self.wait_until("its probe is content", || {
            self.exec(&[PROGRAM, command::PROBE, self.name]).map(|_| true)
        })
    }

    /// Submits a job that sleeps; returns its id.
    pub fn submit(&self, script: &str) -> Result<String> {
        let job =
            self.exec_as("tester", &["sbatch", "--parsable", "--output=/tmp/%j.out", "--wrap", script])?;
        Ok(job.trim().to_owned())
    }

    /// Waits until a job is in one of these states.
    pub fn wait_for_job(&self, job: &str, states: &[&str]) -> Result<()> {
        self.wait_until(&format!("job {job} is {}", states.join(" or ")), || {
            let said = self.exec(&["scontrol", "--oneliner", "show", "job", job])?;
            Ok(states.iter().any(|state| said.contains(&format!(" JobState={state} "))))
        })
    }

    /// What `scontrol show node` says of a node, in one line.
    pub fn node(&self, name: &str) -> Result<String> {
        self.exec(&["scontrol", "--oneliner", "show", "node", name])
    }

    /// Waits until a node's state, as scontrol writes it, is this.
    pub fn wait_for_node(&self, name: &str, state: &str) -> Result<()> {
        let waited = self.wait_until(&format!("{name} is {state}"), || {
            Ok(self.node(name)?.contains(&format!(" State={state} ")))
        });
        waited.with_context(|| self.node(name).unwrap_or_default())
    }
}

/// A test for each Slurm version, from functions that take one.
#[macro_export]
macro_rules! for_both_versions {
    ($($test:ident),* $(,)?) => {
        mod slurm_24_11 {
            $(#[test]
            fn $test() -> anyhow::Result<()> {
                super::$test(rig::slurm::Version::V24_11)
            })*
        }
        mod slurm_26_05 {
            $(#[test]
            fn $test() -> anyhow::Result<()> {
                super::$test(rig::slurm::Version::V26_05)
            })*
        }
    };
}
