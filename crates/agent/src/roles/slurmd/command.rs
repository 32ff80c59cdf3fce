//! slurmd's command line.

use std::process::Command;
use std::time::Duration;

use slurm::HostList;
use slurm::agent::env;

use super::super::variable;
use super::node::Node;
use crate::agent::Agent;
use crate::expand::expand;
use crate::programs;

const GPU: &str = "gpu";

/// What slurmd is told about its node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Settings {
    name: String,
    conf_server: Option<String>,
    is_static: bool,
    /// `Key=Value` words of a node that registers itself.
    conf: Vec<String>,
    instance_id: Option<String>,
    extra: Option<String>,
}

/// The command that starts slurmd.
///
/// # Errors
///
/// The image has no slurmd.
pub fn slurmd(agent: &Agent, node: &Node) -> Result<Command, String> {
    let mut command = programs::command("slurmd")?;
    let help = agent.run(programs::command("slurmd")?.arg("-h"), Duration::from_secs(10));
    let help = help.map(|printed| printed.stdout + &printed.stderr).unwrap_or_default();
    let mut conf = Vec::new();
    if let Some(memory) = variable(env::REAL_MEMORY) {
        conf.push(format!("RealMemory={memory}"));
    }
    if variable(env::CLUSTER_TYPE).as_deref() == Some(GPU)
        && let Some(gres) = gpus(agent)
    {
        conf.push(format!("Gres={gres}"));
    }
    let features = features(node.name(), std::env::vars());
    if !features.is_empty() {
        conf.push(format!("Feature={}", features.join(",")));
    }
    conf.extend(variable(env::NODE_CONF));
    let settings = Settings {
        name: node.name().to_owned(),
        conf_server: variable(env::CONF_SERVER),
        is_static: variable(env::STATIC_NODE).as_deref() == Some("true"),
        conf,
        instance_id: variable(env::INSTANCE_ID),
        extra: variable(env::NODE_EXTRA).map(|extra| expand(&extra, |name| std::env::var(name).ok())),
    };
    command.args(arguments(&settings, &help));
    // slurmd asks slurmctld, whatever else lies in the image.
    command.env_remove("SLURM_CONF");
    Ok(command)
}

fn arguments(settings: &Settings, help: &str) -> Vec<String> {
    let mut arguments = vec!["-D".to_owned(), "-N".to_owned(), settings.name.clone()];
    let mut add = |option: &str, value: &str| arguments.extend([option.to_owned(), value.to_owned()]);
    if let Some(server) = &settings.conf_server {
        add("--conf-server", server);
    }
    for (option, value) in [("--instance-id", &settings.instance_id), ("--extra", &settings.extra)] {
        if let Some(value) = value
            && help.contains(option)
        {
            add(option, value);
        }
    }
    if !settings.is_static {
        arguments.push("-Z".to_owned());
        if !settings.conf.is_empty() {
            arguments.extend(["--conf".to_owned(), settings.conf.join(" ")]);
        }
    }
    arguments
}

/// Features whose host list has this node.
fn features(node: &str, variables: impl Iterator<Item = (String, String)>) -> Vec<String> {
    let has = |hosts: &str| HostList::parse(hosts).is_ok_and(|list| list.contains(node));
    let mut features: Vec<String> = variables
        .filter_map(|(name, hosts)| Some((name.strip_prefix(env::FEATURE_PREFIX)?.to_owned(), hosts)))
        .filter(|(feature, hosts)| !feature.is_empty() && has(hosts))
        .map(|(feature, _)| feature)
        .collect();
    features.sort();
    features
}

/// The GPUs of this machine, as the driver's own tool counts them.
fn gpus(agent: &Agent) -> Option<String> {
    let mut tool = programs::command("nvidia-smi").ok()?;
    let printed =
        agent.run(tool.args(["--query-gpu=name", "--format=csv,noheader"]), Duration::from_secs(60)).ok()?;
    if !printed.ended.well() {
        agent.failed(&format!("nvidia-smi: {}", printed.stderr.trim()));
        return None;
    }
    gres(&printed.stdout)
}

/// `gpu:h100:8` from one name a line, e.g. `NVIDIA H100 80GB HBM3`.
fn gres(names: &str) -> Option<String> {
    let names: Vec<&str> = names.lines().map(str::trim).filter(|name| !name.is_empty()).collect();
    let first = names.first()?;
    let kind = first.to_ascii_lowercase().replace("nvidia", "");
    let kind: Vec<&str> =
        kind.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty()).collect();
    Some(match kind.is_empty() {
        true => format!("gpu:{}", names.len()),
        false => format!("gpu:{}:{}", kind.join("_"), names.len()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const HELP: &str = "--conf  --conf-server --extra --instance-id";

    #[test]
    fn a_node_that_registers_itself_tells_what_it_is() {
        let settings = Settings {
            name: "worker-0".into(),
            conf_server: Some("c:6817".into()),
            conf: vec!["RealMemory=100".into(), "Feature=a,b".into(), "CPUs=2 Boards=1".into()],
            instance_id: Some("i-1".into()),
            extra: Some("{\"a\": \"b c\"}".into()),
            ..Settings::default()
        };
        assert_eq!(
            arguments(&settings, HELP),
            [
                "-D",
                "-N",
                "worker-0",
                "--conf-server",
                "c:6817",
                "--instance-id",
                "i-1",
                "--extra",
                "{\"a\": \"b c\"}",
                "-Z",
                "--conf",
                "RealMemory=100 Feature=a,b CPUs=2 Boards=1"
            ]
        );
        let of_an_old_slurmd = arguments(&settings, "--conf --conf-server");
        assert!(!of_an_old_slurmd.iter().any(|word| word == "--extra" || word == "--instance-id"));
    }

    #[test]
    fn a_node_of_slurm_conf_tells_nothing_about_itself() {
        let settings = Settings {
            name: "a".into(),
            is_static: true,
            conf: vec!["CPUs=1".into()],
            ..Settings::default()
        };
        assert_eq!(arguments(&settings, HELP), ["-D", "-N", "a"]);
    }

    #[test]
    fn features_are_those_whose_hosts_have_the_node() {
        let variables = [
            ("SLURM_FEATURE_red", "worker-[0-3]"),
            ("SLURM_FEATURE_blue", "worker-[4-7]"),
            ("SLURM_FEATURE_all", "worker-[0-7],other"),
            ("SLURM_FEATURE_broken", "worker-["),
            ("SLURM_CONF", "worker-1"),
        ];
        let variables = variables.iter().map(|(name, hosts)| (name.to_string(), hosts.to_string()));
        assert_eq!(features("worker-1", variables), ["all", "red"]);
    }

    #[test]
    fn gpus_are_counted_with_their_kind() {
        assert_eq!(
            gres("NVIDIA H100 80GB HBM3\nNVIDIA H100 80GB HBM3\n").as_deref(),
            Some("gpu:h100_80gb_hbm3:2")
        );
        assert_eq!(gres("Tesla T4\n").as_deref(), Some("gpu:tesla_t4:1"));
        assert_eq!(gres("\n"), None);
    }
}
