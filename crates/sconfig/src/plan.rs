//! What the files of a JailedConfig should be. No I/O.

use std::collections::BTreeMap;

use api::nebius::JailedConfig;
use api::nebius::jailed_config_condition as reason;
use kube::ResourceExt as _;
use slurm::config_set::name_of_path;

use crate::jail::{JailPath, Wanted};

/// Content of a ConfigMap by key.
pub type Content = BTreeMap<String, Vec<u8>>;

/// Why a JailedConfig has no files, or not all of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The reason of its condition.
    pub reason: &'static str,
    /// What is wrong, and what to do.
    pub message: String,
}

impl Problem {
    /// A problem.
    pub fn new(reason: &'static str, message: impl Into<String>) -> Self {
        Self { reason, message: message.into() }
    }
}

/// The paths that JailedConfigs want, and who gets each of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Owners(BTreeMap<String, String>);

impl Owners {
    /// Of these JailedConfigs, which are not being deleted.
    pub fn of<'a>(configs: impl IntoIterator<Item = &'a JailedConfig>) -> Self {
        let mut configs: Vec<&JailedConfig> = configs.into_iter().collect();
        configs.sort_by_key(|config| config.rank());
        let mut owners = BTreeMap::new();
        for config in configs {
            for item in config.spec.items.iter().flatten() {
                owners.entry(item.path.clone()).or_insert_with(|| config.name_any());
            }
        }
        Self(owners)
    }

    /// Who gets a path.
    pub fn get(&self, path: &str) -> Option<&str> {
        self.0.get(path).map(String::as_str)
    }

    /// Paths of this JailedConfig that another one gets, with its name.
    pub fn lost<'a>(&'a self, config: &JailedConfig) -> Vec<(&'a str, &'a str)> {
        let name = config.name_any();
        let items = config.spec.items.iter().flatten();
        let mut lost: Vec<_> = items
            .filter_map(|item| self.0.get_key_value(&item.path))
            .filter(|(_, owner)| **owner != name)
            .map(|(path, owner)| (path.as_str(), owner.as_str()))
            .collect();
        lost.sort_unstable();
        lost
    }
}

/// The files of a JailedConfig, from its ConfigMap; `None` if that is missing.
///
/// # Errors
///
/// What is wrong: then none of its files is touched.
pub fn files(
    config: &JailedConfig,
    content: Option<&Content>,
    owners: &Owners,
) -> Result<Vec<Wanted>, Problem> {
    let map = &config.spec.config_map.name;
    let Some(content) = content else {
        return Err(Problem::new(reason::NOT_FOUND, format!("ConfigMap {map} is not there; make it")));
    };
    if let Some((path, other)) = owners.lost(config).first() {
        let message = format!(
            "{path} is a file of JailedConfig {other}, which comes first; take the path out of one of them. None of its \
             files is changed"
        );
        return Err(Problem::new(reason::CONFLICT, message));
    }
    let Some(items) = config.spec.items.as_ref().filter(|items| !items.is_empty()) else {
        let keys: Vec<&str> = content.keys().map(String::as_str).take(5).collect();
        let message = format!(
            "spec.items is missing, and keys ({}) are no absolute paths; list each key with its path",
            keys.join(", ")
        );
        return Err(Problem::new(reason::NOT_WRITTEN, message));
    };
    let file = |(index, item): (usize, &api::nebius::JailedFile)| {
        let path = JailPath::parse(&item.path).map_err(|error| {
            Problem::new(reason::NOT_WRITTEN, format!("spec.items[{index}].path: {error}"))
        })?;
        let Some(content) = content.get(&item.key) else {
            let message = format!(
                "spec.items[{index}].key: ConfigMap {map} has no key {:?}; add it, or remove the item",
                item.key
            );
            return Err(Problem::new(reason::NOT_FOUND, message));
        };
        Ok(Wanted { path, mode: config.mode(item.mode), content: content.clone() })
    };
    items.iter().enumerate().map(file).collect()
}

/// Name and content of the files that are part of Slurm's configuration.
pub fn of_slurm(files: &[Wanted]) -> Vec<(String, &[u8])> {
    let of_slurm = |file: &Wanted| name_of_path(&file.path.to_string()).map(str::to_owned);
    files.iter().filter_map(|file| Some((of_slurm(file)?, file.content.as_slice()))).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn config(name: &str, created: &str, paths: &[&str]) -> JailedConfig {
        let items: Vec<_> =
            paths.iter().map(|path| json!({ "key": "k", "path": path, "mode": 0o600 })).collect();
        serde_json::from_value(json!({
            "apiVersion": "slurm.nebius.ai/v1alpha1", "kind": "JailedConfig",
            "metadata": { "name": name, "creationTimestamp": created },
            "spec": { "configMap": { "name": "map" }, "items": items },
        }))
        .unwrap()
    }

    fn content() -> Content {
        [("k".to_owned(), b"text".to_vec())].into()
    }

    const EARLY: &str = "2026-01-01T00:00:00Z";
    const LATE: &str = "2026-01-02T00:00:00Z";

    #[test]
    fn files_come_from_keys_with_their_modes() {
        let config = config("a", EARLY, &["/etc/slurm/a.conf", "/etc/motd"]);
        let files = files(&config, Some(&content()), &Owners::of([&config])).unwrap();
        assert_eq!(files.len(), 2);
        assert_eq!((files[0].mode, files[0].content.as_slice()), (0o600, &b"text"[..]));
        assert_eq!(of_slurm(&files), [("a.conf".to_owned(), &b"text"[..])]);
    }

    #[test]
    fn who_was_there_first_gets_a_path_and_the_other_is_told_by_name() {
        let (first, second) =
            (config("z", EARLY, &["/etc/motd"]), config("a", LATE, &["/etc/motd", "/etc/x"]));
        let owners = Owners::of([&second, &first]);
        assert!(files(&first, Some(&content()), &owners).is_ok());
        let problem = files(&second, Some(&content()), &owners).unwrap_err();
        assert_eq!(problem.reason, reason::CONFLICT);
        assert!(problem.message.starts_with("/etc/motd is a file of JailedConfig z"), "{}", problem.message);
    }

    #[test]
    fn what_is_missing_is_told_with_its_name() {
        let config = config("a", EARLY, &["/etc/motd"]);
        let owners = Owners::of([&config]);
        let told = |content: Option<&Content>| files(&config, content, &owners).unwrap_err();
        assert_eq!(told(None).reason, reason::NOT_FOUND);
        assert!(told(None).message.contains("ConfigMap map"));
        let problem = told(Some(&Content::new()));
        assert_eq!(problem.reason, reason::NOT_FOUND);
        assert!(
            problem.message.contains("spec.items[0].key") && problem.message.contains("\"k\""),
            "{}",
            problem.message
        );
    }

    #[test]
    fn paths_that_cannot_be_are_told_with_their_field() {
        let bad = config("a", EARLY, &["/etc/../motd"]);
        let problem = files(&bad, Some(&content()), &Owners::of([&bad])).unwrap_err();
        assert!(problem.message.starts_with("spec.items[0].path:"), "{}", problem.message);
        let none = config("a", EARLY, &[]);
        let problem = files(&none, Some(&content()), &Owners::of([&none])).unwrap_err();
        assert_eq!(problem.reason, reason::NOT_WRITTEN);
        assert!(problem.message.contains("spec.items is missing"), "{}", problem.message);
    }
}
