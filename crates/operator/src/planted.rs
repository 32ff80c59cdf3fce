//! Bugs that tests plant, to see that what they check is found.

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
        $crate::planted::is_planted($crate::planted::Bug::$bug)
    };
}

pub(crate) use planted;

#[cfg(test)]
pub(crate) use planting::*;

#[cfg(test)]
mod planting {
    use std::cell::Cell;

    /// What is broken on purpose.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) enum Bug {
        /// Law 4: NodeName lines follow the number of replicas.
        LinesFromReplicas,
        /// Law 4: NodeName lines are of the newest pod, whatever the others were made of.
        LinesOfTheNewest,
        /// Law 4: a node leaves slurm.conf when its pod begins to go.
        LeavesBeforeItsPod,
    }

    impl Bug {
        pub(crate) const ALL: &[Self] =
            &[Self::LinesFromReplicas, Self::LinesOfTheNewest, Self::LeavesBeforeItsPod];
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
}
