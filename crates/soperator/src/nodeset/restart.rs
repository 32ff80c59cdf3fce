//! `soperator nodeset restart`: replaces all workers without ending a job.
//!
//! As `kubectl rollout restart` does: an annotation of the pods changes, which makes a new revision; the set's own update
//! strategy does the rest.

use std::io::Write;

use api::{nebius, slinky};
use engine::error::chain;
use engine::objects;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::Target;
use super::find::{self, Found};
use super::set::Set;
use crate::cli::Error;
use crate::place::Place;

/// The same as kubectl writes.
const RESTARTED_AT: &str = "kubectl.kubernetes.io/restartedAt";
/// Who writes it.
const MANAGER: &str = "soperator-nodeset-restart";

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    target: Target,
}

/// Asks for a restart.
pub(super) async fn run(args: &Args, out: &mut impl Write) -> Result<(), Error> {
    let place = Place::find(args.target.namespace.as_deref()).await?;
    let found = find::find(&place, &args.target).await?;
    let set = found.set();
    if set.is_deleted {
        return Err(Error::Refused(format!(
            "{} is being deleted; its workers are not replaced",
            set.title()
        )));
    }
    // Whole seconds, as kubectl writes it.
    let now = Timestamp::from_second(Timestamp::now().as_second())
        .map_err(|error| Error::Bug(chain(&error)))?
        .to_string();
    let written = match &found {
        Found::Nebius(set) => {
            objects::change_spec::<nebius::NodeSet>(&place.client, MANAGER, set, &of_nebius(&now)).await
        }
        Found::Slinky(set) => {
            objects::change_spec::<slinky::NodeSet>(&place.client, MANAGER, set, &of_slinky(&now)).await
        }
    };
    written.map_err(|error| {
        Error::Refused(format!("{} could not be changed: {}", set.title(), chain(&error)))
    })?;
    writeln!(out, "{}", answer(&set))?;
    Ok(())
}

fn of_nebius(now: &str) -> Value {
    json!({ "workerAnnotations": { RESTARTED_AT: now } })
}

fn of_slinky(now: &str) -> Value {
    json!({ "template": { "metadata": { "annotations": { RESTARTED_AT: now } } } })
}

/// What happens now.
fn answer(set: &Set) -> String {
    let update = &set.update;
    let rest = if update.on_delete {
        "its strategy is OnDelete, so each worker is replaced when somebody deletes its pod".into()
    } else if update.is_paused {
        "its update is paused, so nothing is replaced until it is not".into()
    } else if update.stands_still() {
        "its maxUnavailable is 0, so nothing is replaced until it is 1 or more".into()
    } else {
        let from = match update.partition {
            0 => String::new(),
            partition => format!(" from ordinal {partition} on"),
        };
        format!(
            "each worker{from} is drained and replaced when its jobs are over (maxUnavailable is {}); \
             see `soperator nodeset status {} -n {}`",
            update.max_unavailable, set.name, set.namespace
        )
    };
    format!("{} is restarted: {rest}", set.title())
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

    use super::*;

    fn set(change: impl FnOnce(&mut nebius::NodeSet)) -> Set {
        let text = std::fs::read_to_string("../../examples/api/slurm.nebius.ai/nodeset.yaml").unwrap();
        let mut set: nebius::NodeSet = serde_saphyr::from_str(&text).unwrap();
        set.metadata.name = Some("gpu".into());
        set.metadata.namespace = Some("a".into());
        set.spec.max_unavailable = amount("20%");
        change(&mut set);
        Set::from(&set)
    }

    fn amount(text: &str) -> IntOrString {
        IntOrString::String(text.into())
    }

    #[test]
    fn the_answer_says_what_happens_or_why_nothing_does() {
        assert_eq!(
            answer(&set(|_| {})),
            "NodeSet a/gpu of slurm.nebius.ai is restarted: each worker is drained and replaced when its jobs are over \
             (maxUnavailable is 20%); see `soperator nodeset status gpu -n a`"
        );
        assert!(
            answer(&set(|set| set.spec.update_partition = Some(2))).contains("each worker from ordinal 2 on")
        );
        assert!(answer(&set(|set| set.spec.update_paused = Some(true))).contains("paused"));
        let on_delete = Some(nebius::NodeSetUpdateStrategy::OnDelete);
        assert!(
            answer(&set(|set| set.spec.update_strategy = on_delete)).contains("somebody deletes its pod")
        );
        assert!(answer(&set(|set| set.spec.max_unavailable = amount("0%"))).contains("is 0"));
    }
}
