//! The webhook's certificates as files, for those who keep them by themselves: `ca.crt`, and a manifest of the Secret.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use engine::admission::{Issued, PkiError, Policy, issue};
use jiff::Timestamp;
use k8s_openapi::ByteString;
use serde_json::json;

/// The file with the authorities, for `webhook.caBundle`.
pub const AUTHORITIES: &str = "ca.crt";
/// The file with the Secret.
pub const SECRET: &str = "webhook-tls-secret.yaml";

/// For whom, and for how long.
#[derive(Clone, Debug)]
pub struct Order {
    /// The namespace of the webhook's Service.
    pub namespace: String,
    /// Its name. The Secret is called after it.
    pub service: String,
    /// The domain of Services in this Kubernetes cluster.
    pub domain: String,
    /// Where the files go.
    pub folder: PathBuf,
    /// How long the certificates last.
    pub days: u32,
}

/// Why there are no files.
#[derive(Debug, thiserror::Error)]
pub enum CertsError {
    /// No certificate can be made.
    #[error(transparent)]
    Make(#[from] PkiError),
    /// A file is in the way, or holds something else.
    #[error("{path} holds no certificates: {error}; move it away, or choose another folder")]
    Foreign {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        error: PkiError,
    },
    /// A file cannot be read or written.
    #[error("{path}: {error}; choose another folder")]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// A name that no Service or namespace can have.
    #[error("{0:?} is no name of a {1}; write at most 63 of small letters, digits and '-'")]
    Name(String, &'static str),
    /// Certificates for no time are of no use.
    #[error("certificates for 0 days are of no use; set a number of days")]
    NoTime,
    /// The manifest cannot be written as JSON.
    #[error("the Secret cannot be written: {0}")]
    Manifest(#[from] serde_json::Error),
}

/// Makes both files. Authorities that `ca.crt` held before and that still are valid stay in it, so that certificates can be changed
/// without a call that fails: first give the API server the new bundle, then the webhook the new Secret.
///
/// # Errors
///
/// Nothing was changed, unless the second file could not be written.
pub fn write(order: &Order, now: Timestamp) -> Result<[PathBuf; 2], CertsError> {
    if order.days == 0 {
        return Err(CertsError::NoTime);
    }
    for (name, what) in [(&order.service, "Service"), (&order.namespace, "namespace")] {
        if !is_label(name) {
            return Err(CertsError::Name(name.clone(), what));
        }
    }
    let lifetime = Duration::from_secs(u64::from(order.days) * 24 * 3600);
    let paths = [AUTHORITIES, SECRET].map(|name| order.folder.join(name));
    let file = |path: &Path| {
        let path = path.to_path_buf();
        move |error| CertsError::File { path, error }
    };
    let before = match fs::read_to_string(&paths[0]) {
        Ok(text) => Some(text),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(file(&paths[0])(error)),
    };
    let policy = Policy { names: names(order), authority_lifetime: lifetime, serving_lifetime: lifetime };
    let issued = issue(&policy, before.as_deref(), now).map_err(|error| match error {
        PkiError::Read(_) => CertsError::Foreign { path: paths[0].clone(), error },
        error => error.into(),
    })?;
    let secret = manifest(order, &issued)?;
    fs::create_dir_all(&order.folder).map_err(file(&order.folder))?;
    // The Secret first: with it alone nothing works, and it is not used before it is applied.
    replace(&paths[1], &secret, 0o600).map_err(file(&paths[1]))?;
    replace(&paths[0], &issued.authorities, 0o644).map_err(file(&paths[0]))?;
    Ok(paths)
}

fn is_label(name: &str) -> bool {
    let inner = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'-';
    let edges = !name.starts_with('-') && !name.ends_with('-');
    (1..=63).contains(&name.len()) && name.bytes().all(inner) && edges
}

/// The names by which a Service is called.
fn names(order: &Order) -> Vec<String> {
    let Order { service, namespace, domain, .. } = order;
    vec![
        service.clone(),
        format!("{service}.{namespace}"),
        format!("{service}.{namespace}.svc"),
        format!("{service}.{namespace}.svc.{domain}"),
    ]
}

/// The namespace and the Secret in it. JSON is YAML too, and a value of it needs no care.
fn manifest(order: &Order, issued: &Issued) -> Result<String, serde_json::Error> {
    let Order { service, namespace, .. } = order;
    let bytes = |text: &str| ByteString(text.as_bytes().to_vec());
    let labels =
        json!({ "app.kubernetes.io/name": "gpu-scheduler", "app.kubernetes.io/part-of": "soperator" });
    let space = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": namespace } });
    let secret = json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": { "name": format!("{service}-tls"), "namespace": namespace, "labels": labels },
        "type": "kubernetes.io/tls",
        "data": {
            "ca.crt": bytes(&issued.authorities),
            "tls.crt": bytes(&issued.certificate),
            "tls.key": bytes(&issued.key),
        },
    });
    let (space, secret) = (serde_json::to_string_pretty(&space)?, serde_json::to_string_pretty(&secret)?);
    Ok(format!(
        "# The certificate of the GPU scheduler's webhook. Keep it secret: it holds the private key.\n\
         # The namespace is here so that this file can be applied before the chart is installed.\n\
         {space}\n---\n{secret}\n"
    ))
}

/// Writes a file at once or not at all.
fn replace(path: &Path, text: &str, mode: u32) -> io::Result<()> {
    use std::io::Write as _;
    use std::os::unix::fs::OpenOptionsExt as _;
    let beside = path.with_extension("new");
    let mut file = fs::OpenOptions::new().write(true).create(true).truncate(true).mode(mode).open(&beside)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(&beside, path)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use serde_json::Value;

    use super::*;

    fn order(folder: &Path) -> Order {
        Order {
            namespace: "gpu-scheduler-system".into(),
            service: "gpu-scheduler-webhook".into(),
            domain: "cluster.local".into(),
            folder: folder.join("certs"),
            days: 365,
        }
    }

    #[test]
    fn the_files_of_the_original_are_made_and_a_second_time_trusts_both() {
        let dir = tempfile::tempdir().unwrap();
        let order = order(dir.path());
        let now = Timestamp::now();
        let [authorities, secret] = write(&order, now).unwrap();
        assert!(authorities.ends_with("certs/ca.crt") && secret.ends_with("certs/webhook-tls-secret.yaml"));
        assert_eq!(fs::metadata(&secret).unwrap().permissions().mode() & 0o777, 0o600);
        let text = fs::read_to_string(&secret).unwrap();
        let documents: Vec<Value> =
            text.split("---\n").map(|one| serde_saphyr::from_str(one).unwrap()).collect();
        assert_eq!(documents[0]["kind"], "Namespace");
        assert_eq!(documents[1]["metadata"]["name"], "gpu-scheduler-webhook-tls");
        assert_eq!(documents[1]["metadata"]["namespace"], "gpu-scheduler-system");
        assert_eq!(documents[1]["type"], "kubernetes.io/tls");
        let first = fs::read_to_string(&authorities).unwrap();
        assert!(!text.contains("authority.key"), "nobody can sign by this authority later");
        write(&order, now).unwrap();
        let both = fs::read_to_string(&authorities).unwrap();
        assert_eq!(both.matches("BEGIN CERTIFICATE").count(), 2);
        let body = first.lines().nth(1).unwrap();
        assert!(both.contains(body), "the first is trusted still");
    }

    #[test]
    fn what_cannot_be_done_is_told_and_changes_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let order = order(dir.path());
        assert!(matches!(
            write(&Order { days: 0, ..order.clone() }, Timestamp::now()),
            Err(CertsError::NoTime)
        ));
        fs::create_dir(&order.folder).unwrap();
        fs::write(order.folder.join(AUTHORITIES), "mine").unwrap();
        let error = write(&order, Timestamp::now()).unwrap_err().to_string();
        assert!(error.contains("ca.crt") && error.contains("move it away"), "{error}");
        assert!(!order.folder.join(SECRET).exists());
        let bad = Order { service: "no name".into(), folder: dir.path().join("other"), ..order };
        assert!(
            matches!(write(&bad, Timestamp::now()), Err(CertsError::Name(name, "Service")) if name == "no name")
        );
        assert!(!bad.folder.exists());
    }
}
