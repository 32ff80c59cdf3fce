//! The REST API, with tokens made from the cluster's key.

use anyhow::{Context, Result, ensure};
use base64::Engine as _;
use e2e::cluster::Cluster;
use e2e::output_of;
use slurm::{Claims, Key, KeyKind, sign_token};
use slurm_client::{random_bytes, unix_time};
use std::time::Duration;

use crate::on_both_versions;

on_both_versions!(the_rest_api_answers_a_minted_token_and_no_other);

/// What slurmrestd answers to a GET from a node.
fn get(cluster: &Cluster, path: &str, token: &str) -> Result<String> {
    let service = cluster.get("service", &cluster.object("rest-svc"))?;
    let address = service["spec"]["clusterIP"].as_str().context("an address")?;
    let port = service["spec"]["ports"][0]["port"].as_u64().context("a port")?;
    let script = format!(
        "exec 3<>/dev/tcp/{address}/{port}; printf 'GET {path} HTTP/1.1\\r\\nHost: slurm\\r\\nConnection: close\\r\\n\
         X-SLURM-USER-TOKEN: {token}\\r\\n\\r\\n' >&3; timeout 20 cat <&3"
    );
    output_of(cluster.rig().exec("node-1", "bash")?.args(["-c", &script]), None)
}

fn token(cluster: &Cluster, key: &[u8]) -> Result<String> {
    let key = Key::from_bytes(KeyKind::Jwt, key.to_vec())?;
    let claims = Claims::new("root", cluster.name(), unix_time(), Duration::from_secs(300), random_bytes()?);
    Ok(String::from_utf8(sign_token(&claims, &key)?.expose().to_vec())?)
}

fn the_rest_api_answers_a_minted_token_and_no_other(cluster: &Cluster) -> Result<()> {
    let secret = cluster.get("secret", &cluster.object("rest-jwt-key"))?;
    let key = secret["data"]["rest_jwt.key"].as_str().context("a key")?;
    let key = base64::engine::general_purpose::STANDARD.decode(key)?;
    let good = token(cluster, &key)?;
    let forged = token(cluster, b"a key that the cluster has not got")?;

    // What comes late tells nothing: slurmctld, slurmdbd and its database may all have just been replaced by another test.
    let answers = |what: &str, path: &str, parts: &[&str]| {
        cluster.wait(what, || {
            let answer = get(cluster, path, &good)?;
            let is_whole =
                answer.starts_with("HTTP/1.1 200") && parts.iter().all(|part| answer.contains(part));
            ensure!(is_whole, "{path} is answered with {answer}");
            Ok(true)
        })
    };
    answers("slurmrestd lists the nodes", "/slurm/v0.0.42/nodes", &["worker-0", "worker-1"])?;
    answers("slurmrestd lists what is recorded", "/slurmdb/v0.0.42/jobs", &["jobs"])?;
    cluster.wait("slurmrestd refuses a forged token", || {
        let refused = get(cluster, "/slurm/v0.0.42/nodes", &forged)?;
        assert!(!refused.starts_with("HTTP/1.1 200") && !refused.contains("worker-0"), "{refused}");
        Ok(true)
    })?;
    Ok(())
}
