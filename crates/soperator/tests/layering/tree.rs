//! What `cargo metadata` and `cargo tree` print, as far as the layers need it.

use std::collections::BTreeSet;

use serde_json::Value;

/// A crate of the workspace, with the crates of the workspace that it names itself.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Member {
    pub(crate) name: String,
    pub(crate) uses: Vec<Use>,
}

/// A direct dependency on a crate of the workspace.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Use {
    pub(crate) name: String,
    /// A dev-dependency.
    pub(crate) for_tests: bool,
}

impl Member {
    /// Reads the output of `cargo metadata --no-deps --format-version 1`.
    pub(crate) fn parse(metadata: &str) -> Option<Vec<Self>> {
        let metadata: Value = serde_json::from_str(metadata).ok()?;
        let mut members = Vec::new();
        for package in metadata["packages"].as_array()? {
            let mut uses = Vec::new();
            for dependency in package["dependencies"].as_array()? {
                // Only ours have a path. The name is the real one also where the dependency is renamed.
                if dependency.get("path").is_some_and(Value::is_string) {
                    let name = dependency["name"].as_str()?.to_owned();
                    uses.push(Use { name, for_tests: dependency["kind"] == "dev" });
                }
            }
            members.push(Self { name: package["name"].as_str()?.to_owned(), uses });
        }
        Some(members)
    }
}

/// Every package and every feature that a `cargo tree` names.
#[derive(Debug, Default)]
pub(crate) struct Reach {
    pub(crate) packages: BTreeSet<String>,
    features: BTreeSet<(String, String)>,
}

impl Reach {
    /// Reads the output of `cargo tree -e features --prefix none`: `NAME vVERSION ...` or `NAME feature "FEATURE"`.
    pub(crate) fn parse(tree: &str) -> Self {
        let mut reach = Self::default();
        for line in tree.lines() {
            let mut words = line.split_whitespace();
            match (words.next(), words.next(), words.next()) {
                (Some(name), Some("feature"), Some(feature)) => {
                    reach.features.insert((name.into(), feature.trim_matches('"').into()));
                }
                (Some(name), Some(version), _) if version.starts_with('v') => {
                    reach.packages.insert(name.into());
                }
                _ => {}
            }
        }
        reach
    }

    /// Whether `package` is built with `feature`.
    pub(crate) fn has_feature(&self, package: &str, feature: &str) -> bool {
        self.features.contains(&(package.into(), feature.into()))
    }
}

mod tests {
    use super::*;

    #[test]
    fn metadata_gives_the_members_and_what_they_use_of_ours() {
        let metadata = r#"{"packages": [
            {"name": "operator", "dependencies": [
                {"name": "kube", "kind": null, "source": "registry+x"},
                {"name": "engine", "kind": null, "rename": "machine", "source": null, "path": "/w/crates/engine"},
                {"name": "rig", "kind": "dev", "source": null, "path": "/w/rig"},
                {"name": "slurm", "kind": "build", "source": null, "path": "/w/crates/slurm"}]},
            {"name": "slurm", "dependencies": []}]}"#;
        let used = |name: &str, for_tests| Use { name: name.into(), for_tests };
        assert_eq!(
            Member::parse(metadata).expect("members"),
            [
                Member {
                    name: "operator".into(),
                    uses: vec![used("engine", false), used("rig", true), used("slurm", false)]
                },
                Member { name: "slurm".into(), uses: vec![] },
            ]
        );
    }

    #[test]
    fn metadata_in_another_shape_is_refused() {
        for text in ["", "{}", r#"{"packages": [{"name": "x"}]}"#] {
            assert_eq!(Member::parse(text), None, "{text}");
        }
    }

    #[test]
    fn a_tree_gives_packages_and_features() {
        let reach = Reach::parse(
            "rig v0.1.0 (/w/rig)\nkube feature \"client\"\nkube v5.0.0\ntokio feature \"net\" (*)\nserde_derive v1.0.229 (proc-macro)\n\n[dev-dependencies]\nhyper v1.8.0 (*)\n",
        );
        let packages: Vec<_> = reach.packages.iter().map(String::as_str).collect();
        assert_eq!(packages, ["hyper", "kube", "rig", "serde_derive"]);
        assert!(reach.has_feature("kube", "client"));
        assert!(reach.has_feature("tokio", "net"));
        assert!(!reach.has_feature("tokio", "client"));
    }
}
