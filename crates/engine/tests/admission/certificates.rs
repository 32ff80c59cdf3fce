//! Certificates come, change and go while requests are answered.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use engine::admission::{Limits, Options, Policy, Source};
use k8s_openapi::ByteString;
use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingWebhookConfiguration,
};
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt as _;
use kube::api::{Api, DeleteParams, ObjectMeta, Patch, PatchParams, PostParams};
use rig::pki::{Authority, Identity, Name};
use serde_json::json;

use crate::load::{ApplyLoop, Handshakes};
use crate::place::{Place, SECRET, VALIDATE, until};
use crate::wire::{connect, count_certificates, served};

#[tokio::test(flavor = "multi_thread")]
async fn authorities_and_certificates_rotate_under_load_without_one_failure() -> Result<()> {
    let place = Arc::new(Place::new("rotation").await?);
    let policy = Policy {
        authority_lifetime: Duration::from_secs(24),
        serving_lifetime: Duration::from_secs(12),
        ..Policy::for_names(vec!["127.0.0.1".into()])
    };
    // Two replicas that start at once and share one Secret. The API server asks both about each widget.
    let source = Source::Own { secret: place.secret(), policy };
    let options = || Options {
        configurations: [place.configurations(0), place.configurations(1)].concat(),
        ..place.options(source.clone())
    };
    let (first, second) = tokio::try_join!(place.start(options()), place.start(options()))?;
    place.register(0, first.address, VALIDATE).await?;
    place.register(1, second.address, VALIDATE).await?;
    until("both configurations hold the bundle", async || {
        let bundle = place.secret_value("ca.crt").await?;
        Ok((place.bundle(0).await? == bundle && place.bundle(1).await? == bundle).then_some(()))
    })
    .await?;
    place.until_asked().await?;

    let applies = ApplyLoop::start(&place);
    let (mut certificates, mut authorities, mut most) = (BTreeSet::new(), BTreeSet::new(), 0);
    let (started, mut handshakes) = (Instant::now(), 0);
    while authorities.len() < 3 || count_certificates(&place.bundle(0).await?) > 1 {
        assert!(started.elapsed() < Duration::from_secs(90), "{} authorities", authorities.len());
        for (number, address) in [(0, first.address), (1, second.address)] {
            let bundle = place.bundle(number).await?;
            most = most.max(count_certificates(&bundle));
            // An API server that is a little behind.
            tokio::time::sleep(Duration::from_millis(200)).await;
            certificates.insert(served(address, &bundle).await.context("a handshake failed")?);
            handshakes += 1;
        }
        authorities.insert(place.secret_value("authority.crt").await?);
    }
    let took = started.elapsed();
    let (by_kubectl, by_call, failures) = applies.end().await?;
    println!(
        "{by_kubectl} applies by kubectl and {by_call} by API calls, each asking two replicas, and {handshakes} handshakes in {took:?}: {} failures; {} certificates of {} authorities",
        failures.len(),
        certificates.len(),
        authorities.len(),
    );
    assert_eq!(failures, Vec::<String>::new());
    assert!(by_kubectl > 10 && by_call > 50, "{by_kubectl} applies by kubectl, {by_call} by API calls");
    assert!(certificates.len() >= 4, "{} certificates", certificates.len());
    assert_eq!(most, 2, "old and new authority overlapped");
    let bundle = place.bundle(0).await?;
    assert_eq!(served(first.address, &bundle).await?, served(second.address, &bundle).await?);
    Ok(())
}

/// A certificate for loopback, as a user would bring it.
fn brought(authority: &Authority) -> Result<BTreeMap<String, ByteString>> {
    let names = [Name::Ip(Ipv4Addr::LOCALHOST.into())];
    let Identity { certificate_pem, key_pem } = authority.server("webhook", &names)?;
    let entries = [
        ("tls.crt", certificate_pem),
        ("tls.key", key_pem),
        ("ca.crt", authority.certificate_pem().to_string()),
    ];
    Ok(entries.into_iter().map(|(key, text)| (key.to_string(), ByteString(text.into_bytes()))).collect())
}

fn secret(data: BTreeMap<String, ByteString>) -> Secret {
    Secret {
        metadata: ObjectMeta { name: Some(SECRET.into()), ..ObjectMeta::default() },
        data: Some(data),
        ..Secret::default()
    }
}

async fn until_trusted_by(address: SocketAddr, authority: &Authority) -> Result<Vec<u8>> {
    until("the certificate is served", async || Ok(served(address, authority.certificate_pem()).await.ok()))
        .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_of_the_user_is_followed_without_restart_and_without_one_failure() -> Result<()> {
    let place = Arc::new(Place::new("brought").await?);
    let (old, new) = (Authority::new("old")?, Authority::new("new")?);
    let api = place.namespace.api::<Secret>();
    api.create(&PostParams::default(), &secret(brought(&old)?)).await?;
    let running = place.start(place.options(Source::Secret(place.secret()))).await?;
    place.register(0, running.address, VALIDATE).await?;
    place.until_asked().await?;
    until_trusted_by(running.address, &old).await?;

    let (applies, handshakes) = (ApplyLoop::start(&place), Handshakes::start(&place, running.address));
    tokio::time::sleep(Duration::from_secs(1)).await;
    api.replace(SECRET, &PostParams::default(), &secret(brought(&new)?)).await?;
    let serves = until_trusted_by(running.address, &new).await?;
    until("the old authority is taken out", async || {
        Ok((count_certificates(&place.bundle(0).await?) == 1).then_some(()))
    })
    .await?;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let (by_kubectl, by_call, failures) = applies.end().await?;
    assert_eq!([failures, handshakes.end().await?.1].concat(), Vec::<String>::new());
    assert!(by_kubectl > 0 && by_call > 20, "{by_kubectl} applies by kubectl, {by_call} by API calls");

    // A mistake in it changes nothing: the certificate that works is served on.
    let mut mistaken = brought(&old)?;
    mistaken.insert("tls.key".into(), brought(&new)?["tls.key"].clone());
    api.replace(SECRET, &PostParams::default(), &secret(mistaken)).await?;
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(served(running.address, new.certificate_pem()).await?, serves);
    place.create("w", "good").await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bundle_that_is_reset_by_hand_is_mended_and_then_nothing_is_written() -> Result<()> {
    let (place, _running) = Place::with_webhooks("reset", Limits::default()).await?;
    let name = place.configuration_name(0);
    let ours = place.bundle(0).await?;
    let validating: Api<ValidatingWebhookConfiguration> = Api::all(place.namespace.client());
    let mutating: Api<MutatingWebhookConfiguration> = Api::all(place.namespace.client());
    let foreign = Authority::new("foreign")?.certificate_pem().to_string();
    let reset = |bundle: Option<&str>| {
        let bundle = bundle.map(|bundle| ByteString(bundle.as_bytes().to_vec()));
        let op = if bundle.is_some() { "replace" } else { "remove" };
        let patch = json!([{ "op": op, "path": "/webhooks/0/clientConfig/caBundle", "value": bundle }]);
        serde_json::from_value::<json_patch::Patch>(patch).map(Patch::<()>::Json)
    };
    for bundle in [None, Some(foreign.as_str())] {
        let started = Instant::now();
        validating.patch(&name, &PatchParams::default(), &reset(bundle)?).await?;
        mutating.patch(&name, &PatchParams::default(), &reset(bundle)?).await?;
        let (live, other) = until("both are mended", async || {
            let live = place.bundle(0).await?;
            let other = mutating.get(&name).await?.webhooks.context("webhooks")?.remove(0);
            let other = String::from_utf8(other.client_config.ca_bundle.unwrap_or_default().0)?;
            Ok((live.contains(ours.trim()) && other.contains(ours.trim())).then_some((live, other)))
        })
        .await?;
        println!("mended after {:?}", started.elapsed());
        assert!(live == other && started.elapsed() < Duration::from_secs(5));
        place.until_asked().await?;
    }
    until("the foreign authority is taken out", async || Ok((place.bundle(0).await? == ours).then_some(())))
        .await?;

    let versions = async || -> Result<_> {
        let secret: Secret = place.namespace.api().get(SECRET).await?;
        let live =
            [validating.get(&name).await?.resource_version(), mutating.get(&name).await?.resource_version()];
        Ok((secret.resource_version(), live))
    };
    tokio::time::sleep(Duration::from_secs(1)).await;
    let before = versions().await?;
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(versions().await?, before, "steady state writes nothing");

    let managed = validating.get(&name).await?.metadata.managed_fields.context("managed fields")?;
    let fields = managed.iter().find(|entry| entry.manager.as_deref() == Some("admission-test"));
    let fields = serde_json::to_string(&fields.context("our field manager")?.fields_v1)?;
    assert!(
        fields.contains("f:caBundle") && !fields.contains("f:rules"),
        "only the bundle is ours: {fields}"
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_secret_is_made_again() -> Result<()> {
    let (place, running) = Place::with_webhooks("deleted", Limits::default()).await?;
    let before = place.secret_value("ca.crt").await?;
    place.namespace.api::<Secret>().delete(SECRET, &DeleteParams::default()).await?;
    let after = until("there is a new one", async || {
        Ok(place.secret_value("ca.crt").await.ok().filter(|after| *after != before))
    })
    .await?;
    until("it is served", async || Ok(connect(running.address, &after).await.ok())).await?;
    place.create("w", "good").await?;
    Ok(())
}
