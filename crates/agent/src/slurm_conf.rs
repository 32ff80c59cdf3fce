//! Single settings of a slurm.conf or slurmdbd.conf, with what it includes.

use std::path::Path;

use slurm::conf::{Document, read};

use crate::files::FileSet;

/// A configuration file that was read.
pub struct Conf(Document);

impl Conf {
    /// The slurm.conf of a set.
    pub fn of_set(set: &FileSet) -> Self {
        let name = "slurm.conf";
        let text = set.text(name).unwrap_or_default();
        let mut resolve = |path: &str, _from: &str| {
            let name = path.rsplit_once("/slurm/").map_or(path, |(_, name)| name);
            let text = set.text(name).ok_or_else(|| format!("{path} is not in the set"))?;
            Ok((name.to_owned(), text))
        };
        Self(read(name, &text, &mut resolve))
    }

    /// A file by itself; what it includes is read from beside it.
    pub fn of_file(path: &Path) -> Result<Self, String> {
        let text = |path: &Path| {
            std::fs::read(path)
                .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
                .map_err(|error| format!("cannot read {}: {error}", path.display()))
        };
        let directory = path.parent().unwrap_or(Path::new("/"));
        let mut resolve =
            |include: &str, _from: &str| Ok((include.to_owned(), text(&directory.join(include))?));
        Ok(Self(read(&path.display().to_string(), &text(path)?, &mut resolve)))
    }

    /// The value of a setting; the last one counts.
    pub fn get(&self, key: &str) -> Option<&str> {
        let first = |line: &&slurm::conf::Line| {
            line.pairs.first().is_some_and(|pair| pair.key.as_str().eq_ignore_ascii_case(key))
        };
        self.0.lines.iter().rev().find(first)?.pairs.first().map(|pair| pair.value.as_str())
    }

    /// The value of a setting that is a port, or a range of ports, of which the first counts.
    pub fn port(&self, key: &str, default: u16) -> u16 {
        let first = |value: &str| value.split('-').next()?.trim().parse().ok();
        self.get(key).and_then(first).unwrap_or(default)
    }

    /// Where slurmctld is reached: the address in `SlurmctldHost=name(address)`, or the name.
    pub fn controller(&self) -> Option<String> {
        let host = self.0.lines.iter().find_map(|line| {
            line.pairs.first().filter(|pair| pair.key.as_str().eq_ignore_ascii_case("SlurmctldHost"))
        })?;
        let host = host.value.as_str();
        Some(host.split_once('(').map_or(host, |(_, address)| address.trim_end_matches(')')).to_owned())
    }

    /// Whether jobs are accounted by slurmdbd.
    pub fn has_slurmdbd(&self) -> bool {
        self.get("AccountingStorageType")
            .is_some_and(|value| value.to_ascii_lowercase().ends_with("slurmdbd"))
    }

    /// Host and port of slurmdbd.
    pub fn slurmdbd(&self) -> (String, u16) {
        let host = self.get("AccountingStorageHost").unwrap_or("localhost").to_owned();
        (host, self.port("AccountingStoragePort", 6819))
    }
}

/// The same set without accounting: each line about it is a comment.
pub fn without_accounting(set: &FileSet) -> FileSet {
    without(set, &["accountingstorage"])
}

/// The same set with accounting that reaches nobody: what is to be accounted is queued.
pub fn with_queued_accounting(set: &FileSet) -> FileSet {
    let mut set =
        without(set, &["accountingstoragehost", "accountingstorageport", "accountingstoragebackuphost"]);
    if let Some(text) = set.files.get_mut("slurm.conf") {
        text.extend(b"AccountingStorageHost=127.0.0.1\nAccountingStoragePort=1\n");
    }
    set
}

fn without(set: &FileSet, prefixes: &[&str]) -> FileSet {
    let mut set = set.clone();
    for (name, text) in &mut set.files {
        if name.ends_with(".conf") {
            *text = comment_out(&String::from_utf8_lossy(text), prefixes).into_bytes();
        }
    }
    set
}

fn comment_out(text: &str, prefixes: &[&str]) -> String {
    let mut joined = false;
    let mut result = String::with_capacity(text.len() + 16);
    for line in text.lines() {
        let lower = line.trim_start().to_ascii_lowercase();
        if joined || prefixes.iter().any(|prefix| lower.starts_with(prefix)) {
            joined = line.ends_with('\\');
            result.push('#');
            // A `\` at the end would take the next line into the comment.
            result.push_str(line.trim_end_matches('\\'));
        } else {
            result.push_str(line);
        }
        result.push('\n');
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(files: &[(&str, &str)]) -> FileSet {
        FileSet { files: files.iter().map(|(name, text)| ((*name).into(), (*text).into())).collect() }
    }

    #[test]
    fn the_last_value_counts_whatever_the_case_and_also_from_included_files() {
        let set = set(&[
            (
                "slurm.conf",
                "SlurmUser=root\nSlurmctldPort=6817-6820\ninclude custom_slurm.conf\nNodeName=a Port=7000\n",
            ),
            ("custom_slurm.conf", "slurmuser=slurm\nAccountingStorageType=accounting_storage/slurmdbd\n"),
        ]);
        let conf = Conf::of_set(&set);
        assert_eq!(conf.get("SlurmUser"), Some("slurm"));
        assert_eq!(conf.port("SlurmctldPort", 1), 6817);
        assert_eq!(conf.get("Port"), None, "a word of a node's line is no setting");
        assert!(conf.has_slurmdbd());
        assert_eq!(conf.slurmdbd(), ("localhost".into(), 6819));
    }

    #[test]
    fn slurmctld_is_reached_by_its_address_or_else_by_its_name() {
        let controller = |text: &str| Conf::of_set(&set(&[("slurm.conf", text)])).controller();
        assert_eq!(controller("SlurmctldHost=a-0(a-svc)\nSlurmctldHost=b\n").as_deref(), Some("a-svc"));
        assert_eq!(controller("SlurmctldHost=a-0\n").as_deref(), Some("a-0"));
        assert_eq!(controller(""), None);
    }

    #[test]
    fn a_set_without_accounting_has_all_else() {
        let with = "ClusterName=a\n AccountingStorageHost=x \\\n  AccountingStoragePort=1\nSlurmUser=b\nAccountingStorageType=accounting_storage/slurmdbd\n";
        let without = without_accounting(&set(&[("slurm.conf", with), ("job.sh", "AccountingStorage")]));
        let conf = Conf::of_set(&without);
        assert!(!conf.has_slurmdbd());
        assert_eq!((conf.get("ClusterName"), conf.get("SlurmUser")), (Some("a"), Some("b")));
        assert_eq!(conf.get("AccountingStoragePort"), None);
        assert_eq!(without.text("job.sh").as_deref(), Some("AccountingStorage"));

        let queued = with_queued_accounting(&set(&[("slurm.conf", with)]));
        let conf = Conf::of_set(&queued);
        assert!(conf.has_slurmdbd());
        assert_eq!(conf.slurmdbd(), ("127.0.0.1".into(), 1));
    }
}
