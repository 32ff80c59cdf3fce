//! Gangs: all members of a map are placed, or none.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::decide::No;
use super::key::Key;
use super::{Core, Decision, Time};
use crate::facts::{Member, Pod, Uid};
use crate::names;

/// So many missing members are named.
const NAMED: usize = 10;

impl Core {
    pub(super) fn join_gang(&mut self, pod: &Pod, now: Time) {
        let Some(member) = &pod.member else { return };
        // One that leaves is no member any more; its successor will be.
        if pod.terminating {
            return self.leave_gang(Some(pod), now);
        }
        let index = self.gangs.entry(Arc::clone(&member.gang)).or_default().entry(member.index).or_default();
        if index.insert(pod.uid.clone()) || pod.holds() {
            self.wake(&Key::Gang(Arc::clone(&member.gang)), now);
        }
    }

    pub(super) fn leave_gang(&mut self, pod: Option<&Pod>, now: Time) {
        let Some(pod) = pod else { return };
        let Some(member) = &pod.member else { return };
        let Some(gang) = self.gangs.get_mut(&member.gang) else { return };
        if let Some(index) = gang.get_mut(&member.index) {
            index.remove(&pod.uid);
            if index.is_empty() {
                gang.remove(&member.index);
            }
        }
        if gang.is_empty() {
            self.gangs.remove(&member.gang);
        }
        self.wake(&Key::Gang(Arc::clone(&member.gang)), now);
    }

    /// Decides about all members that are not placed yet.
    pub(super) fn decide_gang(&mut self, pod: &Arc<Pod>, now: Time, out: &mut Vec<Decision>) {
        let Some(member) = &pod.member else { return };
        let waits = Key::Gang(Arc::clone(&member.gang));
        // A pod whose map cannot be read hears that, and not that others are missing.
        let missing = match self.missing(pod, member) {
            Ok(missing) => missing,
            Err(no) => return self.refuse(pod, *no, now, out),
        };
        if !missing.is_empty() {
            let stateful = pod.ask.as_ref().is_some_and(|ask| ask.stateful);
            let no = No::new("Gang", waits_for(&missing, stateful), vec![waits]);
            return self.refuse(pod, no, now, out);
        }
        let members = self.pending(member);
        let mut placed = Vec::new();
        let mut failed: Option<(Arc<Pod>, Box<No>)> = None;
        for one in &members {
            if one.uid != pod.uid {
                self.queue.take(&one.uid, now);
            }
        }
        for one in &members {
            // Each is held before the next is looked at, so that they are not promised the same.
            match self.place(one) {
                Ok(place) => placed.push(self.assume(one, place)),
                Err(no) => {
                    failed = Some((Arc::clone(one), no));
                    break;
                }
            }
        }
        let Some((culprit, mut no)) = failed else {
            out.extend(placed.into_iter().map(Decision::Bind));
            return;
        };
        for assignment in &placed {
            self.take_back(&assignment.pod.uid);
        }
        no.keys.push(waits);
        for one in members.iter().filter(|one| one.uid != culprit.uid) {
            let text =
                format!("the gang waits for pod {}/{}: {}", culprit.namespace, culprit.name, no.message);
            let other = No::new("Gang", text, no.keys.clone());
            self.refuse(one, other, now, out);
        }
        self.refuse(&culprit, *no, now, out);
    }

    /// The indices of the map for which no pod is placed or can be.
    fn missing(&mut self, pod: &Pod, member: &Member) -> Result<Vec<u32>, Box<No>> {
        let text =
            pod.ask.as_ref().filter(|ask| ask.unsupported.is_empty()).and_then(|ask| ask.map.as_deref());
        let read = text.map(|text| self.maps.read(text));
        let Some(Ok(map)) = read.as_ref().map(|read| &read.map) else {
            return Err(match self.place(pod) {
                Err(no) => no,
                Ok(_) => Box::new(No::new("Map", "the map cannot be read", Vec::new())),
            });
        };
        let ready = |uid: &Uid| self.queue.contains(uid) || self.pods.get(uid).is_some_and(|pod| pod.holds());
        let there: BTreeSet<u32> = self
            .gangs
            .get(&member.gang)
            .into_iter()
            .flatten()
            .filter(|(_, uids)| uids.iter().any(ready))
            .map(|(index, _)| *index)
            .collect();
        Ok(map.entries().map(|(index, _)| index).filter(|index| !there.contains(index)).collect())
    }

    /// The members that wait in the queue, by index.
    fn pending(&self, member: &Member) -> Vec<Arc<Pod>> {
        let uids = self.gangs.get(&member.gang).into_iter().flat_map(|gang| gang.values().flatten());
        let waits = |uid: &&Uid| self.queue.contains(uid) && !self.assumed.contains_key(*uid);
        uids.filter(waits).filter_map(|uid| self.pods.get(uid).cloned()).collect()
    }
}

fn waits_for(missing: &[u32], stateful: bool) -> String {
    let mut named: Vec<String> = missing.iter().take(NAMED).map(ToString::to_string).collect();
    if missing.len() > named.len() {
        named.push("...".into());
    }
    let advice = if stateful {
        "; a StatefulSet needs podManagementPolicy: Parallel, or it waits for this pod before it makes the next"
    } else {
        ""
    };
    format!(
        "the gang ({}: \"true\") is not complete: no pod has index {} of the map{advice}",
        names::GANG,
        named.join(", ")
    )
}
