//! The engine on a real API server, with a sample controller.

mod behaviour;
mod leadership;
mod outage;
mod sample;
mod server;
mod sweeps;
