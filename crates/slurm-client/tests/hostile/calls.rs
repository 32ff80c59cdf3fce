//! What is sent, how often, and what answers mean.

use slurm::{JobId, NodeTarget, NodeUpdate, Submission};
use slurm_client::{Client, Error, Lookup, StaticToken};

use crate::server::{Reply, Server};
use crate::{SHORT, client};

fn patient(server: &Server) -> Client {
    let url = server.url().parse().unwrap();
    Client::builder(url, StaticToken::new("token")).timeouts(SHORT).retries(3).build().unwrap()
}

#[tokio::test]
async fn a_read_is_repeated_until_it_succeeds() {
    let server = Server::start(|_, count| match count {
        0 => Reply::Reset("{".into()),
        1 => Reply::Answer(503, "<html>".into()),
        _ => Reply::ok(r#"{"nodes": [{"name": "a"}]}"#),
    })
    .await;
    assert_eq!(patient(&server).nodes().await.unwrap().len(), 1);
    assert_eq!(server.requests(), 3);
}

#[tokio::test]
async fn a_submission_is_sent_once_whatever_happens() {
    for reply in
        [Reply::Reset("{".into()), Reply::Silence, Reply::Answer(503, "busy".into()), Reply::ok("{}")]
    {
        let server = Server::start(move |_, _| reply.clone()).await;
        assert!(patient(&server).submit(&Submission::default()).await.is_err());
        assert_eq!(server.requests(), 1);
    }
}

#[tokio::test]
async fn a_change_of_a_node_that_may_have_arrived_is_not_sent_again() {
    let server = Server::start(|_, _| Reply::Reset("{".into())).await;
    let drain =
        NodeUpdate { state: Some(NodeTarget::Drain), reason: Some("r".into()), ..NodeUpdate::default() };
    assert!(patient(&server).update_node("a", &drain).await.is_err());
    assert_eq!(server.requests(), 1);
}

#[tokio::test]
async fn many_nodes_are_changed_by_one_call() {
    let server = Server::start(|request, _| match request {
        "POST /slurm/v0.0.42/nodes/" => Reply::ok("{}"),
        other => panic!("{other}"),
    })
    .await;
    client(&server).update_nodes(&["a", "b"], &NodeUpdate::default()).await.unwrap();
    assert_eq!(server.requests(), 1);
}

#[tokio::test]
async fn a_refusal_is_not_repeated() {
    let server = Server::start(|_, _| {
        Reply::Answer(500, r#"{"errors": [{"error_number": 2010, "error": "no permission"}]}"#.into())
    })
    .await;
    assert!(patient(&server).nodes().await.is_err());
    assert_eq!(server.requests(), 1);
}

#[tokio::test]
async fn an_unknown_node_is_absent_and_everything_else_is_an_error() {
    let answers = [
        (200, r#"{"errors": [{"error_number": 0, "description": "Failure to query node a"}]}"#, true),
        (200, r#"{"errors": [{"error_number": 2018, "error": "Invalid node name specified"}]}"#, true),
        (404, r#"{"errors": [{"error_number": 2018, "error": "Invalid node name specified"}]}"#, true),
        // These do not say that there is no node.
        (500, r#"{"errors": [{"error_number": 0, "description": "Failure to query node a"}]}"#, false),
        (
            200,
            r#"{"errors": [{"error_number": 1800, "error": "Unable to contact slurm controller"}]}"#,
            false,
        ),
        (200, r#"{"errors": [{"error_number": 0}, {"error_number": 1800}]}"#, false),
        (200, r#"{"nodes": [], "errors": []}"#, false),
        (200, r#"{"nodes": [{"name": "b", "state": ["IDLE"]}], "errors": []}"#, false),
        (200, "{}", false),
        (404, "Not found", false),
        (200, "", false),
        (204, "", false),
        (304, "", false),
    ];
    for (status, body, absent) in answers {
        let server = Server::start(move |_, _| Reply::Answer(status, body.into())).await;
        let found = client(&server).node("a").await;
        assert_eq!(matches!(found, Ok(Lookup::Absent)), absent, "{status} {body}: {found:?}");
        assert!(absent || found.is_err(), "{status} {body}: {found:?}");
    }
}

#[tokio::test]
async fn an_unknown_job_is_absent() {
    let server = Server::start(|_, _| {
        Reply::Answer(
            404,
            r#"{"jobs": [], "errors": [{"error_number": 2017, "error": "Invalid job id"}]}"#.into(),
        )
    })
    .await;
    assert_eq!(client(&server).job(JobId(7)).await.unwrap(), Lookup::Absent);
}

#[tokio::test]
async fn of_an_array_the_record_with_this_number_is_found() {
    let server = Server::start(|_, _| Reply::ok(r#"{"jobs": [{"job_id": 6}, {"job_id": 7}]}"#)).await;
    assert_eq!(client(&server).job(JobId(7)).await.unwrap().found().unwrap().id, JobId(7));
}

#[tokio::test]
async fn no_content_and_an_empty_body_are_results_of_a_change() {
    for reply in [Reply::Answer(204, String::new()), Reply::ok(""), Reply::ok("{}"), Reply::ok("\n")] {
        let server = Server::start(move |_, _| reply.clone()).await;
        let update = NodeUpdate::default();
        assert_eq!(client(&server).update_node("a", &update).await.unwrap(), Lookup::Found(()));
        client(&server).reconfigure().await.unwrap();
    }
}

#[tokio::test]
async fn deleting_what_is_gone_is_told_from_having_deleted_it() {
    let server = Server::start(|request, _| match request {
        "DELETE /slurm/v0.0.42/node/gone" => {
            Reply::Answer(422, r#"{"errors": [{"error_number": 2018}]}"#.into())
        }
        "DELETE /slurm/v0.0.42/node/there" => Reply::ok(r#"{"errors": []}"#),
        "DELETE /slurm/v0.0.42/job/9" => Reply::ok(r#"{"status": [{"error": {"code": 2017}}]}"#),
        "DELETE /slurm/v0.0.42/job/8" => Reply::ok(r#"{"status": []}"#),
        other => panic!("{other}"),
    })
    .await;
    let client = client(&server);
    assert_eq!(client.delete_node("gone").await.unwrap(), Lookup::Absent);
    assert_eq!(client.delete_node("there").await.unwrap(), Lookup::Found(()));
    assert_eq!(client.cancel(JobId(9)).await.unwrap(), Lookup::Absent);
    assert_eq!(client.cancel(JobId(8)).await.unwrap(), Lookup::Found(()));
}

#[tokio::test]
async fn a_call_that_the_version_cannot_do_is_told_as_such() {
    let server = Server::start(|_, _| Reply::ok("{}")).await;
    let error = client(&server).put_reservation(&slurm::ReservationRequest::default()).await.unwrap_err();
    assert!(matches!(error, Error::NotOffered { .. }), "{error:?}");
    assert_eq!(server.requests(), 0);
}
