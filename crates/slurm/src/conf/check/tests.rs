use proptest::prelude::*;

use super::*;
use crate::conf::{NoIncludes, read};

fn findings(kind: FileKind, version: SlurmVersion, text: &str) -> Vec<String> {
    let document = read("f", text, &mut NoIncludes);
    Check::new(kind, version).run(&document).iter().map(ToString::to_string).collect()
}

/// The findings for lines behind a good slurm.conf of five lines.
fn with_base(lines: &str) -> Vec<String> {
    const BASE: &str = "ClusterName=c\nSlurmctldHost=h(10.0.0.1)\nNodeName=n[1-3] CPUs=2 RealMemory=2048\n\
                        NodeSet=s Nodes=n[1-2]\nPartitionName=p Nodes=ALL Default=YES\n";
    findings(FileKind::Slurm, SlurmVersion::V26_05, &format!("{BASE}{lines}"))
}

#[test]
fn a_good_file_has_no_findings() {
    for lines in [
        "",
        "slurmctldport=6817-6820\nSlurmctldDebug=Debug2\nMessageTimeout = 0x20\nMaxJobCount=1K\nUsePAM=0",
        "PartitionName=q Nodes=s,n3 MaxTime=1-0 State=DRAIN OverSubscribe=FORCE:2 MaxNodes=UNLIMITED",
        "PartitionName=DEFAULT MaxTime=10\nPartitionName=q,r Nodes=\"\"\nNodeName=DEFAULT CPUs=2",
        "NodeName=m[1-2] NodeAddr=x[3-4] Port=[7000-7001] Feature=a,b State=CLOUD",
        "DownNodes=n1 State=DOWN Reason=\"bad disk\"\nPriorityMaxAge=7-0\nProlog=/a\nProlog=/b\nSlurmctldHost=h2",
    ] {
        assert_eq!(with_base(lines), [] as [&str; 0], "{lines}");
    }
}

/// The same lines are given to slurmctld in the tests on real daemons.
#[test]
fn bad_lines_are_told_with_file_and_line() {
    for (lines, finding) in [
        ("SlurmctldPrt=1", "f:6: unknown key SlurmctldPrt; did you mean SlurmctldPort?"),
        ("Colour=1", "f:6: unknown key Colour"),
        ("MessageTimeout=abc", "f:6: MessageTimeout: \"abc\" is no number"),
        ("MessageTimeout=70000", "f:6: MessageTimeout: 70000 is more than 65535"),
        ("MessageTimeout=-1", "f:6: MessageTimeout: \"-1\" is no number"),
        ("MessageTimeout=1K", "f:6: MessageTimeout: \"1K\" is no number"),
        ("MessageTimeout=09", "f:6: MessageTimeout: \"09\" is no number"),
        (
            "MessageTimeout=10 KillWait=3",
            "f:6: KillWait must be on a line of its own, not behind MessageTimeout",
        ),
        ("KillWait=1\nKillWait=2", "f:7: warning: KillWait was set before; Slurm takes the last"),
        ("KillWait+=2", "f:6: warning: KillWait+= means the same as KillWait= to Slurm"),
        ("UsePAM=maybe", "f:6: UsePAM: \"maybe\" is none of YES, NO, UP, DOWN, TRUE, FALSE, 1, 0"),
        ("CoreSpecPlugin=x", "f:6: warning: CoreSpecPlugin has no effect in Slurm 26.05; remove it"),
        (
            "SallocDefaultCommand=x",
            "f:6: SallocDefaultCommand was removed; Slurm 26.05 does not start with it",
        ),
        (
            "AccountingStorageLoc=x",
            "f:6: Slurm 26.05 does not know the key AccountingStorageLoc; another version does",
        ),
        (
            "PriorityMaxAge=x",
            "f:6: PriorityMaxAge: \"x\" is no time limit: write minutes, MM:SS, HH:MM:SS, D-HH, D-HH:MM, D-HH:MM:SS or UNLIMITED",
        ),
        ("NodeName=m1 CPUs=x", "f:6: CPUs: \"x\" is no number"),
        ("NodeName=m1 CPU=2", "f:6: unknown key CPU; did you mean CPUs?"),
        ("NodeName=m1 CPUs=2 CPUs=4", "f:6: warning: CPUs comes twice; Slurm takes the last"),
        ("NodeName=m1 RealMemory=16G", "f:6: RealMemory: \"16G\" is no number"),
        (
            "NodeName=m1 State=UP",
            "f:6: State: \"UP\" is none of CLOUD, DOWN, DRAIN, DRAINED, FAIL, FAILING, FUTURE, IDLE, UNKNOWN",
        ),
        ("NodeName=m[1-2", "f:6: NodeName: column 2: this `[` is never closed"),
        ("NodeName=n[2-4]", "f:6: NodeName n[2-3] was defined before"),
        ("NodeName=m[1-2] NodeAddr=m[1-3]", "f:6: NodeAddr stands for 3, but NodeName for 2 nodes"),
        ("PartitionName=q Nodes=n3,zz,s", "f:6: Nodes: there is no node and no node set zz"),
        ("PartitionName=q Nodes=n[1-2", "f:6: Nodes: column 2: this `[` is never closed"),
        (
            "PartitionName=q Nodes=ALL,n1",
            "f:6: Nodes: column 1: `ALL` is no node name: Slurm uses this word for something else",
        ),
        ("PartitionName=p", "f:6: PartitionName p was defined before, at f:5"),
        (
            "PartitionName=q Default=maybe",
            "f:6: Default: \"maybe\" is none of YES, NO, UP, DOWN, TRUE, FALSE, 1, 0",
        ),
        ("PartitionName=q State=NOPE", "f:6: State: \"NOPE\" is none of UP, DOWN, DRAIN, INACTIVE"),
        (
            "PartitionName=q OverSubscribe=NOPE",
            "f:6: OverSubscribe: \"NOPE\" is none of NO, YES, FORCE, EXCLUSIVE",
        ),
        ("NodeSet=n1 Nodes=n1", "f:6: NodeSet n1 has the name of a node"),
        ("NodeSet=t Nodes=zz", "f:6: warning: NodeSet t: there is no node zz"),
        ("NodeSet=t", "f:6: warning: NodeSet t has neither Nodes nor Feature"),
        ("DownNodes=zz", "f:6: warning: DownNodes: there is no node zz"),
        ("MailDomain=\"a b", "f:6: the quote before the value of MailDomain is never closed"),
    ] {
        assert_eq!(with_base(lines), [finding], "{lines}");
    }
}

#[test]
fn versions_differ() {
    let old = |text: &str| findings(FileKind::Cgroup, SlurmVersion::V24_11, text);
    let new = |text: &str| findings(FileKind::Cgroup, SlurmVersion::V26_05, text);
    assert_eq!(new("CgroupSlice=x"), [] as [&str; 0]);
    assert_eq!(
        old("CgroupSlice=x"),
        ["f:1: Slurm 24.11 does not know the key CgroupSlice; another version does"]
    );
    assert_eq!(
        new("CgroupAutomount=yes"),
        ["f:1: warning: CgroupAutomount has no effect in Slurm 26.05; remove it"]
    );
}

#[test]
fn findings_come_in_the_order_of_the_lines() {
    let found = findings(FileKind::Slurm, SlurmVersion::V26_05, "PartitionName=p Nodes=zz\nx\nNope=1");
    let lines: Vec<&str> = found.iter().map(|finding| finding.split(": ").next().unwrap()).collect();
    assert_eq!(lines, ["f:1", "f:2", "f:3", "f:3", "f:3"], "{found:?}");
}

#[test]
fn a_part_misses_nothing_that_may_be_elsewhere() {
    let document = read("f", "PartitionName=q Nodes=zz\nKillWai=1", &mut NoIncludes);
    let check = Check { part: true, ..Check::new(FileKind::Slurm, SlurmVersion::V26_05) };
    let found: Vec<String> = check.run(&document).iter().map(ToString::to_string).collect();
    assert_eq!(found, ["f:2: unknown key KillWai; did you mean KillWait?"]);
    let whole = findings(FileKind::Slurm, SlurmVersion::V26_05, "KillWait=1");
    assert_eq!(whole, ["f:1: ClusterName is missing", "f:1: SlurmctldHost is missing"]);
}

#[test]
fn each_file_has_its_own_keys() {
    for (kind, good, bad) in [
        (FileKind::Slurmdbd, "DbdHost=x\nStoragePort=3306\nDebugLevel=verbose", "StoragePort=x"),
        (FileKind::Cgroup, "ConstrainCores=yes\nAllowedRAMSpace=98.5", "AllowedRAMSpace=x"),
        (
            FileKind::Gres,
            "AutoDetect=nvml\nNodeName=a[1-2] Name=gpu File=/dev/nvidia[0-3]\nName=mps Count=4",
            "Name=gpu Fil=/x",
        ),
        (FileKind::Mpi, "PMIxEnv=A=1\nPMIxTimeout=5", "PMIxTimeout=x"),
        (FileKind::JobContainer, "AutoBasePath=true\nBasePath=/x Dirs=/tmp,/dev/shm", "AutoBasePath=x"),
        (FileKind::Topology, "SwitchName=a Nodes=n[1-2]\nSwitchName=b Switches=a", "SwitchName=a Node=n1"),
    ] {
        for version in SlurmVersion::ALL {
            assert_eq!(findings(kind, version, good), [] as [&str; 0], "{kind}");
            assert!(!findings(kind, version, bad).is_empty(), "{kind} {bad}");
        }
    }
}

#[test]
fn a_topology_is_a_tree_or_blocks() {
    let old = |text: &str| findings(FileKind::Topology, SlurmVersion::V24_11, text);
    for (text, finding) in [
        ("SwitchName=a Nodes=n1\nSwitchName=a Nodes=n2", "f:2: SwitchName a was defined before, at f:1"),
        ("SwitchName=a", "f:1: switch a has neither Nodes nor Switches"),
        (
            "SwitchName=r Switches=a[1-2]\nSwitchName=a1 Nodes=n1",
            "f:1: switch r has a2 below it, which is not there",
        ),
        (
            "SwitchName=a Nodes=n1 Switches=b\nSwitchName=b Nodes=n2",
            "f:1: switch a has both Nodes and Switches; Slurm takes one of them",
        ),
        ("SwitchName=a Switches=b\nSwitchName=b Switches=a", "f:1: switch a is below itself"),
        (
            "SwitchName=a Switches=c\nSwitchName=b Switches=c\nSwitchName=c Nodes=n1",
            "f:2: switch c is below two switches",
        ),
        ("BlockName=a Nodes=n1\nSwitchName=b Nodes=n1", "f:2: switches and blocks cannot be in one file"),
        ("BlockName=a Nodes=n1\nBlockName=a Nodes=n2", "f:2: BlockName a was defined before, at f:1"),
        ("BlockSizes=3,5", "f:1: BlockSizes: block size 5 is not 3 times a power of two"),
        ("BlockSizes=x", "f:1: BlockSizes: \"x\" is no list of numbers"),
        (
            "BlockName=a Nodes=n1\nBlockSizes=18",
            "f:1: block a has 1 nodes; Slurm 24.11 wants at least the smallest block size, 18",
        ),
    ] {
        assert_eq!(old(text), [finding], "{text}");
    }
    assert_eq!(
        findings(FileKind::Topology, SlurmVersion::V26_05, "BlockName=a Nodes=n1\nBlockSizes=18"),
        [] as [&str; 0]
    );
    assert_eq!(findings(FileKind::Topology, SlurmVersion::V26_05, "SwitchName=a"), [] as [&str; 0]);
}

#[test]
fn nodes_of_other_files_are_looked_up_in_slurm_conf() {
    let slurm = read("slurm.conf", "NodeName=n[1-3]", &mut NoIncludes);
    let nodes = DefinedNodes::new(&slurm);
    let check = |kind, text| {
        let check = Check::new(kind, SlurmVersion::V26_05).with_nodes(&nodes);
        check.run(&read("f", text, &mut NoIncludes)).iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(
        check(FileKind::Gres, "NodeName=n[3-5] Name=gpu"),
        ["f:1: warning: NodeName: slurm.conf has no node n[4-5]"]
    );
    assert_eq!(
        check(FileKind::Topology, "SwitchName=a Nodes=n[1-4]"),
        ["f:1: warning: Nodes: slurm.conf has no node n4"]
    );
}

#[test]
fn a_crowd_of_nodes_is_refused_in_time() {
    let lines: String = (0..2000).map(|n| format!("NodeName=a{n}x[1-65536]\n")).collect();
    let found = with_base(&lines);
    assert!(found[0].ends_with("the list has more than 3389 names"), "{}", found[0]);
}

proptest! {
    #[test]
    fn no_file_is_too_strange(text in "((NodeName|PartitionName|Nodes|NodeSet|SwitchName|Switches|BlockSizes|Feature|[a-z]{1,3})|[ =,\\[\\]0-9\n-]){0,40}|\\PC*") {
        for kind in FileKind::ALL {
            let _ = findings(kind, SlurmVersion::V26_05, &text);
        }
    }
}
