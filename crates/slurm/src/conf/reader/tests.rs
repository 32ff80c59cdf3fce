use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::conf::{Comment, ConfFile, IncludePath, Pairs};

/// Each line as `number: key=value;key=value`, then each error.
fn show(text: &str) -> Vec<String> {
    show_all(&read("f", text, &mut NoIncludes))
}

fn show_all(document: &Document) -> Vec<String> {
    let lines = document.lines.iter().map(|line| {
        let pairs: Vec<_> =
            line.pairs.iter().map(|pair| format!("{}={}", pair.key, pair.value.as_str())).collect();
        format!("{}: {}", line.at, pairs.join(";"))
    });
    lines.chain(document.errors.iter().map(ToString::to_string)).collect()
}

#[test]
fn lines_are_read_as_slurm_reads_them() {
    for (text, lines) in [
        ("", vec![]),
        ("\n  \n# x\n  # y\n", vec![]),
        ("A=1", vec!["f:1: A=1"]),
        ("  A = 1  # x\r\nB=2", vec!["f:1: A=1", "f:2: B=2"]),
        ("A=1 B=\"x y\" C=k=v", vec!["f:1: A=1;B=x y;C=k=v"]),
        ("A=\"\"", vec!["f:1: A="]),
        ("A=x\\#y # z", vec!["f:1: A=x#y"]),
        ("A=x\\\\#y", vec!["f:1: A=x\\"]),
        ("A=a\\b", vec!["f:1: A=ab"]),
        ("A=1 \\\n B=2\nC=3", vec!["f:1: A=1;B=2", "f:3: C=3"]),
        ("A=1,\\\n2 \\  \n B=2", vec!["f:1: A=1,2;B=2"]),
        ("A=1\\\\\nB=2", vec!["f:1: A=1\\", "f:2: B=2"]),
        ("A=1 \\", vec!["f:1: A=1"]),
        ("A=1 # x \\\nB=2", vec!["f:1: A=1", "f:2: B=2"]),
        ("A+=1", vec!["f:1: A=1"]),
        ("a.b_C1=x", vec!["f:1: a.b_C1=x"]),
        ("Includes=1", vec!["f:1: Includes=1"]),
    ] {
        assert_eq!(show(text), lines, "{text:?}");
    }
    assert_eq!(read("f", "A+=1", &mut NoIncludes).lines[0].pairs[0].sign, Some('+'));
}

#[test]
fn mistakes_are_told_with_file_and_line() {
    for (text, error) in [
        ("A=1\nB", "f:2: \"B\" is not KEY=VALUE"),
        ("A=1 B", "f:1: \"B\" is not KEY=VALUE"),
        ("A=", "f:1: A has no value; write A=\"\" if that is meant"),
        ("A=\"x y", "f:1: the quote before the value of A is never closed"),
        ("A=\"x # y\"", "f:1: the quote before the value of A is never closed"),
        ("A=\"x\"y", "f:1: the value of A goes on behind its quotes with \"y\""),
        ("A=x\"y z\"", "f:1: the value of A has a quote in it: \"x\\\"y\""),
        ("\"A\"=1", "f:1: \"\\\"A\\\"=1\" is not KEY=VALUE"),
        (" include x", "f:1: \"include\" is not KEY=VALUE; `include` must begin in the first column"),
        ("include ", "f:1: `include` needs the path of a file"),
        ("include a b", "f:1: `include a` is followed by \"b\""),
        ("include a", "f:1: cannot include a: files cannot be included here"),
        ("A=1\0B", "f:1: a NUL character: Slurm would not see the rest of the line"),
        ("A=b, c", "f:1: \"c\" is not KEY=VALUE"),
    ] {
        assert_eq!(show(text).last().map(String::as_str), Some(error), "{text:?}");
    }
}

fn with_files(files: &[(&str, &str)]) -> Vec<String> {
    let files: BTreeMap<String, String> =
        files.iter().map(|(name, text)| ((*name).into(), (*text).into())).collect();
    let mut resolve = |path: &str, _from: &str| match files.get(path) {
        Some(text) => Ok((path.to_owned(), text.clone())),
        None => Err("no such file".to_owned()),
    };
    show_all(&read("main", &files["main"], &mut resolve))
}

#[test]
fn included_lines_stand_in_the_place_of_the_include_with_their_own_numbers() {
    let files = [("main", "A=1\ninclude x\nB=2"), ("x", "\nX=1\nInclude y\n"), ("y", "Y=1")];
    assert_eq!(with_files(&files), ["main:1: A=1", "x:2: X=1", "y:1: Y=1", "main:3: B=2"]);
}

#[test]
fn an_include_can_name_the_cluster() {
    let files = [("main", "ClusterName=Big\ninclude x-%c"), ("x-big", "X=1")];
    assert_eq!(with_files(&files), ["main:1: ClusterName=Big", "x-big:1: X=1"]);
    let files = [("main", "include x-%c")];
    assert_eq!(with_files(&files), ["main:1: `%c` in x-%c needs a ClusterName above"]);
}

#[test]
fn circles_and_crowds_of_includes_end() {
    let files = [("main", "include x"), ("x", "include y"), ("y", "include x")];
    assert_eq!(with_files(&files), ["y:1: x includes itself"]);
    assert_eq!(with_files(&[("main", "include z")]), ["main:1: cannot include z: no such file"]);

    let mut depth = 0;
    let mut deeper = |_: &str, _: &str| {
        depth += 1;
        Ok((format!("f{depth}"), "include x".to_owned()))
    };
    let document = read("f0", "include x", &mut deeper);
    assert_eq!(document.errors[0].to_string(), "f16:1: more than 16 files include each other");

    let mut same = |_: &str, _: &str| Ok(("x".to_owned(), "X=1".to_owned()));
    let document = read("f", &"include x\n".repeat(1000), &mut same);
    assert_eq!(document.lines.len(), MAX_FILES);
    assert_eq!(document.errors.len(), 1000 - MAX_FILES);

    let mut large = |_: &str, _: &str| Ok(("x".to_owned(), "#\n".repeat(MAX_BYTES / 4)));
    let document = read("f", "include x\ninclude x\ninclude x\n", &mut large);
    assert!(document.errors[0].message.contains("bytes"), "{:?}", document.errors);
}

fn any_value() -> impl Strategy<Value = Value> {
    prop_oneof![
        "[a-zA-Z0-9/=,:;'%é-]{1,12}( [a-z=#-]{1,4})?"
            .prop_filter_map("a value", |text| Value::new("f", text).ok()),
        "[ -~]{0,12}".prop_filter_map("a value", |text| Value::escaped("f", text).ok()),
        any::<u64>().prop_map(Value::from),
    ]
}

fn any_key() -> impl Strategy<Value = Key> {
    "[A-Za-z][A-Za-z0-9_.]{0,8}".prop_map(|name| Key::new("f", name).unwrap())
}

fn any_pairs() -> impl Strategy<Value = Pairs> {
    (any_key(), any_value(), proptest::collection::vec((any_key(), any_value()), 0..4))
        .prop_map(|(key, value, rest)| Pairs::new(key, value).with_all(rest))
}

proptest! {
    #[test]
    fn print_and_read_are_inverse(lines in proptest::collection::vec(any_pairs(), 0..8), comment in "\\PC*") {
        let mut conf = ConfFile::new();
        for line in &lines {
            conf.comment(Comment::new(&comment)).push(line.clone());
        }
        let document = read("f", &conf.to_string(), &mut NoIncludes);
        prop_assert_eq!(&document.errors, &[]);
        let found: Vec<Vec<(Key, Value)>> =
            document.lines.iter().map(|line| line.pairs.iter().map(|pair| (pair.key.clone(), pair.value.clone())).collect()).collect();
        let meant: Vec<Vec<(Key, Value)>> =
            lines.iter().map(|line| line.iter().map(|(key, value)| (key.clone(), value.clone())).collect()).collect();
        prop_assert_eq!(found, meant);
    }

    #[test]
    fn what_was_read_prints_to_what_reads_the_same(text in "([A-C]{1,2}|[ =\"#\\\\\n+]|[a-z]{1,3}){0,24}|\\PC*") {
        let first = read("f", &text, &mut NoIncludes);
        let mut conf = ConfFile::new();
        conf.append(&first);
        let second = read("f", &conf.to_string(), &mut NoIncludes);
        prop_assert_eq!(&second.errors, &[]);
        let pairs = |document: &Document| document.lines.iter().map(|line| line.pairs.iter().map(|pair| (pair.key.clone(), pair.value.clone())).collect::<Vec<_>>()).collect::<Vec<_>>();
        prop_assert_eq!(pairs(&first), pairs(&second));
    }

    #[test]
    fn no_accepted_value_changes_the_lines_around_it(text in "\\PC*|[ -~\\n\\r\\t\"#\\\\]{0,12}") {
        if let Ok(value) = Value::new("f", text) {
            let mut conf = ConfFile::new();
            conf.set(crate::key!("A"), 1_u16).set(crate::key!("B"), value.clone()).set(crate::key!("C"), 3_u16);
            let lines = read("f", &conf.to_string(), &mut NoIncludes).lines;
            prop_assert_eq!(lines.len(), 3);
            prop_assert_eq!(&lines[1].pairs[0].value, &value);
            prop_assert_eq!(lines[1].pairs.len(), 1);
        }
    }

    #[test]
    fn an_include_path_is_read_as_it_was_written(path in "[ -~é]{0,12}") {
        if let Ok(path) = IncludePath::new("f", path) {
            let mut conf = ConfFile::new();
            conf.include(path.clone());
            let mut seen = Vec::new();
            let mut resolve = |path: &str, _: &str| { seen.push(path.to_owned()); Ok((String::from("x"), String::new())) };
            let document = read("f", &conf.to_string(), &mut resolve);
            if !path.as_str().contains("%c") {
                prop_assert_eq!(document.errors, []);
                prop_assert_eq!(seen, [path.as_str()]);
            }
        }
    }
}
