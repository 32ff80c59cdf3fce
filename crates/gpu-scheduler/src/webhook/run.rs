//! The process of the webhook: certificates, probes and metrics, until it is told to stop. Every replica answers.

use std::net::Ipv6Addr;
use std::sync::Arc;

use engine::Key;
use engine::admission::{
    self, Admission, AdmissionError, AdmissionMetrics, Configuration, OnFailure, Policy, Source,
};
use engine::client::{self, CallMetrics, Cluster, ConnectError};
use engine::logging::{self, LoggingError};
use engine::server::{Checks, Server, ServerError, Shown};
use engine::settings::{Address, Certificate, Settings};
use prometheus_client::registry::Registry;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use super::{Config, webhooks};
use crate::names::SCHEDULER;

/// The field manager of what the webhook writes: its certificate, and the caBundle of its configurations.
const MANAGER: &str = "gpu-scheduler";

/// What is set beside [`Settings`].
#[derive(Clone, Debug)]
pub struct Options {
    /// What it decides by.
    pub config: Config,
    /// What becomes of a review that could not be decided: what `failurePolicy` says.
    pub on_failure: OnFailure,
    /// Whether it keeps the caBundle of its configurations. The user may do that.
    pub keep_ca_bundle: bool,
}

/// Why the webhook ends before it was told to.
#[derive(Debug, thiserror::Error)]
pub enum WebhookError {
    /// The system refuses threads or signals.
    #[error("the system does not let this program run")]
    System(#[from] std::io::Error),
    /// Log lines cannot be written.
    #[error(transparent)]
    Logging(#[from] LoggingError),
    /// There is no API server to talk to.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// A port is taken.
    #[error(transparent)]
    Server(#[from] ServerError),
    /// The admission server cannot start.
    #[error(transparent)]
    Admission(#[from] AdmissionError),
    /// There is nothing to serve at.
    #[error("--webhook-bind-address turns the webhook off, which is all this program does; set an address")]
    Off,
}

/// Runs until SIGTERM or SIGINT. Then reviews under way are answered.
///
/// # Errors
///
/// Something that it needs from the start cannot be had.
pub fn run(settings: &Settings, options: Options) -> Result<(), WebhookError> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(serve(settings, options))
}

async fn serve(settings: &Settings, options: Options) -> Result<(), WebhookError> {
    let stop = stop_signals()?;
    let log_level = logging::start(&settings.logging)?;
    settings.warnings.iter().for_each(|warning| tracing::warn!("{warning}"));
    tracing::info!(
        version = env!("CARGO_PKG_VERSION"),
        scheduler = options.config.scheduler,
        "webhook starts"
    );

    let (calls, reviews) = (CallMetrics::default(), AdmissionMetrics::default());
    let mut registry = Registry::default();
    calls.register(&mut registry);
    reviews.register(&mut registry);
    let cluster = Cluster::find().await?;
    let watches = client::Watches::default();
    let client = cluster.connect(client::Options {
        metrics: calls,
        watches: watches.clone(),
        ..client::Options::default()
    })?;

    let checks = Checks::default();
    checks.watches(&watches);
    let admission = Admission::bind(admission_options(settings, options.keep_ca_bundle, reviews)?).await?;
    let ready = admission.ready();
    checks.ready("webhook certificate", move || {
        if *ready.borrow() { Ok(()) } else { Err("there is no certificate to serve by yet".into()) }
    });
    let shown = Shown {
        checks,
        metrics: Arc::new(registry),
        log_level: Some(log_level),
        service: Some(SCHEDULER),
        ..Shown::default()
    };
    let server = Server::bind(settings, shown, Some(&client)).await?;
    let probes = tokio::spawn(server.run(stop.clone()));
    tracing::info!(address = %admission.address(), "the webhook is served");
    admission.run(client, webhooks(options.config, options.on_failure), stop.clone()).await;
    stop.cancel();
    // It only answers probes, and has nothing to lose.
    let _ = probes.await;
    tracing::info!("webhook ends");
    Ok(())
}

/// How admission is served.
fn admission_options(
    settings: &Settings,
    keep_ca_bundle: bool,
    metrics: AdmissionMetrics,
) -> Result<admission::Options, WebhookError> {
    let webhooks = &settings.webhooks;
    let address = match webhooks.address {
        Address::Off => return Err(WebhookError::Off),
        Address::Everywhere(port) => (Ipv6Addr::UNSPECIFIED, port).into(),
        Address::At(address) => address,
    };
    let secret = Key::new(&settings.namespace, &webhooks.secret);
    let mut policy = Policy::for_service(&webhooks.service, &settings.namespace);
    policy.names.extend(webhooks.hosts.iter().cloned());
    let source = match webhooks.certificate {
        Certificate::Own => Source::Own { secret, policy },
        Certificate::CertManager => Source::CertManager { secret, names: policy.names },
        Certificate::Secret => Source::Secret(secret),
    };
    let name = &webhooks.configuration;
    let configurations = if keep_ca_bundle {
        vec![Configuration::validating(name), Configuration::mutating(name)]
    } else {
        Vec::new()
    };
    Ok(admission::Options { address, metrics, ..admission::Options::new(MANAGER, source, configurations) })
}

/// Is cancelled when somebody tells the process to stop.
fn stop_signals() -> std::io::Result<CancellationToken> {
    let stopped = CancellationToken::new();
    let (mut term, mut int) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let told = stopped.clone();
    tokio::spawn(async move {
        tokio::select! {
            _ = term.recv() => {}
            _ = int.recv() => {}
        }
        told.cancel();
    });
    Ok(stopped)
}

#[cfg(test)]
mod tests {
    use engine::settings::{Flags, Profile, World, load};

    use super::*;

    fn configurations(keep_ca_bundle: bool) -> Vec<Configuration> {
        let env = |name: &str| (name == "OPERATOR_NAMESPACE").then(|| "n".to_string());
        let world = World { env: &env, namespace_file: "/nowhere".into() };
        let settings = load(&Profile::new("gpu-scheduler", SCHEDULER), &Flags::default(), &world).unwrap();
        admission_options(&settings, keep_ca_bundle, AdmissionMetrics::default()).unwrap().configurations
    }

    #[test]
    fn the_api_server_is_told_to_trust_both_webhooks_unless_the_user_does_that() {
        let name = "gpu-scheduler-webhook";
        assert_eq!(configurations(true), [Configuration::validating(name), Configuration::mutating(name)]);
        assert_eq!(configurations(false), []);
    }
}
