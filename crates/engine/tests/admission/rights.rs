//! The rights that `docs/admission.md` names are enough.

use anyhow::Result;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding};
use kube::api::{Api, PostParams};
use serde_json::json;

use crate::place::{Place, SECRET, VALIDATE};

const GROUP: &str = "admissionregistration.k8s.io";

#[tokio::test(flavor = "multi_thread")]
async fn an_own_authority_needs_no_more_than_the_documented_rights() -> Result<()> {
    let place = Place::new("rights").await?;
    let (user, configuration) = (place.namespace.name(), place.configuration_name(0));
    let role: Role = serde_json::from_value(json!({
        "metadata": { "name": "admission" },
        "rules": [
            { "apiGroups": [""], "resources": ["secrets"], "verbs": ["create"] },
            {
                "apiGroups": [""], "resources": ["secrets"], "resourceNames": [SECRET],
                "verbs": ["get", "list", "watch", "update"],
            },
        ],
    }))?;
    let cluster_role: ClusterRole = serde_json::from_value(json!({
        "metadata": { "name": user },
        "rules": [{
            "apiGroups": [GROUP], "resourceNames": [configuration],
            "resources": ["validatingwebhookconfigurations", "mutatingwebhookconfigurations"],
            "verbs": ["get", "list", "watch", "patch"],
        }],
    }))?;
    let binding = |kind: &str, name: &str| {
        json!({
            "metadata": { "name": name },
            "subjects": [{ "kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": user }],
            "roleRef": { "kind": kind, "apiGroup": "rbac.authorization.k8s.io", "name": name },
        })
    };
    let (params, client) = (PostParams::default(), place.namespace.client());
    place.namespace.api().create(&params, &role).await?;
    let bound: RoleBinding = serde_json::from_value(binding("Role", "admission"))?;
    place.namespace.api().create(&params, &bound).await?;
    Api::all(client.clone()).create(&params, &cluster_role).await?;
    let bound: ClusterRoleBinding = serde_json::from_value(binding("ClusterRole", user))?;
    Api::all(client).create(&params, &bound).await?;

    let running = place.start_as(Some(user), place.options(place.own())).await?;
    place.register(0, running.address, VALIDATE).await?;
    place.until_asked().await?;
    place.create("w", "good").await?;
    Ok(())
}
