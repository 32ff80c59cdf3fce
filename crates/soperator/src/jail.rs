//! `soperator jail shell`: a shell inside the jail of a cluster.

use std::ffi::OsString;
use std::io::IsTerminal as _;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use api::nebius::SlurmCluster;
use clap::Subcommand;
use engine::ask;
use k8s_openapi::api::core::v1::Pod;
use render::{Component, labels};

use crate::cli::Error;
use crate::place::{Place, block_on, untold};

const AFTER_HELP: &str = "\
It runs in the first login pod that is ready, as the jail's root, and needs the right to execute commands in pods (pods/exec). kubectl \
opens the terminal; KUBECTL names another program than the one on PATH.

Exit codes: those of the shell or command; 1 when it cannot be started.";

/// The container of a login pod, and where the jail is in it.
const CONTAINER: &str = "sshd";

/// What is done inside the jail.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: JailCommand,
}

#[derive(Debug, Subcommand)]
enum JailCommand {
    /// Open a shell in the jail, or run a command there
    #[command(after_help = AFTER_HELP)]
    Shell(Shell),
}

/// Where, and which command.
#[derive(Debug, clap::Args)]
struct Shell {
    /// The SlurmCluster; without it, the only one in the namespace
    cluster: Option<String>,
    /// The namespace; without it, that of the kubeconfig
    #[arg(long, short, value_name = "NAMESPACE")]
    namespace: Option<String>,
    /// A command and its arguments, in place of a shell
    #[arg(last = true, value_name = "COMMAND")]
    words: Vec<OsString>,
}

/// Becomes kubectl.
pub(crate) fn run(args: &Args) -> Result<(), Error> {
    let JailCommand::Shell(shell) = &args.command;
    let (namespace, pod) = block_on(find(shell))?;
    let program =
        std::env::var_os("KUBECTL").filter(|name| !name.is_empty()).unwrap_or_else(|| "kubectl".into());
    let mut kubectl = Command::new(&program);
    kubectl.args(["exec", "--namespace", &namespace, &pod, "--container", CONTAINER, "--stdin"]);
    if shell.words.is_empty() {
        // Commands may also come from a pipe.
        if std::io::stdin().is_terminal() {
            kubectl.arg("--tty");
        }
        kubectl.args(["--", "chroot", slurm::agent::path::JAIL, "/bin/bash", "--login"]);
    } else {
        kubectl.args(["--", "chroot", slurm::agent::path::JAIL]).args(&shell.words);
    }
    // It returns only if there is no such program.
    let error = kubectl.exec();
    Err(Error::Refused(format!(
        "{} cannot be run ({error}); install kubectl, or name it with the variable KUBECTL",
        program.to_string_lossy()
    )))
}

/// The namespace, and the first login pod that is ready.
async fn find(shell: &Shell) -> Result<(String, String), Error> {
    let Place { client, namespace } = Place::find(shell.namespace.as_deref()).await?;
    let clusters: Vec<SlurmCluster> = ask::list(&client, Some(&namespace), "").await.map_err(untold)?;
    let names: Vec<&str> = clusters.iter().filter_map(|cluster| cluster.metadata.name.as_deref()).collect();
    let cluster = choose(&names, shell.cluster.as_deref(), &namespace)?;
    let selector =
        format!("{}={cluster},{}={}", labels::INSTANCE, labels::COMPONENT, Component::Login.as_str());
    let pods: Vec<Pod> = ask::list(&client, Some(&namespace), &selector).await.map_err(untold)?;
    let mut ready: Vec<String> =
        pods.into_iter().filter(is_ready).filter_map(|pod| pod.metadata.name).collect();
    ready.sort();
    let pod = ready.into_iter().next().ok_or_else(|| {
        Error::Refused(format!(
            "no login pod of {cluster} is ready; `soperator status {cluster} -n {namespace}` tells what it waits for"
        ))
    })?;
    Ok((namespace, pod))
}

fn choose<'a>(names: &[&'a str], wanted: Option<&str>, namespace: &str) -> Result<&'a str, Error> {
    let list = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
    match (wanted, names) {
        (Some(wanted), _) => names.iter().find(|name| **name == wanted).copied().ok_or_else(|| {
            Error::Refused(format!(
                "there is no SlurmCluster {wanted} in the namespace {namespace}; there is {list}"
            ))
        }),
        (None, [one]) => Ok(one),
        (None, []) => Err(Error::Refused(format!(
            "there is no SlurmCluster in the namespace {namespace}; name another with -n"
        ))),
        (None, _) => {
            Err(Error::Refused(format!("name one of the clusters of the namespace {namespace}: {list}")))
        }
    }
}

fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    pod.metadata.deletion_timestamp.is_none()
        && conditions.into_iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_only_cluster_need_not_be_named() {
        assert_eq!(choose(&["a"], None, "n").unwrap(), "a");
        assert_eq!(choose(&["a", "b"], Some("b"), "n").unwrap(), "b");
        let told = |names: &[&'static str], wanted| match choose(names, wanted, "n") {
            Err(Error::Refused(text)) => text,
            other => panic!("{other:?}"),
        };
        assert!(told(&["a", "b"], None).ends_with("name one of the clusters of the namespace n: a, b"));
        assert!(told(&["a"], Some("c")).ends_with("there is a"));
        assert!(told(&[], None).contains("name another with -n"));
    }
}
