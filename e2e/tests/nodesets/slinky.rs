//! Sets of `slinky.slurm.net` on the Slurm of a SlurmCluster: what a user of that API would write.

use std::time::Duration;

use anyhow::{Context, Result};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use e2e::cluster::Cluster;
use serde_json::{Value, json};
use slurm::{Claims, Key, KeyKind, sign_token};
use slurm_client::{random_bytes, unix_time};

/// The name of the Cluster and of its Secret and Services.
pub const CLUSTER: &str = "slinky";
const LIFETIME: Duration = Duration::from_secs(24 * 3600);

/// Starts munged and slurmd, as a user's image might; nothing of ours is in it.
const START: &str = r#"
install -d -o munge -g munge -m 0755 /run/munge
install -d -o munge -g munge -m 0700 /etc/munge /var/lib/munge /var/log/munge
install -o munge -g munge -m 0400 /mnt/munge/munge.key /etc/munge/munge.key
setpriv --reuid munge --regid munge --init-groups /usr/sbin/munged
mkdir -p /var/spool/slurmd
exec slurmd -D -Z --conf-server "$CONTROLLER" -N "$(hostname)" --conf "CPUs=1 RealMemory=256"
"#;

/// What a namespace needs before sets of it can join the cluster: a Cluster with a token, the key of munge, a Service.
pub fn connection(cluster: &Cluster) -> Result<Vec<Value>> {
    let secret = |name: &str, key: &str| -> Result<Vec<u8>> {
        let secret = cluster.get("secret", &cluster.object(name))?;
        let value = secret["data"][key].as_str().with_context(|| format!("no {key} in {name}"))?;
        Ok(STANDARD.decode(value)?)
    };
    let key = Key::from_bytes(KeyKind::Jwt, secret("rest-jwt-key", "rest_jwt.key")?)?;
    let claims = Claims::new("root", CLUSTER, unix_time(), LIFETIME, random_bytes()?);
    let token = String::from_utf8(sign_token(&claims, &key)?.expose().to_vec())?;
    let munge = STANDARD.encode(secret("munge", "munge.key")?);
    let server = format!("http://{}.{}.svc:6820", cluster.object("rest-internal"), cluster.namespace());
    Ok(vec![
        json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": CLUSTER},
            "data": {"munge.key": munge}, "stringData": {"auth-token": token},
        }),
        json!({
            "apiVersion": "slinky.slurm.net/v1alpha1", "kind": "Cluster", "metadata": {"name": CLUSTER},
            "spec": {"server": server, "token": {"secretRef": CLUSTER}},
        }),
        json!({
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": CLUSTER},
            "spec": {"clusterIP": "None", "publishNotReadyAddresses": true, "selector": {"e2e": CLUSTER}},
        }),
    ])
}

/// A set.
pub fn set(cluster: &Cluster, name: &str, replicas: usize) -> Result<Value> {
    let owned = cluster.get("nodesets.slurm.nebius.ai", &cluster.object("worker"))?;
    let image = &owned["spec"]["slurmd"]["image"];
    let word = |key: &str| image[key].as_str().with_context(|| format!("no {key} in {image}"));
    let labels = json!({"e2e": CLUSTER, "set": name});
    let container = json!({
        "name": "slurmd",
        "image": format!("{}:{}", word("repository")?, word("tag")?),
        "command": ["bash", "-ec", START],
        "env": [{"name": "CONTROLLER", "value": format!("{}:6817", cluster.object("controller-svc"))}],
        // For control groups.
        "securityContext": {"privileged": true},
        "resources": {"requests": {"cpu": "50m", "memory": "64Mi"}},
        "readinessProbe": {"tcpSocket": {"port": 6818}, "periodSeconds": 2},
        "volumeMounts": [{"name": "munge", "mountPath": "/mnt/munge"}],
    });
    Ok(json!({
        "apiVersion": "slinky.slurm.net/v1alpha1", "kind": "NodeSet", "metadata": {"name": name},
        "spec": {
            "clusterName": CLUSTER, "serviceName": CLUSTER, "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {
                    "terminationGracePeriodSeconds": 10,
                    "automountServiceAccountToken": false,
                    // slurm.conf names slurmctld by the short name of its Service.
                    "dnsConfig": {"searches": [format!("{}.svc.cluster.local", cluster.namespace())]},
                    "containers": [container],
                    "volumes": [{"name": "munge", "secret": {"secretName": CLUSTER, "items": [{"key": "munge.key", "path": "munge.key"}]}}],
                },
            },
        },
    }))
}
