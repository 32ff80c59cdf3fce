//! What users see of a controller that stands on the engine.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context as _, Result};
use engine::Scope;
use engine::apply::{Applied, Applier, DesiredObject, MANAGED_BY_LABEL, Owner};
use engine::cache::{Cache, Selection};
use engine::view::MetaView;
use k8s_openapi::ByteString;
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, CustomResourceValidation, JSONSchemaProps,
};
use kube::api::{Api, DeleteParams, DynamicObject, ObjectMeta, Patch, PatchParams, PostParams};
use kube::{CustomResourceExt as _, Resource as _, ResourceExt as _};
use serde_json::json;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::sample::{self, Bug, MANAGER, Widget, WidgetSpec};
use crate::server::{client, config, config_of, install, server};

/// A namespace with the sample controller in it.
struct Place {
    namespace: rig::Namespace,
    _stop: DropGuard,
}

impl Place {
    async fn new(prefix: &str) -> Result<Self> {
        let namespace = server().await?.namespace(prefix).await?;
        let stop = CancellationToken::new();
        tokio::spawn(sample::run(
            client(config().await?, None)?,
            namespace.name().into(),
            stop.clone(),
            Bug::None,
        ));
        Ok(Self { namespace, _stop: stop.drop_guard() })
    }

    async fn widget(&self, spec: WidgetSpec) -> Result<Widget> {
        let widget = Widget::new("w", spec);
        self.namespace.api::<Widget>().create(&PostParams::default(), &widget).await?;
        self.applied().await
    }

    async fn applied(&self) -> Result<Widget> {
        let api = self.namespace.api::<Widget>();
        until("the widget is applied", async || {
            let widget = api.get("w").await?;
            let status = widget.status.clone().unwrap_or_default();
            let done = engine::condition::is_true(&status.conditions, "Applied")
                && status.observed_generation == widget.meta().generation;
            Ok(done.then_some(widget))
        })
        .await
    }

    async fn text(&self) -> Result<Option<String>> {
        let object = self.namespace.api::<ConfigMap>().get_opt("w-config").await?;
        Ok(object.and_then(|object| object.data?.get("text").cloned()))
    }
}

async fn until<T>(what: &str, mut check: impl AsyncFnMut() -> Result<Option<T>>) -> Result<T> {
    for _ in 0..400 {
        if let Some(value) = check().await? {
            return Ok(value);
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    anyhow::bail!("waited 20 s until {what}")
}

fn spec() -> WidgetSpec {
    WidgetSpec { text: "hello".into(), replicas: 2, service_name: "svc".into(), job: true }
}

#[tokio::test(flavor = "multi_thread")]
async fn all_objects_come_with_owner_and_label() -> Result<()> {
    let place = Place::new("all").await?;
    let widget = place.widget(spec()).await?;
    let set = place.namespace.api::<StatefulSet>().get("w-set").await?;
    assert_eq!(set.metadata.owner_references.context("an owner")?[0].uid, widget.uid().context("a uid")?);
    assert_eq!(set.metadata.labels.context("labels")?[MANAGED_BY_LABEL], MANAGER);
    assert!(place.namespace.api::<Secret>().get_opt("w-secret").await?.is_some());
    assert!(place.namespace.api::<Job>().get_opt("w-job").await?.is_some());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_object_comes_back() -> Result<()> {
    let place = Place::new("deleted").await?;
    place.widget(spec()).await?;
    place.namespace.api::<ConfigMap>().delete("w-config", &DeleteParams::default()).await?;
    until("the ConfigMap is back", async || place.text().await).await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn our_fields_are_reverted_and_those_of_others_kept() -> Result<()> {
    let place = Place::new("drift").await?;
    place.widget(spec()).await?;
    let api = place.namespace.api::<ConfigMap>();
    let change = json!({ "data": { "text": "changed by hand", "theirs": "kept" } });
    api.patch("w-config", &PatchParams::default(), &Patch::Merge(&change)).await?;
    until("our text is back", async || Ok(place.text().await?.filter(|text| text == "hello"))).await?;
    assert_eq!(api.get("w-config").await?.data.context("data")?["theirs"], "kept");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_wanted_any_more_is_deleted_and_only_that() -> Result<()> {
    let place = Place::new("prune").await?;
    place.widget(spec()).await?;
    let bystander = ConfigMap {
        metadata: ObjectMeta {
            name: Some("bystander".into()),
            labels: Some(BTreeMap::from([(MANAGED_BY_LABEL.to_string(), MANAGER.to_string())])),
            ..ObjectMeta::default()
        },
        ..ConfigMap::default()
    };
    place.namespace.api::<ConfigMap>().create(&PostParams::default(), &bystander).await?;
    let change = json!({ "spec": { "job": false } });
    place.namespace.api::<Widget>().patch("w", &PatchParams::default(), &Patch::Merge(&change)).await?;
    let jobs = place.namespace.api::<Job>();
    until("the Job is gone", async || Ok(jobs.get_opt("w-job").await?.is_none().then_some(()))).await?;
    assert!(place.namespace.api::<ConfigMap>().get_opt("bystander").await?.is_some());
    assert!(place.namespace.api::<StatefulSet>().get_opt("w-set").await?.is_some());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stateful_object_is_deleted_only_when_it_was_superfluous_for_a_while() -> Result<()> {
    let place = Place::new("stateful").await?;
    place.widget(spec()).await?;
    let change = json!({ "spec": { "serviceName": "none" } });
    place.namespace.api::<Widget>().patch("w", &PatchParams::default(), &Patch::Merge(&change)).await?;
    place.applied().await?;
    let sets = place.namespace.api::<StatefulSet>();
    assert!(sets.get_opt("w-set").await?.is_some(), "one look is not enough");
    until("the StatefulSet is gone", async || Ok(sets.get_opt("w-set").await?.is_none().then_some(()))).await
}

#[tokio::test(flavor = "multi_thread")]
async fn an_immutable_field_is_changed_by_making_the_object_anew() -> Result<()> {
    let place = Place::new("immutable").await?;
    place.widget(spec()).await?;
    let sets = place.namespace.api::<StatefulSet>();
    let before = sets.get("w-set").await?.uid();
    let change = json!({ "spec": { "serviceName": "other" } });
    place.namespace.api::<Widget>().patch("w", &PatchParams::default(), &Patch::Merge(&change)).await?;
    let after = until("the StatefulSet has the new name", async || {
        let set = sets.get_opt("w-set").await?;
        Ok(set.filter(|set| {
            set.spec.as_ref().is_some_and(|spec| spec.service_name.as_deref() == Some("other"))
        }))
    })
    .await?;
    assert_ne!(after.uid(), before);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn what_belongs_to_another_is_not_touched() -> Result<()> {
    let place = Place::new("foreign").await?;
    let foreign = ConfigMap {
        metadata: ObjectMeta { name: Some("w-config".into()), ..ObjectMeta::default() },
        data: Some(BTreeMap::from([("text".into(), "mine".into())])),
        ..ConfigMap::default()
    };
    let api = place.namespace.api::<ConfigMap>();
    api.create(&PostParams::default(), &foreign).await?;
    place.namespace.api::<Widget>().create(&PostParams::default(), &Widget::new("w", spec())).await?;
    let widgets = place.namespace.api::<Widget>();
    let message = until("the status tells", async || {
        let status = widgets.get("w").await?.status.unwrap_or_default();
        Ok(status
            .conditions
            .into_iter()
            .find(|condition| condition.status == "False")
            .map(|condition| condition.message))
    })
    .await?;
    assert!(message.contains("ConfigMap") && message.contains("belongs to"), "{message}");
    let left = api.get("w-config").await?;
    assert_eq!(left.data.context("data")?["text"], "mine");
    assert_eq!(left.metadata.owner_references, None);
    assert!(
        place.namespace.api::<StatefulSet>().get_opt("w-set").await?.is_some(),
        "the rest is applied all the same"
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn steady_state_makes_no_call() -> Result<()> {
    let place = Place::new("steady").await?;
    place.widget(spec()).await?;
    // Until the echo of the last status is through.
    tokio::time::sleep(Duration::from_secs(2)).await;
    let log = server().await?.audit_log().context("an audit log")?;
    let calls = || -> Result<usize> {
        let ours = |call: &rig::Call| {
            call.object_ref.as_ref().is_some_and(|object| object.namespace == place.namespace.name())
                && !call.user.username.starts_with("system:")
                && call.verb != "watch"
        };
        Ok(log.calls()?.iter().filter(|call| ours(call)).count())
    };
    let before = calls()?;
    assert!(before > 4, "the log shows calls at all: {before}");
    // A change of status by somebody else, and a label on the widget itself: both wake the controller.
    let label = json!({ "metadata": { "labels": { "a": "b" } } });
    place.namespace.api::<Widget>().patch("w", &PatchParams::default(), &Patch::Merge(&label)).await?;
    tokio::time::sleep(Duration::from_secs(3)).await;
    let after = calls()?;
    assert_eq!(after - before, 1, "only the patch of this test");
    Ok(())
}

/// The definition as it may have been in an older release: it says nothing about the fields.
fn loose_definition() -> CustomResourceDefinition {
    let mut crd = Widget::crd();
    crd.spec.versions[0].schema = Some(CustomResourceValidation {
        open_api_v3_schema: Some(JSONSchemaProps {
            type_: Some("object".into()),
            x_kubernetes_preserve_unknown_fields: Some(true),
            ..JSONSchemaProps::default()
        }),
    });
    crd
}

#[tokio::test(flavor = "multi_thread")]
async fn a_malformed_object_says_so_and_does_not_stop_the_others() -> Result<()> {
    let plane = rig::ControlPlane::start().await?;
    install(&plane, &loose_definition()).await?;
    let namespace = plane.namespace("malformed").await?;
    let kind = engine::apply::Kind::erase::<Widget>(&());
    let api: Api<DynamicObject> = Api::namespaced_with(namespace.client(), namespace.name(), &kind);
    let odd: DynamicObject = serde_json::from_value(json!({
        "apiVersion": kind.api_version, "kind": "Widget", "metadata": { "name": "odd" },
        "spec": { "replicas": "three" },
    }))?;
    api.create(&PostParams::default(), &odd).await?;
    let stop = CancellationToken::new();
    let ours = client(config_of(&plane).await?, None)?;
    tokio::spawn(sample::run(ours, namespace.name().into(), stop.clone(), Bug::None));
    let place = Place { namespace, _stop: stop.drop_guard() };
    place.widget(spec()).await?;

    let message = until("the malformed one says so", async || {
        let status = api.get("odd").await?.data.pointer("/status/conditions/0").cloned();
        Ok(status.filter(|condition| condition["type"] == engine::malformed::VALID))
    })
    .await?["message"]
        .to_string();
    assert!(message.contains("three"), "{message}");
    let events: Api<Event> = place.namespace.api();
    let told = until("there is an event", async || {
        let all = events.list(&Default::default()).await?;
        Ok(all.into_iter().find(|event| event.reason.as_deref() == Some("Malformed")))
    })
    .await?;
    assert_eq!(told.regarding.context("an object")?.name.as_deref(), Some("odd"));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dry_run_tells_the_difference_and_writes_nothing() -> Result<()> {
    let place = Place::new("diff").await?;
    let widget = place.widget(spec()).await?;
    let applier = engine::apply::Applier::new(client(config().await?, None)?, MANAGER);
    let owner = engine::apply::Owner::of(&widget).context("an owner")?;
    let changed = ConfigMap {
        metadata: ObjectMeta {
            name: Some("w-config".into()),
            namespace: widget.namespace(),
            ..ObjectMeta::default()
        },
        data: Some(BTreeMap::from([("text".into(), "new".into())])),
        ..ConfigMap::default()
    };
    let differences = applier.diff(&owner, vec![DesiredObject::new(&changed)?]).await?;
    let text = differences[0].to_string();
    assert!(text.contains("- data.text: \"hello\"") && text.contains("+ data.text: \"new\""), "{text}");
    assert_eq!(place.text().await?.as_deref(), Some("hello"));

    let secret = Secret {
        metadata: ObjectMeta { name: Some("w-key".into()), ..changed.metadata.clone() },
        data: Some(BTreeMap::from([("key".into(), ByteString(b"nobody sees this".to_vec()))])),
        ..Secret::default()
    };
    let differences = applier.diff(&owner, vec![DesiredObject::new(&secret)?]).await?;
    let text = differences[0].to_string();
    assert!(text.contains("+ data: \"(hidden)\"") && text.contains("+ type: \"Opaque\""), "{text}");
    assert!(!text.contains("bm9ib2R5"), "{text}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_that_changes_nothing_is_no_change() -> Result<()> {
    const OTHER: &str = "other";
    let place = Place::new("same").await?;
    let widget = place.widget(spec()).await?;
    let owner = Owner::of(&widget).context("an owner")?;
    let stop = CancellationToken::new();
    let _stop = stop.clone().drop_guard();
    let client = client(config().await?, None)?;
    let scope = Scope::Namespaces(vec![place.namespace.name().into()]);
    let selection = Selection::all(scope).with_labels(&format!("{MANAGED_BY_LABEL}={OTHER}"));
    let sets: Cache<MetaView<StatefulSet>> = Cache::start(&client, selection, &stop);
    sets.ready().await;

    let labels = json!({"app": "same"});
    let set: StatefulSet = serde_json::from_value(json!({
        "metadata": {"name": "same", "namespace": place.namespace.name()},
        "spec": {
            "replicas": 0, "serviceName": "same", "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [{
                // The server makes `1` of it.
                "name": "a", "image": "a", "resources": {"requests": {"cpu": "1000m"}},
            }]}},
        },
    }))?;
    // Each is as a new process, which remembers nothing.
    let apply = async || -> Result<Applied> {
        let applier = Applier::new(client.clone(), OTHER).with_known(sets.clone());
        Ok(applier.apply_only(&owner, vec![DesiredObject::new(&set)?]).await)
    };
    assert!(apply().await?.changed());
    let key = engine::Key::of(&set);
    let api: Api<StatefulSet> = place.namespace.api();
    until("nobody writes to it any more, and the cache has it", async || {
        let live = api.get("same").await?;
        let settled = live.status.as_ref().is_some_and(|status| status.observed_generation.is_some());
        let cached = sets.get(&key).and_then(|cached| cached.resource_version());
        Ok((settled && cached == live.resource_version()).then_some(()))
    })
    .await?;
    let again = apply().await?;
    assert!(!again.changed(), "whoever waits for it to come back waits for ever: {again:?}");
    Ok(())
}
