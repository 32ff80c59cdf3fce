//! The Job that fills the jail, killed under its work.

use std::time::Duration;

use anyhow::{Context as _, Result};
use e2e::cluster::{Cluster, Settings};
use rig::Rig;
use rig::slurm::Version;
use serde_json::{Value, json};

/// How often a round may begin anew because nothing was hit.
const ATTEMPTS: u32 = 4;

/// Claims of its own, and no more than what shows that the jail works.
fn settings(namespace: &str) -> Settings {
    let jail = json!({
        "name": "jail", "createPVC": true, "size": "1Gi", "persistentVolumeClaim": {"claimName": "small-jail"},
    });
    let spool = json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}});
    let values = json!({
        "volumeSources": [jail],
        "slurmNodes": {
            "accounting": {"enabled": false},
            "worker": {"size": 1},
            "controller": {"volumes": {"spool": {"volumeSourceName": null, "volumeClaimTemplateSpec": spool}}},
        },
    });
    Settings { namespace: namespace.into(), name: "small".into(), values }
}

#[tokio::test]
async fn a_populate_job_that_is_killed_ends_in_a_correct_jail() -> Result<()> {
    let rounds = std::env::var("SOPERATOR_SOAK").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(1);
    let rig = Rig::shared().await?;
    let seed = std::env::var("SOPERATOR_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = seed.unwrap_or_else(|| fastrand::u64(..));
    println!("SOPERATOR_SEED={seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    for round in 0..rounds {
        let version = if round % 2 == 0 { Version::V24_11 } else { Version::V26_05 };
        let mut killed = None;
        // A kill that comes too late hits nothing: then once more, with another jail, and sooner.
        for attempt in 0..ATTEMPTS {
            let namespace = rig.namespace(&format!("populate-{round}-{attempt}")).await?;
            let cluster = Cluster::install(rig, version, &settings(namespace.name()))?;
            let after = Duration::from_millis(random.u64(0..2500 >> attempt));
            if kill_it(&cluster, after)? {
                killed = Some((cluster, namespace));
                break;
            }
            println!("round {round}: after {after:?} there was nothing to kill");
            remove(&cluster)?;
        }
        let (cluster, _namespace) = killed.context("no pod was killed under its work")?;
        cluster.wait_available()?;
        let populated = cluster.condition("JailPopulated")?.context("a condition of the jail")?;
        assert_eq!(populated.status, "True", "{}", populated.message);
        is_whole(&cluster)?;
        assert_eq!(cluster.run("srun hostname")?.trim(), "worker-0");
        remove(&cluster)?;
    }
    Ok(())
}

fn remove(cluster: &Cluster) -> Result<()> {
    cluster.kubectl(&["delete", "slurmcluster", cluster.name(), "--wait=true", "--timeout=120s"]).map(drop)
}

/// Name, uid and phase of the pods of the Job.
fn pods(cluster: &Cluster) -> Result<Vec<[String; 3]>> {
    let list = ["get", "pods", "--selector", "app.kubernetes.io/component=populate-jail", "--output", "json"];
    let list: Value = serde_json::from_str(&cluster.kubectl(&list)?)?;
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let all = list["items"].as_array().cloned().unwrap_or_default();
    Ok(all
        .iter()
        .map(|pod| {
            [text(&pod["metadata"]["name"]), text(&pod["metadata"]["uid"]), text(&pod["status"]["phase"])]
        })
        .collect())
}

/// Kills the pod of the Job a while after it has begun; whether it was at work, and another one does its work now.
fn kill_it(cluster: &Cluster, after: Duration) -> Result<bool> {
    cluster.wait("the Job works", || Ok(pods(cluster)?.iter().any(|[_, _, phase]| phase != "Pending")))?;
    std::thread::sleep(after);
    let Some([name, uid, _]) = pods(cluster)?.into_iter().find(|[_, _, phase]| phase == "Running") else {
        return Ok(false);
    };
    cluster.kubectl(&["delete", "pod", &name, "--grace-period=0", "--force"])?;
    // Only a pod that had not ended by itself gets a successor.
    cluster.wait("another pod goes on, or the Job is over", || {
        let job = cluster.get("job", &cluster.object("populate-jail"))?;
        Ok(job["status"]["succeeded"] == 1 || pods(cluster)?.iter().any(|[_, other, _]| *other != uid))
    })?;
    Ok(pods(cluster)?.iter().any(|[_, other, _]| *other != uid))
}

/// Every file of every package is there, as the package has it; and what the image lacks, the jail lacks, too.
fn is_whole(cluster: &Cluster) -> Result<()> {
    // dpkg tells what differs from the packages: documentation, which images do not have, and little else.
    let verify = "dpkg --verify | grep -v -e /usr/share/doc -e /usr/share/man -e /usr/share/locale -e /usr/share/info \
                  -e /usr/share/lintian | sort";
    let told = cluster.run(verify)?;
    let unexpected: Vec<&str> = told
        .lines()
        // Files that the recipe, the operator or the pod gives, or that the image's clean-up took away.
        .filter(|line| !["/etc/", "/var/", "/run/"].iter().any(|place| line.contains(place)))
        .collect();
    assert!(unexpected.is_empty(), "{unexpected:#?}");
    let links = cluster
        .run("readlink /bin /lib /sbin && stat --format '%a %U' /usr/bin/su /root && getcap /usr/bin/ping")?;
    assert_eq!(
        links.lines().collect::<Vec<_>>(),
        ["usr/bin", "usr/lib", "usr/sbin", "4755 root", "700 root", "/usr/bin/ping cap_net_raw=p"],
        "links, modes and capabilities"
    );
    Ok(())
}
