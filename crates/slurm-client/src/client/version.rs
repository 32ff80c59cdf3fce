//! Which version of the API to speak.

use std::sync::PoisonError;

use http::StatusCode;
use slurm::wire::{Envelope, OfferScanner};
use slurm::{ApiVersion, Offer};

use super::{Agreed, Call, Client, Repeat};
use crate::error::Error;

/// The document has about a megabyte; more than this is no document.
const MAX_DOCUMENT: usize = 64 << 20;

impl Client {
    /// The version in use. The server is asked if none is agreed yet.
    pub async fn version(&self) -> Result<ApiVersion, Error> {
        if let Some(version) = self.agreed().version {
            return Ok(version);
        }
        let offer = self.offer().await?;
        let version = offer.best().ok_or(Error::UnsupportedVersion { offer })?;
        tracing::debug!(server = %self.server(), %version, "agreed on a version of the REST API");
        self.agree(|agreed| agreed.version = Some(version));
        Ok(version)
    }

    /// The versions that the server offers.
    pub async fn offer(&self) -> Result<Offer, Error> {
        let call = Call { is_list: true, ..Call::get("the list of API versions", "") };
        self.repeat(Repeat::Transient, || async {
            let mut arriving = self.send_to(&call, "/openapi/v3".into()).await?;
            let status = arriving.status();
            if status != StatusCode::OK {
                return Err(self.refusal(&call, arriving).await);
            }
            let mut scanner = OfferScanner::default();
            let (mut length, mut beginning) = (0, Vec::new());
            while let Some(piece) = arriving.piece().await? {
                length += piece.len();
                if length > MAX_DOCUMENT {
                    return Err(Error::TooLong { server: self.server().to_string(), limit: MAX_DOCUMENT });
                }
                if beginning.is_empty() {
                    beginning = piece[..piece.len().min(1024)].to_vec();
                }
                scanner.feed(&piece);
            }
            let offer = scanner.finish();
            if offer == Offer::default() {
                let reason = "it is no OpenAPI document of slurmrestd";
                return Err(Error::bad_answer(status.as_u16(), reason, &beginning));
            }
            Ok(offer)
        })
        .await
    }

    /// Asks the server again before the next call.
    pub(super) fn forget_version(&self) {
        self.agree(|agreed| agreed.version = None);
    }

    /// Notes who answered. Another version of Slurm may offer other versions of the API.
    pub(super) fn note_release(&self, envelope: &Envelope) {
        if envelope.release.is_empty() || self.agreed().release == envelope.release {
            return;
        }
        self.agree(|agreed| {
            if !agreed.release.is_empty() {
                agreed.version = None;
            }
            agreed.release.clone_from(&envelope.release);
        });
    }

    /// The version of Slurm that answered last; empty before the first answer.
    pub fn release(&self) -> String {
        self.agreed().release
    }

    /// Whether the agreed version can do this.
    pub(super) async fn needs(&self, call: &'static str, needed: ApiVersion) -> Result<(), Error> {
        let offered = self.version().await?;
        if offered < needed { Err(Error::NotOffered { call, needed, offered }) } else { Ok(()) }
    }

    fn agreed(&self) -> Agreed {
        self.shared.agreed.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn agree(&self, change: impl FnOnce(&mut Agreed)) {
        change(&mut self.shared.agreed.write().unwrap_or_else(PoisonError::into_inner));
    }
}
