//! `soperator render`: every object that the operator would apply for a manifest, without a cluster.

use std::io::{Read, Write};
use std::path::PathBuf;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};

use crate::cli::Error;
use crate::desired::{self, OperatorArgs};

const AFTER_HELP: &str = "\
The objects are YAML documents in the order in which the operator applies them. What it draws at random (keys, passwords) is \
shown as a placeholder, so the same manifest always gives the same text. What it would learn from the cluster is taken to be \
there: claims, ConfigMaps and Secrets that the manifest names, and a slurmrestd in slurmctld's image.

Problems are lines `FILE:LINE: FIELD: MESSAGE` on standard error.

Exit codes: 0 done, 1 the manifest is wrong or cannot be read, 2 wrong arguments.

Example: helm template slurm ./helm/slurm-cluster | soperator render -f - -n slurm";

/// What is rendered.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// The manifest with the SlurmCluster and, if there are any, its NodeSets; - for standard input
    #[arg(long = "filename", short, value_name = "FILE")]
    file: PathBuf,
    /// The namespace of objects that name none
    #[arg(long, short, value_name = "NAMESPACE", default_value = "default")]
    namespace: String,
    #[command(flatten)]
    operator: OperatorArgs,
}

/// Prints the objects.
pub(crate) fn run(
    args: &Args,
    input: &mut impl Read,
    out: &mut impl Write,
    notes: &mut impl Write,
) -> Result<(), Error> {
    let defaults = args.operator.defaults();
    let manifest = desired::read(&args.file, &args.namespace, &defaults, input, notes)?;
    for (_, cluster) in &manifest.clusters {
        let mut objects: Vec<Value> = render::render(cluster, &desired::facts(cluster))
            .iter()
            .map(|rendered| shown(rendered.object.to_value()))
            .collect();
        // Stable: within a wave the order of the parts stays.
        objects.sort_by_key(|object| engine::apply::wave(object["kind"].as_str().unwrap_or_default()));
        for object in objects {
            let text = serde_saphyr::to_string(&object).map_err(|error| Error::Yaml(error.to_string()))?;
            write!(out, "---\n{}\n", text.trim_end())?;
        }
    }
    Ok(())
}

/// An object as people read it: without empty fields, and a Secret of text as text.
fn shown(mut object: Value) -> Value {
    remove_nulls(&mut object);
    if object["kind"] == "Secret" {
        reveal(&mut object);
    }
    object
}

/// Placeholders and configuration files are text; what is not stays as it is.
fn reveal(secret: &mut Value) {
    let Some(Value::Object(data)) = secret.get_mut("data").map(Value::take) else { return };
    let (mut text, mut rest) = (Map::new(), Map::new());
    for (name, value) in data {
        let decoded = value
            .as_str()
            .and_then(|base64| STANDARD.decode(base64).ok())
            .and_then(|bytes| String::from_utf8(bytes).ok());
        match decoded {
            Some(decoded) => text.insert(name, decoded.into()),
            None => rest.insert(name, value),
        };
    }
    let Value::Object(fields) = secret else { return };
    fields.remove("data");
    if !rest.is_empty() {
        fields.insert("data".into(), rest.into());
    }
    if !text.is_empty() {
        fields.insert("stringData".into(), text.into());
    }
}

fn remove_nulls(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.retain(|_, value| !value.is_null());
            map.values_mut().for_each(remove_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(remove_nulls),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    const EXAMPLES: &str = "../../examples/api/slurm.nebius.ai";

    fn operator() -> OperatorArgs {
        #[derive(clap::Parser)]
        struct Only {
            #[command(flatten)]
            operator: OperatorArgs,
        }
        <Only as clap::Parser>::parse_from(["x"]).operator
    }

    fn rendered(file: &str, input: &str) -> (Result<(), Error>, String, String) {
        let args = Args { file: file.into(), namespace: "slurm".into(), operator: operator() };
        let (mut out, mut notes) = (Vec::new(), Vec::new());
        let result = run(&args, &mut input.as_bytes(), &mut out, &mut notes);
        (result, String::from_utf8(out).unwrap(), String::from_utf8(notes).unwrap())
    }

    fn example(name: &str) -> String {
        std::fs::read_to_string(Path::new(EXAMPLES).join(name)).unwrap()
    }

    fn documents(text: &str) -> Vec<Value> {
        let parts = text.split("---\n").filter(|part| !part.is_empty());
        parts.map(|part| serde_saphyr::from_str(part).unwrap()).collect()
    }

    #[test]
    fn every_object_is_a_document_in_the_order_of_apply_and_twice_the_same() {
        for file in ["slurmcluster.yaml", "full/slurmcluster.yaml"] {
            let (result, out, notes) = rendered(&format!("{EXAMPLES}/{file}"), "");
            assert!(result.is_ok(), "{notes}");
            let documents = documents(&out);
            assert!(documents.len() > 10, "{out}");
            // One cluster after another.
            let cluster = |object: &Value| object["metadata"]["labels"]["app.kubernetes.io/instance"].clone();
            for objects in documents.chunk_by(|one, other| cluster(one) == cluster(other)) {
                let waves: Vec<u8> = objects
                    .iter()
                    .map(|object| engine::apply::wave(object["kind"].as_str().unwrap()))
                    .collect();
                assert!(waves.len() > 10 && waves.is_sorted(), "{waves:?}");
            }
            assert!(documents.iter().all(|object| object["metadata"]["namespace"] == "slurm"), "{out}");
            assert_eq!(rendered(&format!("{EXAMPLES}/{file}"), "").1, out);
        }
    }

    #[test]
    fn no_secret_is_drawn_and_each_key_is_named() {
        let (_, out, _) = rendered("-", &example("slurmcluster.yaml"));
        let munge =
            documents(&out).into_iter().find(|object| object["metadata"]["name"] == "slurm1-munge").unwrap();
        assert_eq!(munge["stringData"]["munge.key"], "<made by the operator>");
        assert_eq!(munge["data"], Value::Null);
    }

    #[test]
    fn what_is_wrong_is_told_with_its_line_and_nothing_is_rendered() {
        let bad = example("slurmcluster.yaml").replace(
            "k8sNodeFilterName: anywhere\n      slurmctld:",
            "k8sNodeFilterName: nowhere\n      slurmctld:",
        );
        let (result, out, notes) = rendered("-", &bad);
        assert!(matches!(result, Err(Error::Invalid(1))), "{result:?} {notes}");
        assert_eq!(out, "");
        let line = bad.lines().position(|line| line.contains("nowhere")).unwrap() + 1;
        let start = format!("<stdin>:{line}: spec.slurmNodes.controller.k8sNodeFilterName: ");
        assert!(notes.starts_with(&start), "{notes}");
    }

    #[test]
    fn a_file_without_a_cluster_is_refused() {
        let (result, ..) = rendered("-", &example("topologyconfig.yaml"));
        assert_eq!(result.unwrap_err().to_string(), "<stdin> holds no SlurmCluster");
    }
}
