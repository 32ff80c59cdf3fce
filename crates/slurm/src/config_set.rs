//! Names of the files of an effective set: below `/etc/slurm` as users see them, and as keys of the ConfigMap that carries them.

/// Where Slurm's commands look for their configuration.
pub const DIRECTORY: &str = "/etc/slurm";

/// A key of a ConfigMap has no slash; this stands for it.
const SLASH: &str = "..";
/// The longest key of a ConfigMap.
const LONGEST: usize = 253;

/// The name of a file in the set; none if it does not lie below [`DIRECTORY`].
#[must_use]
pub fn name_of_path(path: &str) -> Option<&str> {
    path.strip_prefix(DIRECTORY)?.strip_prefix('/').filter(|name| !name.is_empty())
}

/// The key that carries a file of this name; none if no key can.
#[must_use]
pub fn key_of_name(name: &str) -> Option<String> {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || "-._/".contains(c);
    // Dots beside a slash could not be told from it.
    let is_clear = |part: &str| !part.is_empty() && !part.starts_with('.') && !part.ends_with('.');
    let fits = name.chars().all(is_allowed)
        && !name.contains(SLASH)
        && (name.split('/').all(is_clear) || (!name.contains('/') && name != "." && !name.is_empty()));
    let key = name.replace('/', SLASH);
    (fits && key.len() <= LONGEST).then_some(key)
}

/// The name of the file that a key carries.
#[must_use]
pub fn name_of_key(key: &str) -> String {
    let name = key.replace(SLASH, "/");
    if key_of_name(&name).as_deref() == Some(key) { name } else { key.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_lies_below_the_directory_has_a_name() {
        assert_eq!(name_of_path("/etc/slurm/slurm.conf"), Some("slurm.conf"));
        assert_eq!(name_of_path("/etc/slurm/prolog.d/10.sh"), Some("prolog.d/10.sh"));
        for path in ["/etc/slurm", "/etc/slurm/", "/etc/slurmdbd/x", "/opt/etc/slurm/x"] {
            assert_eq!(name_of_path(path), None, "{path}");
        }
    }

    #[test]
    fn keys_lead_back_to_their_names() {
        for name in ["slurm.conf", "a/b/c.sh", ".hidden", "x-y_z", "trailing."] {
            let key = key_of_name(name).unwrap();
            assert_eq!(name_of_key(&key), name);
        }
        assert_eq!(key_of_name("prolog.d/10.sh").as_deref(), Some("prolog.d..10.sh"));
        for name in
            ["", ".", "..", "a..b", "a./b", "a/.b", "a//b", "/a", "a/", "with space", &"x".repeat(254)]
        {
            assert_eq!(key_of_name(name), None, "{name:?}");
        }
        assert_eq!(name_of_key("a...b"), "a...b", "nothing that we wrote");
    }
}
