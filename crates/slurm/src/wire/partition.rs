//! Partitions, as the REST API writes them.

use serde::Deserialize;

use super::{Csv, Record, Text, list};
use crate::{Interner, Number, Partition};

#[derive(Default, Deserialize)]
#[serde(default)]
struct Wire<'a> {
    #[serde(borrow)]
    name: Text<'a>,
    #[serde(borrow)]
    node_sets: Csv<'a>,
    #[serde(borrow)]
    nodes: Nodes<'a>,
    cpus: Cpus,
    #[serde(borrow)]
    partition: State<'a>,
    maximums: Maximums,
    defaults: Defaults,
    #[serde(borrow)]
    tres: Tres<'a>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Nodes<'a> {
    #[serde(borrow)]
    configured: Text<'a>,
    total: Number,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Cpus {
    total: Number,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct State<'a> {
    #[serde(borrow)]
    state: Csv<'a>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Maximums {
    time: Number,
    nodes: Number,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Defaults {
    time: Number,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Tres<'a> {
    #[serde(borrow)]
    configured: Text<'a>,
}

impl Record for Partition {
    const LIST: &'static str = "partitions";

    fn decode(json: &[u8], _: &mut Interner) -> Result<Self, serde_json::Error> {
        let wire: Wire<'_> = list::read(json)?;
        Ok(Self {
            name: wire.name.into(),
            state: wire.partition.state.to_string(),
            nodes: wire.nodes.configured.into(),
            node_sets: wire.node_sets.to_string(),
            total_nodes: wire.nodes.total.or_zero_u32(),
            total_cpus: wire.cpus.total.or_zero_u32(),
            max_time: wire.maximums.time,
            default_time: wire.defaults.time,
            max_nodes: wire.maximums.nodes,
            tres: wire.tres.configured.into(),
        })
    }
}
