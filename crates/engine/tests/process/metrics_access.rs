//! Metrics for those only whom the API server lets in, and over HTTPS.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context as _, Result};
use engine::client::{self, Answer, Call, Interceptor, Next, WriteGate};
use engine::server::Shown;
use futures::future::BoxFuture;
use http::Request;
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::{Secret, ServiceAccount};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};
use kube::Client;
use kube::api::{Api, PostParams};
use kube::client::Body;
use rig::{ControlPlane, Namespace};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use crate::optional_kinds::engine_client;
use crate::server::{Running, ask, settings, start};

/// Counts the questions about callers.
#[derive(Debug, Default)]
struct Questions(AtomicUsize);

impl Interceptor for Questions {
    fn intercept<'a>(&'a self, call: &'a Call, request: Request<Body>, next: Next) -> BoxFuture<'a, Answer> {
        if call.resource.ends_with("reviews") {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
        next.send(request)
    }
}

/// A process that never becomes leader; it answers for its metrics nevertheless.
#[derive(Debug)]
struct NeverLeader;

impl WriteGate for NeverLeader {
    fn may_write_until(&self) -> Option<std::time::Instant> {
        None
    }
}

async fn account(namespace: &Namespace, name: &str) -> Result<String> {
    let accounts: Api<ServiceAccount> = namespace.api();
    let account = serde_json::from_value(serde_json::json!({ "metadata": { "name": name } }))?;
    accounts.create(&PostParams::default(), &account).await?;
    let request = TokenRequest { spec: TokenRequestSpec::default(), ..TokenRequest::default() };
    let issued = accounts.create_token_request(name, &PostParams::default(), &request).await?;
    Ok(issued.status.context("no token")?.token)
}

async fn let_in(namespace: &Namespace, account: &str) -> Result<()> {
    let name = format!("metrics-reader-{}", namespace.name());
    let role: ClusterRole = serde_json::from_value(serde_json::json!({
        "metadata": { "name": name },
        "rules": [{ "nonResourceURLs": ["/metrics"], "verbs": ["get"] }],
    }))?;
    let binding: ClusterRoleBinding = serde_json::from_value(serde_json::json!({
        "metadata": { "name": name },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name },
        "subjects": [{ "kind": "ServiceAccount", "name": account, "namespace": namespace.name() }],
    }))?;
    Api::all(namespace.client()).create(&PostParams::default(), &role).await?;
    Api::all(namespace.client()).create(&PostParams::default(), &binding).await?;
    Ok(())
}

async fn scrape(running: &Running, authorization: Option<&str>) -> Result<(u16, String, String)> {
    let header = authorization.map(|value| format!("authorization: {value}\r\n")).unwrap_or_default();
    let stream = TcpStream::connect(running.metrics).await?;
    ask(stream, &format!("GET /metrics HTTP/1.1\r\n{header}"), "").await
}

#[tokio::test]
async fn only_callers_with_the_right_see_metrics() -> Result<()> {
    let namespace = ControlPlane::shared().await?.namespace("metrics").await?;
    let reader = account(&namespace, "reader").await?;
    let stranger = account(&namespace, "stranger").await?;
    let_in(&namespace, "reader").await?;
    let questions = Arc::new(Questions::default());
    let options = client::Options {
        interceptor: Some(Arc::clone(&questions) as Arc<dyn Interceptor>),
        gate: Some(Arc::new(NeverLeader)),
        ..client::Options::default()
    };
    let client = engine_client(options).await?;
    let running = start(&settings(&["--metrics-authorization"]), Shown::default(), Some(&client)).await?;

    let (status, head, _) = scrape(&running, None).await?;
    assert_eq!(status, 401);
    assert!(head.contains("www-authenticate: Bearer"), "{head}");
    assert_eq!(scrape(&running, Some("Basic abc")).await?.0, 401);
    assert_eq!(questions.0.load(Ordering::SeqCst), 0, "nothing to ask about");
    assert_eq!(scrape(&running, Some("Bearer nonsense")).await?.0, 401);
    assert_eq!(questions.0.load(Ordering::SeqCst), 1);
    let (status, _, body) = scrape(&running, Some(&format!("Bearer {stranger}"))).await?;
    assert_eq!(status, 403);
    assert!(body.contains(":stranger may not get /metrics: give the right"), "{body}");
    assert_eq!(questions.0.load(Ordering::SeqCst), 3);
    for _ in 0..3 {
        let (status, _, body) = scrape(&running, Some(&format!("bearer {reader}"))).await?;
        assert_eq!((status, body.as_str()), (200, "# EOF\n"));
    }
    assert_eq!(questions.0.load(Ordering::SeqCst), 5, "asked once, and remembered");
    Ok(())
}

#[tokio::test]
async fn without_an_api_server_nobody_is_let_in() -> Result<()> {
    let mut config = kube::Config::new("http://127.0.0.1:1".parse()?);
    config.connect_timeout = Some(std::time::Duration::from_secs(1));
    let client = client::connect(config, client::Options::default())?;
    let running = start(&settings(&["--metrics-authorization"]), Shown::default(), Some(&client)).await?;
    assert_eq!(scrape(&running, Some("Bearer x")).await?.0, 503);
    Ok(())
}

/// Asks over TLS, trusting only `authority`.
async fn scrape_tls(running: &Running, authority: &[u8]) -> Result<u16> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(authority) {
        roots.add(certificate?)?;
    }
    let provider = Arc::new(tokio_rustls::rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    let stream = TcpStream::connect(running.metrics).await?;
    let name = ServerName::try_from("localhost")?;
    let stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await?;
    Ok(ask(stream, "GET /metrics HTTP/1.1\r\n", "").await?.0)
}

fn pair() -> Result<(String, String)> {
    let made = rcgen::generate_simple_self_signed(["localhost".to_string()])?;
    Ok((made.cert.pem(), made.signing_key.serialize_pem()))
}

fn with_config(text: &str, folder: &std::path::Path) -> Result<String> {
    let path = folder.join("config.yaml");
    std::fs::write(&path, text)?;
    Ok(format!("--config={}", path.display()))
}

#[tokio::test]
async fn metrics_are_served_over_https_with_the_users_certificate() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let (cert, key) = pair()?;
    let path = |name: &str| folder.path().join(name);
    std::fs::write(path("tls.crt"), &cert)?;
    std::fs::write(path("tls.key"), &key)?;
    let (cert_path, key_path) = (path("tls.crt"), path("tls.key"));
    let text =
        format!("tls:\n  enabled: true\n  cert: {}\n  key: {}\n", cert_path.display(), key_path.display());
    let settings = settings(&[&with_config(&text, folder.path())?]);
    let running = start(&settings, Shown::default(), None).await?;
    let mut silent = Vec::new();
    for _ in 0..50 {
        silent.push(TcpStream::connect(running.metrics).await?);
    }
    let began = std::time::Instant::now();
    assert_eq!(scrape_tls(&running, cert.as_bytes()).await?, 200);
    assert!(
        began.elapsed() < std::time::Duration::from_secs(3),
        "clients that send nothing slow nobody down"
    );
    assert!(scrape_tls(&running, pair()?.0.as_bytes()).await.is_err(), "another certificate is not trusted");
    assert!(scrape(&running, None).await.is_err(), "plain HTTP is not answered");
    let (status, ..) = crate::server::get(running.health, "/livez").await?;
    assert_eq!(status, 200, "probes stay plain");

    std::fs::write(&key_path, "broken")?;
    let Err(error) = start(&settings, Shown::default(), None).await else { panic!("no error") };
    assert!(error.to_string().contains("no private key in PEM"), "{error}");
    Ok(())
}

#[tokio::test]
async fn without_a_certificate_one_is_made() -> Result<()> {
    let running = start(&settings(&["--metrics-secure"]), Shown::default(), None).await?;
    let error = scrape_tls(&running, pair()?.0.as_bytes()).await.map(|_| ()).unwrap_err();
    assert!(
        format!("{error:#}").contains("certificate"),
        "TLS is spoken, and the certificate is unknown: {error:#}"
    );
    Ok(())
}

async fn write_secret(client: &Client, namespace: &str, name: &str, pair: &(String, String)) -> Result<()> {
    let secret: Secret = serde_json::from_value(serde_json::json!({
        "apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls",
        "metadata": { "name": name },
        "stringData": { "tls.crt": pair.0, "tls.key": pair.1 },
    }))?;
    let params = kube::api::PatchParams::apply("test").force();
    let secrets: Api<Secret> = Api::namespaced(client.clone(), namespace);
    secrets.patch(name, &params, &kube::api::Patch::Apply(&secret)).await?;
    Ok(())
}

#[tokio::test]
async fn the_certificate_of_a_secret_is_shown_and_its_successor_without_a_restart() -> Result<()> {
    let namespace = ControlPlane::shared().await?.namespace("tls").await?;
    let client = engine_client(client::Options::default()).await?;
    let folder = tempfile::tempdir()?;
    let config = with_config("tls:\n  enabled: true\n  secretName: certificate\n", folder.path())?;
    let own = format!("--operator-namespace={}", namespace.name());
    let running = start(&settings(&[&config, &own]), Shown::default(), Some(&client)).await?;
    assert!(scrape_tls(&running, pair()?.0.as_bytes()).await.is_err(), "there is no Secret yet");
    for _ in 0..2 {
        let next = pair()?;
        write_secret(&client, namespace.name(), "certificate", &next).await?;
        let shown = async {
            while scrape_tls(&running, next.0.as_bytes()).await.ok() != Some(200) {
                tokio::time::sleep(std::time::Duration::from_millis(100)).await;
            }
        };
        tokio::time::timeout(std::time::Duration::from_secs(10), shown).await.context("never shown")?;
    }
    Ok(())
}
