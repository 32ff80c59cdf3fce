//! Where the logs of a task go, and the pipe by which they get to several places.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use nix::fcntl::{FcntlArg, FdFlag, OFlag, fcntl};
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;

use super::Settings;

/// Copies its input, which is a pipe ($1), to files, and to its own output; then nobody needs the pipe any more.
const COPY: &str = "pipe=$1; shift; tee -a -- \"$@\"; rm -f -- \"$pipe\"";
/// How long the end of a task waits for the last lines. It is reached only if something that the task has started lives on.
const PATIENCE: Duration = Duration::from_secs(2);
const LOOK: Duration = Duration::from_millis(5);

/// A task of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Task {
    /// The Slurm node.
    pub node: String,
    /// The job.
    pub job: u32,
    /// The step.
    pub step: u32,
    /// The task.
    pub task: u32,
}

impl Task {
    /// The pipe to which it writes, where its logs go to several places.
    fn pipe(&self) -> PathBuf {
        PathBuf::from(format!("/tmp/.nccld-{}.{}.{}", self.job, step_name(self.step), self.task))
    }

    /// Waits until the last lines of a task that has ended are where they belong. Soon afterwards slurmstepd may end all processes of the
    /// step, and that which copies is one of them.
    pub fn finish(&self) {
        wait_until_gone(&self.pipe(), PATIENCE);
    }
}

/// Where the logs of a task go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Plan {
    /// To the output of the job: NCCL does that by itself.
    Output,
    /// To a file that NCCL opens by itself.
    File(String),
    /// To several places, by a pipe.
    Pipe {
        /// The pipe.
        pipe: PathBuf,
        /// The files.
        files: Vec<PathBuf>,
        /// Whether they go to the output of the job, too.
        output: bool,
    },
}

impl Plan {
    /// What follows from the settings. `users_file` is the file that the user has named for NCCL; `asked` is whether the user asked
    /// NCCL for logs, and so expects to see them.
    #[must_use]
    pub fn new(settings: &Settings, task: &Task, users_file: Option<&str>, asked: bool) -> Self {
        let output = settings.out_stdout || (asked && users_file.is_none());
        let own = settings.out_file.then(|| {
            Path::new(&settings.out_dir).join(format!(
                "{}.{}.{}.out",
                task.node,
                task.job,
                step_name(task.step)
            ))
        });
        match (own, users_file, output) {
            (None, None, true) => Self::Output,
            (None, None, false) => Self::File("/dev/null".into()),
            (None, Some(file), false) => Self::File(file.to_owned()),
            (own, users_file, output) => Self::Pipe {
                pipe: task.pipe(),
                // Tasks of one node write to one file, which only works for whoever appends.
                files: own.into_iter().chain(users_file.map(PathBuf::from)).collect(),
                output,
            },
        }
    }

    /// The value for `NCCL_DEBUG_FILE`; none means that NCCL writes to its output.
    #[must_use]
    pub fn variable(&self) -> Option<String> {
        match self {
            Self::Output => None,
            Self::File(file) => Some(file.clone()),
            Self::Pipe { pipe, .. } => Some(pipe.display().to_string()),
        }
    }

    /// Makes directories, the pipe, and the process that copies. Runs in the task, as its user, just before its program.
    ///
    /// # Errors
    ///
    /// A file or directory cannot be made, or the process not be started.
    pub fn carry_out(&self) -> io::Result<()> {
        let Self::Pipe { pipe, files, output } = self else { return Ok(()) };
        for file in files {
            make_directory(file.parent().unwrap_or(Path::new("/")))?;
        }
        let _ = fs::remove_file(pipe);
        mkfifo(pipe, Mode::from_bits_truncate(0o600))?;
        // Each end finds the other one open, so nobody waits. Whoever copies has the only end for reading: if it dies, a write of the task
        // fails and does not wait for ever.
        let from = OpenOptions::new().read(true).custom_flags(nix::libc::O_NONBLOCK).open(pipe)?;
        // The task itself keeps the pipe open. So whoever copies does not end before the last process of the task has.
        let kept = OpenOptions::new().write(true).open(pipe)?;
        fcntl(&from, FcntlArg::F_SETFL(OFlag::empty()))?;
        let mut copy = Command::new("/bin/sh");
        copy.args(["-c", COPY, "sh"]).arg(pipe).args(files).stdin(from).stderr(Stdio::null());
        if !output {
            copy.stdout(Stdio::null());
        }
        // Signals to the task's process group are not for it: it ends by itself.
        copy.process_group(0).spawn()?;
        keep_open(kept)
    }
}

fn wait_until_gone(pipe: &Path, limit: Duration) {
    let deadline = Instant::now() + limit;
    while pipe.symlink_metadata().is_ok() && Instant::now() < deadline {
        std::thread::sleep(LOOK);
    }
}

/// Lets the file stay open in the program that the task becomes.
fn keep_open(file: File) -> io::Result<()> {
    fcntl(&file, FcntlArg::F_SETFD(FdFlag::empty()))?;
    std::mem::forget(file);
    Ok(())
}

/// A directory into which jobs of all users can write, as they share it.
fn make_directory(path: &Path) -> io::Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    DirBuilder::new().recursive(true).mode(0o777).create(path)?;
    // The mask of the process has taken something away.
    fs::set_permissions(path, Permissions::from_mode(0o777))
}

/// How Slurm writes the number of a step.
fn step_name(step: u32) -> String {
    match step {
        0xffff_fffb => "batch".into(),
        0xffff_fffa => "interactive".into(),
        number => number.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task() -> Task {
        Task { node: "worker-0".into(), job: 7, step: 0xffff_fffb, task: 1 }
    }

    fn settings(out_file: bool, out_stdout: bool) -> Settings {
        Settings { enabled: true, out_file, out_stdout, out_dir: "/logs".into(), ..Settings::default() }
    }

    #[test]
    fn one_place_needs_no_pipe_but_the_file_that_tasks_share() {
        let plan = |file, output, users, asked| Plan::new(&settings(file, output), &task(), users, asked);
        assert_eq!(plan(false, true, None, false), Plan::Output);
        assert_eq!(plan(false, false, None, false), Plan::File("/dev/null".into()));
        assert_eq!(plan(false, false, Some("/home/me/log"), false), Plan::File("/home/me/log".into()));
        let Plan::Pipe { files, output, pipe } = plan(true, false, None, false) else { panic!("shared") };
        assert_eq!((files, output), (vec![PathBuf::from("/logs/worker-0.7.batch.out")], false));
        assert_eq!(pipe, Path::new("/tmp/.nccld-7.batch.1"));
    }

    #[test]
    fn who_asked_for_logs_sees_them() {
        let asked = Plan::new(&settings(true, false), &task(), None, true);
        assert!(matches!(asked, Plan::Pipe { output: true, .. }), "{asked:?}");
        let named = Plan::new(&settings(true, false), &task(), Some("/home/me/log"), true);
        let Plan::Pipe { files, output: false, .. } = named else { panic!("{named:?}") };
        assert_eq!(files.len(), 2, "the user's file and ours");
    }

    /// Runs a shell script in place of a task; $1 is the pipe. The end that a task keeps open would stay open in this process.
    fn run(plan: &Plan, script: &str) -> std::process::Output {
        let Plan::Pipe { pipe, .. } = plan else { panic!("{plan:?}") };
        let mut child = Command::new("/bin/sh");
        child.args(["-c", script, "sh"]).arg(pipe).stderr(Stdio::null());
        let plan = plan.clone();
        #[allow(unsafe_code, reason = "the closure of a test between fork and exec")]
        // SAFETY: nothing else of this process is used in the child.
        unsafe {
            child.pre_exec(move || plan.carry_out());
        }
        child.output().unwrap()
    }

    #[test]
    fn what_is_written_to_the_pipe_comes_to_all_files_and_the_pipe_goes() {
        let folder = tempfile::tempdir().unwrap();
        let (one, two, pipe) =
            (folder.path().join("a/b/one"), folder.path().join("two"), folder.path().join("pipe"));
        let plan = Plan::Pipe { pipe: pipe.clone(), files: vec![one.clone(), two.clone()], output: false };
        assert!(run(&plan, "seq 10000 >\"$1\"").status.success());
        wait_until_gone(&pipe, Duration::from_secs(20));
        assert!(!pipe.exists());
        for file in [one, two] {
            assert_eq!(fs::read_to_string(file).unwrap().lines().count(), 10_000);
        }
    }

    #[test]
    fn a_task_goes_on_when_nobody_copies_any_more() {
        let folder = tempfile::tempdir().unwrap();
        let (file, pipe) = (folder.path().join("file"), folder.path().join("pipe"));
        let plan = Plan::Pipe { pipe: pipe.clone(), files: vec![file], output: false };
        // More than a pipe holds.
        let script = "exec 3>\"$1\"; for child in $(cat /proc/$$/task/$$/children); do kill -9 -- -$child; done; \
                      head -c 300000 /dev/zero >&3; echo goes on";
        assert_eq!(run(&plan, script).stdout, b"goes on\n");
    }

    #[test]
    fn the_end_of_a_task_does_not_wait_for_ever() {
        let folder = tempfile::tempdir().unwrap();
        let start = Instant::now();
        wait_until_gone(folder.path(), Duration::from_millis(50));
        assert!(start.elapsed() >= Duration::from_millis(50));
        wait_until_gone(&folder.path().join("none"), Duration::from_secs(60));
        assert!(start.elapsed() < Duration::from_secs(60));
    }
}
