//! What is printed after the run: `-h`, and the exit code of `-x`.

use graph::{Graph, Handler, HandlerError, Sinks};

/// Prints handlers, each as `element.handler`, `class.handler`, a pattern of elements' names, or
/// one of the graph's own. Whether all went well.
pub fn print(graph: &mut Graph, sinks: &mut Sinks, wanted: &[String]) -> bool {
    let mut good = true;
    let mut report = |result: Result<(), String>| {
        if let Err(wrong) = result {
            eprintln!("{wrong}");
            good = false;
        }
    };
    let named = wanted.len() > 1;
    for path in wanted {
        let Some((pattern, handler)) = path.split_once('.') else {
            report(print_one(graph, sinks, "", path, named));
            continue;
        };
        let (elements, several) = match expand(graph, sinks, pattern, handler) {
            Ok(found) => found,
            Err(wrong) => {
                report(Err(wrong));
                continue;
            }
        };
        for element in elements {
            report(print_one(graph, sinks, &element, handler, named || several));
        }
    }
    good
}

/// The elements that a pattern means: one by its name, or all those that have the handler by
/// pattern or class, and whether it may be several.
fn expand(
    graph: &mut Graph,
    sinks: &mut Sinks,
    pattern: &str,
    handler: &str,
) -> Result<(Vec<String>, bool), String> {
    let description = graph.description();
    if let Some(node) = description.find(pattern) {
        return Ok((vec![node.name.clone()], false));
    }
    let is_pattern = pattern.contains(['?', '*', '[']);
    let meant = description
        .nodes
        .iter()
        .filter(|node| if is_pattern { glob(&node.name, pattern) } else { node.class == pattern });
    let meant: Vec<&str> = meant.map(|node| node.name.as_str()).collect();
    if meant.is_empty() {
        let what = if is_pattern { "no element matching" } else { "no element" };
        return Err(format!("{what} '{pattern}'"));
    }
    let readable = |element: &&&str| find(graph, sinks, element, handler).is_some_and(|found| found.reads);
    Ok((meant.iter().filter(readable).map(|element| (*element).to_owned()).collect(), true))
}

fn find(graph: &mut Graph, sinks: &mut Sinks, element: &str, handler: &str) -> Option<Handler> {
    let handlers = graph.handlers(element, sinks).ok()?;
    handlers.into_iter().find(|known| known.name == handler && !known.private)
}

fn print_one(
    graph: &mut Graph,
    sinks: &mut Sinks,
    element: &str,
    handler: &str,
    named: bool,
) -> Result<(), String> {
    let path = if element.is_empty() { handler.to_owned() } else { format!("{element}.{handler}") };
    let Some(found) = find(graph, sinks, element, handler) else {
        return Err(format!("no '{path}' handler"));
    };
    if !found.reads {
        return Err(format!("'{path}' is a write handler"));
    }
    if named {
        println!("{path}:");
    }
    let value = graph.read_handler(&path, "", sinks).map_err(|error| error.to_string())?;
    print!("{value}{}", if value.is_empty() || value.ends_with('\n') { "" } else { "\n" });
    if named {
        println!();
    }
    Ok(())
}

/// The exit code that a handler gives: a number, or 0 for true and 1 for false; -1 when it is
/// neither.
pub fn exit_code(graph: &mut Graph, sinks: &mut Sinks, call: &str) -> i64 {
    let (path, argument) = call.trim().split_once(char::is_whitespace).unwrap_or((call.trim(), ""));
    let value = match graph.read_handler(path, argument.trim(), sinks) {
        Ok(value) => value,
        Err(HandlerError::NoHandler(_)) => {
            eprintln!("no '{path}' read handler");
            return -1;
        }
        Err(error) => {
            eprintln!("{error}");
            return -1;
        }
    };
    let value = graph::language::uncomment(&value);
    match (graph::arguments::parse_integer(&value, i32::MIN.into(), i32::MAX.into()), value.as_str()) {
        (Ok(number), _) => number as i64,
        (_, "true" | "yes" | "t" | "y") => 0,
        (_, "false" | "no" | "f" | "n") => 1,
        _ => {
            eprintln!("exit handler value should be integer");
            -1
        }
    }
}

/// Whether a name has the form of a pattern: `*` is any text, `?` any sign, `[a-z]` and `[^a-z]`
/// one of those signs.
fn glob(name: &str, pattern: &str) -> bool {
    let (name, pattern): (Vec<char>, Vec<char>) = (name.chars().collect(), pattern.chars().collect());
    // Where to go on when the rest does not fit: behind the last `*`, with one more sign given to
    // it.
    let (mut at, mut part, mut back) = (0, 0, None);
    while at < name.len() {
        match one(name[at], &pattern[part.min(pattern.len())..]) {
            Some(0) => {
                back = Some((at, part + 1));
                part += 1;
            }
            Some(length) => {
                at += 1;
                part += length;
            }
            None => {
                let Some((from, star)) = back else { return false };
                back = Some((from + 1, star));
                (at, part) = (from + 1, star);
            }
        }
    }
    pattern[part..].iter().all(|sign| *sign == '*')
}

/// How many signs of the pattern one sign of the name fits to: none where the pattern has a `*`;
/// `None` if it doesn't fit.
fn one(sign: char, pattern: &[char]) -> Option<usize> {
    match pattern {
        ['*', ..] => Some(0),
        ['?', ..] => Some(1),
        ['[', rest @ ..] => {
            let (negated, from) = if matches!(rest, ['^' | '!', ..]) { (true, 1) } else { (false, 0) };
            let end = rest.iter().skip(from + 1).position(|sign| *sign == ']')? + from + 1;
            let mut set = &rest[from..end];
            let mut within = false;
            while let [first, after @ ..] = set {
                match after {
                    ['-', last, after @ ..] => {
                        within |= (*first..=*last).contains(&sign);
                        set = after;
                    }
                    _ => {
                        within |= *first == sign;
                        set = after;
                    }
                }
            }
            (within != negated).then_some(end + 2)
        }
        [first, ..] => (*first == sign).then_some(1),
        [] => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn patterns_match_names() {
        for (name, pattern, fits) in [
            ("abc", "*", true),
            ("abc", "a*c", true),
            ("abcbc", "a*bc", true),
            ("abc", "a?c", true),
            ("abc", "a?", false),
            ("abc", "[a-c][^x-z]c", true),
            ("abc", "[b-c]*", false),
            ("a]", "a[]]", true),
            ("a", "a*", true),
            ("", "*", true),
            ("", "?", false),
            ("Counter@2", "Counter@*", true),
            ("a", "[", false),
        ] {
            assert_eq!(glob(name, pattern), fits, "{name} {pattern}");
        }
    }

    proptest! {
        #[test]
        fn any_pattern_ends(name in "[ab\\[\\]*?^-]{0,12}", pattern in "[ab\\[\\]*?^-]{0,12}") {
            glob(&name, &pattern);
            prop_assert!(glob(&name, "*"));
        }
    }
}
