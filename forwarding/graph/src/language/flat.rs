//! A configuration with its compounds expanded: what is built.

use std::fmt::Write as _;

use super::quoting::quote;
use super::report::Span;

/// Elements and the connections between them; nothing else is left.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Flat {
    /// The elements, in Click's order: those of the text first, then what each compound consists
    /// of.
    pub elements: Vec<FlatElement>,
    /// The connections, by input, then by output; no two are the same.
    pub connections: Vec<FlatConnection>,
    /// What the configuration requires: `("package", name)`, `("compact_config", "")`. Libraries
    /// are not among them; what they say is part of the configuration.
    pub requirements: Vec<(String, String)>,
}

/// An element.
#[derive(Clone, Debug, PartialEq)]
pub struct FlatElement {
    /// Its name: `q`, `a/b`, `Counter@3`.
    pub name: String,
    /// Its class, which is no compound; whether it exists is for the builder to say. It is `Error`
    /// where the report has the reason that there is none.
    pub class: String,
    /// Its configuration without the parentheses, its variables replaced.
    pub configuration: String,
    /// Where it is declared: its name, or the class of an anonymous element.
    pub at: Span,
    /// Where its class is named.
    pub class_at: Span,
    /// Where its configuration stands, when it stands there byte for byte.
    pub configuration_at: Option<Span>,
}

/// A connection, by indices into [`Flat::elements`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlatConnection {
    /// The element that packets leave.
    pub from: usize,
    /// By which of its outputs.
    pub output: usize,
    /// The element that they enter.
    pub to: usize,
    /// By which of its inputs.
    pub input: usize,
    /// The arrow.
    pub at: Span,
}

/// A flat configuration as text, in the form of Click's `flatconfig` handler: requirements,
/// declarations, connections in chains as long as possible.
pub fn unparse(flat: &Flat) -> String {
    let mut out = String::new();
    if !flat.requirements.is_empty() {
        let requirements: Vec<String> = flat.requirements.iter().map(unparse_requirement).collect();
        let _ = writeln!(out, "require({});\n", requirements.join(", "));
    }
    for element in &flat.elements {
        let _ = write!(out, "{} :: {}", element.name, element.class);
        if !element.configuration.is_empty() {
            let _ = write!(out, "({})", element.configuration);
        }
        out.push_str(";\n");
    }
    if !flat.elements.is_empty() {
        out.push('\n');
    }
    unparse_connections(flat, &mut out);
    out
}

fn unparse_requirement((kind, value): &(String, String)) -> String {
    if value.is_empty() { kind.clone() } else { format!("{kind} {}", quote(value)) }
}

fn unparse_connections(flat: &Flat, out: &mut String) {
    let connections = &flat.connections;
    let name = |element: usize| flat.elements.get(element).map_or("", |element| &element.name);
    // The connection that continues each one: from output 0 of the element it enters at input 0,
    // best to an input 0.
    let mut by_output = std::collections::HashMap::<(usize, usize), Vec<usize>>::new();
    for (index, connection) in connections.iter().enumerate() {
        by_output.entry((connection.from, connection.output)).or_default().push(index);
    }
    let mut next = vec![None; connections.len()];
    let mut starts = vec![true; connections.len()];
    for (index, connection) in connections.iter().enumerate() {
        if connection.input != 0 {
            continue;
        }
        let from_here = by_output.get(&(connection.to, 0)).map_or(&[][..], |found| found);
        let mut others = from_here.iter().filter(|&&other| other != index);
        let into_input_0 = others.clone().find(|&&other| connections[other].input == 0);
        if let Some(&found) = into_input_0.or_else(|| others.next_back()) {
            next[index] = Some(found);
            starts[found] = false;
        }
    }

    let mut printed = vec![false; connections.len()];
    let mut chain = |start: usize, printed: &mut Vec<bool>| {
        let connection = &connections[start];
        out.push_str(name(connection.from));
        if connection.output != 0 {
            let _ = write!(out, " [{}]", connection.output);
        }
        let mut at = Some(start);
        while let Some(index) = at.filter(|&index| !printed[index]) {
            out.push_str(if index == start { " -> " } else { "\n    -> " });
            let connection = &connections[index];
            if connection.input != 0 {
                let _ = write!(out, "[{}] ", connection.input);
            }
            out.push_str(name(connection.to));
            printed[index] = true;
            at = next[index];
        }
        out.push_str(";\n");
    };
    for start in (0..connections.len()).filter(|&start| starts[start]) {
        if !printed[start] {
            chain(start, &mut printed);
        }
    }
    // Whatever is left goes in circles.
    for start in 0..connections.len() {
        if !printed[start] {
            chain(start, &mut printed);
        }
    }
}
