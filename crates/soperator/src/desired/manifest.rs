//! Reads clusters and NodeSets from a file, and checks them as the API server and the operator would.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::path::Path;

use api::nebius::{NodeSet, SlurmCluster};
use manifests::{Remark, Validator};
use render::{Component, Defaults, Severity, ValidatedCluster, validate};
use serde_json::Value;

use crate::cli::Error;
use crate::validate as checks;

/// What a file holds.
#[derive(Debug, Default)]
pub(crate) struct Manifest {
    /// Each as it was written, with defaults filled in, and as it is rendered.
    pub(crate) clusters: Vec<(SlurmCluster, ValidatedCluster)>,
    pub(crate) node_sets: Vec<NodeSet>,
}

/// Reads and checks a file. What is wrong is told to `notes`, line by line, and is an error.
pub(crate) fn read(
    file: &Path,
    namespace: &str,
    defaults: &Defaults,
    input: &mut impl Read,
    notes: &mut impl Write,
) -> Result<Manifest, Error> {
    let (name, text) = checks::read(file, input)?;
    let found = RefCell::new(Manifest::default());
    let further = |api_version: &str, kind: &str, object: &Value| {
        let mut remarks = checks::as_admission(api_version, kind, object);
        let own = take(api_version, kind, object, namespace, defaults, &mut found.borrow_mut());
        let known: BTreeSet<String> = remarks.iter().map(|remark| remark.path.clone()).collect();
        // What admission has said about a field need not be said twice.
        remarks.extend(own.into_iter().filter(|remark| !known.contains(&remark.path)));
        remarks
    };
    let report =
        Validator::new().check_further(&text, &further).map_err(|error| Error::Bug(error.to_string()))?;
    for finding in &report.findings {
        let _ = writeln!(notes, "{name}:{finding}");
    }
    for mut warning in report.warnings {
        warning.message.insert_str(0, "warning: ");
        let _ = writeln!(notes, "{name}:{warning}");
    }
    if !report.findings.is_empty() {
        return Err(Error::Invalid(report.findings.len()));
    }
    let found = found.into_inner();
    if found.clusters.is_empty() {
        return Err(Error::Refused(format!("{name} holds no SlurmCluster")));
    }
    Ok(found)
}

/// Keeps an object of ours, and returns what is wrong with it.
fn take(
    api_version: &str,
    kind: &str,
    object: &Value,
    namespace: &str,
    defaults: &Defaults,
    found: &mut Manifest,
) -> Vec<Remark> {
    if !api_version.starts_with(api::nebius::GROUP) {
        return Vec::new();
    }
    let unreadable = |error: serde_json::Error| vec![remark("", &error.to_string(), false)];
    match kind {
        "SlurmCluster" => {
            let mut cluster: SlurmCluster = match serde_json::from_value(object.clone()) {
                Ok(cluster) => cluster,
                Err(error) => return unreadable(error),
            };
            cluster.metadata.namespace.get_or_insert_with(|| namespace.into());
            match validate(&cluster, defaults) {
                Ok(valid) => {
                    let remarks = problems(&valid);
                    found.clusters.push((cluster, valid));
                    remarks
                }
                Err(problems) => problems.iter().map(of_problem).collect(),
            }
        }
        "NodeSet" => {
            let mut set: NodeSet = match serde_json::from_value(object.clone()) {
                Ok(set) => set,
                Err(error) => return unreadable(error),
            };
            set.metadata.namespace.get_or_insert_with(|| namespace.into());
            found.node_sets.push(set);
            Vec::new()
        }
        _ => Vec::new(),
    }
}

/// Everything that keeps a part from being rendered.
fn problems(cluster: &ValidatedCluster) -> Vec<Remark> {
    const PARTS: [Component; 6] = [
        Component::Common,
        Component::Controller,
        Component::Accounting,
        Component::Rest,
        Component::Worker,
        Component::Login,
    ];
    PARTS.into_iter().flat_map(|part| cluster.problems(part)).map(of_problem).collect()
}

fn of_problem(problem: &render::Problem) -> Remark {
    remark(&problem.path, &problem.message, problem.severity == Severity::Warning)
}

fn remark(path: &str, message: &str, is_warning: bool) -> Remark {
    Remark { path: path.into(), message: message.into(), is_warning }
}
