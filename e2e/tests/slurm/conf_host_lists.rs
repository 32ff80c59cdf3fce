//! Host lists, against scontrol.

use anyhow::Result;
use rig::slurm::basic_lines;
use slurm::{HostList, NodeName};

use crate::conf_controller::{Controller, with_each};

/// The answer of `scontrol show WHAT LIST` for each list; a line that scontrol refuses is empty.
fn ask(controller: &Controller, what: &str, lists: &[String]) -> Result<Vec<String>> {
    controller.write_conf("slurm.conf", &basic_lines())?;
    let script = format!("for list; do echo $(scontrol show {what} \"$list\" 2>/dev/null || :); done");
    let mut command = vec!["sh", "-c", &script, "sh"];
    command.extend(lists.iter().map(String::as_str));
    // scontrol writes what it refuses to standard output, too.
    let answer =
        |line: &str| if line.starts_with("Invalid hostlist") { String::new() } else { line.to_owned() };
    Ok(controller.exec(&command)?.lines().map(answer).collect())
}

/// Lists of names that hit each other: few prefixes, small numbers, with and without zeros in front.
fn lists() -> Vec<String> {
    let mut state = 0x9e37_79b9_u64;
    let mut random = |below: u64| {
        // Any sequence does, as long as it is always the same.
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    (0..120)
        .map(|_| {
            let count = 1 + random(12);
            let names = (0..count).map(|_| {
                let prefix =
                    ["a", "b-", "r1n", "r10n", "r2.x", "A_"][usize::try_from(random(6)).unwrap_or(0)];
                let width = usize::try_from(1 + random(3)).unwrap_or(1);
                let first = random(13);
                match random(6) {
                    0 => prefix.to_owned(),
                    1 => format!("{prefix}[{first:0width$}-{:0width$}]", first + random(9)),
                    2 => format!("{prefix}[{first},{:0width$}]", first + 1),
                    3 => format!("{prefix}[{first}-{}]z", first + 2),
                    _ => format!("{prefix}{first:0width$}"),
                }
            });
            names.collect::<Vec<_>>().join(",")
        })
        .collect()
}

#[test]
fn lists_stand_for_the_same_names_and_print_the_same() -> Result<()> {
    let lists = lists();
    with_each(|controller, _| {
        let names = ask(controller, "hostnames", &lists)?;
        let printed = ask(controller, "hostlist", &lists)?;
        assert_eq!((names.len(), printed.len()), (lists.len(), lists.len()));
        for ((list, names), printed) in lists.iter().zip(names).zip(printed) {
            let ours = HostList::parse(list)?;
            let our_names: Vec<String> = ours.names().map(String::from).collect();
            assert_eq!(our_names.join(" "), names, "{list}");
            assert_eq!(ours.to_string(), printed, "{list}");
        }
        Ok(())
    })
}

#[test]
fn what_we_compress_slurm_expands() -> Result<()> {
    let lists: Vec<Vec<NodeName>> = lists()
        .iter()
        .map(|list| HostList::parse(list).map(|list| list.names().collect()))
        .collect::<Result<_, _>>()?;
    let compressed: Vec<String> =
        lists.iter().map(|names| names.iter().collect::<HostList>().to_string()).collect();
    with_each(|controller, _| {
        for (names, answer) in lists.iter().zip(ask(controller, "hostnames", &compressed)?) {
            assert_eq!(names.iter().map(NodeName::as_str).collect::<Vec<_>>().join(" "), answer);
        }
        Ok(())
    })
}

/// Where the zeros in front are the same for all names of a prefix: see [`HostList::sorted`].
#[test]
fn lists_are_sorted_as_slurm_sorts_them() -> Result<()> {
    let lists: Vec<String> = [
        "a1,a2,a3,b1,a4",
        "b10,b9,a2,a10,a1,B1,a-1,a,aa",
        "a1b,a10b,a2b,a01b,a010b,a02b,a1c,A1b,a.b,a_b,a-b,aab,a,a1b2,a10b1,a2b1,a01b1,1,2",
        "a10,a09,a08,a11,a100",
        "r2n[1-3],r10n[1-3],r1n[1-3]",
        "x[003-005],x[001-002],y9,y10,y8",
    ]
    .map(String::from)
    .to_vec();
    with_each(|controller, _| {
        for (list, answer) in lists.iter().zip(ask(controller, "hostlistsorted", &lists)?) {
            assert_eq!(HostList::parse(list)?.sorted().to_string(), answer, "{list}");
        }
        Ok(())
    })
}

#[test]
fn slurm_refuses_what_we_refuse_but_for_what_it_guesses() -> Result<()> {
    let refused =
        ["a[1-2", "a[5-3]", "a[]", "a[x]", "a[1,,2]", "a[1 ]", "a[1-2-3]", "a[-1]", "a[0-65536]", "a[1:2]"];
    let guessed = ["a[1-]", "a[ 1]", "a[+1]", "a[[1]]", "a1]", "a;b"];
    with_each(|controller, _| {
        let answers = ask(controller, "hostnames", &refused.map(String::from))?;
        for (list, answer) in refused.iter().zip(answers) {
            assert!(HostList::parse(list).is_err() && answer.is_empty(), "{list}: {answer}");
        }
        let answers = ask(controller, "hostnames", &guessed.map(String::from))?;
        for (list, answer) in guessed.iter().zip(answers) {
            assert!(HostList::parse(list).is_err() && !answer.is_empty(), "{list}: {answer}");
        }
        Ok(())
    })
}

#[test]
fn a_list_of_a_hundred_thousand_names_is_read_by_slurm() -> Result<()> {
    let list: HostList = (0..100_000).map(|n| NodeName::new(format!("n{n}"))).collect::<Result<_, _>>()?;
    with_each(|controller, _| {
        let script = format!("scontrol show hostnames '{list}' | wc -l");
        assert_eq!(controller.exec(&["sh", "-c", &script])?.trim(), "100000");
        Ok(())
    })
}
