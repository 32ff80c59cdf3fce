//! `soperator diff`: how a live cluster would change if the operator applied a manifest.

use std::io::{Read, Write};
use std::path::PathBuf;
use std::time::Duration;

use engine::client::{Cluster, Options};
use engine::error::chain;
use operator::slurmcluster::{Preview, preview};

use crate::cli::Error;
use crate::desired::{self, OperatorArgs};

const AFTER_HELP: &str = "\
The API server is asked by dry runs, in the name of the operator; nothing is written. Each object that would change is a block: its kind \
and name, then the fields, `-` before the old value and `+` before the new one. Values of Secrets are hidden. Pods of NodeSets are not \
among the objects: they follow by the rules of their set.

The images and the domain below must be those of the operator; else they differ.

Exit codes: 0 nothing differs, 1 something does, 2 there is no answer, or the arguments are wrong.";

/// How long the first lists may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// What is compared.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// The manifest with the SlurmCluster; - for standard input
    #[arg(long = "filename", short, value_name = "FILE")]
    file: PathBuf,
    /// The namespace of objects that name none; without it, that of the kubeconfig
    #[arg(long, short, value_name = "NAMESPACE")]
    namespace: Option<String>,
    #[command(flatten)]
    operator: OperatorArgs,
}

/// Prints the differences.
pub(crate) fn run(
    args: &Args,
    input: &mut impl Read,
    out: &mut impl Write,
    notes: &mut impl Write,
) -> Result<(), Error> {
    let no_diff = |error| Error::NoDiff(Box::new(error));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| no_diff(Error::Refused(format!("cannot start: {error}"))))?;
    let previews = runtime.block_on(look(args, input, notes)).map_err(no_diff)?;
    let mut differs = false;
    for preview in previews {
        differs |= write(&preview, out)?;
    }
    if differs { Err(Error::Differs) } else { Ok(()) }
}

async fn look(args: &Args, input: &mut impl Read, notes: &mut impl Write) -> Result<Vec<Preview>, Error> {
    let refused = |error: &dyn std::error::Error| Error::Refused(chain(error));
    let place = Cluster::find().await.map_err(|error| refused(&error))?;
    let namespace = args.namespace.clone().unwrap_or_else(|| place.default_namespace().into());
    let defaults = args.operator.defaults();
    let manifest = desired::read(&args.file, &namespace, &defaults, input, notes)?;
    let client = place.connect(Options::default()).map_err(|error| refused(&error))?;
    place.reach(&client, Duration::from_secs(5)).await.map_err(|error| refused(&error))?;
    let mut previews = Vec::new();
    for (cluster, _) in manifest.clusters {
        let found = preview(client.clone(), cluster, defaults.clone(), PATIENCE).await;
        previews.push(found.map_err(|error| refused(&error))?);
    }
    Ok(previews)
}

/// Writes what would change; returns whether anything would.
fn write(preview: &Preview, out: &mut impl Write) -> std::io::Result<bool> {
    for difference in &preview.changed {
        write!(out, "{difference}")?;
    }
    for object in &preview.deleted {
        writeln!(out, "{object}\n- (the whole object)")?;
    }
    Ok(!preview.changed.is_empty() || !preview.deleted.is_empty())
}

#[cfg(test)]
mod tests {
    use engine::apply::Difference;

    use super::*;

    #[test]
    fn changes_and_deletions_are_blocks_and_count_as_differences() {
        let change = ("data.a".to_string(), Some("x".into()), Some("y".into()));
        let preview = Preview {
            changed: vec![Difference { object: "ConfigMap a/b".into(), changes: vec![change] }],
            deleted: vec!["Service a/c".into()],
        };
        let mut out = Vec::new();
        assert!(write(&preview, &mut out).unwrap());
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "ConfigMap a/b\n- data.a: \"x\"\n+ data.a: \"y\"\nService a/c\n- (the whole object)\n"
        );
        assert!(!write(&Preview::default(), &mut Vec::new()).unwrap());
    }
}
