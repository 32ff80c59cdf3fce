//! The command line: what can be asked of the program, and how it answers.
//!
//! Exit codes: 0 done, 1 failed, 2 wrong arguments, 3 the role is not part of this version.

use std::ffi::OsString;
use std::fmt;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use engine::error::chain;
use engine::settings::{self, Flags, World};

use crate::conf;
use crate::config;
use crate::crds;
use crate::diff;
use crate::gpu_scheduler;
use crate::jail;
use crate::nodeset;
use crate::render;
use crate::role::Role;
use crate::slurm;
use crate::status;
use crate::validate;

/// The name of the program, whatever the file is called.
const NAME: &str = "soperator";
const VERSION: &str = env!("CARGO_PKG_VERSION");

const EXIT_FAILED: u8 = 1;
/// As kubectl diff has it: 1 means that something differs.
const EXIT_NO_DIFF: u8 = 2;
const EXIT_NOT_BUILT: u8 = 3;

const AFTER_HELP: &str = "\
Called by the name slurm_operator, soperatorchecks, sconfigcontroller, rebooter, exporter or gpu-scheduler, the \
program takes that role without a subcommand.

Exit codes: 0 done, 1 failed, 2 wrong arguments, 3 the role is not part of this version.";

/// Slurm clusters on Kubernetes: one program for every control-plane role.
#[derive(Debug, Parser)]
// bin_name is fixed, because clap would else print the name of whatever link leads here.
#[command(name = NAME, bin_name = NAME, version, propagate_version = true, after_help = AFTER_HELP)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    #[command(flatten)]
    Role(RoleCommand),
    /// Print the name and version of the program
    Version {
        /// The form of the answer
        #[arg(long, short, value_enum, default_value_t = Output::Text)]
        output: Output,
    },
    /// Print the custom resource definitions as YAML
    Crds(crds::Args),
    /// Check manifests without a cluster, by the rules of the API server
    Validate(validate::Args),
    /// Print every object that the operator would apply for a manifest, without a cluster
    Render(render::Args),
    /// Tell how a live cluster would change if the operator applied a manifest; nothing is written
    Diff(diff::Args),
    /// Check Slurm's configuration files without Slurm
    Conf(conf::Args),
    /// Show a SlurmCluster on one screen: parts, what they wait for, Slurm's nodes and jobs
    Status(status::Args),
    /// Look at a set of workers: pods, Slurm nodes, jobs, and why they change; drain, undrain and restart them
    #[command(name = "nodeset")]
    NodeSet(nodeset::Args),
    /// Work inside the jail, the root file system that users of a cluster share
    Jail(jail::Args),
    /// Look at a Slurm cluster through slurmrestd, drain and resume its nodes, make tokens
    Slurm(slurm::Args),
    /// Look at the settings of a role
    #[command(subcommand)]
    Config(config::Command),
    /// Print a completion script for a shell
    Completion {
        /// The shell to complete for
        shell: Shell,
    },
}

/// The roles as subcommands. A role gets its own arguments here when its crate comes.
#[derive(Debug, Subcommand)]
enum RoleCommand {
    /// Run the operator: it builds clusters, and checks objects before they are stored
    #[command(name = Role::Operator.subcommand())]
    Operator(Flags),
    /// Run the health checks (not in this version)
    #[command(name = Role::SoperatorChecks.subcommand())]
    SoperatorChecks(NotBuilt),
    /// Run the controller of configuration files in the jail of one cluster
    #[command(name = Role::SconfigController.subcommand())]
    SconfigController(SconfigArgs),
    /// Run the node rebooter (not in this version)
    #[command(name = Role::Rebooter.subcommand())]
    Rebooter(NotBuilt),
    /// Run the metrics exporter (not in this version)
    #[command(name = Role::Exporter.subcommand())]
    Exporter(NotBuilt),
    /// Pin pods to nodes and GPUs: the scheduler, its webhook, and the programs around them
    #[command(name = Role::GpuScheduler.subcommand())]
    GpuScheduler(gpu_scheduler::Args),
}

/// The arguments of the sconfigcontroller.
#[derive(Debug, clap::Args)]
struct SconfigArgs {
    #[command(flatten)]
    own: sconfig::Flags,
    #[command(flatten)]
    common: Flags,
}

/// The arguments of a role that this version does not contain.
///
/// Whatever is given is taken, so that the answer is "not in this version" and not "unknown flag".
#[derive(Debug, clap::Args)]
struct NotBuilt {
    #[arg(hide = true, trailing_var_arg = true, allow_hyphen_values = true)]
    _arguments: Vec<OsString>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Output {
    /// One line
    Text,
    /// A JSON object
    Json,
}

/// Why the program ends without having done what was asked.
#[derive(Debug)]
pub(crate) enum Error {
    /// The arguments make no sense; or they ask for help, which clap hands out the same way.
    Arguments(clap::Error),
    /// The role exists, but this version does not contain it.
    NotBuilt(Role),
    /// The answer could not be written.
    Output(io::Error),
    /// A file could not be written.
    File(PathBuf, io::Error),
    /// A file could not be read.
    Unreadable(PathBuf, io::Error),
    /// A value could not be written as YAML.
    Yaml(String),
    /// Files are wrong, as has been told line by line.
    Invalid(usize),
    /// Something differs, as has been told.
    Differs,
    /// There is no difference to tell, and why: another exit code than that of a difference.
    NoDiff(Box<Error>),
    /// What was asked for cannot be done, and why.
    Refused(String),
    /// A call to Slurm failed, or Slurm does not have what was asked for.
    Slurm(String),
    /// Settings are wrong, one line for each.
    Settings(engine::settings::SettingsError),
    /// A role ended before it was told to, and why.
    Role(String),
    /// A program error.
    Bug(String),
}

impl Error {
    /// Tells the user, and returns the exit code.
    pub(crate) fn report(&self) -> ExitCode {
        match self {
            Self::Arguments(error) => {
                // Nobody is left to tell when this fails.
                let _ = error.print();
                ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(EXIT_FAILED))
            }
            Self::NotBuilt(_) => {
                eprintln!("error: {self}");
                ExitCode::from(EXIT_NOT_BUILT)
            }
            // The reader has seen enough, as in `soperator completion bash | head`.
            Self::Output(error) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
            // The lines and their summary are the message.
            Self::Invalid(_) | Self::Differs => ExitCode::from(EXIT_FAILED),
            Self::NoDiff(error) => {
                error.report();
                ExitCode::from(EXIT_NO_DIFF)
            }
            Self::Settings(_) => {
                eprintln!("{self}");
                ExitCode::from(EXIT_FAILED)
            }
            Self::Output(_)
            | Self::File(..)
            | Self::Unreadable(..)
            | Self::Yaml(_)
            | Self::Refused(_)
            | Self::Slurm(_)
            | Self::Role(_)
            | Self::Bug(_) => {
                eprintln!("error: {self}");
                ExitCode::from(EXIT_FAILED)
            }
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Arguments(error) => write!(f, "{error}"),
            Self::NotBuilt(role) => write!(
                f,
                "{NAME} {VERSION} does not contain the role `{}`; use a version that does \
                 (CHANGELOG.md says what each version contains)",
                role.subcommand()
            ),
            Self::Output(error) => write!(f, "cannot write to standard output: {error}"),
            Self::File(path, error) => write!(f, "cannot write {}: {error}", path.display()),
            Self::Unreadable(path, error) => write!(f, "cannot read {}: {error}", path.display()),
            Self::Yaml(error) => write!(f, "cannot write YAML, which is a bug: {error}"),
            Self::Invalid(count) => write!(f, "{count} errors in the files"),
            Self::Differs => write!(f, "something differs"),
            Self::NoDiff(error) => write!(f, "{error}"),
            Self::Settings(error) => write!(f, "{error}"),
            Self::Refused(reason) | Self::Slurm(reason) | Self::Role(reason) | Self::Bug(reason) => {
                write!(f, "{reason}")
            }
        }
    }
}

impl From<clap::Error> for Error {
    fn from(error: clap::Error) -> Self {
        Self::Arguments(error)
    }
}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Self {
        Self::Output(error)
    }
}

/// Does what `args` (with the name of the program first) ask for.
pub(crate) fn run(args: impl IntoIterator<Item = OsString>, out: &mut impl Write) -> Result<(), Error> {
    match parse(args)? {
        Command::Role(role) => run_role(&role, out),
        Command::Version { output } => Ok(writeln!(out, "{}", version(output))?),
        Command::Crds(args) => crds::run(&args, out),
        Command::Validate(args) => validate::run(&args, &mut io::stdin(), out, &mut io::stderr()),
        Command::Render(args) => render::run(&args, &mut io::stdin(), out, &mut io::stderr()),
        Command::Diff(args) => diff::run(&args, &mut io::stdin(), out, &mut io::stderr()),
        Command::Conf(args) => conf::run(&args, &mut io::stdin(), out, &mut io::stderr()),
        Command::Status(args) => status::run(&args, out, &mut io::stderr()),
        Command::NodeSet(args) => nodeset::run(&args, out),
        Command::Jail(args) => jail::run(&args),
        Command::Slurm(args) => slurm::run(&args, out),
        Command::Config(command) => config::run(&command, out),
        Command::Completion { shell } => Ok(out.write_all(&completion(shell))?),
    }
}

fn parse(args: impl IntoIterator<Item = OsString>) -> Result<Command, clap::Error> {
    let mut args: Vec<OsString> = args.into_iter().collect();
    if let Some(role) = args.first().and_then(|argv0| Role::from_argv0(argv0)) {
        // Twice, so that help and errors speak of the program by the name that was called, and everything
        // else is exactly as `soperator ROLE` has it.
        if let Some(own) = Cli::command().find_subcommand(role.subcommand()) {
            own.clone().name(role.program()).version(VERSION).try_get_matches_from(&args)?;
        }
        args.splice(..1, [NAME.into(), role.subcommand().into()]);
    }
    Cli::try_parse_from(args).map(|cli| cli.command)
}

fn run_role(command: &RoleCommand, out: &mut impl Write) -> Result<(), Error> {
    Err(Error::NotBuilt(match command {
        RoleCommand::Operator(flags) => return run_operator(flags),
        RoleCommand::SoperatorChecks(_) => Role::SoperatorChecks,
        RoleCommand::SconfigController(args) => return run_sconfig(args),
        RoleCommand::Rebooter(_) => Role::Rebooter,
        RoleCommand::Exporter(_) => Role::Exporter,
        RoleCommand::GpuScheduler(args) => return gpu_scheduler::run(args, out),
    }))
}

fn run_operator(flags: &Flags) -> Result<(), Error> {
    let settings =
        settings::load(&Role::Operator.profile(), flags, &World::default()).map_err(Error::Settings)?;
    operator::run(&settings).map_err(|error| Error::Role(chain(&error)))
}

fn run_sconfig(args: &SconfigArgs) -> Result<(), Error> {
    let settings = settings::load(&Role::SconfigController.profile(), &args.common, &World::default())
        .map_err(Error::Settings)?;
    sconfig::run(&settings, &args.own).map_err(|error| Error::Role(chain(&error)))
}

fn version(output: Output) -> String {
    match output {
        Output::Text => format!("{NAME} {VERSION}"),
        Output::Json => serde_json::json!({ "name": NAME, "version": VERSION }).to_string(),
    }
}

fn completion(shell: Shell) -> Vec<u8> {
    // Into memory first: clap_complete panics when it cannot write.
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), NAME, &mut script);
    script
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(words: &[&str]) -> Vec<OsString> {
        words.iter().map(OsString::from).collect()
    }

    fn is_not_built(role: &Role) -> bool {
        !matches!(role, Role::Operator | Role::SconfigController | Role::GpuScheduler)
    }

    fn not_built(words: &[&str]) -> Role {
        match run(args(words), &mut Vec::new()) {
            Err(Error::NotBuilt(role)) => role,
            other => panic!("{words:?} gave {other:?}"),
        }
    }

    #[test]
    fn the_command_line_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn the_program_name_and_the_subcommand_pick_the_same_role() {
        for role in Role::ALL.into_iter().filter(is_not_built) {
            assert_eq!(not_built(&[role.program()]), role);
            assert_eq!(not_built(&[NAME, role.subcommand()]), role);
        }
    }

    #[test]
    fn flags_of_a_role_that_is_not_built_are_no_usage_error() {
        for flags in [&["--metrics-port=8080"][..], &["--timeout", "5"], &["-v", "x", "--", "--y"]] {
            let called = [&["rebooter"], flags].concat();
            assert_eq!(not_built(&called), Role::Rebooter);
            let asked = [&[NAME, "rebooter"], flags].concat();
            assert_eq!(not_built(&asked), Role::Rebooter);
        }
    }

    #[test]
    fn no_arguments_at_all_are_a_usage_error() {
        assert!(matches!(run(args(&[]), &mut Vec::new()), Err(Error::Arguments(_))));
    }

    #[test]
    fn a_failing_output_is_reported_and_does_not_panic() {
        let mut full: &mut [u8] = &mut [0; 4];
        assert!(matches!(run(args(&[NAME, "version"]), &mut full), Err(Error::Output(_))));
        assert!(matches!(run(args(&[NAME, "completion", "zsh"]), &mut full), Err(Error::Output(_))));
    }
}
