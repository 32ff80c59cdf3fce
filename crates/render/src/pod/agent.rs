//! `slurm-agent`: how it gets into a pod, and how it is asked whether a daemon works.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, ExecAction, Probe, SecurityContext, TCPSocketAction};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use slurm::agent::{PROGRAM, PROGRAM_DIR, PROGRAM_IN_IMAGE, command};

use super::Built;
use super::container::{Limits, pull_policy, resources};
use super::mount::{self, Mount};

/// Container that copies the program into the directory that the others share. In a pod with CPUs of its own it asks for one of
/// them, which costs nothing, because init containers run before the others.
pub(super) fn install(image: &str, limits: Limits) -> Built {
    let cpu = match limits {
        Limits::Equal => "1",
        Limits::WithoutCpu => "10m",
    };
    let amounts = BTreeMap::from([
        ("cpu".to_owned(), Quantity(cpu.into())),
        ("memory".to_owned(), Quantity("64Mi".into())),
    ]);
    let container = Container {
        name: "agent".into(),
        image: Some(image.to_owned()),
        image_pull_policy: Some(pull_policy(api::common::PullPolicy::IfNotPresent)),
        command: Some(vec![PROGRAM_IN_IMAGE.into(), command::INSTALL.into(), PROGRAM_DIR.into()]),
        resources: resources(&amounts, limits),
        security_context: Some(SecurityContext {
            allow_privilege_escalation: Some(false),
            ..SecurityContext::default()
        }),
        ..Container::default()
    };
    Built { container, mounts: vec![Mount { read_only: false, ..mount::agent_program() }] }
}

/// The command of a container with this role.
pub(super) fn run(role: &str) -> Vec<String> {
    vec![PROGRAM.into(), role.into()]
}

/// Seconds between two questions whether a daemon that has worked still does.
const PERIOD: i32 = 10;
/// Seconds between two questions whether a daemon works for the first time: users wait for it.
const STARTUP_PERIOD: i32 = 1;
/// Seconds that an answer may take on a busy machine.
const TIMEOUT: i32 = 5;

/// Asks whether the daemon works.
pub(super) fn readiness(role: &str) -> Probe {
    Probe {
        exec: Some(ExecAction { command: Some(vec![PROGRAM.into(), command::PROBE.into(), role.into()]) }),
        period_seconds: Some(PERIOD),
        timeout_seconds: Some(TIMEOUT),
        ..Probe::default()
    }
}

/// Asks more often until the daemon works for the first time. It must not fail for good, because that would kill the
/// container of a daemon that is only slow, or that waits for another.
pub(super) fn startup(role: &str) -> Probe {
    Probe { period_seconds: Some(STARTUP_PERIOD), failure_threshold: Some(i32::MAX), ..readiness(role) }
}

/// Asks whether somebody listens: all that is known about a program of the user's.
pub(super) fn listening(port: u16) -> Probe {
    Probe {
        tcp_socket: Some(TCPSocketAction { port: IntOrString::Int(port.into()), host: None }),
        period_seconds: Some(PERIOD),
        timeout_seconds: Some(TIMEOUT),
        ..Probe::default()
    }
}
