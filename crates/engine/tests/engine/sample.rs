//! A small controller with everything that controllers do: a Widget owns a ConfigMap, a Secret that is made once, a
//! StatefulSet, a Job if it wants one, and one ConfigMap whose name is drawn ("run"), which must not be drawn twice.

use std::collections::BTreeMap;
use std::sync::Arc;

use engine::apply::{Applier, ApplyError, DesiredObject, MANAGED_BY_LABEL, Owner, Policy};
use engine::cache::{Cache, Selection};
use engine::controller::{Controller, Options, Wake};
use engine::error::{ReconcileError, Retry, category_of, retry_of};
use engine::events::Events;
use engine::view::MetaView;
use engine::{Key, Scope, condition, malformed, status};
use k8s_openapi::api::apps::v1::{StatefulSet, StatefulSetSpec};
use k8s_openapi::api::batch::v1::{Job, JobSpec};
use k8s_openapi::api::core::v1::{ConfigMap, Container, PodSpec, PodTemplateSpec, Secret};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, LabelSelector, ObjectMeta};
use kube::api::{Api, DeleteParams, PostParams};
use kube::core::DeserializeGuard;
use kube::{Client, CustomResource, Resource, ResourceExt as _};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

/// What a user wants.
#[derive(Clone, Debug, Default, CustomResource, Deserialize, Serialize, JsonSchema)]
#[kube(group = "test.soperator.dev", version = "v1", kind = "Widget", namespaced, status = "WidgetStatus")]
#[serde(rename_all = "camelCase")]
pub struct WidgetSpec {
    /// Goes into the ConfigMap.
    #[serde(default)]
    pub text: String,
    /// Size of the StatefulSet.
    #[serde(default)]
    pub replicas: i32,
    /// An immutable field of the StatefulSet; `none`: there is no StatefulSet.
    #[serde(default)]
    pub service_name: String,
    /// Whether there is a Job.
    #[serde(default)]
    pub job: bool,
}

/// How it stands.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WidgetStatus {
    /// The generation that was seen.
    #[serde(default)]
    pub observed_generation: Option<i64>,
    /// Applied.
    #[serde(default)]
    pub conditions: Vec<Condition>,
}

/// The field manager and the value of the managed-by label.
pub const MANAGER: &str = "widgets";
type Guarded = DeserializeGuard<Widget>;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Apply(#[from] ApplyError),
    #[error("the status could not be written")]
    Status(#[source] kube::Error),
    #[error("an object could not be rendered")]
    Render(#[source] serde_json::Error),
    #[error("the object is malformed: {0}")]
    Malformed(String),
}

impl ReconcileError for Error {
    fn retry(&self) -> Retry {
        match self {
            Self::Apply(error) => error.retry(),
            Self::Status(error) => retry_of(error),
            Self::Render(_) | Self::Malformed(_) => Retry::OnChange,
        }
    }

    fn category(&self) -> &'static str {
        match self {
            Self::Apply(error) => error.category(),
            Self::Status(error) => category_of(error),
            Self::Render(_) => "render",
            Self::Malformed(_) => "malformed",
        }
    }
}

/// What is broken on purpose, to see that the sweeps find it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Bug {
    /// Nothing.
    #[default]
    None,
    /// Deletes of owned objects wake nobody.
    LostDelete,
    /// Plans on facts that are older than its own writes: makes what it made just now a second time.
    NoReadYourWrites,
    /// Says "applied" before it has applied.
    StatusFirst,
    /// Makes the secret anew each time.
    SecretRegenerated,
    /// The ConfigMap has no owner.
    NoOwner,
    /// Looks only at what it wants to write, not at what is there.
    NoDriftCheck,
    /// Deletes whatever has the name.
    DeleteByName,
    /// Forgets to prune.
    NoPrune,
    /// Prunes before what replaces it is there.
    PruneFirst,
    /// Writes the status although nothing changed.
    BusyStatus,
    /// Applies without looking whether it is necessary.
    BusyApply,
}

struct Context {
    client: Client,
    events: Events,
    bug: Bug,
    widgets: Cache<Guarded>,
    config_maps: Cache<MetaView<ConfigMap>>,
    secrets: Cache<MetaView<Secret>>,
    sets: Cache<MetaView<StatefulSet>>,
    jobs: Cache<MetaView<Job>>,
    applier: Applier,
    /// For a bug: what was applied last.
    last: parking_lot::Mutex<WidgetSpec>,
}

/// Runs the controller in one namespace until `stop`.
pub async fn run(client: Client, namespace: String, stop: CancellationToken, bug: Bug) {
    run_when(client, namespace, stop, bug, tokio::sync::watch::Sender::new(true).subscribe()).await;
}

/// The same, but it works only when it is elected. Its caches are warm before.
pub async fn run_when(
    client: Client,
    namespace: String,
    stop: CancellationToken,
    bug: Bug,
    mut elected: tokio::sync::watch::Receiver<bool>,
) {
    let scope = Scope::Namespaces(vec![namespace]);
    let ours = format!("{}={MANAGER}", engine::apply::MANAGED_BY_LABEL);
    let widgets: Cache<Guarded> = Cache::start(&client, Selection::all(scope.clone()), &stop);
    let config_maps = Cache::start(&client, Selection::all(scope.clone()).with_labels(&ours), &stop);
    let secrets = Cache::start(&client, Selection::all(scope.clone()).with_labels(&ours), &stop);
    let sets = Cache::start(&client, Selection::all(scope.clone()).with_labels(&ours), &stop);
    let jobs = Cache::start(&client, Selection::all(scope).with_labels(&ours), &stop);
    tokio::join!(widgets.ready(), config_maps.ready(), secrets.ready(), sets.ready(), jobs.ready());

    let mut applier = Applier::new(client.clone(), MANAGER);
    if bug != Bug::BusyApply {
        applier = applier.with_known(config_maps.clone());
    }
    applier = applier.with_known(secrets.clone()).with_known(sets.clone());
    if bug != Bug::NoPrune {
        applier = applier.with_known(jobs.clone());
    }
    let controller = Controller::new(Options::new("widgets"));
    controller.watch(&widgets, |change| [change.key.clone()]);
    if bug == Bug::LostDelete {
        controller.watch(&config_maps, |change| change.after.as_ref().and_then(|object| owner_of(&**object)));
    } else {
        controller.watch(&config_maps, |change| change.object().and_then(|object| owner_of(&**object)));
    }
    controller.watch(&secrets, |change| change.object().and_then(|object| owner_of(&**object)));
    controller.watch(&sets, |change| change.object().and_then(|object| owner_of(&**object)));
    controller.watch(&jobs, |change| change.object().and_then(|object| owner_of(&**object)));
    // An error means that the election has ended: then we do, too.
    if elected.wait_for(|elected| *elected).await.is_err() {
        return;
    }
    let events = Events::start(client.clone(), "widgets", "sample");
    let context = Arc::new(Context {
        client,
        events,
        bug,
        widgets,
        config_maps,
        secrets,
        sets,
        jobs,
        applier,
        last: Default::default(),
    });
    controller
        .run(stop, move |key| {
            let context = Arc::clone(&context);
            async move { reconcile(&context, key).await }
        })
        .await;
}

/// The Widget that an object belongs to.
fn owner_of(object: &impl Resource) -> Option<Key> {
    let owner = object.meta().owner_references.iter().flatten().find(|owner| owner.kind == "Widget")?;
    Some(Key::new(object.meta().namespace.as_deref()?, &owner.name))
}

async fn reconcile(context: &Context, key: Key) -> Result<Wake, Error> {
    let Some(object) = context.widgets.get(&key) else { return Ok(Wake::OnChange) };
    let widget = match &object.0 {
        Ok(widget) => widget,
        Err(invalid) => {
            let kind = engine::apply::Kind::erase::<Widget>(&());
            let (meta, error) = (&invalid.metadata, &invalid.error);
            malformed::report(&context.client, &context.events, MANAGER, &kind, meta, error)
                .await
                .map_err(Error::Status)?;
            return Err(Error::Malformed(invalid.error.clone()));
        }
    };
    let Some(owner) = Owner::of(widget) else { return Ok(Wake::OnChange) };
    if widget.meta().deletion_timestamp.is_some() {
        return Ok(Wake::OnChange);
    }
    let waits = context.widgets.awaits(owner.uid())
        || context.config_maps.awaits(owner.uid())
        || context.secrets.awaits(owner.uid())
        || context.sets.awaits(owner.uid())
        || context.jobs.awaits(owner.uid());
    if waits && context.bug != Bug::NoReadYourWrites {
        return Ok(Wake::OnChange);
    }
    plant(context, widget).await;
    if context.bug == Bug::NoDriftCheck
        && context.last.lock().text == widget.spec.text
        && context.config_maps.len() == 2
        && widget.status.as_ref().is_some_and(|status| status.observed_generation == widget.meta().generation)
    {
        return Ok(Wake::OnChange);
    }
    *context.last.lock() = widget.spec.clone();
    if context.bug == Bug::StatusFirst {
        write_status(context, widget, None).await?;
    }
    if context.bug == Bug::PruneFirst && !widget.spec.job {
        let none = Vec::new();
        context.applier.apply(&owner, none).await.into_result()?;
    }
    let desired = render(widget, &run_name(context, widget, &owner), context.bug)?;
    let applied = context.applier.apply(&owner, desired).await;
    let wake = applied.wake();
    let applied = applied.into_result();
    let problem = applied.as_ref().err().map(ToString::to_string);
    let written = write_status(context, widget, problem).await;
    match applied.map_err(Error::from).and(written) {
        Err(error) => Err(error),
        Ok(()) => Ok(wake),
    }
}

/// The name of the run: the one that is there, or a new one.
fn run_name(context: &Context, widget: &Widget, owner: &Owner) -> String {
    let prefix = format!("{}-run-", widget.name_any());
    let owned = context.config_maps.owned_by(owner.uid());
    let known = owned.iter().map(|object| object.name_any()).find(|name| name.starts_with(&prefix));
    known.unwrap_or_else(|| format!("{prefix}{:08x}", rand::random::<u32>()))
}

/// Bugs that need calls of their own.
async fn plant(context: &Context, widget: &Widget) {
    let api: Api<ConfigMap> =
        Api::namespaced(context.client.clone(), &widget.namespace().unwrap_or_default());
    let named = |name: String| ConfigMap {
        metadata: ObjectMeta {
            name: Some(name),
            labels: Some(BTreeMap::from([(MANAGED_BY_LABEL.to_string(), "planted".to_string())])),
            ..ObjectMeta::default()
        },
        ..ConfigMap::default()
    };
    match context.bug {
        Bug::NoOwner => {
            let _ = api.create(&PostParams::default(), &named(format!("{}-loose", widget.name_any()))).await;
        }
        Bug::DeleteByName if !widget.spec.job => {
            let jobs: Api<Job> =
                Api::namespaced(context.client.clone(), &widget.namespace().unwrap_or_default());
            let _ = jobs.delete(&format!("{}-job", widget.name_any()), &DeleteParams::background()).await;
        }
        _ => {}
    }
}

async fn write_status(context: &Context, widget: &Widget, problem: Option<String>) -> Result<(), Error> {
    let mut next = widget.status.clone().unwrap_or_default();
    next.observed_generation = widget.meta().generation;
    let (reason, message) = match &problem {
        Some(problem) => ("Failed", problem.as_str()),
        None => ("Done", ""),
    };
    let generation = widget.meta().generation;
    condition::set(
        &mut next.conditions,
        "Applied",
        problem.is_none(),
        reason,
        message,
        generation,
        jiff::Timestamp::now(),
    );
    let current = if context.bug == Bug::BusyStatus { None } else { widget.status.as_ref() };
    let written =
        status::write(&context.client, MANAGER, widget, current, &next).await.map_err(Error::Status)?;
    if let Some(version) = written {
        context.widgets.wrote(Key::of(widget), &version, &widget.uid().unwrap_or_default());
    }
    Ok(())
}

fn render(widget: &Widget, run: &str, bug: Bug) -> Result<Vec<DesiredObject>, Error> {
    let name = widget.name_any();
    let labels = BTreeMap::from([("widget".to_string(), name.clone())]);
    let meta = |suffix: &str| ObjectMeta {
        name: Some(format!("{name}-{suffix}")),
        namespace: widget.namespace(),
        labels: Some(labels.clone()),
        ..ObjectMeta::default()
    };
    let pod = || PodTemplateSpec {
        metadata: Some(ObjectMeta { labels: Some(labels.clone()), ..ObjectMeta::default() }),
        spec: Some(PodSpec {
            containers: vec![Container {
                name: "main".into(),
                image: Some("pause".into()),
                ..Container::default()
            }],
            ..PodSpec::default()
        }),
    };
    let config_map = ConfigMap {
        metadata: meta("config"),
        data: Some(BTreeMap::from([("text".into(), widget.spec.text.clone())])),
        ..ConfigMap::default()
    };
    let secret = Secret {
        metadata: meta("secret"),
        string_data: Some(BTreeMap::from([("key".into(), format!("{:032x}", rand::random::<u128>()))])),
        ..Secret::default()
    };
    let run =
        ConfigMap { metadata: ObjectMeta { name: Some(run.into()), ..meta("run") }, ..ConfigMap::default() };
    let set = StatefulSet {
        metadata: meta("set"),
        spec: Some(StatefulSetSpec {
            replicas: Some(widget.spec.replicas),
            service_name: Some(widget.spec.service_name.clone()),
            selector: LabelSelector { match_labels: Some(labels.clone()), ..LabelSelector::default() },
            template: pod(),
            ..StatefulSetSpec::default()
        }),
        ..StatefulSet::default()
    };
    let secret_policy = if bug == Bug::SecretRegenerated { Policy::Apply } else { Policy::CreateOnce };
    let mut objects = vec![
        DesiredObject::new(&config_map).map_err(Error::Render)?,
        DesiredObject::new(&run).map_err(Error::Render)?.with_policy(Policy::CreateOnce),
        DesiredObject::new(&secret).map_err(Error::Render)?.with_policy(secret_policy),
    ];
    if widget.spec.service_name != "none" {
        let set = DesiredObject::new(&set).map_err(Error::Render)?;
        objects.push(set.with_policy(Policy::Recreate { orphan: true }));
    }
    if widget.spec.job {
        let mut template = pod();
        if let Some(spec) = &mut template.spec {
            spec.restart_policy = Some("Never".into());
        }
        let job = Job {
            metadata: meta("job"),
            spec: Some(JobSpec { template, suspend: Some(true), ..JobSpec::default() }),
            ..Job::default()
        };
        objects.push(DesiredObject::new(&job).map_err(Error::Render)?);
    }
    Ok(objects)
}
