//! What became of each object last, for `/debug/state`.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use parking_lot::Mutex;
use serde::Serialize;
use serde_json::Value;

use crate::key::Key;
use crate::settings::Time;

/// Objects that are remembered; beyond it, the ones that were worked on longest ago are forgotten.
const MOST: usize = 10_000;

/// The last result of one object.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LastResult {
    /// When it ended.
    pub at: Timestamp,
    /// How long it took.
    pub took: Time,
    /// `ok`, or the category of the error.
    pub result: String,
    /// What went wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// When it runs again at the latest, even if nothing changes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub again_after: Option<Time>,
}

#[derive(Debug, Default, Serialize)]
struct Entry {
    #[serde(flatten)]
    last: Option<LastResult>,
    #[serde(skip_serializing_if = "Option::is_none")]
    plan: Option<Value>,
}

impl Entry {
    fn at(&self) -> Timestamp {
        self.last.as_ref().map_or(Timestamp::MAX, |last| last.at)
    }
}

/// The last result of every object of every controller. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Results {
    entries: Arc<Mutex<BTreeMap<(&'static str, Key), Entry>>>,
}

impl Results {
    /// Notes what became of an object.
    pub fn note(&self, controller: &'static str, key: &Key, last: LastResult) {
        self.change(controller, key, |entry| entry.last = Some(last));
    }

    /// Notes what a controller is about to do with an object. Whoever calls this leaves secrets out.
    pub fn plan(&self, controller: &'static str, key: &Key, plan: Value) {
        self.change(controller, key, |entry| entry.plan = Some(plan));
    }

    /// Forgets an object that is gone.
    pub fn forget(&self, controller: &'static str, key: &Key) {
        self.entries.lock().remove(&(controller, key.clone()));
    }

    fn change(&self, controller: &'static str, key: &Key, change: impl FnOnce(&mut Entry)) {
        let mut entries = self.entries.lock();
        change(entries.entry((controller, key.clone())).or_default());
        if entries.len() > MOST {
            let oldest = entries.iter().min_by_key(|(_, entry)| entry.at()).map(|(id, _)| id.clone());
            if let Some(oldest) = oldest {
                entries.remove(&oldest);
            }
        }
    }

    /// Controller to object to result.
    pub(crate) fn json(&self) -> Value {
        let entries = self.entries.lock();
        let mut controllers: BTreeMap<&str, BTreeMap<String, &Entry>> = BTreeMap::new();
        for ((controller, key), entry) in entries.iter() {
            controllers.entry(controller).or_default().insert(key.to_string(), entry);
        }
        serde_json::to_value(controllers).unwrap_or(Value::Null)
    }
}

impl LastResult {
    /// A result that ended now.
    pub fn now(result: &str, message: Option<String>, took: Duration, again: Option<Duration>) -> Self {
        Self {
            at: Timestamp::now(),
            took: Time(took),
            result: result.to_string(),
            message,
            again_after: again.map(Time),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ok() -> LastResult {
        LastResult::now("ok", None, Duration::from_millis(5), None)
    }

    #[test]
    fn the_last_result_and_plan_of_each_object_are_shown() {
        let results = Results::default();
        let key = Key::new("ns", "a");
        results.note("nodeset", &key, ok());
        results.plan("nodeset", &key, serde_json::json!({ "create": 2 }));
        let failed =
            LastResult::now("conflict", Some("too bad".into()), Duration::ZERO, Some(Duration::from_secs(3)));
        results.note("nodeset", &key, failed);
        results.note("topology", &Key::cluster_scoped("t"), ok());
        let shown = results.json();
        let entry = &shown["nodeset"]["ns/a"];
        assert_eq!((&entry["result"], &entry["againAfter"]), (&"conflict".into(), &"3s".into()), "{shown}");
        assert_eq!(entry["plan"]["create"], 2, "{shown}");
        assert_eq!(shown["topology"]["t"]["result"], "ok", "{shown}");
        results.forget("nodeset", &key);
        assert!(results.json().get("nodeset").is_none());
    }

    #[test]
    fn memory_is_bounded_and_the_newest_stay() {
        let results = Results::default();
        for number in 0..=MOST {
            let mut last = ok();
            last.at = Timestamp::from_second(i64::try_from(number).unwrap()).unwrap();
            results.note("c", &Key::cluster_scoped(&format!("{number}")), last);
        }
        let shown = results.json();
        assert_eq!(shown["c"].as_object().unwrap().len(), MOST);
        assert!(shown["c"].get("0").is_none() && shown["c"].get(MOST.to_string()).is_some());
    }
}
