//! A page for the terminal, like a short manual page.

use pulldown_cmark::{Event, Tag, TagEnd};

use super::{Example, Item, Page, markdown};

/// Lines are not made shorter than this.
const NARROWEST: usize = 24;
/// How far the text below a heading is indented.
const INDENT: usize = 4;

/// `page`, with examples of its element, in lines of at most `width` columns where its words allow
/// it; code is not wrapped. With `bold`, headings, names and code are in bold type by ECMA-48's
/// escapes, otherwise it is plain text.
pub fn text(page: &Page, examples: &[Example<'_>], width: usize, bold: bool) -> String {
    let mut writer = Writer { text: String::new(), width: width.max(NARROWEST), bold };
    writer.heading("NAME");
    writer.paragraph(&format!("`{}`: {} ({})", page.class, page.summary, page.group), INDENT);
    writer.heading("USAGE");
    for usage in &page.usage {
        writer.paragraph(&format!("`{usage}`"), INDENT);
    }
    writer.paragraph(&page.ports, INDENT);
    writer.heading("DESCRIPTION");
    writer.markdown(&page.prose, INDENT);
    writer.items("ARGUMENTS", &page.arguments);
    writer.items("HANDLERS", &page.handlers);
    writer.examples(examples);
    if !page.see_also.is_empty() {
        writer.heading("SEE ALSO");
        writer.paragraph(&page.see_also.join(", "), INDENT);
    }
    writer.text
}

struct Writer {
    text: String,
    width: usize,
    bold: bool,
}

/// Words of a paragraph, each with how wide it is: escapes take no room.
#[derive(Default)]
struct Words {
    done: Vec<(String, usize)>,
    open: (String, usize),
}

impl Words {
    /// Adds a text whose blanks divide words. In bold type, escapes do not reach from word to word.
    fn add(&mut self, text: &str, bold: bool) {
        let mut pieces = text.split(char::is_whitespace);
        self.join(pieces.next().unwrap_or_default(), bold);
        for piece in pieces {
            self.end();
            self.join(piece, bold);
        }
    }

    fn join(&mut self, piece: &str, bold: bool) {
        if piece.is_empty() {
            return;
        }
        self.open.1 += piece.chars().count();
        if bold {
            self.open.0 += &format!("\x1b[1m{piece}\x1b[0m");
        } else {
            self.open.0 += piece;
        }
    }

    fn end(&mut self) {
        if self.open.1 > 0 {
            self.done.push(std::mem::take(&mut self.open));
        }
    }
}

impl Writer {
    fn heading(&mut self, heading: &str) {
        if !self.text.is_empty() {
            self.text.push('\n');
        }
        self.text += &if self.bold { format!("\x1b[1m{heading}\x1b[0m\n") } else { format!("{heading}\n") };
    }

    fn items(&mut self, heading: &str, items: &[Item]) {
        for (number, item) in items.iter().enumerate() {
            if number == 0 {
                self.heading(heading);
            }
            let kind = if item.kind.is_empty() { String::new() } else { format!(" ({})", item.kind) };
            self.paragraph(&format!("`{}`{kind}", item.name), INDENT);
            self.markdown(&item.text, 2 * INDENT);
        }
    }

    fn examples(&mut self, examples: &[Example<'_>]) {
        for (number, example) in examples.iter().enumerate() {
            match number {
                0 => self.heading("EXAMPLES"),
                _ => self.text.push('\n'),
            }
            self.paragraph(example.title, INDENT);
            for line in example.text.trim_end().lines() {
                let indent = if line.is_empty() { 0 } else { 2 * INDENT };
                self.text += &format!("{:indent$}{line}\n", "");
            }
        }
    }

    /// Words, with code in backquotes.
    fn paragraph(&mut self, text: &str, indent: usize) {
        let mut words = Words::default();
        for (number, piece) in text.split('`').enumerate() {
            words.add(piece, self.bold && number % 2 == 1);
        }
        self.words(words, indent, "");
    }

    /// Wraps words. Bold words beside each other become one bold piece. The first line begins with
    /// `mark`, which hangs in front of the indentation.
    fn words(&mut self, mut words: Words, indent: usize, mark: &str) {
        words.end();
        let (mut column, mut line) = (0, String::new());
        let margin = format!("{:indent$}", "");
        let mut begin = format!("{:>indent$}", mark);
        for (word, length) in words.done {
            if column > 0 && indent + column + 1 + length > self.width {
                self.text += &format!("{begin}{}\n", line.replace("\x1b[0m \x1b[1m", " "));
                (column, line) = (0, String::new());
                begin.clone_from(&margin);
            }
            if column > 0 {
                line.push(' ');
                column += 1;
            }
            line += &word;
            column += length;
        }
        if column > 0 || !mark.is_empty() {
            self.text += format!("{begin}{}", line.replace("\x1b[0m \x1b[1m", " ")).trim_end();
            self.text.push('\n');
        }
    }

    fn markdown(&mut self, text: &str, indent: usize) {
        let (mut words, mut indent, mut mark) = (Words::default(), indent, String::new());
        let (mut lists, mut in_code, mut strong, mut first) = (Vec::<Option<u64>>::new(), false, false, true);
        for event in markdown(text, |_| Some(String::new())) {
            match event {
                Event::Start(Tag::Paragraph | Tag::CodeBlock(_) | Tag::List(_) | Tag::Heading { .. }) => {
                    if let Event::Start(Tag::List(number)) = &event {
                        self.words(std::mem::take(&mut words), indent, &std::mem::take(&mut mark));
                        lists.push(*number);
                    }
                    if !first && mark.is_empty() && lists.len() < 2 {
                        self.text.push('\n');
                    }
                    first = false;
                    in_code = matches!(event, Event::Start(Tag::CodeBlock(_)));
                }
                Event::Start(Tag::Item) => {
                    mark = match lists.last_mut() {
                        Some(Some(number)) => {
                            *number += 1;
                            format!("{}. ", *number - 1)
                        }
                        _ => "- ".to_owned(),
                    };
                    indent += mark.len();
                }
                Event::End(TagEnd::Item) => {
                    self.words(std::mem::take(&mut words), indent, &std::mem::take(&mut mark));
                    indent -= match lists.last() {
                        Some(Some(number)) => format!("{}. ", number - 1).len(),
                        _ => 2,
                    };
                }
                Event::End(TagEnd::List(_)) => {
                    lists.pop();
                }
                Event::End(TagEnd::CodeBlock) => in_code = false,
                Event::End(TagEnd::Paragraph | TagEnd::Heading(_)) => {
                    self.words(std::mem::take(&mut words), indent, &std::mem::take(&mut mark));
                }
                Event::Start(Tag::Strong | Tag::Link { .. }) => strong = true,
                Event::End(TagEnd::Strong | TagEnd::Link) => strong = false,
                Event::Text(code) if in_code => {
                    for line in code.lines() {
                        self.text += format!("{:1$}{line}", "", indent + INDENT).trim_end();
                        self.text.push('\n');
                    }
                }
                Event::Text(text) => words.add(&text, self.bold && strong),
                Event::Code(code) => words.add(&code, self.bold),
                Event::SoftBreak => words.end(),
                Event::HardBreak => {
                    self.words(std::mem::take(&mut words), indent, &std::mem::take(&mut mark));
                }
                _ => {}
            }
        }
        self.words(words, indent, &mark);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn page() -> Page {
        Page {
            class: "Paint".into(),
            summary: "sets the paint annotation.".into(),
            group: "basic".into(),
            usage: vec!["Paint(COLOR [, ANNO])".into()],
            ports: "1 input, 1 output; agnostic".into(),
            prose: "Marks packets so that [CheckPaint] knows\nthem `again and again`.\n\n**Outputs**\n\n- `0`: every \
                    packet, and these are enough words for a second line\n- `1`: none\n\n1. one\n2. two\n\n\
                    ```\nPaint(1)  ->  Discard\n```\n\nThe <end>."
                .into(),
            arguments: vec![Item { name: "COLOR".into(), kind: "byte".into(), text: "the *colour*\n\nMore.".into() }],
            handlers: vec![Item { name: "color".into(), kind: "read, write".into(), text: "the colour".into() }],
            see_also: vec!["CheckPaint".into(), "PaintTee".into()],
        }
    }

    #[test]
    fn a_page_in_plain_text() {
        let expected = "\
NAME
    Paint: sets the paint annotation. (basic)

USAGE
    Paint(COLOR [, ANNO])
    1 input, 1 output; agnostic

DESCRIPTION
    Marks packets so that CheckPaint knows them
    again and again.

    Outputs

    - 0: every packet, and these are enough words
      for a second line
    - 1: none

    1. one
    2. two

        Paint(1)  ->  Discard

    The <end>.

ARGUMENTS
    COLOR (byte)
        the colour

        More.

HANDLERS
    color (read, write)
        the colour

SEE ALSO
    CheckPaint, PaintTee
";
        assert_eq!(text(&page(), &[], 50, false), expected);
    }

    #[test]
    fn bold_type_changes_no_line() {
        let bold = text(&page(), &[], 50, true);
        assert!(bold.contains("\x1b[1mNAME\x1b[0m\n    \x1b[1mPaint\x1b[0m: sets"));
        assert!(
            bold.contains("that \x1b[1mCheckPaint\x1b[0m knows them\n    \x1b[1magain and again\x1b[0m.")
        );
        assert_eq!(bold.replace("\x1b[1m", "").replace("\x1b[0m", ""), text(&page(), &[], 50, false));
    }

    proptest! {
        #[test]
        fn any_prose_is_wrapped(prose in "([-*`#>1. \\n\\[\\]]|[a-z]{1,5}|\\PC){0,60}", width in 0_usize..90) {
            let wrapped = text(&Page { prose: prose.clone(), ..page() }, &[], width, false);
            for word in prose.split_whitespace().filter(|word| word.chars().all(|c| c.is_ascii_lowercase())) {
                prop_assert!(wrapped.contains(word), "{word} is not in {wrapped}");
            }
        }
    }

    #[test]
    fn examples_stand_as_they_were_written() {
        let example =
            Example { class: "Paint", title: "it paints", text: "element: Paint(3)\n\nread:\n    x\n" };
        let text = text(&page(), &[example, example], 50, false);
        let once = "    it paints\n        element: Paint(3)\n\n        read:\n            x\n";
        assert!(text.contains(&format!("\nEXAMPLES\n{once}\n{once}")), "{text}");
    }
}
