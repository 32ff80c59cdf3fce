//! Which workers are made and which go. No I/O.
//!
//! This is the small plan of a set that only grows, shrinks and heals; the one that also rolls takes its place.

use std::collections::BTreeMap;

/// What is known of one worker's pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Worker {
    /// Whether it is on its way out.
    pub is_terminating: bool,
    /// Whether all its containers have ended for good: nothing can run in it.
    pub is_finished: bool,
    /// Whether its slurmd never ran: no job can be there.
    pub never_ran: bool,
    /// Whether it was made of another template.
    pub is_stale: bool,
}

/// What to do now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// Ordinals to make pods for, the smallest first.
    pub make: Vec<u32>,
    /// Pods in which nothing can run: they go at once.
    pub remove: Vec<u32>,
    /// Pods that should go and may hold jobs: they are drained, and go when Slurm says that they are free. The greatest
    /// ordinal first, so that what stays is without gaps.
    pub drain: Vec<u32>,
}

/// Plans for a set that should have `replicas` workers.
pub fn plan(replicas: u32, workers: &BTreeMap<u32, Worker>) -> Plan {
    let mut plan = Plan::default();
    for ordinal in 0..replicas {
        match workers.get(&ordinal) {
            None => plan.make.push(ordinal),
            // The next one gets its name when it is gone.
            Some(worker) if worker.is_terminating => {}
            Some(worker) if worker.is_finished || (worker.is_stale && worker.never_ran) => {
                plan.remove.push(ordinal);
            }
            Some(_) => {}
        }
    }
    for (ordinal, worker) in workers.range(replicas..).rev() {
        if worker.is_terminating {
            continue;
        }
        if worker.is_finished || worker.never_ran {
            plan.remove.push(*ordinal);
        } else {
            plan.drain.push(*ordinal);
        }
    }
    plan
}

#[cfg(test)]
mod tests {
    use super::*;

    const WELL: Worker =
        Worker { is_terminating: false, is_finished: false, never_ran: false, is_stale: false };

    fn set(workers: &[(u32, Worker)]) -> BTreeMap<u32, Worker> {
        workers.iter().copied().collect()
    }

    #[test]
    fn missing_workers_are_made_and_well_ones_left_alone() {
        let plan = plan(3, &set(&[(1, WELL)]));
        assert_eq!(plan, Plan { make: vec![0, 2], ..Plan::default() });
    }

    #[test]
    fn a_worker_on_its_way_out_is_waited_for() {
        let going = Worker { is_terminating: true, ..WELL };
        assert_eq!(plan(1, &set(&[(0, going), (1, going)])), Plan::default());
    }

    #[test]
    fn scale_in_drains_what_may_hold_jobs_the_greatest_first() {
        let plan = plan(1, &set(&[(0, WELL), (1, WELL), (2, WELL)]));
        assert_eq!(plan, Plan { drain: vec![2, 1], ..Plan::default() });
    }

    #[test]
    fn a_worker_that_never_ran_or_has_ended_goes_at_once() {
        let new = Worker { never_ran: true, ..WELL };
        let ended = Worker { is_finished: true, ..WELL };
        assert_eq!(plan(0, &set(&[(0, new), (1, ended)])).remove, [1, 0]);
        assert_eq!(plan(2, &set(&[(0, new), (1, ended)])).remove, [1], "the ended one is made again");
    }

    #[test]
    fn an_old_template_replaces_only_what_never_ran() {
        let stuck = Worker { never_ran: true, is_stale: true, ..WELL };
        let old = Worker { is_stale: true, ..WELL };
        assert_eq!(plan(2, &set(&[(0, stuck), (1, old)])), Plan { remove: vec![0], ..Plan::default() });
    }
}
