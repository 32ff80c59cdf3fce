//! Reservations, as the REST API writes them.

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{Csv, Record, Text, list};
use crate::{Interner, Number, Reservation, ReservationRequest};

#[derive(Default, Deserialize)]
#[serde(default)]
struct Wire<'a> {
    #[serde(borrow)]
    name: Text<'a>,
    #[serde(borrow)]
    node_list: Csv<'a>,
    node_count: Number,
    start_time: Number,
    end_time: Number,
    #[serde(borrow)]
    flags: Csv<'a>,
    #[serde(borrow)]
    users: Csv<'a>,
    #[serde(borrow)]
    accounts: Csv<'a>,
    #[serde(borrow)]
    partition: Text<'a>,
}

impl Record for Reservation {
    const LIST: &'static str = "reservations";

    fn decode(json: &[u8], _: &mut Interner) -> Result<Self, serde_json::Error> {
        let wire: Wire<'_> = list::read(json)?;
        Ok(Self {
            name: wire.name.into(),
            nodes: wire.node_list.to_string(),
            node_count: wire.node_count.or_zero_u32(),
            start_time: wire.start_time.or_zero(),
            end_time: wire.end_time.or_zero(),
            flags: wire.flags.split(',').filter(|flag| !flag.is_empty()).map(Into::into).collect(),
            users: wire.users.to_string(),
            accounts: wire.accounts.to_string(),
            partition: wire.partition.into(),
        })
    }
}

/// The body of `POST reservation`.
pub fn encode_reservation(request: &ReservationRequest) -> Value {
    let ReservationRequest { name, nodes, start_time, duration, flags, users, accounts, partition, comment } =
        request;
    let mut body = Map::new();
    let mut put = |key: &str, value: Option<Value>| {
        if let Some(value) = value {
            body.insert(key.into(), value);
        }
    };
    let some = |list: &Vec<String>| (!list.is_empty()).then(|| list.clone().into());
    put("name", Some(name.clone().into()));
    put("node_list", nodes.clone().map(Into::into));
    put("start_time", start_time.map(|time| encode_number(Number::Value(time))));
    put("duration", duration.map(encode_number));
    put("flags", some(flags));
    put("users", some(users));
    put("accounts", some(accounts));
    put("partition", partition.clone().map(Into::into));
    put("comment", comment.clone().map(Into::into));
    body.into()
}

pub(super) fn encode_number(number: Number) -> Value {
    json!({
        "set": number != Number::Unset,
        "infinite": number == Number::Infinite,
        "number": number.or_zero(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_maintenance_reservation_is_endless_and_leaves_jobs_alone() {
        let request = ReservationRequest::maintenance("m", "w-[0-1]", &["root"], 100);
        assert_eq!(
            encode_reservation(&request),
            json!({
                "name": "m", "node_list": "w-[0-1]", "users": ["root"], "flags": ["MAINT", "IGNORE_JOBS"],
                "start_time": {"set": true, "infinite": false, "number": 100},
                "duration": {"set": true, "infinite": true, "number": 0},
            })
        );
    }

    #[test]
    fn flags_are_read_from_a_list_and_from_a_text() {
        for flags in [r#"["MAINT", "IGNORE_JOBS"]"#, r#""MAINT,IGNORE_JOBS""#] {
            let json = format!(r#"{{"name": "m", "flags": {flags}}}"#);
            let found = Reservation::decode(json.as_bytes(), &mut Interner::default()).unwrap();
            assert_eq!(found.flags, ["MAINT", "IGNORE_JOBS"]);
        }
    }
}
