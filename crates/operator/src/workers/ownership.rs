//! Owner references: given, taken and changed without touching those of others.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::Resource;
use serde_json::{Value, json};

/// The reference of a controller to its set: the set's deletion in the foreground waits for what it owns.
pub(super) fn of_set<K: Resource<DynamicType = ()>>(object: &K) -> OwnerReference {
    let reference = object.controller_owner_ref(&()).unwrap_or_default();
    OwnerReference { block_owner_deletion: Some(true), ..reference }
}

/// A patch that gives an object this controller. Owner references are merged by their uid.
pub(super) fn adopt(uid: &str, owner: &OwnerReference) -> Value {
    json!({ "metadata": { "uid": uid, "ownerReferences": [owner] } })
}

/// A patch that takes an owner from an object.
pub(super) fn release(uid: &str, owner_uid: &str) -> Value {
    json!({ "metadata": { "uid": uid, "ownerReferences": [taken(owner_uid)] } })
}

/// In a patch: this owner goes.
pub(super) fn taken(owner_uid: &str) -> Value {
    json!({ "$patch": "delete", "uid": owner_uid })
}
