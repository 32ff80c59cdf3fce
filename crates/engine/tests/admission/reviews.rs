//! Questions and answers.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use engine::admission::{Limits, Options};
use kube::ResourceExt as _;
use prometheus_client::registry::Registry;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::place::{MUTATE, Place, VALIDATE, VALIDATE_OR_IGNORE, review, widget};
use crate::wire::{connect, post};

#[tokio::test(flavor = "multi_thread")]
async fn a_denial_reaches_the_user_with_message_and_code() -> Result<()> {
    let (place, running) = Place::with_webhooks("deny", Limits::default()).await?;
    let Err(kube::Error::Api(status)) = place.create("w", "bad").await else { anyhow::bail!("it passed") };
    assert_eq!(status.code, 422);
    assert!(status.message.ends_with("denied the request: spec.text: must not be bad"), "{}", status.message);
    place.create("w", "good").await?;
    assert!(running.metrics.requests(VALIDATE, "denied") >= 1);
    assert!(running.metrics.requests(VALIDATE, "allowed") >= 1);

    let mut registry = Registry::default();
    running.metrics.register(&mut registry);
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, &registry)?;
    assert!(text.contains(r#"admission_requests_total{path="/validate-widget",result="denied"}"#), "{text}");
    let expiry = text.lines().find_map(|line| {
        line.strip_prefix("admission_certificate_expiry_timestamp_seconds ")?.parse::<i64>().ok()
    });
    let days = (expiry.context("an expiry")? - jiff::Timestamp::now().as_second()) / 86_400;
    assert!((88..=90).contains(&days), "{days}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_warning_reaches_the_user() -> Result<()> {
    let (place, _running) = Place::with_webhooks("warn", Limits::default()).await?;
    let path = format!("/apis/test.soperator.dev/v1/namespaces/{}/widgets", place.namespace.name());
    let body = serde_json::to_vec(&widget("w", "odd"))?;
    let request = http::Request::post(path).header("content-type", "application/json").body(body.into())?;
    let response = place.namespace.client().send(request).await?;
    assert_eq!(response.status(), 201);
    let warning = response.headers().get("warning").context("a warning")?.to_str()?;
    assert!(warning.contains("odd is deprecated"), "{warning}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mutating_webhook_changes_the_object() -> Result<()> {
    let (place, running) = Place::with_webhooks("mutate", Limits::default()).await?;
    let widget = place.create("w", "good").await?;
    assert_eq!(widget.labels().get("seen").map(String::as_str), Some("yes"));
    assert!(running.metrics.requests(MUTATE, "patched") >= 1);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_of_3_mb_is_answered_and_a_larger_one_is_refused_clearly() -> Result<()> {
    let (place, running) = Place::with_webhooks("large", Limits::default()).await?;
    let Err(error) = place.create("w", &"x".repeat(2_900_000)).await else { anyhow::bail!("it passed") };
    assert!(error.to_string().contains("2900000 characters are too many"), "{error}");

    let bundle = place.bundle(0).await?;
    let largest = review(&"x".repeat(3_000_000)).to_string();
    let (status, text) = post(running.address, &bundle, VALIDATE, largest.as_bytes()).await?;
    assert_eq!(status, 200);
    assert!(text.contains("3000000 characters"), "{text}");
    for length in [3_200_000, 12_000_000] {
        let (status, text) = post(running.address, &bundle, VALIDATE, &vec![b' '; length]).await?;
        assert_eq!((status, text.trim()), (413, "the body is larger than 3145728 bytes"), "{length}");
    }
    assert_eq!(running.metrics.requests(VALIDATE, "too_large"), 2);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn broken_json_gets_a_clear_answer() -> Result<()> {
    let (place, running) = Place::with_webhooks("broken", Limits::default()).await?;
    let bundle = place.bundle(0).await?;
    let (status, text) = post(running.address, &bundle, VALIDATE, b"{\"kind\": ]").await?;
    assert_eq!(status, 400);
    assert!(text.contains("no AdmissionReview") && text.contains("line 1 column"), "{text}");
    place.create("w", "good").await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn silent_clients_are_dropped_and_slow_nobody() -> Result<()> {
    let limits = Limits { max_connections: 8, silence: Duration::from_secs(3), ..Limits::default() };
    let (place, running) = Place::with_webhooks("silent", limits).await?;
    let bundle = place.bundle(0).await?;
    let mut silent = Vec::new();
    let mut slowest = Duration::ZERO;
    // More than there are places, some with TLS and some without, while others are served.
    for round in 0..10 {
        for _ in 0..2 {
            silent.push(TcpStream::connect(running.address).await?);
        }
        let mut shy = connect(running.address, &bundle).await?;
        tokio::spawn(async move { shy.read_u8().await });
        let started = Instant::now();
        place.apply("w", &format!("round {round}")).await?;
        let (status, _) =
            post(running.address, &bundle, VALIDATE, review("x").to_string().as_bytes()).await?;
        assert_eq!(status, 200);
        slowest = slowest.max(started.elapsed());
    }
    assert!(slowest < Duration::from_secs(2), "a call took {slowest:?}");
    // Those that were not pushed out by others are dropped after the timeout.
    for mut stream in silent {
        let read = tokio::time::timeout(Duration::from_secs(6), stream.read_u8()).await;
        assert!(read.context("a silent client is dropped")?.is_err());
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_silent_client_is_dropped_after_the_timeout_and_not_before() -> Result<()> {
    let limits = Limits { silence: Duration::from_millis(1500), ..Limits::default() };
    let (place, running) = Place::with_webhooks("timeout", limits).await?;
    let bundle = place.bundle(0).await?;
    let started = Instant::now();
    let mut plain = TcpStream::connect(running.address).await?;
    let mut shy = connect(running.address, &bundle).await?;
    let dropped = async { tokio::join!(plain.read_u8(), shy.read_u8()) };
    let (plain, shy) =
        tokio::time::timeout(Duration::from_secs(10), dropped).await.context("both are dropped")?;
    assert!(plain.is_err() && shy.is_err());
    let waited = started.elapsed();
    assert!((1400..4000).contains(&waited.as_millis()), "{waited:?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_panic_in_a_handler_is_answered_by_its_policy() -> Result<()> {
    let (place, running) = Place::with_webhooks("panic", Limits::default()).await?;
    let Err(kube::Error::Api(status)) = place.create("w", "panic").await else { anyhow::bail!("it passed") };
    assert_eq!(status.code, 500);
    assert!(status.message.contains("the check at /validate-widget failed"), "{}", status.message);
    assert_eq!(running.metrics.requests(VALIDATE, "panic"), 1);
    place.create("w", "good").await.context("the server lives on")?;

    let ignoring = Place::new("panic-ignored").await?;
    let running = ignoring.start(ignoring.options(ignoring.own())).await?;
    ignoring.register(0, running.address, VALIDATE_OR_IGNORE).await?;
    ignoring.until_asked().await?;
    ignoring.create("w", "panic").await.context("it passes")?;
    assert_eq!(running.metrics.requests(VALIDATE_OR_IGNORE, "panic"), 1);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_waits_for_requests_under_way() -> Result<()> {
    let (place, running) = Place::with_webhooks("stop", Limits::default()).await?;
    let bundle = place.bundle(0).await?;
    let idle = connect(running.address, &bundle).await?;
    let slow = review("slow").to_string();
    let asked = post(running.address, &bundle, VALIDATE, slow.as_bytes());
    let stop = async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        running.stop.cancel();
    };
    let (answered, ()) = tokio::join!(asked, stop);
    let (status, text) = answered?;
    assert_eq!(status, 200);
    assert!(text.contains("\"allowed\":true"), "{text}");
    tokio::time::timeout(Duration::from_secs(5), running.task).await.context("it ends")??;
    assert!(TcpStream::connect(running.address).await.is_err(), "nobody listens any more");
    drop(idle);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_that_come_just_after_a_stop_are_answered_and_sent_elsewhere_from_then_on() -> Result<()> {
    let place = Place::new("linger").await?;
    let options = Options {
        // Others could come by a Service.
        address: (Ipv4Addr::UNSPECIFIED, 0).into(),
        linger: Duration::from_secs(3),
        ..place.options(place.own())
    };
    let running = place.start(options).await?;
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, running.address.port()));
    place.register(0, address, VALIDATE).await?;
    place.until_asked().await?;
    let bundle = place.bundle(0).await?;
    let mut open = connect(address, &bundle).await?;
    running.stop.cancel();
    tokio::time::sleep(Duration::from_millis(200)).await;

    let body = review("good").to_string();
    let (status, _) = post(address, &bundle, VALIDATE, body.as_bytes()).await?;
    assert_eq!(status, 200);
    place.create("w", "good").await?;
    let head = format!("POST {VALIDATE} HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n\r\n", body.len());
    open.write_all((head + &body).as_bytes()).await?;
    let mut answer = Vec::new();
    let _ = open.read_to_end(&mut answer).await;
    let answer = String::from_utf8(answer)?.to_ascii_lowercase();
    assert!(answer.starts_with("http/1.1 200") && answer.contains("\r\nconnection: close\r\n"), "{answer}");

    tokio::time::timeout(Duration::from_secs(20), running.task).await.context("it ends")??;
    assert!(TcpStream::connect(address).await.is_err(), "nobody listens any more");
    Ok(())
}
