//! Certificates for somebody who keeps them by himself: an authority, and one certificate of it.

use jiff::Timestamp;

use super::certificate::Bundle;
use super::certificate::Certificate;
use super::pki::{Authority, PkiError};
use super::rotation::Policy;

/// A certificate with its key and its authority, all PEM.
#[derive(Clone)]
pub struct Issued {
    /// Whom to trust: the authority, and those of before that still are.
    pub authorities: String,
    /// The certificate.
    pub certificate: String,
    /// Its key.
    pub key: String,
}

impl std::fmt::Debug for Issued {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Issued").field("certificate", &self.certificate).finish_non_exhaustive()
    }
}

/// Makes an authority and a certificate of it. The authority's key is not kept, so nobody can sign by it later. `before` is a
/// PEM text of authorities that were trusted so far: those that have not run out stay, so that the change fails no call.
///
/// # Errors
///
/// A name is none, or a time is out of range, or `before` holds no certificates.
pub fn issue(policy: &Policy, before: Option<&str>, now: Timestamp) -> Result<Issued, PkiError> {
    let authority = Authority::new(policy.authority_lifetime, now)?;
    let pair = authority.serving(&policy.names, policy.serving_lifetime, now)?;
    let known = match before {
        Some(text) => Certificate::all(text.as_bytes()).map_err(PkiError::Read)?,
        None => Vec::new(),
    };
    let trusted = known.iter().filter(|one| now < one.not_after).chain([&authority.certificate]);
    let authorities = trusted.collect::<Bundle>().to_pem();
    Ok(Issued { authorities, certificate: pair.certificate, key: pair.key })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn authorities_of_before_stay_until_they_run_out() {
        let names = vec!["gpu-scheduler-webhook.ns.svc".to_string()];
        let day = Duration::from_secs(24 * 3600);
        let policy = Policy { names, authority_lifetime: 10 * day, serving_lifetime: 10 * day };
        let now = Timestamp::now();
        let first = issue(&policy, None, now).unwrap();
        let certificate =
            |issued: &Issued| Certificate::all(issued.certificate.as_bytes()).unwrap().remove(0);
        let second = issue(&policy, Some(&first.authorities), now + 5 * day).unwrap();
        let both = Bundle::parse(second.authorities.as_bytes()).unwrap();
        assert_eq!(both.ders().len(), 2);
        assert!(both.trusts(&certificate(&first)) && both.trusts(&certificate(&second)));
        let third = issue(&policy, Some(&second.authorities), now + 12 * day).unwrap();
        let left = Bundle::parse(third.authorities.as_bytes()).unwrap();
        assert!(!left.trusts(&certificate(&first)) && left.trusts(&certificate(&third)));
        assert!(issue(&policy, Some("rubbish"), now).is_err());
    }
}
