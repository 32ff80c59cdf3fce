//! Bugs that tests plant, to see that the properties find them.

/// Whether this bug is planted. Never, outside of tests.
#[cfg(not(test))]
macro_rules! planted {
    ($bug:ident) => {
        false
    };
}

/// Whether this bug is planted.
#[cfg(test)]
macro_rules! planted {
    ($bug:ident) => {
        $crate::bug::is_planted($crate::bug::Bug::$bug)
    };
}

#[cfg(test)]
pub(crate) use planting::*;

#[cfg(test)]
mod planting {
    use std::cell::Cell;

    use slurm::{Evidence, Holders, NodeView, Occupancy, Reading, occupancy};

    /// What is broken on purpose.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) enum Bug {
        /// Law 1: jobs are not looked at.
        NodeStateAlone,
        /// Law 1: jobs may have been read before the nodes.
        JobsInAnyOrder,
        /// Law 2: no answer means free.
        UnknownIsFree,
        /// Law 2: no answer is too old.
        OldIsFresh,
        /// Law 2: an empty or foreign list is believed.
        TrustsAnyList,
        /// Law 3: a list of jobs that did not come is an empty one.
        NoJobListIsNoJobs,
        /// Law 5: deleting the set deletes busy pods.
        DeletionKills,
        /// Law 5: the deadline kills, although the user wants to wait.
        DeadlineAlwaysKills,
        /// Law 5: only pods whose nodes look allocated are guarded.
        GuardsAllocatedOnly,
        /// Drains of admins are taken back.
        UndrainsEverybodys,
        /// Drains are taken back before the pod works.
        UndrainsEarly,
        /// Drains are never taken back.
        ForgetsUndrain,
        /// Drains are written again and again.
        DrainsAgain,
        /// New pods that do not work yet are not counted.
        BudgetForgetsNew,
        /// Pods that are not there are not counted.
        BudgetForgetsEmpty,
        /// Pods that drain already are not counted.
        BudgetForgetsDrained,
        /// A small percentage is nothing.
        PercentRoundsDown,
        /// The lowest ordinals leave.
        LowestFirst,
        /// Only records whose reason names their own pod are known again.
        RecordsOfOneOnly,
        /// A new pod gets the lowest name, also where somebody else drained the node of another.
        LowestNameAlways,
        /// Pods that terminate count, so others leave in their place.
        CountsTerminating,
        /// The order of the input decides.
        OrderOfPods,
    }

    impl Bug {
        pub(crate) const ALL: &[Self] = &[
            Self::NodeStateAlone,
            Self::JobsInAnyOrder,
            Self::UnknownIsFree,
            Self::OldIsFresh,
            Self::TrustsAnyList,
            Self::NoJobListIsNoJobs,
            Self::DeletionKills,
            Self::DeadlineAlwaysKills,
            Self::GuardsAllocatedOnly,
            Self::UndrainsEverybodys,
            Self::UndrainsEarly,
            Self::ForgetsUndrain,
            Self::DrainsAgain,
            Self::BudgetForgetsNew,
            Self::BudgetForgetsEmpty,
            Self::BudgetForgetsDrained,
            Self::PercentRoundsDown,
            Self::LowestFirst,
            Self::RecordsOfOneOnly,
            Self::LowestNameAlways,
            Self::CountsTerminating,
            Self::OrderOfPods,
        ];
    }

    thread_local! {
        static PLANTED: Cell<Option<Bug>> = const { Cell::new(None) };
    }

    /// Plants a bug in this thread, or removes it.
    pub(crate) fn plant(bug: Option<Bug>) {
        PLANTED.set(bug);
    }

    pub(crate) fn is_planted(bug: Bug) -> bool {
        PLANTED.get() == Some(bug)
    }

    /// What a judge says who leaves out a part of the law, if that is planted.
    pub(crate) fn wrong_occupancy(name: &str, evidence: &Evidence<'_>) -> Option<Occupancy> {
        let (node, read) = match evidence.node {
            NodeView::Seen(node, read) => (Some(node), read),
            NodeView::Absent(read) => (None, read),
            NodeView::Unknown => return None,
        };
        let late = |read: Reading| Reading { asked: read.answered, ..read };
        match PLANTED.get()? {
            Bug::NodeStateAlone => {
                let drained = node?.state.is_drained();
                Some(if drained { Occupancy::Free } else { Occupancy::Idle })
            }
            Bug::JobsInAnyOrder => {
                let jobs = evidence.jobs.map(|(jobs, _)| (jobs, late(read)));
                Some(occupancy(name, &Evidence { jobs, ..*evidence }))
            }
            Bug::NoJobListIsNoJobs => {
                let nobody = Holders::default();
                let jobs = evidence.jobs.or(Some((&nobody, late(read))));
                Some(occupancy(name, &Evidence { jobs, ..*evidence }))
            }
            _ => None,
        }
    }
}
