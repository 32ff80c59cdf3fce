//! Taints of nodes, and what pods do not mind.

use crate::facts::{Ask, Effect, Node, Taint, Toleration, TolerationOperator};

pub(super) const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";
pub(super) const NOT_READY: &str = "node.kubernetes.io/not-ready";
pub(super) const UNREACHABLE: &str = "node.kubernetes.io/unreachable";

/// The taints that keep the pod away.
pub(super) fn untolerated<'a>(node: &'a Node, ask: &'a Ask) -> impl Iterator<Item = &'a Taint> {
    node.taints.iter().filter(|taint| !tolerates(ask, taint))
}

pub(super) fn tolerates_unschedulable(ask: &Ask) -> bool {
    tolerates(ask, &state(UNSCHEDULABLE))
}

/// Whether the pod does not mind that the node is not ready. The node's taints decide; one that is not tainted yet soon will
/// be.
pub(super) fn tolerates_not_ready(node: &Node, ask: &Ask) -> bool {
    let says_so =
        |taint: &&Taint| matches!(&*taint.key, NOT_READY | UNREACHABLE) && taint.effect == Effect::NoSchedule;
    let mut taints = node.taints.iter().filter(says_so).peekable();
    match taints.peek() {
        Some(_) => taints.all(|taint| tolerates(ask, taint)),
        None => tolerates(ask, &state(NOT_READY)),
    }
}

fn state(key: &str) -> Taint {
    Taint { key: key.into(), value: Box::default(), effect: Effect::NoSchedule }
}

fn tolerates(ask: &Ask, taint: &Taint) -> bool {
    ask.tolerations.iter().any(|toleration| matches(toleration, taint))
}

fn matches(toleration: &Toleration, taint: &Taint) -> bool {
    let effect = match taint.effect {
        Effect::NoSchedule => "NoSchedule",
        Effect::NoExecute => "NoExecute",
    };
    let meant = toleration.effect.is_empty() || &*toleration.effect == effect;
    let keyed = if toleration.key.is_empty() {
        toleration.operator == TolerationOperator::Exists
    } else {
        toleration.key == taint.key
    };
    let number = |text: &str| text.parse::<i64>().ok();
    let compared = |smaller: bool| match (number(&taint.value), number(&toleration.value)) {
        (Some(taint), Some(limit)) => {
            if smaller {
                taint < limit
            } else {
                taint > limit
            }
        }
        _ => false,
    };
    let compares = match toleration.operator {
        TolerationOperator::Exists => true,
        TolerationOperator::Equal => toleration.value == taint.value,
        TolerationOperator::Lt => compared(true),
        TolerationOperator::Gt => compared(false),
        TolerationOperator::Unknown => false,
    };
    meant && keyed && compares
}
