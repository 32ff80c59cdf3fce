//! How it starts, and the ways in which it ends.

use std::net::TcpStream;

use crate::process::{Operator, Place, get, until};

#[tokio::test(flavor = "multi_thread")]
async fn it_waits_for_definitions_leads_and_releases_the_lease_on_sigterm() {
    let place = Place::new().await;
    let mut operator = place.operator();
    let text = until("it says what is missing", || {
        let (status, text) = operator.readyz()?;
        (status == 503 && text.contains("not served: ")).then_some(text)
    });
    assert!(
        text.contains("[-]custom resource definitions failed: ") && text.contains("SlurmCluster of"),
        "{text}"
    );
    assert!(text.contains("`soperator crds`"), "{text}");
    place.install_definitions();
    operator.until_ready();
    assert!(get(operator.health, "/livez").is_some_and(|(status, _)| status == 200));

    let holder = until("it leads", || Some(place.holder()).filter(|holder| !holder.is_empty()));
    let metrics = until("metrics tell of it", || {
        get(operator.metrics, "/metrics").map(|(_, text)| text).filter(|text| text.contains("\nleader 1\n"))
    });
    assert!(metrics.contains("kubernetes_api_calls_total{"), "{metrics}");
    until("the controllers know what is there", || {
        operator.log().contains("caches are filled").then_some(())
    });

    operator.signal("TERM");
    assert_eq!(operator.end(), Some(0), "{}", operator.log());
    assert_eq!(place.holder(), "", "{holder} released the lease");
}

#[tokio::test(flavor = "multi_thread")]
async fn without_webhooks_none_are_served_and_sigint_ends_it_too() {
    let place = Place::new().await;
    place.install_definitions();
    let mut operator = place.operator_with(&[("ENABLE_WEBHOOKS", "false"), ("LEADER_ELECTION", "false")]);
    operator.until_ready();
    assert!(TcpStream::connect(("127.0.0.1", operator.webhooks)).is_err());
    assert_eq!(place.must(&["get", "secrets", "-o", "name"], ""), "");
    assert_eq!(place.holder(), "");
    operator.signal("INT");
    assert_eq!(operator.end(), Some(0), "{}", operator.log());
}

#[tokio::test(flavor = "multi_thread")]
async fn who_loses_the_lease_ends_with_an_error() {
    let place = Place::new().await;
    place.install_definitions();
    let mut operator = place.operator();
    until("it leads", || Some(place.holder()).filter(|holder| !holder.is_empty()));
    let other = r#"{"spec":{"holderIdentity":"other"}}"#;
    place.must(&["patch", "lease", "slurm-operator", "--type=merge", "-p", other], "");
    assert_eq!(operator.end(), Some(1));
    let log = operator.log();
    assert!(log.contains("error: this process is not the leader any more"), "{log}");
    assert!(log.contains("the lease slurm-operator was taken by other"), "{log}");
    assert_eq!(place.holder(), "other", "what is not ours is not released");
}

#[test]
fn an_api_server_that_cannot_be_reached_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let kubeconfig = folder.path().join("kubeconfig");
    let text = "apiVersion: v1\nkind: Config\ncurrent-context: a\ncontexts: [{name: a, context: {cluster: a, user: a}}]\n\
                clusters: [{name: a, cluster: {server: 'http://127.0.0.1:1'}}]\nusers: [{name: a, user: {}}]\n";
    std::fs::write(&kubeconfig, text).unwrap();
    let mut operator = Operator::start_for(&kubeconfig);
    assert_eq!(operator.end(), Some(1));
    let log = operator.log();
    assert!(log.contains("error: the API server at http://127.0.0.1:1/ cannot be reached"), "{log}");
    assert!(log.contains("refused"), "the reason is told: {log}");
}
