//! Whole files as the operator will write them: golden text, and nothing that the check minds.

use super::*;
use crate::{HostList, Memory, NodeName, TimeLimit, key, value};

fn assert_file(kind: FileKind, conf: &ConfFile, golden: &str) {
    assert_eq!(conf.to_string(), golden);
    let document = read(kind.file_name(), golden, &mut NoIncludes);
    for version in SlurmVersion::ALL {
        let findings = Check::new(kind, version).run(&document);
        assert!(findings.is_empty(), "{version}: {findings:#?}");
    }
}

fn name(text: &str) -> Name {
    Name::new("f", text).unwrap()
}

#[test]
fn slurm_conf() {
    let mut conf = ConfFile::new();
    conf.comment(Comment::new("Made by soperator"))
        .set(key!("ClusterName"), name("c1"))
        .set(key!("SlurmctldHost"), Value::new("host", "c1-controller-0(c1-controller-svc)").unwrap())
        .set(key!("AuthType"), value!("auth/munge"))
        .set(key!("SlurmctldPort"), 6817_u16)
        .set_some(key!("Prolog"), None::<Value>)
        .set(key!("TaskPlugin"), value!("task/cgroup,task/affinity"))
        .set(key!("AuthAltParameters"), value!("jwt_key=/var/spool/slurmctld/jwt_hs256.key"));
    for number in 0..2 {
        let node = NodeName::new(format!("gpu-{number}")).unwrap();
        conf.push(NodeLine {
            host_names: Some(HostList::from_iter([&node])),
            address: Some(Value::new("address", format!("{node}.gpu.ns.svc")).unwrap()),
            real_memory: Some(Memory::from_bytes(64 << 30)),
            extra: user_pairs("spec.nodeConfig.static", "Gres=gpu:8 Weight=10", &["NodeName"]).unwrap(),
            ..NodeLine::new(SomeNodes::from(&node))
        });
    }
    conf.push(NodeSetLine {
        name: name("gpu"),
        members: Members::Nodes(HostList::parse("gpu-[0-1]").unwrap()),
    });
    conf.push(PartitionLine {
        default: Some(true),
        priority_tier: Some(10),
        max_time: Some(TimeLimit::Unlimited),
        state: Some(PartitionState::Up),
        ..PartitionLine::new(name("main"), PartitionNodes::sets(vec![name("gpu")]))
    });
    conf.append(&read(
        "customSlurmConfig",
        "# mine\nKillWait = 60\nMailDomain=\\\n  example.org\n",
        &mut NoIncludes,
    ));
    assert_file(
        FileKind::Slurm,
        &conf,
        "# Made by soperator\n\
         ClusterName=c1\n\
         SlurmctldHost=c1-controller-0(c1-controller-svc)\n\
         AuthType=auth/munge\n\
         SlurmctldPort=6817\n\
         TaskPlugin=task/cgroup,task/affinity\n\
         AuthAltParameters=jwt_key=/var/spool/slurmctld/jwt_hs256.key\n\
         NodeName=gpu-0 NodeHostname=gpu-0 NodeAddr=gpu-0.gpu.ns.svc RealMemory=65536 Gres=gpu:8 Weight=10\n\
         NodeName=gpu-1 NodeHostname=gpu-1 NodeAddr=gpu-1.gpu.ns.svc RealMemory=65536 Gres=gpu:8 Weight=10\n\
         NodeSet=gpu Nodes=gpu-[0-1]\n\
         PartitionName=main Nodes=gpu Default=YES PriorityTier=10 MaxTime=UNLIMITED State=UP\n\
         KillWait=60\n\
         MailDomain=example.org\n",
    );
}

#[test]
fn slurmdbd_conf() {
    let mut conf = ConfFile::new();
    conf.set(key!("DbdHost"), value!("c1-accounting-0"))
        .set(key!("DbdPort"), 6819_u16)
        .set(key!("StorageType"), value!("accounting_storage/mysql"))
        .set(key!("StoragePass"), Value::escaped("password", "a#b\\c d").unwrap())
        .set(key!("TrackWCKey"), false);
    assert_file(
        FileKind::Slurmdbd,
        &conf,
        "DbdHost=c1-accounting-0\n\
         DbdPort=6819\n\
         StorageType=accounting_storage/mysql\n\
         StoragePass=\"a\\#b\\\\c d\"\n\
         TrackWCKey=NO\n",
    );
}

#[test]
fn cgroup_conf() {
    let mut conf = ConfFile::new();
    conf.set(key!("CgroupPlugin"), value!("cgroup/v2"))
        .set(key!("CgroupMountpoint"), value!("/sys/fs/cgroup"))
        .set(key!("ConstrainCores"), true)
        .set(key!("ConstrainSwapSpace"), false)
        .set(key!("IgnoreSystemd"), true);
    assert_file(
        FileKind::Cgroup,
        &conf,
        "CgroupPlugin=cgroup/v2\n\
         CgroupMountpoint=/sys/fs/cgroup\n\
         ConstrainCores=YES\n\
         ConstrainSwapSpace=NO\n\
         IgnoreSystemd=YES\n",
    );
}

#[test]
fn mpi_conf() {
    let mut conf = ConfFile::new();
    conf.comment(Comment::new("PMIx config"))
        .set(key!("PMIxEnv"), value!("OMPI_MCA_btl_tcp_if_include=eth0"))
        .set(key!("PMIxTimeout"), 300_u32);
    assert_file(
        FileKind::Mpi,
        &conf,
        "# PMIx config\nPMIxEnv=OMPI_MCA_btl_tcp_if_include=eth0\nPMIxTimeout=300\n",
    );
}

#[test]
fn job_container_conf() {
    let mut conf = ConfFile::new();
    conf.set(key!("AutoBasePath"), true).push(
        Pairs::new(key!("BasePath"), value!("/var/spool/tmp")).with(key!("Dirs"), value!("/tmp,/dev/shm")),
    );
    assert_file(
        FileKind::JobContainer,
        &conf,
        "AutoBasePath=YES\nBasePath=/var/spool/tmp Dirs=/tmp,/dev/shm\n",
    );
}
