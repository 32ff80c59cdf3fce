//! What the admission server tells about its work.

use jiff::Timestamp;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

/// Requests by path and result, and how long the certificate lasts. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct AdmissionMetrics {
    requests: Family<RequestLabels, Counter>,
    expiry: Gauge,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    /// The path of a webhook, or `unknown`: callers do not choose labels.
    path: String,
    /// `allowed`, `denied`, `patched`, or a word for what went wrong.
    result: &'static str,
}

impl AdmissionMetrics {
    /// Makes the metrics part of what `/metrics` shows.
    pub fn register(&self, registry: &mut Registry) {
        registry.register(
            "admission_requests",
            "Admission requests by path and result",
            self.requests.clone(),
        );
        registry.register(
            "admission_certificate_expiry_timestamp_seconds",
            "When the certificate that is served expires, in Unix time; 0 while there is none",
            self.expiry.clone(),
        );
    }

    pub(super) fn count(&self, path: &str, result: &'static str) {
        self.requests.get_or_create(&RequestLabels { path: path.into(), result }).inc();
    }

    pub(super) fn expires(&self, at: Timestamp) {
        self.expiry.set(at.as_second());
    }

    /// How many requests to `path` had this result.
    pub fn requests(&self, path: &str, result: &'static str) -> u64 {
        self.requests.get_or_create(&RequestLabels { path: path.into(), result }).get()
    }
}
