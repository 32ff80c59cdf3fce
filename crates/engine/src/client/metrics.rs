//! How many calls were made, to what, and with what result.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

use super::call::Call;

/// Calls to the API server, as it sees them: each repetition counts.
#[derive(Clone, Debug, Default)]
pub struct CallMetrics {
    calls: Family<CallLabels, Counter>,
    silent: Family<WatchLabels, Counter>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CallLabels {
    verb: &'static str,
    resource: String,
    /// The HTTP status, or a word for the way in which there was none.
    code: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct WatchLabels {
    resource: String,
}

impl CallMetrics {
    /// Makes the counters part of what `/metrics` shows.
    pub fn register(&self, registry: &mut Registry) {
        registry.register("kubernetes_api_calls", "Calls to the Kubernetes API server", self.calls.clone());
        registry.register(
            "kubernetes_watches_silent",
            "Watches that were opened anew because the Kubernetes API server sent nothing",
            self.silent.clone(),
        );
    }

    /// Counts a watch that was ended for its silence.
    pub(super) fn count_silent(&self, call: &Call) {
        self.silent.get_or_create(&WatchLabels { resource: call.resource.clone() }).inc();
    }

    /// How many watches of a kind (plural) were ended for their silence.
    pub fn silent(&self, resource: &str) -> u64 {
        self.silent.get(&WatchLabels { resource: resource.into() }).map_or(0, |counter| counter.get())
    }

    /// Counts one call.
    pub fn count(&self, call: &Call, code: &str) {
        let mut resource = call.resource.clone();
        if let Some(subresource) = &call.subresource {
            resource.push('/');
            resource.push_str(subresource);
        }
        let labels = CallLabels { verb: call.verb.as_str(), resource, code: code.to_string() };
        self.calls.get_or_create(&labels).inc();
    }
}
