//! A page for people: headings, text, tables and charts in one HTML file that needs nothing else.
//!
//! No script, no font, no network: the file can be mailed, kept for ten years, and opened anywhere.
//! Charts are SVG that is drawn here. Colours come from the style sheet, which has a light and a
//! dark set, told apart by people who see few colours; every chart's figures stand in a table as
//! well, or when the pointer rests on a mark.
//!
//! ```
//! use trial::page::{Axis, Chart, Page, Section, Series, Table};
//!
//! let chart = Chart::new("Throughput", Axis::categories("frame size", ["64", "1518"]), Axis::linear("Mpps").from(0.0))
//!     .series(Series::bars("Bifrost", [(0.0, 12.1), (1.0, 0.81)]))
//!     .series(Series::reference("line rate", [(0.0, 14.88), (1.0, 0.81)]));
//! let table = Table::new(&["frame size", ">Mpps"]).row(["64", "12.1"]).row(["1518", "0.81"]);
//! let page = Page::new("A router").section(Section::new("Throughput").text("One core.").chart(chart).table(table));
//! assert!(page.html().starts_with("<!doctype html>"));
//! ```

mod chart;
mod number;
mod scale;

pub use chart::{Chart, Mark, Series};
pub use number::Format;
pub use scale::{Axis, Scale};

const STYLE: &str = include_str!("style.css");

/// A page.
#[derive(Clone, Debug, Default)]
pub struct Page {
    title: String,
    lead: Vec<String>,
    facts: Vec<(String, String)>,
    sections: Vec<Section>,
}

/// A part of a page, under a heading.
#[derive(Clone, Debug, Default)]
pub struct Section {
    title: String,
    blocks: Vec<Block>,
}

#[derive(Clone, Debug)]
enum Block {
    Text(String),
    Command(String),
    List(Vec<String>),
    Chart(Box<Chart>),
    Table(Table),
}

/// Rows under headings.
#[derive(Clone, Debug, Default)]
pub struct Table {
    headings: Vec<String>,
    rows: Vec<Vec<String>>,
    caption: Option<String>,
}

impl Page {
    /// A page with this title.
    pub fn new(title: impl Into<String>) -> Page {
        Page { title: title.into(), ..Page::default() }
    }

    /// A paragraph under the title.
    #[must_use]
    pub fn lead(mut self, text: impl Into<String>) -> Page {
        self.lead.push(text.into());
        self
    }

    /// A name and its value, in a list under the title: the machine, the date.
    #[must_use]
    pub fn fact(mut self, name: impl Into<String>, value: impl Into<String>) -> Page {
        self.facts.push((name.into(), value.into()));
        self
    }

    /// One more section.
    #[must_use]
    pub fn section(mut self, section: Section) -> Page {
        self.sections.push(section);
        self
    }

    /// The whole file.
    pub fn html(&self) -> String {
        let mut html = format!(
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <meta name=\"color-scheme\" content=\"light dark\">\n<title>{title}</title>\n<style>\n{STYLE}</style>\n</head>\n\
             <body>\n<header>\n<h1>{title}</h1>\n",
            title = escape(&self.title)
        );
        for text in &self.lead {
            html += &format!("<p>{}</p>\n", escape(text));
        }
        if !self.facts.is_empty() {
            html += "<dl>\n";
            for (name, value) in &self.facts {
                html += &format!("<div><dt>{}</dt><dd>{}</dd></div>\n", escape(name), escape(value));
            }
            html += "</dl>\n";
        }
        html += "</header>\n<main>\n";
        if self.sections.len() > 3 {
            html += "<nav>\n";
            for (n, section) in self.sections.iter().enumerate() {
                html += &format!("<a href=\"#s{n}\">{}</a>\n", escape(&section.title));
            }
            html += "</nav>\n";
        }
        for (n, section) in self.sections.iter().enumerate() {
            section.write(n, &mut html);
        }
        html + "</main>\n</body>\n</html>\n"
    }
}

impl Section {
    /// A section with this heading.
    pub fn new(title: impl Into<String>) -> Section {
        Section { title: title.into(), blocks: Vec::new() }
    }

    /// A paragraph.
    #[must_use]
    pub fn text(self, text: impl Into<String>) -> Section {
        self.with(Block::Text(text.into()))
    }

    /// A command, or what it printed, as it is.
    #[must_use]
    pub fn command(self, text: impl Into<String>) -> Section {
        self.with(Block::Command(text.into()))
    }

    /// Short remarks.
    #[must_use]
    pub fn list(self, items: impl IntoIterator<Item = impl Into<String>>) -> Section {
        let items: Vec<String> = items.into_iter().map(Into::into).collect();
        if items.is_empty() { self } else { self.with(Block::List(items)) }
    }

    /// A chart. Charts that follow each other stand side by side where there is room.
    #[must_use]
    pub fn chart(self, chart: Chart) -> Section {
        self.with(Block::Chart(Box::new(chart)))
    }

    /// A table.
    #[must_use]
    pub fn table(self, table: Table) -> Section {
        self.with(Block::Table(table))
    }

    fn with(mut self, block: Block) -> Section {
        self.blocks.push(block);
        self
    }

    fn write(&self, number: usize, html: &mut String) {
        *html += &format!("<section id=\"s{number}\">\n<h2>{}</h2>\n", escape(&self.title));
        let mut blocks = self.blocks.iter().peekable();
        while let Some(block) = blocks.next() {
            match block {
                Block::Text(text) => *html += &format!("<p>{}</p>\n", escape(text)),
                Block::Command(text) => *html += &format!("<pre>{}</pre>\n", escape(text)),
                Block::List(items) => {
                    let items: String =
                        items.iter().map(|item| format!("<li>{}</li>\n", escape(item))).collect();
                    *html += &format!("<ul>\n{items}</ul>\n");
                }
                Block::Chart(chart) => {
                    *html += "<div class=\"charts\">\n";
                    *html += &chart.html();
                    while let Some(Block::Chart(next)) = blocks.peek() {
                        *html += &next.html();
                        blocks.next();
                    }
                    *html += "</div>\n";
                }
                Block::Table(table) => table.write(html),
            }
        }
        *html += "</section>\n";
    }
}

impl Table {
    /// A table with these headings; one that begins with `>` is set to the right, with its column.
    pub fn new(headings: &[impl AsRef<str>]) -> Table {
        let headings = headings.iter().map(|heading| heading.as_ref().to_owned()).collect();
        Table { headings, ..Table::default() }
    }

    /// What the table shows, above it.
    #[must_use]
    pub fn caption(mut self, text: impl Into<String>) -> Table {
        self.caption = Some(text.into());
        self
    }

    /// One more row.
    #[must_use]
    pub fn row(mut self, cells: impl IntoIterator<Item = impl Into<String>>) -> Table {
        self.rows.push(cells.into_iter().map(Into::into).collect());
        self
    }

    /// Whether it has no row.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    fn write(&self, html: &mut String) {
        let class = |n: usize| match self.headings.get(n) {
            Some(heading) if heading.starts_with('>') => " class=\"n\"",
            _ => "",
        };
        *html += "<div class=\"table\"><table>\n";
        if let Some(caption) = &self.caption {
            *html += &format!("<caption>{}</caption>\n", escape(caption));
        }
        *html += "<thead><tr>";
        for (n, heading) in self.headings.iter().enumerate() {
            let text = heading.strip_prefix('>').unwrap_or(heading);
            *html += &format!("<th scope=\"col\"{}>{}</th>", class(n), escape(text));
        }
        *html += "</tr></thead>\n<tbody>\n";
        for row in &self.rows {
            *html += "<tr>";
            for (n, cell) in row.iter().enumerate() {
                *html += &format!("<td{}>{}</td>", class(n), escape(cell));
            }
            *html += "</tr>\n";
        }
        *html += "</tbody>\n</table></div>\n";
    }
}

/// Text as it may stand anywhere in HTML, with no character that XML forbids.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped += "&amp;",
            '<' => escaped += "&lt;",
            '>' => escaped += "&gt;",
            '"' => escaped += "&quot;",
            '\n' | '\t' => escaped.push(character),
            _ if character.is_control() => {}
            _ => escaped.push(character),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Tags that are opened and closed in order; a crude reader, enough to see that the page is
    /// whole.
    fn is_whole(html: &str) -> bool {
        let html = html.split_once("</style>").map_or(html, |(_, rest)| rest);
        let mut open: Vec<&str> = vec!["html", "head"];
        for tag in html.split('<').skip(1) {
            let Some((tag, _)) = tag.split_once('>') else { return false };
            let name = tag.trim_start_matches('/').split([' ', '/']).next().unwrap_or("");
            if tag.starts_with('/') {
                if open.pop() != Some(name) {
                    return false;
                }
            } else if !tag.ends_with('/') {
                open.push(name);
            }
        }
        open.is_empty()
    }

    #[test]
    fn what_is_written_is_escaped() {
        let page = Page::new("<script>").lead("a & b").fact("x", "\u{0}\"").section(
            Section::new("</section>")
                .text("1 < 2")
                .command("a > b")
                .list(["<li>"])
                .table(Table::new(&["<", ">\""]).caption("&").row(["<td>", "2"])),
        );
        let html = page.html();
        assert!(is_whole(&html), "{html}");
        assert!(!html.contains("<script") && html.contains("&lt;script&gt;"));
        assert!(html.contains("<th scope=\"col\" class=\"n\">&quot;</th>"));
    }

    fn number() -> impl Strategy<Value = f64> {
        prop_oneof![
            Just(0.0),
            Just(f64::NAN),
            Just(f64::INFINITY),
            Just(-1.0),
            Just(f64::MAX),
            Just(f64::MIN_POSITIVE),
            0.0..100.0f64,
            1e-9..1e12f64
        ]
    }

    proptest! {
        #[test]
        fn charts_of_anything_are_whole(
            points in proptest::collection::vec((number(), number()), 0..20), scale in 0..4, scale_y in 0..2, name: String
        ) {
            let x = match scale {
                0 => Axis::linear(&name),
                1 => Axis::log(&name),
                2 => Axis::nines(&name),
                _ => Axis::categories(&name, ["a", "b", &name]),
            };
            let y = if scale_y == 0 { Axis::linear("y").from(0.0) } else { Axis::log("y").format(Format::Nanoseconds) };
            let chart = Chart::new(&name, x, y)
                .series(Series::line(&name, points.clone()))
                .series(Series::bars("b", points.clone()))
                .series(Series::reference("r", points.clone()))
                .series(Series::points("p", points));
            let html = Page::new(&name).section(Section::new("s").chart(chart)).html();
            prop_assert!(is_whole(&html), "{}", html);
            let drawn = html.split_once("<svg").unwrap().1;
            let coordinates = drawn.split(['"', ' ', ',']).filter(|word| word.starts_with("NaN") || word.contains("inf"));
            prop_assert_eq!(coordinates.filter(|word| !name.contains(*word)).count(), 0, "{}", drawn);
        }
    }
}
