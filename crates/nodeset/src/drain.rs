//! Drains: why, in which words, and whose they are.

use slurm::agent::DRAIN_MARKER;
use slurm::{Node, NodeBase, NodeFlag};

use crate::comment::Comment;
use crate::facts::{Facts, Set};
use crate::plan::{Action, Cause};
use crate::view::Worker;

/// Every reason that we give Slurm begins with this. A drain with another reason is not ours, and never taken back by us.
pub const REASON_PREFIX: &str = "slurm-operator: ";

/// What the stop script of Slinky's pods writes over the reason.
pub(crate) const STOP_REASON: &str = "preStop";

/// What replaces our reason when the drain is over. Slurm 24.11 would keep ours, and the next drain would look like ours.
const OVER: &str = "the pod works again";

/// Longer texts are cut, in characters.
const MAX_REASON: usize = 256;

/// Whether the node's drain is ours.
pub(crate) fn is_ours(node: &Node) -> bool {
    if planted!(UndrainsEverybodys) || node.reason.starts_with(REASON_PREFIX.trim_end()) {
        return true;
    }
    // Before the script wrote over it the reason was ours, or the comment would hold it.
    let held = || Comment::parse(&node.comment).is_none_or(|comment| comment.held.is_some());
    &*node.reason == STOP_REASON && !held()
}

/// Whether the agent of a pod drained the node while the pod stopped. The agent of the next pod takes it back.
pub(crate) fn is_agents(node: &Node) -> bool {
    node.reason.starts_with(DRAIN_MARKER)
}

/// Whether somebody else drained the node, neither we nor the agent of its pod.
pub(crate) fn is_others(node: &Node) -> bool {
    node.state.is_drain() && !is_ours(node) && !is_agents(node)
}

/// The reason, if it tells of the present: Slurm 24.11 keeps that of a drain that is over.
pub(crate) fn present_reason(node: &Node) -> &str {
    if node.state.is_drain() || is_down(node) { &node.reason } else { "" }
}

/// Whether the node is out of service also without a drain.
fn is_down(node: &Node) -> bool {
    let state = &node.state;
    state.has(NodeFlag::Fail) || matches!(state.base(), None | Some(NodeBase::Down | NodeBase::Error))
}

/// Whether the drain was made for an update.
pub(crate) fn is_for_update(node: &Node) -> bool {
    node.state.is_drain() && is_ours(node) && node.reason.contains(UPDATE)
}

const UPDATE: &str = "pending replacement for an update";

/// So many drains for one cause get the same words, so that Slurm can be told of them by one call.
const MANY: usize = 8;

/// The words for Slurm.
fn words(facts: &Facts<'_>, worker: &Worker<'_>, cause: Cause) -> String {
    let pod = facts.set.full_name(worker.pod.name);
    let why = fate(cause).map(|fate| format!("Pod ({pod}) is {fate}")).unwrap_or_else(|| match cause {
        Cause::PodCordoned => format!("Pod ({pod}) was cordoned"),
        Cause::NodeCordoned => node_cordon_reason(worker, &pod),
        _ => format!("Pod ({pod}) is pending replacement"),
    });
    clean(&format!("{REASON_PREFIX}{why}"))
}

/// The words for many pods of the set.
fn shared_words(facts: &Facts<'_>, cause: Cause) -> Option<String> {
    fate(cause).map(|fate| clean(&format!("{REASON_PREFIX}{}{fate}", of_many(&facts.set))))
}

/// How they begin.
pub(crate) fn of_many(set: &Set<'_>) -> String {
    format!("Pods of NodeSet ({}) are ", set.full_name(set.name))
}

/// What is to become of pods that are taken away because of what the user asks of the whole set.
const fn fate(cause: Cause) -> Option<&'static str> {
    match cause {
        Cause::ScaleIn => Some("pending termination for scale-in"),
        Cause::SetDeleted => Some("pending termination because the NodeSet is deleted"),
        Cause::Update => Some(UPDATE),
        Cause::Ended | Cause::NotRegistered | Cause::PodCordoned | Cause::NodeCordoned => None,
    }
}

/// Gives many drains for one cause the same words. What somebody else wrote of a node stays behind them.
pub(crate) fn share_words(facts: &Facts<'_>, drains: &mut [Action]) {
    for cause in [Cause::ScaleIn, Cause::SetDeleted, Cause::Update] {
        let is_for =
            |action: &Action| matches!(action, Action::Drain { cause: other, .. } if *other == cause);
        let (Some(fate), Some(shared)) = (fate(cause), shared_words(facts, cause)) else { continue };
        if drains.iter().filter(|action| is_for(action)).count() < MANY {
            continue;
        }
        for action in drains.iter_mut().filter(|action| is_for(action)) {
            let Action::Drain { reason, .. } = action else { continue };
            if let Some((_, former)) = reason.split_once(fate) {
                *reason = clean(&format!("{shared}{former}"));
            }
        }
    }
}

/// What stands before the words that somebody else wrote, in a reason of ours.
const BEFORE: &str = " (before: ";

/// The same, followed by what somebody else wrote there before: why a node is down must not get lost.
fn with_former(words: &str, node: &Node) -> String {
    let reason = present_reason(node);
    let former = if reason.starts_with(REASON_PREFIX.trim_end()) {
        reason.find(BEFORE).map(|at| reason[at..].to_owned())
    } else {
        let slurms_own = reason.is_empty()
            || reason.contains("Not responding")
            || reason == STOP_REASON
            || is_agents(node);
        (!slurms_own).then(|| format!("{BEFORE}{reason})"))
    };
    clean(&format!("{words}{}", former.unwrap_or_default()))
}

/// Why the Kubernetes node is cordoned: its annotation, or else its conditions, or else a plain sentence.
fn node_cordon_reason(worker: &Worker<'_>, pod: &str) -> String {
    let default = |name: &str| format!("Node ({name}) was cordoned, Pod ({pod}) must be cordoned");
    let Some(node) = &worker.pod.kube_node else { return default("") };
    let annotation = node.cordon_reason.map(clean).filter(|text| !text.is_empty());
    if let Some(text) = annotation {
        return text;
    }
    let mut conditions: Vec<String> =
        node.conditions.iter().map(|(reason, message)| format!("({reason}: {message})")).collect();
    conditions.sort_unstable();
    if conditions.is_empty() { default(node.name) } else { conditions.join("; ") }
}

/// One line of at most 256 characters: line breaks and tabs become spaces, other control characters are dropped.
pub(crate) fn clean(text: &str) -> String {
    let line: String = text
        .chars()
        .map(|c| if matches!(c, '\n' | '\r' | '\t') { ' ' } else { c })
        .filter(|c| !c.is_control())
        .collect();
    line.trim().chars().take(MAX_REASON).collect::<String>().trim_end().to_owned()
}

/// The drain that the pod needs for this cause, unless it is there already or must not be.
pub(crate) fn needed(facts: &Facts<'_>, worker: &Worker<'_>, cause: Cause) -> Option<Action> {
    // Only on what Slurm said just now: an old list may be from before our own drain.
    let node = worker.node?;
    let words = words(facts, worker, cause);
    let stays = matches!(cause, Cause::NodeCordoned | Cause::PodCordoned);
    let wanted = if node.state.is_drain() {
        // Slurm shows people why the node goes. A reason of somebody else stays.
        let tells_more = matches!(cause, Cause::ScaleIn | Cause::SetDeleted | Cause::Update);
        let told = node.reason.starts_with(&words)
            || shared_words(facts, cause).is_some_and(|shared| node.reason.starts_with(&shared));
        (tells_more && is_ours(node) && !told) || planted!(DrainsAgain)
    } else if stays {
        // Nobody takes the pod away, so what somebody else says of the node counts.
        let foreign = !present_reason(node).is_empty() && !is_ours(node) && !is_agents(node);
        let no_answer = node.state.base() == Some(NodeBase::Down) && node.reason.contains("Not responding");
        !foreign && !no_answer
    } else {
        true
    };
    wanted.then(|| Action::Drain {
        node: worker.pod.slurm_node.into(),
        pod: worker.pod.name.into(),
        reason: with_former(&words, node),
        cause,
    })
}

/// What is left as the reason when our drain of a node is over: why somebody else took it down, if it still is.
fn last_words(node: &Node) -> &str {
    let former = node.reason.split_once(BEFORE).filter(|_| is_down(node));
    former.map_or(OVER, |(_, former)| former.strip_suffix(')').unwrap_or(former))
}

/// The end of the drain of a pod that nothing speaks against, if the drain is ours.
pub(crate) fn undone(worker: &Worker<'_>) -> Option<Action> {
    let node = worker.node.filter(|_| worker.drained_by_us() && !planted!(ForgetsUndrain))?;
    // Behind the record must stand the pod that works: a job that starts before it does would fail.
    let works = worker.is_healthy() && !worker.pod.restarting && worker.is_registered();
    (works || planted!(UndrainsEarly)).then(|| Action::Undrain {
        node: worker.pod.slurm_node.into(),
        pod: worker.pod.name.into(),
        reason: last_words(node).into(),
    })
}
