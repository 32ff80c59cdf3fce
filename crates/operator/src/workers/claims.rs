//! Claims: made, and given owners.

use engine::Key;
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::{Resource as _, ResourceExt as _};
use nodeset::ClaimOwner;
use serde_json::{Value, json};

use super::execute::{Execution, Step, is_conflict};
use super::{WorkerSet, facts, ownership};
use crate::error::Error;

impl<S: WorkerSet> Execution<'_, S> {
    /// Makes a claim.
    pub(super) async fn create_claim(
        &self,
        name: &str,
        template: &str,
        ordinal: u32,
        owner: &ClaimOwner,
    ) -> Result<Step, Error> {
        let Some(mut claim) = self.set.claim(template, ordinal) else { return Ok(Step::Again) };
        let meta = claim.meta_mut();
        meta.name = Some(name.into());
        meta.namespace = Some(self.key.namespace.to_string());
        meta.owner_references = self.claim_owner(owner).map(|owner| vec![owner]);
        match engine::objects::create(&self.context.client, crate::MANAGER, &claim).await {
            Ok(made) => {
                let version = made.resource_version().unwrap_or_default();
                self.context.caches.claims.wrote(Key::of(&made), &version, self.uid);
                Ok(Step::Done)
            }
            // The cache is behind, and will tell.
            Err(error) if is_conflict(&error) => Ok(Step::Again),
            Err(error) => Err(Error::call(format!("claim {name} could not be made"), error)),
        }
    }

    /// Makes this the only owner of ours that the claim has.
    pub(super) async fn own_claim(&self, name: &str, uid: &str, owner: &ClaimOwner) -> Result<Step, Error> {
        let key = Key::new(&self.key.namespace, name);
        let wanted = self.claim_owner(owner);
        let seen = self.seen.claims.iter().find(|claim| facts::name(&***claim) == name);
        let known = seen.map(|claim| claim.owner_references().to_vec()).unwrap_or_default();
        let patch = json!({
            "metadata": { "uid": uid, "ownerReferences": owner_changes(&known, self.uid, wanted.as_ref()) },
        });
        self.patched(
            engine::objects::patch::<PersistentVolumeClaim>(&self.context.client, &key, &patch).await,
            || format!("the owner of claim {name} could not be changed"),
            |version| self.context.caches.claims.wrote(key.clone(), version, self.uid),
        )
    }

    fn claim_owner(&self, owner: &ClaimOwner) -> Option<OwnerReference> {
        match owner {
            ClaimOwner::Nobody => None,
            ClaimOwner::Set => Some(ownership::of_set(self.set.object())),
            ClaimOwner::Pod { name, uid } => Some(OwnerReference {
                api_version: "v1".into(),
                kind: "Pod".into(),
                name: name.clone(),
                uid: uid.clone(),
                controller: Some(true),
                block_owner_deletion: Some(true),
            }),
        }
    }
}

/// The entries of a patch that leave this as the only owner of ours: the set, or a pod.
fn owner_changes(known: &[OwnerReference], set_uid: &str, wanted: Option<&OwnerReference>) -> Vec<Value> {
    let ours = known.iter().filter(|owner| owner.uid == set_uid || owner.kind == "Pod");
    let goes = ours.filter(|owner| wanted.is_none_or(|wanted| wanted.uid != owner.uid));
    goes.map(|owner| ownership::taken(&owner.uid)).chain(wanted.map(|owner| json!(owner))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owners_of_others_stay_and_of_ours_only_the_wanted_one() {
        let reference = |kind: &str, uid: &str| OwnerReference {
            kind: kind.into(),
            uid: uid.into(),
            ..OwnerReference::default()
        };
        let known = [reference("NodeSet", "set"), reference("Database", "other")];
        let pod = reference("Pod", "pod");
        let to_pod = owner_changes(&known, "set", Some(&pod));
        assert_eq!(to_pod, [ownership::taken("set"), json!(pod)]);
        assert_eq!(owner_changes(std::slice::from_ref(&pod), "set", None), [ownership::taken("pod")]);
        let same = owner_changes(std::slice::from_ref(&pod), "set", Some(&pod));
        assert_eq!(same, [json!(pod)]);
    }
}
