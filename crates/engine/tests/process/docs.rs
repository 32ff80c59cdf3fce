//! The page about configuration tells of everything that can be set.

use anyhow::Result;
use engine::settings::SETTINGS;

#[test]
fn the_page_lists_every_key_flag_variable_default_and_meaning() -> Result<()> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/configuration.md");
    let page = std::fs::read_to_string(path)?;
    for setting in SETTINGS {
        let row = page.lines().find(|line| line.starts_with(&format!("| `{}` |", setting.key)));
        let Some(row) = row else { panic!("docs/configuration.md has no row for `{}`", setting.key) };
        let flags = [setting.flag, setting.port_flag].into_iter().flatten().map(|flag| format!("`--{flag}`"));
        let names = flags.chain(setting.env.map(|env| format!("`{env}`")));
        for name in names.chain([setting.default.to_string(), setting.about.to_string()]) {
            assert!(row.contains(&name), "the row of `{}` does not tell {name}: {row}", setting.key);
        }
    }
    assert!(page.contains("`--config`"));
    Ok(())
}
