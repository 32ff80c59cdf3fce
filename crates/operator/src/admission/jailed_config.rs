//! Files in the jail.

use api::nebius::JailedConfig;
use render::check::problem::{Problem, Problems};

/// What is wrong with a JailedConfig.
#[must_use]
pub fn jailed_config(config: &JailedConfig) -> Vec<Problem> {
    let mut problems = Problems::default();
    let items = config.spec.items.as_deref().unwrap_or_default();
    for (index, item) in items.iter().enumerate() {
        let path = format!("spec.items[{index}].path");
        if item.path.ends_with('/') || item.path.contains("//") {
            problems
                .error(path, format!("{:?} is no path of a file; write it without empty parts", item.path));
            continue;
        }
        for (other, before) in items[..index].iter().enumerate() {
            if before.path == item.path {
                problems.error(&path, format!("is the file of spec.items[{other}] too; write another path"));
            } else if is_below(&item.path, &before.path) || is_below(&before.path, &item.path) {
                problems.error(
                    &path,
                    format!("one of this and spec.items[{other}].path would have to be a file and a folder; change one"),
                );
            }
        }
    }
    problems.into_vec()
}

fn is_below(path: &str, folder: &str) -> bool {
    path.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/'))
}
