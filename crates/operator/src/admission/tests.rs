//! Each check on a whole object: an example, spoilt in one place.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::{Severity, check};

fn examples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/api")
}

fn documents(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap();
    serde_saphyr::from_multiple(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files(&path, found);
        } else if path.extension().is_some_and(|end| end == "yaml") {
            found.push(path);
        }
    }
}

fn problems(object: &Value) -> Vec<String> {
    let text = |key: &str| object[key].as_str().unwrap_or_default();
    let shown = |problem: super::Problem| {
        let severity = if problem.severity == Severity::Warning { "warning: " } else { "" };
        format!("{severity}{problem}")
    };
    check(text("apiVersion"), text("kind"), object).into_iter().map(shown).collect()
}

#[test]
fn every_example_is_taken_without_a_word() {
    let mut found = Vec::new();
    files(&examples(), &mut found);
    assert!(found.len() >= 18, "{found:?}");
    for path in found {
        for object in documents(&path) {
            assert_eq!(problems(&object), Vec::<String>::new(), "{}", path.display());
        }
    }
}

/// Sets one value, making the objects on the way to it.
fn set(object: &mut Value, path: &str, value: Value) {
    let mut here = object;
    for part in path.split('.') {
        here = match part.parse::<usize>() {
            Ok(index) => &mut here[index],
            Err(_) => &mut here[part],
        };
    }
    *here = value;
}

/// Spoils the full example of a kind, and expects exactly this one problem.
fn expect(example: &str, changes: &[(&str, Value)], expected: &str) {
    let mut object = documents(&examples().join(example)).remove(0);
    for (path, value) in changes {
        set(&mut object, path, value.clone());
    }
    let found = problems(&object);
    assert!(
        found.len() == 1 && found[0].starts_with(expected),
        "{changes:?}:\n{found:#?}\nbut expected\n{expected}"
    );
}

#[test]
fn mistakes_in_a_slurm_cluster_are_told_with_their_place() {
    let example = "slurm.nebius.ai/full/slurmcluster.yaml";
    let partitions = "spec.partitionConfiguration";
    for (path, value, expected) in [
        (
            "spec.slurmNodes.login.sshd.resources",
            json!({ "cpu": "v" }),
            "spec.slurmNodes.login.sshd.resources.cpu: \"v\" is no quantity",
        ),
        (
            "spec.slurmNodes.worker.volumes.sharedMemorySize",
            json!("64GB"),
            "spec.slurmNodes.worker.volumes.sharedMemorySize: \"64GB\" is no quantity",
        ),
        (
            "spec.populateJail.k8sNodeFilterName",
            json!("nowhere"),
            "spec.populateJail.k8sNodeFilterName: spec.k8sNodeFilters has no entry \"nowhere\"",
        ),
        (
            "spec.slurmNodes.controller.volumes.jail",
            json!({ "volumeSourceName": "gone" }),
            "spec.slurmNodes.controller.volumes.jail.volumeSourceName: spec.volumeSources has no entry \"gone\"",
        ),
        (
            "spec.customSlurmConfig",
            json!("MaxJobCount=5\nMinJobAge=old\n"),
            "spec.customSlurmConfig: line 2: MinJobAge: ",
        ),
        (
            "spec.customSlurmConfig",
            json!("MaxJobCont=5"),
            "warning: spec.customSlurmConfig: line 1: unknown key MaxJobCont; did you mean MaxJobCount?",
        ),
        (
            "spec.customCgroupConfig",
            json!("ConstrainCores=perhaps"),
            "spec.customCgroupConfig: line 1: ConstrainCores: ",
        ),
        (
            "spec.slurmConfig.prolog",
            json!("/x\nSlurmUser=root"),
            "spec.slurmConfig.prolog: text with '\\n' cannot be part",
        ),
        ("spec.mpiConfig.pmixEnv", json!("A=1 # no"), "spec.mpiConfig.pmixEnv: text with '#' cannot be part"),
        (
            "spec.healthCheckConfig.healthCheckProgram",
            json!("/x\"y"),
            "spec.healthCheckConfig.healthCheckProgram: text with",
        ),
        (
            "spec.workerFeatures",
            json!([{ "name": "a b", "hostlistExpr": "worker-0" }]),
            "spec.workerFeatures[0].name: a name with a blank",
        ),
        (
            "spec.workerFeatures",
            json!([{ "name": "a", "hostlistExpr": "worker-[0-" }]),
            "spec.workerFeatures[0].hostlistExpr: column 8",
        ),
        (
            "spec.plugStackConfig.customPlugins",
            json!([{ "required": true, "path": "/x.so", "arguments": { "a": "b c" } }]),
            "spec.plugStackConfig.customPlugins[0].arguments.a: ",
        ),
        (
            "spec.slurmNodes.accounting.slurmdbdConfig.purgeJobAfter",
            json!("1year"),
            "spec.slurmNodes.accounting.slurmdbdConfig.purgeJobAfter: \"1year\" is no time",
        ),
        (
            "spec.slurmNodes.accounting.slurmConfig.priorityWeightTRES",
            json!("CPU=1\nX=2"),
            "spec.slurmNodes.accounting.slurmConfig.priorityWeightTRES: ",
        ),
        (
            "spec.slurmNodes.login.sshdServiceLoadBalancerSourceRanges",
            json!(["10.0.0.0/8", "10.0.0.0/33"]),
            "spec.slurmNodes.login.sshdServiceLoadBalancerSourceRanges[1]: ",
        ),
        (
            "spec.slurmNodes.login.sshdServiceLoadBalancerIP",
            json!("10.0.0"),
            "spec.slurmNodes.login.sshdServiceLoadBalancerIP: ",
        ),
        (
            "spec.slurmNodes.exporter.podMonitorConfig.interval",
            json!("often"),
            "spec.slurmNodes.exporter.podMonitorConfig.interval: \"often\" is no duration",
        ),
        (
            "spec.slurmNodes.exporter.podMonitorConfig",
            json!({ "jobLabel": "x", "interval": "10s", "scrapeTimeout": "20s" }),
            "spec.slurmNodes.exporter.podMonitorConfig.scrapeTimeout: is longer than the interval",
        ),
        (
            "spec.slurmNodes.worker.slurmNodeExtra",
            json!("a\nb"),
            "spec.slurmNodes.worker.slurmNodeExtra: has several lines",
        ),
        (
            "spec.partitionConfiguration.partitions.0.config",
            json!("MaxTime=soon"),
            "spec.partitionConfiguration.partitions[0].config: MaxTime: ",
        ),
        (
            "spec.partitionConfiguration.partitions.0.config",
            json!("State=UP\nSlurmUser=root"),
            "spec.partitionConfiguration.partitions[0].config: has several lines",
        ),
        (
            "spec.partitionConfiguration.partitions.0.name",
            json!("a,b"),
            "spec.partitionConfiguration.partitions[0].name: text with ','",
        ),
    ] {
        expect(
            example,
            &[("spec.partitionConfiguration.configType", json!("structured")), (path, value)],
            expected,
        );
    }
    let custom =
        json!({ "configType": "custom", "rawConfig": ["PartitionName=a Nodes=ALL", "PartitionName=a"] });
    expect(
        example,
        &[(partitions, custom)],
        "spec.partitionConfiguration.rawConfig[1]: PartitionName a was defined before",
    );
    let unused =
        json!({ "configType": "default", "rawConfig": ["PartitionName=a Nodes=[", "PartitionName=a"] });
    let mut object = documents(&examples().join(example)).remove(0);
    set(&mut object, partitions, unused);
    assert_eq!(problems(&object), Vec::<String>::new(), "text that is not used is left alone");
}

#[test]
fn parts_that_are_turned_off_may_name_what_is_not_there() {
    let mut object = documents(&examples().join("slurm.nebius.ai/full/slurmcluster.yaml")).remove(0);
    set(&mut object, "spec.slurmNodes.rest.k8sNodeFilterName", json!("nowhere"));
    set(&mut object, "spec.slurmNodes.rest.enabled", json!(true));
    assert_eq!(problems(&object).len(), 1);
    set(&mut object, "spec.slurmNodes.rest.enabled", json!(false));
    assert_eq!(problems(&object), Vec::<String>::new());
}

#[test]
fn mistakes_in_a_node_set_are_told_with_their_place() {
    let example = "slurm.nebius.ai/full/nodeset.yaml";
    let long = "n".repeat(60);
    for (path, value, expected) in [
        (
            "metadata.annotations",
            json!({ "slurm.nebius.ai/parental-cluster-ref": "other" }),
            "metadata.annotations[slurm.nebius.ai/parental-cluster-ref]: \"other\" is another cluster than spec.clusterName",
        ),
        (
            "spec.slurmd.resources.cpu",
            json!("v"),
            "spec.slurmd.resources.cpu: \"v\" is no quantity; write a number with a unit",
        ),
        (
            "spec.slurmd.volumes.spool",
            json!({ "emptyDir": { "sizeLimit": "8 Gi" } }),
            "spec.slurmd.volumes.spool.emptyDir.sizeLimit: ",
        ),
        (
            "spec.nodeConfig.static",
            json!("Weight=2\nSlurmUser=root"),
            "spec.nodeConfig.static: has several lines; write one",
        ),
        (
            "spec.nodeConfig.static",
            json!("NodeName=x"),
            "spec.nodeConfig.static: NodeName is set by the operator",
        ),
        ("spec.nodeConfig.static", json!("CPUs=many"), "spec.nodeConfig.static: CPUs: "),
        (
            "spec.nodeConfig.static",
            json!("Sokets=2"),
            "warning: spec.nodeConfig.static: unknown key Sokets; did you mean Sockets?",
        ),
        ("spec.nodeConfig.dynamic", json!("a\nb"), "spec.nodeConfig.dynamic: has several lines"),
        ("spec.nodeConfig.features", json!(["a", "b,c"]), "spec.nodeConfig.features[1]: text with ','"),
        (
            "spec.nodeConfig.gresConfig",
            json!(["Name=gpu File=/dev/nvidia0", "File=/dev/nvidia0"]),
            "spec.nodeConfig.gresConfig[1]: begins with File",
        ),
        (
            "spec.nodeConfig.gresConfig",
            json!(["NodeName=a Name=gpu"]),
            "spec.nodeConfig.gresConfig[0]: NodeName is set by the operator",
        ),
        ("spec.topology.fabric", json!("a b"), "spec.topology.fabric: a name with a blank"),
        ("spec.drainOnDelete.deadline", json!("99999999h"), "spec.drainOnDelete.deadline: "),
        ("metadata.name", json!(long), "metadata.name: has 60 characters; with so many replicas at most 59"),
    ] {
        expect(example, &[(path, value)], expected);
    }
}

#[test]
fn mistakes_in_slinkys_kinds_are_told_with_their_place() {
    let example = "slinky.slurm.net/full/cluster.yaml";
    for server in ["http://user:password@a:6820", "http://a:6820?x=1", "http://a:port", "http://"] {
        expect(example, &[("spec.server", json!(server))], "spec.server: is no base URL of a slurmrestd");
    }
    let example = "slinky.slurm.net/full/nodeset.yaml";
    for (path, value, expected) in [
        (
            "spec.template.spec.containers.0.resources",
            json!({ "limits": { "memory": "1GB" } }),
            "spec.template.spec.containers[0].resources.limits.memory: ",
        ),
        (
            "spec.selector.matchExpressions",
            json!([{ "key": "nowhere", "operator": "Exists" }]),
            "spec.selector.matchExpressions[0]: the labels in spec.template",
        ),
        ("metadata.name", json!("n".repeat(62)), "metadata.name: has 62 characters"),
    ] {
        expect(example, &[(path, value)], expected);
    }
}

#[test]
fn mistakes_in_an_active_check_are_told_with_their_place() {
    let example = "slurm.nebius.ai/full/activecheck.yaml";
    for (changes, expected) in [
        (vec![("spec.schedule", json!("* * * *"))], "spec.schedule: a schedule has five fields"),
        (
            vec![("metadata.name", json!("me")), ("spec.dependsOn", json!(["me"]))],
            "spec.dependsOn[0]: the check would wait for itself",
        ),
        (vec![("spec.dependsOn", json!(["a", "a"]))], "spec.dependsOn[1]: a comes twice"),
        (
            vec![("spec.slurmJobSpec.sbatchScript", json!("echo 1"))],
            "spec.slurmJobSpec.sbatchScript: sbatch takes only",
        ),
    ] {
        expect(example, &changes, expected);
    }
}

#[test]
fn mistakes_in_the_other_kinds_are_told_with_their_place() {
    let example = "slurm.nebius.ai/full/jailedconfig.yaml";
    let item = |path: &str| json!({ "key": "k", "path": path });
    for (paths, expected) in [
        (["/etc/a", "/etc/a"], "spec.items[1].path: is the file of spec.items[0] too"),
        (["/etc/a", "/etc/a/b"], "spec.items[1].path: one of this and spec.items[0].path"),
        (["/etc/a/b", "/etc/a"], "spec.items[1].path: one of this and spec.items[0].path"),
        (["/etc/a", "/etc/b/"], "spec.items[1].path: \"/etc/b/\" is no path of a file"),
    ] {
        expect(example, &[("spec.items", json!(paths.map(item)))], expected);
    }
    let example = "slurm.nebius.ai/full/nodeconfigurator.yaml";
    let bad = json!({ "requests": { "cpu": "one" } });
    expect(
        example,
        &[("spec.rebooter.resources", bad)],
        "spec.rebooter.resources.requests.cpu: \"one\" is no quantity",
    );
}

fn switch(name: &str, children: &[&str]) -> Value {
    if children.is_empty() {
        json!({ "name": name, "nodeNames": [format!("node-{name}")] })
    } else {
        json!({ "name": name, "children": children })
    }
}

#[test]
fn short_texts_for_many_nodes_are_answered_at_once() {
    // Of this thread alone: other programs may keep the machine busy.
    let cpu_seconds = || {
        let told = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
        told.split(' ').next().unwrap().parse::<u64>().unwrap() / 1_000_000_000
    };
    let start = cpu_seconds();
    let many = "a[0-65000],b[0-65000],c[0-65000]";
    let raw: Vec<String> = (0..256).map(|index| format!("PartitionName=p{index} Nodes={many}")).collect();
    let mut object = documents(&examples().join("slurm.nebius.ai/full/slurmcluster.yaml")).remove(0);
    set(&mut object, "spec.partitionConfiguration", json!({ "configType": "custom", "rawConfig": raw }));
    assert_eq!(problems(&object), Vec::<String>::new());
    let lists: Vec<String> = (0..1024).map(|index| format!("n{index}-[0-65000]")).collect();
    let topology = json!({
        "apiVersion": "slurm.nebius.ai/v1alpha1", "kind": "TopologyConfig", "metadata": { "name": "a" },
        "spec": { "clusterName": "a", "switches": [{ "name": "s", "nodeNames": lists }] },
    });
    let found = problems(&topology);
    assert!(found.len() == 1 && found[0].contains("more than 200000 nodes"), "{found:?}");
    let took = cpu_seconds() - start;
    assert!(took < 5, "{took} s");
}

#[test]
fn mistakes_in_a_topology_are_told_with_their_place() {
    let topology = |spec: Value| {
        json!({
            "apiVersion": "slurm.nebius.ai/v1alpha1", "kind": "TopologyConfig", "metadata": { "name": "a" }, "spec": spec,
        })
    };
    let tree = |switches: Vec<Value>| topology(json!({ "clusterName": "a", "switches": switches }));
    let block = |blocks: Value, sizes: Value| {
        topology(json!({ "clusterName": "a", "plugin": "block", "blocks": blocks, "blockSizes": sizes }))
    };
    let good = tree(vec![switch("root", &["a", "b"]), switch("a", &[]), switch("b", &[])]);
    assert_eq!(problems(&good), Vec::<String>::new());
    for (object, expected) in [
        (tree(vec![switch("root", &["a"])]), "spec.switches[0].children[0]: there is no switch \"a\""),
        (
            tree(vec![switch("r", &["a"]), switch("s", &["a"]), switch("a", &[])]),
            "spec.switches[1].children[0]: a is below r already",
        ),
        (
            tree(vec![switch("a", &["b"]), switch("b", &["a"])]),
            "spec.switches[0].name: a is below itself (the circle is a, b)",
        ),
        (tree(vec![switch("a", &["a"])]), "spec.switches[0].name: a is below itself (the circle is a)"),
        // A branch that hangs on a circle comes first.
        (
            tree(vec![switch("x", &[]), switch("a", &["b", "x"]), switch("b", &["a"])]),
            "spec.switches[1].name: a is below itself",
        ),
        (tree(vec![switch("a b", &[])]), "spec.switches[0].name: a name with a blank"),
        (
            tree(vec![switch("unknown", &[])]),
            "spec.switches[0].name: is the name for nodes without a place too",
        ),
        (
            tree(vec![json!({ "name": "a", "nodeNames": ["n-[0-"] })]),
            "spec.switches[0].nodeNames[0]: column 3",
        ),
        (
            tree(vec![
                json!({ "name": "a", "nodeNames": ["n-[0-3]"] }),
                json!({ "name": "b", "nodeNames": ["n-[3-5]"] }),
            ]),
            "spec.switches[1].nodeNames[0]: n-3 is in spec.switches[0].nodeNames[0] too",
        ),
        (
            tree(vec![json!({ "name": "a", "nodeSelector": { "a b": "c" } })]),
            "spec.switches[0].nodeSelector[a b]: ",
        ),
        (
            block(json!([{ "name": "a", "nodeNames": ["n-[0-3]"] }]), json!([4, 12])),
            "spec.blockSizes[1]: 12 is not 4 times a power of two; write for example 16",
        ),
        (
            topology(json!({ "clusterName": "a", "nodeLabels": { "prefix": "a/b" } })),
            "spec.nodeLabels.prefix: \"a/b\"",
        ),
        (
            topology(json!({ "clusterName": "a", "nodeLabels": { "tiers": ["x/y"] } })),
            "spec.nodeLabels.tiers[0]: \"x/y\"",
        ),
    ] {
        let found = problems(&object);
        assert!(found.len() == 1 && found[0].starts_with(expected), "{found:#?}\nbut expected\n{expected}");
    }
}
