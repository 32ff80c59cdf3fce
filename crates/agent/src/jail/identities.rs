//! Users and groups of the jail, merged into those of an image: facts for lookups, and no power. Whoever is root in the jail
//! writes the jail's files, and must not become anybody that the image knows.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// The first id that belongs to people.
const FIRST: u32 = 1000;
/// `nobody`, on every distribution.
const NOBODY: u32 = 65534;
/// The group `users`, which some distributions give to people instead of one of their own.
const USERS_GROUP: u32 = 100;
/// No name is longer.
const LONGEST_NAME: usize = 256;
/// More are not taken: whoever is root in the jail must not fill the memory of the daemons.
const MOST: usize = 50_000;
/// More lines that are not taken are counted only.
const MOST_SKIPPED: usize = 50;
/// Fields of a line of `/etc/passwd`.
const USER_FIELDS: usize = 7;
/// Fields of a line of `/etc/group`.
const GROUP_FIELDS: usize = 4;

/// The text of a file with users or groups.
pub type Text = str;

/// Both files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Files {
    /// `/etc/passwd`.
    pub passwd: String,
    /// `/etc/group`.
    pub group: String,
}

/// A line of the jail that is not taken.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Skipped {
    /// The name, as far as it can be said.
    pub name: String,
    /// `user` or `group`.
    pub what: &'static str,
    /// Why.
    pub why: Why,
}

/// Why a line is not taken.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Why {
    /// It has not the fields that it should have.
    Malformed,
    /// Its name is none for people.
    Name,
    /// Its id is below those of people, or `nobody`'s.
    Id(u32),
    /// The image has this name, with another id.
    NameOfImage,
    /// The image has just the same.
    Known,
    /// The image has this id, under another name.
    IdOfImage(u32, String),
    /// An earlier line has it.
    Twice,
    /// Its home or shell is no path.
    Path,
    /// There are too many.
    TooMany,
}

/// The lines of the jail that are not taken.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeftOut {
    /// The first of them.
    pub first: Vec<Skipped>,
    /// How many there are besides.
    pub more: usize,
}

impl LeftOut {
    fn add(&mut self, skipped: impl FnOnce() -> Skipped) {
        if self.first.len() < MOST_SKIPPED {
            self.first.push(skipped());
        } else {
            self.more += 1;
        }
    }
}

impl fmt::Display for Skipped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the jail's {} {} is not taken: ", self.what, self.name)?;
        match &self.why {
            Why::Malformed => f.write_str("the line is malformed"),
            Why::Name => f.write_str("its name is not one for people"),
            Why::Id(id) => write!(f, "{id} is not an id for people, who have 1000 and more"),
            Why::NameOfImage => f.write_str("the image has one of this name"),
            Why::Known => f.write_str("the image has the same"),
            Why::IdOfImage(id, name) => {
                write!(
                    f,
                    "{id} is {name}'s in the image; give it another id, or take an image without {name}"
                )
            }
            Why::Twice => f.write_str("an earlier line has its name or id"),
            Why::Path => f.write_str("its home or shell is not a plain absolute path"),
            Why::TooMany => write!(f, "there are more than {MOST}"),
        }
    }
}

/// The files of the image with the people of the jail after them, and what was left out.
pub fn merge(image: &Files, jail: &Files) -> (Files, LeftOut) {
    let mut left_out = LeftOut::default();
    let (users, names) = users(&image.passwd, &jail.passwd, &mut left_out);
    let groups = groups(&image.group, &jail.group, &names, &mut left_out);
    (Files { passwd: after(&image.passwd, &users), group: after(&image.group, &groups) }, left_out)
}

/// The image's own text, unchanged, and more lines.
fn after(image: &Text, lines: &[String]) -> String {
    let mut text = image.to_owned();
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    for line in lines {
        text.push_str(line);
        text.push('\n');
    }
    text
}

/// Names and ids that are taken, by the image or by earlier lines.
struct Taken {
    /// With the id where it is the image's.
    names: BTreeMap<String, Option<u32>>,
    /// With the name where it is the image's.
    ids: BTreeMap<u32, Option<String>>,
}

impl Taken {
    /// Of an image's file: the name is the first field, the id the third.
    fn of(image: &Text) -> Self {
        let mut taken = Self { names: BTreeMap::new(), ids: BTreeMap::new() };
        for line in image.lines() {
            let mut fields = line.split(':');
            let Some(name) = fields.next().filter(|name| !name.is_empty()) else { continue };
            // One that cannot be read is nobody's.
            let id = fields.nth(1).and_then(|id| id.trim().parse().ok()).unwrap_or(u32::MAX);
            taken.names.insert(name.to_owned(), Some(id));
            taken.ids.insert(id, Some(name.to_owned()));
        }
        taken
    }

    fn take(&mut self, name: &str, id: u32) -> Result<(), Why> {
        match (self.names.get(name), self.ids.get(&id)) {
            (Some(Some(known)), _) if *known == id => return Err(Why::Known),
            (Some(Some(_)), _) => return Err(Why::NameOfImage),
            (_, Some(Some(owner))) => return Err(Why::IdOfImage(id, owner.clone())),
            (None, None) => {}
            _ => return Err(Why::Twice),
        }
        if self.names.len() >= MOST {
            return Err(Why::TooMany);
        }
        self.names.insert(name.to_owned(), None);
        self.ids.insert(id, None);
        Ok(())
    }
}

fn users(image: &Text, jail: &Text, left_out: &mut LeftOut) -> (Vec<String>, BTreeSet<String>) {
    let mut taken = Taken::of(image);
    let (mut lines, mut names) = (Vec::new(), BTreeSet::new());
    for line in content(jail) {
        let fields = fields(line, USER_FIELDS);
        let made = user(&fields).and_then(|(id, line)| {
            let name = fields.first().copied().unwrap_or_default();
            taken.take(name, id)?;
            names.insert(name.to_owned());
            Ok(line)
        });
        note(made, "user", &fields, &mut lines, left_out);
    }
    (lines, names)
}

/// The id and the line of a user who can be taken.
fn user(fields: &[&str]) -> Result<(u32, String), Why> {
    let [name, _, uid, gid, comment, home, shell] = fields[..] else { return Err(Why::Malformed) };
    if !is_name(name) {
        return Err(Why::Name);
    }
    let (uid, gid) = (number(uid).ok_or(Why::Malformed)?, number(gid).ok_or(Why::Malformed)?);
    if !is_for_people(uid) {
        return Err(Why::Id(uid));
    }
    if !is_for_people(gid) && gid != USERS_GROUP {
        return Err(Why::Id(gid));
    }
    let home = if home.is_empty() { "/" } else { home };
    if !is_path(home) || !(shell.is_empty() || is_path(shell)) {
        return Err(Why::Path);
    }
    let comment: String = comment.chars().filter(|c| !c.is_control()).collect();
    // `*` and not `x`: there is no shadow file for these, and PAM would lock them out for it. Nobody has this password.
    Ok((uid, format!("{name}:*:{uid}:{gid}:{comment}:{home}:{shell}")))
}

fn groups(image: &Text, jail: &Text, users: &BTreeSet<String>, left_out: &mut LeftOut) -> Vec<String> {
    let mut taken = Taken::of(image);
    let mut lines = Vec::new();
    for line in content(jail) {
        let fields = fields(line, GROUP_FIELDS);
        let made = group(&fields, users).and_then(|(id, line)| {
            taken.take(fields.first().copied().unwrap_or_default(), id)?;
            Ok(line)
        });
        note(made, "group", &fields, &mut lines, left_out);
    }
    lines
}

fn group(fields: &[&str], users: &BTreeSet<String>) -> Result<(u32, String), Why> {
    let [name, _, gid, members] = fields[..] else { return Err(Why::Malformed) };
    if !is_name(name) {
        return Err(Why::Name);
    }
    let gid = number(gid).ok_or(Why::Malformed)?;
    if !is_for_people(gid) {
        return Err(Why::Id(gid));
    }
    // Each once, however often the line has it.
    let mut seen = BTreeSet::new();
    let members = members.split(',').map(str::trim);
    let members: Vec<&str> = members.filter(|name| users.contains(*name) && seen.insert(*name)).collect();
    Ok((gid, format!("{name}:*:{gid}:{}", members.join(","))))
}

fn note(
    made: Result<String, Why>,
    what: &'static str,
    fields: &[&str],
    lines: &mut Vec<String>,
    left_out: &mut LeftOut,
) {
    match made {
        Ok(line) => lines.push(line),
        Err(Why::Known) => {}
        // Each system has its own of those, and nobody misses them. Another root is no such thing.
        Err(Why::Id(id)) if (id < FIRST && (id != 0 || fields.first() == Some(&"root"))) || id == NOBODY => {}
        Err(why) => left_out.add(|| {
            let name = fields.first().copied().unwrap_or_default();
            let name = name.chars().filter(|c| !c.is_control()).take(64).collect();
            Skipped { name, what, why }
        }),
    }
}

/// The fields of a line, and one more that tells that there are too many.
fn fields(line: &str, wanted: usize) -> Vec<&str> {
    line.splitn(wanted + 1, ':').collect()
}

/// Lines with something in them.
fn content(text: &Text) -> impl Iterator<Item = &str> {
    text.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#'))
}

/// A plain number: neither a sign nor blanks, which readers of these files take differently.
fn number(text: &str) -> Option<u32> {
    (!text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())).then(|| text.parse().ok())?
}

fn is_for_people(id: u32) -> bool {
    id >= FIRST && id != NOBODY && id != u32::MAX
}

/// A name that no reader of these files takes for something else: not for a number, an option or a rule of NIS.
fn is_name(name: &str) -> bool {
    let is_good = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '@' | '+' | '$' | '\\');
    !name.is_empty()
        && name.len() <= LONGEST_NAME
        && name.chars().all(is_good)
        && !name.starts_with(['-', '+', '.'])
        && !name.bytes().all(|byte| byte.is_ascii_digit())
}

/// An absolute path that does not lead back up.
fn is_path(path: &str) -> bool {
    path.starts_with('/') && !path.chars().any(char::is_control) && !path.split('/').any(|part| part == "..")
}

#[cfg(test)]
mod tests {
    use super::*;

    const PASSWD: &str = "root:x:0:0:root:/root:/bin/bash\nslurm:x:64030:64030::/:/bin/false\nubuntu:x:1000:1000::/home/ubuntu:/bin/sh";
    const GROUP: &str = "root:x:0:\nslurm:x:64030:\nsudo:x:27:\n";

    fn image() -> Files {
        Files { passwd: PASSWD.into(), group: GROUP.into() }
    }

    fn merged(passwd: &str, group: &str) -> (Vec<String>, Vec<String>, Vec<Skipped>) {
        let jail = Files { passwd: passwd.into(), group: group.into() };
        let (files, skipped) = merge(&image(), &jail);
        let added = |text: &str, image: &str| {
            let rest = text.strip_prefix(image).expect("the image's own lines stay first and unchanged");
            rest.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect()
        };
        assert_eq!(skipped.more, 0);
        (added(&files.passwd, PASSWD), added(&files.group, GROUP), skipped.first)
    }

    fn users(passwd: &str) -> Vec<String> {
        merged(passwd, "").0
    }

    fn why(passwd: &str) -> Vec<Why> {
        merged(passwd, "").2.into_iter().map(|skipped| skipped.why).collect()
    }

    #[test]
    fn people_of_the_jail_come_with_facts_and_without_a_password() {
        let (users, groups, skipped) = merged(
            "alice:$6$hash:1001:1001:Alice,,,:/home/alice:/bin/bash\nbob:x:1002:100::/home/bob:\n",
            "alice:!:1001:\nphysics:x:2000:alice,bob\n",
        );
        assert_eq!(users, ["alice:*:1001:1001:Alice,,,:/home/alice:/bin/bash", "bob:*:1002:100::/home/bob:"]);
        assert_eq!(groups, ["alice:*:1001:", "physics:*:2000:alice,bob"]);
        assert_eq!(skipped, []);
    }

    #[test]
    fn nobody_of_the_image_is_replaced_by_name_or_by_id() {
        assert_eq!(users("root:x:5000:5000::/:/bin/sh"), Vec::<String>::new());
        assert_eq!(why("root:x:5000:5000::/:/bin/sh"), [Why::NameOfImage]);
        assert_eq!(why("slurm:x:2000:2000::/:/bin/sh"), [Why::NameOfImage]);
        assert_eq!(why("mallory:x:64030:2000::/:/bin/sh"), [Why::IdOfImage(64030, "slurm".into())]);
        assert_eq!(why("alice:x:1000:1000::/:/bin/sh"), [Why::IdOfImage(1000, "ubuntu".into())]);
        let (_, groups, _) = merged("", "slurm:x:3000:\nother:x:64030:\nsudo:x:3001:");
        assert_eq!(groups, Vec::<String>::new());
    }

    #[test]
    fn no_line_of_the_jail_has_the_power_of_root() {
        for line in [
            "toor:x:0:0::/root:/bin/sh",
            "toor:x:00:1000::/root:/bin/sh",
            "toor:x:4294967296:1000::/root:/bin/sh",
            "toor:x:4294967295:1000::/root:/bin/sh",
            "toor:x:-1:1000::/root:/bin/sh",
            "toor:x:+1000:1000::/root:/bin/sh",
            "toor:x: 1000:1000::/root:/bin/sh",
            "toor:x:0x3e9:1000::/root:/bin/sh",
            "toor:x:1001:0::/root:/bin/sh",
            "toor:x:1001:27::/root:/bin/sh",
            "toor:x:999:999::/root:/bin/sh",
            "toor:x:65534:65534::/root:/bin/sh",
            "0:x:1001:1001::/:/bin/sh",
            "+::0:0:::",
            "+toor:x:1001:1001::/:/bin/sh",
            "-toor:x:1001:1001::/:/bin/sh",
            "a b:x:1001:1001::/:/bin/sh",
            ":x:1001:1001::/:/bin/sh",
            "toor:x:1001:1001::/../../root:/bin/sh",
            "toor:x:1001:1001::home:/bin/sh",
            "toor:x:1001:1001::/home:../bin/sh",
            "toor:x:1001:1001",
            "toor:x:1001:1001::/:/bin/sh:more",
            "toor",
        ] {
            assert_eq!(users(line), Vec::<String>::new(), "{line}");
        }
    }

    #[test]
    fn what_stands_in_a_line_cannot_become_a_line_of_its_own() {
        // A carriage return and a vertical tab do not end lines for those who read the file, and are not kept either.
        let added = users("alice:x:1001:1001:one\rtwo\u{b}three:/home/alice:/bin/sh\n");
        assert_eq!(added, ["alice:*:1001:1001:onetwothree:/home/alice:/bin/sh"]);
        assert_eq!(why("al\rice:x:1001:1001::/:/bin/sh"), [Why::Name]);
    }

    #[test]
    fn the_first_of_two_lines_counts() {
        let lines =
            "alice:x:1001:1001::/a:/bin/sh\nalice:x:1002:1002::/b:/bin/sh\nbob:x:1001:1001::/c:/bin/sh\n";
        assert_eq!(users(lines), ["alice:*:1001:1001::/a:/bin/sh"]);
        assert_eq!(why(lines), [Why::Twice, Why::Twice]);
    }

    #[test]
    fn members_of_groups_are_people_of_the_jail_only() {
        let (_, groups, _) =
            merged("alice:x:1001:1001::/:/bin/sh", "lab:x:2000:root,slurm,alice,ghost,,munge\n");
        assert_eq!(groups, ["lab:*:2000:alice"]);
    }

    #[test]
    fn accounts_of_the_system_are_left_out_without_a_word_and_others_with_one() {
        let (users, _, skipped) =
            merged("daemon:x:1:1::/:/bin/sh\nnobody:x:65534:65534::/:/bin/sh\nbroken\n# note\n\n", "");
        assert_eq!(users, Vec::<String>::new());
        assert_eq!(skipped.len(), 1);
        assert_eq!(skipped[0].to_string(), "the jail's user broken is not taken: the line is malformed");
        assert_eq!(merged("slurm:x:64030:64030::/x:/bin/sh", "slurm:x:64030:\n").2, [], "as in the image");
        assert_eq!(
            why("root:x:0:0::/root:/bin/sh\ntoor:x:0:0::/root:/bin/sh"),
            [Why::Id(0)],
            "a second root is told"
        );
        let shown = merged("alice:x:1000:1000::/:/bin/sh", "").2[0].to_string();
        assert!(shown.contains("1000 is ubuntu's in the image"), "{shown}");
    }

    #[test]
    fn a_merge_of_nothing_changes_nothing_but_the_last_line_end() {
        let (files, skipped) = merge(&image(), &Files::default());
        assert_eq!(files, Files { passwd: format!("{PASSWD}\n"), group: GROUP.into() });
        assert_eq!(skipped, LeftOut::default());
    }

    #[test]
    fn anything_at_all_may_stand_in_the_files_of_the_jail() {
        // Every byte, in every field: nothing but whole lines of people comes out.
        for byte in 0..=255_u8 {
            let c = char::from(byte);
            for line in [
                format!("a{c}:x:1001:1001::/:/bin/sh"),
                format!("a:x:1001{c}:1001::/:/bin/sh"),
                format!("a:x:1001:1001:{c}:/{c}:/bin/{c}"),
                format!("{c}"),
            ] {
                let jail = Files { passwd: line.clone(), group: line };
                let (files, _) = merge(&image(), &jail);
                for line in files.passwd.lines().skip(3) {
                    let fields: Vec<&str> = line.split(':').collect();
                    assert_eq!(fields.len(), 7, "{line:?}");
                    assert!(fields[1] == "*" && fields[2].parse::<u32>().unwrap() >= 1000, "{line:?}");
                }
            }
        }
    }

    #[test]
    fn no_file_of_the_jail_makes_much_of_little() {
        let of = |passwd: &str, group: &str| {
            merge(&image(), &Files { passwd: passwd.to_owned(), group: group.to_owned() })
        };
        // Lines that are all bad, all good, one that has nothing but ends of fields, and one that names somebody for ever.
        let (_, left_out) = of(&"x\n".repeat(1 << 20), &"y\n".repeat(1 << 20));
        assert_eq!((left_out.first.len(), left_out.more), (50, (2 << 20) - 50));
        let many: Vec<String> = (0..MOST + 100).map(|i| format!("u{i}:x:{}:1000::/:", 70_000 + i)).collect();
        let (files, left_out) = of(&many.join("\n"), "");
        assert_eq!(files.passwd.lines().count(), MOST);
        assert_eq!(left_out.first[0].why, Why::TooMany);
        assert_eq!(fields(&":".repeat(4 << 20), USER_FIELDS).len(), USER_FIELDS + 1);
        assert_eq!(of(&":".repeat(4 << 20), &":".repeat(4 << 20)).1.first.len(), 2);
        let group = format!("lab:x:2000:{}", "alice,".repeat(1 << 19));
        let (files, _) = of("alice:x:1001:1001::/:/bin/sh", &group);
        assert!(files.group.ends_with("\nlab:*:2000:alice\n"), "{} bytes", files.group.len());
    }
}
