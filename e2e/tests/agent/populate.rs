//! A jail is filled from an image, whatever happens meanwhile, and nobody's data is touched.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use rig::slurm::Version;
use slurm::agent::{PROGRAM, PROGRAM_DIR, command};

use crate::lab::{Container, JAIL_IMAGE, Lab, POPULATE, POPULATE_TOO, Pod};

const VOLUME: &str = "jail";
/// Names in the image that are not taken from it, because a pod has its own.
const HOLLOW: [&str; 5] = ["dev", "proc", "run", "sys", "tmp"];
const MARKER: &str = ".soperator-jail.json";
/// How often one process after the other is killed in a round, and how many are tried for that.
const KILLS: u32 = 2;
const TRIES: u32 = 30;

/// How often the killing is tried.
fn rounds() -> u32 {
    std::env::var("SOPERATOR_SOAK").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(1)
}

/// A machine with an image and an empty volume.
fn lab() -> Result<Lab> {
    let lab = Lab::start(Version::V24_11)?;
    lab.jail_image()?;
    let program = lab.volume("agent")?.join("slurm-agent");
    fs::copy(lab.machine().path(PROGRAM), &program)?;
    // What only some file systems keep.
    let tool = lab.machine().path(&format!("{JAIL_IMAGE}/usr/bin/true"));
    e2e::output_of(Command::new("setcap").arg("cap_net_raw+ep").arg(&tool), None)?;
    fs::hard_link(&tool, tool.with_file_name("zz-true"))?;
    // What another program wrote must not go with the image.
    fs::write(lab.machine().path(&format!("{JAIL_IMAGE}/tmp/scratch")), "x")?;
    lab.pod(&POPULATE)?;
    lab.pod(&POPULATE_TOO)?;
    Ok(lab)
}

fn start<'a>(lab: &'a Lab, pod: &'static Pod, overwrite: &str) -> Result<Container<'a>> {
    lab.container(
        pod,
        command::POPULATE_JAIL,
        &[("OVERWRITE", overwrite)],
        &[(VOLUME, "/mnt/jail"), ("agent", PROGRAM_DIR)],
    )
}

fn end(container: &Container<'_>) -> Result<i32> {
    container.wait_until("it has ended", || Ok(container.has_ended()))?;
    container.exit_code()
}

/// Runs it to its end; gives its exit code and what it said.
fn run(lab: &Lab) -> Result<(i32, String)> {
    let container = start(lab, &POPULATE, "0")?;
    let code = end(&container)?;
    Ok((code, container.logs()))
}

/// Compares by another program's judgement: content, sizes, owners, modes, times and links.
fn assert_jail(lab: &Lab) -> Result<()> {
    let excluded: Vec<String> = HOLLOW.iter().map(|name| format!("--exclude=./{name}/*")).collect();
    let script = format!(
        "cd {JAIL_IMAGE} && tar --create {} --exclude=./opt/soperator --file - . \
         | tar --compare --directory /pods/{VOLUME} --file - 2>&1 | grep -v -e '^\\./*: ' || true",
        excluded.join(" ")
    );
    let differences = lab.machine().exec(&["bash", "-c", &script])?;
    ensure!(differences.is_empty(), "the jail differs from the image:\n{differences}");
    let names = |base: &str| -> Result<BTreeSet<String>> {
        let said = lab.machine().exec(&["find", base, "-mindepth", "1", "-printf", "%P\\n"])?;
        let is_hollow = |name: &str| HOLLOW.iter().any(|hollow| name.starts_with(&format!("{hollow}/")));
        let own = |name: &str| name.starts_with("root/.ssh") || name.starts_with("opt/soperator");
        Ok(said.lines().filter(|name| !is_hollow(name) && !own(name)).map(str::to_owned).collect())
    };
    let (wanted, mut found) = (names(JAIL_IMAGE)?, names(&format!("/pods/{VOLUME}"))?);
    ensure!(found.remove(MARKER), "there is no marker");
    let more: Vec<_> = found.difference(&wanted).collect();
    ensure!(more.is_empty() && found.len() == wanted.len(), "the jail has more, or less: {more:?}");
    let jail = lab.path(VOLUME);
    ensure!(jail.join("usr/bin/true").metadata()?.ino() == jail.join("usr/bin/zz-true").metadata()?.ino());
    let said = e2e::output_of(Command::new("getcap").arg(jail.join("usr/bin/true")), None)?;
    ensure!(said.contains("cap_net_raw=ep"), "{said}");
    ensure!(jail.metadata()?.permissions().mode() & 0o7777 == 0o755);
    ensure!(!jail.join("tmp/scratch").exists() && !jail.join("opt/soperator").exists());
    Ok(())
}

#[test]
fn an_empty_volume_becomes_a_copy_of_the_image_and_stays_what_users_make_of_it() -> Result<()> {
    let lab = lab()?;
    fs::create_dir(lab.volume(VOLUME)?.join("lost+found"))?;
    let (code, said) = run(&lab)?;
    assert_eq!(code, 0, "{said}");
    fs::remove_dir(lab.path(VOLUME).join("lost+found"))?;
    assert_jail(&lab)?;
    let marker: serde_json::Value = serde_json::from_slice(&fs::read(lab.path(VOLUME).join(MARKER))?)?;
    assert_eq!(marker["version"], 1);
    let keys = fs::read_to_string(lab.path(VOLUME).join("root/.ssh/authorized_keys"))?;
    assert_eq!(keys, fs::read_to_string(lab.path(VOLUME).join("root/.ssh/id_ecdsa.pub"))?);

    // A user's work outlives another run, and not one that was asked to overwrite it.
    let work = lab.path(VOLUME).join("home/work");
    fs::write(&work, "mine")?;
    let (code, said) = run(&lab)?;
    assert!(code == 0 && said.contains("complete already"), "{said}");
    assert_eq!(fs::read_to_string(&work)?, "mine");
    let container = start(&lab, &POPULATE, "1")?;
    assert_eq!(end(&container)?, 0, "{}", container.logs());
    assert!(!work.exists());
    assert_jail(&lab)
}

#[test]
fn one_that_is_killed_at_any_moment_is_completed_by_the_next() -> Result<()> {
    let lab = lab()?;
    lab.volume(VOLUME)?;
    let begun = Instant::now();
    assert_eq!(run(&lab)?.0, 0);
    let whole = begun.elapsed();
    assert_jail(&lab)?;
    let mut random = fastrand::Rng::new();
    for round in 0..rounds() {
        let mut kills = 0;
        for _ in 0..TRIES {
            if kills == 0 {
                // Whatever one did that was not killed in time.
                lab.machine().exec(&["find", &format!("/pods/{VOLUME}"), "-mindepth", "1", "-delete"])?;
            }
            let container = start(&lab, &POPULATE, "0")?;
            std::thread::sleep(whole.mul_f64(random.f64() * 0.9));
            let killed = !container.has_ended() && container.signal("-KILL").is_ok();
            // One that was not killed in time ends by itself, and must have done so before the next one starts.
            if end(&container)? != 0 && killed {
                kills += 1;
            }
            if kills == KILLS {
                break;
            }
        }
        ensure!(kills > 0, "none of {TRIES} could be killed in time");
        let (code, said) = run(&lab)?;
        assert_eq!(code, 0, "{said}");
        assert_jail(&lab).with_context(|| format!("in round {round}, after {kills} kills"))?;
    }
    Ok(())
}

#[test]
fn two_at_once_fill_the_jail_once() -> Result<()> {
    let lab = lab()?;
    lab.volume(VOLUME)?;
    let (one, other) = (start(&lab, &POPULATE, "0")?, start(&lab, &POPULATE_TOO, "0")?);
    assert_eq!((end(&one)?, end(&other)?), (0, 0), "{}{}", one.logs(), other.logs());
    let copied = [&one, &other].iter().filter(|container| container.logs().contains("copying")).count();
    assert_eq!(copied, 1, "{}{}", one.logs(), other.logs());
    assert_jail(&lab)
}

#[test]
fn somebody_elses_files_are_left_alone_and_the_originals_jail_is_adopted() -> Result<()> {
    let lab = lab()?;
    let volume = lab.volume(VOLUME)?;
    fs::write(volume.join("thesis.txt"), "years of work")?;
    let (code, said) = run(&lab)?;
    assert!(
        code == 3 && said.contains("thesis.txt") && said.contains("downscaleAndOverwritePopulateJail"),
        "{said}"
    );
    let left: Vec<_> = fs::read_dir(&volume)?.map(|item| Ok(item?.file_name())).collect::<Result<_>>()?;
    assert_eq!(left, ["thesis.txt"], "nothing was changed");

    fs::create_dir(volume.join("usr"))?;
    let (code, said) = run(&lab)?;
    assert!(code == 0 && said.contains("stays as it is"), "{said}");
    assert!(volume.join(MARKER).exists());
    assert_eq!(fs::read_to_string(volume.join("thesis.txt"))?, "years of work");
    Ok(())
}

#[test]
fn a_full_volume_is_told_and_the_next_one_goes_on_when_it_is_larger() -> Result<()> {
    let lab = lab()?;
    lab.volume(VOLUME)?;
    let place = format!("/pods/{VOLUME}");
    lab.machine().exec(&["mount", "-t", "tmpfs", "-o", "size=20m,mode=755", "tmpfs", &place])?;
    let (code, said) = run(&lab)?;
    assert!(code == 3 && said.contains("volume is full") && said.contains("All of the jail needs"), "{said}");
    lab.machine().exec(&["mount", "-o", "remount,size=2g", &place])?;
    let (code, said) = run(&lab)?;
    assert_eq!(code, 0, "{said}");
    assert_jail(&lab)
}

#[test]
fn a_read_only_volume_is_told_unless_it_is_complete() -> Result<()> {
    let lab = lab()?;
    lab.volume(VOLUME)?;
    let place = format!("/pods/{VOLUME}");
    let remount = |how: &str| lab.machine().exec(&["mount", "-o", &format!("remount,{how}"), &place]);
    lab.machine().exec(&["mount", "-t", "tmpfs", "-o", "ro,mode=755", "tmpfs", &place])?;
    let (code, said) = run(&lab)?;
    assert!(code == 3 && said.contains("read-only"), "{said}");
    remount("rw")?;
    assert_eq!(run(&lab)?.0, 0);
    remount("ro")?;
    let (code, said) = run(&lab)?;
    assert!(code == 0 && said.contains("complete already"), "{said}");
    assert_jail(&lab)
}

#[test]
fn a_pod_without_the_volume_does_not_fill_itself() -> Result<()> {
    let lab = lab()?;
    let container = lab.container(&POPULATE, command::POPULATE_JAIL, &[], &[("agent", PROGRAM_DIR)])?;
    assert_eq!(end(&container)?, 3);
    assert!(container.logs().contains("no volume is mounted at /mnt/jail"), "{}", container.logs());
    Ok(())
}
