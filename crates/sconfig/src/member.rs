//! One JailedConfig during a look: what it wants, how the jail is, and what follows. No I/O.

use std::collections::BTreeSet;

use api::nebius::jailed_config_condition as reason;
use api::nebius::{JailedConfig, UpdateAction};
use sha2::{Digest as _, Sha256};
use slurm::config_set::name_of_path;

use crate::jail::{JailPath, Wanted};
use crate::plan::{Owners, Problem};
use crate::status::{Told, files_of};
use crate::verdict::Verdict;

/// What is to be done for a JailedConfig.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Nothing: the files are as they should be.
    Keep,
    /// These files are written, and those removed.
    Write(Vec<Wanted>, Vec<JailPath>),
    /// Nothing before slurmctld has decided.
    Wait(&'static str),
    /// Nothing, because slurmctld has decided against it.
    Refuse(String),
}

/// Decides what is to be done. `differing` are files that are not as they should be, `obsolete` those that are not wanted any more.
/// `is_patient` says whether slurmctld may still be waited for.
pub fn step(differing: Vec<Wanted>, obsolete: Vec<JailPath>, verdict: &Verdict, is_patient: bool) -> Step {
    if differing.is_empty() && obsolete.is_empty() {
        return Step::Keep;
    }
    // Commands in the jail read these. With files that slurmctld does not take, they would not work with it any more.
    let of_slurm = |path: &JailPath| name_of_path(&path.to_string()).is_some();
    if differing.iter().any(|file| of_slurm(&file.path)) {
        match verdict {
            Verdict::Refused(words) => return Step::Refuse(words.clone()),
            Verdict::Awaited(what) if is_patient => return Step::Wait(what),
            Verdict::Awaited(_) | Verdict::InUse | Verdict::NotConcerned => {}
        }
    }
    Step::Write(differing, obsolete)
}

/// Whether a JailedConfig asks for Slurm to read its configuration again.
pub fn asks_to_reconfigure(config: &JailedConfig) -> bool {
    config.spec.update_actions.iter().flatten().any(|action| *action == UpdateAction::Reconfigure)
}

/// Paths that are there because of it, that it does not want any more, and that nobody else wants.
pub fn obsolete(config: &JailedConfig, owners: &Owners) -> Vec<JailPath> {
    let files = files_of(config).into_iter().filter(|path| owners.get(path).is_none());
    files.filter_map(|path| JailPath::parse(&path).ok()).collect()
}

/// The paths of files.
pub fn paths(files: &[Wanted]) -> BTreeSet<String> {
    files.iter().map(|file| file.path.to_string()).collect()
}

/// What tells these files from others.
pub fn fingerprint(files: &[Wanted]) -> String {
    let mut hasher = Sha256::new();
    for file in files {
        hasher.update(format!("{} {:o} {}\n", file.path, file.mode, file.content.len()));
        hasher.update(&file.content);
    }
    hasher.finalize().iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

/// What the conditions tell while files are on their way.
pub fn on_the_way(what: &str) -> (Told, Told) {
    let told = Told::no(reason::REFRESH, what);
    (told.clone(), told)
}

/// What the conditions tell of files that are not written.
pub fn not_written(problem: &Problem) -> (Told, Told) {
    let written = Told::no(problem.reason, problem.message.clone());
    (written, Told::no(reason::NOT_WRITTEN, problem.message.clone()))
}

/// What the conditions tell of files that slurmctld refuses, and that therefore did not come to the jail.
pub fn refused(words: &str) -> (Told, Told) {
    let message =
        format!("Slurm refuses the configuration with these files, and goes on with the one before: {words}");
    let kept = "the files stay as they were, because Slurm refuses the new ones: see UpdateActionsCompleted";
    (Told::no(reason::NOT_WRITTEN, kept), Told::no(reason::REFUSED, message))
}

/// What the conditions tell of files that are in the jail.
pub fn written(reconfigures: bool, verdict: &Verdict) -> (Told, Told) {
    let completed = match verdict {
        _ if !reconfigures => Told::yes(reason::MISSING_ACTION),
        Verdict::InUse => Told::yes(reason::SUCCESS),
        Verdict::NotConcerned => Told {
            message: "no file lies below /etc/slurm, so Slurm has nothing to read again".into(),
            ..Told::yes(reason::SUCCESS)
        },
        Verdict::Refused(words) => refused(words).1,
        Verdict::Awaited(what) => Told::no(reason::REFRESH, format!("waits for {what}")),
    };
    (Told::yes(reason::SUCCESS), completed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str) -> Wanted {
        Wanted { path: JailPath::parse(path).unwrap(), mode: 0o644, content: b"x".to_vec() }
    }

    #[test]
    fn files_of_slurm_come_to_the_jail_when_slurmctld_runs_with_them_or_says_nothing_for_long() {
        let step =
            |path: &str, verdict: &Verdict, is_patient| step(vec![file(path)], vec![], verdict, is_patient);
        let (of_slurm, other) = ("/etc/slurm/x.conf", "/etc/motd");
        let awaited = Verdict::Awaited("it");
        assert!(matches!(step(of_slurm, &Verdict::InUse, true), Step::Write(..)));
        assert_eq!(step(of_slurm, &awaited, true), Step::Wait("it"));
        assert!(matches!(step(of_slurm, &awaited, false), Step::Write(..)));
        let refused = Verdict::Refused("no".into());
        assert_eq!(step(of_slurm, &refused, false), Step::Refuse("no".into()));
        assert!(matches!(step(other, &refused, true), Step::Write(..)), "Slurm has no say in it");
        assert_eq!(super::step(vec![], vec![], &refused, true), Step::Keep);
    }

    #[test]
    fn conditions_tell_what_slurm_said() {
        let (files, actions) = refused("fatal: bad line");
        assert_eq!((files.status, files.reason), (false, reason::NOT_WRITTEN));
        assert_eq!((actions.status, actions.reason), (false, reason::REFUSED));
        assert!(actions.message.ends_with("fatal: bad line"));
        assert_eq!(written(false, &Verdict::Awaited("it")).1.reason, reason::MISSING_ACTION);
        assert_eq!(written(true, &Verdict::InUse).1, Told::yes(reason::SUCCESS));
        assert!(!written(true, &Verdict::Awaited("it")).1.status);
    }
}
