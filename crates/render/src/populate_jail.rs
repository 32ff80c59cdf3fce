//! The Job that fills the jail.

use std::collections::BTreeMap;

use api::nebius::slurm_cluster::Maintenance;
use k8s_openapi::api::batch::v1::{
    Job, JobSpec, PodFailurePolicy, PodFailurePolicyOnExitCodesRequirement,
    PodFailurePolicyOnPodConditionsPattern, PodFailurePolicyRule,
};
use k8s_openapi::api::core::v1::Container;
use slurm::agent::{PROGRAM, command, env};

use crate::labels::{self, Component};
use crate::login::cluster_type;
use crate::pod::{self, Built, Pod, Rights, field_var, mount, var};
use crate::validate::{PopulateJail, VolumeChoice};
use crate::{Facts, PopulateFacts, PopulateMark, Rendered, ValidatedCluster};

/// Name of the container; the message with which it ends is told as the cluster's.
const CONTAINER: &str = "populate-jail";
/// Seconds until it is killed: it goes on where it was.
const GRACE: i64 = 10;
/// How often it is tried again, after 10 s, 20 s and so on, at most 6 minutes.
const TRIES: i32 = 12;
/// The exit code that says that only a person can help.
const NEEDS_A_PERSON: i32 = 3;
/// Where pods find the uid of their Job: the agent overwrites the jail once for each Job, however many pods it takes.
const JOB_UID: &str = "metadata.labels['batch.kubernetes.io/controller-uid']";

pub(crate) fn render(cluster: &ValidatedCluster, facts: &Facts) -> Vec<Rendered> {
    let (Ok(populate), Some(jail)) = (&cluster.populate_jail, &cluster.jail) else { return Vec::new() };
    let Some(mark) = mark(cluster.maintenance, populate.overwrite, &facts.populate) else {
        return Vec::new();
    };
    let job = job(cluster, populate, jail, mark);
    vec![if is_followed(mark, &facts.populate) {
        // Whatever has changed since: it would be the same jail.
        Rendered::create_once(Component::PopulateJail, job)
    } else {
        Rendered::replace(Component::PopulateJail, job)
    }]
}

/// Whether the content of the jail is being taken away, or is about to be: nobody may be in it then.
#[must_use]
pub fn overwrites_jail(cluster: &ValidatedCluster, facts: &PopulateFacts) -> bool {
    let live = facts.mark.is_some_and(|mark| mark.overwrites() && !facts.is_done);
    // What is wrong in the spec makes no Job.
    let wanted = cluster.populate_jail.as_ref().ok().filter(|_| cluster.jail.is_some());
    let wanted = wanted.and_then(|populate| mark(cluster.maintenance, populate.overwrite, facts));
    live || facts.overwriter_lives
        || wanted.is_some_and(|mark| mark.overwrites() && !is_followed(mark, facts))
}

/// Whether the Job that was made for this has done its work.
fn is_followed(mark: PopulateMark, facts: &PopulateFacts) -> bool {
    facts.mark == Some(mark) && facts.is_done
}

/// What the Job is made for now; `None` where there shall be none. `overwrite` is `populateJail.overwrite`.
///
/// Nothing is taken away from under users: a Job that overwrites is only made while nobody is in the jail. One that exists stays
/// what it is, as nobody comes into the jail before it is done ([`overwrites_jail`]).
fn mark(maintenance: Maintenance, overwrite: bool, facts: &PopulateFacts) -> Option<PopulateMark> {
    match maintenance {
        Maintenance::DownscaleAndDeletePopulateJail | Maintenance::SkipPopulateJail => None,
        Maintenance::DownscaleAndOverwritePopulateJail => {
            // A Job that was made for an earlier wish is another one: it goes.
            let wanted = PopulateMark::Overwrite(facts.wish?);
            (facts.mark == Some(wanted) || !facts.jail_is_in_use).then_some(wanted)
        }
        Maintenance::None | Maintenance::Downscale => Some(match facts.mark {
            // It may still be at work when the maintenance ends.
            Some(PopulateMark::Overwrite(wish)) => PopulateMark::Overwrite(wish),
            Some(PopulateMark::FillAnew) if overwrite || facts.is_done => PopulateMark::FillAnew,
            None if overwrite && !facts.jail_is_in_use => PopulateMark::FillAnew,
            Some(PopulateMark::Fill | PopulateMark::FillAnew) | None => PopulateMark::Fill,
        }),
    }
}

fn job(cluster: &ValidatedCluster, populate: &PopulateJail, jail: &VolumeChoice, mark: PopulateMark) -> Job {
    let mut mounts = vec![mount::agent_program(), mount::jail(jail)];
    mounts.extend(populate.snapshot.as_ref().map(mount::jail_snapshot));
    let container = Container {
        name: CONTAINER.into(),
        image: Some(populate.image.clone()),
        image_pull_policy: Some(pod::pull_policy(populate.pull_policy)),
        command: Some(vec![PROGRAM.into(), command::POPULATE_JAIL.into()]),
        env: Some(vec![
            var(env::OVERWRITE, if mark.overwrites() { "1" } else { "0" }),
            field_var(env::POPULATE_JOB, JOB_UID),
            var(env::CLUSTER_TYPE, cluster_type(cluster.cluster_type)),
        ]),
        security_context: Some(pod::security_context(
            Rights::Mounts,
            &populate.app_armor_profile,
            None,
            populate.pod.host_users,
        )),
        ..Container::default()
    };
    let main = Built { container, mounts };
    // On its pods, too, so that a Job for another end is always another Job.
    let mark = BTreeMap::from([(labels::POPULATE_MARK.into(), mark.to_annotation())]);
    let pod = Pod {
        annotations: mark.clone(),
        ..Pod::new(cluster, Component::PopulateJail, &populate.pod, main, GRACE)
    };
    let mut template = pod.build().template;
    if let Some(spec) = &mut template.spec {
        spec.restart_policy = Some("Never".into());
    }
    let mut metadata = cluster.metadata(cluster.names.populate_jail(), Component::PopulateJail);
    metadata.annotations = Some(mark);
    Job {
        metadata,
        spec: Some(JobSpec {
            parallelism: Some(1),
            completions: Some(1),
            backoff_limit: Some(TRIES),
            pod_failure_policy: Some(failure_policy()),
            template,
            ..JobSpec::default()
        }),
        status: None,
    }
}

fn failure_policy() -> PodFailurePolicy {
    let needs_a_person = PodFailurePolicyRule {
        action: "FailJob".into(),
        on_exit_codes: Some(PodFailurePolicyOnExitCodesRequirement {
            container_name: Some(CONTAINER.into()),
            operator: "In".into(),
            values: vec![NEEDS_A_PERSON],
        }),
        ..PodFailurePolicyRule::default()
    };
    let moved = PodFailurePolicyRule {
        action: "Ignore".into(),
        on_pod_conditions: Some(vec![PodFailurePolicyOnPodConditionsPattern {
            type_: "DisruptionTarget".into(),
            status: "True".into(),
        }]),
        ..PodFailurePolicyRule::default()
    };
    PodFailurePolicy { rules: vec![needs_a_person, moved] }
}

#[cfg(test)]
mod tests {
    use super::PopulateMark::{Fill, FillAnew, Overwrite};
    use super::*;

    const WITHOUT: bool = false;
    const ANEW: bool = true;

    fn live(mark: PopulateMark) -> PopulateFacts {
        PopulateFacts { mark: Some(mark), is_done: true, ..PopulateFacts::default() }
    }

    fn used(facts: PopulateFacts) -> PopulateFacts {
        PopulateFacts { jail_is_in_use: true, ..facts }
    }

    fn unfinished(facts: PopulateFacts) -> PopulateFacts {
        PopulateFacts { is_done: false, ..facts }
    }

    #[test]
    fn a_jail_is_overwritten_once_for_each_wish_and_never_under_users() {
        let marked = |facts| mark(Maintenance::DownscaleAndOverwritePopulateJail, WITHOUT, &facts);
        let wish = |wish, facts| PopulateFacts { wish: Some(wish), ..facts };
        assert_eq!(marked(used(live(Fill))), None, "the status does not tell the wish yet");
        assert_eq!(marked(wish(3, used(PopulateFacts::default()))), None, "pods stop first");
        assert_eq!(marked(wish(3, PopulateFacts::default())), Some(Overwrite(3)));
        assert_eq!(marked(wish(3, live(Fill))), Some(Overwrite(3)), "over a Job that could not be deleted");
        assert_eq!(marked(wish(3, live(Overwrite(3)))), Some(Overwrite(3)), "it is not done again");
        assert_eq!(marked(wish(7, live(Overwrite(3)))), Some(Overwrite(7)), "the next wish is another one");
        assert!(is_followed(Overwrite(3), &live(Overwrite(3))));
        assert!(!is_followed(Overwrite(7), &live(Overwrite(3))), "the last one's end is not this one's");
        let after = mark(Maintenance::None, WITHOUT, &used(live(Overwrite(3))));
        assert_eq!(after, Some(Overwrite(3)), "nor when the maintenance is over");
    }

    #[test]
    fn a_job_of_a_jail_with_users_does_not_overwrite_whatever_the_spec_says() {
        for mode in [Maintenance::None, Maintenance::Downscale] {
            let marked = |facts| mark(mode, ANEW, &facts);
            assert_eq!(marked(PopulateFacts::default()), Some(FillAnew), "a new cluster");
            assert_eq!(marked(used(PopulateFacts::default())), Some(Fill), "the Job was deleted");
            for kept in [Fill, FillAnew] {
                assert_eq!(marked(used(unfinished(live(kept)))), Some(kept), "no Job becomes the other");
                assert_eq!(marked(unfinished(live(kept))), Some(kept), "nor when pods come and go");
                assert_eq!(marked(used(live(kept))), Some(kept));
                assert_eq!(marked(live(kept)), Some(kept), "its work is done");
            }
            assert_eq!(mark(mode, WITHOUT, &unfinished(live(FillAnew))), Some(Fill), "nobody wants it");
        }
    }

    #[test]
    fn some_modes_have_no_job() {
        for mode in [Maintenance::DownscaleAndDeletePopulateJail, Maintenance::SkipPopulateJail] {
            assert_eq!(mark(mode, ANEW, &live(Fill)), None);
        }
        assert_eq!(mark(Maintenance::Downscale, WITHOUT, &PopulateFacts::default()), Some(Fill));
    }

    #[test]
    fn marks_are_read_as_they_are_written() {
        for mark in [Fill, FillAnew, Overwrite(0), Overwrite(12)] {
            assert_eq!(PopulateMark::from_annotation(Some(&mark.to_annotation())), mark);
        }
        assert_eq!(PopulateMark::from_annotation(None), Fill);
        assert_eq!(PopulateMark::from_annotation(Some("overwrite")), Overwrite(0), "of an earlier operator");
    }
}
