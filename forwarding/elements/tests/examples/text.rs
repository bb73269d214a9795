//! The text form of examples.

use graph::arguments::{Seconds, read};

use crate::packet::Sample;

/// One example.
pub struct Example {
    pub title: String,
    pub subject: Subject,
    pub steps: Vec<Step>,
}

/// What it is about.
pub enum Subject {
    /// An element: its class and configuration as in the language.
    Element(String),
    /// A whole configuration.
    Program(String),
}

/// What is done, or should be so.
pub struct Step {
    pub line: usize,
    pub action: Action,
}

pub enum Action {
    /// A packet arrives at an input.
    In(usize, Sample),
    /// A packet left by an output, or none.
    Out(usize, Option<Sample>),
    /// A handler (and its argument) has a value.
    Read(String, String, String),
    /// A handler is written.
    Write(String, String),
    /// A handler does not take a value.
    Refuse(String, String),
    /// A line was printed.
    Prints(String),
    /// Nanoseconds pass.
    Wait(u64),
    /// The configuration is refused.
    Refused(String),
}

/// Reads a file of examples. The error says in which line it is.
pub fn parse(text: &str) -> Result<Vec<Example>, String> {
    let mut examples: Vec<Example> = Vec::new();
    let mut title = None;
    let mut lines = text.lines().enumerate().peekable();
    let mut last = None;
    while let Some((index, line)) = lines.next() {
        let number = index + 1;
        let wrong = |message: String| format!("line {number}: {message}");
        let line = line.trim_end();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let (key, value) = split(line).ok_or_else(|| wrong("expected 'KEY: VALUE'".to_owned()))?;
        let mut value = value.trim().to_owned();
        if value.is_empty() {
            let mut block = Vec::new();
            while let Some((_, line)) =
                lines.next_if(|(_, line)| line.starts_with("  ") || line.trim().is_empty())
            {
                block.push(line.get(2..).unwrap_or_default().trim_end());
            }
            value = block.join("\n").trim_end().to_owned();
        }
        match key {
            "example" => title = Some(value),
            "element" | "program" => {
                let title = title.take().ok_or_else(|| wrong("expected 'example:' first".to_owned()))?;
                let subject =
                    if key == "element" { Subject::Element(value) } else { Subject::Program(value) };
                examples.push(Example { title, subject, steps: Vec::new() });
                last = None;
            }
            _ => {
                let example = examples.last_mut().filter(|_| title.is_none());
                let example =
                    example.ok_or_else(|| wrong("expected 'element:' or 'program:' first".to_owned()))?;
                let action = action(key, &value, &mut last).map_err(wrong)?;
                example.steps.push(Step { line: number, action });
            }
        }
    }
    if title.is_some() {
        Err("the last example has no element and no program".to_owned())
    } else {
        Ok(examples)
    }
}

/// A key and what is behind its colon, which a space or nothing follows.
fn split(line: &str) -> Option<(&str, &str)> {
    line.split_once(": ").or_else(|| Some((line.strip_suffix(':')?, "")))
}

fn action(key: &str, value: &str, last: &mut Option<Sample>) -> Result<Action, String> {
    let (verb, what) = key.split_once(' ').unwrap_or((key, ""));
    let port = || if what.is_empty() { Ok(0) } else { read::<usize>(what) };
    let handler = || if what.is_empty() { Err("which handler?".to_owned()) } else { Ok(what.to_owned()) };
    Ok(match verb {
        "in" => {
            let sample = Sample::parse(value, last.as_ref())?;
            *last = Some(sample.clone());
            Action::In(port()?, sample)
        }
        "out" if value == "nothing" => Action::Out(port()?, None),
        "out" => {
            Action::Out(port()?, Some(Sample::parse(value, last.as_ref())?.without_known_network(value)))
        }
        "read" => {
            let handler = handler()?;
            let (name, argument) = handler.split_once(' ').unwrap_or((&handler, ""));
            Action::Read(name.to_owned(), argument.to_owned(), value.to_owned())
        }
        "write" => Action::Write(handler()?, value.to_owned()),
        "refuse" => Action::Refuse(handler()?, value.to_owned()),
        "prints" => Action::Prints(value.to_owned()),
        "wait" => Action::Wait(read::<Seconds>(value)?.0.unsigned_abs()),
        "refused" => Action::Refused(value.to_owned()),
        _ => return Err(format!("'{key}' is nothing that an example knows")),
    })
}

/// Whether a text is as expected, where `...` stands for anything and space at the end of a line
/// doesn't count.
pub fn matches(expected: &str, actual: &str) -> bool {
    let (expected, actual) = (trimmed(expected), trimmed(actual));
    let mut parts = expected.split("...");
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = actual.strip_prefix(first) else { return false };
    let mut parts = parts.peekable();
    if parts.peek().is_none() {
        return rest.is_empty();
    }
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            return rest.ends_with(part);
        }
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    true
}

fn trimmed(text: &str) -> String {
    text.lines().map(str::trim_end).collect::<Vec<_>>().join("\n").trim_end().to_owned()
}
