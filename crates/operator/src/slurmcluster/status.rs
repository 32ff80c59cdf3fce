//! The status of a cluster: a fold over what was observed. No I/O, and the clock is passed in.

use api::nebius::SlurmCluster;
use api::nebius::slurm_cluster::{
    ConfigurationStatus, Maintenance, SlurmClusterStatus, condition as type_, phase,
};
use engine::condition;
use engine::events::EventType;
use engine::malformed::VALID;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::Resource as _;

use super::agents::Verdict;
use super::parts::{CONFIGURATION_APPLIED, Part, State};

/// Everything that the status tells about.
#[derive(Clone, Debug, Default)]
pub struct Observation {
    /// What is wrong with the spec: field path and message. Empty if nothing is.
    pub invalid: Vec<String>,
    /// What could not be applied; none if everything was.
    pub apply_problem: Option<String>,
    /// Whether objects were just written, so that what is known of them is not about now, or a change of version has not
    /// come to all parts yet.
    pub is_changing: bool,
    /// How each part stands; none of them while objects were just written for the first time.
    pub parts: Vec<Part>,
    /// What slurmctld made of the configuration; none if nobody can tell.
    pub config: Option<Verdict>,
    /// The hash of that configuration.
    pub config_hash: Option<String>,
    /// NodeSets that partitions name and that do not exist; none if partitions name none.
    pub unknown_sets: Option<Vec<String>>,
    /// Workers that are ready.
    pub ready_workers: i32,
    /// Login pods that are ready.
    pub ready_login: i32,
    /// Pods of the program that writes files into the jail that are ready.
    pub ready_sconfig_controller: i32,
}

/// The new status.
pub fn fold(cluster: &SlurmCluster, seen: &Observation, now: Timestamp) -> SlurmClusterStatus {
    let before = cluster.status.clone().unwrap_or_default();
    let generation = cluster.meta().generation;
    let mut conditions = before.conditions.clone().unwrap_or_default();
    let mut set = |type_: &str, status: bool, reason: &str, message: &str| {
        condition::set(&mut conditions, type_, status, reason, message, generation, now);
    };
    let valid = seen.invalid.is_empty();
    set(VALID, valid, if valid { "Valid" } else { "Invalid" }, &seen.invalid.join("; "));
    match &seen.apply_problem {
        None => set(type_::COMMON_AVAILABLE, true, "Available", ""),
        Some(problem) => set(type_::COMMON_AVAILABLE, false, "NotAvailable", problem),
    }
    let since = since(cluster).or(generation);
    let since = since.map(|since| format!("{SINCE}{since}")).unwrap_or_default();
    set(type_::POPULATE_JAIL_MODE, true, mode(cluster.spec.maintenance), &since);
    for part in &seen.parts {
        match &part.state {
            State::Ready => set(part.condition, true, "Available", ""),
            State::ReadyBut(message) => set(part.condition, true, "Available", message),
            State::Maintenance => set(part.condition, false, "Maintenance", "stopped for maintenance"),
            State::Off(message) => set(part.condition, false, "NotAvailable", message),
            State::NotReady(trouble) => set(part.condition, false, "NotAvailable", &trouble.message),
        }
    }
    match &seen.config {
        Some(Verdict::InUse) => set(CONFIGURATION_APPLIED, true, "Applied", ""),
        Some(Verdict::Refused(words)) => {
            let message =
                format!("slurmctld refused the configuration and runs with the one before: {words}");
            set(CONFIGURATION_APPLIED, false, "Refused", &message);
        }
        // It takes a moment: the phase tells.
        Some(Verdict::Awaited) | None => {}
    }
    if let Some(unknown) = &seen.unknown_sets {
        let message = if unknown.is_empty() {
            String::new()
        } else {
            format!("spec.partitionConfiguration.partitions: no NodeSet is called {}", unknown.join(", "))
        };
        let reason = if unknown.is_empty() { "Resolved" } else { "NotFound" };
        set(type_::NODE_SET_REFS_RESOLVED, unknown.is_empty(), reason, &message);
    } else {
        conditions.retain(|condition| condition.type_ != type_::NODE_SET_REFS_RESOLVED);
    }
    SlurmClusterStatus {
        conditions: Some(conditions),
        phase: Some(phase_of(seen).into()),
        ready_workers: Some(seen.ready_workers),
        ready_login: Some(seen.ready_login),
        ready_s_config_controller: Some(seen.ready_sconfig_controller),
        configuration: configuration(before.configuration, seen),
        observed_generation: generation,
    }
}

/// What slurmctld made of the sets that it was given; as before, as long as nobody knows.
fn configuration(before: Option<ConfigurationStatus>, seen: &Observation) -> Option<ConfigurationStatus> {
    let hash = seen.config_hash.clone();
    match &seen.config {
        Some(Verdict::InUse) => Some(ConfigurationStatus { in_use: hash, ..ConfigurationStatus::default() }),
        Some(Verdict::Refused(words)) => Some(ConfigurationStatus {
            refused: hash,
            message: Some(words.clone()),
            ..before.unwrap_or_default()
        }),
        Some(Verdict::Awaited) | None => before,
    }
}

fn phase_of(seen: &Observation) -> &'static str {
    if seen.is_changing {
        return phase::RECONCILING;
    }
    let troubles = seen.parts.iter().filter_map(|part| match &part.state {
        State::NotReady(trouble) => Some(trouble.is_missing),
        State::Maintenance => Some(false),
        State::Ready | State::ReadyBut(_) | State::Off(_) => None,
    });
    match troubles.max() {
        Some(true) => phase::PENDING,
        Some(false) => phase::NOT_AVAILABLE,
        None if seen.apply_problem.is_some() => phase::NOT_AVAILABLE,
        // Slurm refuses jobs for workers of which only the new files tell, and may not answer while it reads them.
        None if seen.config == Some(Verdict::Awaited) => phase::RECONCILING,
        None => phase::AVAILABLE,
    }
}

/// Before the generation with which the mode came, in the message of the condition that tells the mode.
const SINCE: &str = "since generation ";

/// The generation with which the mode of maintenance came that the spec has; none if the status does not tell it yet.
fn since(cluster: &SlurmCluster) -> Option<i64> {
    let mut conditions = cluster.status.as_ref()?.conditions.iter().flatten();
    let told = conditions.find(|condition| condition.type_ == type_::POPULATE_JAIL_MODE)?;
    let since = told.message.strip_prefix(SINCE)?.parse().ok()?;
    (told.reason == mode(cluster.spec.maintenance)).then_some(since)
}

/// The wish to overwrite the jail: the generation with which it came. None if there is none, or the status does not tell it yet.
pub fn wish(cluster: &SlurmCluster) -> Option<i64> {
    since(cluster).filter(|_| cluster.spec.maintenance == Maintenance::DownscaleAndOverwritePopulateJail)
}

/// The mode as a manifest writes it.
fn mode(maintenance: Maintenance) -> &'static str {
    match maintenance {
        Maintenance::None => "none",
        Maintenance::Downscale => "downscale",
        Maintenance::DownscaleAndDeletePopulateJail => "downscaleAndDeletePopulateJail",
        Maintenance::DownscaleAndOverwritePopulateJail => "downscaleAndOverwritePopulateJail",
        Maintenance::SkipPopulateJail => "skipPopulateJail",
    }
}

/// An event for users.
#[derive(Clone, Debug, PartialEq)]
pub struct News {
    /// Whether it is bad.
    pub type_: EventType,
    /// One word.
    pub reason: String,
    /// A sentence.
    pub note: String,
}

/// What changed, for users: conditions that became something else or give another reason, and the phase.
pub fn news(before: Option<&SlurmClusterStatus>, after: &SlurmClusterStatus) -> Vec<News> {
    let none = Vec::new();
    let old = before.and_then(|status| status.conditions.as_ref()).unwrap_or(&none);
    let mut news = Vec::new();
    for condition in after.conditions.iter().flatten() {
        let known = old.iter().find(|known| known.type_ == condition.type_);
        // A message that changes is news only where it says what the user has to do.
        let same = known.is_some_and(|known| {
            known.status == condition.status
                && known.reason == condition.reason
                && (known.message == condition.message || condition.status == "True")
        });
        if same || is_dull(condition, known) {
            continue;
        }
        let good = condition.status == "True" || condition.reason == "Maintenance";
        let note = if condition.message.is_empty() {
            format!("{} is {}", condition.type_, condition.status)
        } else {
            condition.message.clone()
        };
        news.push(News {
            type_: if good { EventType::Normal } else { EventType::Warning },
            reason: format!("{}{}", condition.type_, if good { "" } else { "False" }),
            note,
        });
    }
    let phase = |status: Option<&SlurmClusterStatus>| status.and_then(|status| status.phase.clone());
    if phase(before) != phase(Some(after))
        && let Some(now) = &after.phase
    {
        let reason = now.split(' ').map(capitalised).collect::<String>();
        news.push(News { type_: EventType::Normal, reason, note: format!("the cluster is {now}") });
    }
    news
}

fn capitalised(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().into_iter().flat_map(char::to_uppercase).chain(letters).collect()
}

/// Whether nobody wants to read about it: all is well from the start, or a part is just not wanted.
fn is_dull(condition: &Condition, known: Option<&Condition>) -> bool {
    let first = known.is_none();
    let quiet = condition.type_ == VALID || condition.type_ == type_::POPULATE_JAIL_MODE;
    first && quiet && condition.status == "True"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::slurmcluster::explain::Trouble;

    fn cluster(status: Option<SlurmClusterStatus>) -> SlurmCluster {
        let text = include_str!("../../../../examples/api/slurm.nebius.ai/slurmcluster.yaml");
        let mut cluster: SlurmCluster = serde_saphyr::from_str(text).unwrap();
        cluster.metadata.generation = Some(3);
        cluster.status = status;
        cluster
    }

    fn part(state: State) -> Part {
        Part { condition: type_::CONTROLLERS_AVAILABLE, state }
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn phase_with(parts: Vec<Part>) -> String {
        fold(&cluster(None), &Observation { parts, ..Observation::default() }, at(0)).phase.unwrap()
    }

    #[test]
    fn the_phase_is_that_of_the_worst_part() {
        assert_eq!(phase_with(vec![part(State::Ready), part(State::Off("off".into()))]), phase::AVAILABLE);
        let waits = part(State::NotReady(Trouble::waits("soon")));
        assert_eq!(phase_with(vec![part(State::Ready), waits.clone()]), phase::NOT_AVAILABLE);
        let missing = part(State::NotReady(Trouble::missing("PVC")));
        assert_eq!(phase_with(vec![waits, missing]), phase::PENDING);
        assert_eq!(phase_with(vec![part(State::Maintenance)]), phase::NOT_AVAILABLE);
    }

    #[test]
    fn a_cluster_is_available_when_slurmctld_has_come_to_its_configuration() {
        let phase_of = |state, config| {
            let seen = Observation { parts: vec![part(state)], config, ..Observation::default() };
            fold(&cluster(None), &seen, at(0)).phase.unwrap()
        };
        let waits = || State::NotReady(Trouble::waits("soon"));
        assert_eq!(phase_of(State::Ready, Some(Verdict::Awaited)), phase::RECONCILING);
        assert_eq!(
            phase_of(waits(), Some(Verdict::Awaited)),
            phase::NOT_AVAILABLE,
            "what is wrong is told first"
        );
        assert_eq!(phase_of(State::Ready, Some(Verdict::InUse)), phase::AVAILABLE);
        assert_eq!(phase_of(State::Ready, Some(Verdict::Refused("no".into()))), phase::AVAILABLE);
        assert_eq!(phase_of(State::Ready, None), phase::AVAILABLE, "nobody can tell");
    }

    #[test]
    fn folding_the_same_again_changes_nothing_and_tells_nothing() {
        let seen = Observation { parts: vec![part(State::Ready)], ready_login: 1, ..Observation::default() };
        let first = fold(&cluster(None), &seen, at(10));
        let second = fold(&cluster(Some(first.clone())), &seen, at(20));
        assert_eq!(first, second);
        assert_eq!(news(Some(&first), &second), []);
        assert_eq!(first.observed_generation, Some(3));
    }

    #[test]
    fn each_wish_to_overwrite_the_jail_has_the_generation_with_which_it_came() {
        let mut cluster = cluster(None);
        let mut told = |generation, maintenance| {
            cluster.metadata.generation = Some(generation);
            cluster.spec.maintenance = maintenance;
            let before = wish(&cluster);
            // Also a spec that is wrong tells its mode.
            let invalid = Observation { invalid: vec!["wrong".into()], ..Observation::default() };
            cluster.status = Some(fold(&cluster, &invalid, at(0)));
            (before, wish(&cluster))
        };
        let overwrite = Maintenance::DownscaleAndOverwritePopulateJail;
        assert_eq!(told(1, Maintenance::None), (None, None));
        assert_eq!(told(2, overwrite), (None, Some(2)));
        assert_eq!(told(3, overwrite), (Some(2), Some(2)), "something else was changed");
        assert_eq!(told(4, Maintenance::None), (None, None));
        assert_eq!(told(5, overwrite), (None, Some(5)), "another wish");
    }

    #[test]
    fn a_refused_configuration_shows_slurms_own_words() {
        let refused = Observation {
            config: Some(Verdict::Refused("error: Parse error in file".into())),
            ..Observation::default()
        };
        let status = fold(&cluster(None), &refused, at(0));
        let news = news(None, &status);
        let told = news.iter().find(|news| news.reason == "ConfigurationAppliedFalse").unwrap();
        assert!(told.note.contains("error: Parse error in file"), "{}", told.note);
        assert_eq!(told.type_, EventType::Warning);
    }

    #[test]
    fn the_status_tells_which_configuration_slurmctld_runs_with_and_which_it_refused() {
        let seen = |hash: &str, config| Observation {
            config,
            config_hash: Some(hash.into()),
            ..Observation::default()
        };
        let first = fold(&cluster(None), &seen("one", Some(Verdict::InUse)), at(0));
        assert_eq!(first.configuration.as_ref().unwrap().in_use.as_deref(), Some("one"));
        let awaited = fold(&cluster(Some(first.clone())), &seen("two", Some(Verdict::Awaited)), at(1));
        assert_eq!(awaited.configuration, first.configuration);
        let refused = fold(&cluster(Some(first)), &seen("two", Some(Verdict::Refused("no".into()))), at(2));
        let told = refused.configuration.clone().unwrap();
        assert_eq!((told.in_use.as_deref(), told.refused.as_deref()), (Some("one"), Some("two")));
        assert_eq!(told.message.as_deref(), Some("no"));
        let mended = fold(&cluster(Some(refused)), &seen("three", Some(Verdict::InUse)), at(3));
        assert_eq!(mended.configuration.unwrap().refused, None);
    }

    #[test]
    fn what_is_wrong_with_the_spec_is_told_with_its_path() {
        let invalid = Observation {
            invalid: vec!["spec.slurmNodes.login.k8sNodeFilterName: no entry".into()],
            ..Observation::default()
        };
        let status = fold(&cluster(None), &invalid, at(0));
        let valid = status.conditions.iter().flatten().find(|condition| condition.type_ == VALID).unwrap();
        assert_eq!((valid.status.as_str(), valid.reason.as_str()), ("False", "Invalid"));
        assert!(valid.message.starts_with("spec.slurmNodes.login.k8sNodeFilterName"), "{}", valid.message);
    }

    #[test]
    fn a_message_about_what_is_missing_is_news_each_time_it_changes() {
        let with = |message: &str| Observation {
            parts: vec![part(State::NotReady(Trouble::missing(message)))],
            ..Observation::default()
        };
        let first = fold(&cluster(None), &with("waiting for PVC a"), at(0));
        let second = fold(&cluster(Some(first.clone())), &with("waiting for PVC b"), at(0));
        assert_eq!(news(Some(&first), &second).len(), 1);
    }
}
