//! The client against a server that fails, and an API server that is away for a while.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use engine::client::{self, Answer, Call, CallError, Interceptor, Next, RetryPolicy, answer};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::{Request, StatusCode};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::CustomResourceExt as _;
use kube::api::{Api, ObjectMeta, Patch, PatchParams, PostParams};
use kube::client::Body;
use tokio_util::sync::CancellationToken;

use crate::sample::{self, Bug, Widget, WidgetSpec};
use crate::server::config;

/// Fails the first calls in one way, and counts all.
#[derive(Debug)]
struct Failing {
    first: usize,
    status: Option<StatusCode>,
    calls: AtomicUsize,
}

impl Interceptor for Failing {
    fn intercept<'a>(&'a self, _: &'a Call, request: Request<Body>, next: Next) -> BoxFuture<'a, Answer> {
        async move {
            let number = self.calls.fetch_add(1, Ordering::SeqCst);
            match self.status {
                Some(status) if number < self.first => Ok(answer(status, "{}")),
                None if number < self.first => std::future::pending().await,
                _ => next.send(request).await,
            }
        }
        .boxed()
    }
}

async fn failing(first: usize, status: Option<StatusCode>) -> Result<(Arc<Failing>, kube::Client)> {
    let failing = Arc::new(Failing { first, status, calls: AtomicUsize::new(0) });
    let options = client::Options {
        interceptor: Some(Arc::<Failing>::clone(&failing)),
        timeout: Duration::from_millis(300),
        list_timeout: Duration::from_millis(300),
        retry: RetryPolicy { first_wait: Duration::from_millis(10), ..RetryPolicy::default() },
        ..client::Options::default()
    };
    Ok((failing, client::connect(config().await?, options)?))
}

fn config_map(name: &str) -> ConfigMap {
    ConfigMap {
        metadata: ObjectMeta { name: Some(name.into()), ..ObjectMeta::default() },
        ..ConfigMap::default()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_holds_for_a_moment_is_tried_once_and_never_late() -> Result<()> {
    let maps = Api::<ConfigMap>::default_namespaced(failing(0, None).await?.1);
    let made = maps.create(&PostParams::default(), &config_map("only-now")).await?;
    let in_a_second = || Instant::now() + Duration::from_secs(1);

    let (unavailable, client) = failing(1, Some(StatusCode::SERVICE_UNAVAILABLE)).await?;
    assert!(engine::objects::delete_before(&client, &made, in_a_second()).await.is_err());
    assert_eq!(unavailable.calls.load(Ordering::SeqCst), 1, "it is not repeated");
    let (silent, client) = failing(1, None).await?;
    assert!(engine::objects::delete_before(&client, &made, in_a_second()).await.is_err());
    assert_eq!(silent.calls.load(Ordering::SeqCst), 1, "nor is one that was not answered");

    // Others are before it, and take their time.
    let busy = Arc::new(Failing { first: 1, status: None, calls: AtomicUsize::new(0) });
    let options = client::Options {
        interceptor: Some(Arc::<Failing>::clone(&busy)),
        timeout: Duration::from_secs(2),
        max_in_flight: 1,
        ..client::Options::default()
    };
    let client = client::connect(config().await?, options)?;
    let before = Api::<ConfigMap>::default_namespaced(client.clone());
    let before = tokio::spawn(async move { before.create(&PostParams::default(), &config_map("x")).await });
    tokio::time::sleep(Duration::from_millis(500)).await;
    let late = engine::objects::delete_before(&client, &made, in_a_second()).await;
    let late = late.err().context("it was sent")?;
    assert!(engine::error::is_too_late(&late), "{late}");
    let patch = serde_json::json!({ "data": { "a": "b" } });
    let key = engine::Key::of(&made);
    let late = engine::objects::patch_before::<ConfigMap>(&client, &key, &patch, Instant::now()).await;
    assert!(late.is_err_and(|error| engine::error::is_too_late(&error)));
    assert!(before.await?.is_err());
    assert_eq!(busy.calls.load(Ordering::SeqCst), 1);
    let still = maps.get("only-now").await?;
    assert_eq!(still.metadata.resource_version, made.metadata.resource_version);

    engine::objects::delete_before(&client, &made, in_a_second()).await?;
    assert!(maps.get_opt("only-now").await?.is_none());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn reads_and_applies_are_repeated_and_creates_are_not() -> Result<()> {
    let (failing_reads, client) = failing(2, Some(StatusCode::SERVICE_UNAVAILABLE)).await?;
    Api::<ConfigMap>::default_namespaced(client).list(&Default::default()).await?;
    assert_eq!(failing_reads.calls.load(Ordering::SeqCst), 3);

    let (failing_applies, client) = failing(2, Some(StatusCode::BAD_GATEWAY)).await?;
    let patch = Patch::Apply(config_map("repeated"));
    Api::<ConfigMap>::default_namespaced(client)
        .patch("repeated", &PatchParams::apply("test"), &patch)
        .await?;
    assert_eq!(failing_applies.calls.load(Ordering::SeqCst), 3);

    let (failing_creates, client) = failing(1, Some(StatusCode::SERVICE_UNAVAILABLE)).await?;
    let created = Api::<ConfigMap>::default_namespaced(client)
        .create(&PostParams::default(), &config_map("once"))
        .await;
    assert!(created.is_err());
    assert_eq!(failing_creates.calls.load(Ordering::SeqCst), 1);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn three_tries_are_all() -> Result<()> {
    let (calls, client) = failing(100, Some(StatusCode::TOO_MANY_REQUESTS)).await?;
    assert!(Api::<ConfigMap>::default_namespaced(client).list(&Default::default()).await.is_err());
    assert_eq!(calls.calls.load(Ordering::SeqCst), 3);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_never_answers_is_a_timeout_that_names_the_call() -> Result<()> {
    let (_, client) = failing(100, None).await?;
    let created = Api::<ConfigMap>::default_namespaced(client)
        .create(&PostParams::default(), &config_map("silent"))
        .await;
    let kube::Error::Service(error) = created.err().context("an error")? else {
        anyhow::bail!("another error")
    };
    let text = error.to_string();
    assert!(matches!(error.downcast_ref(), Some(CallError::Timeout { .. })), "{text}");
    assert!(text.contains("create configmaps in default"), "{text}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn after_an_outage_of_the_api_server_work_goes_on_within_ten_seconds() -> Result<()> {
    // A server of its own, because it is stopped.
    let plane = rig::ControlPlane::start().await?;
    crate::server::install(&plane, &Widget::crd()).await?;
    let namespace = plane.namespace("outage").await?;
    let client = client::connect(crate::server::config_of(&plane).await?, client::Options::default())?;
    let stop = CancellationToken::new();
    tokio::spawn(sample::run(client, namespace.name().into(), stop.clone(), Bug::None));
    let widgets = namespace.api::<Widget>();
    let applied = async |name: &str| -> Result<()> {
        for _ in 0..600 {
            let status = widgets.get(name).await?.status.unwrap_or_default();
            if engine::condition::is_true(&status.conditions, "Applied") {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        anyhow::bail!("{name} was not applied within 30 s")
    };
    widgets.create(&PostParams::default(), &Widget::new("before", WidgetSpec::default())).await?;
    applied("before").await?;
    plane.pause_api_server(outage()).await?;
    let back = Instant::now();
    widgets.create(&PostParams::default(), &Widget::new("after", WidgetSpec::default())).await?;
    applied("after").await?;
    assert!(back.elapsed() < Duration::from_secs(10), "{:?}", back.elapsed());
    stop.cancel();
    Ok(())
}

/// Ten seconds in `make test`, two minutes in `make soak`.
fn outage() -> Duration {
    Duration::from_secs(if std::env::var_os("SOPERATOR_SOAK").is_some() { 120 } else { 10 })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_right_is_told_with_verb_group_resource_and_account() -> Result<()> {
    let mut config = config().await?;
    config.auth_info.impersonate = Some("system:serviceaccount:slurm:operator".into());
    let client = client::connect(config, client::Options::default())?;
    let sets: Api<k8s_openapi::api::apps::v1::StatefulSet> = Api::namespaced(client, "slurm");
    let error = sets.list(&Default::default()).await.err().context("an error")?;
    let text = engine::error::chain(&error);
    for part in ["system:serviceaccount:slurm:operator", "cannot list", "statefulsets", "\"apps\""] {
        assert!(text.contains(part), "{part} is missing in: {text}");
    }
    assert_eq!(engine::error::category_of(&error), "forbidden");
    Ok(())
}

/// A claim that ends and is not renewed.
#[derive(Debug)]
struct Ending(Instant);

impl client::WriteGate for Ending {
    fn may_write_until(&self) -> Option<Instant> {
        Some(self.0)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_that_hangs_over_the_end_of_the_claim_is_broken_off() -> Result<()> {
    let hanging = Arc::new(Failing { first: 100, status: None, calls: AtomicUsize::new(0) });
    // First, because it may have to start the server.
    let config = config().await?;
    let options = client::Options {
        interceptor: Some(Arc::<Failing>::clone(&hanging)),
        gate: Some(Arc::new(Ending(Instant::now() + Duration::from_millis(300)))),
        ..client::Options::default()
    };
    let api = Api::<ConfigMap>::default_namespaced(client::connect(config, options)?);
    let begun = Instant::now();
    for sent in [1, 1] {
        let patch = Patch::Apply(config_map("late"));
        let error = api.patch("late", &PatchParams::apply("test"), &patch).await.err().context("an error")?;
        assert!(engine::error::chain(&error).contains("does not hold the lease"), "{error}");
        assert_eq!(hanging.calls.load(Ordering::SeqCst), sent, "the second is not even sent");
    }
    assert!(begun.elapsed() < Duration::from_secs(5), "not by the timeout of 15 s");
    Ok(())
}
