//! What a server needs of a Secret: a certificate with its key, and whom to trust for it.

use std::sync::Arc;

use jiff::Timestamp;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;

use super::certificate::{Bundle, Certificate};
use super::rotation::Data;

/// The chain of certificates, the server's own first.
pub(super) const CERTIFICATE: &str = "tls.crt";
/// The key of the first certificate.
pub(super) const KEY: &str = "tls.key";
/// All authorities to trust.
pub(super) const CA_BUNDLE: &str = "ca.crt";

/// Why a Secret cannot be served from.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum MaterialError {
    #[error("the key {0} is missing")]
    Missing(&'static str),
    #[error("{0} cannot be read: {1}")]
    Unreadable(&'static str, String),
    #[error("tls.key is not the key of the first certificate in tls.crt: {0}")]
    Unfitting(String),
}

/// A certificate that can be served.
#[derive(Clone, Debug)]
pub(super) struct Material {
    key: Arc<CertifiedKey>,
    certificate: Certificate,
    bundle: Option<Bundle>,
}

impl Material {
    /// Reads a Secret's data.
    pub(super) fn read(data: &Data) -> Result<Self, MaterialError> {
        let value = |key: &'static str| data.get(key).ok_or(MaterialError::Missing(key));
        let (chain, key) = (value(CERTIFICATE)?, value(KEY)?);
        let certificates =
            Certificate::all(&chain.0).map_err(|error| MaterialError::Unreadable(CERTIFICATE, error))?;
        let chain = certificates.iter().map(|one| CertificateDer::from(one.der().to_vec())).collect();
        let key = PrivateKeyDer::from_pem_slice(&key.0)
            .map_err(|error| MaterialError::Unreadable(KEY, error.to_string()))?;
        let key = CertifiedKey::from_der(chain, key, &rustls::crypto::ring::default_provider())
            .map_err(|error| MaterialError::Unfitting(error.to_string()))?;
        let bundle = match data.get(CA_BUNDLE) {
            Some(text) if !text.0.is_empty() => {
                Some(Bundle::parse(&text.0).map_err(|error| MaterialError::Unreadable(CA_BUNDLE, error))?)
            }
            _ => None,
        };
        let certificate = certificates.into_iter().next().ok_or(MaterialError::Missing(CERTIFICATE))?;
        Ok(Self { key: Arc::new(key), certificate, bundle })
    }

    pub(super) fn key(&self) -> &Arc<CertifiedKey> {
        &self.key
    }

    pub(super) fn certificate(&self) -> &Certificate {
        &self.certificate
    }

    /// Whom to trust; none if the user takes care of it.
    pub(super) fn bundle(&self) -> Option<&Bundle> {
        self.bundle.as_ref()
    }

    pub(super) fn is_valid(&self, now: Timestamp) -> bool {
        now < self.certificate.not_after
    }

    /// Whether everybody who trusts this certificate also trusts that of `other`: it is the same, or of the same authority.
    pub(super) fn is_trusted_like(&self, other: &Self) -> bool {
        let (Some(ours), Some(theirs)) = (&self.bundle, &other.bundle) else { return false };
        let (ours, theirs) = (ours.that_trust(&self.certificate), theirs.that_trust(&other.certificate));
        self.certificate == other.certificate || !ours.intersection(&theirs).ders().is_empty()
    }

    /// Whether it comes to the same.
    pub(super) fn equals(&self, other: &Self) -> bool {
        self.key.cert == other.key.cert && self.bundle == other.bundle
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::ByteString;

    use super::super::rotation::{Content, Policy, Step};
    use super::*;

    fn data() -> Data {
        let mut data = Data::new();
        let policy = Policy::for_service("webhook", "ns");
        Content::read(&data).take(Step::Start, &policy, &mut data, Timestamp::now()).unwrap();
        data
    }

    #[test]
    fn a_secret_that_cannot_be_used_says_which_key_is_wrong_and_why() {
        let problem = |change: &dyn Fn(&mut Data)| {
            let mut data = data();
            change(&mut data);
            Material::read(&data).unwrap_err().to_string()
        };
        assert_eq!(
            problem(&|data| {
                data.remove(KEY);
            }),
            "the key tls.key is missing"
        );
        let rubbish = || ByteString(b"rubbish".to_vec());
        let text = problem(&|data| {
            data.insert(CERTIFICATE.into(), rubbish());
        });
        assert_eq!(text, "tls.crt cannot be read: it holds no certificate");
        let text = problem(&|data| {
            data.insert(CA_BUNDLE.into(), rubbish());
        });
        assert_eq!(text, "ca.crt cannot be read: it holds no certificate");
        let other = self::data()[KEY].clone();
        let text = problem(&|data| {
            data.insert(KEY.into(), other.clone());
        });
        assert!(text.starts_with("tls.key is not the key of the first certificate in tls.crt"), "{text}");
    }

    #[test]
    fn without_authorities_a_secret_can_be_served_all_the_same() {
        let mut data = data();
        data.remove(CA_BUNDLE);
        assert_eq!(Material::read(&data).unwrap().bundle(), None);
    }
}
