//! Finds `kube::Api` in Rust sources. Comments and strings do not count.

use std::str::FromStr;

use proc_macro2::{Delimiter, LexError, TokenStream, TokenTree};

/// The roots under which `Api` is known.
const CRATES: [&str; 2] = ["kube", "kube_client"];

/// The lines that name `kube::Api`: as a path, in a `use` group, through a glob import or the module `api`.
pub(crate) fn names_of_kube_api(source: &str) -> Result<Vec<usize>, LexError> {
    let mut lines = Vec::new();
    search(TokenStream::from_str(source)?, &[], &mut lines);
    lines.sort_unstable();
    lines.dedup();
    Ok(lines)
}

/// Walks `tokens`, keeping the path that led to each of them; `prefix` is the path in front of a `{` group.
fn search(tokens: TokenStream, prefix: &[String], lines: &mut Vec<usize>) {
    let mut path = prefix.to_vec();
    // Two colons in a row, just before this token: the path goes on.
    let mut colons = 2;
    for token in tokens {
        let line = token.span().start().line;
        match token {
            TokenTree::Punct(punct) if punct.as_char() == ':' => {
                colons += 1;
                continue;
            }
            TokenTree::Punct(punct) => {
                if punct.as_char() == '*' && colons == 2 && is_glob(&path) {
                    lines.push(line);
                }
                // A comma in a `use` group starts again at the prefix; elsewhere the prefix is empty.
                path = prefix.to_vec();
                colons = 2;
                continue;
            }
            TokenTree::Ident(ident) => {
                if colons != 2 {
                    path = Vec::new();
                }
                path.push(ident.to_string());
                if is_api(&path) {
                    lines.push(line);
                }
            }
            TokenTree::Group(group) => {
                let inside_path = colons == 2 && group.delimiter() == Delimiter::Brace;
                search(group.stream(), if inside_path { &path } else { &[] }, lines);
                path = prefix.to_vec();
            }
            TokenTree::Literal(_) => path = Vec::new(),
        }
        colons = 0;
    }
}

fn is_api(path: &[String]) -> bool {
    let Some((last, before)) = path.split_last() else {
        return false;
    };
    // `api::Api` after `use kube::api`.
    let of_kube = before.iter().any(|segment| CRATES.contains(&segment.as_str()));
    let of_module = before.last().is_some_and(|segment| segment == "api");
    last == "Api" && (of_kube || of_module)
}

fn is_glob(path: &[String]) -> bool {
    let Some((first, rest)) = path.split_first() else {
        return false;
    };
    CRATES.contains(&first.as_str()) && (rest.is_empty() || rest == ["api"])
}

mod tests {
    use super::*;

    fn lines(source: &str) -> Vec<usize> {
        names_of_kube_api(source).expect("Rust")
    }

    #[test]
    fn every_way_to_name_it_is_found() {
        for source in [
            "use kube::Api;",
            "use ::kube::Api;",
            "use kube::api::Api;",
            "use kube::{Api, Client};",
            "use kube::{Client, Api};",
            "use kube::{Client, api::{ListParams, Api}};",
            "use kube::{Client as C, Api as A};",
            "use kube_client::Api;",
            "use kube::*;",
            "use kube::api::*;",
            "use kube::{Client, api::*};",
            "use kube::api; fn f() { let pods: api::Api<Pod> = todo(); }",
            "fn f(pods: kube::Api<Pod>) {}",
            "fn f() { let pods = kube::Api::<Pod>::all(client); }",
            "mod a { mod b { fn f() { g(kube::Api::<Pod>::all(client)) } } }",
            "type Pods = Vec<kube::Api<Pod>>;",
        ] {
            assert_eq!(lines(source), [1], "{source}");
        }
    }

    #[test]
    fn the_line_is_right() {
        assert_eq!(lines("// first\nuse kube::{\n    Client,\n    Api,\n};\n"), [4]);
    }

    #[test]
    fn what_only_looks_like_it_is_left_alone() {
        for source in [
            "// kube::Api\n/* kube::Api */\n/// kube::Api\nfn f() {}",
            "const TEXT: &str = \"kube::Api\"; const RAW: &str = r#\"kube::Api\"#;",
            "use kube::{Client, ResourceExt}; struct Api; fn f(api: Api) {}",
            "use kube::Client; use crate::wire::Api;",
            "use kube::{Client, core::*}; fn f() { let x = 2 * Api; }",
            "use kube::api::ApiResource;",
            "struct S { kube: Api }",
            "match kube { Api => 1, _ => 2 }",
        ] {
            assert_eq!(lines(source), Vec::<usize>::new(), "{source}");
        }
    }

    #[test]
    fn text_that_is_no_rust_is_an_error() {
        assert!(names_of_kube_api("fn f( {").is_err());
    }
}
