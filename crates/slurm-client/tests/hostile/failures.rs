//! One test per way in which a server can fail.

use std::time::{Duration, Instant};

use slurm_client::{Client, Error, Stage, StaticToken};

use crate::server::{Reply, Server};
use crate::{SHORT, client};

/// What both lists and a small answer come to, each within the limit.
async fn failures(reply: Reply) -> Vec<Error> {
    let server = Server::start(move |_, _| reply.clone()).await;
    let client = client(&server);
    let began = Instant::now();
    let errors = vec![
        client.nodes().await.unwrap_err(),
        client.jobs().await.unwrap_err(),
        client.diag().await.unwrap_err(),
    ];
    assert!(began.elapsed() < SHORT.list * 3 + Duration::from_secs(1), "{:?}: {errors:?}", began.elapsed());
    errors
}

fn assert_all(errors: &[Error], expected: impl Fn(&Error) -> bool) {
    for error in errors {
        assert!(expected(error), "{error:?}: {error}");
    }
}

#[tokio::test]
async fn truncated_json_is_a_bad_answer_and_not_a_short_list() {
    let errors = failures(Reply::ok(r#"{"nodes": [{"name": "a"}, {"na"#)).await;
    assert_all(&errors, |error| matches!(error, Error::BadAnswer { status: 200, .. }));
    assert!(errors[0].to_string().contains("ends after"), "{}", errors[0]);
}

#[tokio::test]
async fn an_html_page_is_a_bad_answer_and_shown_shortened() {
    let page = format!("<html><body>{}</body></html>", "Bad gateway. ".repeat(1000));
    for status in [200, 502] {
        let errors = failures(Reply::Answer(status, page.clone())).await;
        assert_all(&errors, |error| match error {
            Error::BadAnswer { status: found, body, .. } => {
                *found == status && body.starts_with("<html>") && body.len() < 300
            }
            _ => false,
        });
    }
}

#[tokio::test]
async fn status_401_is_unauthorised() {
    let errors = failures(Reply::Answer(401, "Authentication failure".into())).await;
    assert_all(
        &errors,
        |error| matches!(error, Error::Unauthorised { reason } if reason == "Authentication failure"),
    );
}

#[tokio::test]
async fn a_token_that_slurmctld_does_not_believe_is_unauthorised() {
    let body = r#"{"errors": [{"error_number": 1007, "error": "Protocol authentication error"}]}"#;
    for status in [200, 500, 511] {
        let errors = failures(Reply::Answer(status, body.into())).await;
        assert_all(&errors, |error| matches!(error, Error::Unauthorised { .. }));
    }
}

#[tokio::test]
async fn status_500_with_slurms_errors_is_refused_with_number_and_text() {
    let body = r#"{"errors": [{"error_number": 2000, "error": "Invalid partition", "source": "s",
        "description": "Unable"}], "warnings": []}"#;
    for status in [200, 422, 500] {
        let errors = failures(Reply::Answer(status, body.into())).await;
        assert_all(&errors, |error| error.is_refused_with(2000));
        assert!(errors[0].to_string().contains("Invalid partition: Unable (error 2000)"), "{}", errors[0]);
    }
}

#[tokio::test]
async fn an_endless_body_is_cut_off() {
    let record = format!(r#"{{"name": "{}"}},"#, "x".repeat(10_000));
    // An endless list, an endless record, an endless part around the list, and endless blanks.
    for (beginning, again) in [
        (r#"{"nodes": ["#, record.as_str()),
        (r#"{"nodes": [{"name": ""#, "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"),
        (r#"{"errors": [""#, "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"),
        ("{", "                                        "),
    ] {
        let server = Server::start({
            let reply = Reply::Endless(beginning.into(), again.into());
            move |_, _| reply.clone()
        })
        .await;
        let client = client(&server);
        for error in [client.nodes().await.unwrap_err(), client.diag().await.unwrap_err()] {
            assert!(
                matches!(error, Error::TooLong { .. } | Error::Timeout { stage: Stage::End, .. }),
                "{beginning}: {error:?}"
            );
        }
    }
}

#[tokio::test]
async fn a_server_that_accepts_and_never_answers_is_late_with_its_answer() {
    let errors = failures(Reply::Silence).await;
    assert_all(&errors, |error| matches!(error, Error::Timeout { stage: Stage::Answer, .. }));
}

#[tokio::test]
async fn a_server_that_stops_in_the_middle_is_late_with_the_rest() {
    let errors = failures(Reply::Stall(r#"{"nodes": ["#.into())).await;
    assert_all(&errors, |error| matches!(error, Error::Timeout { stage: Stage::Continue, .. }));
}

#[tokio::test]
async fn a_connection_that_breaks_in_the_middle_is_interrupted() {
    for reply in [Reply::Reset(r#"{"nodes": [{"#.into()), Reply::Cut(r#"{"nodes": [{"#.into())] {
        let errors = failures(reply).await;
        assert_all(&errors, |error| matches!(error, Error::Interrupted { .. }));
    }
}

#[tokio::test]
async fn nobody_there_is_unreachable() {
    // A port that was free a moment ago.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    for url in [format!("http://127.0.0.1:{port}"), "unix:/nowhere/slurmrestd.sock".into()] {
        let client = Client::builder(url.parse().unwrap(), StaticToken::new("token"))
            .timeouts(SHORT)
            .retries(1)
            .build()
            .unwrap();
        let error = client.nodes().await.unwrap_err();
        assert!(matches!(error, Error::Unreachable { .. }) && error.never_sent(), "{error:?}");
        assert!(error.to_string().contains(&url), "{error}");
    }
}

#[tokio::test]
async fn an_answer_without_the_list_is_not_an_empty_list() {
    for body in ["{}", r#"{"nodes": null, "jobs": null}"#, r#"{"nodes": {}, "jobs": {}}"#, ""] {
        let errors = failures(Reply::ok(body)).await;
        assert_all(&errors, |error| matches!(error, Error::BadAnswer { .. }));
    }
}

#[tokio::test]
async fn no_secret_is_in_any_error() {
    let server = Server::start(|_, _| Reply::Answer(401, "no".into())).await;
    let url = server.url().parse().unwrap();
    let client = Client::builder(url, StaticToken::new("very-secret")).timeouts(SHORT).build().unwrap();
    let error = client.nodes().await.unwrap_err();
    assert!(!format!("{error:?} {error} {client:?}").contains("very-secret"));
}
