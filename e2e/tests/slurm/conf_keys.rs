//! The table of keys, against the parser of the real Slurm.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use anyhow::Result;
use rig::slurm::basic_lines;
use slurm::conf::{Check, FileKind, NoIncludes, SlurmVersion, known_keys, read};

use crate::conf_controller::{Controller, with_each};

/// What Slurm's own parser says of a slurm.conf, without starting anything.
fn parser_says(controller: &Controller, text: &str) -> Result<String> {
    controller.write_conf("keys.conf", text)?;
    controller.exec(&["sh", "-c", "SLURM_CONF=/etc/slurm/keys.conf scontrol show hostnames a 2>&1; true"])
}

/// Every key of any version that is not in the basic lines, set to something that is no number and neither yes nor no.
fn all_keys_set_to_nonsense() -> String {
    let mut keys: BTreeSet<&str> =
        SlurmVersion::ALL.into_iter().flat_map(|v| known_keys(FileKind::Slurm, v)).collect();
    keys.insert("NoKeyAtAll");
    // 24.11 ends at this one, before it has read the rest.
    keys.remove("FrontendName");
    for line in basic_lines().lines() {
        keys.remove(line.split('=').next().unwrap_or_default());
    }
    let mut text = basic_lines();
    for key in keys {
        let _ = writeln!(text, "{key}=x");
    }
    text
}

fn our_findings(version: SlurmVersion, text: &str, sign: &str) -> BTreeSet<String> {
    let findings = Check::new(FileKind::Slurm, version).run(&read("f", text, &mut NoIncludes));
    let lines: Vec<&str> = text.lines().collect();
    let key_of = |line: usize| lines[line - 1].split('=').next().unwrap_or_default().to_owned();
    findings.iter().filter(|found| found.message.contains(sign)).map(|found| key_of(found.at.line)).collect()
}

fn words_after(text: &str, mark: &str) -> BTreeSet<String> {
    text.lines()
        .filter_map(|line| line.split_once(mark))
        .filter_map(|(_, after)| after.split([' ', '"']).find(|word| !word.is_empty()))
        .map(ToOwned::to_owned)
        .collect()
}

#[test]
fn slurm_knows_the_keys_that_we_know_and_no_others() -> Result<()> {
    with_each(|controller, version| {
        let text = all_keys_set_to_nonsense();
        let said = parser_says(controller, &text)?;
        let unknown = words_after(&said, "unrecognized key: ");
        assert!(unknown.contains("NoKeyAtAll"), "{said}");
        let ours: BTreeSet<String> = our_findings(version, &text, "unknown key")
            .union(&our_findings(version, &text, "does not know the key"))
            .cloned()
            .collect();
        assert_eq!(unknown, ours, "Slurm {version}");
        Ok(())
    })
}

#[test]
fn slurm_wants_numbers_and_yes_or_no_where_we_do() -> Result<()> {
    with_each(|controller, version| {
        let text = all_keys_set_to_nonsense();
        let said = parser_says(controller, &text)?;
        let numbers: BTreeSet<String> = said
            .lines()
            .filter(|line| line.contains("is not a valid number"))
            .filter_map(|line| {
                line.split_once("error: ")?.1.split_once(" value").map(|(key, _)| key.to_owned())
            })
            .collect();
        assert!(numbers.len() > 50, "{said}");
        assert_eq!(numbers, our_findings(version, &text, "is no number"), "Slurm {version}");
        let choices = words_after(&said, "is not a valid option for ");
        assert_eq!(choices, our_findings(version, &text, "is none of YES, NO, UP"), "Slurm {version}");
        Ok(())
    })
}
