//! A key pair of the jail's root, by which root of one node comes to another: users of the original rely on it.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;
use std::process::Stdio;

use crate::output::say;
use crate::programs;

/// Makes the pair, unless there is one, and lets it in. A jail without it is complete too.
pub fn make(jail: &Path) {
    let Ok(mut command) = programs::command("ssh-keygen") else {
        say(super::NAME, "the image has no ssh-keygen: root gets no key pair of its own in the jail");
        return;
    };
    let directory = jail.join("root/.ssh");
    let key = directory.join("id_ecdsa");
    let made = prepare(&directory).map_err(|error| error.to_string()).and_then(|()| {
        if key.symlink_metadata().is_ok() {
            return Ok(());
        }
        command.args(["-q", "-t", "ecdsa", "-N", "", "-C", "root@jail", "-f"]).arg(&key);
        let printed = command.stdin(Stdio::null()).output().map_err(|error| error.to_string())?;
        let words = String::from_utf8_lossy(&printed.stderr);
        if printed.status.success() { Ok(()) } else { Err(words.trim().to_owned()) }
    });
    let allowed = made.and_then(|()| {
        allow(&key.with_extension("pub"), &directory.join("authorized_keys"))
            .map_err(|error| error.to_string())
    });
    if let Err(error) = allowed {
        say(super::NAME, &format!("cannot make a key pair in {}: {error}", directory.display()));
    }
}

fn prepare(directory: &Path) -> io::Result<()> {
    let Some(home) = directory.parent() else { return Ok(()) };
    for (place, mode) in [(home, 0o700), (directory, 0o700)] {
        match place.symlink_metadata() {
            // A link would lead out of the jail.
            Ok(meta) if meta.is_dir() => {}
            Ok(_) => return Err(io::Error::other(format!("{} is not a directory", place.display()))),
            Err(_) => {
                fs::create_dir(place)?;
                fs::set_permissions(place, Permissions::from_mode(mode))?;
            }
        }
    }
    Ok(())
}

/// Adds the public key, once.
fn allow(public: &Path, keys: &Path) -> io::Result<()> {
    let public = fs::read_to_string(public)?;
    if keys.symlink_metadata().is_ok_and(|meta| !meta.is_file()) {
        return Err(io::Error::other(format!("{} is not a file", keys.display())));
    }
    let known = fs::read(keys).unwrap_or_default();
    if String::from_utf8_lossy(&known).lines().any(|line| line == public.trim_end()) {
        return Ok(());
    }
    let mut text = Vec::new();
    if !known.is_empty() && !known.ends_with(b"\n") {
        text.push(b'\n');
    }
    text.extend(public.as_bytes());
    let mut file = fs::OpenOptions::new().append(true).create(true).mode(0o600).open(keys)?;
    io::Write::write_all(&mut file, &text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_let_in_once_and_beside_the_keys_of_others() {
        let directory = tempfile::tempdir().unwrap();
        let (public, keys) = (directory.path().join("id.pub"), directory.path().join("authorized_keys"));
        fs::write(&public, "ecdsa A root@jail\n").unwrap();
        allow(&public, &keys).unwrap();
        assert_eq!(fs::metadata(&keys).unwrap().permissions().mode() & 0o777, 0o600);
        fs::write(&keys, "ssh-ed25519 B me").unwrap();
        for _ in 0..2 {
            allow(&public, &keys).unwrap();
        }
        assert_eq!(fs::read_to_string(&keys).unwrap(), "ssh-ed25519 B me\necdsa A root@jail\n");
    }

    #[test]
    fn no_link_leads_out_of_the_jail() {
        let directory = tempfile::tempdir().unwrap();
        let (jail, outside) = (directory.path().join("jail"), directory.path().join("outside"));
        fs::create_dir_all(&outside).unwrap();
        fs::create_dir_all(jail.join("root")).unwrap();
        std::os::unix::fs::symlink(&outside, jail.join("root/.ssh")).unwrap();
        assert!(prepare(&jail.join("root/.ssh")).is_err());
    }
}
