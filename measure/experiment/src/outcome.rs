//! What comes out of an experiment, as text, as JSON, and as a section of a page.

use notation::grouped;
use serde::Serialize;
use trial::page::{Chart, Section, Table as PageTable};

use crate::Experiment;

/// The form of an outcome as JSON.
pub const SCHEMA: &str = "bifrost.experiment/1";
/// Columns of text, those of a terminal; what is longer goes on below.
const WIDTH: usize = 80;
/// Columns that a heading may take without being broken.
const HEADING: usize = 10;
/// Columns that the rows' names have in any case.
const NAMES: usize = 16;

/// What came out.
#[derive(Serialize)]
pub struct Outcome {
    /// [`SCHEMA`].
    pub schema: &'static str,
    /// The experiment.
    pub name: &'static str,
    /// What was asked.
    pub question: &'static str,
    /// Whose table it is.
    pub source: &'static str,
    /// The command that does it again.
    pub command: String,
    /// Whether it was run in its short form, whose figures are worth little.
    pub short: bool,
    /// The tables.
    pub tables: Vec<Table>,
    /// What is to be known of the figures.
    pub notes: Vec<String>,
    /// Why it ended early, if it did.
    pub failed: Option<String>,
    /// How long it took.
    pub seconds: f64,
    /// Drawn from the same figures.
    #[serde(skip)]
    pub charts: Vec<Chart>,
}

/// Figures under headings.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Table {
    /// What it shows.
    pub title: String,
    /// The first is that of the rows' names.
    pub headings: Vec<String>,
    /// The rows.
    pub rows: Vec<Row>,
}

/// A row.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// Its name.
    pub name: String,
    /// One for each heading but the first.
    pub cells: Vec<Cell>,
}

/// What stands in a table.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Cell {
    /// A number in the heading's unit.
    Figure(f64),
    /// How many.
    Count(u64),
    /// A word, or a figure as it was printed once.
    Text(String),
    /// Not known, or not measured.
    Nothing,
}

impl From<f64> for Cell {
    fn from(figure: f64) -> Cell {
        if figure.is_finite() { Cell::Figure(figure) } else { Cell::Nothing }
    }
}

impl From<usize> for Cell {
    fn from(count: usize) -> Cell {
        Cell::Count(count as u64)
    }
}

impl From<Option<f64>> for Cell {
    fn from(figure: Option<f64>) -> Cell {
        figure.map_or(Cell::Nothing, Cell::from)
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Cell {
        if text.is_empty() { Cell::Nothing } else { Cell::Text(text.to_owned()) }
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Cell {
        Cell::from(text.as_str())
    }
}

impl std::fmt::Display for Cell {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Cell::Figure(value) => f.write_str(&figure(*value)),
            Cell::Count(count) => f.write_str(&grouped(*count)),
            Cell::Text(text) => f.write_str(text),
            Cell::Nothing => f.write_str("-"),
        }
    }
}

/// A number with three or four digits that matter, thousands set apart.
pub fn figure(value: f64) -> String {
    let size = value.abs();
    let sign = if value < 0.0 { "-" } else { "" };
    if size >= 99.95 {
        format!("{sign}{}", grouped(size.round() as u64))
    } else if size >= 9.995 {
        format!("{value:.1}")
    } else if size >= 0.0995 || value == 0.0 {
        format!("{value:.2}")
    } else {
        format!("{value:.4}")
    }
}

impl Table {
    /// A table with these headings, the first of which is that of the rows' names.
    pub fn new(title: impl Into<String>, headings: &[&str]) -> Table {
        let headings = headings.iter().map(|heading| (*heading).to_owned()).collect();
        Table { title: title.into(), headings, rows: Vec::new() }
    }

    /// One more row.
    pub fn row(&mut self, name: impl Into<String>, cells: impl IntoIterator<Item = Cell>) {
        self.rows.push(Row { name: name.into(), cells: cells.into_iter().collect() });
    }

    /// As columns of text.
    pub fn text(&self) -> String {
        let rows: Vec<Vec<String>> = self.cells().collect();
        let wide = |n: usize| {
            let cells = rows.iter().filter_map(|row| row.get(n));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let widest = |lines: &[String]| lines.iter().map(|line| line.chars().count()).max().unwrap_or(0);
        // A heading takes some lines when it would be much wider than what stands under it.
        let headings: Vec<Vec<String>> = (self.headings.iter().enumerate())
            .map(|(n, heading)| lines(heading, wide(n).max(HEADING)))
            .collect();
        let figures: usize = (1..headings.len()).map(|n| 2 + widest(&headings[n]).max(wide(n))).sum();
        let names = wide(0).min(WIDTH.saturating_sub(figures).max(NAMES));
        let width = |n: usize| widest(&headings[n]).max(if n == 0 { names } else { wide(n) });
        let height = headings.iter().map(Vec::len).max().unwrap_or(0);
        let line = |cells: &[String]| {
            let cells = cells.iter().enumerate().map(|(n, cell)| match n {
                0 => format!("{cell:<width$}", width = width(0)),
                _ => format!("  {cell:>width$}", width = width(n)),
            });
            cells.collect::<String>().trim_end().to_owned() + "\n"
        };
        let mut text = lines(&self.title, WIDTH).join("\n") + "\n";
        for n in 0..height {
            let part = |heading: &Vec<String>| {
                (n + heading.len()).checked_sub(height).map_or(String::new(), |at| heading[at].clone())
            };
            text += &line(&headings.iter().map(part).collect::<Vec<_>>());
        }
        for row in &rows {
            let name = if wide(0) > names { hanging(&row[0], names) } else { vec![row[0].clone()] };
            let mut name = name.into_iter();
            text += &line(&[vec![name.next().unwrap_or_default()], row[1..].to_vec()].concat());
            name.for_each(|rest| text += &(rest + "\n"));
        }
        text
    }

    fn cells(&self) -> impl Iterator<Item = Vec<String>> + '_ {
        let cells = |row: &Row| row.cells.iter().map(Cell::to_string).collect::<Vec<_>>();
        self.rows.iter().map(move |row| [vec![row.name.clone()], cells(row)].concat())
    }

    fn html(&self) -> PageTable {
        let headings = self.headings.iter().enumerate();
        let headings: Vec<String> = headings
            .map(|(n, heading)| if n == 0 { heading.clone() } else { format!(">{heading}") })
            .collect();
        self.cells().fold(PageTable::new(&headings).caption(&self.title), PageTable::row)
    }
}

impl Outcome {
    pub(crate) fn new(experiment: &Experiment, short: bool) -> Outcome {
        Outcome {
            schema: SCHEMA,
            name: experiment.name,
            question: experiment.question,
            source: experiment.source,
            command: format!("bifrost experiment {}{}", experiment.name, if short { " --short" } else { "" }),
            short,
            tables: Vec::new(),
            notes: Vec::new(),
            failed: None,
            seconds: 0.0,
            charts: Vec::new(),
        }
    }

    /// Adds a remark, once.
    pub(crate) fn note(&mut self, text: impl Into<String>) {
        let text = text.into();
        if !self.notes.contains(&text) {
            self.notes.push(text);
        }
    }

    /// As text.
    pub fn text(&self) -> String {
        let mut text = hanging(&format!("{}: {}", self.name, self.question), WIDTH).join("\n") + "\n";
        text += &(hanging(&format!("after: {}", self.source), WIDTH).join("\n") + "\n");
        for table in &self.tables {
            text += &format!("\n{}", table.text());
        }
        if !self.notes.is_empty() {
            text.push('\n');
        }
        for note in &self.notes {
            text += &(hanging(&format!("- {note}"), WIDTH).join("\n") + "\n");
        }
        if let Some(why) = &self.failed {
            text += &format!("\nended early: {why}\n");
        }
        text + &format!("\n{} in {:.0} s\n", self.command, self.seconds)
    }

    /// As a section of a page.
    pub fn section(&self) -> Section {
        let mut section = Section::new(self.name).text(self.question).text(format!("After {}.", self.source));
        if self.short {
            section = section.text("Run in its short form: its figures are worth little.");
        }
        for chart in self.charts.iter().filter(|chart| !chart.is_empty()) {
            section = section.chart(chart.clone());
        }
        for table in &self.tables {
            section = section.table(table.html());
        }
        section = section.list(self.notes.iter().cloned());
        if let Some(why) = &self.failed {
            section = section.text(format!("It ended early: {why}"));
        }
        section.command(&self.command)
    }
}

/// A text in lines of so many columns, all but the first of them set in.
fn hanging(text: &str, width: usize) -> Vec<String> {
    let lines = lines(text, width - 2).into_iter().enumerate();
    lines.map(|(n, line)| if n == 0 { line } else { format!("  {line}") }).collect()
}

/// A text in lines of so many columns, as far as its words let it.
fn lines(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= width => {
                *line += " ";
                *line += word;
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_the_digits_that_matter() {
        for (value, text) in [
            (0.0, "0.00"),
            (0.01234, "0.0123"),
            (1.234, "1.23"),
            (47.26, "47.3"),
            (999.6, "1,000"),
            (1_234_567.8, "1,234,568"),
            (-1234.0, "-1,234"),
        ] {
            assert_eq!(figure(value), text);
        }
        assert_eq!(Cell::from(f64::NAN), Cell::Nothing);
    }

    #[test]
    fn tables_stand_in_columns() {
        let mut table = Table::new("rates", &["who", "then", "now"]);
        table.row("Linux", [Cell::from("27"), 1234.5.into()]);
        table.row("é", ["".into(), None.into()]);
        assert_eq!(table.text(), "rates\nwho    then    now\nLinux    27  1,235\né         -      -\n");
        let mut table = Table::new("times", &["", "half of them in, µs", "lost"]);
        table.row("Linux", [Cell::from(1234.5), 0.0.into()]);
        let wanted =
            ["times", "        half of", "       them in,", "             µs  lost", "Linux     1,235  0.00"];
        assert_eq!(table.text(), wanted.join("\n") + "\n");
    }

    #[test]
    fn eighty_columns_hold_names_however_long() {
        let headings = [
            "",
            "then, transactions/s",
            "now, transactions/s",
            "half of them in, µs",
            "99 % in, µs",
            "bulk forwarded, kpps",
        ];
        let mut table = Table::new(
            "mixed sizes at 80 % of what Linux carries on one core; server on the control core",
            &headings,
        );
        table.row("idle", [30_000.0, 38_473.0, 15.3, 31.3, 0.82].map(Cell::from));
        table.row(
            "Bifrost, a flood of 5 times as much kept off it",
            [30_000.0, 16_226.0, 20.5, 200.0, 1069.0].map(Cell::from),
        );
        let text = table.text();
        assert!(text.lines().all(|line| line.chars().count() <= WIDTH), "{text}");
        assert!(text.contains("\nidle ") && text.contains("\n  times as much"), "{text}");
    }

    #[test]
    fn an_outcome_is_text_json_and_page() {
        let mut outcome = Outcome::new(&crate::EXPERIMENTS[0], true);
        let mut table = Table::new("t", &["a", "b"]);
        table.row("x", [Cell::Figure(1.5)]);
        outcome.tables.push(table);
        outcome.note("word ".repeat(40));
        outcome.note("word ".repeat(40));
        outcome.failed = Some("no <root>".to_owned());
        let text = outcome.text();
        assert!(text.contains("\nt\na     b\nx  1.50\n\n- word"), "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= WIDTH), "{text}");
        assert!(text.contains("ended early: no <root>"), "{text}");
        let json = serde_json::to_value(&outcome).unwrap();
        assert_eq!(json["tables"][0]["rows"][0]["cells"][0], 1.5);
        assert_eq!(json["notes"].as_array().map(Vec::len), Some(1));
        let html = trial::page::Page::new("x").section(outcome.section()).html();
        assert!(html.contains("no &lt;root&gt;") && html.contains("--short"));
    }
}
