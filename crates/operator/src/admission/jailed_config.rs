//! Files in the jail.

use api::nebius::JailedConfig;
use render::check::problem::{Problem, Problems, Severity};
use render::slurm_files::{
    CGROUP_CONF, CUSTOM_SLURM_CONF, GRES_CONF, MPI_CONF, PLUGSTACK_CONF, SLURM_CONF, SLURM_REST_CONF,
    TOPOLOGY_CONF,
};
use slurm::config_set::{key_of_name, name_of_path};

/// Files that every cluster writes itself.
const OURS: [&str; 8] = [
    SLURM_CONF,
    CUSTOM_SLURM_CONF,
    SLURM_REST_CONF,
    CGROUP_CONF,
    GRES_CONF,
    MPI_CONF,
    PLUGSTACK_CONF,
    TOPOLOGY_CONF,
];
/// Files at the top of the jail whose names begin like this tell how complete it is.
const RESERVED: &str = "/.soperator-jail";

/// What is wrong with a JailedConfig.
#[must_use]
pub fn jailed_config(config: &JailedConfig) -> Vec<Problem> {
    let mut problems = Problems::default();
    let items = config.spec.items.as_deref().unwrap_or_default();
    for (index, item) in items.iter().enumerate() {
        let path = format!("spec.items[{index}].path");
        if item.path.ends_with('/') || item.path.contains("//") {
            problems
                .error(path, format!("{:?} is no path of a file; write it without empty parts", item.path));
            continue;
        }
        if item.path.starts_with(RESERVED) {
            problems
                .error(&path, format!("{:?} tells how complete the jail is; write another path", item.path));
            continue;
        }
        remarks(config, item.path.as_str(), &path, &mut problems);
        for (other, before) in items[..index].iter().enumerate() {
            if before.path == item.path {
                problems.error(&path, format!("is the file of spec.items[{other}] too; write another path"));
            } else if is_below(&item.path, &before.path) || is_below(&before.path, &item.path) {
                problems.error(
                    &path,
                    format!("one of this and spec.items[{other}].path would have to be a file and a folder; change one"),
                );
            }
        }
    }
    problems.into_vec()
}

/// What does not come to Slurm as the user may think.
fn remarks(config: &JailedConfig, file: &str, path: &str, problems: &mut Problems) {
    let Some(name) = name_of_path(file) else { return };
    if OURS.contains(&name) && config.owning_cluster().is_none() {
        let message = format!(
            "the cluster writes {file} itself, which comes first; use the fields of the SlurmCluster instead"
        );
        problems.add(Severity::Warning, path, message);
    } else if key_of_name(name).is_none() {
        let message = format!(
            "{file} comes into the jail, but not to Slurm's daemons: names may have only letters, digits, '-', '_' and '.', which \
             is neither first nor last where there are directories"
        );
        problems.add(Severity::Warning, path, message);
    }
}

fn is_below(path: &str, folder: &str) -> bool {
    path.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn told(path: &str) -> Vec<Problem> {
        let config = json!({
            "apiVersion": "slurm.nebius.ai/v1alpha1", "kind": "JailedConfig", "metadata": { "name": "a" },
            "spec": { "configMap": { "name": "m" }, "items": [{ "key": "k", "path": path }] },
        });
        jailed_config(&serde_json::from_value(config).unwrap())
    }

    #[test]
    fn files_that_do_not_come_to_slurm_are_told_and_taken() {
        for path in ["/etc/slurm/slurm.conf", "/etc/slurm/with space.conf"] {
            let problems = told(path);
            assert_eq!((problems.len(), problems[0].severity), (1, Severity::Warning), "{path}");
            assert_eq!(problems[0].path, "spec.items[0].path");
            assert!(!problems[0].message.contains("  "), "{}", problems[0].message);
        }
        for path in ["/etc/slurm/job_submit.lua", "/etc/slurm/prolog.d/10.sh", "/etc/motd"] {
            assert_eq!(told(path), [], "{path}");
        }
    }

    #[test]
    fn the_marker_of_the_jail_is_nobodys() {
        assert_eq!(told("/.soperator-jail.json")[0].severity, Severity::Error);
    }
}
