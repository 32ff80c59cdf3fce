//! Which keys Slurm knows, of which type they are, and in which version.

mod slurm_conf;
mod small_files;

use super::file_kind::{FileKind, SlurmVersion};

/// A key that some version of Slurm knows.
#[derive(Debug)]
pub(super) struct Known {
    pub(super) name: &'static str,
    pub(super) kind: Kind,
    status: [Status; 2],
}

impl Known {
    /// What a version makes of the key.
    pub(super) fn status(&self, version: SlurmVersion) -> Status {
        match version {
            SlurmVersion::V24_11 => self.status[0],
            SlurmVersion::V26_05 => self.status[1],
        }
    }
}

/// What a version of Slurm makes of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Status {
    /// It is used.
    Used,
    /// It is read, whatever its value, has no effect, and the daemons ask for its removal.
    Defunct,
    /// The same, but its value must be of its type.
    Ignored,
    /// The daemons end when they see it, and say that it was removed.
    Removed,
    /// It is not known.
    Unknown,
}

use Status::{Defunct, Ignored, Removed, Unknown, Used};

const BOTH: [Status; 2] = [Used, Used];
const NEW: [Status; 2] = [Unknown, Used];
const DEFUNCT: [Status; 2] = [Defunct, Defunct];
const DEFUNCT_NEW: [Status; 2] = [Used, Defunct];
const IGNORED: [Status; 2] = [Ignored, Ignored];
const REMOVED: [Status; 2] = [Removed, Removed];
const REMOVED_OLD: [Status; 2] = [Removed, Unknown];

const fn known(name: &'static str, kind: Kind, status: [Status; 2]) -> Known {
    Known { name, kind, status }
}

/// What a key may be set to.
#[derive(Debug)]
pub(super) enum Kind {
    /// Any text.
    Text,
    /// Any text, and the key may come again.
    List,
    /// A number of 16 bits, or a word for no limit.
    U16,
    /// The same of 32 bits; may end with `K`.
    U32,
    /// The same of 64 bits; may end with `K`.
    U64,
    /// A number with a fraction, or a word for no limit.
    Float,
    /// `YES` or `NO`, with what Slurm takes for them.
    Bool,
    /// A time limit.
    Time,
    /// A port, or ports in a range or a host list's brackets.
    Ports,
    /// How much is logged.
    Level,
    /// `OverSubscribe`.
    Share,
    /// A host list.
    Hosts,
    /// One of these words, in any case.
    OneOf(&'static [&'static str]),
    /// It begins a line of its own, with these keys behind it, and may come again.
    Line(&'static [Known]),
}

/// The keys that may begin a line of a file. None for plugstack.conf, which has no keys.
pub(super) fn keys_of(kind: FileKind) -> &'static [Known] {
    match kind {
        FileKind::Slurm => slurm_conf::SLURM_CONF,
        FileKind::Slurmdbd => small_files::SLURMDBD_CONF,
        FileKind::Cgroup => small_files::CGROUP_CONF,
        FileKind::Gres => small_files::GRES_CONF,
        FileKind::Topology => small_files::TOPOLOGY_CONF,
        FileKind::Mpi => small_files::MPI_CONF,
        FileKind::JobContainer => small_files::JOB_CONTAINER_CONF,
        FileKind::Plugstack => &[],
    }
}

/// The keys that may begin a line of a file in a version of Slurm, with or without effect.
pub fn known_keys(kind: FileKind, version: SlurmVersion) -> impl Iterator<Item = &'static str> {
    keys_of(kind).iter().filter(move |known| known.status(version) != Unknown).map(|known| known.name)
}

/// The keys that may follow a key on its line, such as `CPUs` behind `NodeName`; none if it stands alone.
pub fn known_keys_behind(
    kind: FileKind,
    first: &str,
    version: SlurmVersion,
) -> impl Iterator<Item = &'static str> {
    let keys = match find(keys_of(kind), first).map(|known| &known.kind) {
        Some(Kind::Line(keys)) => *keys,
        _ => &[],
    };
    keys.iter().filter(move |known| known.status(version) != Unknown).map(|known| known.name)
}

/// The key of that name, whatever its case.
pub(super) fn find(keys: &'static [Known], name: &str) -> Option<&'static Known> {
    keys.iter().find(|known| known.name.eq_ignore_ascii_case(name))
}

/// The known name that was probably meant.
pub(super) fn nearest(keys: &'static [Known], version: SlurmVersion, name: &str) -> Option<&'static str> {
    /// Below this likeness a suggestion would be a guess.
    const ENOUGH: f64 = 0.7;
    let wanted = name.to_lowercase();
    keys.iter()
        .filter(|known| known.status(version) == Used)
        .map(|known| (strsim::normalized_damerau_levenshtein(&wanted, &known.name.to_lowercase()), known.name))
        .filter(|(likeness, _)| *likeness >= ENOUGH)
        // The first of equals, so that the answer is always the same.
        .reduce(|best, next| if next.0 > best.0 { next } else { best })
        .map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(keys: &'static [Known]) -> Vec<&'static [Known]> {
        let below = keys.iter().filter_map(|known| match known.kind {
            Kind::Line(keys) => Some(keys),
            _ => None,
        });
        std::iter::once(keys).chain(below).collect()
    }

    #[test]
    fn no_key_comes_twice() {
        for kind in FileKind::ALL {
            for keys in all(keys_of(kind)) {
                let mut names: Vec<String> = keys.iter().map(|known| known.name.to_lowercase()).collect();
                names.sort();
                let count = names.len();
                names.dedup();
                assert_eq!(names.len(), count, "{kind}");
            }
        }
    }

    #[test]
    fn slips_are_understood() {
        for (slip, meant) in [
            ("SlurmctldPrt", Some("SlurmctldPort")),
            ("slurmdtimeout", Some("SlurmdTimeout")),
            ("PropagateResourceLimit", Some("PropagateResourceLimits")),
            ("Colour", None),
        ] {
            assert_eq!(nearest(keys_of(FileKind::Slurm), SlurmVersion::V26_05, slip), meant, "{slip}");
        }
        assert_eq!(
            nearest(keys_of(FileKind::Slurm), SlurmVersion::V24_11, "MetricType"),
            None,
            "not in this version"
        );
    }
}
