//! The layers (DESIGN.md section 3), and the checks against them.

use crate::tree::{Member, Reach};

/// What a crate must not reach, however far down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Layer {
    /// No I/O: neither the kube client nor any other network.
    Pure,
    /// Runs inside Slurm pods: nothing of Kubernetes at all.
    NoKubernetes,
    /// No limit.
    Free,
}

/// One row of the table: a crate of ours, and what it may use.
#[derive(Debug)]
pub(crate) struct Rule {
    pub(crate) name: &'static str,
    /// The crates of ours that it may depend on, apart from `rig` in its tests.
    pub(crate) may_use: &'static [&'static str],
    pub(crate) layer: Layer,
    /// The layer holds for what is left without default features, the core.
    pub(crate) core_only: bool,
}

const fn rule(name: &'static str, may_use: &'static [&'static str], layer: Layer) -> Rule {
    Rule { name, may_use, layer, core_only: false }
}

const ROLE: &[&str] = &["api", "slurm", "slurm-client", "engine"];

/// Not shipped: these see everything.
const ALL: &[&str] = &[
    "slurm",
    "slurm-client",
    "api",
    "manifests",
    "nodeset",
    "render",
    "engine",
    "agent",
    "spank",
    "operator",
    "sconfig",
    "checks",
    "rebooter",
    "exporter",
    "notifier",
    "gpu-scheduler",
    "soperator",
    "rig",
];

/// Every crate of ours, also those still to come.
pub(crate) const RULES: &[Rule] = &[
    rule("slurm", &[], Layer::Pure),
    rule("slurm-client", &["slurm"], Layer::Free),
    rule("api", &[], Layer::Pure),
    rule("manifests", &["api"], Layer::Pure),
    rule("nodeset", &["slurm"], Layer::Pure),
    rule("render", &["api", "slurm"], Layer::Pure),
    rule("engine", &[], Layer::Free),
    rule("agent", &["slurm"], Layer::NoKubernetes),
    rule("spank", &["slurm"], Layer::NoKubernetes),
    rule("operator", &["api", "render", "nodeset", "slurm", "slurm-client", "engine"], Layer::Free),
    rule("sconfig", ROLE, Layer::Free),
    rule("checks", ROLE, Layer::Free),
    rule("rebooter", ROLE, Layer::Free),
    rule("exporter", ROLE, Layer::Free),
    rule("notifier", ROLE, Layer::Free),
    Rule { name: "gpu-scheduler", may_use: ROLE, layer: Layer::Pure, core_only: true },
    rule(
        "soperator",
        // The first seven are for the commands about manifests, settings, Slurm and sets of workers, which are no role.
        &[
            "api",
            "manifests",
            "nodeset",
            "render",
            "engine",
            "slurm",
            "slurm-client",
            "operator",
            "sconfig",
            "checks",
            "rebooter",
            "exporter",
            "notifier",
            "gpu-scheduler",
        ],
        Layer::Free,
    ),
    rule("rig", &[], Layer::Free),
    rule("e2e", ALL, Layer::Free),
    rule("bench", ALL, Layer::Free),
];

/// Packages that bring a network stack.
const NETWORK: &[&str] = &["kube-client", "hyper"];
const KUBERNETES: &[&str] = &["kube", "kube-client", "kube-core", "kube-runtime", "k8s-openapi"];
/// Everything that would stand beside ring.
const OTHER_CRYPTOGRAPHY: &[&str] =
    &["aws-lc-rs", "aws-lc-sys", "aws-lc-fips-sys", "openssl", "openssl-sys", "native-tls"];

/// Whether the crate in this folder of `crates/` may name `kube::Api`.
pub(crate) fn may_name_kube_api(name: &str) -> bool {
    name == "engine"
}

/// Checks that each member has a row, and uses only the crates of ours that its row lists.
pub(crate) fn check_direction(members: &[Member], rules: &[Rule]) -> Vec<String> {
    let mut violations = Vec::new();
    for member in members {
        let Some(rule) = rules.iter().find(|rule| rule.name == member.name) else {
            violations.push(format!(
                "`{}` has no row in RULES; add one that says which of our crates it may use",
                member.name
            ));
            continue;
        };
        for used in &member.uses {
            // Itself: its tests see it with a feature that is for tests only.
            let for_tests = used.for_tests && (used.name == "rig" || used.name == member.name);
            let allowed = for_tests || rule.may_use.contains(&used.name.as_str());
            if !allowed {
                violations.push(format!(
                    "`{}` must not depend on `{}`; it may use {:?}",
                    member.name, used.name, rule.may_use
                ));
            }
        }
    }
    violations
}

/// Checks what a crate reaches through all its dependencies against its layer.
pub(crate) fn check_reach(rule: &Rule, reach: &Reach) -> Vec<String> {
    let (packages, why) = match rule.layer {
        Layer::Free => return Vec::new(),
        Layer::Pure => (NETWORK, "does no I/O"),
        Layer::NoKubernetes => (KUBERNETES, "knows no Kubernetes"),
    };
    let mut violations: Vec<String> = packages
        .iter()
        .filter(|package| reach.packages.contains(**package))
        .map(|package| {
            format!("`{0}` {why}, but pulls in {package}; see `cargo tree -p {0} -i {package}`", rule.name)
        })
        .collect();
    if rule.layer == Layer::Pure && reach.has_feature("tokio", "net") {
        violations.push(format!("`{}` {why}, but pulls in tokio with its feature net", rule.name));
    }
    violations
}

/// Checks what the whole workspace reaches: ring is its only cryptography.
pub(crate) fn check_workspace_reach(reach: &Reach) -> Vec<String> {
    OTHER_CRYPTOGRAPHY
        .iter()
        .filter(|package| reach.packages.contains(**package))
        .map(|package| {
            format!(
                "{package} is in the tree, but only ring may be; see `cargo tree --workspace -i {package}`"
            )
        })
        .collect()
}

mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::tree::Use;

    fn member(name: &str, uses: &[(&str, bool)]) -> Member {
        let uses = uses.iter().map(|(name, for_tests)| Use { name: (*name).into(), for_tests: *for_tests });
        Member { name: name.into(), uses: uses.collect() }
    }

    fn rule_of(name: &str) -> &'static Rule {
        RULES.iter().find(|rule| rule.name == name).expect("a row")
    }

    #[test]
    fn the_table_names_only_crates_that_have_a_row_and_each_once() {
        let names: BTreeSet<_> = RULES.iter().map(|rule| rule.name).collect();
        assert_eq!(names.len(), RULES.len());
        for rule in RULES {
            for used in rule.may_use {
                assert!(names.contains(used), "`{}` lists `{used}`, which has no row", rule.name);
            }
        }
    }

    #[test]
    fn nothing_shipped_may_use_what_is_not_shipped() {
        for rule in RULES.iter().filter(|rule| !["rig", "e2e", "bench"].contains(&rule.name)) {
            for unshipped in ["rig", "e2e", "bench"] {
                assert!(!rule.may_use.contains(&unshipped), "`{}` may use `{unshipped}`", rule.name);
            }
        }
    }

    #[test]
    fn the_intended_directions_pass() {
        let members = [
            member("slurm", &[]),
            member("render", &[("api", false), ("slurm", false), ("rig", true)]),
            member("soperator", &[("operator", false), ("exporter", false)]),
            member("e2e", &[("rig", true), ("engine", true)]),
        ];
        assert_eq!(check_direction(&members, RULES), Vec::<String>::new());
    }

    #[test]
    fn a_dependency_upwards_is_caught() {
        for (user, used) in [("slurm", "api"), ("render", "engine"), ("agent", "engine"), ("operator", "rig")]
        {
            let violations = check_direction(&[member(user, &[(used, false)])], RULES);
            assert_eq!(violations.len(), 1, "{violations:?}");
            assert!(
                violations[0].contains(&format!("`{user}` must not depend on `{used}`")),
                "{violations:?}"
            );
        }
    }

    #[test]
    fn tests_may_use_the_rig_but_nothing_else_from_above() {
        assert_eq!(check_direction(&[member("engine", &[("rig", true), ("engine", true)])], RULES).len(), 0);
        assert_eq!(check_direction(&[member("engine", &[("operator", true)])], RULES).len(), 1);
    }

    #[test]
    fn a_crate_without_a_row_is_caught() {
        let violations = check_direction(&[member("newcomer", &[])], RULES);
        assert_eq!(violations.len(), 1);
        assert!(violations[0].contains("`newcomer` has no row in RULES; add one"), "{violations:?}");
    }

    #[test]
    fn a_pure_crate_with_a_network_is_caught() {
        for name in ["slurm", "nodeset", "render", "gpu-scheduler"] {
            for line in ["kube-client v5.0.0", "hyper v1.8.0", "tokio feature \"net\""] {
                let violations = check_reach(rule_of(name), &Reach::parse(line));
                assert_eq!(violations.len(), 1, "{name} with {line}");
                assert!(violations[0].starts_with(&format!("`{name}` does no I/O")), "{violations:?}");
            }
            let harmless =
                "kube v5.0.0\nkube-core v5.0.0\nk8s-openapi v0.29.0\ntokio v1.54.1\ntokio feature \"sync\"";
            assert_eq!(check_reach(rule_of(name), &Reach::parse(harmless)).len(), 0);
        }
    }

    #[test]
    fn kubernetes_inside_slurm_pods_is_caught() {
        for name in ["agent", "spank"] {
            for package in KUBERNETES {
                let violations = check_reach(rule_of(name), &Reach::parse(&format!("{package} v1.0.0 (*)")));
                assert_eq!(violations.len(), 1, "{name} with {package}");
            }
            assert_eq!(
                check_reach(rule_of(name), &Reach::parse("hyper v1.8.0\ntokio feature \"net\"")).len(),
                0
            );
        }
    }

    #[test]
    fn cryptography_beside_ring_is_caught() {
        assert_eq!(check_workspace_reach(&Reach::parse("ring v0.17.14\nrustls v0.23.1")).len(), 0);
        assert_eq!(check_workspace_reach(&Reach::parse("ring v0.17.14\naws-lc-rs v1.15.0")).len(), 1);
    }

    #[test]
    fn the_engine_alone_may_name_kube_api() {
        assert!(may_name_kube_api("engine"));
        assert!(!may_name_kube_api("operator"));
    }
}
