//! What is mounted where, as `/proc/self/mountinfo` tells it.

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};

/// All mount points below a directory, without itself, parents first.
pub fn below(directory: &Path) -> Vec<PathBuf> {
    below_in(&fs::read(TABLE).unwrap_or_default(), directory)
}

/// Whether something is mounted exactly there.
pub fn is_mount_point(place: &Path) -> bool {
    points(&fs::read(TABLE).unwrap_or_default()).any(|point| point == place)
}

const TABLE: &str = "/proc/self/mountinfo";

fn below_in(table: &[u8], directory: &Path) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> =
        points(table).filter(|point| point.starts_with(directory) && point != directory).collect();
    found.sort();
    found.dedup();
    found
}

/// The fifth word of each line.
fn points(table: &[u8]) -> impl Iterator<Item = PathBuf> {
    table
        .split(|byte| *byte == b'\n')
        .filter_map(|line| line.split(|byte| *byte == b' ').nth(4))
        .map(|word| PathBuf::from(OsString::from_vec(unescaped(word))))
}

/// Blanks and the like are written as three octal digits.
fn unescaped(word: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(word.len());
    let mut rest = word;
    while let Some((byte, after)) = rest.split_first() {
        let digits = after.get(..3).and_then(|digits| std::str::from_utf8(digits).ok());
        let code = digits.and_then(|digits| u8::from_str_radix(digits, 8).ok());
        match (byte, code) {
            (b'\\', Some(code)) => {
                bytes.push(code);
                rest = &after[3..];
            }
            _ => {
                bytes.push(*byte);
                rest = after;
            }
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXAMPLE: &[u8] = b"\
22 1 254:0 / / rw,relatime - ext4 /dev/vda rw
30 22 0:5 / /mnt/jail.upper/data\\040set rw - tmpfs tmpfs rw
31 22 0:5 / /mnt/jail rw - nfs4 a:/b rw
32 31 0:5 / /mnt/jail/proc rw - proc proc rw
33 22 0:5 / /mnt/jailbreak rw - tmpfs tmpfs rw
broken
";

    #[test]
    fn mount_points_below_a_directory_are_whole_names_without_itself() {
        let found = |directory: &str| below_in(EXAMPLE, Path::new(directory));
        assert_eq!(found("/mnt/jail"), [Path::new("/mnt/jail/proc")]);
        assert_eq!(found("/mnt/jail.upper"), [Path::new("/mnt/jail.upper/data set")]);
        assert_eq!(found("/").len(), 4);
        assert_eq!(found("/home"), Vec::<PathBuf>::new());
    }

    #[test]
    fn the_machines_own_root_is_mounted() {
        assert!(is_mount_point(Path::new("/proc")));
        assert!(!is_mount_point(Path::new("/proc/self")));
    }
}
