//! Objects that our types cannot read: valid for an older definition, perhaps. They stop nobody else, and users are told.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta};
use kube::Client;
use kube::api::{Api, DynamicObject, Patch, PatchParams};
use kube::core::ApiResource;
use serde_json::{Value, json};

use crate::condition;
use crate::events::{EventType, Events};

/// The condition that is False on such an object.
pub const VALID: &str = "Valid";
const REASON: &str = "Malformed";

/// Says on the object itself, by a condition and an event, that it cannot be read and why. Nothing is written if its
/// condition says so already. `manager` is that of the controller: its next status takes the condition away again.
pub async fn report(
    client: &Client,
    events: &Events,
    manager: &str,
    kind: &ApiResource,
    meta: &ObjectMeta,
    error: &str,
) -> Result<(), kube::Error> {
    let (namespace, name) =
        (meta.namespace.as_deref().unwrap_or_default(), meta.name.as_deref().unwrap_or_default());
    let api: Api<DynamicObject> = if namespace.is_empty() {
        Api::all_with(client.clone(), kind)
    } else {
        Api::namespaced_with(client.clone(), namespace, kind)
    };
    let Some(live) = api.get_opt(name).await? else { return Ok(()) };
    let mut conditions: Vec<Condition> =
        serde_json::from_value(live.data.pointer("/status/conditions").cloned().unwrap_or(Value::Null))
            .unwrap_or_default();
    let message = format!("the object cannot be read: {error}");
    if conditions
        .iter()
        .any(|known| known.type_ == VALID && known.reason == REASON && known.message == message)
    {
        return Ok(());
    }
    condition::set(
        &mut conditions,
        VALID,
        false,
        REASON,
        &message,
        live.metadata.generation,
        Timestamp::now(),
    );
    let body = json!({
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "metadata": { "name": name, "uid": meta.uid },
        "status": { "conditions": conditions },
    });
    api.patch_status(name, &PatchParams::apply(manager).force(), &Patch::Apply(&body)).await?;
    let reference = ObjectReference {
        api_version: Some(kind.api_version.clone()),
        kind: Some(kind.kind.clone()),
        name: meta.name.clone(),
        namespace: meta.namespace.clone(),
        uid: meta.uid.clone(),
        ..ObjectReference::default()
    };
    events.tell(reference, EventType::Warning, REASON, "Reconcile", &message);
    Ok(())
}
