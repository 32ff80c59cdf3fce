//! Keeps the `caBundle` of webhook configurations true.
//!
//! Whom the API server must trust is added at once. What is superfluous is taken out only after a grace: a replica may still
//! serve by it. So replicas never work against each other, whatever each of them knows.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::stream::{SelectAll, StreamExt as _};
use k8s_openapi::ByteString;
use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingWebhookConfiguration,
};
use kube::api::{Api, DynamicObject, Patch, PatchParams};
use kube::{Client, ResourceExt as _};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::Instant;

use super::certificate::Bundle;
use crate::apply::Kind;
use crate::error::chain;
use crate::follow::follow;

/// After a write that failed.
const RETRY: Duration = Duration::from_secs(5);

/// A webhook configuration whose `caBundle` we keep.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Configuration {
    kind: Kind,
    name: String,
}

impl Configuration {
    /// A `ValidatingWebhookConfiguration`.
    pub fn validating(name: &str) -> Self {
        Self { kind: Kind::erase::<ValidatingWebhookConfiguration>(&()), name: name.into() }
    }

    /// A `MutatingWebhookConfiguration`.
    pub fn mutating(name: &str) -> Self {
        Self { kind: Kind::erase::<MutatingWebhookConfiguration>(&()), name: name.into() }
    }
}

/// Publishes in several configurations.
pub(super) struct Publisher {
    pub(super) client: Client,
    /// The field manager.
    pub(super) manager: String,
    pub(super) configurations: Vec<Configuration>,
    /// How long superfluous authorities stay.
    pub(super) grace: Duration,
}

impl Publisher {
    /// Publishes what `wanted` says, and tells in `published` what all configurations hold. Never ends.
    pub(super) async fn run(
        self,
        mut wanted: watch::Receiver<Option<Bundle>>,
        published: watch::Sender<Option<Bundle>>,
    ) {
        let mut changes = SelectAll::new();
        let mut states = Vec::new();
        for (index, configuration) in self.configurations.iter().enumerate() {
            let api: Api<DynamicObject> = Api::all_with(self.client.clone(), &configuration.kind);
            changes.push(follow(api.clone(), &configuration.name).map(move |live| (index, live)).boxed());
            states.push(State {
                api,
                configuration: configuration.clone(),
                live: Live::Unknown,
                extras: BTreeMap::new(),
            });
        }
        loop {
            let bundle = wanted.borrow_and_update().clone();
            let mut wake = None;
            if let Some(bundle) = &bundle {
                for state in &mut states {
                    wake = earliest(wake, state.settle(bundle, self.grace, &self.manager).await);
                }
                let complete = states.iter().all(|state| state.holds(bundle));
                published.send_if_modified(|known| {
                    let now = complete.then(|| bundle.clone());
                    let changed = *known != now;
                    *known = now;
                    changed
                });
            }
            tokio::select! {
                changed = wanted.changed() => if changed.is_err() { return },
                Some((index, live)) = changes.next(), if !changes.is_empty() => {
                    states[index].live = live.map_or(Live::Absent, |live| Live::Known(Box::new(live)));
                }
                () = super::sleep_until(wake) => {}
            }
        }
    }
}

fn earliest(one: Option<Instant>, other: Option<Instant>) -> Option<Instant> {
    one.into_iter().chain(other).min()
}

enum Live {
    Unknown,
    Absent,
    Known(Box<DynamicObject>),
}

struct State {
    api: Api<DynamicObject>,
    configuration: Configuration,
    live: Live,
    /// Superfluous authorities, and since when we know.
    extras: BTreeMap<Vec<u8>, Instant>,
}

impl State {
    /// Whether the API server trusts all of `bundle`. A configuration that does not exist calls nobody.
    fn holds(&self, bundle: &Bundle) -> bool {
        match &self.live {
            Live::Unknown => false,
            Live::Absent => true,
            Live::Known(live) => bundles(live).iter().all(|(_, held)| held.includes(bundle)),
        }
    }

    /// Writes if need be; returns when to look again if nothing changes before.
    async fn settle(&mut self, wanted: &Bundle, grace: Duration, manager: &str) -> Option<Instant> {
        let Live::Known(live) = &self.live else { return None };
        let now = Instant::now();
        let held = bundles(live);
        note_extras(&mut self.extras, &held, wanted, now);
        let keep = self
            .extras
            .iter()
            .filter(|(_, since)| now < **since + grace)
            .map(|(der, _)| der.clone())
            .collect();
        let wake = self.extras.values().map(|since| *since + grace).filter(|at| *at > now).min();
        let Some(patch) = patch(live, &held, wanted, &keep, &self.configuration.kind) else { return wake };
        let params = PatchParams::apply(manager).force();
        let (kind, name) = (&self.configuration.kind.kind, &self.configuration.name);
        match self.api.patch(name, &params, &Patch::Apply(&patch)).await {
            Ok(live) => {
                tracing::info!(kind, name, "caBundle written");
                self.live = Live::Known(Box::new(live));
                wake
            }
            Err(error) => {
                tracing::warn!(kind, name, error = %chain(&error), "caBundle could not be written; trying again");
                earliest(wake, Some(now + RETRY))
            }
        }
    }
}

/// Notes since when an authority is superfluous.
fn note_extras(
    extras: &mut BTreeMap<Vec<u8>, Instant>,
    held: &[(String, Bundle)],
    wanted: &Bundle,
    now: Instant,
) {
    let all = held.iter().fold(Bundle::default(), |all, (_, held)| all.union(held)).without(wanted);
    extras.retain(|der, _| all.ders().contains(der));
    for der in all.ders() {
        extras.entry(der.clone()).or_insert(now);
    }
}

/// The webhooks of a configuration with the authorities that each trusts. A bundle that cannot be read counts as empty.
fn bundles(live: &DynamicObject) -> Vec<(String, Bundle)> {
    let webhooks = live.data.get("webhooks").and_then(Value::as_array);
    webhooks
        .into_iter()
        .flatten()
        .filter_map(|webhook| {
            let name = webhook.get("name")?.as_str()?.to_string();
            let bundle = webhook.pointer("/clientConfig/caBundle").cloned().unwrap_or_default();
            let bundle = serde_json::from_value::<ByteString>(bundle).ok();
            let bundle = bundle.and_then(|text| Bundle::parse(&text.0).ok()).unwrap_or_default();
            Some((name, bundle))
        })
        .collect()
}

/// What to apply so that each webhook trusts `wanted`, and of the rest only what is in `keep`; none if it is so. All webhooks
/// are in it: server-side apply would clear the field of one that we leave out.
fn patch(
    live: &DynamicObject,
    held: &[(String, Bundle)],
    wanted: &Bundle,
    keep: &Bundle,
    kind: &Kind,
) -> Option<Value> {
    let target = |held: &Bundle| wanted.union(&held.intersection(keep));
    if held.iter().all(|(_, held)| *held == target(held)) {
        return None;
    }
    let webhooks: Vec<Value> = held
        .iter()
        .map(|(name, held)| {
            let bundle = ByteString(target(held).to_pem().into_bytes());
            json!({ "name": name, "clientConfig": { "caBundle": bundle } })
        })
        .collect();
    Some(json!({
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        // With the uid, so that a deleted configuration is not made again as a torso.
        "metadata": { "name": live.name_any(), "uid": live.uid() },
        "webhooks": webhooks,
    }))
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::super::pki::Authority;
    use super::*;

    fn authority() -> Bundle {
        let authority = Authority::new(Duration::from_secs(1000), Timestamp::now()).unwrap();
        [&authority.certificate].into_iter().collect()
    }

    fn configuration(bundles: &[(&str, Option<&Bundle>)]) -> DynamicObject {
        let webhook = |(name, bundle): &(&str, Option<&Bundle>)| {
            let bundle = bundle.map(|bundle| ByteString(bundle.to_pem().into_bytes()));
            json!({ "name": name, "clientConfig": { "url": "https://x", "caBundle": bundle } })
        };
        let webhooks: Vec<Value> = bundles.iter().map(webhook).collect();
        serde_json::from_value(json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
            "metadata": { "name": "c", "uid": "u" }, "webhooks": webhooks,
        }))
        .unwrap()
    }

    fn patched(live: &DynamicObject, wanted: &Bundle, keep: &Bundle) -> Option<Vec<(String, Bundle)>> {
        let kind = Configuration::validating("c").kind;
        let patch = patch(live, &bundles(live), wanted, keep, &kind)?;
        Some(bundles(&serde_json::from_value(patch).unwrap()))
    }

    #[test]
    fn nothing_is_written_when_all_is_as_it_should_be() {
        let ours = authority();
        let live = configuration(&[("a", Some(&ours)), ("b", Some(&ours))]);
        assert_eq!(patched(&live, &ours, &Bundle::default()), None);
    }

    #[test]
    fn one_wrong_webhook_has_all_written() {
        let (ours, foreign) = (authority(), authority());
        let live = configuration(&[("a", Some(&ours)), ("b", None), ("c", Some(&foreign))]);
        let expected = ["a", "b", "c"].map(|name| (name.to_string(), ours.clone()));
        assert_eq!(patched(&live, &ours, &Bundle::default()).unwrap(), expected);
    }

    #[test]
    fn an_old_authority_stays_for_its_grace() {
        let (old, new) = (authority(), authority());
        let both = old.union(&new);
        let live = configuration(&[("a", Some(&old))]);
        assert_eq!(patched(&live, &new, &old).unwrap(), [("a".to_string(), both.clone())]);
        let live = configuration(&[("a", Some(&both))]);
        assert_eq!(patched(&live, &new, &old), None);
        assert_eq!(patched(&live, &new, &Bundle::default()).unwrap(), [("a".to_string(), new)]);
    }

    #[test]
    fn the_grace_of_an_extra_runs_from_when_it_was_first_seen() {
        let (old, new) = (authority(), authority());
        let held = [("a".to_string(), old.union(&new))];
        let (mut extras, start) = (BTreeMap::new(), Instant::now());
        note_extras(&mut extras, &held, &new, start);
        note_extras(&mut extras, &held, &new, start + Duration::from_secs(5));
        assert_eq!(extras.into_values().collect::<Vec<_>>(), [start]);
        let mut extras = BTreeMap::new();
        note_extras(&mut extras, &held, &old.union(&new), start);
        assert!(extras.is_empty(), "what is wanted is no extra");
    }
}
