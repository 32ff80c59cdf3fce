//! Nodes, as the REST API writes them.

use serde::Deserialize;
use serde_json::{Map, Value};

use super::{Csv, Record, Text, list};
use crate::{Interner, Node, NodeLoad, NodeState, NodeUpdate, Number};

#[derive(Default, Deserialize)]
#[serde(default)]
struct Wire<'a> {
    #[serde(borrow)]
    name: Text<'a>,
    state: NodeState,
    #[serde(borrow)]
    reason: Text<'a>,
    reason_changed_at: Number,
    #[serde(borrow)]
    reason_set_by_user: Text<'a>,
    #[serde(borrow)]
    comment: Text<'a>,
    #[serde(borrow)]
    extra: Text<'a>,
    #[serde(borrow)]
    address: Text<'a>,
    #[serde(borrow)]
    hostname: Text<'a>,
    #[serde(borrow)]
    partitions: Csv<'a>,
    #[serde(borrow)]
    features: Csv<'a>,
    #[serde(borrow)]
    active_features: Csv<'a>,
    #[serde(borrow)]
    gres: Text<'a>,
    #[serde(borrow)]
    gres_used: Text<'a>,
    #[serde(borrow)]
    tres: Text<'a>,
    #[serde(borrow)]
    tres_used: Text<'a>,
    #[serde(borrow)]
    topology: Text<'a>,
    #[serde(borrow)]
    reservation: Text<'a>,
    #[serde(borrow)]
    instance_id: Text<'a>,
    #[serde(borrow)]
    instance_type: Text<'a>,
    #[serde(borrow)]
    version: Text<'a>,
    cpus: Number,
    effective_cpus: Number,
    alloc_cpus: Number,
    real_memory: Number,
    specialized_memory: Number,
    alloc_memory: Number,
    boot_time: Number,
    slurmd_start_time: Number,
    free_mem: Number,
    cpu_load: Number,
    last_busy: Number,
}

impl Record for Node {
    const LIST: &'static str = "nodes";

    fn decode(json: &[u8], interner: &mut Interner) -> Result<Self, serde_json::Error> {
        let wire: Wire<'_> = list::read(json)?;
        let mut text = |text: &str| interner.text(text);
        // Before v0.0.45 a node without a reason says "root" all the same.
        let (reason_user, reason_time) = if wire.reason.is_empty() {
            (Text::default(), 0)
        } else {
            (wire.reason_set_by_user, wire.reason_changed_at.or_zero())
        };
        Ok(Self {
            name: text(&wire.name),
            state: wire.state,
            reason: text(&wire.reason),
            reason_time,
            reason_user: text(&reason_user),
            comment: text(&wire.comment),
            extra: text(&wire.extra),
            address: text(&wire.address),
            hostname: text(&wire.hostname),
            partitions: text(&wire.partitions),
            features: text(&wire.features),
            active_features: text(&wire.active_features),
            gres: text(&wire.gres),
            gres_used: text(&wire.gres_used),
            tres: text(&wire.tres),
            tres_used: text(&wire.tres_used),
            topology: text(&wire.topology),
            reservation: text(&wire.reservation),
            instance_id: text(&wire.instance_id),
            instance_type: text(&wire.instance_type),
            version: text(&wire.version),
            cpus: wire.cpus.or_zero_u32(),
            effective_cpus: wire.effective_cpus.or_zero_u32(),
            alloc_cpus: wire.alloc_cpus.or_zero_u32(),
            real_memory: wire.real_memory.or_zero(),
            specialized_memory: wire.specialized_memory.or_zero(),
            alloc_memory: wire.alloc_memory.or_zero(),
            boot_time: wire.boot_time.or_zero(),
            slurmd_start_time: wire.slurmd_start_time.or_zero(),
            load: NodeLoad {
                free_memory: wire.free_mem,
                cpu_load: wire.cpu_load.or_zero_u32(),
                last_busy: wire.last_busy.or_zero(),
            },
        })
    }
}

/// The body of `POST node/{name}`.
pub fn encode_node_update(update: &NodeUpdate) -> Value {
    let NodeUpdate { state, reason, comment, extra, features, active_features, topology } = update;
    let mut body = Map::new();
    let mut put = |key: &str, value: Option<Value>| {
        if let Some(value) = value {
            body.insert(key.into(), value);
        }
    };
    put("state", state.map(|state| vec![state.name()].into()));
    put("reason", reason.clone().map(Into::into));
    put("comment", comment.clone().map(Into::into));
    put("extra", extra.clone().map(Into::into));
    put("features", features.clone().map(Into::into));
    put("features_act", active_features.clone().map(Into::into));
    put("topology_str", topology.clone().map(Into::into));
    body.into()
}

/// The body that changes all these nodes alike.
pub fn encode_nodes_update(names: &[&str], update: &NodeUpdate) -> Value {
    let mut body = encode_node_update(update);
    if let Value::Object(body) = &mut body {
        body.insert("name".into(), names.into());
    }
    body
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::NodeTarget;

    #[test]
    fn a_node_without_a_state_is_one_that_nobody_understands() {
        let node = Node::decode(br#"{"name": "a"}"#, &mut Interner::default()).unwrap();
        assert!(!node.state.is_understood());
    }

    #[test]
    fn an_update_sends_only_what_changes() {
        let update = NodeUpdate {
            state: Some(NodeTarget::Drain),
            reason: Some("disk".into()),
            ..NodeUpdate::default()
        };
        assert_eq!(encode_node_update(&update).to_string(), r#"{"reason":"disk","state":["DRAIN"]}"#);
        assert_eq!(encode_node_update(&NodeUpdate::default()).to_string(), "{}");
        let many = encode_nodes_update(&["a", "b"], &update).to_string();
        assert_eq!(many, r#"{"name":["a","b"],"reason":"disk","state":["DRAIN"]}"#);
    }
}
