use proptest::prelude::*;

use super::*;

fn expand(text: &str) -> Vec<String> {
    HostList::parse(text).unwrap().names().map(String::from).collect()
}

fn compress(names: &[&str]) -> String {
    names.iter().map(|name| NodeName::new(*name).unwrap()).collect::<HostList>().to_string()
}

/// What `scontrol show hostnames` and `scontrol show hostlist` of 24.11 and 26.05 answer.
#[test]
fn lists_expand_and_print_as_in_slurm() {
    for (text, names, printed) in [
        ("", "", ""),
        ("a", "a", "a"),
        (
            "a-[0-3,07,10-12],b[1-2]c",
            "a-0 a-1 a-2 a-3 a-07 a-10 a-11 a-12 b1c b2c",
            "a-[0-3,07,10-12],b1c,b2c",
        ),
        ("a1,a2,a3,b1,a4", "a1 a2 a3 b1 a4", "a[1-3],b1,a4"),
        ("a1,a02,a3,a003,a004,a010,a9,a10", "a1 a02 a3 a003 a004 a010 a9 a10", "a[1,02,3,003-004,010,9-10]"),
        ("r[1-2]n[1-3]", "r1n1 r1n2 r1n3 r2n1 r2n2 r2n3", "r1n[1-3],r2n[1-3]"),
        ("a[1-2][3-4]x", "a13x a14x a23x a24x", "a13x,a14x,a23x,a24x"),
        ("a3,a1,a2,a2", "a3 a1 a2 a2", "a[3,1-2,2]"),
        ("a,b,a", "a b a", "a,b,a"),
        (",,a1,, a2\ta3\n", "a1 a2 a3", "a[1-3]"),
        ("[1-3]", "1 2 3", "[1-3]"),
        ("1,2,3", "1 2 3", "[1-3]"),
        ("a[08-11]", "a08 a09 a10 a11", "a[08-11]"),
        ("a[8-011]", "a8 a9 a10 a11", "a[8-11]"),
        ("a[001-3]", "a001 a002 a003", "a[001-003]"),
        ("a09,a10", "a09 a10", "a[09-10]"),
        ("a99,a100", "a99 a100", "a[99-100]"),
        ("a09,a9,a10", "a09 a9 a10", "a[09,9-10]"),
        ("a0,a00,a000", "a0 a00 a000", "a[0,00,000]"),
        ("a[1-3],a[4-5]", "a1 a2 a3 a4 a5", "a[1-5]"),
        ("a[1-3],a[2-5]", "a1 a2 a3 a2 a3 a4 a5", "a[1-3,2-5]"),
        ("a[1-1]", "a1", "a1"),
        ("a,a1", "a a1", "a,a1"),
    ] {
        assert_eq!(expand(text).join(" "), names, "{text}");
        assert_eq!(HostList::parse(text).unwrap().to_string(), printed, "{text}");
    }
}

#[test]
fn digits_before_a_bracket_belong_to_the_number() {
    assert_eq!(expand("a1[08-09]"), ["a108", "a109"]);
    assert_eq!(HostList::parse("a1[08-09]").unwrap().to_string(), "a[108-109]");
    assert_eq!(HostList::parse("a[1-2]3,a[1-2]4").unwrap().to_string(), "a[13,23,14,24]");
    assert_eq!(HostList::parse("a[0-1][00-01]").unwrap().to_string(), "a[000-001,100-101]");
}

#[test]
fn a_number_beyond_64_bits_is_part_of_the_name() {
    let long = "a123456789012345678901234567890";
    assert_eq!(expand(long), [long]);
    assert_eq!(compress(&[long, "a1"]), format!("{long},a1"));
    assert_eq!(compress(&["a18446744073709551615", "a1"]), "a[18446744073709551615,1]");
    let zeros = "a00000000000000000000000000000000000000000000001";
    assert_eq!(compress(&[zeros]), zeros);
}

#[test]
fn a_long_range_is_printed_in_pieces_that_slurm_reads() {
    let names: Vec<NodeName> = (0..100_000).map(|n| NodeName::new(format!("a{n}")).unwrap()).collect();
    let list: HostList = names.iter().collect();
    assert_eq!(list.to_string(), "a[0-65535,65536-99999]");
    assert_eq!(HostList::parse(&list.to_string()).unwrap(), list);
    let padded: HostList = (1..=70_000).map(|n| NodeName::new(format!("a{n:03}")).unwrap()).collect();
    assert_eq!(padded.to_string(), "a[001-65536,65537-70000]");
    assert_eq!(HostList::parse(&padded.to_string()).unwrap(), padded);
}

#[test]
fn mistakes_are_told_with_their_column() {
    for (text, message) in [
        ("a[1-2", "column 2: this `[` is never closed"),
        ("b,a1-2]", "column 7: this `]` closes nothing"),
        ("a[5-3]", "column 3: the range 5-3 goes down"),
        ("a[]", "column 3: \"\" is neither a number nor a range like 0-3"),
        ("a[1,x]", "column 5: \"x\" is neither a number nor a range like 0-3"),
        ("a[1,,2]", "column 5: \"\" is neither a number nor a range like 0-3"),
        ("a[ 1]", "column 3: \" 1\" is neither a number nor a range like 0-3"),
        ("a[1-2-3]", "column 3: \"1-2-3\" is neither a number nor a range like 0-3"),
        ("a[1-]", "column 3: \"1-\" is neither a number nor a range like 0-3"),
        ("a[+1]", "column 3: \"+1\" is neither a number nor a range like 0-3"),
        ("a[[1]]", "column 3: \"[1\" is neither a number nor a range like 0-3"),
        ("b1, a;b", "column 6: ';' cannot be part of a host list"),
        ("é", "column 1: 'é' cannot be part of a host list"),
        ("a\r", "column 2: '\\r' cannot be part of a host list"),
        ("a,ALL", "column 3: `ALL` is no node name: Slurm uses this word for something else"),
        (
            "a[0-65536]",
            "column 3: the range 0-65536 has more than 65536 numbers, which Slurm refuses; write two ranges",
        ),
    ] {
        assert_eq!(HostList::parse(text).unwrap_err().to_string(), message, "{text:?}");
    }
    let long = format!("b,{}[1-2]", "a".repeat(255));
    assert_eq!(HostList::parse(&long).unwrap_err(), HostListError::LongName { column: 3 });
}

#[test]
fn expansion_is_bounded_before_it_begins() {
    assert_eq!(HostList::parse_up_to("a[1-3],b[1-2]", 5).unwrap().len(), 5);
    let error = HostList::parse_up_to("a[1-3],b[1-2]", 4).unwrap_err();
    assert_eq!(error.to_string(), "column 8: with this the list has more than 4 names");
    let bomb = "a[1-60000]".repeat(40);
    assert!(matches!(HostList::parse(&bomb), Err(HostListError::TooMany { column: 1, .. })));
}

#[test]
fn names_are_found_as_they_are_written() {
    let list = HostList::parse("a[08-11],b,c1d").unwrap();
    for name in ["a08", "a11", "b", "c1d"] {
        assert!(list.contains(name), "{name}");
    }
    for name in ["a8", "a008", "a12", "a", "b1", "c1", "", "a8x"] {
        assert!(!list.contains(name), "{name}");
    }
}

/// What `scontrol show hostlistsorted` answers, without the names that come twice.
#[test]
fn sorted_is_as_in_slurm() {
    for (text, sorted) in [
        ("a1,a2,a3,b1,a4", "a[1-4],b1"),
        ("b10,b9,a2,a10,a1,B1,a-1,a,aa", "B1,a,a[1-2,10],a-1,aa,b[9-10]"),
        (
            "a1b,a10b,a2b,a01b,a010b,a02b,a1c,A1b,a.b,a_b,a-b,aab,a,a1b2,a10b1,a2b1,a01b1,a1b,1,2",
            "[1-2],A1b,a,a-b,a.b,a01b,a01b1,a010b,a02b,a1b,a1b2,a1c,a2b,a2b1,a10b,a10b1,a_b,aab",
        ),
        ("a10,a09,a08,a11,a100", "a[08-11,100]"),
        ("a[1-3],a[2-5],a2", "a[1-5]"),
        ("a,b,a", "a,b"),
    ] {
        assert_eq!(HostList::parse(text).unwrap().sorted().to_string(), sorted, "{text}");
    }
}

fn any_name() -> impl Strategy<Value = NodeName> {
    "([ab]|r[0-9]{1,2}[-.x])[0-9]{0,3}[cd]?".prop_map(|name| NodeName::new(name).unwrap())
}

proptest! {
    #[test]
    fn compress_and_expand_are_inverse(names in proptest::collection::vec(any_name(), 0..40)) {
        let list: HostList = names.iter().collect();
        let again = HostList::parse(&list.to_string()).unwrap();
        prop_assert_eq!(again.names().collect::<Vec<_>>(), names.clone());
        prop_assert_eq!(&again, &list);
        prop_assert_eq!(again.len(), names.len());
        prop_assert!(names.iter().all(|name| list.contains(name.as_str())));
    }

    #[test]
    fn numbers_in_a_row_become_one_range(first in 0_u64..2000, count in 1_u64..300, width in 0_usize..6) {
        let names = (first..first + count).map(|n| NodeName::new(format!("n{n:0width$}")).unwrap());
        let list: HostList = names.clone().collect();
        prop_assert_eq!(list.to_string().matches(',').count(), 0);
        prop_assert_eq!(list.names().collect::<Vec<_>>(), names.collect::<Vec<_>>());
    }

    #[test]
    fn sorting_keeps_every_name_once(names in proptest::collection::vec(any_name(), 0..40)) {
        let sorted = names.iter().collect::<HostList>().sorted();
        let kept: Vec<NodeName> = sorted.names().collect();
        let once: std::collections::BTreeSet<_> = names.iter().cloned().collect();
        prop_assert_eq!(kept.len(), once.len());
        prop_assert_eq!(kept.into_iter().collect::<std::collections::BTreeSet<_>>(), once);
        prop_assert_eq!(sorted.sorted(), sorted);
    }

    #[test]
    fn no_text_is_too_strange(text in "[ab0-9,\\[\\]-]{0,20}|\\PC*") {
        if let Ok(list) = HostList::parse_up_to(&text, 1000) {
            prop_assert_eq!(&HostList::parse(&list.to_string()).unwrap(), &list);
        }
    }
}
