//! The operator's pod, and its violent end.

use std::sync::{PoisonError, RwLock, RwLockWriteGuard};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow};
use rig::Rig;

use super::install::OPERATOR_NAMESPACE;
use crate::output_of;

const SELECTOR: &str = "app.kubernetes.io/name=soperator";

/// Tests share the operator. Who kills it has this shared until it works again; who needs it without a break has it alone.
static LIFE: RwLock<()> = RwLock::new(());

/// Until this is dropped no test kills the operator.
pub struct OperatorPeace {
    _alone: RwLockWriteGuard<'static, ()>,
}

impl OperatorPeace {
    /// Waits until an operator that was killed works again. Not for a test that has an [`OperatorKill`] itself.
    pub fn begin() -> Self {
        Self { _alone: LIFE.write().unwrap_or_else(PoisonError::into_inner) }
    }
}

/// The operator is killed at a random moment within a time; dropping this waits until that has happened.
pub struct OperatorKill(Option<JoinHandle<Result<()>>>);

impl OperatorKill {
    /// Kills it within this time from now.
    pub fn within(rig: &'static Rig, limit: Duration) -> Self {
        let after = limit.mul_f64(fastrand::f64());
        eprintln!("the operator is killed after {:.1} s", after.as_secs_f64());
        Self(Some(std::thread::spawn(move || {
            std::thread::sleep(after);
            let _life = LIFE.read().unwrap_or_else(PoisonError::into_inner);
            kill(rig)
                .and_then(|()| wait_ready(rig))
                .context("the operator was not killed, or did not come back")
        })))
    }

    /// Waits until it has been killed, and has come back.
    pub fn done(mut self) -> Result<()> {
        let thread = self.0.take().context("it is done")?;
        thread.join().map_err(|_| anyhow!("the thread that kills the operator panicked"))?
    }
}

impl Drop for OperatorKill {
    fn drop(&mut self) {
        if let Some(thread) = self.0.take() {
            let _ = thread.join();
        }
    }
}

/// Deletes its pod without a grace period: the process gets no signal that it could act upon.
pub(super) fn kill(rig: &Rig) -> Result<()> {
    let mut kubectl = rig.kubectl()?;
    kubectl.args(["--namespace", OPERATOR_NAMESPACE, "delete", "pod", "--selector", SELECTOR]);
    output_of(kubectl.args(["--grace-period=0", "--force", "--wait=false"]), None).map(drop)
}

/// Waits until its Deployment has a pod that is ready, and none that is not.
fn wait_ready(rig: &Rig) -> Result<()> {
    let mut kubectl = rig.kubectl()?;
    kubectl.args(["--namespace", OPERATOR_NAMESPACE, "rollout", "status", "deployment"]);
    output_of(kubectl.args(["--selector", SELECTOR, "--timeout", "120s"]), None).map(drop)
}

/// The end of its log.
pub(super) fn logs(rig: &Rig) -> Result<String> {
    let mut kubectl = rig.kubectl()?;
    kubectl.args(["--namespace", OPERATOR_NAMESPACE, "logs", "--selector", SELECTOR, "--tail", "25"]);
    output_of(&mut kubectl, None)
}
