//! The kinds that a process cannot work without: it waits until the API server serves them.
//!
//! Discovery is asked, not the definitions: it needs no rights of its own, and tells of a kind only when it is served.

use std::collections::BTreeSet;
use std::time::Duration;

use kube::Client;
use tokio::sync::watch;

use crate::error::chain;

/// Between two questions, at first and at most.
const FIRST_WAIT: Duration = Duration::from_millis(250);
const LONGEST_WAIT: Duration = Duration::from_secs(5);

/// A kind by its group and version (`slurm.nebius.ai/v1`) and its name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Required {
    /// Group and version.
    pub api_version: String,
    /// The name.
    pub kind: String,
}

/// Why waiting is of no use.
#[derive(Debug, thiserror::Error)]
#[error(
    "the API server does not tell this program which kinds it serves; give its ServiceAccount the ClusterRole \
     system:discovery"
)]
pub struct NotAllowed(#[source] Box<kube::Error>);

/// What is missing.
#[derive(Debug)]
pub struct RequiredKinds {
    kinds: BTreeSet<Required>,
    /// What readiness says; none when all kinds are served.
    missing: watch::Sender<Option<String>>,
}

impl RequiredKinds {
    /// Kinds that are not looked for yet.
    pub fn new(kinds: impl IntoIterator<Item = Required>) -> Self {
        let missing = watch::Sender::new(Some("the API server has not been asked yet".into()));
        Self { kinds: kinds.into_iter().collect(), missing }
    }

    /// What is missing, in words; none when everything is served.
    pub fn missing(&self) -> watch::Receiver<Option<String>> {
        self.missing.subscribe()
    }

    /// Asks until all are served. Only the lack of the right to ask ends it early; all else may get better.
    pub async fn wait(&self, client: &Client) -> Result<(), NotAllowed> {
        let mut wait = FIRST_WAIT;
        loop {
            let missing = match served(client).await {
                Ok(served) => words(&self.kinds, &served),
                Err(kube::Error::Api(status)) if matches!(status.code, 401 | 403) => {
                    return Err(NotAllowed(Box::new(kube::Error::Api(status))));
                }
                Err(error) => {
                    Some(format!("the API server does not say which kinds it serves: {}", chain(&error)))
                }
            };
            let Some(text) = missing else {
                tracing::info!("all custom resource definitions are served");
                self.missing.send_replace(None);
                return Ok(());
            };
            let told = self.missing.send_replace(Some(text.clone()));
            if told.as_ref() != Some(&text) {
                tracing::warn!(reason = text, "waiting for the custom resource definitions");
            }
            tokio::time::sleep(wait).await;
            wait = (wait * 2).min(LONGEST_WAIT);
        }
    }
}

async fn served(client: &Client) -> Result<BTreeSet<Required>, kube::Error> {
    let mut found = BTreeSet::new();
    for group in client.list_api_groups_aggregated().await?.items {
        let name = group.metadata.and_then(|meta| meta.name).unwrap_or_default();
        for version in group.versions {
            let api_version = format!("{name}/{}", version.version.unwrap_or_default());
            for resource in version.resources {
                let kind = resource.response_kind.and_then(|kind| kind.kind).unwrap_or_default();
                found.insert(Required { api_version: api_version.clone(), kind });
            }
        }
    }
    Ok(found)
}

fn words(wanted: &BTreeSet<Required>, served: &BTreeSet<Required>) -> Option<String> {
    let missing: Vec<String> =
        wanted.difference(served).map(|kind| format!("{} of {}", kind.kind, kind.api_version)).collect();
    (!missing.is_empty()).then(|| {
        format!("not served: {}; install the definitions that `soperator crds` prints", missing.join(", "))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_named_with_what_to_do() {
        let kind =
            |api_version: &str, kind: &str| Required { api_version: api_version.into(), kind: kind.into() };
        let wanted = BTreeSet::from([kind("g/v1", "A"), kind("g/v1", "B")]);
        assert_eq!(words(&wanted, &wanted), None);
        let text = words(&wanted, &BTreeSet::from([kind("g/v1", "A"), kind("g/v2", "B")]));
        assert_eq!(
            text.as_deref(),
            Some("not served: B of g/v1; install the definitions that `soperator crds` prints")
        );
    }
}
