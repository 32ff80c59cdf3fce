use proptest::prelude::*;

use super::*;

const UUID: &str = "8932f937-d72c-4106-c12f-20bd9faed9f6";

/// `index node devices`, one line each.
fn strict(text: &str) -> Vec<String> {
    let map = Map::parse(text, Mode::Strict).unwrap_or_else(|error| panic!("{text:?}: {error}"));
    map.entries()
        .map(|(index, entry)| format!("{index} {} {}", entry.node, entry.visible_devices()))
        .collect()
}

fn compat(text: &str) -> Vec<String> {
    let map = Map::parse(text, Mode::Compat).unwrap();
    map.entries()
        .map(|(index, entry)| format!("{index} {} {}", entry.node, entry.visible_devices()))
        .collect()
}

fn refused(text: &str) -> (usize, usize, String) {
    let error = Map::parse(text, Mode::Strict).expect_err(text);
    (error.line, error.column, error.message)
}

#[track_caller]
fn refused_at(text: &str, line: usize, column: usize, word: &str) {
    let error = refused(text);
    assert_eq!((error.0, error.1), (line, column), "{text:?}: {}", error.2);
    assert!(error.2.contains(word), "{text:?}: {}", error.2);
}

#[test]
fn maps_of_the_original_are_read() {
    let both = ["0 node1 0,1", "1 node2 2"];
    assert_eq!(strict("0=node1:0,1\n1=node2:2"), both);
    assert_eq!(strict("  0 = node1 : 0,1  \n\n 1=node2:2"), both);
    assert_eq!(strict("0=node1:0,1\r\n1=node2:2\r\n"), both);
    assert_eq!(strict("# note\n0=n:1"), ["0 n 1"]);
    assert_eq!(strict("# a=b\n0=n:1"), ["0 n 1"]);
    assert_eq!(strict("0=a:0 # c"), ["0 a 0"]);
    assert_eq!(strict("0=a: 0, 1 ,2"), ["0 a 0,1,2"]);
    assert_eq!(strict(&format!("0=a:GPU-{UUID}")), [format!("0 a GPU-{UUID}")]);
    assert_eq!(strict("0=a:none"), ["0 a "]);
    assert_eq!(strict("3=node4:3@shared(2)\n4=node4:3@shared(2)"), ["3 node4 3", "4 node4 3"]);
}

#[test]
fn what_the_original_took_wrongly_is_refused_with_line_and_column() {
    refused_at("0=a:0\nx=b:1\n2=c:2", 2, 1, "no index");
    refused_at("0=a\n1=b:1", 1, 4, "devices are missing");
    refused_at("0=\n1=b:1", 1, 3, "devices are missing");
    refused_at("0=a:0\n 0=b:1", 2, 2, "line 1 has it");
    refused_at("0=:1", 1, 3, "node is missing");
    refused_at("0=a:", 1, 5, "none");
    refused_at("+1=a:0", 1, 1, "no index");
    refused_at("1_0=a:0", 1, 1, "no index");
    refused_at("٣=a:0", 1, 1, "no index");
    refused_at("-1=a:0", 1, 1, "no index");
    refused_at("=a:0", 1, 1, "index is missing");
    refused_at("4294967296=a:0", 1, 1, "no index");
    refused_at("0=a:0;1=b:1", 1, 6, "';'");
    refused_at("0=a:b:c", 1, 5, "'b'");
    refused_at("0=a=b:1", 1, 4, "'='");
    refused_at("0=a:0, 1 ,0", 1, 11, "device 0 is repeated");
    refused_at("0=a:0,,1", 1, 7, "device is missing");
    refused_at("0=a:0,none", 1, 7, "stands alone");
    refused_at("0=ä:0,x", 1, 3, "'ä'");
    refused_at("0=a:GPU-12", 1, 5, "nvidia-smi -L");
    refused_at("just words", 1, 1, "has no \"=\"");
    for blank in ["", " ", "\n \r\n", "# only a note"] {
        refused_at(blank, 1, 1, "no entry");
    }
}

#[test]
fn leading_zeros_of_an_index_are_taken_with_a_warning() {
    let map = Map::parse("007=a:0", Mode::Strict).unwrap();
    assert!(map.entry(7).is_some());
    assert_eq!((map.warnings()[0].line, map.warnings()[0].column), (1, 1));
}

#[test]
fn one_device_for_two_indices_needs_the_mark_in_both_lines() {
    refused_at("3=n:3\n4=n:3", 2, 5, "index 3 in line 1");
    refused_at("3=n:3@shared(2)\n4=n:3", 2, 5, "@shared(2)");
    refused_at("3=n:3@shared(2)\n4=n:3@shared(3)", 2, 5, "same number");
    refused_at("0=n:3@shared(2)\n1=n:3@shared(2)\n2=n:3@shared(2)", 3, 5, "3 indices");
    assert_eq!(strict("3=n:3\n4=m:3").len(), 2);
}

#[test]
fn two_ways_to_name_devices_of_one_node_are_refused() {
    refused_at(&format!("0=n:0\n1=n:GPU-{UUID}"), 2, 5, "one way");
    refused_at(&format!("0=n:GPU-{UUID},1"), 1, 46, "one way");
    assert_eq!(strict(&format!("0=n:0\n1=m:GPU-{UUID}")).len(), 2);
}

#[test]
fn compat_skips_what_the_original_skipped_and_keeps_what_follows() {
    assert_eq!(compat("0=a:0\nx=b:1\n2=c:2"), ["0 a 0", "2 c 2"]);
    assert_eq!(compat("0=a\n1=b:1"), ["1 b 1"]);
    assert_eq!(compat("0=a:0\n0=b:1"), ["0 b 1"]);
    assert_eq!(compat("0=:1"), ["0  1"]);
    assert_eq!(compat("0=a:"), ["0 a "]);
    assert_eq!(compat("+1=a:0\n1_0=a:1\n007=a:2"), ["1 a 0", "7 a 2", "10 a 1"]);
    assert_eq!(compat("-1=a:0"), [""; 0]);
    assert_eq!(compat("0=a:0;1=b:1"), ["0 a 0;1=b:1"]);
    assert_eq!(compat("0=a:b:c\n1=a=b:1"), ["0 a b:c", "1 a=b 1"]);
    assert_eq!(compat("0=a:0, 1 ,0"), ["0 a 0, 1 ,0"]);
    assert_eq!(compat("# a=b\n0=n:1"), ["0 n 1"]);
    assert_eq!(compat(" \n"), [""; 0]);
    let skipped = Map::parse("0=a:0\nx=b:1\n2=c:2", Mode::Compat).unwrap();
    assert_eq!(skipped.warnings()[0].line, 2);
}

#[test]
fn compat_lets_pods_of_one_map_share_as_the_original_did() {
    let map = Map::parse("3=node4:3\n4=node4:3\n5=node4:2", Mode::Compat).unwrap();
    let sharers = |index| map.entry(index).unwrap().claims[0].sharers.map(std::num::NonZeroU16::get);
    assert_eq!((sharers(3), sharers(4), sharers(5)), (Some(2), Some(2), None));
}

#[test]
fn as_many_devices_as_annotations_have_room_for_are_read_and_more_are_refused_at_once() {
    let letters: Vec<char> = ('a'..='z').chain('A'..='Z').collect();
    let names = (0..60_000).map(|n| [n / 2704 % 52, n / 52 % 52, n % 52].map(|at: usize| letters[at]));
    let names: Vec<String> = names.map(String::from_iter).collect();
    let map = Map::parse(&format!("0=n:{}", names.join(",")), Mode::Compat).unwrap();
    assert_eq!(map.entry(0).unwrap().claims.len(), 60_000);

    let uuids: Vec<String> = (0..60_000).map(|n| format!("GPU-8932f937-d72c-4106-c12f-{n:012x}")).collect();
    let map = Map::parse(&format!("0=n:{}", uuids[..6000].join(",")), Mode::Strict).unwrap();
    assert_eq!(map.entry(0).unwrap().claims.len(), 6000);
    for mode in [Mode::Strict, Mode::Compat] {
        let error = Map::parse(&format!("0=n:{}", uuids.join(",")), mode).unwrap_err();
        assert!(error.message.contains("room for 262144"), "{error}");
    }
}

#[test]
fn the_hash_is_stable() {
    assert_eq!(hash("0=a:0"), hash("0=a:0"));
    assert_eq!((hash("").as_str(), hash("0=a:0").len()), ("e3b0c44298fc1c14", 16));
}

fn arbitrary_map() -> impl Strategy<Value = String> {
    let device = prop_oneof![
        (0u16..12).prop_map(|index| index.to_string()),
        Just(format!("GPU-{UUID}")),
        (0u16..4, 2u16..5).prop_map(|(index, n)| format!("{index}@shared({n})")),
        Just("none".to_string()),
    ];
    let line = ("[0-9]{1,2}", "[a-z][a-z0-9.-]{0,5}", prop::collection::vec(device, 1..4))
        .prop_map(|(index, node, devices)| format!("{index}={node}:{}", devices.join(",")));
    prop::collection::vec(line, 0..6).prop_map(|lines| lines.join("\n"))
}

proptest! {
    #[test]
    fn no_text_makes_the_readers_panic(text in "[0-9a-z=:,@()#;\\- \r\nGPU٣ä.]{0,40}") {
        let _ = Map::parse(&text, Mode::Strict);
        let _ = Map::parse(&text, Mode::Compat);
    }

    #[test]
    fn errors_point_into_the_text(text in arbitrary_map(), at in 0usize..60, junk in "[=:;@#x ]") {
        let mut text: Vec<char> = text.chars().collect();
        text.insert(at.min(text.len()), junk.chars().next().unwrap());
        let text: String = text.into_iter().collect();
        if let Err(error) = Map::parse(&text, Mode::Strict) {
            let line = text.split('\n').nth(error.line - 1).expect("a line of the text");
            prop_assert!(error.column >= 1 && error.column <= line.chars().count() + 1, "{error} in {text:?}");
        }
    }

    #[test]
    fn what_is_printed_is_read_back_the_same(text in arbitrary_map()) {
        if let Ok(mut map) = Map::parse(&text, Mode::Strict) {
            map.warnings.clear();
            prop_assert_eq!(Map::parse(&map.to_string(), Mode::Strict).unwrap(), map);
        }
    }

    #[test]
    fn what_strict_takes_compat_takes_for_the_same(text in arbitrary_map()) {
        if let Ok(map) = Map::parse(&text, Mode::Strict) {
            let compat = Map::parse(&text, Mode::Compat).unwrap();
            prop_assert_eq!(map.entries, compat.entries);
        }
    }
}
