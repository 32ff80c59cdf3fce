//! `soperator nodeset drain` and `undrain`.

use std::collections::BTreeSet;
use std::io::Write;
use std::time::Duration;

use slurm::{Node, NodeBase, NodeTarget, NodeUpdate};
use slurm_client::{Lookup, Snapshot};

use super::find;
use super::pod::{self, Pod};
use super::set::Set;
use super::view::access;
use super::whose::{Whose, of_reason, whose};
use super::{Target, time};
use crate::cli::Error;
use crate::place::Place;
use crate::slurm::wait_until_free;
use crate::slurm_access::SlurmAccess;

#[derive(Debug, clap::Args)]
pub(super) struct DrainArgs {
    #[command(flatten)]
    target: Target,
    /// Why; Slurm shows it to users, and the operator leaves the drain alone because of it
    #[arg(long, value_name = "TEXT", value_parser = reason)]
    reason: String,
    /// Only this pod of the set; may be given several times
    #[arg(long = "pod", value_name = "POD")]
    pods: Vec<String>,
    /// Wait so many seconds until no job is on the workers any more; fails if some are left
    #[arg(long, value_name = "SECONDS")]
    wait: Option<u64>,
}

#[derive(Debug, clap::Args)]
pub(super) struct UndrainArgs {
    #[command(flatten)]
    target: Target,
    /// Only this pod of the set; may be given several times
    #[arg(long = "pod", value_name = "POD")]
    pods: Vec<String>,
}

/// A reason that a person may give: one line, and none that would make the drain look like another's.
fn reason(text: &str) -> Result<String, String> {
    let text = text.trim();
    if text.is_empty() {
        return Err("say why, so that others know".into());
    }
    if text.chars().any(char::is_control) {
        return Err("it must be one line".into());
    }
    match of_reason(text) {
        Whose::Person => Ok(text.into()),
        Whose::Operator | Whose::Pod => Err(format!(
            "drains with a reason like `{text}` are the operator's own, and taken back by it; write it in other words"
        )),
    }
}

/// What to do with one node.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    /// Change it.
    Change,
    /// It is as it should be, and this is to be said.
    Done(String),
    /// It must stay as it is, because of this.
    Stays(String),
}

fn drain_step(node: &Node, reason: &str) -> Step {
    match whose(node) {
        // It counts as ours from now on, and the operator does not take it back.
        None | Some(Whose::Operator | Whose::Pod) => Step::Change,
        Some(Whose::Person) if &*node.reason == reason => Step::Done("is drained already".into()),
        Some(Whose::Person) => {
            Step::Done(format!("is drained already, and keeps the reason that it has: {}", node.reason))
        }
    }
}

fn undrain_step(node: &Node) -> Step {
    match whose(node) {
        None => Step::Done(format!("is not drained; its state is {}", node.state)),
        Some(Whose::Person) => Step::Change,
        Some(Whose::Operator) => Step::Stays(format!(
            "the operator drained it, and takes that back when its cause is over: {}",
            node.reason
        )),
        Some(Whose::Pod) => Step::Stays(format!(
            "its pod drained it when it stopped, and the next one takes that back: {}",
            node.reason
        )),
    }
}

/// Drains the workers.
pub(super) async fn drain(args: &DrainArgs, out: &mut impl Write) -> Result<(), Error> {
    let work = Work::prepare(&args.target, &args.pods).await?;
    let update = NodeUpdate {
        state: Some(NodeTarget::Drain),
        reason: Some(args.reason.clone()),
        ..NodeUpdate::default()
    };
    let step = |node: &Node| drain_step(node, &args.reason);
    let done = |node: &Node| format!("takes no more jobs{}", work.jobs(&node.name));
    let changed = work.each(step, |_| update.clone(), done, out).await;
    if let Some(seconds) = args.wait {
        // Also when some have no Slurm node: the others are waited for.
        let known: BTreeSet<String> = work.known().map(String::from).collect();
        wait_until_free(work.slurm.client(), &known, Duration::from_secs(seconds), out).await?;
    }
    changed
}

/// Takes drains back.
pub(super) async fn undrain(args: &UndrainArgs, out: &mut impl Write) -> Result<(), Error> {
    let work = Work::prepare(&args.target, &args.pods).await?;
    work.each(undrain_step, undrained, taken_back, out).await
}

fn taken_back(node: &Node) -> String {
    match undrained(node).state {
        Some(NodeTarget::Resume) => "takes jobs again".into(),
        _ => "is not drained any more, but is still down".into(),
    }
}

/// What ends the drain of a node. A node that is down stays so: nobody knows whether it works.
fn undrained(node: &Node) -> NodeUpdate {
    let target = match node.state.base() {
        Some(NodeBase::Down | NodeBase::Unknown | NodeBase::Error) | None => NodeTarget::Undrain,
        Some(_) => NodeTarget::Resume,
    };
    NodeUpdate { state: Some(target), ..NodeUpdate::default() }
}

/// The workers, and the way to their Slurm.
struct Work {
    set: Set,
    pods: Vec<Pod>,
    slurm: SlurmAccess,
    snapshot: Snapshot,
}

impl Work {
    async fn prepare(target: &Target, wanted: &[String]) -> Result<Self, Error> {
        let place = Place::find(target.namespace.as_deref()).await?;
        let set = find::find(&place, target).await?.set();
        let pods = chosen(&set, pod::of(&place.client, &set).await?, wanted)?;
        let cluster = find::cluster_of(&place.client, &set).await.map_err(Error::Refused)?;
        let silent = |reason: String| Error::Slurm(format!("Slurm does not answer: {reason}"));
        let slurm = access(&place, &set, &cluster).await.map_err(silent)?;
        let snapshot = slurm.snapshot().await.map_err(silent)?;
        Ok(Self { set, pods, slurm, snapshot })
    }

    /// The nodes that Slurm has.
    fn known(&self) -> impl Iterator<Item = &str> {
        let names = self.pods.iter().map(|pod| pod.slurm_node.as_str());
        names.filter(|name| self.snapshot.node(name).is_some())
    }

    /// Changes the nodes one by one. One that cannot be changed does not keep the others from it.
    async fn each(
        &self,
        step: impl Fn(&Node) -> Step,
        update: impl Fn(&Node) -> NodeUpdate,
        done: impl Fn(&Node) -> String,
        out: &mut impl Write,
    ) -> Result<(), Error> {
        let mut left = Vec::new();
        for Pod { name: pod, slurm_node: name, .. } in &self.pods {
            let Some(node) = self.snapshot.node(name) else {
                left.push(format!("{name}: Slurm has no such node; pod {pod} has not registered"));
                continue;
            };
            match step(node) {
                Step::Done(what) => writeln!(out, "{name} {what}")?,
                Step::Stays(why) => left.push(format!("{name}: {why}")),
                Step::Change => match self.slurm.client().update_node(name, &update(node)).await {
                    Ok(Lookup::Found(())) => writeln!(out, "{name} {}", done(node))?,
                    Ok(Lookup::Absent) => left.push(format!("{name}: Slurm has no such node any more")),
                    Err(error) => left.push(format!("{name}: {}", self.slurm.explain(&error))),
                },
            }
        }
        match left.len() {
            0 => Ok(()),
            count => Err(Error::Slurm(format!(
                "{count} of {} workers of {} stay as they are:\n  {}",
                self.pods.len(),
                self.set.title(),
                left.join("\n  ")
            ))),
        }
    }

    /// The jobs that are still on a node, for people.
    fn jobs(&self, node: &str) -> String {
        let jobs: Vec<_> = self.snapshot.jobs_on(node).collect();
        let until = jobs.iter().map(|job| time::Until::of(job)).max();
        let Some(until) = until else { return String::new() };
        let ids: Vec<String> = jobs.iter().map(|job| crate::slurm::job_number(job)).collect();
        let ends = until.text(slurm_client::unix_time());
        format!("; on it: job {} (until: {ends})", ids.join(", "))
    }
}

/// The pods that are meant: all, or those that were named.
fn chosen(set: &Set, pods: Vec<Pod>, wanted: &[String]) -> Result<Vec<Pod>, Error> {
    let there = || pods.iter().map(|pod| pod.name.as_str()).collect::<Vec<_>>().join(", ");
    if pods.is_empty() {
        return Err(Error::Refused(format!("{} has no pods", set.title())));
    }
    if let Some(stranger) = wanted.iter().find(|name| !pods.iter().any(|pod| pod.name == **name)) {
        let message = format!("{} has no pod {stranger}; it has {}", set.title(), there());
        return Err(Error::Refused(message));
    }
    Ok(pods.into_iter().filter(|pod| wanted.is_empty() || wanted.contains(&pod.name)).collect())
}

#[cfg(test)]
mod tests {
    use slurm::NodeState;

    use super::*;

    fn node(state: &str, reason: &str) -> Node {
        Node { state: NodeState::from_words(state.split('+')), reason: reason.into(), ..Node::default() }
    }

    #[test]
    fn a_reason_must_be_a_persons() {
        assert_eq!(reason(" new disks "), Ok("new disks".into()));
        for (text, why) in [
            ("  ", "say why"),
            ("a\nb", "one line"),
            ("slurm-operator: mine", "the operator's own"),
            ("slurm-operator:mine", "the operator's own"),
            ("slurm-agent: mine", "the operator's own"),
            ("preStop", "the operator's own"),
        ] {
            assert!(reason(text).unwrap_err().contains(why), "{text}");
        }
    }

    #[test]
    fn drains_of_other_people_keep_their_reason_and_those_of_the_operator_become_ours() {
        assert_eq!(drain_step(&node("IDLE", ""), "disks"), Step::Change);
        assert_eq!(drain_step(&node("DOWN", "gone"), "disks"), Step::Change);
        assert_eq!(drain_step(&node("MIXED+DRAIN", "slurm-operator: x"), "disks"), Step::Change);
        assert_eq!(
            drain_step(&node("IDLE+DRAIN", "disks"), "disks"),
            Step::Done("is drained already".into())
        );
        let Step::Done(told) = drain_step(&node("IDLE+DRAIN", "fan"), "disks") else { panic!("it is done") };
        assert!(told.ends_with("keeps the reason that it has: fan"), "{told}");
    }

    #[test]
    fn only_drains_that_nobody_else_takes_back_are_taken_back() {
        assert_eq!(undrain_step(&node("IDLE+DRAIN", "disks")), Step::Change);
        assert_eq!(undrain_step(&node("IDLE+DRAIN", "")), Step::Change);
        for reason in ["slurm-operator: Node (m) was cordoned", "slurm-agent: stops", "preStop"] {
            let Step::Stays(why) = undrain_step(&node("IDLE+DRAIN", reason)) else { panic!("{reason}") };
            assert!(why.ends_with(reason), "{why}");
        }
        let Step::Done(told) = undrain_step(&node("DOWN", "disks")) else { panic!("not drained") };
        assert_eq!(told, "is not drained; its state is DOWN");
    }

    #[test]
    fn a_node_that_is_down_does_not_come_up_because_its_drain_ends() {
        let down = node("DOWN+DRAIN", "x");
        assert_eq!(undrained(&down).state, Some(NodeTarget::Undrain));
        assert_eq!(taken_back(&down), "is not drained any more, but is still down");
        assert_eq!(undrained(&node("MIXED+DRAIN", "x")).state, Some(NodeTarget::Resume));
    }
}
