//! `soperator config show`: the settings of a role, and where each came from.

use std::io::Write;

use clap::{Subcommand, ValueEnum, builder::PossibleValue};
use engine::settings::{Flags, Row, World, load};
use serde_json::Value;

use crate::cli::Error;
use crate::role::Role;

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Print every setting, its value, and where it came from
    Show(ShowArgs),
}

#[derive(Debug, clap::Args)]
pub(crate) struct ShowArgs {
    /// The role whose settings are shown
    #[arg(long, value_enum, default_value_t = Role::Operator)]
    role: Role,
    /// The form of the answer
    #[arg(long, short, value_enum, default_value_t = Output::Table)]
    output: Output,
    #[command(flatten)]
    flags: Flags,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Output {
    /// Columns
    Table,
    /// A JSON list
    Json,
    /// A YAML list
    Yaml,
}

impl ValueEnum for Role {
    fn value_variants<'a>() -> &'a [Self] {
        &Self::ALL
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(PossibleValue::new(self.subcommand()))
    }
}

/// Prints the settings; what works otherwise than one may think goes to standard error.
pub(crate) fn run(command: &Command, out: &mut impl Write) -> Result<(), Error> {
    let Command::Show(args) = command;
    let settings = load(&args.role.profile(), &args.flags, &World::default()).map_err(Error::Settings)?;
    for warning in &settings.warnings {
        eprintln!("warning: {warning}");
    }
    match args.output {
        Output::Table => table(&settings.rows, out)?,
        Output::Json => {
            let text = serde_json::to_string_pretty(&settings.rows);
            writeln!(out, "{}", text.map_err(|error| Error::Bug(error.to_string()))?)?;
        }
        Output::Yaml => {
            let text = serde_saphyr::to_string(&settings.rows);
            out.write_all(text.map_err(|error| Error::Yaml(error.to_string()))?.as_bytes())?;
        }
    }
    Ok(())
}

fn table(rows: &[Row], out: &mut impl Write) -> Result<(), Error> {
    let cells: Vec<[String; 3]> = std::iter::once(["KEY", "VALUE", "SOURCE"].map(String::from))
        .chain(rows.iter().map(|row| [row.key.into(), plain(&row.value), row.source.to_string()]))
        .collect();
    let width = |column: usize| cells.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let (keys, values) = (width(0), width(1));
    for [key, value, source] in &cells {
        writeln!(out, "{key:keys$}  {value:values$}  {source}")?;
    }
    Ok(())
}

/// A value without the marks of JSON, as far as one line can show it.
fn plain(value: &Value) -> String {
    match value {
        Value::Null => "-".into(),
        Value::String(text) => text.clone(),
        Value::Array(items) if items.is_empty() => "-".into(),
        Value::Array(items) => items.iter().map(plain).collect::<Vec<_>>().join(","),
        Value::Object(fields) => {
            let fields = fields.iter().map(|(key, value)| format!("{key}={}", plain(value)));
            format!("({})", fields.collect::<Vec<_>>().join(" "))
        }
        other => other.to_string(),
    }
}
