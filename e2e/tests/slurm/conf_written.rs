//! What the writers write is what slurmctld understands: generated slurm.confs, and what scontrol then shows.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use rig::slurm::basic_lines;
use slurm::conf::{
    Check, ConfFile, DownNodesLine, FileKind, Gres, GresLine, Members, Name, NoIncludes, NodeLine,
    NodeLineState, NodeSetLine, OverSubscribe, PartitionLine, PartitionNodes, PartitionState, PreemptMode,
    SlurmVersion, SomeNodes, Value, read,
};
use slurm::{HostList, Memory, NodeName, TimeLimit, key, value};

use crate::conf_controller::{Controller, Shown, with_each};

/// Numbers that are always the same.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }

    fn small(&mut self, limit: u16) -> u16 {
        u16::try_from(self.below(u64::from(limit))).unwrap_or(0)
    }

    fn pick<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        let index = usize::try_from(self.below(items.len() as u64)).unwrap_or(0);
        &items[index]
    }

    /// Any printable text that can be written.
    fn text(&mut self) -> Result<Value> {
        loop {
            let length = 1 + self.below(12);
            let text: String =
                (0..length).filter_map(|_| u8::try_from(33 + self.below(94)).ok()).map(char::from).collect();
            let text = if self.below(2) == 0 { text } else { format!("{text} and {text}") };
            if !text.contains('"') {
                return Ok(Value::escaped("text", text)?);
            }
        }
    }
}

/// A configuration, and what it means.
struct Meant {
    conf: ConfFile,
    gres: ConfFile,
    settings: BTreeMap<&'static str, String>,
    nodes: Vec<NodeLine>,
    names: Vec<HostList>,
    partitions: Vec<(PartitionLine, HostList)>,
}

fn name(text: &str) -> Result<Name> {
    Ok(Name::new("name", text)?)
}

fn generate(seed: u64) -> Result<Meant> {
    let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let mut conf = ConfFile::new();
    conf.append(&read("basic", &basic_lines(), &mut NoIncludes));
    let mut settings = BTreeMap::new();
    let mut set = |conf: &mut ConfFile, key: slurm::conf::Key, name: &'static str, value: Value| {
        settings.insert(name, value.as_str().to_owned());
        conf.set(key, value);
    };
    set(&mut conf, key!("KillWait"), "KillWait", random.small(300).into());
    set(&mut conf, key!("MessageTimeout"), "MessageTimeout", (10 + random.small(90)).into());
    set(&mut conf, key!("MaxArraySize"), "MaxArraySize", (1000 + random.small(1000)).into());
    set(&mut conf, key!("UnkillableStepTimeout"), "UnkillableStepTimeout", (600 + random.small(90)).into());
    set(
        &mut conf,
        key!("SchedulerParameters"),
        "SchedulerParameters",
        value!("nohold_on_prolog_fail,extra_constraints"),
    );
    set(
        &mut conf,
        key!("HealthCheckNodeState"),
        "HealthCheckNodeState",
        Value::list([value!("CYCLE"), value!("IDLE")]),
    );
    set(&mut conf, key!("PreemptType"), "PreemptType", value!("preempt/partition_prio"));
    set(&mut conf, key!("PreemptMode"), "PreemptMode", value!("REQUEUE"));
    set(&mut conf, key!("GresTypes"), "GresTypes", value!("gpu"));
    for (key, name) in
        [(key!("MailDomain"), "MailDomain"), (key!("InteractiveStepOptions"), "InteractiveStepOptions")]
    {
        let text = random.text()?;
        set(&mut conf, key, name, text);
    }

    let (mut nodes, mut names) = (Vec::new(), Vec::new());
    let mut gres = ConfFile::new();
    for prefix in ["cpu-", "gpu", "r1n"] {
        let (first, width) = (random.below(20), usize::from(1 + random.small(3)));
        let last = first + 1 + random.below(6);
        let list: HostList = (first..=last)
            .map(|n| NodeName::new(format!("{prefix}{n:0width$}")))
            .collect::<Result<_, _>>()?;
        let (sockets, cores, threads) = (1 + random.small(2), 1 + random.small(4), 1 + random.small(2));
        let mut line = NodeLine {
            address: Some(value!("127.0.0.1")),
            cpus: Some(u32::from(sockets * cores * threads)),
            sockets: Some(sockets),
            cores_per_socket: Some(cores),
            threads_per_core: Some(threads),
            real_memory: Some(Memory::from_mib(1000 + random.below(100_000))),
            weight: Some(1 + u32::from(random.small(50))),
            state: Some(*random.pick(&[NodeLineState::Unknown, NodeLineState::Down, NodeLineState::Drain])),
            features: vec![name(prefix.trim_end_matches('-'))?, name("all")?],
            ..NodeLine::new(SomeNodes::new("nodes", list.clone())?)
        };
        if prefix == "gpu" {
            let kind = Some(name("h100")?);
            line.gres = vec![Gres { name: name("gpu")?, kind: kind.clone(), count: 2 }];
            let files = vec![value!("/dev/null"), value!("/dev/zero")];
            gres.push(GresLine { nodes: Some(list.clone()), kind, files, ..GresLine::new(name("gpu")?) });
        }
        conf.push(line.clone());
        nodes.push(line);
        names.push(list);
    }
    conf.push(NodeSetLine { name: name("fast")?, members: Members::Feature(name("gpu")?) });
    conf.push(NodeSetLine { name: name("slow")?, members: Members::Nodes(names[0].clone()) });
    let down = names[2].names().take(1).collect();
    let reason = Some(value!("bad disk"));
    conf.push(DownNodesLine {
        nodes: SomeNodes::new("down", down)?,
        state: Some(NodeLineState::Down),
        reason,
    });

    let all: HostList = names.iter().flat_map(HostList::names).collect();
    let both: HostList = names[..2].iter().flat_map(HostList::names).collect();
    let some = [
        ("main", PartitionNodes::All, all),
        ("sets", PartitionNodes::sets(vec![name("fast")?, name("slow")?]), both),
        ("list", PartitionNodes::nodes(names[2].clone()), names[2].clone()),
        ("empty", PartitionNodes::sets(Vec::new()), HostList::new()),
    ];
    let mut partitions = Vec::new();
    for (partition, nodes, stands_for) in some {
        let limit = TimeLimit::from_minutes(1 + u32::from(random.small(5000)));
        let line = PartitionLine {
            default: Some(partition == "main"),
            priority_tier: Some(random.small(100)),
            preempt_mode: Some(*random.pick(&[PreemptMode::Off, PreemptMode::Requeue, PreemptMode::Cancel])),
            hidden: Some(random.below(2) == 0),
            default_time: Some(limit),
            max_time: Some(*random.pick(&[TimeLimit::Unlimited, TimeLimit::from_minutes(7000)])),
            state: Some(*random.pick(&[PartitionState::Up, PartitionState::Down, PartitionState::Drain])),
            over_subscribe: Some(*random.pick(&[
                OverSubscribe::No,
                OverSubscribe::Exclusive,
                OverSubscribe::Yes(Some(3)),
                OverSubscribe::Force(Some(2)),
            ])),
            ..PartitionLine::new(name(partition)?, nodes)
        };
        conf.push(line.clone());
        partitions.push((line, stands_for));
    }
    Ok(Meant { conf, gres, settings, nodes, names, partitions })
}

#[test]
fn generated_files_mean_to_slurm_what_they_mean_to_us() -> Result<()> {
    with_each(|controller, version| {
        for seed in 1..=6 {
            let meant = generate(seed)?;
            let text = meant.conf.to_string();
            good(version, FileKind::Slurm, &text);
            good(version, FileKind::Gres, &meant.gres.to_string());
            controller.start_well(&[("slurm.conf", &text), ("gres.conf", &meant.gres.to_string())])?;
            settings(controller, &meant).with_context(|| text.clone())?;
            nodes(controller, &meant).with_context(|| text.clone())?;
            partitions(controller, &meant).with_context(|| text.clone())?;
        }
        Ok(())
    })
}

/// Our own check has nothing to say.
fn good(version: SlurmVersion, kind: FileKind, text: &str) {
    let findings = Check::new(kind, version).run(&read(kind.file_name(), text, &mut NoIncludes));
    assert!(findings.is_empty(), "{findings:#?}\n{text}");
}

fn settings(controller: &Controller, meant: &Meant) -> Result<()> {
    let shown = controller.exec(&["scontrol", "show", "config"])?;
    let shown: BTreeMap<&str, &str> = shown
        .lines()
        .filter_map(|line| line.split_once('='))
        .map(|(key, value)| (key.trim(), value.trim().trim_end_matches(" sec")))
        .collect();
    for (key, value) in &meant.settings {
        assert_eq!(shown.get(key).copied(), Some(value.as_str()), "{key}");
    }
    Ok(())
}

fn find<'a>(shown: &'a [Shown], key: &str, name: &str) -> Result<&'a Shown> {
    shown.iter().find(|line| line.get(key) == name).with_context(|| format!("scontrol shows no {key}={name}"))
}

fn nodes(controller: &Controller, meant: &Meant) -> Result<()> {
    let shown = controller.show("nodes")?;
    assert_eq!(shown.len(), meant.names.iter().map(HostList::len).sum::<usize>());
    let number = |value: Option<u64>| value.map(|value| value.to_string()).unwrap_or_default();
    for (line, names) in meant.nodes.iter().zip(&meant.names) {
        for node in names.names() {
            let shown = find(&shown, "NodeName", node.as_str())?;
            assert_eq!(shown.get("CPUTot"), number(line.cpus.map(u64::from)), "{node}");
            assert_eq!(shown.get("Sockets"), number(line.sockets.map(u64::from)), "{node}");
            assert_eq!(shown.get("CoresPerSocket"), number(line.cores_per_socket.map(u64::from)), "{node}");
            assert_eq!(shown.get("ThreadsPerCore"), number(line.threads_per_core.map(u64::from)), "{node}");
            assert_eq!(shown.get("RealMemory"), number(line.real_memory.map(Memory::mib)), "{node}");
            assert_eq!(shown.get("Weight"), number(line.weight.map(u64::from)), "{node}");
            assert_eq!(shown.get("NodeAddr"), "127.0.0.1", "{node}");
            let features: Vec<&str> = line.features.iter().map(Name::as_str).collect();
            assert_eq!(shown.get("AvailableFeatures"), features.join(","), "{node}");
            let gres: Vec<String> = line.gres.iter().map(ToString::to_string).collect();
            let none = if gres.is_empty() { "(null)" } else { "" };
            assert_eq!(shown.get("Gres"), format!("{none}{}", gres.join(",")), "{node}");
        }
    }
    let down = meant.names[2].names().next().context("no node")?;
    assert!(find(&shown, "NodeName", down.as_str())?.get("State").contains("DOWN"));
    Ok(())
}

fn partitions(controller: &Controller, meant: &Meant) -> Result<()> {
    let shown = controller.show("partitions")?;
    assert_eq!(shown.len(), meant.partitions.len());
    let value = |value: Option<Value>| value.map(|value| value.as_str().to_owned()).unwrap_or_default();
    for (line, nodes) in &meant.partitions {
        let shown = find(&shown, "PartitionName", line.name.as_str())?;
        let listed = shown.get("Nodes").trim_start_matches("(null)");
        assert_eq!(HostList::parse(listed)?.sorted(), nodes.sorted(), "{}", line.name);
        assert_eq!(shown.get("Default"), value(line.default.map(Value::from)));
        assert_eq!(shown.get("Hidden"), value(line.hidden.map(Value::from)));
        assert_eq!(shown.get("State"), value(line.state.map(Value::from)));
        assert_eq!(shown.get("PriorityTier"), value(line.priority_tier.map(Value::from)));
        assert_eq!(shown.get("PreemptMode"), value(line.preempt_mode.map(Value::from)));
        // 26.05 shows whole nodes for a job as a thing of its own.
        let share = if shown.get("Exclusive") == "NODE" { "EXCLUSIVE" } else { shown.get("OverSubscribe") };
        assert_eq!(share, value(line.over_subscribe.map(Value::from)));
        assert_eq!(Some(shown.get("MaxTime").parse()?), line.max_time);
        assert_eq!(Some(shown.get("DefaultTime").parse()?), line.default_time);
    }
    Ok(())
}

#[test]
fn time_limits_are_what_slurm_makes_of_them() -> Result<()> {
    let forms =
        ["5", "5:30", "90:70", "2:03:04", "1-2", "1-02:03", "1-02:03:04", "infinite", "-1", "UNLIMITED"];
    with_each(|controller, _| {
        let mut text = format!("{}NodeName=n1 NodeAddr=127.0.0.1\n", basic_lines());
        for (number, form) in forms.iter().enumerate() {
            text += &format!("PartitionName=p{number} Nodes=n1 MaxTime={form}\n");
        }
        controller.start_well(&[("slurm.conf", &text)])?;
        let shown = controller.show("partitions")?;
        for (number, form) in forms.iter().enumerate() {
            let slurms: TimeLimit =
                find(&shown, "PartitionName", &format!("p{number}"))?.get("MaxTime").parse()?;
            let ours: TimeLimit = form.parse()?;
            assert_eq!(slurms.minutes(), ours.minutes(), "{form}");
        }
        Ok(())
    })
}
