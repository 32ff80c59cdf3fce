//! The webhooks that guard workers, Secrets and NodeSets, as the chart registers them, on a real API server.

mod chart;
mod node_sets;
mod place;
mod secrets;
mod slinky_pods;
mod worker_pods;
