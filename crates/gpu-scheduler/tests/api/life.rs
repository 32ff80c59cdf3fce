//! Quiet when nothing changes.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use engine::testing::{Injector, Schedule};
use serde_json::json;

use crate::world::World;

#[tokio::test]
async fn nothing_is_written_while_nothing_changes_and_each_reason_only_once() -> Result<()> {
    let world = World::new("quiet").await?;
    world.add_node("a").await?;
    let injector = Arc::new(Injector::new(Schedule::default()));
    let running = world.start_with(Some(injector.clone()), None).await?;
    for index in 0..5 {
        world.add_pod(&format!("w{index}-0"), "0=@a:0", json!({})).await?;
        world.add_pod(&format!("v{index}-0"), "0=@missing:0", json!({})).await?;
    }
    for index in 0..5 {
        world.told(&format!("v{index}-0"), "no node has the name").await?;
    }
    tokio::time::sleep(Duration::from_secs(3)).await;
    let settled = injector.writes().len();
    // One bind, and a condition for each of the others.
    assert_eq!(
        settled,
        10,
        "{:?}",
        injector.writes().iter().map(|write| write.call.to_string()).collect::<Vec<_>>()
    );
    world.change_node("a", json!({ "metadata": { "annotations": { "nobody": "cares" } } })).await?;
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(injector.writes().len(), settled);
    running.stop().await;
    Ok(())
}
