//! The REST client on real daemons, call by call.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use rig::SlurmMachine;
use rig::slurm::{Options, Version};
use slurm::{
    ApiVersion, Claims, JobId, Key, KeyKind, NodeTarget, NodeUpdate, Number, ReservationRequest, Submission,
    sign_token,
};
use slurm_client::{Client, Error, KeySource, Lookup, MintedToken, StaticToken, random_bytes, unix_time};

/// A client that makes its own tokens for a user.
pub(crate) fn client_for(slurm: &SlurmMachine, user: &str) -> Result<Client> {
    let key = Key::from_bytes(KeyKind::Jwt, slurm.jwt_key()?)?;
    let tokens = MintedToken::new(KeySource::Key(key), user, "e2e", Duration::from_secs(60));
    Ok(Client::new(slurm.rest_url()?.parse()?, tokens)?)
}

/// A job that runs until it is cancelled, on these nodes.
pub(crate) fn endless_job(nodes: &str) -> Submission {
    Submission {
        script: "#!/bin/sh\nsleep 1000\n".into(),
        name: Some("endless".into()),
        working_directory: "/tmp".into(),
        environment: vec!["PATH=/usr/bin:/bin".into()],
        required_nodes: Some(nodes.into()),
        standard_output: Some("/dev/null".into()),
        time_limit: Some(Number::Value(60)),
        ..Submission::default()
    }
}

/// Waits until a job is in a state.
pub(crate) async fn wait_for_job(client: &Client, id: JobId, state: &str) -> Result<()> {
    let mut last = String::new();
    for _ in 0..300 {
        last = match client.job(id).await? {
            Lookup::Found(job) if job.state.to_string() == state => return Ok(()),
            Lookup::Found(job) => job.state.to_string(),
            Lookup::Absent => "absent".into(),
        };
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    anyhow::bail!("job {id} is {last}, and never {state}")
}

async fn all_calls_work(version: Version) -> Result<()> {
    let slurm = SlurmMachine::start(Options::new(version).accounting().extra_conf("Licenses=tool:3"))?;
    let client = client_for(&slurm, "root")?;
    the_newest_version_is_agreed_on(&client, version).await?;
    the_daemons_are_seen(&slurm, &client).await?;
    a_job_lives_and_dies(&slurm, &client).await?;
    what_is_not_there_is_absent(&client).await?;
    a_node_is_changed(&client).await?;
    reservations_come_and_go(&client, version).await?;
    the_accounting_is_read(&client).await?;
    the_unix_socket_answers_too(&slurm).await?;
    client.reconfigure().await.context("reconfigure")?;
    ensure!(client.ping().await?[0].responding, "after a reconfigure");
    tokens_end_and_are_renewed(&slurm).await?;
    a_server_that_goes_away_is_unreachable_and_comes_back(&slurm, &client).await
}

#[tokio::test(flavor = "multi_thread")]
async fn all_calls_work_on_slurm_24_11() -> Result<()> {
    all_calls_work(Version::V24_11).await
}

#[tokio::test(flavor = "multi_thread")]
async fn all_calls_work_on_slurm_26_05() -> Result<()> {
    all_calls_work(Version::V26_05).await
}

async fn the_newest_version_is_agreed_on(client: &Client, version: Version) -> Result<()> {
    let expected = ApiVersion::new(if version == Version::V24_11 { 42 } else { 45 });
    ensure!(client.version().await? == expected, "{}", client.version().await?);
    client.ping().await?;
    ensure!(client.release().starts_with(&version.to_string()), "{}", client.release());
    Ok(())
}

async fn the_daemons_are_seen(slurm: &SlurmMachine, client: &Client) -> Result<()> {
    ensure!(client.ping().await?.iter().all(|ping| ping.responding && ping.primary));
    let nodes = client.nodes().await?;
    let names: Vec<&str> = nodes.iter().map(|node| &*node.name).collect();
    ensure!(names == slurm.nodes(), "{names:?}");
    ensure!(nodes.iter().all(|node| node.state.is_understood() && node.cpus == 4), "{nodes:?}");
    let partitions = client.partitions().await?;
    ensure!(partitions.iter().any(|partition| partition.name == "main" && partition.total_nodes == 2));
    let licenses = client.licenses().await?;
    ensure!(licenses.iter().any(|license| license.name == "tool" && license.total == 3), "{licenses:?}");
    ensure!(!client.diag().await?.rpcs_by_type.is_empty());
    Ok(())
}

async fn a_job_lives_and_dies(slurm: &SlurmMachine, client: &Client) -> Result<()> {
    // Jobs are submitted by ordinary users.
    let tester = client_for(slurm, "tester")?;
    let id = tester.submit(&endless_job("node-1")).await?.id;
    wait_for_job(client, id, "RUNNING").await?;
    let job = client.job(id).await?.found().context("the job")?;
    ensure!(&*job.nodes == "node-1" && &*job.name == "endless" && &*job.origin.user == "tester", "{job:?}");
    ensure!(job.time_limit == Number::Value(60) && job.start_time > 0, "{job:?}");
    ensure!(client.jobs().await?.iter().any(|other| other.id == id));
    ensure!(tester.cancel(id).await? == Lookup::Found(()));
    wait_for_job(client, id, "CANCELLED").await?;

    let refused = Submission { partition: Some("nowhere".into()), ..endless_job("node-1") };
    let error = tester.submit(&refused).await.err().context("there is no such partition")?;
    ensure!(error.is_refused_with(2000), "{error:?}");
    ensure!(error.to_string().contains("Invalid partition name specified"), "{error}");
    Ok(())
}

async fn what_is_not_there_is_absent(client: &Client) -> Result<()> {
    ensure!(client.node("nobody").await? == Lookup::Absent);
    ensure!(client.job(JobId(999_999)).await? == Lookup::Absent);
    ensure!(client.reservation("nobody").await? == Lookup::Absent);
    let update = NodeUpdate { comment: Some("x".into()), ..NodeUpdate::default() };
    ensure!(client.update_node("nobody", &update).await? == Lookup::Absent);
    ensure!(client.delete_node("nobody").await? == Lookup::Absent);
    ensure!(client.cancel(JobId(999_999)).await? == Lookup::Absent);
    Ok(())
}

async fn a_node_is_changed(client: &Client) -> Result<()> {
    let drain = NodeUpdate {
        state: Some(NodeTarget::Drain),
        reason: Some("a test, \"quoted\"".into()),
        comment: Some("bemerkt: ü".into()),
        ..NodeUpdate::default()
    };
    ensure!(client.update_node("node-2", &drain).await? == Lookup::Found(()));
    let node = client.node("node-2").await?.found().context("node-2")?;
    ensure!(node.state.is_drained(), "{}", node.state);
    ensure!(&*node.reason == "a test, \"quoted\"" && &*node.comment == "bemerkt: ü", "{node:?}");
    let resume = NodeUpdate { state: Some(NodeTarget::Resume), ..NodeUpdate::default() };
    client.update_node("node-2", &resume).await?;
    let node = client.node("node-2").await?.found().context("node-2")?;
    ensure!(!node.state.is_drain(), "{}", node.state);

    let drain = NodeUpdate { comment: None, ..drain };
    client.update_nodes(&["node-1", "node-2"], &drain).await?;
    for name in ["node-1", "node-2"] {
        let node = client.node(name).await?.found().context(name)?;
        ensure!(node.state.is_drain() && &*node.reason == "a test, \"quoted\"", "{node:?}");
    }
    let error = client.update_nodes(&["node-1", "nobody"], &resume).await.err().context("nobody knows it")?;
    ensure!(error.is_refused_with(2018), "{error:?}");
    client.update_nodes(&["node-1", "node-2"], &resume).await?;
    let nodes = client.nodes().await?;
    ensure!(!nodes.iter().any(|node| node.state.is_drain()), "{nodes:?}");

    // Slurm says no, with its number: a node of the configuration file cannot be deleted.
    let error = client.delete_node("node-2").await.err().context("it is in slurm.conf")?;
    ensure!(matches!(error, Error::Refused { .. }), "{error:?}");
    Ok(())
}

async fn reservations_come_and_go(client: &Client, version: Version) -> Result<()> {
    let request = ReservationRequest::maintenance("maintenance-1", "node-2", &["root"], unix_time());
    let made = client.put_reservation(&request).await;
    if version == Version::V24_11 {
        // The REST API of 24.11 cannot, and says so before anything is sent.
        ensure!(matches!(made, Err(Error::NotOffered { .. })), "{made:?}");
        return Ok(());
    }
    made?;
    let found = client.reservation("maintenance-1").await?.found().context("the reservation")?;
    ensure!(found.nodes == "node-2" && found.flags.contains(&"MAINT".into()), "{found:?}");
    ensure!(
        found.flags.contains(&"IGNORE_JOBS".into()) && found.end_time > unix_time() + 86_400,
        "{found:?}"
    );
    // The same call changes it.
    let longer = ReservationRequest {
        name: "maintenance-1".into(),
        nodes: Some("node-[1-2]".into()),
        ..ReservationRequest::default()
    };
    client.put_reservation(&longer).await.context("changing a reservation")?;
    let found = client.reservation("maintenance-1").await?.found().context("the reservation")?;
    ensure!(found.node_count == 2, "{found:?}");
    ensure!(client.delete_reservation("maintenance-1").await? == Lookup::Found(()));
    ensure!(client.delete_reservation("maintenance-1").await? == Lookup::Absent);
    Ok(())
}

async fn the_accounting_is_read(client: &Client) -> Result<()> {
    ensure!(client.clusters().await?.iter().any(|cluster| !cluster.name.is_empty()));
    ensure!(client.users().await?.iter().any(|user| user.name == "tester"));
    ensure!(client.accounts().await?.iter().any(|account| account.name == "testing"));
    ensure!(client.associations().await?.iter().any(|association| association.user == "tester"));
    ensure!(client.qos().await?.iter().any(|qos| qos.name == "normal"));
    for _ in 0..100 {
        let jobs = client.accounted_jobs(unix_time() - 3600, unix_time() + 60).await?;
        if jobs.iter().any(|job| job.name == "endless" && job.user == "tester") {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    anyhow::bail!("the job never appeared in the accounting")
}

async fn the_unix_socket_answers_too(slurm: &SlurmMachine) -> Result<()> {
    let url = format!("unix:{}", slurm.rest_socket().display());
    let client = Client::new(url.parse()?, StaticToken::new(&slurm.token("root", 60)?))?;
    ensure!(client.nodes().await?.len() == 2);
    Ok(())
}

async fn tokens_end_and_are_renewed(slurm: &SlurmMachine) -> Result<()> {
    let key = Key::from_bytes(KeyKind::Jwt, slurm.jwt_key()?)?;
    let server = || slurm.rest_url()?.parse().context("the address");
    let claims = Claims::new("root", "e2e", unix_time(), Duration::from_secs(2), random_bytes()?);
    let token = String::from_utf8(sign_token(&claims, &key)?.expose().to_vec())?;
    let short = Client::new(server()?, StaticToken::new(&token))?;
    // Tokens of so short a life, renewed by themselves.
    let tokens = MintedToken::new(KeySource::Key(key), "root", "e2e", Duration::from_secs(2));
    let renewing = Client::new(server()?, tokens)?;
    short.nodes().await.context("the token is still good")?;
    renewing.nodes().await?;
    tokio::time::sleep(Duration::from_secs(3)).await;
    let error = short.nodes().await.err().context("the token is over")?;
    ensure!(matches!(error, Error::Unauthorised { .. }), "{error:?}");
    ensure!(!short.ping().await?[0].responding, "a ping with a bad token is no sign of life");
    renewing.nodes().await.context("a new token was made")?;

    let other = Key::generate(KeyKind::Jwt, |bytes| bytes[0] = 1)?;
    let forger = MintedToken::new(KeySource::Key(other), "root", "e2e", Duration::from_secs(60));
    let error = Client::new(server()?, forger)?.nodes().await.err().context("another key")?;
    ensure!(matches!(error, Error::Unauthorised { .. }), "{error:?}");
    Ok(())
}

async fn a_server_that_goes_away_is_unreachable_and_comes_back(
    slurm: &SlurmMachine,
    client: &Client,
) -> Result<()> {
    slurm.stop("slurmctld")?;
    // slurmrestd answers, but knows nothing: that is no empty list, and no missing node.
    let error = client.without_retries().nodes().await.err().context("there is no controller")?;
    ensure!(!matches!(error, Error::Unauthorised { .. }), "{error:?}");
    let looked_up = client.without_retries().node("node-1").await;
    ensure!(looked_up.is_err(), "{looked_up:?}");
    slurm.start_again("slurmctld")?;
    for _ in 0..100 {
        if client.without_retries().nodes().await.is_ok() {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    anyhow::bail!("the controller never came back")
}
