//! A configuration in one tidy form.
//!
//! One statement a line; a chain on one line if it fits, else one arrow a line. Configuration
//! strings stay as they are, to the byte, and so does every comment: on a line of its own if it
//! was, else at the end of what it stood in or behind. Formatting twice is formatting once, and the
//! result means the same.

use super::report::Span;
use super::tree::*;

/// The longest line that a chain is put on.
const WIDTH: usize = 100;

const INDENT: &str = "    ";

/// A compound with nothing in it.
const EMPTY: &str = "{ }";

/// The tree as text, with its comments. Meant for trees without mistakes: what could not be read is
/// left out.
pub fn format(tree: &Tree) -> String {
    let mut printer = Printer { out: String::new(), comments: &tree.comments, indent: 0, fresh: true };
    printer.statements(&tree.statements, u32::MAX);
    printer.out
}

struct Printer<'t> {
    out: String,
    /// The comments that are still to be printed.
    comments: &'t [Comment],
    indent: usize,
    /// Whether nothing was printed in this block yet: no empty line comes first.
    fresh: bool,
}

impl<'t> Printer<'t> {
    fn new_line(&mut self) {
        self.out.push('\n');
        for _ in 0..self.indent {
            self.out.push_str(INDENT);
        }
    }

    /// Begins a line of a block.
    fn begin_line(&mut self, blank_before: bool) {
        if blank_before && !self.fresh {
            self.out.push('\n');
        }
        self.fresh = false;
        for _ in 0..self.indent {
            self.out.push_str(INDENT);
        }
    }

    fn next_comment(&mut self, before: u32) -> Option<&'t Comment> {
        let (first, rest) = self.comments.split_first()?;
        if first.at.start >= before {
            return None;
        }
        self.comments = rest;
        Some(first)
    }

    /// Whether a comment that is still to be printed stands in these bytes.
    fn has_comment(&self, start: u32, end: u32) -> bool {
        let first = self.comments.partition_point(|comment| comment.at.start < start);
        self.comments.get(first).is_some_and(|comment| comment.at.start < end)
    }

    /// Prints comments on lines of their own.
    fn comment_lines(&mut self, before: u32) {
        while let Some(comment) = self.next_comment(before) {
            self.begin_line(comment.blank_before);
            self.out.push_str(&comment.text);
            self.out.push('\n');
        }
    }

    /// Prints the comments that belong at the end of this line. What comes behind a `//` needs
    /// lines of its own.
    fn comments_behind(&mut self, before: u32) {
        let mut line_ended = false;
        while self.comments.first().is_some_and(|comment| !comment.own_line) {
            let Some(comment) = self.next_comment(before) else { return };
            self.comment_inside(comment, line_ended);
            line_ended |= comment.text.starts_with("//");
        }
    }

    /// Prints the comments that stand between the parts of a statement.
    fn comments_inside(&mut self, before: u32) {
        let mut line_ended = false;
        while let Some(comment) = self.next_comment(before) {
            self.comment_inside(comment, line_ended || comment.own_line);
            line_ended = comment.text.starts_with("//");
        }
    }

    fn comment_inside(&mut self, comment: &Comment, new_line: bool) {
        if new_line {
            self.new_line();
        } else {
            self.out.push(' ');
        }
        self.out.push_str(&comment.text);
    }

    /// Prints statements and the comments between them, up to what begins at `end`.
    fn statements(&mut self, statements: &[Statement], end: u32) {
        self.fresh = true;
        for (index, statement) in statements.iter().enumerate() {
            self.comment_lines(statement.at.start);
            self.begin_line(statement.blank_before);
            self.statement(statement);
            self.fresh = false;
            let next = statements.get(index + 1).map_or(end, |next| next.at.start);
            self.comments_behind(next);
            self.out.push('\n');
        }
        self.comment_lines(end);
    }

    fn statement(&mut self, statement: &Statement) {
        match &statement.what {
            Saying::Chain(links) => self.chain(links),
            Saying::ElementClass(name, class) => {
                self.out.push_str("elementclass ");
                self.out.push_str(&name.text);
                self.out.push(' ');
                match class {
                    Class::Compound(compound) => return self.compound(compound),
                    Class::Named(other) => self.out.push_str(&other.text),
                    Class::Missing(_) => {}
                }
            }
            Saying::Require(configuration, _) => self.directive("require", configuration),
            Saying::Define(configuration, _) => self.directive("define", configuration),
        }
        self.out.push(';');
    }

    fn directive(&mut self, keyword: &str, configuration: &Configuration) {
        self.out.push_str(keyword);
        self.configuration(configuration);
    }

    fn configuration(&mut self, configuration: &Configuration) {
        self.out.push('(');
        self.out.push_str(&configuration.text);
        self.out.push(')');
    }

    fn chain(&mut self, links: &[Link]) {
        if !self.has_comments_between(links)
            && let Some(line) = chain_on_line(links)
            && self.indent * INDENT.len() + line.len() < WIDTH
        {
            self.out.push_str(&line);
            return;
        }
        for (index, link) in links.iter().enumerate() {
            if let Some(arrow) = link.arrow {
                self.indent += usize::from(index == 1);
                // An implied element at the beginning leaves the line empty.
                if !(index == 1 && is_nothing(&links[0])) {
                    self.comments_inside(comments_end(link, arrow));
                    self.new_line();
                }
                self.out.push_str(sign(arrow));
                if !is_nothing(link) {
                    self.out.push(' ');
                }
            }
            for (index, item) in link.items.iter().enumerate() {
                if index > 0 {
                    self.out.push_str(", ");
                }
                self.item(item);
            }
        }
        self.indent -= usize::from(links.len() > 1);
    }

    /// Whether comments stand where a broken chain prints them: before its last elements, or in
    /// their blocks.
    fn has_comments_between(&self, links: &[Link]) -> bool {
        let Some((first, last)) = links.first().zip(links.last()) else { return false };
        let start = first.items.first().map_or(0, |item| item.at.start);
        let breaks = links.len() - 1 > usize::from(is_nothing(first));
        if breaks && last.arrow.is_some_and(|arrow| self.has_comment(start, comments_end(last, arrow))) {
            return true;
        }
        let in_block = |at: Span| self.has_comment(at.start, at.end);
        last.items.iter().any(|item| {
            let subject = match &item.subject {
                Subject::Compound(compound) => in_block(compound.at),
                Subject::Group(group) => in_block(group.at),
                _ => false,
            };
            subject || matches!(&item.class, Some(Class::Compound(compound)) if in_block(compound.at))
        })
    }

    fn item(&mut self, item: &Item) {
        if let Some(ports) = &item.inputs {
            self.out.push_str(&ports_on_line(ports));
            if item.implied().is_none() {
                self.out.push(' ');
            }
        }
        match &item.subject {
            Subject::Name(word) => self.out.push_str(&word.text),
            Subject::Compound(compound) => self.compound_in_chain(compound),
            Subject::Group(group) => self.group(group),
            Subject::ImpliedInput(_) | Subject::ImpliedOutput(_) => {}
        }
        match &item.class {
            Some(Class::Named(word)) => {
                self.out.push_str(" :: ");
                self.out.push_str(&word.text);
            }
            Some(Class::Compound(compound)) => {
                self.out.push_str(" :: ");
                self.compound_in_chain(compound);
            }
            Some(Class::Missing(_)) | None => {}
        }
        if let Some(configuration) = &item.configuration {
            self.configuration(configuration);
        }
        if let Some(ports) = &item.outputs {
            if item.implied().is_none() {
                self.out.push(' ');
            }
            self.out.push_str(&ports_on_line(ports));
        }
    }

    /// Prints a compound on one line if it allows that.
    fn compound_in_chain(&mut self, compound: &Compound) {
        let comment = self.has_comment(compound.at.start, compound.at.end);
        match compound_on_line(compound).filter(|_| !comment) {
            Some(line) => self.out.push_str(&line),
            None => self.compound(compound),
        }
    }

    fn compound(&mut self, compound: &Compound) {
        let comment = self.has_comment(compound.at.start, compound.at.end);
        if let Some(nothing) = compound_on_line(compound).filter(|line| !comment && line == EMPTY) {
            self.out.push_str(&nothing);
            return;
        }
        for (index, part) in compound.parts.iter().enumerate() {
            if index > 0 {
                self.begin_line(false);
            }
            self.out.push_str(if index == 0 { "{" } else { "||" });
            if !part.parameters.is_empty() {
                self.out.push(' ');
                self.out.push_str(&parameters_on_line(&part.parameters));
            }
            let close = compound.at.end.saturating_sub(1);
            let after = compound.extends.map_or(close, |dots| dots.start);
            let end = compound.parts.get(index + 1).map_or(after, |next| next.open.start);
            self.block(&part.statements, end);
        }
        if compound.extends.is_some() {
            self.begin_line(false);
            self.out.push_str("|| ...");
            self.comments_behind(compound.at.end.saturating_sub(1));
            self.out.push('\n');
            self.indent += 1;
            self.comment_lines(compound.at.end.saturating_sub(1));
            self.indent -= 1;
        }
        self.begin_line(false);
        self.out.push('}');
    }

    fn group(&mut self, group: &Group) {
        let comment = self.has_comment(group.at.start, group.at.end);
        if !comment && let Some(line) = statements_on_line(&group.statements) {
            self.out.push_str(&format!("({line})"));
            return;
        }
        self.out.push('(');
        self.block(&group.statements, group.at.end.saturating_sub(1));
        self.begin_line(false);
        self.out.push(')');
    }

    /// Ends the line of an opening sign, and prints what comes up to the closing one.
    fn block(&mut self, statements: &[Statement], end: u32) {
        self.indent += 1;
        self.comments_behind(statements.first().map_or(end, |first| first.at.start));
        self.out.push('\n');
        self.statements(statements, end);
        self.indent -= 1;
    }
}

fn sign(arrow: Arrow) -> &'static str {
    if arrow.many { "=>" } else { "->" }
}

/// Up to where comments are printed before an arrow: what stands behind it still belongs to the
/// line before.
fn comments_end(link: &Link, arrow: Arrow) -> u32 {
    match link.items.first() {
        Some(item) if item.implied().is_none() => item.at.start,
        _ => arrow.at.start,
    }
}

/// Whether a set of elements is a single implied one without ports, which prints as nothing.
fn is_nothing(link: &Link) -> bool {
    matches!(&link.items[..], [item] if item.implied().is_some() && item.inputs.is_none() && item.outputs.is_none())
}

fn ports_on_line(ports: &Ports) -> String {
    if ports.open && ports.numbers == [0] {
        return "[]".to_owned();
    }
    let numbers: Vec<String> = ports.numbers.iter().map(u32::to_string).collect();
    let more = if ports.open { "," } else { "" };
    format!("[{}{more}]", numbers.join(", "))
}

fn parameters_on_line(parameters: &[Parameter]) -> String {
    let parameter = |parameter: &Parameter| match &parameter.keyword {
        None => format!("${}", parameter.variable.text),
        Some(keyword) => format!("{} ${}", keyword.text, parameter.variable.text),
    };
    format!("{} |", parameters.iter().map(parameter).collect::<Vec<_>>().join(", "))
}

/// A chain on one line, if its blocks and configurations allow it.
fn chain_on_line(links: &[Link]) -> Option<String> {
    let mut line = String::new();
    for link in links {
        if let Some(arrow) = link.arrow {
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(sign(arrow));
            if !is_nothing(link) {
                line.push(' ');
            }
        }
        for (index, item) in link.items.iter().enumerate() {
            if index > 0 {
                line.push_str(", ");
            }
            line.push_str(&item_on_line(item)?);
        }
        if line.len() > WIDTH {
            return None;
        }
    }
    Some(line)
}

fn item_on_line(item: &Item) -> Option<String> {
    let mut parts = Vec::new();
    if let Some(ports) = &item.inputs {
        parts.push(ports_on_line(ports));
    }
    match &item.subject {
        Subject::Name(word) => parts.push(word.text.clone()),
        Subject::Compound(compound) => parts.push(compound_on_line(compound)?),
        Subject::Group(group) => parts.push(format!("({})", statements_on_line(&group.statements)?)),
        Subject::ImpliedInput(_) | Subject::ImpliedOutput(_) => {}
    }
    match &item.class {
        Some(Class::Named(word)) => parts.push(format!(":: {}", word.text)),
        Some(Class::Compound(compound)) => parts.push(format!(":: {}", compound_on_line(compound)?)),
        Some(Class::Missing(_)) | None => {}
    }
    if let Some(configuration) = &item.configuration {
        if configuration.text.contains('\n') {
            return None;
        }
        parts.last_mut()?.push_str(&format!("({})", configuration.text));
    }
    if let Some(ports) = &item.outputs {
        parts.push(ports_on_line(ports));
    }
    Some(parts.join(" "))
}

fn compound_on_line(compound: &Compound) -> Option<String> {
    let [part] = &compound.parts[..] else { return None };
    if compound.extends.is_some() {
        return None;
    }
    let statements = statements_on_line(&part.statements)?;
    let inside = match (part.parameters.is_empty(), statements.is_empty()) {
        (true, true) => return Some(EMPTY.to_owned()),
        (true, false) => statements,
        (false, true) => parameters_on_line(&part.parameters),
        (false, false) => format!("{} {statements}", parameters_on_line(&part.parameters)),
    };
    Some(format!("{{ {inside} }}"))
}

fn statements_on_line(statements: &[Statement]) -> Option<String> {
    let mut lines = Vec::new();
    let mut length = 0;
    for statement in statements {
        let Saying::Chain(links) = &statement.what else { return None };
        let line = chain_on_line(links)?;
        length += line.len();
        if length > WIDTH {
            return None;
        }
        lines.push(line);
    }
    Some(lines.join("; "))
}
