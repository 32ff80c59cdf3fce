//! The check, against slurmctld: what it calls an error slurmctld does not start with, and the other way round.

use anyhow::Result;
use rig::slurm::basic_lines;
use slurm::conf::{Check, FileKind, NoIncludes, Severity, read};

use crate::conf_controller::{Verdict, with_each};

const NODES: &str = "NodeName=n[1-3] NodeAddr=127.0.0.1 CPUs=2 RealMemory=2048\nNodeSet=s Nodes=n[1-2]\n\
                     PartitionName=p Nodes=ALL Default=YES\n";

/// Lines on which the check and slurmctld agree: both refuse them, or neither does.
const AGREED: &[&str] = &[
    "SlurmctldPrt=1",
    "MessageTimeout=abc",
    "MessageTimeout=70000",
    "MessageTimeout=-1",
    "MessageTimeout=1K",
    "MessageTimeout=",
    "MessageTimeout",
    "MessageTimeout=10 KillWait=3",
    "KillWait=1\nKillWait=2",
    "KillWait+=2",
    "MessageTimeout = 0x20",
    "UsePAM=maybe",
    "CoreSpecPlugin=core_spec/none",
    "SallocDefaultCommand=x",
    "AccountingStorageLoc=x",
    "GetEnvTimeout=2",
    "PriorityMaxAge=x",
    "SlurmctldDebug=loud",
    "SlurmctldPort=x-y",
    "NodeName=m1 NodeAddr=127.0.0.1 CPUs=x",
    "NodeName=m1 NodeAddr=127.0.0.1 CPU=2",
    "NodeName=m1 NodeAddr=127.0.0.1 CPUs=2 CPUs=4",
    "NodeName=m1 NodeAddr=127.0.0.1 RealMemory=16G",
    "NodeName=m1 NodeAddr=127.0.0.1 State=UP",
    "NodeName=m1 NodeAddr=127.0.0.1 State=CLOUD",
    "NodeName=n[2-4]",
    "NodeName=m[1-2] NodeAddr=m[1-3]",
    "PartitionName=q Nodes=n3,s",
    "PartitionName=q Nodes=zz",
    "PartitionName=q Nodes=n[1-2",
    "PartitionName=q Nodes=ALL,n1",
    "PartitionName=q Nodes=\"\"",
    "PartitionName=p",
    "PartitionName=q Default=maybe",
    "PartitionName=q State=NOPE",
    "PartitionName=q OverSubscribe=NOPE",
    "PartitionName=q MaxTime=abc",
    "PartitionName=q DefMemPerCPU=1G",
    "PartitionName=q Exclusive=NODE",
    "NodeSet=n1 Nodes=n1",
    "NodeSet=t Nodes=zz",
    "DownNodes=zz",
    "DownNodes=n1 State=DOWN Reason=\"bad disk\"",
    "MailDomain=\"a b",
    "MailDomain=a\\#b # c",
    "MailDomain=\\\n  here",
    " include x",
];

/// Lines that the check refuses and slurmctld takes, with something else in mind than whoever wrote them.
const WE_ARE_STRICTER: &[&str] = &["MailDomain=\"a\"b", "MailDomain=a\"b", "DownNodes=n1 State=NOPE"];

fn verdicts(lines: &'static [&'static str], assert: fn(&str, bool, &Verdict)) -> Result<()> {
    with_each(|controller, version| {
        for line in lines {
            let text = format!("{}{NODES}{line}\n", basic_lines());
            let findings =
                Check::new(FileKind::Slurm, version).run(&read("slurm.conf", &text, &mut NoIncludes));
            let refused = findings.iter().any(|finding| finding.severity == Severity::Error);
            assert(line, refused, &controller.start(&[("slurm.conf", &text)])?);
        }
        Ok(())
    })
}

#[test]
fn the_check_and_slurmctld_refuse_the_same_lines() -> Result<()> {
    verdicts(AGREED, |line, refused, verdict| {
        assert_eq!(refused, matches!(verdict, Verdict::Refused(_)), "{line:?}: {verdict:?}");
    })
}

#[test]
fn where_the_check_is_stricter_slurmctld_guesses() -> Result<()> {
    verdicts(WE_ARE_STRICTER, |line, refused, verdict| {
        assert!(refused && matches!(verdict, Verdict::Accepted), "{line:?}: {verdict:?}");
    })
}
