//! Certificates as we look at them: how long they last, whom they name, who signed them; and bundles of those to trust.

use std::collections::BTreeSet;

use jiff::Timestamp;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::{FromDer as _, X509Certificate};

const PEM_TAG: &str = "CERTIFICATE";

/// A certificate that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Certificate {
    der: Vec<u8>,
    /// From when it is valid.
    pub(super) not_before: Timestamp,
    /// Until when it is valid.
    pub(super) not_after: Timestamp,
    /// The DNS names and addresses it stands for.
    pub(super) names: BTreeSet<String>,
}

impl Certificate {
    /// Reads one certificate.
    pub(super) fn from_der(der: &[u8]) -> Result<Self, String> {
        let x509 = parse(der)?;
        let time = |second| Timestamp::from_second(second).map_err(|error| error.to_string());
        let names = x509.subject_alternative_name().map_err(|error| error.to_string())?;
        let names = names.iter().flat_map(|names| &names.value.general_names).filter_map(|name| match name {
            GeneralName::DNSName(name) => Some((*name).to_string()),
            GeneralName::IPAddress(bytes) => address(bytes),
            _ => None,
        });
        Ok(Self {
            names: names.collect(),
            not_before: time(x509.validity().not_before.timestamp())?,
            not_after: time(x509.validity().not_after.timestamp())?,
            der: der.to_vec(),
        })
    }

    /// Reads all certificates of a PEM text, of which there must be one at least.
    pub(super) fn all(text: &[u8]) -> Result<Vec<Self>, String> {
        let blocks = pem::parse_many(text).map_err(|error| error.to_string())?;
        let certificates = blocks.iter().filter(|block| block.tag() == PEM_TAG);
        let all =
            certificates.map(|block| Self::from_der(block.contents())).collect::<Result<Vec<_>, _>>()?;
        if all.is_empty() { Err("it holds no certificate".into()) } else { Ok(all) }
    }

    pub(super) fn der(&self) -> &[u8] {
        &self.der
    }

    /// Whether this certificate holds the public key of `key`.
    pub(super) fn fits(&self, key: &rcgen::KeyPair) -> bool {
        use rcgen::PublicKeyData as _;
        parse(&self.der).is_ok_and(|x509| x509.public_key().raw == key.subject_public_key_info())
    }

    /// Whether the key of `authority` signed this certificate.
    pub(super) fn is_signed_by(&self, authority: &Self) -> bool {
        self.is_signed_by_der(&authority.der)
    }

    fn is_signed_by_der(&self, authority: &[u8]) -> bool {
        let (Ok(x509), Ok(authority)) = (parse(&self.der), parse(authority)) else { return false };
        x509.issuer() == authority.subject() && x509.verify_signature(Some(authority.public_key())).is_ok()
    }
}

fn parse(der: &[u8]) -> Result<X509Certificate<'_>, String> {
    X509Certificate::from_der(der).map(|(_, x509)| x509).map_err(|error| error.to_string())
}

fn address(bytes: &[u8]) -> Option<String> {
    match bytes.len() {
        4 => <[u8; 4]>::try_from(bytes).ok().map(|bytes| std::net::Ipv4Addr::from(bytes).to_string()),
        16 => <[u8; 16]>::try_from(bytes).ok().map(|bytes| std::net::Ipv6Addr::from(bytes).to_string()),
        _ => None,
    }
}

/// A set of certificates to trust.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Bundle {
    ders: BTreeSet<Vec<u8>>,
}

impl Bundle {
    /// Reads a PEM text.
    pub(super) fn parse(text: &[u8]) -> Result<Self, String> {
        Ok(Certificate::all(text)?.iter().collect())
    }

    /// The same set as PEM; equal sets give equal text.
    pub(super) fn to_pem(&self) -> String {
        let blocks: Vec<_> = self.ders.iter().map(|der| pem::Pem::new(PEM_TAG, der.as_slice())).collect();
        let config = pem::EncodeConfig::new().set_line_ending(pem::LineEnding::LF);
        pem::encode_many_config(&blocks, config)
    }

    /// The certificates, as DER.
    pub(super) fn ders(&self) -> &BTreeSet<Vec<u8>> {
        &self.ders
    }

    pub(super) fn contains(&self, certificate: &Certificate) -> bool {
        self.ders.contains(certificate.der())
    }

    pub(super) fn includes(&self, other: &Self) -> bool {
        self.ders.is_superset(&other.ders)
    }

    pub(super) fn intersection(&self, other: &Self) -> Self {
        Self { ders: self.ders.intersection(&other.ders).cloned().collect() }
    }

    pub(super) fn union(&self, other: &Self) -> Self {
        Self { ders: self.ders.union(&other.ders).cloned().collect() }
    }

    pub(super) fn without(&self, other: &Self) -> Self {
        Self { ders: self.ders.difference(&other.ders).cloned().collect() }
    }

    /// Those that signed `certificate`, or are it.
    pub(super) fn that_trust(&self, certificate: &Certificate) -> Self {
        let trusts = |der: &&Vec<u8>| **der == certificate.der || certificate.is_signed_by_der(der);
        self.ders.iter().filter(trusts).cloned().collect()
    }

    /// Whether there is one of these.
    pub(super) fn trusts(&self, certificate: &Certificate) -> bool {
        !self.that_trust(certificate).ders.is_empty()
    }
}

impl FromIterator<Vec<u8>> for Bundle {
    fn from_iter<I: IntoIterator<Item = Vec<u8>>>(ders: I) -> Self {
        Self { ders: ders.into_iter().collect() }
    }
}

impl<'a> FromIterator<&'a Certificate> for Bundle {
    fn from_iter<I: IntoIterator<Item = &'a Certificate>>(certificates: I) -> Self {
        Self { ders: certificates.into_iter().map(|certificate| certificate.der.clone()).collect() }
    }
}
