//! Certificates from the real cert-manager.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use engine::admission::Source;
use engine::apply::Kind;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Api, DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use serde_json::json;

use crate::load::{ApplyLoop, Handshakes, kubectl_apply};
use crate::place::{Place, SECRET, VALIDATE, until};
use crate::wire::{count_certificates, served};

fn api(place: &Place, kind: &str, plural: &str) -> Api<DynamicObject> {
    let kind = Kind {
        group: "cert-manager.io".into(),
        version: "v1".into(),
        api_version: "cert-manager.io/v1".into(),
        kind: kind.into(),
        plural: plural.into(),
    };
    Api::namespaced_with(place.namespace.client(), place.namespace.name(), &kind)
}

/// What `cmctl renew` does.
async fn renew(certificates: &Api<DynamicObject>) -> Result<()> {
    until("the condition is written", async || {
        let mut certificate = certificates.get(SECRET).await?;
        let generation = certificate.metadata.generation;
        let conditions = certificate.data["status"]["conditions"].as_array_mut().context("conditions")?;
        conditions.retain(|condition| condition["type"] != "Issuing");
        conditions.push(json!({
            "type": "Issuing", "status": "True", "reason": "ManuallyTriggered", "message": "by a test",
            "lastTransitionTime": jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
            "observedGeneration": generation,
        }));
        match certificates.replace_status(SECRET, &PostParams::default(), &certificate).await {
            Ok(_) => Ok(Some(())),
            Err(kube::Error::Api(status)) if status.code == 409 => Ok(None),
            Err(error) => Err(error.into()),
        }
    })
    .await
}

/// Waits until the Secret holds another certificate than `before`, which is served, and the only one that is trusted.
async fn until_rotated(place: &Place, address: std::net::SocketAddr, before: &str) -> Result<String> {
    until("another certificate is served, and alone trusted", async || {
        let Some(now) = place.secret_value("tls.crt").await.ok().filter(|now| now != before) else {
            return Ok(None);
        };
        let bundle = place.bundle(0).await?;
        let alone = count_certificates(&bundle) == 1 && served(address, &now).await.is_ok();
        Ok(alone.then_some(now))
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn cert_manager_makes_certificates_and_renews_them_under_load_without_one_failure() -> Result<()> {
    let cert_manager = tokio::task::spawn_blocking(rig::CertManager::find_or_build).await??;
    let place = Arc::new(Place::new("cert-manager").await?);
    let names = vec!["webhook.ns.svc".to_string(), "127.0.0.1".to_string()];
    let source = Source::CertManager { secret: place.secret(), names };
    // The operator is there before cert-manager is.
    let starting = tokio::spawn({
        let place = Arc::clone(&place);
        async move { place.start(place.options(source)).await }
    });
    tokio::time::sleep(Duration::from_secs(1)).await;
    let began = Instant::now();
    cert_manager.start(place.plane).await?;
    println!("cert-manager's kinds are served after {:?}", began.elapsed());
    let running = starting.await??;
    println!("its certificate is served after {:?}", began.elapsed());
    place.register(0, running.address, VALIDATE).await?;
    place.until_asked().await?;
    let denied = kubectl_apply(&place, "bad").err().context("a denial")?.to_string();
    assert!(denied.contains("denied the request: spec.text: must not be bad"), "{denied}");
    kubectl_apply(&place, "good")?;

    let (issuers, certificates) =
        (api(&place, "Issuer", "issuers"), api(&place, "Certificate", "certificates"));
    let first = place.secret_value("tls.crt").await?;
    let (applies, handshakes) = (ApplyLoop::start(&place), Handshakes::start(&place, running.address));
    let began = Instant::now();
    renew(&certificates).await?;
    let second = until_rotated(&place, running.address, &first).await?;
    renew(&certificates).await?;
    let third = until_rotated(&place, running.address, &second).await?;
    place.namespace.api::<Secret>().delete(SECRET, &DeleteParams::default()).await?;
    let fourth = until_rotated(&place, running.address, &third).await?;

    // Somebody asks for a certificate by which the API server could not call us.
    let other = json!({ "spec": { "dnsNames": ["other"], "ipAddresses": null } });
    certificates.patch(SECRET, &PatchParams::default(), &Patch::Merge(&other)).await?;
    let is_right = |certificate: &DynamicObject| {
        let spec = &certificate.data["spec"];
        spec["dnsNames"] == json!(["webhook.ns.svc"]) && spec["ipAddresses"] == json!(["127.0.0.1"])
    };
    until("it is reverted", async || Ok(certificates.get_opt(SECRET).await?.filter(is_right))).await?;
    issuers.delete(SECRET, &DeleteParams::default()).await?;
    until("it is made again", async || Ok(issuers.get_opt(SECRET).await?)).await?;
    renew(&certificates).await?;
    until_rotated(&place, running.address, &fourth).await?;
    let took = began.elapsed();
    let (by_kubectl, by_call, failures) = applies.end().await?;
    let (connected, refused) = handshakes.end().await?;
    let failures = [failures, refused].concat();
    println!(
        "{by_kubectl} applies by kubectl and {by_call} by API calls, and {connected} handshakes in {took:?}: {} failures",
        failures.len()
    );
    assert_eq!(failures, Vec::<String>::new());
    assert!(by_kubectl > 0 && by_call > 20, "{by_kubectl} applies by kubectl, {by_call} by API calls");
    Ok(())
}
