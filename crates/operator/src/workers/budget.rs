//! The PodDisruptionBudget of a set: no pod with the label that guards it is evicted.
//!
//! Our finalizer holds it as long as the set has pods. When a set is deleted in the foreground, or its whole namespace is, the
//! budget is deleted at once while pods wait for their jobs; nothing could make it again in time, and in a namespace that ends
//! nothing at all. One that is being deleted guards as before.

use engine::apply::DesiredObject;
use engine::cache::Cache;
use engine::view::{MetaView, PodView};
use engine::{Key, finalizer};
use k8s_openapi::api::policy::v1::{PodDisruptionBudget, PodDisruptionBudgetSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta, OwnerReference};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::Resource;

use super::Keys;
use super::execute::is_conflict;
use crate::context::Context;
use crate::error::Error;

/// Holds a budget until its set has no pods any more.
pub const FINALIZER: &str = "slurm.nebius.ai/guards-pods";

/// More pods than there can be.
///
/// Not `maxUnavailable: 0`: the disruption controller would count from the set's `scale`. Where `replicas` was just lowered and
/// pods wait for their jobs, it would find more pods than it expects, and let the surplus go, jobs and all.
const ALL: i32 = i32::MAX;

/// Its name.
fn name(set: &str, keys: &Keys) -> String {
    format!("{set}{}", keys.budget_suffix)
}

/// The budget of a set.
pub(super) fn desired(
    namespace: &str,
    set: &str,
    keys: &Keys,
    mut selector: LabelSelector,
) -> Result<DesiredObject, serde_json::Error> {
    selector.match_labels.get_or_insert_default().insert(keys.protect.into(), "true".into());
    DesiredObject::new(&PodDisruptionBudget {
        metadata: ObjectMeta {
            namespace: Some(namespace.into()),
            name: Some(name(set, keys)),
            finalizers: Some(vec![FINALIZER.into()]),
            ..ObjectMeta::default()
        },
        spec: Some(PodDisruptionBudgetSpec {
            min_available: Some(IntOrString::Int(ALL)),
            selector: Some(selector),
            ..PodDisruptionBudgetSpec::default()
        }),
        status: None,
    })
}

/// What came of letting a budget go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Released {
    /// There is nothing to let go, or not yet.
    Nothing,
    /// It is done, and the cache will tell.
    Done,
    /// It is not as it was seen.
    Again,
}

/// Lets the budget of a set go, if `may_go` says so of it. One of another owner is left alone.
pub(super) async fn release(
    context: &Context,
    set: &Key,
    uid: &str,
    keys: &Keys,
    may_go: impl FnOnce(&MetaView<PodDisruptionBudget>) -> bool,
) -> Result<Released, Error> {
    let key = Key::new(&set.namespace, &name(&set.name, keys));
    let Some(budget) = context.caches.budgets.get(&key) else { return Ok(Released::Nothing) };
    // Where the set left all that it owned behind, nobody owns it.
    let owners = budget.metadata.owner_references.as_deref().unwrap_or_default();
    if !finalizer::has(&budget.metadata, FINALIZER)
        || !owners.iter().all(|owner| owner.uid == uid)
        || !may_go(&budget)
    {
        return Ok(Released::Nothing);
    }
    let_go(context, &budget).await
}

/// Lets the budget of a set go that is not there any more, when none of its pods is: somebody took the finalizer from the set.
pub(super) async fn release_left<K>(context: &Context, set: &Key, pods: &Cache<PodView>) -> Result<(), Error>
where
    K: Resource<DynamicType = ()>,
{
    let version = K::api_version(&());
    for budget in context.caches.budgets.list() {
        let meta = &budget.metadata;
        let is_of_set = |owner: &&OwnerReference| owner.api_version == version && owner.name == *set.name;
        if meta.namespace.as_deref() == Some(&*set.namespace)
            && meta.deletion_timestamp.is_some()
            && let Some(owner) = meta.owner_references.iter().flatten().find(is_of_set)
            && pods.owned_by(&owner.uid).is_empty()
        {
            let_go(context, &budget).await?;
        }
    }
    Ok(())
}

async fn let_go(context: &Context, budget: &MetaView<PodDisruptionBudget>) -> Result<Released, Error> {
    match finalizer::remove(&context.client, budget, FINALIZER).await {
        Ok(_) => Ok(Released::Done),
        Err(error) if is_conflict(&error) => Ok(Released::Again),
        Err(error) => {
            let name = budget.metadata.name.as_deref().unwrap_or_default();
            Err(Error::call(format!("PodDisruptionBudget {name} could not be let go"), error))
        }
    }
}
