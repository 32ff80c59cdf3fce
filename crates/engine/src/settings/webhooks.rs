//! Where the admission server listens, and by which names the API server knows it.

use serde::Serialize;

use super::resolve::Resolver;
use super::setting;
use super::value::{self, Address};

/// How admission webhooks are served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Webhooks {
    /// Whether they are.
    pub enabled: bool,
    /// Where.
    pub address: Address,
    /// The Service by which the API server calls, in the operator's namespace.
    pub service: String,
    /// Further names and addresses by which it may call.
    pub hosts: Vec<String>,
    /// The webhook configuration whose `caBundle` is kept.
    pub configuration: String,
    /// Who makes the certificate.
    pub certificate: Certificate,
    /// The Secret that keeps it, in the operator's namespace.
    pub secret: String,
}

/// Who makes the certificate of the admission server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Certificate {
    /// We do.
    Own,
    /// cert-manager does.
    CertManager,
    /// The user does.
    Secret,
}

impl Certificate {
    fn parse(text: &str) -> Result<Self, String> {
        match text {
            "own" => Ok(Self::Own),
            "cert-manager" => Ok(Self::CertManager),
            "secret" => Ok(Self::Secret),
            _ => Err(format!("{text:?} is none of own, cert-manager, secret")),
        }
    }
}

/// Names follow from that of the lease, which two installations in one namespace do not share.
pub(super) fn read(from: &mut Resolver<'_>, lease: &str) -> Webhooks {
    let name = format!("{lease}-webhook");
    Webhooks {
        enabled: from.get(&setting::WEBHOOKS, value::switch, true),
        address: from.get(&setting::WEBHOOK_ADDRESS, Address::parse, Address::Everywhere(9443)),
        service: from.get(&setting::WEBHOOK_SERVICE, value::namespace, name.clone()),
        hosts: from.get(&setting::WEBHOOK_HOSTS, |text| Ok(value::list(text)), Vec::new()),
        configuration: from.get(&setting::WEBHOOK_CONFIGURATION, value::name, name.clone()),
        certificate: from.get(&setting::WEBHOOK_CERTIFICATE, Certificate::parse, Certificate::Own),
        secret: from.get(&setting::WEBHOOK_SECRET, value::name, format!("{name}-tls")),
    }
}
