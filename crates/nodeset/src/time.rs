//! A point on the calendar.

use std::time::Duration;

/// Seconds since 1970, as Kubernetes writes times. 0 stands for "not known".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UnixTime(pub u64);

impl UnixTime {
    /// So much later.
    #[must_use]
    pub const fn plus(self, time: Duration) -> Self {
        Self(self.0.saturating_add(time.as_secs()))
    }

    /// How long it is from now until then; none if that is now or over.
    pub(crate) fn wait_until(self, then: Self) -> Option<Duration> {
        then.0.checked_sub(self.0).filter(|seconds| *seconds > 0).map(Duration::from_secs)
    }
}
