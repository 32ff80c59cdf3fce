//! A cluster on one screen.

use std::collections::BTreeMap;
use std::io::{self, Write};

use serde::Serialize;

use crate::slurm::table;

/// What a person wants to know about a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct View {
    pub(super) namespace: String,
    pub(super) name: String,
    /// Empty while the operator has not looked at it.
    pub(super) phase: String,
    pub(super) available: bool,
    /// Parts with pods, in the order in which they start.
    pub(super) parts: Vec<Part>,
    /// What is not as it should be, in the operator's words.
    pub(super) waits: Vec<Wait>,
    pub(super) slurm: Slurm,
}

/// A part with pods.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct Part {
    pub(super) name: String,
    pub(super) ready: i32,
    pub(super) wanted: i32,
    /// Where it reports a phase of its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) phase: Option<String>,
}

/// A condition that does not hold.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct Wait {
    /// The object, where it is not the cluster itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) object: Option<String>,
    pub(super) condition: String,
    pub(super) reason: String,
    pub(super) message: String,
}

/// What Slurm itself says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase", tag = "answer")]
pub(super) enum Slurm {
    /// It was not asked, and why.
    NotAsked { reason: String },
    /// It gives no answer, and why.
    None { reason: String },
    /// It answers.
    Given(Answer),
}

/// Nodes and jobs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Answer {
    /// How many nodes are in each state.
    pub(super) nodes: BTreeMap<String, usize>,
    /// Nodes with a reason, which somebody or Slurm gave when it took them out.
    pub(super) reasons: Vec<Reason>,
    /// How many jobs are in each state, those that are over left out.
    pub(super) jobs: BTreeMap<String, usize>,
}

/// Why a node takes no jobs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct Reason {
    pub(super) node: String,
    pub(super) state: String,
    pub(super) reason: String,
}

impl Default for Slurm {
    fn default() -> Self {
        Self::NotAsked { reason: "nobody did".into() }
    }
}

/// More nodes with a reason than this do not fit on a screen.
const REASONS: usize = 10;

impl View {
    /// The cluster in one line: what it does, and which parts are not ready.
    pub(super) fn line(&self) -> String {
        let not_ready = self.parts.iter().filter(|part| part.ready < part.wanted);
        let counts: Vec<String> =
            not_ready.map(|part| format!("{} {}/{}", part.name, part.ready, part.wanted)).collect();
        let counts = if counts.is_empty() { String::new() } else { format!(": {}", counts.join(", ")) };
        format!("{}/{}: {}{counts}", self.namespace, self.name, self.phase_word())
    }

    /// What it waits for, a line for each.
    pub(super) fn wait_lines(&self) -> Vec<String> {
        self.waits.iter().map(Wait::line).collect()
    }

    fn phase_word(&self) -> &str {
        if self.phase.is_empty() { "the operator has not looked at it yet" } else { &self.phase }
    }

    /// The whole screen.
    pub(super) fn write(&self, out: &mut impl Write) -> io::Result<()> {
        writeln!(out, "SlurmCluster {}/{}: {}", self.namespace, self.name, self.phase_word())?;
        if !self.parts.is_empty() {
            writeln!(out)?;
            let row = |part: &Part| {
                let state = match &part.phase {
                    Some(phase) => phase.clone(),
                    None if part.ready >= part.wanted => "ready".into(),
                    None => "not ready".into(),
                };
                vec![part.name.clone(), format!("{}/{}", part.ready, part.wanted), state]
            };
            let rows: Vec<_> = self.parts.iter().map(row).collect();
            table::write(out, &["PART", "READY", "STATE"], &rows)?;
        }
        if !self.waits.is_empty() {
            writeln!(out, "\nWaits for:")?;
            for wait in &self.waits {
                writeln!(out, "  {}", wait.line())?;
            }
        }
        writeln!(out)?;
        self.slurm.write(out)
    }
}

impl Wait {
    fn line(&self) -> String {
        let object = self.object.as_ref().map(|object| format!("{object} ")).unwrap_or_default();
        let text = if self.message.is_empty() { &self.reason } else { &self.message };
        table::cell(&format!("{object}{}: {text}", self.condition))
    }
}

impl Slurm {
    fn write(&self, out: &mut impl Write) -> io::Result<()> {
        let answer = match self {
            Self::NotAsked { reason } => return writeln!(out, "Slurm was not asked: {reason}"),
            Self::None { reason } => return writeln!(out, "Slurm does not answer: {reason}"),
            Self::Given(answer) => answer,
        };
        writeln!(out, "Slurm nodes: {}", counts(&answer.nodes))?;
        writeln!(out, "Slurm jobs:  {}", counts(&answer.jobs))?;
        if answer.reasons.is_empty() {
            return Ok(());
        }
        writeln!(out)?;
        let row =
            |node: &Reason| vec![node.node.clone(), table::cell(&node.state), table::cell(&node.reason)];
        let rows: Vec<_> = answer.reasons.iter().take(REASONS).map(row).collect();
        table::write(out, &["NODE", "STATE", "REASON"], &rows)?;
        match answer.reasons.len().saturating_sub(REASONS) {
            0 => Ok(()),
            more => writeln!(out, "and {more} more nodes with a reason"),
        }
    }
}

/// `2 IDLE, 1 MIXED`.
fn counts(states: &BTreeMap<String, usize>) -> String {
    if states.is_empty() {
        return "none".into();
    }
    states.iter().map(|(state, count)| format!("{count} {state}")).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(name: &str, ready: i32, wanted: i32) -> Part {
        Part { name: name.into(), ready, wanted, phase: None }
    }

    fn shown(view: &View) -> String {
        let mut out = Vec::new();
        view.write(&mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_cluster_at_work_fits_on_a_screen() {
        let view = View {
            namespace: "soperator".into(),
            name: "slurm1".into(),
            phase: "Available".into(),
            available: true,
            parts: vec![
                part("controller", 1, 1),
                Part { phase: Some("Ready".into()), ..part("nodeset slurm1-worker", 2, 2) },
            ],
            waits: vec![],
            slurm: Slurm::Given(Answer {
                nodes: BTreeMap::from([("IDLE".into(), 1), ("MIXED+DRAIN".into(), 1)]),
                reasons: vec![Reason {
                    node: "worker-1".into(),
                    state: "MIXED+DRAIN".into(),
                    reason: "new\ndisks".into(),
                }],
                jobs: BTreeMap::from([("PENDING".into(), 3), ("RUNNING".into(), 1)]),
            }),
        };
        assert_eq!(
            shown(&view),
            "SlurmCluster soperator/slurm1: Available\n\n\
             PART                   READY  STATE\n\
             controller             1/1    ready\n\
             nodeset slurm1-worker  2/2    Ready\n\n\
             Slurm nodes: 1 IDLE, 1 MIXED+DRAIN\n\
             Slurm jobs:  3 PENDING, 1 RUNNING\n\n\
             NODE      STATE        REASON\n\
             worker-1  MIXED+DRAIN  new disks\n"
        );
        assert_eq!(view.line(), "soperator/slurm1: Available");
    }

    #[test]
    fn what_is_missing_is_said_in_the_operators_words() {
        let view = View {
            namespace: "a".into(),
            name: "b".into(),
            phase: "Pending".into(),
            parts: vec![part("controller", 0, 1), part("login", 1, 1)],
            waits: vec![Wait {
                condition: "ControllersAvailable".into(),
                reason: "PvcPending".into(),
                message: "waiting for PVC spool: no StorageClass".into(),
                ..Wait::default()
            }],
            slurm: Slurm::None { reason: "no endpoints available".into() },
            ..View::default()
        };
        let text = shown(&view);
        assert!(text.contains("controller  0/1    not ready\n"), "{text}");
        assert!(
            text.contains("\nWaits for:\n  ControllersAvailable: waiting for PVC spool: no StorageClass\n"),
            "{text}"
        );
        assert!(text.ends_with("\nSlurm does not answer: no endpoints available\n"), "{text}");
        assert_eq!(view.line(), "a/b: Pending: controller 0/1");
        assert_eq!(view.wait_lines(), ["ControllersAvailable: waiting for PVC spool: no StorageClass"]);
    }

    #[test]
    fn a_new_cluster_says_so() {
        assert!(shown(&View::default()).contains("the operator has not looked at it yet"));
    }
}
