//! Columns.

use std::io::{self, Write};

/// Writes rows below their titles, each column as wide as its widest cell.
pub(crate) fn write(out: &mut impl Write, titles: &[&str], rows: &[Vec<String>]) -> io::Result<()> {
    let titles: Vec<String> = titles.iter().map(|title| (*title).to_owned()).collect();
    let lines = || std::iter::once(&titles).chain(rows);
    let width = |column: usize| {
        lines().filter_map(|cells| cells.get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..titles.len()).map(width).collect();
    for cells in lines() {
        let line: Vec<String> =
            cells.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}")).collect();
        writeln!(out, "{}", line.join("  ").trim_end())?;
    }
    Ok(())
}

/// A cell of text from Slurm: on one line, and never empty.
pub(crate) fn cell(text: &str) -> String {
    if text.is_empty() {
        return "-".into();
    }
    text.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let mut out = Vec::new();
        let rows =
            [vec!["a".into(), "long cell".into(), "x".into()], vec!["bcd".into(), "y".into(), cell("")]];
        write(&mut out, &["ID", "WHAT", "Z"], &rows).unwrap();
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "ID   WHAT       Z\na    long cell  x\nbcd  y          -\n"
        );
    }

    #[test]
    fn a_text_cannot_break_the_table() {
        assert_eq!(cell("a\nb\x1b[31m"), "a b [31m");
    }
}
