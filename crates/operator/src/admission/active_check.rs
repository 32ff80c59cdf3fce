//! Checks that run as jobs.

use std::collections::BTreeSet;

use api::nebius::ActiveCheck;
use render::check::problem::{Problem, Problems};
use render::check::quantity;

use super::cron;

/// What is wrong with an ActiveCheck.
#[must_use]
pub fn active_check(check: &ActiveCheck) -> Vec<Problem> {
    let mut problems = Problems::default();
    let spec = &check.spec;
    quantity::check(&mut problems, spec);
    if let Some(message) = cron::problem(&spec.schedule) {
        problems.error("spec.schedule", message);
    }
    let mut seen = BTreeSet::new();
    for (index, name) in spec.depends_on.iter().flatten().enumerate() {
        let path = format!("spec.dependsOn[{index}]");
        if check.metadata.name.as_ref() == Some(name) {
            problems.error(path, "the check would wait for itself; remove it");
        } else if !seen.insert(name) {
            problems.error(path, format!("{name} comes twice; remove one"));
        }
    }
    let script = spec.slurm_job_spec.as_ref().and_then(|job| job.sbatch_script.as_deref());
    if script.is_some_and(|script| !script.starts_with("#!")) {
        problems.error(
            "spec.slurmJobSpec.sbatchScript",
            "sbatch takes only scripts whose first line begins with #!; write for example #!/bin/bash",
        );
    }
    problems.into_vec()
}
