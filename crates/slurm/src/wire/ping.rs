//! Pings, as the REST API writes them.

use serde::Deserialize;

use super::{Record, Switch, Text, list};
use crate::{ControllerPing, Interner, Number};

#[derive(Default, Deserialize)]
#[serde(default)]
struct Wire<'a> {
    #[serde(borrow)]
    hostname: Text<'a>,
    responding: Switch,
    // Older versions have only these two.
    #[serde(borrow)]
    pinged: Text<'a>,
    #[serde(borrow)]
    mode: Text<'a>,
    primary: Switch,
    latency: Number,
}

impl Record for ControllerPing {
    const LIST: &'static str = "pings";

    fn decode(json: &[u8], _: &mut Interner) -> Result<Self, serde_json::Error> {
        let wire: Wire<'_> = list::read(json)?;
        Ok(Self {
            hostname: wire.hostname.into(),
            responding: wire.responding.0.unwrap_or_else(|| &*wire.pinged == "UP"),
            primary: wire.primary.0.unwrap_or_else(|| &*wire.mode == "primary"),
            latency: wire.latency.or_zero(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: &str) -> ControllerPing {
        ControllerPing::decode(json.as_bytes(), &mut Interner::default()).unwrap()
    }

    #[test]
    fn responding_wins_over_the_older_word() {
        assert!(!read(r#"{"responding": false, "pinged": "UP"}"#).responding);
        assert!(read(r#"{"responding": true, "pinged": "DOWN"}"#).responding);
    }

    #[test]
    fn older_answers_are_read() {
        let ping = read(r#"{"hostname": "c", "pinged": "UP", "mode": "primary"}"#);
        assert!(ping.responding && ping.primary);
        assert!(!read(r#"{"pinged": "DOWN"}"#).responding);
        assert!(!read("{}").responding, "silence is no answer");
    }
}
