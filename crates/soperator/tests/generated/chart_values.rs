//! The tables of values in the READMEs of the charts.

use std::fs;
use std::path::PathBuf;

use crate::values_table::{rows, table};
use crate::{check_file, root};

const BEGIN: &str = "<!-- Values: made by `make generate` from values.yaml. -->\n";
const END: &str = "<!-- End of values. -->\n";

fn charts() -> Vec<PathBuf> {
    let mut charts: Vec<PathBuf> = fs::read_dir(root().join("helm"))
        .expect("helm/")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.join("Chart.yaml").is_file())
        .collect();
    charts.sort();
    charts
}

#[test]
fn every_chart_has_a_table_of_its_values() {
    let charts = charts();
    assert!(!charts.is_empty());
    for chart in charts {
        let (values, readme) = (chart.join("values.yaml"), chart.join("README.md"));
        let text =
            fs::read_to_string(&values).unwrap_or_else(|error| panic!("{}: {error}", values.display()));
        let rows = rows(&text).unwrap_or_else(|error| panic!("{}: {error}", values.display()));
        let text =
            fs::read_to_string(&readme).unwrap_or_else(|error| panic!("{}: {error}", readme.display()));
        let parts = text.split_once(BEGIN).and_then(|(before, rest)| Some((before, rest.split_once(END)?.1)));
        let (before, after) = parts.unwrap_or_else(|| {
            panic!("{}: write these two lines where the table should be:\n{BEGIN}{END}", readme.display())
        });
        check_file(&readme, &format!("{before}{BEGIN}\n{}\n{END}{after}", table(&rows)));
    }
}
