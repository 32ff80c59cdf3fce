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
use crate::pod::{self, Built, Pod, Rights, mount, var};
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

pub(crate) fn render(cluster: &ValidatedCluster, facts: &Facts) -> Vec<Rendered> {
    let (Ok(populate), Some(jail)) = (&cluster.populate_jail, &cluster.jail) else { return Vec::new() };
    let Some(mark) = mark(cluster.maintenance, facts) else { return Vec::new() };
    let job = job(cluster, populate, jail, mark);
    let is_as_wanted = facts.populate.mark == Some(mark) && facts.populate.is_done;
    vec![if is_as_wanted {
        // Whatever has changed since: it would be the same jail.
        Rendered::create_once(Component::PopulateJail, job)
    } else {
        Rendered::replace(Component::PopulateJail, job)
    }]
}

/// What the Job is made for now; `None` where there shall be none.
fn mark(maintenance: Maintenance, facts: &Facts) -> Option<PopulateMark> {
    let PopulateFacts { mark: live, jail_is_in_use, mode_is_new, .. } = facts.populate;
    let overwrites = live == Some(PopulateMark::Overwrite);
    match maintenance {
        Maintenance::DownscaleAndDeletePopulateJail | Maintenance::SkipPopulateJail => None,
        // A Job that was made for an earlier wish goes first.
        Maintenance::DownscaleAndOverwritePopulateJail if mode_is_new => None,
        // Nothing is taken away from under users.
        Maintenance::DownscaleAndOverwritePopulateJail => {
            (overwrites || !jail_is_in_use).then_some(PopulateMark::Overwrite)
        }
        // It may still be at work when the maintenance ends.
        Maintenance::None | Maintenance::Downscale if overwrites => Some(PopulateMark::Overwrite),
        Maintenance::None | Maintenance::Downscale => Some(PopulateMark::Fill),
    }
}

fn job(cluster: &ValidatedCluster, populate: &PopulateJail, jail: &VolumeChoice, mark: PopulateMark) -> Job {
    let overwrite = match mark {
        PopulateMark::Fill => populate.overwrite,
        PopulateMark::Overwrite => true,
    };
    let mut mounts = vec![mount::agent_program(), mount::jail(jail)];
    mounts.extend(populate.snapshot.as_ref().map(mount::jail_snapshot));
    let container = Container {
        name: CONTAINER.into(),
        image: Some(populate.image.clone()),
        image_pull_policy: Some(pod::pull_policy(populate.pull_policy)),
        command: Some(vec![PROGRAM.into(), command::POPULATE_JAIL.into()]),
        env: Some(vec![
            var(env::OVERWRITE, if overwrite { "1" } else { "0" }),
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
    let mark = BTreeMap::from([(labels::POPULATE_MARK.into(), mark.as_str().into())]);
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
    use super::*;

    fn marked(maintenance: Maintenance, populate: PopulateFacts) -> Option<PopulateMark> {
        mark(maintenance, &Facts { populate, ..Facts::default() })
    }

    fn live(mark: PopulateMark) -> PopulateFacts {
        PopulateFacts { mark: Some(mark), is_done: true, ..PopulateFacts::default() }
    }

    #[test]
    fn a_jail_is_overwritten_once_for_each_wish_and_never_under_users() {
        use PopulateMark::{Fill, Overwrite};
        let overwrite = Maintenance::DownscaleAndOverwritePopulateJail;
        let used = |facts| PopulateFacts { jail_is_in_use: true, ..facts };
        let new = |facts| PopulateFacts { mode_is_new: true, ..facts };
        assert_eq!(marked(overwrite, new(used(live(Fill)))), None, "the old Job goes");
        assert_eq!(marked(overwrite, used(PopulateFacts::default())), None, "pods stop first");
        assert_eq!(marked(overwrite, PopulateFacts::default()), Some(Overwrite));
        assert_eq!(marked(overwrite, live(Overwrite)), Some(Overwrite), "it is not done again");
        assert_eq!(marked(Maintenance::None, used(live(Overwrite))), Some(Overwrite), "nor afterwards");
        assert_eq!(marked(overwrite, new(live(Overwrite))), None, "the next wish is another one");
    }

    #[test]
    fn some_modes_have_no_job() {
        for mode in [Maintenance::DownscaleAndDeletePopulateJail, Maintenance::SkipPopulateJail] {
            assert_eq!(marked(mode, live(PopulateMark::Fill)), None);
        }
        assert_eq!(marked(Maintenance::Downscale, PopulateFacts::default()), Some(PopulateMark::Fill));
    }
}
