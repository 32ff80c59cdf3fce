//! The two orders in which parts wait for each other: maintenance, and a change of Slurm's version. No I/O.

use render::{HeldImages, Running};

/// How far maintenance is, as far as it matters for the order.
#[derive(Clone, Copy, Debug, Default)]
pub struct Presence {
    /// Whether the user wants everything stopped.
    pub in_maintenance: bool,
    /// Whether workers have pods, of whichever NodeSet.
    pub worker_pods: bool,
    /// Whether login pods are there.
    pub login_pods: bool,
    /// Whether the login part exists and is stopped.
    pub login_is_stopped: bool,
    /// Whether the NodeSet of `slurmNodes.worker` exists and is stopped.
    pub workers_are_stopped: bool,
    /// Whether slurmctld is ready.
    pub controller_is_ready: bool,
}

/// Which parts may have pods now. Down: workers, which their controller drains; login pods; slurmctld and the rest. Up: the
/// other way round.
///
/// A login pod is stopped only when no worker is left: by then no `srun` or `salloc` that was started there lives.
pub fn running(presence: Presence) -> Running {
    if presence.in_maintenance {
        let login = presence.worker_pods;
        let controller = presence.worker_pods || presence.login_pods;
        return Running { accounting: controller, controller, rest: controller, workers: false, login };
    }
    Running {
        accounting: true,
        controller: true,
        rest: true,
        workers: !presence.workers_are_stopped || presence.controller_is_ready,
        login: !presence.login_is_stopped || presence.controller_is_ready,
    }
}

/// The same while the content of the jail is being taken away: nobody comes into it. Pods that are there stay.
pub fn held_for_jail(running: Running, presence: Presence) -> Running {
    Running {
        workers: running.workers && presence.worker_pods,
        login: running.login && presence.login_pods,
        ..running
    }
}

/// One part in a change of version.
#[derive(Clone, Debug, Default)]
pub struct Image {
    /// What it runs now; none if it is not there.
    pub live: Option<String>,
    /// What the spec says; none if the part is off or not known.
    pub wanted: Option<String>,
    /// Whether all its pods are as its template says.
    pub is_updated: bool,
    /// Whether they are ready, too.
    pub is_rolled_out: bool,
}

impl Image {
    /// Whether its image would change.
    fn would_change(&self) -> bool {
        matches!((&self.live, &self.wanted), (Some(live), Some(wanted)) if live != wanted)
    }

    /// Whether those after it must wait. What is not there, or off, lets them go.
    fn is_under_way(&self) -> bool {
        self.live.is_some() && self.wanted.is_some() && (self.would_change() || !self.is_rolled_out)
    }

    fn held(&self, hold: bool) -> Option<String> {
        if hold && self.would_change() { self.live.clone() } else { None }
    }
}

/// The images of all parts.
#[derive(Clone, Debug, Default)]
pub struct Images {
    /// slurmdbd.
    pub slurmdbd: Image,
    /// slurmctld.
    pub slurmctld: Image,
    /// slurmrestd.
    pub slurmrestd: Image,
    /// sshd of login pods.
    pub sshd: Image,
    /// slurmd of `slurmNodes.worker`.
    pub slurmd: Image,
}

/// Which parts keep their image for now: slurmctld waits for slurmdbd, and all others for both. A part whose image does not
/// change waits for nobody.
pub fn held_images(images: &Images) -> HeldImages {
    let slurmdbd = images.slurmdbd.is_under_way();
    let both = slurmdbd || images.slurmctld.is_under_way();
    HeldImages {
        slurmdbd: None,
        slurmctld: images.slurmctld.held(slurmdbd),
        slurmrestd: images.slurmrestd.held(both),
        sshd: images.sshd.held(both),
        slurmd: images.slurmd.held(both),
    }
}

/// What workers wait for before they get another revision; none if nothing. slurmd must not be newer than slurmctld, nor slurmctld
/// newer than slurmdbd.
///
/// The NodeSet of `slurmNodes.worker` keeps its image until then, by [`held_images`]. A NodeSet of the user names its image itself, so
/// it is told to wait.
pub fn workers_wait(slurmdbd: &Image, slurmctld: &Image) -> Option<&'static str> {
    if slurmdbd.would_change() {
        return Some("slurmdbd gets its new image first");
    }
    if slurmctld.would_change() {
        return Some("slurmctld gets its new image first");
    }
    // Whether it is ready does not matter: as long as it does not answer, nothing that runs is replaced.
    (slurmctld.live.is_some() && !slurmctld.is_updated).then_some("slurmctld is being replaced first")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn maintenance_stops_workers_then_login_pods_then_the_rest() {
        let mut presence = Presence {
            in_maintenance: true,
            worker_pods: true,
            login_pods: true,
            controller_is_ready: true,
            ..Presence::default()
        };
        let state = |presence| {
            let Running { accounting, controller, rest, workers, login } = running(presence);
            assert!(accounting == controller && rest == controller);
            (workers, login, controller)
        };
        assert_eq!(state(presence), (false, true, true));
        presence.worker_pods = false;
        assert_eq!(state(presence), (false, false, true));
        presence.login_pods = false;
        assert_eq!(state(presence), (false, false, false));
    }

    #[test]
    fn after_maintenance_slurmctld_comes_first() {
        let stopped = Presence { login_is_stopped: true, workers_are_stopped: true, ..Presence::default() };
        let now = running(stopped);
        assert!(now.controller && now.rest && now.accounting && !now.login && !now.workers);
        assert_eq!(running(Presence { controller_is_ready: true, ..stopped }), Running::default());
        assert_eq!(running(Presence::default()), Running::default(), "a new cluster starts all at once");
    }

    #[test]
    fn nobody_comes_into_a_jail_that_is_being_overwritten_and_nobody_is_thrown_out() {
        let ready = Presence { controller_is_ready: true, ..Presence::default() };
        let held = held_for_jail(running(ready), ready);
        assert!(held.controller && held.rest && held.accounting && !held.login && !held.workers);
        let used = Presence { login_pods: true, worker_pods: true, ..ready };
        assert_eq!(held_for_jail(running(used), used), Running::default());
    }

    fn image(live: &str, wanted: &str, is_rolled_out: bool) -> Image {
        Image {
            live: Some(live.into()),
            wanted: Some(wanted.into()),
            is_updated: is_rolled_out,
            is_rolled_out,
        }
    }

    fn all(slurmdbd: Image, slurmctld: Image) -> Images {
        let other = image("old", "new", true);
        Images { slurmdbd, slurmctld, slurmrestd: other.clone(), sshd: other.clone(), slurmd: other }
    }

    #[test]
    fn a_new_version_goes_to_slurmdbd_then_slurmctld_then_all_others() {
        let old = Some("old".to_string());
        let step = held_images(&all(image("old", "new", true), image("old", "new", true)));
        assert_eq!((step.slurmdbd, step.slurmctld, step.sshd), (None, old.clone(), old.clone()));
        let step = held_images(&all(image("new", "new", false), image("old", "new", true)));
        assert_eq!(step.slurmctld, old, "slurmdbd does not run yet");
        let step = held_images(&all(image("new", "new", true), image("old", "new", true)));
        assert_eq!((step.slurmctld, step.slurmd), (None, old.clone()));
        let step = held_images(&all(image("new", "new", true), image("new", "new", false)));
        assert_eq!((step.slurmrestd, step.sshd), (old.clone(), old), "slurmctld does not run yet");
        let step = held_images(&all(image("new", "new", true), image("new", "new", true)));
        assert_eq!(step, HeldImages::default());
    }

    #[test]
    fn workers_keep_their_revision_until_slurmctld_has_its_new_version() {
        let (old, starts, new) =
            (image("old", "new", true), image("new", "new", false), image("new", "new", true));
        let waits = |slurmdbd: &Image, slurmctld: &Image| workers_wait(slurmdbd, slurmctld).is_some();
        assert!(waits(&old, &old));
        assert!(waits(&starts, &old), "slurmctld waits for slurmdbd");
        assert!(waits(&new, &old));
        assert!(waits(&new, &starts));
        assert!(!waits(&new, &new));
        assert!(!waits(&starts, &new), "a broken slurmdbd is no reason");
        let broken = Image { is_rolled_out: false, ..new.clone() };
        assert!(!waits(&new, &broken), "workers that never ran can be repaired nevertheless");
        assert!(!waits(&Image::default(), &new), "no accounting");
        assert!(!waits(&Image::default(), &Image::default()), "a new cluster starts all at once");
    }

    #[test]
    fn a_part_whose_image_stays_waits_for_nobody() {
        let mut images = all(image("old", "new", true), image("old", "new", true));
        images.sshd = image("same", "same", true);
        assert_eq!(held_images(&images).sshd, None);
    }

    #[test]
    fn a_new_cluster_and_one_without_accounting_hold_nothing() {
        assert_eq!(held_images(&Images::default()), HeldImages::default());
        assert_eq!(held_images(&all(Image::default(), image("old", "new", true))).slurmctld, None);
    }
}
