//! Follows one object by name: no more rights than for that one, and no memory for the rest.

use std::fmt::Debug;
use std::time::Duration;

use futures::{Stream, StreamExt as _};
use kube::Resource;
use kube::api::Api;
use kube::runtime::{WatchStreamExt as _, watcher};
use serde::de::DeserializeOwned;

const FIRST_BACKOFF: Duration = Duration::from_millis(200);
const LONGEST_BACKOFF: Duration = Duration::from_secs(3);

/// The object now and after each change; none while it does not exist. Never ends.
pub(crate) fn follow<K>(api: Api<K>, name: &str) -> impl Stream<Item = Option<K>> + Send + use<K>
where
    K: Resource + Clone + Debug + DeserializeOwned + Send + 'static,
{
    let backoff = backon::ExponentialBuilder::default()
        .with_min_delay(FIRST_BACKOFF)
        .with_max_delay(LONGEST_BACKOFF)
        .with_jitter()
        .without_max_times();
    let name = name.to_string();
    watcher::watch_object(api, &name).backoff(watcher::ExponentialBackoff::from(backoff)).filter_map(
        move |event| {
            let event = event
                .inspect_err(|error| {
                    tracing::warn!(name, error = %crate::error::chain(error), "watch failed; trying again");
                })
                .ok();
            std::future::ready(event)
        },
    )
}
