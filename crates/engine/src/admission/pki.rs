//! Makes authorities and serving certificates.

use std::time::Duration;

use jiff::Timestamp;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use time::OffsetDateTime;

use super::certificate::Certificate;

/// Certificates are valid from a little before they are made: the clocks of other machines may be behind ours.
pub(super) const BACKDATED: Duration = Duration::from_secs(300);

/// Why no certificate could be made.
#[derive(Debug, thiserror::Error)]
pub enum PkiError {
    /// The cryptography refuses, for example a name that is none.
    #[error("a certificate for the admission server cannot be made; check its DNS names")]
    Make(#[from] rcgen::Error),
    /// A time far outside of what certificates can say.
    #[error("a certificate's lifetime is out of range")]
    Time(#[from] time::error::ComponentRange),
    /// What we made ourselves cannot be read.
    #[error("a certificate cannot be read: {0}")]
    Read(String),
}

/// A certificate with its key, both PEM.
#[derive(Clone)]
pub(super) struct Pair {
    pub(super) certificate: String,
    pub(super) key: String,
}

/// An authority that can sign.
#[derive(Clone)]
pub(super) struct Authority {
    pub(super) pair: Pair,
    pub(super) certificate: Certificate,
}

impl Authority {
    /// A new authority.
    pub(super) fn new(lifetime: Duration, now: Timestamp) -> Result<Self, PkiError> {
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::default();
        // Names that differ spare clients the search for the right one among several of a bundle.
        let name = format!("soperator admission {}", now.as_millisecond());
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        (params.not_before, params.not_after) = validity(now, now + lifetime)?;
        let pair = Pair { certificate: params.self_signed(&key)?.pem(), key: key.serialize_pem() };
        Self::read(pair)
    }

    /// An authority from PEM; the key must fit the certificate.
    pub(super) fn read(pair: Pair) -> Result<Self, PkiError> {
        let certificate =
            Certificate::all(pair.certificate.as_bytes()).map_err(PkiError::Read)?.swap_remove(0);
        if !certificate.fits(&KeyPair::from_pem(&pair.key)?) {
            return Err(PkiError::Read("the key belongs to another certificate".into()));
        }
        Ok(Self { pair, certificate })
    }

    /// A certificate for a server that is called `names`. It does not outlive the authority.
    pub(super) fn serving(
        &self,
        names: &[String],
        lifetime: Duration,
        now: Timestamp,
    ) -> Result<Pair, PkiError> {
        let issuer = Issuer::from_ca_cert_pem(&self.pair.certificate, KeyPair::from_pem(&self.pair.key)?)?;
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::new(names)?;
        params.distinguished_name.push(DnType::CommonName, "soperator admission");
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.use_authority_key_identifier_extension = true;
        let until = (now + lifetime).min(self.certificate.not_after);
        (params.not_before, params.not_after) = validity(now, until)?;
        let certificate = params.signed_by(&key, &issuer)?;
        Ok(Pair { certificate: certificate.pem(), key: key.serialize_pem() })
    }
}

fn validity(now: Timestamp, until: Timestamp) -> Result<(OffsetDateTime, OffsetDateTime), PkiError> {
    let from = OffsetDateTime::from_unix_timestamp((now - BACKDATED).as_second())?;
    Ok((from, OffsetDateTime::from_unix_timestamp(until.as_second())?))
}
