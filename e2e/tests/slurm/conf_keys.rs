//! The table of keys, against the parser of the real Slurm.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use anyhow::Result;
use rig::slurm::basic_lines;
use slurm::conf::{Check, FileKind, NoIncludes, SlurmVersion, known_keys, known_keys_behind, read};

use crate::conf_controller::{Controller, Verdict, with_each};

/// What Slurm's own parser says of a slurm.conf, without starting anything.
fn parser_says(controller: &Controller, text: &str) -> Result<String> {
    controller.write_conf("keys.conf", text)?;
    controller.exec(&["sh", "-c", "SLURM_CONF=/etc/slurm/keys.conf scontrol show hostnames a 2>&1; true"])
}

/// These lines, and every other key of any version, set to something that is no number and neither yes nor no.
fn all_keys_set_to_nonsense(kind: FileKind, basic: &str) -> String {
    let mut keys: BTreeSet<&str> = SlurmVersion::ALL.into_iter().flat_map(|v| known_keys(kind, v)).collect();
    keys.insert("NoKeyAtAll");
    // 24.11 ends at these, before it has read the rest.
    keys.remove("FrontendName");
    keys.remove("CgroupReleaseAgentDir");
    for line in basic.lines() {
        keys.remove(line.split('=').next().unwrap_or_default());
    }
    let mut text = basic.to_owned();
    for key in keys {
        let _ = writeln!(text, "{key}=x");
    }
    text
}

/// Unknown to us, in whichever way.
fn unknown_to_us(kind: FileKind, version: SlurmVersion, text: &str) -> BTreeSet<String> {
    let mut unknown = our_findings(kind, version, text, "unknown key");
    unknown.extend(our_findings(kind, version, text, "does not know the key"));
    unknown
}

/// The keys of which Slurm says that they want a number.
fn wants_numbers(said: &str) -> BTreeSet<String> {
    said.lines()
        .filter(|line| line.contains("is not a valid number"))
        .filter_map(|line| line.split_once("error: ")?.1.split_once(" value").map(|(key, _)| key.to_owned()))
        .collect()
}

fn our_findings(kind: FileKind, version: SlurmVersion, text: &str, sign: &str) -> BTreeSet<String> {
    let findings = Check::new(kind, version).run(&read("f", text, &mut NoIncludes));
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
        let text = all_keys_set_to_nonsense(FileKind::Slurm, &basic_lines());
        let said = parser_says(controller, &text)?;
        let unknown = words_after(&said, "unrecognized key: ");
        assert!(unknown.contains("NoKeyAtAll"), "{said}");
        assert_eq!(unknown, unknown_to_us(FileKind::Slurm, version, &text), "Slurm {version}");
        Ok(())
    })
}

#[test]
fn slurm_wants_numbers_and_yes_or_no_where_we_do() -> Result<()> {
    with_each(|controller, version| {
        let text = all_keys_set_to_nonsense(FileKind::Slurm, &basic_lines());
        let said = parser_says(controller, &text)?;
        let numbers = wants_numbers(&said);
        assert!(numbers.len() > 50, "{said}");
        let mut ours = our_findings(FileKind::Slurm, version, &text, "is no number");
        ours.extend(our_findings(FileKind::Slurm, version, &text, "is none of 0, 1, 2"));
        assert_eq!(numbers, ours, "Slurm {version}");
        // Of a key that was removed we say only that.
        let removed = our_findings(FileKind::Slurm, version, &text, "was removed");
        let choices: BTreeSet<String> =
            words_after(&said, "is not a valid option for ").difference(&removed).cloned().collect();
        assert_eq!(
            choices,
            our_findings(FileKind::Slurm, version, &text, "is none of YES, NO, UP"),
            "Slurm {version}"
        );
        Ok(())
    })
}

#[test]
fn slurmctld_knows_the_keys_of_cgroup_conf_that_we_know() -> Result<()> {
    with_each(|controller, version| {
        let text = all_keys_set_to_nonsense(FileKind::Cgroup, "CgroupPlugin=disabled\n");
        let verdict = controller.start(&[("slurm.conf", &basic_lines()), ("cgroup.conf", &text)]);
        controller.write_conf("cgroup.conf", "CgroupPlugin=disabled\n")?;
        let Verdict::Refused(said) = verdict? else { anyhow::bail!("slurmctld took nonsense") };
        let unknown = words_after(&said, "unrecognized key: ");
        assert!(unknown.contains("NoKeyAtAll"), "{said}");
        assert_eq!(unknown, unknown_to_us(FileKind::Cgroup, version, &text), "Slurm {version}");
        assert_eq!(wants_numbers(&said), our_findings(FileKind::Cgroup, version, &text, "is no number"));
        let choices = words_after(&said, "is not a valid option for ");
        assert_eq!(choices, our_findings(FileKind::Cgroup, version, &text, "is none of YES, NO, UP"));
        Ok(())
    })
}

#[test]
fn slurmdbd_knows_the_keys_that_we_know() -> Result<()> {
    with_each(|controller, version| {
        let basic =
            "AuthType=auth/munge\nDbdHost=slurm\nSlurmUser=slurm\nStorageType=accounting_storage/mysql\n";
        let text = all_keys_set_to_nonsense(FileKind::Slurmdbd, basic);
        controller.write_conf("slurmdbd.conf", &text)?;
        // It ends by itself: the file is wrong.
        let said = controller.exec(&["sh", "-c", "timeout 20 slurmdbd -D 2>&1; true"])?;
        let unknown = words_after(&said, "unrecognized key: ");
        assert!(unknown.contains("NoKeyAtAll"), "{said}");
        assert_eq!(unknown, unknown_to_us(FileKind::Slurmdbd, version, &text), "Slurm {version}");
        assert_eq!(wants_numbers(&said), our_findings(FileKind::Slurmdbd, version, &text, "is no number"));
        let choices = words_after(&said, "is not a valid option for ");
        assert_eq!(choices, our_findings(FileKind::Slurmdbd, version, &text, "is none of YES, NO, UP"));
        Ok(())
    })
}

#[test]
fn slurm_knows_the_keys_behind_node_and_partition_names_that_we_know() -> Result<()> {
    for first in ["NodeName", "PartitionName", "NodeSet", "DownNodes"] {
        let mut keys: BTreeSet<&str> = SlurmVersion::ALL
            .into_iter()
            .flat_map(|v| known_keys_behind(FileKind::Slurm, first, v))
            .collect();
        keys.insert("NoKeyAtAll");
        let mut text = basic_lines();
        for (number, key) in keys.iter().enumerate() {
            let _ = writeln!(text, "{first}=a{number} {key}=x");
        }
        with_each(|controller, version| {
            let said = parser_says(controller, &text)?;
            let findings = |sign: &str| keys_of_findings(version, &text, sign);
            let unknown = words_after(&said, "unrecognized key: ");
            assert!(unknown.contains("NoKeyAtAll"), "{said}");
            let ours = findings("unknown key").union(&findings("does not know the key")).cloned().collect();
            assert_eq!(unknown, ours, "{first}, Slurm {version}");
            assert_eq!(wants_numbers(&said), findings("is no number"), "{first}, Slurm {version}");
            let choices = words_after(&said, "is not a valid option for ");
            assert_eq!(choices, findings("is none of YES, NO, UP"), "{first}, Slurm {version}");
            Ok(())
        })?;
    }
    Ok(())
}

/// The second key of each line that has such a finding.
fn keys_of_findings(version: SlurmVersion, text: &str, sign: &str) -> BTreeSet<String> {
    let findings = Check::new(FileKind::Slurm, version).run(&read("f", text, &mut NoIncludes));
    let lines: Vec<&str> = text.lines().collect();
    let key_of = |line: usize| {
        let second = lines[line - 1].split_whitespace().nth(1).unwrap_or_default();
        second.split('=').next().unwrap_or_default().to_owned()
    };
    findings.iter().filter(|found| found.message.contains(sign)).map(|found| key_of(found.at.line)).collect()
}
