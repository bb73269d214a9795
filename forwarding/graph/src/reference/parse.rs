//! From a source file to a page.

use super::{Item, Mistake, Page};

/// Headings that begin a line of a page's head.
const HEAD: [&str; 3] = ["Group", "Usage", "Ports"];
/// Headings within the prose that stay there.
const IN_PROSE: [&str; 4] = ["Inputs", "Outputs", "Example", "Examples"];

/// A line of the documentation, with its number in the file.
type Line<'a> = (usize, &'a str);

/// The classes that a source file has a page for.
pub fn classes(source: &str) -> Vec<&str> {
    blocks(source).into_iter().filter_map(|block| title(block.first()?.1)).map(|(class, _)| class).collect()
}

/// The leading `//!` lines, divided into pages.
fn blocks(source: &str) -> Vec<Vec<Line<'_>>> {
    let mut blocks: Vec<Vec<Line<'_>>> = vec![Vec::new()];
    let mut fenced = false;
    let lines = source.lines().map_while(|line| line.strip_prefix("//!"));
    for (index, line) in lines.enumerate() {
        let line = line.strip_prefix(' ').unwrap_or(line).trim_end();
        fenced ^= is_fence(line);
        if !fenced && line.starts_with("# ") {
            blocks.push(Vec::new());
        }
        if let Some(block) = blocks.last_mut()
            && !(block.is_empty() && line.is_empty())
        {
            block.push((index + 1, line));
        }
    }
    blocks.retain(|block| !block.is_empty());
    blocks
}

fn is_fence(line: &str) -> bool {
    line.trim_start().starts_with("```")
}

/// The class and the summary of a title, `Name: what it does.`
fn title(line: &str) -> Option<(&str, &str)> {
    let (class, summary) = line.strip_prefix("# ").unwrap_or(line).split_once(':')?;
    let is_name = class.starts_with(|c: char| c.is_ascii_alphabetic())
        && class.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    is_name.then_some((class, summary.trim()))
}

pub(super) fn page(source: &str, class: &str) -> Result<Page, Vec<Mistake>> {
    let blocks = blocks(source);
    let of_class =
        |block: &&Vec<Line<'_>>| block.first().and_then(|line| title(line.1)).is_some_and(|t| t.0 == class);
    let Some(block) = blocks.iter().find(of_class) else {
        let message = format!("no page for {class}: begin the file with `//! {class}: what it does.`");
        return Err(vec![Mistake { line: 1, message }]);
    };
    let mut reader = Reader { lines: block, next: 0, page: Page::default(), mistakes: Vec::new() };
    reader.page.class = class.to_owned();
    reader.title();
    reader.head();
    reader.body();
    if reader.mistakes.is_empty() {
        Ok(reader.page)
    } else {
        reader.mistakes.sort();
        Err(reader.mistakes)
    }
}

struct Reader<'a> {
    lines: &'a [Line<'a>],
    next: usize,
    page: Page,
    mistakes: Vec<Mistake>,
}

impl<'a> Reader<'a> {
    fn wrong(&mut self, line: usize, message: impl Into<String>) {
        self.mistakes.push(Mistake { line, message: message.into() });
    }

    fn peek(&self) -> Option<Line<'a>> {
        self.lines.get(self.next).copied()
    }

    fn take(&mut self) -> Option<Line<'a>> {
        let line = self.peek()?;
        self.next += 1;
        Some(line)
    }

    /// `first` and the lines after it up to an empty one or one that `ends` it, joined.
    fn paragraph(&mut self, first: &str, ends: impl Fn(&str) -> bool) -> String {
        let mut whole = first.trim().to_owned();
        while let Some((_, line)) = self.peek().filter(|(_, line)| !line.is_empty() && !ends(line)) {
            whole = format!("{whole} {}", line.trim());
            self.next += 1;
        }
        whole.trim().to_owned()
    }

    fn title(&mut self) {
        let Some((number, line)) = self.take() else { return };
        let summary = title(line).map_or("", |title| title.1);
        let summary = self.paragraph(summary, |line| heading(line).is_some());
        if summary.is_empty() {
            self.wrong(number, "the title says nothing: write `Name: what it does.`");
        }
        self.page.summary = summary;
    }

    /// `Group`, `Usage` and `Ports`, one below the other.
    fn head(&mut self) {
        while self.peek().is_some_and(|(_, line)| line.is_empty()) {
            self.next += 1;
        }
        let begin = self.peek().map_or(1, |(number, _)| number);
        while let Some((number, line)) = self.peek() {
            let Some((key, value)) = heading(line) else { break };
            self.next += 1;
            let value = self.paragraph(value, |line| heading(line).is_some());
            match key {
                "Group" => self.page.group = value,
                "Ports" => self.page.ports = value,
                "Usage" => {
                    self.page.usage = code_spans(&value);
                    let class = &self.page.class;
                    if let Some(usage) = self.page.usage.iter().find(|usage| !usage.contains(class.as_str()))
                    {
                        let message = format!("this usage is of another element than {class}: `{usage}`");
                        self.wrong(number, message);
                    }
                }
                _ => self.wrong(number, unknown(key)),
            }
        }
        let missing = |is: bool, what: &str| is.then(|| format!("no {what}"));
        for message in [
            missing(self.page.group.is_empty(), "group: write `Group: basic` or another one's name"),
            missing(self.page.usage.is_empty(), "usage: write `Usage: ` and the configuration in backquotes"),
            missing(
                self.page.ports.is_empty(),
                "ports: write `Ports: 1 input, 1 output; push` or what they are",
            ),
        ]
        .into_iter()
        .flatten()
        {
            self.wrong(begin, message);
        }
    }

    /// Prose, arguments, handlers and what else to see, in any order.
    fn body(&mut self) {
        let mut prose: Vec<String> = Vec::new();
        let (mut fenced, mut in_handlers, mut begins) = (false, false, true);
        while let Some((number, line)) = self.take() {
            fenced ^= is_fence(line);
            if fenced || is_fence(line) {
                in_handlers = false;
                prose.push(line.to_owned());
                continue;
            }
            if line.starts_with('#') {
                self.wrong(number, unknown(line.trim_start_matches('#').trim()));
                continue;
            }
            let found = heading(line).filter(|(key, _)| begins || ["Handlers", "See also"].contains(key));
            begins = line.is_empty();
            match found {
                Some(("Handlers", "")) => in_handlers = true,
                // They are recognised by themselves.
                Some(("Arguments", "")) => in_handlers = false,
                Some(("See also", value)) => {
                    in_handlers = false;
                    let text = self.paragraph(value, |_| false);
                    self.see_also(number, &text);
                }
                Some((key, "")) if IN_PROSE.contains(&key) => {
                    in_handlers = false;
                    prose.extend([format!("**{key}**"), String::new()]);
                }
                Some((key, "")) => self.wrong(number, unknown(key)),
                Some((key, _)) if HEAD.contains(&key) => {
                    self.wrong(number, format!("`{key}:` belongs right below the title, before the prose"));
                }
                _ if line.starts_with("- `") && (in_handlers || names_argument(line)) => {
                    let text = self.item(&line[2..]);
                    match item(&text) {
                        Ok(item) if in_handlers => self.handler(number, item),
                        Ok(item) => self.page.arguments.push(item),
                        Err(message) => self.wrong(number, message),
                    }
                }
                _ if in_handlers && !line.is_empty() => {
                    self.wrong(number, "among handlers, write ``- `name` (read): what it tells``");
                }
                _ => prose.push(line.to_owned()),
            }
        }
        self.page.prose = prose.join("\n").trim().to_owned();
        if self.page.prose.is_empty() {
            let line = self.lines.first().map_or(1, |(number, _)| *number);
            self.wrong(line, "no prose: say what it expects, what it does and what each output means");
        }
    }

    /// A list item and its indented lines.
    fn item(&mut self, first: &str) -> String {
        let mut whole = first.to_owned();
        loop {
            let indented = |line: Option<&Line<'_>>| line.is_some_and(|(_, line)| line.starts_with("  "));
            let gap = self.peek().is_some_and(|(_, line)| line.is_empty());
            if !indented(self.lines.get(self.next + usize::from(gap))) {
                return whole;
            }
            if let Some((_, line)) = self.take() {
                whole.push('\n');
                whole.push_str(line.strip_prefix("  ").unwrap_or(line));
            }
        }
    }

    fn handler(&mut self, line: usize, item: Item) {
        if item.kind.contains("read") || item.kind.contains("write") {
            self.page.handlers.push(item);
        } else {
            self.wrong(line, format!("handler `{}`: say (read), (write) or (read, write)", item.name));
        }
    }

    fn see_also(&mut self, line: usize, text: &str) {
        let mut names = Vec::new();
        for part in text.trim_end_matches('.').split(',').map(str::trim) {
            match part.strip_prefix('[').and_then(|part| part.strip_suffix(']')) {
                Some(name) if !name.is_empty() => names.push(name.to_owned()),
                _ => self.wrong(line, format!("see also: `{part}` is no [Name]; separate them by commas")),
            }
        }
        self.page.see_also = names;
    }
}

fn unknown(heading: &str) -> String {
    format!(
        "unknown heading `{heading}`: there are Group, Usage, Ports, Inputs, Outputs, Example, Handlers, See also"
    )
}

/// The heading that a line begins with and what follows: at most three words, the first with a
/// capital, and a colon. Where something follows, only what the form knows is a heading: a sentence
/// may have a colon as well.
fn heading(line: &str) -> Option<(&str, &str)> {
    let (key, value) = line.split_once(':')?;
    let value = value.trim();
    let is_words = key.starts_with(|c: char| c.is_ascii_uppercase())
        && key.split(' ').count() <= 3
        && key.chars().all(|c| c.is_ascii_alphabetic() || c == ' ');
    let is_known = key == "See also" || HEAD.iter().any(|known| similar(known, key));
    (is_words && (value.is_empty() || is_known)).then_some((key, value))
}

/// Whether a word is a heading of the head, perhaps misspelt: `Port`, `USAGE`.
fn similar(known: &str, word: &str) -> bool {
    let plain = |word: &str| word.to_ascii_lowercase().trim_end_matches('s').to_owned();
    plain(known) == plain(word)
}

/// Whether a list item begins with a keyword: capitals in backquotes.
fn names_argument(line: &str) -> bool {
    code_spans(line).first().is_some_and(|name| {
        name.starts_with(|c: char| c.is_ascii_uppercase())
            && name.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_')
    })
}

/// What stands in backquotes.
fn code_spans(text: &str) -> Vec<String> {
    text.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

/// A list item: names in backquotes, a kind in parentheses if there is one, a colon, a text.
fn item(text: &str) -> Result<Item, String> {
    let form = |what: &str| {
        let first = text.lines().next().unwrap_or_default();
        format!("{what}: write ``- `NAME` (kind): text`` instead of `{first}`")
    };
    // The colon that ends the names is the first one outside of backquotes and parentheses.
    let (mut quoted, mut depth) = (false, 0_i32);
    let colon = text.char_indices().find(|(_, c)| {
        match c {
            '`' => quoted = !quoted,
            '(' if !quoted => depth += 1,
            ')' if !quoted => depth -= 1,
            _ => {}
        }
        *c == ':' && !quoted && depth == 0
    });
    let Some((colon, _)) = colon else { return Err(form("no text")) };
    let (head, body) = (&text[..colon], text[colon + 1..].trim());
    let (names, kind) = match head.split_once(" (") {
        Some((names, kind)) => (names, kind.trim().strip_suffix(')').ok_or_else(|| form("no `)`"))?),
        None => (head, ""),
    };
    let between_names = names.split('`').step_by(2).map(str::trim);
    if between_names
        .clone()
        .any(|between| !matches!(between, "" | "," | "and" | "or" | "..." | ", ...," | ", ..."))
    {
        return Err(form("more than names before the colon"));
    }
    if body.is_empty() {
        return Err(form("no text"));
    }
    Ok(Item { name: names.replace('`', "").trim().to_owned(), kind: kind.to_owned(), text: body.to_owned() })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const PAINT: &str = "\
//! Paint: sets the paint annotation.
//!
//! Group: basic
//! Usage: `Paint(COLOR [, ANNO])`
//! Ports: 1 input, 1 output; agnostic
//!
//! Marks packets so that [CheckPaint] knows them again. A sentence: with a colon.
//!
//! Outputs:
//!
//! - `0`: every packet
//!
//! - `COLOR` (byte): the colour,
//!   0 to 255.
//!
//!   More about it.
//! - `ANNO`: where it is kept
//!
//! ```
//! Unknown: a fence may hold anything
//! # also this
//! ```
//!
//! Handlers:
//! - `color` (read, write): the colour
//! - `reset_counts`, `reset` (write): a button
//!
//! See also: [CheckPaint], [PaintTee]

use something;

//! not documentation any more
";

    fn mistakes(source: &str, class: &str) -> Vec<String> {
        page(source, class).expect_err("has mistakes").iter().map(Mistake::to_string).collect()
    }

    #[test]
    fn a_page() {
        let item = |name: &str, kind: &str, text: &str| Item {
            name: name.into(),
            kind: kind.into(),
            text: text.into(),
        };
        let page = page(PAINT, "Paint").expect("is in the form");
        assert_eq!(
            page,
            Page {
                class: "Paint".into(),
                summary: "sets the paint annotation.".into(),
                group: "basic".into(),
                usage: vec!["Paint(COLOR [, ANNO])".into()],
                ports: "1 input, 1 output; agnostic".into(),
                prose: "Marks packets so that [CheckPaint] knows them again. A sentence: with a colon.\n\n\
                        **Outputs**\n\n\n- `0`: every packet\n\n\n\
                        ```\nUnknown: a fence may hold anything\n# also this\n```"
                    .into(),
                arguments: vec![
                    item("COLOR", "byte", "the colour,\n0 to 255.\n\nMore about it."),
                    item("ANNO", "", "where it is kept"),
                ],
                handlers: vec![
                    item("color", "read, write", "the colour"),
                    item("reset_counts, reset", "write", "a button"),
                ],
                see_also: vec!["CheckPaint".into(), "PaintTee".into()],
            }
        );
    }

    #[test]
    fn a_family() {
        let block = |name: &str| {
            format!(
                "//! # {name}: one of them.\n//!\n//! Group: g\n//! Usage: `{name}()`,\n//!   `{name}(X)`\n//! Ports: none\n\
                 //!\n//! Prose of {name}.\n//!\n"
            )
        };
        let source = format!("//! What they share.\n//!\n{}{}struct S;\n", block("First"), block("Second"));
        assert_eq!(classes(&source), ["First", "Second"]);
        let second = page(&source, "Second").expect("is in the form");
        assert_eq!((second.prose.as_str(), second.usage.len()), ("Prose of Second.", 2));
        assert_eq!(
            mistakes(&source, "Third"),
            ["line 1: no page for Third: begin the file with `//! Third: what it does.`"]
        );
        assert_eq!(classes("fn main() {}"), Vec::<&str>::new());
    }

    #[test]
    fn every_mistake_is_told_with_its_line() {
        let with = |old: &str, new: &str| {
            assert!(PAINT.contains(old));
            mistakes(&PAINT.replace(old, new), "Paint")
        };
        let one = |old: &str, new: &str, line: usize, says: &str| {
            let found = with(old, new);
            assert!(
                found.len() == 1
                    && found[0].starts_with(&format!("line {line}: "))
                    && found[0].contains(says),
                "{new}: {found:?}"
            );
        };
        one("Group: basic", "", 4, "no group");
        one("Usage: `Paint(COLOR [, ANNO])`", "Usage: Paint(COLOR)", 3, "no usage");
        one("//! Usage: `Paint(COLOR [, ANNO])`\n", "", 3, "no usage");
        one("`Paint(COLOR", "`Pain(COLOR", 4, "of another element");
        one("Ports: 1 input, 1 output; agnostic", "Ports:", 3, "no ports");
        one("Paint: sets the paint annotation.", "Paint:", 1, "the title says nothing");
        one("Outputs:", "Remarks:", 9, "unknown heading `Remarks`");
        one("Outputs:", "## Remarks", 9, "unknown heading `Remarks`");
        one("Outputs:", "Group: twice", 9, "right below the title");
        one("`ANNO`: where it is kept", "`ANNO`", 17, "no text");
        one("`ANNO`: where it is kept", "`ANNO` (byte):", 17, "no text");
        one("`ANNO`: where it is kept", "`ANNO` (byte: where", 17, "no text");
        one("`ANNO`: where it is kept", "`ANNO` is where: it is kept", 17, "more than names");
        one("(read, write): the colour", ": the colour", 25, "say (read)");
        one("(read, write): the colour", "(read, write)", 25, "no text");
        one("- `color` (read, write): the colour", "color", 25, "among handlers");
        one("[CheckPaint], [PaintTee]", "[CheckPaint] and PaintTee", 28, "is no [Name]");
        let lines: Vec<String> = with("Ports: 1", "Port: 1").iter().map(|m| m[..7].to_owned()).collect();
        assert_eq!(lines, ["line 3:", "line 5:"]);
        let bare = "//! Paint: colours.\n//!\n//! Group: basic\n//! Usage: `Paint()`\n//! Ports: none\n";
        assert_eq!(mistakes(bare, "Paint").len(), 1);
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(
            lines in prop::collection::vec(
                prop_oneof![
                    "\\PC{0,30}",
                    "(# )?[A-Z]: [a-z]{0,9}",
                    "(Group|Usage|Ports|Handlers|See also|Note):[ `\\[\\]A-Z]{0,9}",
                    "( |- |`|\\(|\\)|:|A|```|,){0,9}",
                ],
                0..20,
            )
        ) {
            let source: String = lines.iter().map(|line| format!("//! {line}\n")).collect();
            for class in classes(&source) {
                match page(&source, class) {
                    Ok(page) => prop_assert!(page.class == class && !page.usage.is_empty() && !page.group.is_empty()),
                    Err(mistakes) => {
                        prop_assert!(mistakes.iter().all(|mistake| (1..=lines.len()).contains(&mistake.line)));
                    }
                }
            }
        }
    }
}
