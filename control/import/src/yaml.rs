//! YAML as netplan's files have it, with the line of each value.
//!
//! The library `saphyr-parser` reads it, and tells what comes one after the other, with its place.
//! Values are built of that here, since each needs its line for messages, and its text as it is
//! written: whether `0123` is a number is for the key to say. Anchors, tags and several documents
//! are not read.

use saphyr_parser::{Event, Parser, ScalarStyle, StrInput};

/// Something in a file, and its line from 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Yaml {
    pub line: usize,
    pub value: Value,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Value {
    /// Empty where nothing is said.
    Text(String),
    List(Vec<Yaml>),
    /// In the order of the file.
    Map(Vec<(String, Yaml)>),
}

/// Values inside of values at most.
const DEEPEST: usize = 32;

/// What cannot be read, and its line.
pub(crate) type Wrong = (usize, String);

impl Yaml {
    pub fn text(&self) -> Option<&str> {
        match &self.value {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }

    pub fn map(&self) -> &[(String, Yaml)] {
        match &self.value {
            Value::Map(map) => map,
            _ => &[],
        }
    }

    pub fn list(&self) -> &[Yaml] {
        match &self.value {
            Value::List(list) => list,
            _ => &[],
        }
    }

    pub fn get(&self, key: &str) -> Option<&Yaml> {
        self.map().iter().find(|(name, _)| name == key).map(|(_, value)| value)
    }
}

/// Reads a file; `None`: there is nothing in it.
pub(crate) fn read(text: &str) -> Result<Option<Yaml>, Wrong> {
    let mut reader = Reader { parser: Parser::new_from_str(text) };
    let mut found = None;
    loop {
        match reader.next()? {
            (Event::StreamEnd, _) => return Ok(found),
            (Event::StreamStart | Event::DocumentEnd, _) => {}
            (Event::DocumentStart(_), line) if found.is_some() => {
                return Err((line, "several documents in a file are not read".to_owned()));
            }
            (Event::DocumentStart(_), _) => {
                let (event, line) = reader.next()?;
                found = Some(reader.value(event, line, 0)?);
            }
            (_, line) => return Err((line, "nothing can stand here".to_owned())),
        }
    }
}

struct Reader<'t> {
    parser: Parser<'t, StrInput<'t>>,
}

impl<'t> Reader<'t> {
    /// What comes next, and its line.
    fn next(&mut self) -> Result<(Event<'t>, usize), Wrong> {
        match self.parser.next_event() {
            Some(Ok((event, span))) => Ok((event, span.start.line())),
            Some(Err(error)) => Err((error.marker().line(), error.info().to_owned())),
            None => Ok((Event::StreamEnd, 0)),
        }
    }

    /// The value that begins with `event`.
    fn value(&mut self, event: Event<'t>, line: usize, depth: usize) -> Result<Yaml, Wrong> {
        if depth > DEEPEST {
            return Err((line, "this is too deep".to_owned()));
        }
        let value = match event {
            // So the parser says that nothing stands there.
            Event::Scalar(text, ScalarStyle::Plain, 0, None) if text == "~" => Value::Text(String::new()),
            Event::Scalar(text, _, 0, None) => Value::Text(text.into_owned()),
            Event::SequenceStart(0, None) => {
                let mut list = Vec::new();
                loop {
                    match self.next()? {
                        (Event::SequenceEnd, _) => break Value::List(list),
                        (event, line) => list.push(self.value(event, line, depth + 1)?),
                    }
                }
            }
            Event::MappingStart(0, None) => {
                let mut map: Vec<(String, Yaml)> = Vec::new();
                loop {
                    let (key, line) = match self.next()? {
                        (Event::MappingEnd, _) => break Value::Map(map),
                        (Event::Scalar(key, _, 0, None), line) => (key.into_owned(), line),
                        (_, line) => return Err((line, "a key is a word".to_owned())),
                    };
                    if map.iter().any(|(other, _)| *other == key) {
                        return Err((line, "this key is there already".to_owned()));
                    }
                    let (event, line) = self.next()?;
                    map.push((key, self.value(event, line, depth + 1)?));
                }
            }
            _ => return Err((line, "anchors and tags are not read".to_owned())),
        };
        Ok(Yaml { line, value })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(yaml: &Yaml) -> String {
        match &yaml.value {
            Value::Text(text) => format!("{text}@{}", yaml.line),
            Value::List(list) => format!("[{}]", list.iter().map(shown).collect::<Vec<_>>().join(" ")),
            Value::Map(map) => {
                let pairs = map.iter().map(|(key, value)| format!("{key}={}", shown(value)));
                format!("{{{}}}", pairs.collect::<Vec<_>>().join(" "))
            }
        }
    }

    const FILE: &str = r#"# x
network:
  version: 2
  eths:
    "e0":
      a: [1::2/64, 'b c']  # y
      r:
      - to: default
        via: fe80::1
      - {to: 10.0.0.0/8, via: 02:00:00:00:00:01}
    e1: {}
    e2:
    e3: "a\tb"
"#;

    #[test]
    fn what_netplan_writes_is_read() {
        let expected = "{network={version=2@3 eths={e0={a=[1::2/64@6 b c@6] \
                        r=[{to=default@8 via=fe80::1@9} {to=10.0.0.0/8@10 via=02:00:00:00:00:01@10}]} \
                        e1={} e2=@12 e3=a\tb@13}}}";
        assert_eq!(read(FILE).map(|found| found.map(|yaml| shown(&yaml))), Ok(Some(expected.to_owned())));
        assert_eq!(read("# nothing\n"), Ok(None));
    }

    #[test]
    fn what_is_not_read_is_told_with_its_line() {
        let deep = format!("a: 1\nb: {}", "[".repeat(DEEPEST + 1));
        for (text, line) in [
            ("a: b\nc: &x d\n", 2),
            ("a: b\nc: !x d\n", 2),
            ("a:\n\tb: c\n", 2),
            ("a: [b\n", 2),
            ("a: 1\na: 2\n", 2),
            ("a: 1\n[b]: 2\n", 2),
            ("a: b\n---\nc: d\n", 2),
            ("a:\n    b: c\n  d: e\n", 3),
            ("a: b\nc\n", 3),
            (&deep, 2),
        ] {
            assert_eq!(read(text).map_err(|(line, _)| line), Err(line), "{text}");
        }
    }
}
