//! Licenses, as the REST API writes them.

use serde::Deserialize;

use super::{Record, Switch, Text, list};
use crate::{Interner, License, Number};

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
struct Wire<'a> {
    #[serde(borrow)]
    license_name: Text<'a>,
    total: Number,
    used: Number,
    free: Number,
    reserved: Number,
    remote: Switch,
}

impl Record for License {
    const LIST: &'static str = "licenses";

    fn decode(json: &[u8], _: &mut Interner) -> Result<Self, serde_json::Error> {
        let wire: Wire<'_> = list::read(json)?;
        Ok(Self {
            name: wire.license_name.into(),
            total: wire.total.or_zero(),
            used: wire.used.or_zero(),
            free: wire.free.or_zero(),
            reserved: wire.reserved.or_zero(),
            remote: wire.remote.0.unwrap_or(false),
        })
    }
}
