//! The API server and this crate must agree on every manifest: what one refuses the other refuses, at the same field.
//!
//! The tests of `api` on bad manifests are run again here, with a server that asks both.

#![allow(clippy::expect_used, clippy::unwrap_used, clippy::panic, reason = "this file is a test")]

#[allow(dead_code, reason = "the tests of `api` need more of it")]
#[path = "../../../api/tests/api/server.rs"]
mod api_server;
#[path = "../../../api/tests/api/cluster_rules.rs"]
mod cluster_rules;
mod every_rule;
#[path = "../../../api/tests/api/manifests.rs"]
mod manifests;
mod more;
#[path = "../../../api/tests/api/rules.rs"]
mod rules;
mod server;
