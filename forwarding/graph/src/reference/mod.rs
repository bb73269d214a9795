//! What each element is for: pages that are read from the elements' own source files.
//!
//! The `//!` comment at the beginning of an element's file is its documentation, in this form:
//!
//! ```text
//! Paint: sets the paint annotation.
//!
//! Group: basic
//! Usage: `Paint(COLOR [, ANNO])`
//! Ports: 1 input, 1 output; agnostic
//!
//! Prose in markdown: what it expects, what each output means, why one would use it. Another element is [PaintTee].
//!
//! - `COLOR` (byte): an argument. Its text may go on
//!   in the next line.
//!
//! Handlers:
//! - `color` (read, write): a handler.
//!
//! See also: [CheckPaint], [PaintTee]
//! ```
//!
//! A file with several classes repeats this for each, and each title is a heading: `# Paint: sets
//! the paint annotation.` What comes before the first heading is then about the file and not of a
//! page. List items that begin with a word in capitals and backquotes are arguments. Within the
//! prose, `Inputs:`, `Outputs:` and `Example:` may stand in a line of their own; other headings do
//! not exist, and whoever writes one made a mistake.
//!
//! | file | what it is |
//! |---|---|
//! | `parse` | from the source file to a [`Page`], or what is wrong with it |
//! | [`text`](fn@text) | for the terminal |
//! | [`html`](fn@html) | all pages as one document |

mod html;
mod parse;
mod text;

use std::collections::BTreeSet;

use pulldown_cmark::{BrokenLink, Event, Options, Parser, Tag, TagEnd};
use thiserror::Error;

pub use html::html;
pub use parse::classes;
pub use text::text;

/// The documentation of an element.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Page {
    /// The class's name.
    pub class: String,
    /// What it does, in a line.
    pub summary: String,
    /// What it belongs to: "basic", "ip".
    pub group: String,
    /// How its configuration is written, such as `Paint(COLOR [, ANNO])`: one or more ways.
    pub usage: Vec<String>,
    /// Its inputs and outputs, in words.
    pub ports: String,
    /// Everything else there is to say, in markdown.
    pub prose: String,
    /// Its arguments.
    pub arguments: Vec<Item>,
    /// Its handlers.
    pub handlers: Vec<Item>,
    /// The classes of related elements.
    pub see_also: Vec<String>,
}

/// An argument or a handler.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Item {
    /// The argument's keyword or the handler's name; several are separated by commas.
    pub name: String,
    /// The type of an argument, may be empty; "read", "write" or both of a handler.
    pub kind: String,
    /// What it is for, in markdown.
    pub text: String,
}

/// An example of an element: a text that shows it at work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Example<'a> {
    /// The class that it is an example of.
    pub class: &'a str,
    /// What it shows, in a line; may be empty.
    pub title: &'a str,
    /// The text, shown as it is.
    pub text: &'a str,
}

/// What is wrong with the form of a page.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Error)]
#[error("line {line}: {message}")]
pub struct Mistake {
    /// The line of the source file, the first is 1.
    pub line: usize,
    /// What is wrong and what to do.
    pub message: String,
}

impl Page {
    /// The page of `class` from the text of its source file, or all that is wrong with its form.
    pub fn parse(source: &str, class: &str) -> Result<Page, Vec<Mistake>> {
        parse::page(source, class)
    }

    /// The names that the page links to as `[Name]`: whoever has all pages can tell which of them
    /// do not exist.
    pub fn links(&self) -> BTreeSet<String> {
        let mut links: BTreeSet<String> = self.see_also.iter().cloned().collect();
        let items = self.arguments.iter().chain(&self.handlers).map(|item| &item.text);
        for text in items.chain([&self.prose]) {
            markdown(text, |name| {
                links.insert(name.to_owned());
                None
            })
            .for_each(drop);
        }
        links
    }
}

/// The events of a markdown text. `link` says where a `[Name]` leads; without an answer it stays
/// text. So does HTML.
fn markdown<'a>(
    text: &'a str,
    mut link: impl FnMut(&str) -> Option<String> + 'a,
) -> impl Iterator<Item = Event<'a>> + 'a {
    let resolve = move |broken: BrokenLink<'_>| {
        // `[0]` is an output, `[Name]` an element.
        let is_name = broken.reference.starts_with(|c: char| c.is_ascii_uppercase())
            && broken.reference.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        is_name.then(|| link(&broken.reference)).flatten().map(|place| (place.into(), "".into()))
    };
    Parser::new_with_broken_link_callback(text, Options::empty(), Some(resolve)).map(|event| match event {
        Event::Html(html) | Event::InlineHtml(html) => Event::Text(html),
        Event::Start(Tag::HtmlBlock) => Event::Start(Tag::Paragraph),
        Event::End(TagEnd::HtmlBlock) => Event::End(TagEnd::Paragraph),
        event => event,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_names_of_elements() {
        let page = Page {
            prose: "See [Paint] and [CheckPaint], not `[Code]`, [0], [text](place) or [two words].".into(),
            arguments: vec![Item { text: "as in [IPFilter]".into(), ..Item::default() }],
            see_also: vec!["PaintTee".into()],
            ..Page::default()
        };
        let links: Vec<String> = page.links().into_iter().collect();
        assert_eq!(links, ["CheckPaint", "IPFilter", "Paint", "PaintTee"]);
    }
}
