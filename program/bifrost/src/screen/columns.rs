//! Tables that fit their place.
//!
//! A figure of which digits are cut off is another figure. So a column is as wide as what stands in
//! it, and where not all of them fit, whole columns are left out, the least wanted first. Only the
//! first column, a name, is ever cut.

use ratatui::layout::{Alignment, Constraint};
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Cell, Row, Table};

const SPACING: usize = 1;

/// A column.
pub(super) struct Column {
    pub(super) name: &'static str,
    pub(super) side: Alignment,
    /// Columns with the highest number are left out first; the first column always stays.
    pub(super) rank: u8,
}

/// A column of words.
pub(super) const fn words(name: &'static str, rank: u8) -> Column {
    Column { name, side: Alignment::Left, rank }
}

/// A column of figures.
pub(super) const fn figures(name: &'static str, rank: u8) -> Column {
    Column { name, side: Alignment::Right, rank }
}

/// A table of such columns for a place that is so wide. Every row has a span for every column.
pub(super) fn table(
    columns: &[Column],
    rows: Vec<Vec<Span<'static>>>,
    width: u16,
    heading: Style,
) -> Table<'static> {
    let widest = |at: usize| rows.iter().map(|row| row[at].width()).max().unwrap_or(0);
    let needs: Vec<usize> =
        columns.iter().enumerate().map(|(at, column)| widest(at).max(column.name.chars().count())).collect();
    let shown = chosen(columns, &needs, usize::from(width));
    let cell = |at: usize, text: Span<'static>| Cell::from(Line::from(text).alignment(columns[at].side));
    let header = Row::new(shown.iter().map(|&at| cell(at, Span::raw(columns[at].name)))).style(heading);
    let body = rows.iter().map(|row| Row::new(shown.iter().map(|&at| cell(at, row[at].clone()))));
    let widths = shown.iter().map(|&at| match at {
        0 => Constraint::Max(needs[0] as u16),
        _ => Constraint::Length(needs[at] as u16),
    });
    Table::new(body, widths).header(header).column_spacing(SPACING as u16)
}

/// Which columns are shown, in their order.
fn chosen(columns: &[Column], needs: &[usize], width: usize) -> Vec<usize> {
    let mut shown: Vec<usize> = (0..columns.len()).collect();
    // A name may be cut down to its heading before another column goes.
    let least = |at: usize| if at == 0 { needs[0].min(8) } else { needs[at] };
    while shown.iter().map(|&at| least(at) + SPACING).sum::<usize>() > width + SPACING {
        match shown.iter().copied().filter(|&at| at != 0).max_by_key(|&at| (columns[at].rank, at)) {
            Some(last) => shown.retain(|&at| at != last),
            None => break,
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_wanted_columns_go_first_and_the_first_stays() {
        let columns = [words("name", 9), figures("a", 0), figures("b", 2), figures("c", 1)];
        let needs = [10, 4, 4, 4];
        assert_eq!(chosen(&columns, &needs, 30), [0, 1, 2, 3]);
        assert_eq!(chosen(&columns, &needs, 23), [0, 1, 2, 3], "a name is cut first");
        assert_eq!(chosen(&columns, &needs, 22), [0, 1, 3]);
        assert_eq!(chosen(&columns, &needs, 17), [0, 1]);
        assert_eq!(chosen(&columns, &needs, 3), [0]);
    }
}
