//! YAML as netplan's files have it: mappings and lists, by indentation or in brackets, and plain or
//! quoted values. Anchors, tags, texts of several lines and several documents are not read.

/// Something in a file, and its line from 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Yaml {
    pub line: usize,
    pub value: Value,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Value {
    Text(String),
    List(Vec<Yaml>),
    /// In the order of the file.
    Map(Vec<(String, Yaml)>),
}

/// Values inside of values at most.
const DEEPEST: usize = 32;

/// What cannot be read, and its line.
pub(crate) type Wrong = (usize, &'static str);

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

struct Line<'t> {
    number: usize,
    indent: usize,
    text: &'t str,
}

/// Reads a file; `None`: there is nothing in it.
pub(crate) fn read(text: &str) -> Result<Option<Yaml>, Wrong> {
    let mut lines = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let whole = without_comment(line).trim_end();
        let text = whole.trim_start();
        if text.is_empty() || text == "---" && lines.is_empty() {
            continue;
        }
        if text == "---" || text == "..." || text.starts_with('%') {
            return Err((number, "several documents in a file are not read"));
        }
        let indent = whole.len() - text.len();
        if whole[..indent].contains('\t') {
            return Err((number, "YAML is not indented by tabs"));
        }
        lines.push(Line { number, indent, text });
    }
    let Some(indent) = lines.first().map(|line| line.indent) else { return Ok(None) };
    let mut at = 0;
    let found = block(&mut lines, &mut at, indent, 0)?;
    match lines.get(at) {
        None => Ok(Some(found)),
        Some(left) => Err((left.number, "this line is indented as nothing above it")),
    }
}

/// The text in front of a comment.
fn without_comment(line: &str) -> &str {
    let (mut quote, mut before) = (None, ' ');
    for (at, c) in line.char_indices() {
        match (quote, c) {
            (None, '#') if before.is_whitespace() => return &line[..at],
            (None, '"' | '\'') if before.is_whitespace() || "[{,:-".contains(before) => quote = Some(c),
            (Some(open), c) if open == c && before != '\\' => quote = None,
            _ => {}
        }
        before = c;
    }
    line
}

fn block<'t>(lines: &mut [Line<'t>], at: &mut usize, indent: usize, depth: usize) -> Result<Yaml, Wrong> {
    let (number, text) = (lines[*at].number, lines[*at].text);
    if depth > DEEPEST {
        return Err((number, "this is too deep"));
    }
    if text == "-" || text.starts_with("- ") {
        return sequence(lines, at, indent, depth);
    }
    if key(text, number)?.is_some() {
        return mapping(lines, at, indent, depth);
    }
    *at += 1;
    value(text, number)
}

fn sequence<'t>(lines: &mut [Line<'t>], at: &mut usize, indent: usize, depth: usize) -> Result<Yaml, Wrong> {
    let number = lines[*at].number;
    let mut list = Vec::new();
    while let Some(line) = lines.get_mut(*at) {
        if line.indent != indent || !(line.text == "-" || line.text.starts_with("- ")) {
            break;
        }
        let rest = line.text[1..].trim_start();
        if rest.is_empty() {
            let number = line.number;
            *at += 1;
            list.push(below(lines, at, indent + 1, number, depth)?);
        } else {
            // What stands behind the dash is as if it stood on a line of its own.
            let inner = indent + line.text.len() - rest.len();
            (line.indent, line.text) = (inner, rest);
            list.push(block(lines, at, inner, depth + 1)?);
        }
    }
    Ok(Yaml { line: number, value: Value::List(list) })
}

fn mapping<'t>(lines: &mut [Line<'t>], at: &mut usize, indent: usize, depth: usize) -> Result<Yaml, Wrong> {
    let number = lines[*at].number;
    let mut map: Vec<(String, Yaml)> = Vec::new();
    while let Some(line) = lines.get(*at) {
        let number = line.number;
        if line.indent != indent || line.text == "-" || line.text.starts_with("- ") {
            break;
        }
        let Some((name, rest)) = key(line.text, number)? else {
            return Err((number, "this is no key with a colon behind it"));
        };
        *at += 1;
        let value = match rest.is_empty() {
            // A list may stand as far left as its key.
            true => {
                let is_list = lines.get(*at).is_some_and(|next| {
                    next.indent == indent && (next.text == "-" || next.text.starts_with("- "))
                });
                let from = if is_list { indent } else { indent + 1 };
                below(lines, at, from, number, depth)?
            }
            false => value(rest, number)?,
        };
        if map.iter().any(|(other, _)| *other == name) {
            return Err((number, "this key is there already"));
        }
        map.push((name, value));
    }
    Ok(Yaml { line: number, value: Value::Map(map) })
}

/// What is indented by so much at least; nothing is an empty text.
fn below<'t>(
    lines: &mut [Line<'t>],
    at: &mut usize,
    least: usize,
    number: usize,
    depth: usize,
) -> Result<Yaml, Wrong> {
    match lines.get(*at).map(|line| line.indent) {
        Some(indent) if indent >= least => block(lines, at, indent, depth + 1),
        _ => Ok(Yaml { line: number, value: Value::Text(String::new()) }),
    }
}

/// A key, and what stands behind its colon.
fn key(text: &str, line: usize) -> Result<Option<(String, &str)>, Wrong> {
    if let Some(quote) = text.chars().next().filter(|c| matches!(c, '"' | '\'')) {
        let Some(end) = text[1..].find(quote) else { return Err((line, "a quote is not closed")) };
        let (name, rest) = (&text[1..=end], text[end + 2..].trim_start());
        let Some(rest) = rest.strip_prefix(':') else { return Ok(None) };
        return Ok((rest.is_empty() || rest.starts_with(' ')).then(|| (name.to_owned(), rest.trim())));
    }
    if text.starts_with(['[', '{']) {
        return Ok(None);
    }
    let ends = text.strip_suffix(':').map(|name| (name, ""));
    let found = text.split_once(": ").or(ends);
    Ok(found.map(|(name, rest)| (name.trim().to_owned(), rest.trim())))
}

/// A value on a line.
fn value(text: &str, line: usize) -> Result<Yaml, Wrong> {
    if text.starts_with(['&', '*', '!', '|', '>', '@', '`']) {
        return Err((line, "anchors, tags and texts of several lines are not read"));
    }
    let mut rest = text;
    let found = flow(&mut rest, line, 0, "")?;
    match rest.trim().is_empty() {
        true => Ok(found),
        false => Err((line, "there is more behind a value")),
    }
}

/// A value in a line, up to one of `ends`.
fn flow(rest: &mut &str, line: usize, depth: usize, ends: &str) -> Result<Yaml, Wrong> {
    if depth > DEEPEST {
        return Err((line, "this is too deep"));
    }
    *rest = rest.trim_start();
    let first = rest.chars().next();
    let value = match first {
        Some('[') => {
            *rest = &rest[1..];
            let mut list = Vec::new();
            while !closed(rest, ']', line)? {
                list.push(flow(rest, line, depth + 1, ",]")?);
                comma(rest, ']', line)?;
            }
            Value::List(list)
        }
        Some('{') => {
            *rest = &rest[1..];
            let mut map = Vec::new();
            while !closed(rest, '}', line)? {
                let name = scalar(rest, line, ":,}")?;
                *rest = rest.trim_start();
                let value = match rest.strip_prefix(':') {
                    Some(behind) => {
                        *rest = behind;
                        flow(rest, line, depth + 1, ",}")?
                    }
                    None => Yaml { line, value: Value::Text(String::new()) },
                };
                map.push((name, value));
                comma(rest, '}', line)?;
            }
            Value::Map(map)
        }
        _ => Value::Text(scalar(rest, line, ends)?),
    };
    Ok(Yaml { line, value })
}

fn closed(rest: &mut &str, end: char, line: usize) -> Result<bool, Wrong> {
    *rest = rest.trim_start();
    match rest.chars().next() {
        None => Err((line, "a bracket is not closed on its line")),
        Some(c) if c == end => {
            *rest = &rest[1..];
            Ok(true)
        }
        Some(_) => Ok(false),
    }
}

fn comma(rest: &mut &str, end: char, line: usize) -> Result<(), Wrong> {
    *rest = rest.trim_start();
    match rest.strip_prefix(',') {
        Some(behind) => *rest = behind,
        None if rest.starts_with(end) => {}
        None => return Err((line, "a bracket is not closed on its line")),
    }
    Ok(())
}

fn scalar(rest: &mut &str, line: usize, ends: &str) -> Result<String, Wrong> {
    *rest = rest.trim_start();
    if let Some(quote) = rest.chars().next().filter(|c| matches!(c, '"' | '\'')) {
        let Some(end) = rest[1..].find(quote) else { return Err((line, "a quote is not closed")) };
        let text = rest[1..=end].to_owned();
        if text.contains('\\') && quote == '"' {
            return Err((line, "escapes are not read"));
        }
        *rest = &rest[end + 2..];
        return Ok(text);
    }
    // A colon is one of an address, unless a space follows it.
    let is_end = |(at, c): &(usize, char)| {
        ends.contains(*c) && (*c != ':' || rest[at + 1..].is_empty() || rest[at + 1..].starts_with(' '))
    };
    let end = rest.char_indices().find(is_end).map_or(rest.len(), |(at, _)| at);
    let text = rest[..end].trim().to_owned();
    *rest = &rest[end..];
    Ok(text)
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

    #[test]
    fn what_netplan_writes_is_read() {
        let text = "# x\nnetwork:\n  version: 2\n  eths:\n    \"e0\":\n      a: [1::2/64, 'b c']  # y\n      r:\n      - to: default\n        via: fe80::1\n      - {to: 10.0.0.0/8, via: 10.0.0.1}\n    e1: {}\n    e2:\n";
        let expected = "{network={version=2@3 eths={e0={a=[1::2/64@6 b c@6] \
                        r=[{to=default@8 via=fe80::1@9} {to=10.0.0.0/8@10 via=10.0.0.1@10}]} e1={} e2=@12}}}";
        assert_eq!(read(text).map(|found| found.map(|yaml| shown(&yaml))), Ok(Some(expected.to_owned())));
        assert_eq!(read("# nothing\n"), Ok(None));
    }

    #[test]
    fn what_is_not_read_is_told_with_its_line() {
        for (text, line) in [
            ("a: b\nc: &x d\n", 2),
            ("a:\n\tb: c\n", 2),
            ("a: [b\n", 1),
            ("a: 1\na: 2\n", 2),
            ("a: b\n---\nc: d\n", 2),
            ("a:\n    b: c\n  d: e\n", 3),
            ("a: 'b\n", 1),
            ("a: b\nc\n", 2),
        ] {
            assert_eq!(read(text).map_err(|(line, _)| line), Err(line), "{text}");
        }
    }
}
