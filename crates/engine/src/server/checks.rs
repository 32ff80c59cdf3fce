//! Named checks: whether the process is alive, and whether it is ready.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use std::sync::Arc;

use parking_lot::RwLock;

use crate::cache::{Cache, Cached};
use crate::client::Watches;
use crate::optional_kinds::OptionalKinds;

type Check = Box<dyn Fn() -> Result<(), String> + Send + Sync>;
type Named = RwLock<BTreeMap<String, Check>>;

/// The checks of a process. Cheap to clone; checks may be added at any time.
#[derive(Clone, Default)]
pub struct Checks {
    live: Arc<Named>,
    ready: Arc<Named>,
}

impl fmt::Debug for Checks {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = |checks: &Named| checks.read().keys().cloned().collect::<Vec<_>>();
        out.debug_struct("Checks")
            .field("live", &names(&self.live))
            .field("ready", &names(&self.ready))
            .finish()
    }
}

impl Checks {
    /// The process is alive only while this holds; when it does not, the kubelet starts it again. Must be quick.
    pub fn live(&self, name: &str, check: impl Fn() -> Result<(), String> + Send + Sync + 'static) {
        self.live.write().insert(name.to_string(), Box::new(check));
    }

    /// The process is ready only while this holds. Must be quick.
    pub fn ready(&self, name: &str, check: impl Fn() -> Result<(), String> + Send + Sync + 'static) {
        self.ready.write().insert(name.to_string(), Box::new(check));
    }

    /// The process is ready only when this cache is.
    pub fn cache<V: Cached>(&self, name: &str, cache: &Cache<V>)
    where
        V::DynamicType: Clone + fmt::Debug + Default + Eq + std::hash::Hash,
    {
        let cache = cache.clone();
        self.ready(&format!("cache {name}"), move || {
            if cache.is_ready() { Ok(()) } else { Err("the first list is not complete".into()) }
        });
    }

    /// The process is alive only while its watches are: not if one hears nothing, however often it is opened anew.
    pub fn watches(&self, watches: &Watches) {
        let watches = watches.clone();
        self.live("watches", move || watches.check());
    }

    /// The process is ready only when it knows which optional kinds are served.
    pub fn optional_kinds(&self, kinds: &OptionalKinds) {
        let kinds = kinds.clone();
        self.ready("optional kinds", move || {
            if kinds.is_ready() { Ok(()) } else { Err("discovery has not answered".into()) }
        });
    }

    pub(super) fn run_live(&self) -> Report {
        Report::of(&self.live)
    }

    pub(super) fn run_ready(&self) -> Report {
        Report::of(&self.ready)
    }
}

/// What all checks said, sorted by name.
pub(super) struct Report(Vec<(String, Result<(), String>)>);

impl Report {
    fn of(checks: &Named) -> Self {
        Self(checks.read().iter().map(|(name, check)| (name.clone(), check())).collect())
    }

    pub(super) fn is_ok(&self) -> bool {
        self.0.iter().all(|(_, result)| result.is_ok())
    }

    /// In the form of Kubernetes' own programs. All checks if `verbose`, else only those that fail.
    pub(super) fn text(&self, endpoint: &str, verbose: bool) -> String {
        let mut text = String::new();
        for (name, result) in &self.0 {
            // Writing to a String cannot fail.
            let _ = match result {
                Ok(()) if verbose => writeln!(text, "[+]{name} ok"),
                Ok(()) => Ok(()),
                Err(why) => writeln!(text, "[-]{name} failed: {why}"),
            };
        }
        match (self.is_ok(), verbose) {
            (true, false) => text.push_str("ok"),
            (true, true) => text.push_str(&format!("{endpoint} check passed\n")),
            (false, _) => text.push_str(&format!("{endpoint} check failed\n")),
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fails_is_named_and_the_rest_only_if_asked() {
        let checks = Checks::default();
        assert_eq!(checks.run_ready().text("readyz", false), "ok");
        checks.ready("b", || Ok(()));
        checks.ready("a", || Err("no luck".into()));
        let report = checks.run_ready();
        assert!(!report.is_ok());
        assert_eq!(report.text("readyz", false), "[-]a failed: no luck\nreadyz check failed\n");
        assert_eq!(report.text("readyz", true), "[-]a failed: no luck\n[+]b ok\nreadyz check failed\n");
        assert!(checks.run_live().is_ok(), "readiness is not life");
    }
}
