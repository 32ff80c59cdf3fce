//! `PartitionName=...`: a queue and the nodes that serve it.

use std::fmt;

use super::text::Pairs;
use super::value::{Key, Name, Value};
use crate::hostlist::HostList;
use crate::time_limit::TimeLimit;
use crate::{key, value};

/// A partition. What is `None` is not written, and Slurm's default holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionLine {
    /// The name. `DEFAULT` makes the line the default of those that follow.
    pub name: Name,
    /// The nodes.
    pub nodes: PartitionNodes,
    /// Whether jobs that ask for no partition go here.
    pub default: Option<bool>,
    /// Partitions of a higher tier go first.
    pub priority_tier: Option<u16>,
    /// What happens to a job that has to make way.
    pub preempt_mode: Option<PreemptMode>,
    /// Whether it is left out of what users see.
    pub hidden: Option<bool>,
    /// The limit for jobs that ask for none.
    pub default_time: Option<TimeLimit>,
    /// The longest limit.
    pub max_time: Option<TimeLimit>,
    /// Whether jobs may begin and be submitted.
    pub state: Option<PartitionState>,
    /// Whether jobs share nodes.
    pub over_subscribe: Option<OverSubscribe>,
    /// Other settings, as the user wrote them: see [`super::user_pairs`].
    pub extra: Vec<(Key, Value)>,
}

impl PartitionLine {
    /// A partition with nothing but its nodes.
    #[must_use]
    pub fn new(name: Name, nodes: PartitionNodes) -> Self {
        Self {
            name,
            nodes,
            default: None,
            priority_tier: None,
            preempt_mode: None,
            hidden: None,
            default_time: None,
            max_time: None,
            state: None,
            over_subscribe: None,
            extra: Vec::new(),
        }
    }
}

impl From<PartitionLine> for Pairs {
    fn from(line: PartitionLine) -> Self {
        Pairs::new(key!("PartitionName"), line.name)
            .with(key!("Nodes"), line.nodes)
            .with_some(key!("Default"), line.default)
            .with_some(key!("PriorityTier"), line.priority_tier)
            .with_some(key!("PreemptMode"), line.preempt_mode)
            .with_some(key!("Hidden"), line.hidden)
            .with_some(key!("DefaultTime"), line.default_time)
            .with_some(key!("MaxTime"), line.max_time)
            .with_some(key!("State"), line.state)
            .with_some(key!("OverSubscribe"), line.over_subscribe)
            .with_all(line.extra)
    }
}

/// The nodes of a partition. None at all is allowed: the partition waits for nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PartitionNodes {
    /// Every node of the cluster.
    All,
    /// Node sets and nodes.
    Some {
        /// Names of node sets.
        sets: Vec<Name>,
        /// Nodes.
        nodes: HostList,
    },
}

impl PartitionNodes {
    /// These node sets.
    #[must_use]
    pub fn sets(sets: Vec<Name>) -> Self {
        Self::Some { sets, nodes: HostList::new() }
    }

    /// These nodes.
    #[must_use]
    pub fn nodes(nodes: HostList) -> Self {
        Self::Some { sets: Vec::new(), nodes }
    }
}

impl fmt::Display for PartitionNodes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self::Some { sets, nodes } = self else { return f.write_str("ALL") };
        let mut words: Vec<String> = sets.iter().map(ToString::to_string).collect();
        if !nodes.is_empty() {
            words.push(nodes.to_string());
        }
        f.write_str(&words.join(","))
    }
}

impl From<PartitionNodes> for Value {
    fn from(nodes: PartitionNodes) -> Self {
        Value::printed(&nodes)
    }
}

/// Whether a partition works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PartitionState {
    /// Yes.
    Up,
    /// Jobs are queued, but do not begin.
    Down,
    /// Jobs that are queued begin, but no more are taken.
    Drain,
    /// Neither.
    Inactive,
}

impl From<PartitionState> for Value {
    fn from(state: PartitionState) -> Self {
        match state {
            PartitionState::Up => value!("UP"),
            PartitionState::Down => value!("DOWN"),
            PartitionState::Drain => value!("DRAIN"),
            PartitionState::Inactive => value!("INACTIVE"),
        }
    }
}

/// Whether jobs share nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OverSubscribe {
    /// Never.
    No,
    /// Never, and each job gets whole nodes.
    Exclusive,
    /// If the job says so; with the number of jobs on each resource.
    Yes(Option<u16>),
    /// Always; with the number of jobs on each resource.
    Force(Option<u16>),
}

impl fmt::Display for OverSubscribe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::No => f.write_str("NO"),
            Self::Exclusive => f.write_str("EXCLUSIVE"),
            Self::Yes(None) => f.write_str("YES"),
            Self::Yes(Some(jobs)) => write!(f, "YES:{jobs}"),
            Self::Force(None) => f.write_str("FORCE"),
            Self::Force(Some(jobs)) => write!(f, "FORCE:{jobs}"),
        }
    }
}

impl From<OverSubscribe> for Value {
    fn from(share: OverSubscribe) -> Self {
        Value::printed(&share)
    }
}

/// What happens to a job that has to make way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PreemptMode {
    /// Nothing: it goes on.
    Off,
    /// It is cancelled.
    Cancel,
    /// It is queued again.
    Requeue,
    /// It is stopped, and goes on later.
    Suspend,
}

impl From<PreemptMode> for Value {
    fn from(mode: PreemptMode) -> Self {
        match mode {
            PreemptMode::Off => value!("OFF"),
            PreemptMode::Cancel => value!("CANCEL"),
            PreemptMode::Requeue => value!("REQUEUE"),
            PreemptMode::Suspend => value!("SUSPEND"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> Name {
        Name::new("f", text).unwrap()
    }

    #[test]
    fn partitions_print_as_lines() {
        let main = PartitionLine {
            default: Some(true),
            priority_tier: Some(10),
            max_time: Some(TimeLimit::Unlimited),
            state: Some(PartitionState::Up),
            over_subscribe: Some(OverSubscribe::Yes(None)),
            ..PartitionLine::new(name("main"), PartitionNodes::All)
        };
        assert_eq!(
            Pairs::from(main).to_string(),
            "PartitionName=main Nodes=ALL Default=YES PriorityTier=10 MaxTime=UNLIMITED State=UP OverSubscribe=YES"
        );
        let hidden = PartitionLine {
            preempt_mode: Some(PreemptMode::Off),
            hidden: Some(true),
            default_time: Some(TimeLimit::from_minutes(90)),
            over_subscribe: Some(OverSubscribe::Force(Some(2))),
            extra: vec![(key!("AllowAccounts"), value!("a,b"))],
            ..PartitionLine::new(
                name("hidden"),
                PartitionNodes::Some {
                    sets: vec![name("gpu"), name("cpu")],
                    nodes: HostList::parse("x[1-2]").unwrap(),
                },
            )
        };
        assert_eq!(
            Pairs::from(hidden).to_string(),
            "PartitionName=hidden Nodes=gpu,cpu,x[1-2] PreemptMode=OFF Hidden=YES DefaultTime=01:30:00 \
             OverSubscribe=FORCE:2 AllowAccounts=a,b"
        );
    }

    #[test]
    fn a_partition_may_wait_for_nodes() {
        let line = PartitionLine::new(name("p"), PartitionNodes::sets(Vec::new()));
        assert_eq!(Pairs::from(line).to_string(), "PartitionName=p Nodes=\"\"");
    }
}
