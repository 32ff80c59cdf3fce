//! The paths, and what they answer.

use std::sync::Arc;

use axum::Router;
use axum::extract::{RawQuery, State};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use http::{HeaderMap, StatusCode, header};
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;

use super::access::Access;
use super::checks::{Checks, Report};
use super::results::Results;
use crate::logging::LevelHandle;
use crate::settings::level;

pub(super) const METRICS: &str = "/metrics";
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// `/livez`, `/readyz`, and `/healthz`, which is the old name of `/livez`. A `service` has `/health` and `/ready` too.
pub(super) fn health(checks: Checks, service: Option<&'static str>) -> Router {
    let live = |name: &'static str| {
        get(async move |State(checks): State<Checks>, query: RawQuery| {
            report(name, &checks.run_live(), &query)
        })
    };
    let ready = get(async |State(checks): State<Checks>, query: RawQuery| {
        report("readyz", &checks.run_ready(), &query)
    });
    let router = Router::new()
        .route("/livez", live("livez"))
        .route("/healthz", live("healthz"))
        .route("/readyz", ready);
    let Some(service) = service else { return router.with_state(checks) };
    let live = get(async move |State(checks): State<Checks>| json(service, "healthy", &checks.run_live()));
    let ready = get(async move |State(checks): State<Checks>| json(service, "ready", &checks.run_ready()));
    router.route("/health", live).route("/ready", ready).with_state(checks)
}

/// One word for programs that read JSON, and the reasons where it is not `well`.
fn json(service: &str, well: &str, report: &Report) -> Response {
    let (status, body) = if report.is_ok() {
        (StatusCode::OK, serde_json::json!({ "status": well, "service": service }))
    } else {
        let reason = report.text(well, false);
        let body =
            serde_json::json!({ "status": format!("not {well}"), "service": service, "reason": reason });
        (StatusCode::SERVICE_UNAVAILABLE, body)
    };
    (status, [(header::CONTENT_TYPE, "application/json")], body.to_string()).into_response()
}

fn report(name: &str, report: &Report, RawQuery(query): &RawQuery) -> Response {
    let verbose = query.as_deref().unwrap_or_default().split('&').any(|word| {
        word.split_once('=').map_or(word, |(name, _)| name) == "verbose" && !word.ends_with("=false")
    });
    let status = if report.is_ok() { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (status, report.text(name, verbose)).into_response()
}

/// `/metrics`, for all or for those whom `access` lets in.
pub(super) fn metrics(registry: Arc<Registry>, access: Option<Access>) -> Router {
    let state = (registry, access.map(Arc::new));
    Router::new().route(METRICS, get(show_metrics)).with_state(state)
}

type MetricsState = (Arc<Registry>, Option<Arc<Access>>);

async fn show_metrics(State((registry, access)): State<MetricsState>, headers: HeaderMap) -> Response {
    if let Some(access) = access
        && let Err((status, message)) = access.check(&headers).await
    {
        let mut response = (status, message).into_response();
        if status == StatusCode::UNAUTHORIZED {
            response.headers_mut().insert(header::WWW_AUTHENTICATE, http::HeaderValue::from_static("Bearer"));
        }
        return response;
    }
    let mut text = String::new();
    match encode(&mut text, &registry) {
        Ok(()) => ([(header::CONTENT_TYPE, OPEN_METRICS)], text).into_response(),
        Err(_) => (StatusCode::INTERNAL_SERVER_ERROR, "a metric cannot be written").into_response(),
    }
}

/// `/debug/state` and `/debug/log-level`.
pub(super) fn debug(results: Results, log_level: Option<LevelHandle>) -> Router {
    let state = get(async move || {
        let json = [(header::CONTENT_TYPE, "application/json")];
        (json, format!("{:#}\n", results.json())).into_response()
    });
    let router = Router::new().route("/debug/state", state);
    match log_level {
        None => router,
        Some(handle) => router.route("/debug/log-level", get(show_level).put(set_level).with_state(handle)),
    }
}

async fn show_level(State(handle): State<LevelHandle>) -> Response {
    match handle.get() {
        Some(level) => format!("{level}\n").into_response(),
        None => StatusCode::NOT_FOUND.into_response(),
    }
}

async fn set_level(State(handle): State<LevelHandle>, body: String) -> Response {
    match level(body.trim()) {
        Ok(level) => {
            handle.set(level);
            tracing::info!(%level, "the level of logging was changed");
            format!("{level}\n").into_response()
        }
        Err(message) => (StatusCode::BAD_REQUEST, format!("{message}\n")).into_response(),
    }
}
