//! What may follow a command behind `|`.

use std::collections::VecDeque;
use std::io::{BufRead, Write};

use candidate::Word;
use regex_lite::{Regex, RegexBuilder};

use super::ShellError;
use crate::command::Failure;

/// The words, and what they do.
pub(super) const PIPES: [(&str, &str); 10] = [
    ("match", "only lines that match a pattern, in letters of any size"),
    ("except", "only lines that do not"),
    ("find", "lines from the first on that matches"),
    ("count", "how many lines there are"),
    ("first", "the first lines: 10, or so many"),
    ("last", "the last lines: 10, or so many"),
    ("json", "as JSON"),
    ("display", "of a configuration: as set-lines (set), as JSON (json), or as it is written (toml)"),
    ("compare", "of a candidate: how it differs from what it was made of; or from another revision"),
    ("no-more", "all at once, without a pause at the end of the screen"),
];

/// Words of others for them.
const OTHERS: [(&str, &str); 6] = [
    ("include", "match"),
    ("grep", "match"),
    ("exclude", "except"),
    ("begin", "find"),
    ("tail", "last"),
    ("head", "first"),
];

/// What is done with lines.
#[derive(Debug)]
enum Stage {
    Match(Regex, bool),
    Find(Regex),
    Count,
    First(usize),
    Last(usize),
}

/// How a configuration is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Form {
    /// As it is written.
    #[default]
    Toml,
    /// As set-lines.
    Set,
    /// As JSON.
    Json,
}

/// All that is behind a command.
#[derive(Debug, Default)]
pub(super) struct Pipes {
    stages: Vec<Stage>,
    /// Without a pause.
    pub all_at_once: bool,
    /// As JSON.
    pub json: bool,
    /// How a configuration is shown.
    pub form: Form,
    /// Compared with this; the empty word: with what it was made of.
    pub compare: Option<String>,
}

impl Pipes {
    /// Divides a line's words at each `|`.
    pub fn divide(words: Vec<Word>) -> Result<(Vec<Word>, Pipes), ShellError> {
        let mut parts = words.split(|word| word.is("|"));
        let command = parts.next().unwrap_or_default().to_vec();
        let mut pipes = Pipes::default();
        for part in parts {
            pipes.add(part)?;
        }
        Ok((command, pipes))
    }

    fn add(&mut self, words: &[Word]) -> Result<(), ShellError> {
        let Some((name, rest)) = words.split_first() else {
            return Err(ShellError::said(format!("what behind the |? One of {}", names())));
        };
        let words: Vec<&str> = rest.iter().map(|word| word.text.as_str()).collect();
        let known = super::session::meant(&name.text, PIPES.iter().map(|(name, _)| *name));
        let other = OTHERS.iter().find(|(other, _)| *other == name.text).map(|(_, ours)| *ours);
        let pattern = || match words.as_slice() {
            [] => Err(ShellError::said(format!("| {}: what? A pattern is missing", name.text))),
            words => {
                let pattern = words.join(" ");
                let built = RegexBuilder::new(&pattern).case_insensitive(true).build();
                built.map_err(|error| ShellError::said(format!("| {}: {pattern:?}: {error}", name.text)))
            }
        };
        let number = || match words.as_slice() {
            [] => Ok(10),
            [number] if number.parse::<usize>().is_ok_and(|number| number <= 1_000_000) => {
                Ok(number.parse().unwrap_or(10))
            }
            _ => Err(ShellError::said(format!("| {}: expected a number of lines", name.text))),
        };
        match other.or(known.ok()) {
            Some("match") => self.stages.push(Stage::Match(pattern()?, true)),
            Some("except") => self.stages.push(Stage::Match(pattern()?, false)),
            Some("find") => self.stages.push(Stage::Find(pattern()?)),
            Some("count") => self.stages.push(Stage::Count),
            Some("first") => self.stages.push(Stage::First(number()?)),
            Some("last") => self.stages.push(Stage::Last(number()?)),
            Some("json") => (self.json, self.form) = (true, Form::Json),
            Some("no-more") => self.all_at_once = true,
            Some("compare") => self.compare = Some(words.join(" ")),
            Some("display") => match words.as_slice() {
                ["set"] => self.form = Form::Set,
                ["json"] => (self.json, self.form) = (true, Form::Json),
                ["toml"] => self.form = Form::Toml,
                _ => return Err(ShellError::said("| display: expected set, json or toml")),
            },
            _ => return Err(ShellError::said(format!("there is no | {}: there are {}", name.text, names()))),
        }
        Ok(())
    }

    /// Whether lines pass as they are.
    pub fn passes(&self) -> bool {
        self.stages.is_empty()
    }

    /// Hands lines on.
    pub fn run(&self, from: &mut dyn BufRead, to: &mut dyn Write) -> Result<(), Failure> {
        let mut states: Vec<State> = self.stages.iter().map(State::new).collect();
        let mut line = Vec::new();
        loop {
            line.clear();
            match from.read_until(b'\n', &mut line) {
                Ok(0) => break,
                Ok(_) => {}
                Err(error) => return Err(Failure::output(error)),
            }
            let text = String::from_utf8_lossy(&line);
            let text = text.strip_suffix('\n').unwrap_or(&text);
            pass(&mut states, text, to).map_err(Failure::output)?;
            // Who wants the first lines alone need not wait for the rest.
            if states
                .iter()
                .any(|state| matches!(state, State { stage: Stage::First(most), seen, .. } if seen >= most))
                && states.iter().all(|state| !matches!(state.stage, Stage::Count | Stage::Last(_)))
            {
                break;
            }
        }
        finish(&mut states, to).map_err(Failure::output)?;
        to.flush().map_err(Failure::output)
    }
}

fn names() -> String {
    PIPES.map(|(name, _)| name).join(", ")
}

/// A stage at work.
struct State<'s> {
    stage: &'s Stage,
    seen: usize,
    held: VecDeque<String>,
}

impl State<'_> {
    fn new(stage: &Stage) -> State<'_> {
        State { stage, seen: 0, held: VecDeque::new() }
    }
}

fn pass(states: &mut [State], line: &str, to: &mut dyn Write) -> std::io::Result<()> {
    let Some((state, rest)) = states.split_first_mut() else { return writeln!(to, "{line}") };
    let goes_on = match state.stage {
        Stage::Match(pattern, wanted) => pattern.is_match(line) == *wanted,
        Stage::Find(pattern) => {
            state.seen += usize::from(state.seen > 0 || pattern.is_match(line));
            state.seen > 0
        }
        Stage::Count => {
            state.seen += 1;
            false
        }
        Stage::First(most) => {
            state.seen += 1;
            state.seen <= *most
        }
        Stage::Last(most) => {
            state.held.push_back(line.to_owned());
            if state.held.len() > *most {
                state.held.pop_front();
            }
            false
        }
    };
    if goes_on { pass(rest, line, to) } else { Ok(()) }
}

fn finish(states: &mut [State], to: &mut dyn Write) -> std::io::Result<()> {
    let Some((state, rest)) = states.split_first_mut() else { return Ok(()) };
    if matches!(state.stage, Stage::Count) {
        pass(rest, &format!("Count: {} lines", state.seen), to)?;
    }
    for line in std::mem::take(&mut state.held) {
        pass(rest, &line, to)?;
    }
    finish(rest, to)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn through(line: &str, text: &str) -> Result<String, String> {
        let (_, pipes) = Pipes::divide(candidate::split(line).unwrap()).map_err(|error| error.to_string())?;
        let mut out = Vec::new();
        pipes.run(&mut text.as_bytes(), &mut out).map_err(|error| error.to_string())?;
        Ok(String::from_utf8(out).unwrap())
    }

    #[test]
    fn lines_are_chosen_and_counted() {
        let text = "port\neth0 up\neth1 DOWN\nlo up\n";
        assert_eq!(through("x | match up", text).unwrap(), "eth0 up\nlo up\n");
        assert_eq!(through("x | match ^eth | except down", text).unwrap(), "eth0 up\n");
        assert_eq!(through("x | match up | count", text).unwrap(), "Count: 2 lines\n");
        assert_eq!(through("x | last 1", text).unwrap(), "lo up\n");
        assert_eq!(through("x | first 1", text).unwrap(), "port\n");
        assert_eq!(through("x | begin eth1", text).unwrap(), "eth1 DOWN\nlo up\n");
        assert_eq!(through("x | include \"eth1 d\"", text).unwrap(), "eth1 DOWN\n");
        assert_eq!(through("x | last 2 | count", text).unwrap(), "Count: 2 lines\n");
        assert!(through("x | nothing", text).unwrap_err().contains("there are match"));
        assert!(through("x | match", text).unwrap_err().contains("missing"));
        assert!(through("x | match (", text).is_err() && through("x |", text).is_err());
    }
}
