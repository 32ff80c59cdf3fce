//! Keeps `/etc/passwd` and `/etc/group` of this container up to date with the jail's. Network file systems tell nobody when a
//! file changes, so it is looked at.

use std::fs;
use std::path::Path;
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use slurm::agent::path;

use super::identities::{Files, LeftOut, merge};
use super::root::Root;
use crate::agent::Agent;
use crate::files;
use crate::lookup::{ROOT, User};

const LOOK: Duration = Duration::from_secs(5);
/// How long a daemon waits for its first look, which a dead file server may never let end.
const FIRST: Duration = Duration::from_secs(2);
const PASSWD: &str = "passwd";
const GROUP: &str = "group";
/// What the image had: beside the files, so that it lives as long as they do.
const ORIGINAL: &str = ".soperator-image";
/// No longer file of users is read.
const LONGEST: u64 = 4 << 20;

/// What was seen last.
#[derive(Debug, Default)]
pub struct Users {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    image: Option<Files>,
    seen: Option<Files>,
    said: LeftOut,
}

/// Looks at the jail's users now and then, for ever.
pub fn follow(agent: &Arc<Agent>) {
    let (sender, first) = channel();
    let agent = Arc::clone(agent);
    std::thread::spawn(move || {
        loop {
            refresh(&agent);
            // Nobody listens any more after the first one.
            let _ = sender.send(());
            std::thread::sleep(LOOK);
        }
    });
    // Without an answer it goes on: the daemons do not depend on the jail.
    let _ = first.recv_timeout(FIRST);
}

/// Takes over what has changed.
pub fn refresh(agent: &Agent) {
    let updated = agent.users.update(Path::new("/etc"), ROOT, Path::new(path::JAIL), |line| agent.say(line));
    if let Err(error) = updated {
        agent.failed(&error);
    }
}

impl Users {
    fn update(&self, etc: &Path, owner: User, jail: &Path, mut say: impl FnMut(&str)) -> Result<(), String> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let jail = read_jail(jail)?;
        if state.seen.as_ref() == Some(&jail) {
            return Ok(());
        }
        let image = match &state.image {
            Some(image) => image.clone(),
            None => read_image(etc, owner)?,
        };
        let (merged, left_out) = merge(&image, &jail);
        for (name, text) in [(PASSWD, &merged.passwd), (GROUP, &merged.group)] {
            let file = etc.join(name);
            if fs::read(&file).ok().as_deref() != Some(text.as_bytes()) {
                files::write(&file, text.as_bytes(), owner, 0o644)?;
            }
        }
        for skipped in left_out.first.iter().filter(|skipped| !state.said.first.contains(skipped)) {
            say(&skipped.to_string());
        }
        if left_out.more > 0 && left_out.more != state.said.more {
            say(&format!("{} more users and groups of the jail are not taken", left_out.more));
        }
        let count = |text: &str, before: &str| text.lines().count().saturating_sub(before.lines().count());
        say(&format!(
            "{} users and {} groups of the jail are known now",
            count(&merged.passwd, &image.passwd),
            count(&merged.group, &image.group)
        ));
        state.said = left_out;
        state.image = Some(image);
        state.seen = Some(jail);
        Ok(())
    }
}

/// What the jail says. Without these files it says nothing.
fn read_jail(jail: &Path) -> Result<Files, String> {
    let root = match Root::open(jail) {
        Ok(root) => root,
        Err(error) => return Err(format!("cannot read users of the jail {}: {error}", jail.display())),
    };
    let read = |name: &str| {
        let inside = Path::new("etc").join(name);
        match root.read(&inside, LONGEST) {
            Ok(bytes) => Ok(String::from_utf8_lossy(&bytes).into_owned()),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(String::new()),
            Err(error) => Err(format!("cannot read {}: {error}", root.shown(&inside).display())),
        }
    };
    Ok(Files { passwd: read(PASSWD)?, group: read(GROUP)? })
}

/// The image's own files, which are put aside before they are changed for the first time.
fn read_image(etc: &Path, owner: User) -> Result<Files, String> {
    let read = |name: &str| -> Result<String, String> {
        let (file, original) = (etc.join(name), etc.join(format!("{name}{ORIGINAL}")));
        if let Ok(text) = fs::read(&original) {
            return Ok(String::from_utf8_lossy(&text).into_owned());
        }
        let text = fs::read(&file).map_err(|error| format!("cannot read {}: {error}", file.display()))?;
        files::write(&original, &text, owner, 0o644)?;
        Ok(String::from_utf8_lossy(&text).into_owned())
    };
    Ok(Files { passwd: read(PASSWD)?, group: read(GROUP)? })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt as _;

    use super::*;

    struct World {
        directory: tempfile::TempDir,
    }

    impl World {
        fn new() -> Self {
            let directory = tempfile::tempdir().unwrap();
            for (place, text) in [("etc", "root:x:0:0::/root:/bin/sh\n"), ("jail/etc", "")] {
                let place = directory.path().join(place);
                fs::create_dir_all(&place).unwrap();
                fs::write(place.join(PASSWD), text).unwrap();
                fs::write(place.join(GROUP), if text.is_empty() { "" } else { "root:x:0:\n" }).unwrap();
            }
            Self { directory }
        }

        fn update(&self, users: &Users) -> (Result<(), String>, Vec<String>) {
            let mut said = Vec::new();
            let at = |name: &str| self.directory.path().join(name);
            let meta = fs::metadata(self.directory.path()).unwrap();
            let me = User { uid: meta.uid(), gid: meta.gid() };
            let outcome = users.update(&at("etc"), me, &at("jail"), |line| said.push(line.to_owned()));
            (outcome, said)
        }

        fn jail(&self, name: &str, text: &str) {
            fs::write(self.directory.path().join("jail/etc").join(name), text).unwrap();
        }

        fn passwd(&self) -> String {
            fs::read_to_string(self.directory.path().join("etc/passwd")).unwrap()
        }
    }

    #[test]
    fn users_come_and_go_with_the_jail_and_the_image_stays() {
        let (world, users) = (World::new(), Users::default());
        world.jail(PASSWD, "alice:x:1001:1001::/home/alice:/bin/sh\nroot:x:1002:1002::/:/bin/sh\n");
        let (outcome, said) = world.update(&users);
        outcome.unwrap();
        assert!(said.iter().any(|line| line.contains("user root is not taken")), "{said:?}");
        assert!(world.passwd().ends_with("\nalice:*:1001:1001::/home/alice:/bin/sh\n"), "{}", world.passwd());
        assert_eq!(world.update(&users).1, Vec::<String>::new(), "nothing new, nothing said");

        // Another life of the agent in the same container.
        let users = Users::default();
        world.jail(PASSWD, "bob:x:1003:1003::/home/bob:/bin/sh\n");
        world.update(&users).0.unwrap();
        assert_eq!(world.passwd(), "root:x:0:0::/root:/bin/sh\nbob:*:1003:1003::/home/bob:/bin/sh\n");
        world.jail(PASSWD, "");
        world.update(&users).0.unwrap();
        assert_eq!(world.passwd(), "root:x:0:0::/root:/bin/sh\n");
    }

    #[test]
    fn a_link_in_the_place_of_the_jails_file_reads_nothing_of_the_container() {
        let (world, users) = (World::new(), Users::default());
        let file = world.directory.path().join("jail/etc/passwd");
        fs::remove_file(&file).unwrap();
        std::os::unix::fs::symlink("/etc/passwd", &file).unwrap();
        let (outcome, _) = world.update(&users);
        assert!(outcome.unwrap_err().contains("jail/etc/passwd"), "it points at itself inside the jail");
    }

    #[test]
    fn a_hostile_file_of_users_costs_neither_memory_nor_a_long_log() {
        let (world, users) = (World::new(), Users::default());
        world.jail(PASSWD, &"x\n".repeat(1 << 21));
        let (outcome, said) = world.update(&users);
        outcome.unwrap();
        assert_eq!(said.len(), 52, "50 lines, how many more, and how many are known");
        assert!(said[50].starts_with("2097102 more users"), "{}", said[50]);
        let state = users.state.lock().unwrap();
        assert_eq!(state.said.first.len(), 50);
        drop(state);
        world.jail(PASSWD, &"x".repeat((4 << 20) + 1));
        let (outcome, _) = world.update(&users);
        assert!(outcome.unwrap_err().contains("longer than"), "it is not read");
    }
}
