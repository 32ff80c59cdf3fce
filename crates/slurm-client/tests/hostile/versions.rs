//! Agreeing on a version, also after an upgrade.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use slurm::ApiVersion;
use slurm_client::Error;

use crate::client;
use crate::server::{Reply, Server};

fn document(numbers: &[u16]) -> Reply {
    let paths: Vec<String> =
        numbers.iter().map(|number| format!(r#""/slurm/v0.0.{number}/nodes/": {{}}"#)).collect();
    Reply::ok(format!(r#"{{"paths": {{{}}}}}"#, paths.join(", ")))
}

#[tokio::test]
async fn a_server_of_unknown_versions_only_is_unsupported() {
    let server = Server::start_all(|_, _| document(&[38, 39, 99])).await;
    let error = client(&server).nodes().await.unwrap_err();
    assert!(matches!(error, Error::UnsupportedVersion { .. }), "{error:?}");
    assert!(error.to_string().contains("v0.0.38, v0.0.39, v0.0.99"), "{error}");
}

#[tokio::test]
async fn what_is_no_document_is_a_bad_answer() {
    let server = Server::start_all(|_, _| Reply::ok("<html>a proxy</html>")).await;
    assert!(matches!(client(&server).nodes().await.unwrap_err(), Error::BadAnswer { .. }));
}

#[tokio::test]
async fn the_document_is_asked_for_once() {
    let server = Server::start(|_, _| Reply::ok(r#"{"nodes": []}"#)).await;
    let client = client(&server);
    for _ in 0..3 {
        client.nodes().await.unwrap();
    }
    assert_eq!(server.requests(), 3);
}

#[tokio::test]
async fn after_an_upgrade_the_versions_are_asked_for_again() {
    let upgraded = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&upgraded);
    let server = Server::start_all(move |request, _| {
        let new = seen.load(Ordering::SeqCst);
        match (request, new) {
            ("GET /openapi/v3", false) => document(&[41, 42]),
            ("GET /openapi/v3", true) => document(&[43, 44]),
            ("GET /slurm/v0.0.42/nodes/", false) | ("GET /slurm/v0.0.44/nodes/", true) => {
                let release = if new { "25.11.1" } else { "24.11.5" };
                Reply::ok(format!(r#"{{"nodes": [], "meta": {{"slurm": {{"release": "{release}"}}}}}}"#))
            }
            _ => Reply::Answer(404, "Unable to find".into()),
        }
    })
    .await;
    let client = client(&server);
    client.nodes().await.unwrap();
    assert_eq!(client.version().await.unwrap(), ApiVersion::new(42));
    upgraded.store(true, Ordering::SeqCst);
    assert!(matches!(client.nodes().await.unwrap_err(), Error::NoSuchPath { .. }));
    client.nodes().await.unwrap();
    assert_eq!(client.version().await.unwrap(), ApiVersion::new(44));
    assert_eq!(client.release(), "25.11.1");
}

#[tokio::test]
async fn another_version_of_slurm_in_an_answer_makes_the_client_ask_again() {
    let server = Server::start_all(move |request, count| match request {
        "GET /openapi/v3" => document(&[42]),
        _ => {
            let release = if count == 0 { "24.11.5" } else { "25.05.1" };
            Reply::ok(format!(r#"{{"nodes": [], "meta": {{"slurm": {{"release": "{release}"}}}}}}"#))
        }
    })
    .await;
    let client = client(&server);
    client.nodes().await.unwrap();
    client.nodes().await.unwrap();
    assert_eq!(client.release(), "25.05.1");
}
