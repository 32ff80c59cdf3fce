//! One look at one set.

use api::slinky::NodeSet;
use engine::apply::Kind;
use engine::controller::Wake;
use engine::{Key, malformed};

use super::Memory;
use super::selector::PodSelector;
use super::set::SlinkySet;
use crate::context::Context;
use crate::error::Error;

/// Brings a set one step nearer to what its spec says.
pub async fn reconcile(context: &Context, memory: &Memory, key: Key) -> Result<Wake, Error> {
    let Some(object) = context.caches.slinky_node_sets.get(&key) else {
        memory.workers.forget::<NodeSet>(&key, &context.caches.slinky_pods).await?;
        memory.strays.forget(&key);
        memory.links.forget(&key);
        memory.told.forget(&key);
        return Ok(Wake::OnChange);
    };
    let set = match object.get() {
        Ok(set) => set,
        Err(invalid) => {
            let kind = Kind::erase::<NodeSet>(&());
            let (meta, error) = (&invalid.metadata, &invalid.error);
            malformed::report(&context.client, &context.events, crate::MANAGER, &kind, meta, error)
                .await
                .map_err(Error::Status)?;
            return Err(Error::Malformed(invalid.error.clone()));
        }
    };
    memory.told.tell(context, &key, set);
    let selector = PodSelector::of(set);
    let strays = memory.strays.find(&context.client, set, &selector).await;
    let strays = strays.map_err(|error| Error::call("pods to adopt cannot be looked for", error))?;
    let connection = memory.links.connection(context, set);
    let looked = SlinkySet::new(&context.caches, set, selector, connection, strays);
    let wake = memory.workers.sync(&looked).await?;
    Ok(memory.links.sooner(&key, wake))
}
