//! The certificate of the metrics server: from files, from a Secret, or made by itself; a new one is taken without a
//! restart.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::Secret;
use kube::Client;
use kube::api::Api;
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use tokio_util::sync::CancellationToken;

use super::ServerError;
use crate::admission::Served;
use crate::follow::follow;
use crate::settings::Tls;

/// How often files are looked at. The kubelet takes up to a minute to bring a new Secret into them.
const LOOK_EVERY: Duration = Duration::from_secs(30);
const SELF_SIGNED_NAMES: &[&str] = &["localhost"];

/// Where a certificate comes from.
pub(super) enum Origin {
    Files { cert: PathBuf, key: PathBuf },
    Secret { client: Client, namespace: String, name: String },
    SelfSigned,
}

impl Origin {
    /// What the settings say; without a certificate in them, one is made.
    pub(super) fn new(
        tls: Option<&Tls>,
        client: Option<&Client>,
        namespace: &str,
    ) -> Result<Self, ServerError> {
        match (tls, client) {
            (None, _) => Ok(Self::SelfSigned),
            (Some(Tls::Files { cert, key, .. }), _) => {
                Ok(Self::Files { cert: cert.clone(), key: key.clone() })
            }
            (Some(Tls::Secret(name)), Some(client)) => Ok(Self::Secret {
                client: client.clone(),
                namespace: namespace.to_string(),
                name: name.clone(),
            }),
            (Some(Tls::Secret(_)), None) => Err(ServerError::NoClient("tls.secretName")),
        }
    }

    /// Begins to show the certificate, and follows its changes until `stop`.
    pub(super) fn start(self, stop: &CancellationToken) -> Result<Arc<ServerConfig>, ServerError> {
        let shown = Arc::new(Served::default());
        match self {
            Self::SelfSigned => shown.show(self_signed().map_err(ServerError::Certificate)?),
            Self::Files { cert, key } => {
                let content = read(&cert, &key).map_err(ServerError::Certificate)?;
                shown.show(parse(&content.0, &content.1).map_err(|why| {
                    ServerError::Certificate(format!("{} and {}: {why}", cert.display(), key.display()))
                })?);
                spawn(stop, follow_files(cert, key, content, Arc::clone(&shown)));
            }
            Self::Secret { client, namespace, name } => {
                spawn(stop, follow_secret(client, namespace, name, Arc::clone(&shown)));
            }
        }
        let provider = Arc::new(ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| ServerError::Certificate(error.to_string()))?
            .with_no_client_auth()
            .with_cert_resolver(shown);
        Ok(Arc::new(config))
    }
}

fn spawn(stop: &CancellationToken, work: impl Future<Output = ()> + Send + 'static) {
    let stop = stop.clone();
    tokio::spawn(async move { stop.run_until_cancelled(work).await });
}

fn self_signed() -> Result<Arc<CertifiedKey>, String> {
    let names: Vec<String> = SELF_SIGNED_NAMES.iter().map(ToString::to_string).collect();
    let made = rcgen::generate_simple_self_signed(names).map_err(|error| error.to_string())?;
    parse(made.cert.pem().as_bytes(), made.signing_key.serialize_pem().as_bytes())
}

type Content = (Vec<u8>, Vec<u8>);

fn read(cert: &PathBuf, key: &PathBuf) -> Result<Content, String> {
    let read = |path: &PathBuf| {
        std::fs::read(path).map_err(|error| format!("cannot read {}: {error}", path.display()))
    };
    Ok((read(cert)?, read(key)?))
}

fn parse(cert: &[u8], key: &[u8]) -> Result<Arc<CertifiedKey>, String> {
    let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_slice_iter(cert)
        .collect::<Result<_, _>>()
        .map_err(|error| format!("no certificate in PEM: {error}"))?;
    if chain.is_empty() {
        return Err("no certificate in PEM".into());
    }
    let key =
        PrivateKeyDer::from_pem_slice(key).map_err(|error| format!("no private key in PEM: {error}"))?;
    let certified = CertifiedKey::from_der(chain, key, &ring::default_provider());
    certified.map(Arc::new).map_err(|error| format!("the key does not fit the certificate: {error}"))
}

async fn follow_files(cert: PathBuf, key: PathBuf, mut last: Content, shown: Arc<Served>) {
    loop {
        tokio::time::sleep(LOOK_EVERY).await;
        let read = read(&cert, &key);
        if read.as_ref() == Ok(&last) {
            continue;
        }
        let parsed = read.and_then(|content| Ok((parse(&content.0, &content.1)?, content)));
        match parsed {
            Ok((certified, content)) => {
                shown.show(certified);
                last = content;
                tracing::info!(file = %cert.display(), "took a new certificate");
            }
            // Cert and key are two files: one may be new before the other. The old pair serves on.
            Err(why) => tracing::warn!(why, file = %cert.display(), "the new certificate cannot be used yet"),
        }
    }
}

async fn follow_secret(client: Client, namespace: String, name: String, shown: Arc<Served>) {
    let mut secrets = std::pin::pin!(follow(Api::<Secret>::namespaced(client, &namespace), &name));
    while let Some(secret) = secrets.next().await {
        let Some(secret) = secret else {
            tracing::warn!(
                name,
                namespace,
                "the Secret with the certificate of /metrics does not exist (yet)"
            );
            continue;
        };
        let data = secret.data.unwrap_or_default();
        let part = |key: &str| data.get(key).map(|bytes| bytes.0.as_slice()).unwrap_or_default();
        match parse(part("tls.crt"), part("tls.key")) {
            Ok(certified) => {
                shown.show(certified);
                tracing::info!(name, namespace, "took the certificate of a Secret");
            }
            Err(why) => tracing::warn!(why, name, namespace, "the certificate of the Secret cannot be used"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair() -> (String, String) {
        let made = rcgen::generate_simple_self_signed(["localhost".to_string()]).unwrap();
        (made.cert.pem(), made.signing_key.serialize_pem())
    }

    #[test]
    fn only_a_pair_that_fits_is_taken() {
        let ((cert, key), (_, other)) = (pair(), pair());
        assert!(parse(cert.as_bytes(), key.as_bytes()).is_ok());
        assert!(parse(cert.as_bytes(), other.as_bytes()).unwrap_err().contains("does not fit"));
        assert!(parse(b"", key.as_bytes()).unwrap_err().contains("no certificate"));
        assert!(parse(cert.as_bytes(), b"x").unwrap_err().contains("no private key"));
    }

    #[tokio::test(start_paused = true)]
    async fn new_files_are_taken_and_broken_ones_are_not() {
        let folder = tempfile::tempdir().unwrap();
        let (cert_path, key_path) = (folder.path().join("tls.crt"), folder.path().join("tls.key"));
        let write = |(cert, key): &(String, String)| {
            std::fs::write(&cert_path, cert).unwrap();
            std::fs::write(&key_path, key).unwrap();
        };
        let first = pair();
        write(&first);
        let content = read(&cert_path, &key_path).unwrap();
        let shown = Arc::new(Served::default());
        shown.show(parse(&content.0, &content.1).unwrap());
        let leaf = || shown.shown().unwrap().cert[0].clone();
        let before = leaf();
        tokio::spawn(follow_files(cert_path.clone(), key_path.clone(), content, Arc::clone(&shown)));
        let second = pair();
        write(&(second.0.clone(), first.1));
        tokio::time::sleep(LOOK_EVERY * 2).await;
        assert_eq!(leaf(), before, "half of a new pair is not shown");
        write(&second);
        tokio::time::sleep(LOOK_EVERY * 2).await;
        assert_ne!(leaf(), before);
    }
}
