//! The GPU scheduler as its users install and use it: the commands of its chart's text, pods that land where their map says, and
//! what must hold when things go wrong.
//!
//! One story on the shared rig: the scheduler's webhook belongs to all namespaces, and installing it takes longest.

#![allow(clippy::expect_used, clippy::unwrap_used, clippy::panic, reason = "this file is a test")]

mod chart;
mod conflict;
mod fake_node;
mod killed;
mod load;
mod stateful_set;

use anyhow::{Context, Result};
use e2e::Kubectl;
use rig::Rig;

use chart::Chart;
use load::Load;

#[tokio::test(flavor = "multi_thread")]
async fn pods_land_as_mapped_whatever_happens_to_the_scheduler_and_its_webhook() -> Result<()> {
    let rig = Rig::shared().await?;
    let client = rig.client().await?;
    let kubectl = Kubectl::in_fresh_namespace(rig, "gpu").await?;
    let chart = Chart::new(rig)?;
    let story = async {
        chart.is_checked_before_anything_is_installed()?;
        chart.install_the_scheduler_alone()?;
        chart.turn_the_webhook_on()?;

        let load = Load::start(client.clone(), kubectl.namespace());
        chart.change_the_certificate()?;
        stateful_set::lands_as_mapped(&kubectl)?;
        stateful_set::is_refused_with_line_and_column(&kubectl)?;
        conflict::a_second_pod_waits_for_the_device(&kubectl)?;
        stateful_set::is_checked_from_inside(&chart, &kubectl)?;
        chart.the_new_certificate_is_served()?;
        load.was_served_without_a_failure().await?;

        killed::nothing_is_lost_or_given_twice(rig, client, &kubectl).await?;
        chart.leave_the_certificate_to_the_webhook(&kubectl)?;
        chart.uninstall()
    };
    story.await.with_context(|| chart.what_it_says())
}
