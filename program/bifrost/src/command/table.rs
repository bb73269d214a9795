//! Columns of text, and numbers as people read them.

use std::io::{Write, stdout};

use serde::Serialize;

use super::Failure;

/// Rows under headings. Columns whose heading begins with `>` are set to the right.
pub struct Table {
    headings: Vec<&'static str>,
    rows: Vec<Vec<String>>,
}

impl Table {
    pub fn new(headings: &[&'static str]) -> Table {
        Table { headings: headings.to_vec(), rows: Vec::new() }
    }

    /// Adds a row; it has as many cells as there are headings.
    pub fn row(&mut self, cells: Vec<String>) {
        debug_assert_eq!(cells.len(), self.headings.len());
        self.rows.push(cells);
    }

    /// The whole, with one line a row.
    pub fn render(&self) -> String {
        let heading = |n: usize| self.headings[n].trim_start_matches('>');
        let width = |n: usize| {
            let cells = self.rows.iter().map(|row| row[n].chars().count());
            cells.chain([heading(n).chars().count()]).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..self.headings.len()).map(width).collect();
        let line = |cells: &mut dyn Iterator<Item = &str>| {
            let mut line = String::new();
            for (n, cell) in cells.enumerate() {
                let gap = if n == 0 { "" } else { "  " };
                line += &match self.headings[n].starts_with('>') {
                    true => format!("{gap}{cell:>width$}", width = widths[n]),
                    false => format!("{gap}{cell:<width$}", width = widths[n]),
                };
            }
            line.trim_end().to_owned() + "\n"
        };
        let mut text = line(&mut (0..self.headings.len()).map(heading));
        for row in &self.rows {
            text += &line(&mut row.iter().map(String::as_str));
        }
        text
    }
}

/// The value, or a dash.
pub fn or_dash<T: ToString>(value: &Option<T>) -> String {
    value.as_ref().map_or("-".to_owned(), T::to_string)
}

/// Writes to standard output.
pub fn print(text: &str) -> Result<(), Failure> {
    let mut out = stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(Failure::output)
}

/// Writes a value to standard output, as JSON in a line.
pub fn print_value<T: Serialize>(value: &T) -> Result<(), Failure> {
    let json = serde_json::to_string(value).map_err(|error| Failure::output(error.into()))?;
    print(&(json + "\n"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::screen::units::count;

    #[test]
    fn columns_stand_under_their_headings() {
        let mut table = Table::new(&["port", ">packets", "why"]);
        table.row(vec!["eth0".into(), count(1_234_567), "é".into()]);
        table.row(vec!["e".into(), count(999), String::new()]);
        assert_eq!(table.render(), "port    packets  why\neth0  1,234,567  é\ne           999\n");
    }
}
