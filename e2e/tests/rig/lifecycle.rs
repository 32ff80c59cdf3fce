//! Rigs end with their last user, however that ends, and leave nothing behind.

use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use anyhow::Result;
use e2e::{output_of, wait_until};
use rig::cache::Cache;
use rig::paths::RigPaths;
use rig::rig as handle;

struct KilledRig {
    program: PathBuf,
    paths: RigPaths,
}

impl KilledRig {
    fn new(name: &str) -> Result<Self> {
        Ok(Self { program: handle::program()?, paths: RigPaths::new(&Cache::open()?, name)? })
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.env("RIG_NAME", self.paths.name());
        command
    }

    /// A process that holds the rig, as a test does, in a process group of its own. It ends with this test, also if that is
    /// killed: otherwise it would hold the rig of the next run.
    fn hold(&self) -> Result<Child> {
        let bound = ["setpriv", "--pdeathsig", "KILL", "--"];
        let mut command = Command::new(bound[0]);
        command
            .env("RIG_NAME", self.paths.name())
            .args(&bound[1..])
            .arg(&self.program)
            .args(["with", "--"])
            .args(bound)
            .args(["sleep", "1000"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0);
        let holder = command.spawn()?;
        wait_until("the rig is up", || Ok(handle::status(&self.paths)?.is_some()))?;
        Ok(holder)
    }

    /// SIGKILL to the holder and its child: they can undo nothing.
    fn kill(&self, mut holder: Child) -> Result<()> {
        output_of(Command::new("kill").args(["-KILL", "--", &format!("-{}", holder.id())]), None)?;
        holder.wait()?;
        Ok(())
    }

    fn supervisor(&self) -> Result<u32> {
        Ok(handle::status(&self.paths)?.map(|status| status.supervisor).unwrap_or_default())
    }

    fn processes(&self) -> usize {
        let marker = self.paths.root().display().to_string();
        let items = std::fs::read_dir("/proc").into_iter().flatten().flatten();
        items
            .filter_map(|item| std::fs::read(item.path().join("cmdline")).ok())
            .filter(|command| String::from_utf8_lossy(command).contains(&marker))
            .count()
    }

    fn cgroups(&self) -> Vec<PathBuf> {
        let hierarchies = std::fs::read_dir("/sys/fs/cgroup").into_iter().flatten().flatten();
        let places = hierarchies.map(|item| item.path()).chain([PathBuf::from("/sys/fs/cgroup")]);
        places.map(|place| place.join(self.paths.cgroup("node-1"))).filter(|path| path.exists()).collect()
    }

    fn gone(&self) -> bool {
        !self.paths.root().exists() && self.processes() == 0 && self.cgroups().is_empty()
    }
}

#[test]
fn a_rig_ends_when_its_user_is_killed() -> Result<()> {
    let rig = KilledRig::new("e2e-user-killed")?;
    let holder = rig.hold()?;
    assert!(rig.processes() > 0 && !rig.cgroups().is_empty());
    rig.kill(holder)?;
    wait_until("nothing is left of the rig", || Ok(rig.gone()))
}

#[test]
fn what_a_killed_supervisor_left_is_cleaned_up() -> Result<()> {
    let rig = KilledRig::new("e2e-rig-killed")?;
    let holder = rig.hold()?;
    let supervisor = rig.supervisor()?;
    assert!(output_of(Command::new("kill").args(["-KILL", &supervisor.to_string()]), None).is_ok());
    wait_until("every process of the rig has ended", || Ok(rig.processes() == 0))?;
    rig.kill(holder)?;
    // The next start of any rig cleans up, and may have done so by now; so does `down`.
    output_of(rig.command().arg("down"), None)?;
    assert!(rig.gone());
    Ok(())
}

#[test]
fn what_does_not_fit_is_told_in_one_message() -> Result<()> {
    let rig = KilledRig::new("e2e-refused")?;
    let error = |arguments: &[&str]| output_of(rig.command().args(arguments), None).unwrap_err().to_string();
    assert!(
        error(&["kubectl", "get", "nodes"]).contains("no rig called e2e-refused runs: start it with `rig up")
    );
    assert!(error(&["exec", "node-1", "--", "true"]).contains("no rig called e2e-refused runs"));
    assert!(error(&["--name", "Not/Good", "up"]).contains("is not a name for a rig"));
    assert!(
        error(&["build", "no-such-part"])
            .contains("no part is called \"no-such-part\"; the parts are host-packages, kube")
    );
    let taken = std::net::TcpListener::bind("127.0.0.1:0")?;
    let port = taken.local_addr()?.port().to_string();
    let message = error(&["up", "--api-port", &port]);
    assert!(
        message.contains(&format!("port {port} on loopback is taken: choose another with --api-port")),
        "{message}"
    );
    assert!(rig.gone(), "a start that failed leaves nothing");
    Ok(())
}
