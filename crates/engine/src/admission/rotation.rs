//! What to do with the Secret that holds our own authority, and when. No I/O; the time is passed in.
//!
//! An authority is replaced in three steps, so that at every moment every API server trusts what every replica serves:
//! 1. *publish*: the new authority is added to the bundle; nothing else changes.
//! 2. *switch*: when all webhook configurations hold that bundle, and a grace later, the serving certificate is replaced by
//!    one of the new authority.
//! 3. *retire*: after another grace, in which all replicas load it, the old authority leaves the bundle.
//!
//! The times are read from the certificates themselves; there is no other state.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::ByteString;

use super::certificate::{Bundle, Certificate};
use super::material::{CA_BUNDLE, CERTIFICATE, KEY, Material};
use super::pki::{Authority, BACKDATED, Pair, PkiError};

/// The Secret's keys beside those that all sources have.
const AUTHORITY: [&str; 2] = ["authority.crt", "authority.key"];
const NEXT_AUTHORITY: [&str; 2] = ["next-authority.crt", "next-authority.key"];

/// The data of a Secret.
pub(super) type Data = BTreeMap<String, ByteString>;

/// How long our own certificates last.
#[derive(Clone, Debug)]
pub struct Policy {
    /// The DNS names (and addresses) by which the API server calls us.
    pub names: Vec<String>,
    /// How long an authority lasts; replaced after two thirds of it.
    pub authority_lifetime: Duration,
    /// How long a serving certificate lasts; replaced after two thirds of it.
    pub serving_lifetime: Duration,
}

impl Policy {
    /// The usual times, for a Service.
    pub fn for_service(service: &str, namespace: &str) -> Self {
        let names = ["", ".cluster.local"].map(|domain| format!("{service}.{namespace}.svc{domain}"));
        Self::for_names(names.into())
    }

    /// The usual times, for a server that is called otherwise.
    pub fn for_names(names: Vec<String>) -> Self {
        const DAY: Duration = Duration::from_secs(24 * 3600);
        Self { names, authority_lifetime: 730 * DAY, serving_lifetime: 90 * DAY }
    }

    /// Steps must be done long before the certificates of that time run out.
    fn at_most(&self, grace: Duration) -> Duration {
        grace.min(self.serving_lifetime / 6).min(self.authority_lifetime / 6)
    }
}

/// What the Secret holds, as far as it is of use.
pub(super) struct Content {
    authority: Option<Authority>,
    next: Option<Authority>,
    /// The serving certificate, if its key fits.
    serving: Option<Certificate>,
    bundle: Bundle,
}

/// A step to take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Make everything anew: there is nothing to build on.
    Start,
    /// Add a new authority to the bundle.
    Publish,
    /// Serve a certificate of the new authority.
    Switch,
    /// Take the old authority out of the bundle.
    Retire,
    /// Make a new serving certificate.
    Renew,
}

/// A step, or when to look again if nothing changes before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Plan {
    Now(Step),
    Later(Timestamp),
}

impl Content {
    /// Reads a Secret's data. What is missing or broken is treated as not there: it will be made again.
    pub(super) fn read(data: &Data) -> Self {
        let text = |key: &str| String::from_utf8(data.get(key)?.0.clone()).ok();
        let authority = |[certificate, key]: [&str; 2]| {
            Authority::read(Pair { certificate: text(certificate)?, key: text(key)? }).ok()
        };
        Self {
            authority: authority(AUTHORITY),
            next: authority(NEXT_AUTHORITY),
            serving: Material::read(data).ok().map(|material| material.certificate().clone()),
            bundle: data.get(CA_BUNDLE).and_then(|text| Bundle::parse(&text.0).ok()).unwrap_or_default(),
        }
    }

    /// Who all must be trusted.
    pub(super) fn bundle(&self) -> &Bundle {
        &self.bundle
    }

    /// The authority that can sign now.
    fn signer(&self, now: Timestamp) -> Option<&Authority> {
        let usable = |authority: &&Authority| {
            now < authority.certificate.not_after && self.bundle.contains(&authority.certificate)
        };
        self.authority.as_ref().filter(usable)
    }

    /// What to do at `now`. `grace` is how long each step of a change of authority waits for everybody to know of the step
    /// before; `published` tells whether all webhook configurations hold the bundle.
    pub(super) fn plan(&self, policy: &Policy, grace: Duration, published: bool, now: Timestamp) -> Plan {
        let grace = policy.at_most(grace);
        let signer = self.signer(now);
        let usable = |serving: &&Certificate| now < serving.not_after && self.bundle.trusts(serving);
        let Some(serving) = self.serving.as_ref().filter(usable) else {
            return Plan::Now(if signer.is_some() { Step::Renew } else { Step::Start });
        };
        let mut wake = Vec::new();
        let mut due = |at: Timestamp| {
            wake.push(at);
            now >= at
        };
        match (&self.next, signer) {
            (Some(next), _) => {
                if due(issued(&next.certificate) + grace) && published {
                    return Plan::Now(Step::Switch);
                }
            }
            (None, None) => return Plan::Now(Step::Publish),
            (None, Some(signer)) if !serving.is_signed_by(&signer.certificate) => {
                return Plan::Now(Step::Renew);
            }
            (None, Some(signer)) if self.bundle != [&signer.certificate].into_iter().collect() => {
                if due(issued(serving) + grace) {
                    return Plan::Now(Step::Retire);
                }
            }
            (None, Some(signer)) => {
                if due(two_thirds(&signer.certificate)) {
                    return Plan::Now(Step::Publish);
                }
            }
        }
        if signer.is_some() {
            let wanted: BTreeSet<&String> = policy.names.iter().collect();
            let other_names = !wanted.into_iter().eq(&serving.names);
            if other_names || due(two_thirds(serving)) {
                return Plan::Now(Step::Renew);
            }
        }
        wake.retain(|at| *at > now);
        Plan::Later(wake.into_iter().min().unwrap_or(now + grace))
    }

    /// Takes a step: writes into `data` what the Secret is to hold then. Other keys are left alone.
    pub(super) fn take(
        &self,
        step: Step,
        policy: &Policy,
        data: &mut Data,
        now: Timestamp,
    ) -> Result<(), PkiError> {
        let new = || Authority::new(policy.authority_lifetime, now);
        match step {
            Step::Start => {
                let authority = new()?;
                put_pair(data, NEXT_AUTHORITY, None);
                put_bundle(data, &[&authority.certificate].into_iter().collect());
                put_serving(data, &authority, policy, now)?;
                put_pair(data, AUTHORITY, Some(authority.pair));
            }
            Step::Publish => {
                let next = new()?;
                put_bundle(data, &self.bundle.union(&[&next.certificate].into_iter().collect()));
                put_pair(data, NEXT_AUTHORITY, Some(next.pair));
            }
            Step::Switch => {
                if let Some(next) = &self.next {
                    put_serving(data, next, policy, now)?;
                    put_pair(data, AUTHORITY, Some(next.pair.clone()));
                    put_pair(data, NEXT_AUTHORITY, None);
                }
            }
            Step::Retire => {
                if let Some(authority) = &self.authority {
                    put_bundle(data, &[&authority.certificate].into_iter().collect());
                }
            }
            Step::Renew => {
                if let Some(authority) = &self.authority {
                    put_serving(data, authority, policy, now)?;
                }
            }
        }
        Ok(())
    }
}

fn put(data: &mut Data, key: &str, value: Option<String>) {
    match value {
        Some(value) => data.insert(key.into(), ByteString(value.into_bytes())),
        None => data.remove(key),
    };
}

fn put_pair(data: &mut Data, [certificate, key]: [&str; 2], pair: Option<Pair>) {
    let (first, second) = pair.map(|pair| (pair.certificate, pair.key)).unzip();
    put(data, certificate, first);
    put(data, key, second);
}

fn put_serving(data: &mut Data, by: &Authority, policy: &Policy, now: Timestamp) -> Result<(), PkiError> {
    let pair = by.serving(&policy.names, policy.serving_lifetime, now)?;
    put_pair(data, [CERTIFICATE, KEY], Some(pair));
    Ok(())
}

fn put_bundle(data: &mut Data, bundle: &Bundle) {
    put(data, CA_BUNDLE, Some(bundle.to_pem()));
}

/// When a certificate of ours was made.
fn issued(certificate: &Certificate) -> Timestamp {
    certificate.not_before + BACKDATED
}

fn two_thirds(certificate: &Certificate) -> Timestamp {
    let made = issued(certificate);
    let lifetime: SignedDuration = certificate.not_after.duration_since(made);
    made + lifetime * 2 / 3
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: i64 = 1_800_000_000;
    const HOUR: i64 = 3600;
    const DAY: i64 = 24 * HOUR;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(START + second).unwrap()
    }

    fn policy() -> Policy {
        Policy::for_service("webhook", "soperator-system")
    }

    /// A Secret as it is after the steps that are taken at these times.
    struct Secret {
        data: Data,
        policy: Policy,
    }

    impl Secret {
        fn new() -> Self {
            let mut secret = Self { data: Data::new(), policy: policy() };
            assert_eq!(secret.plan(0, true), Plan::Now(Step::Start));
            secret.take(Step::Start, 0);
            secret
        }

        fn content(&self) -> Content {
            Content::read(&self.data)
        }

        fn plan(&self, second: i64, published: bool) -> Plan {
            self.content().plan(&self.policy, Duration::from_secs(300), published, at(second))
        }

        fn take(&mut self, step: Step, second: i64) {
            let content = self.content();
            content.take(step, &self.policy, &mut self.data, at(second)).unwrap();
        }
    }

    #[test]
    fn a_new_secret_rests_until_two_thirds_of_the_serving_certificate() {
        let secret = Secret::new();
        assert_eq!(secret.plan(1, true), Plan::Later(at(60 * DAY)));
        assert_eq!(secret.plan(60 * DAY - 1, true), Plan::Later(at(60 * DAY)));
        assert_eq!(secret.plan(60 * DAY, true), Plan::Now(Step::Renew));
        let serving = secret.content().serving.unwrap();
        let names = ["webhook.soperator-system.svc", "webhook.soperator-system.svc.cluster.local"];
        assert!(serving.names.iter().eq(names.iter()), "{:?}", serving.names);
    }

    #[test]
    fn a_renewed_certificate_has_a_new_key_and_the_same_authority() {
        let mut secret = Secret::new();
        let before = secret.data.clone();
        secret.take(Step::Renew, 60 * DAY);
        assert_eq!(secret.data[CA_BUNDLE], before[CA_BUNDLE]);
        assert_ne!(secret.data[KEY], before[KEY]);
        assert_eq!(secret.plan(60 * DAY, true), Plan::Later(at(120 * DAY)));
    }

    #[test]
    fn an_authority_is_replaced_in_three_steps_with_a_grace_between() {
        let mut secret = Secret::new();
        let due = 730 * DAY * 2 / 3;
        secret.take(Step::Renew, due - DAY);
        let first = secret.content();
        assert_eq!(secret.plan(due, true), Plan::Now(Step::Publish));
        secret.take(Step::Publish, due);
        let published = secret.content();
        assert!(published.bundle.includes(&first.bundle) && published.bundle != first.bundle);
        assert_eq!(published.serving, first.serving, "the old certificate is served on");

        assert_eq!(secret.plan(due, true), Plan::Later(at(due + 300)));
        assert!(matches!(secret.plan(due + 300, false), Plan::Later(_)), "not before it is published");
        assert_eq!(secret.plan(due + 300, true), Plan::Now(Step::Switch));
        secret.take(Step::Switch, due + 300);
        let switched = secret.content();
        assert_eq!(switched.bundle, published.bundle, "both are trusted");
        assert!(!first.bundle.trusts(&switched.serving.clone().unwrap()));
        assert!(switched.next.is_none());

        assert_eq!(secret.plan(due + 599, true), Plan::Later(at(due + 600)));
        assert_eq!(secret.plan(due + 600, true), Plan::Now(Step::Retire));
        secret.take(Step::Retire, due + 600);
        let retired = secret.content();
        assert!(retired.bundle.intersection(&first.bundle).ders().is_empty());
        assert!(retired.bundle.trusts(&retired.serving.clone().unwrap()));
        assert!(matches!(secret.plan(due + 600, true), Plan::Later(_)));
    }

    #[test]
    fn over_ten_years_the_served_certificate_is_always_valid_and_trusted_by_the_bundle_of_a_step_before_and_after()
     {
        let mut secret = Secret::new();
        let (mut now, mut steps) = (0, Vec::new());
        while now < 3650 * DAY {
            match secret.plan(now, true) {
                Plan::Later(next) => {
                    assert!(next > at(now), "time goes on");
                    now = next.as_second() - START;
                    assert!(secret.content().serving.unwrap().not_after > next, "valid when we look again");
                }
                Plan::Now(step) => {
                    let before = secret.content();
                    secret.take(step, now);
                    let after = secret.content();
                    for bundle in [&before.bundle, &after.bundle] {
                        for content in [&before, &after] {
                            let serving = content.serving.as_ref().unwrap();
                            assert!(bundle.trusts(serving), "{step:?} at day {}", now / DAY);
                        }
                    }
                    steps.push(step);
                }
            }
        }
        let count = |wanted| steps.iter().filter(|step| **step == wanted).count();
        assert_eq!(count(Step::Start), 0);
        assert_eq!((count(Step::Publish), count(Step::Switch), count(Step::Retire)), (7, 7, 7));
        assert!((50..70).contains(&count(Step::Renew)), "{}", count(Step::Renew));
    }

    #[test]
    fn other_names_are_a_reason_to_renew() {
        let mut secret = Secret::new();
        secret.policy.names = vec!["other.ns.svc".into(), "127.0.0.1".into()];
        assert_eq!(secret.plan(1, true), Plan::Now(Step::Renew));
        secret.take(Step::Renew, 1);
        assert!(matches!(secret.plan(1, true), Plan::Later(_)), "in whatever order they are given");
    }

    #[test]
    fn what_is_broken_is_made_again_as_gently_as_possible() {
        let broken = |keys: &[&str]| {
            let mut secret = Secret::new();
            for key in keys {
                secret.data.insert((*key).into(), ByteString(b"rubbish".to_vec()));
            }
            secret.plan(1, true)
        };
        assert_eq!(broken(&[KEY]), Plan::Now(Step::Renew));
        assert_eq!(broken(&[CERTIFICATE]), Plan::Now(Step::Renew));
        assert_eq!(broken(&[CA_BUNDLE]), Plan::Now(Step::Start), "nobody trusts anything of it");
        assert_eq!(broken(&["authority.key"]), Plan::Now(Step::Publish), "what is served still works");
        assert_eq!(broken(&["authority.key", KEY]), Plan::Now(Step::Start));
    }

    #[test]
    fn an_expired_authority_is_started_anew() {
        let secret = Secret::new();
        assert_eq!(secret.plan(91 * DAY, true), Plan::Now(Step::Renew));
        assert_eq!(secret.plan(731 * DAY, true), Plan::Now(Step::Start));
    }

    #[test]
    fn a_switch_that_cannot_be_published_does_not_stop_renewals() {
        let mut secret = Secret::new();
        let due = 730 * DAY * 2 / 3;
        secret.take(Step::Renew, due - DAY);
        secret.take(Step::Publish, due);
        assert_eq!(secret.plan(due + 59 * DAY, false), Plan::Now(Step::Renew));
        secret.take(Step::Renew, due + 59 * DAY);
        assert_eq!(secret.plan(due + 59 * DAY, true), Plan::Now(Step::Switch));
    }

    #[test]
    fn foreign_keys_of_the_secret_are_left_alone() {
        let mut secret = Secret::new();
        secret.data.insert("note".into(), ByteString(b"mine".to_vec()));
        secret.take(Step::Renew, 1);
        assert_eq!(secret.data["note"].0, b"mine");
    }
}
