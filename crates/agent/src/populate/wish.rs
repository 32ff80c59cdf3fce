//! What is done with a volume, by what it holds and what is wished. A wish to overwrite counts once, however many pods its
//! Job starts, and only as long as it is wished.

use slurm::agent::env;

use super::state::{Journal, State};

/// What the Job was made for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wish {
    /// All that the volume holds is to be replaced.
    pub overwrite: bool,
    /// The Job, by which its pods know each other; empty where that is not known.
    pub job: String,
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Act {
    /// Nothing: it is complete.
    Nothing,
    /// It is taken as it is.
    Adopt,
    /// It is filled, or filled on.
    Fill(Journal),
    /// Everything in it is replaced.
    Overwrite(Journal),
    /// It holds something else, for example this.
    Foreign(String),
    /// Others' files were being replaced, which nobody wishes any more.
    Withdrawn,
}

impl Wish {
    /// What this container was told.
    pub fn of_this_container() -> Self {
        Self {
            overwrite: std::env::var(env::OVERWRITE).as_deref() == Ok("1"),
            job: std::env::var(env::POPULATE_JOB).unwrap_or_default(),
        }
    }

    fn is_of(&self, job: &str) -> bool {
        !self.job.is_empty() && self.job == job
    }

    /// What is to be done with a volume.
    pub fn act(&self, state: State) -> Act {
        let of_this_job = |journal: Journal| Journal { job: self.job.clone(), ..journal };
        match (state, self.overwrite) {
            (State::Complete(_), false) => Act::Nothing,
            // An earlier pod of this Job has done it.
            (State::Complete(marker), true) if self.is_of(&marker.job) => Act::Nothing,
            (State::RootLike, false) => Act::Adopt,
            (State::Foreign(what), false) => Act::Foreign(what),
            (State::HalfDone(journal), false) if journal.replace && !journal.own => Act::Withdrawn,
            (State::HalfDone(journal), false) => Act::Fill(of_this_job(journal)),
            (State::HalfDone(journal), true) => Act::Fill(Journal { replace: true, ..of_this_job(journal) }),
            (State::Empty, _) => Act::Fill(Journal::of_empty(&self.job)),
            (State::Complete(_) | State::RootLike | State::Foreign(_), true) => {
                Act::Overwrite(Journal::of_overwrite(&self.job))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::state::Marker;
    use super::*;

    fn wish(overwrite: bool, job: &str) -> Wish {
        Wish { overwrite, job: job.into() }
    }

    fn complete(job: &str) -> State {
        State::Complete(Marker::new(job, "a".into(), 1, 2))
    }

    #[test]
    fn a_wish_to_overwrite_counts_once() {
        let overwrites = |job: &str, by: &str| wish(true, job).act(complete(by)) != Act::Nothing;
        assert!(!overwrites("one", "one"), "a second pod of the Job");
        assert!(overwrites("two", "one"), "another Job");
        assert!(overwrites("one", ""), "a marker of before");
        assert!(overwrites("", ""), "where the Job is not known, each pod does what it is told");
        assert_eq!(wish(false, "two").act(complete("one")), Act::Nothing);
    }

    #[test]
    fn what_was_begun_is_gone_on_with_only_as_far_as_it_is_wished() {
        let own = Journal { through: Some("usr".into()), ..Journal::of_empty("one") };
        let others = Journal { through: Some("usr".into()), ..Journal::of_overwrite("one") };
        let act = |overwrite, journal: &Journal| wish(overwrite, "two").act(State::HalfDone(journal.clone()));
        let of_two = |journal: &Journal| Journal { job: "two".into(), ..journal.clone() };
        assert_eq!(act(false, &own), Act::Fill(of_two(&own)));
        assert_eq!(
            act(false, &Journal { replace: true, ..own.clone() }),
            Act::Fill(Journal { replace: true, ..of_two(&own) })
        );
        assert_eq!(act(false, &others), Act::Withdrawn);
        assert_eq!(act(true, &others), Act::Fill(of_two(&others)));
    }

    #[test]
    fn only_what_was_ours_from_the_start_gives_way_to_another_image() {
        let of = |journal: Journal| journal.with_source("new");
        assert!(!of(Journal::of_empty("")).replace, "the first one");
        assert!(of(Journal { source: "old".into(), ..Journal::of_empty("") }).replace);
        let of_another_version =
            Journal { source: "old".into(), through: Some("a".into()), ..Journal::default() };
        assert_eq!((of(of_another_version.clone()).replace, of(of_another_version).through), (false, None));
        let same = Journal { source: "new".into(), through: Some("a".into()), ..Journal::of_empty("") };
        assert_eq!(of(same.clone()), same);
        assert!(!of(Journal::default()).replace, "one that could not be read");
    }
}
