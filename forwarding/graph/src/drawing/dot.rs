//! The text for Graphviz.
//!
//! A box is a table of three rows: the inputs, what the element is, the outputs. A plain record
//! field has no colour of its own, which filled and open ports need; hence HTML-like labels.

use std::fmt::Write;

use super::{Kind, Picture, PictureNode, Port};
use crate::markup::{escape, shorten};

/// `picture` in Graphviz's language, for `dot -Tsvg` and its like. Nodes go by the elements' names,
/// their ports by `i0`, `i1`, ... and `o0`, `o1`, ...
pub fn dot(picture: &Picture) -> String {
    let mut text = String::from("digraph bifrost {\n");
    if !picture.title.is_empty() {
        let _ = writeln!(text, "  label={};\n  labelloc=t;", quote(&picture.title));
    }
    text += "  node [shape=plain, fontname=\"Helvetica\", fontsize=11];\n";
    text += "  edge [fontname=\"Helvetica\", fontsize=9, arrowsize=0.6];\n";
    for node in &picture.nodes {
        let _ = writeln!(text, "  {} [label=<{}>, tooltip={}];", quote(&node.name), table(node), {
            quote(&node.declaration())
        });
    }
    for edge in &picture.edges {
        let (Some(from), Some(to)) = (picture.nodes.get(edge.from), picture.nodes.get(edge.to)) else {
            continue;
        };
        let out = if edge.output < from.outputs.len() { format!(":o{}:s", edge.output) } else { ":s".into() };
        let into = if edge.input < to.inputs.len() { format!(":i{}:n", edge.input) } else { ":n".into() };
        let mut attributes = Vec::new();
        if let Some(label) = &edge.label {
            attributes.push(format!("label={}", quote(label)));
        }
        if edge.pull {
            attributes.push("arrowhead=onormal".into());
        }
        let attributes =
            if attributes.is_empty() { String::new() } else { format!(" [{}]", attributes.join(", ")) };
        let _ = writeln!(text, "  {}{out} -> {}{into}{attributes};", quote(&from.name), quote(&to.name));
    }
    text + "}\n"
}

fn table(node: &PictureNode) -> String {
    let mut lines = Vec::new();
    if node.is_named() {
        lines.push(escape(&node.name));
    }
    lines.push(format!("<B>{}</B>", escape(&node.class)));
    if !node.configuration.is_empty() {
        lines.push(format!("<FONT POINT-SIZE=\"9\">{}</FONT>", escape(&shorten(&node.configuration, 40))));
    }
    lines.extend(node.notes.iter().map(|note| format!("<FONT POINT-SIZE=\"8\">{}</FONT>", escape(note))));
    let style = match node.kind {
        Kind::Element => "",
        Kind::Lane => " STYLE=\"DASHED\"",
    };
    format!(
        "<TABLE BORDER=\"1\" CELLBORDER=\"0\" CELLSPACING=\"2\" BGCOLOR=\"{}\"{style}>{}<TR><TD>{}</TD></TR>{}</TABLE>",
        colour(node.heat),
        ports('i', &node.inputs),
        lines.join("<BR/>"),
        ports('o', &node.outputs)
    )
}

/// A row of ports, each a small square. The second outline of an agnostic one is a table around it.
fn ports(side: char, ports: &[Port]) -> String {
    if ports.is_empty() {
        return String::new();
    }
    let cells: String = (ports.iter().enumerate())
        .map(|(number, port)| {
            let fill = if port.pull { "white" } else { "black" };
            let square = format!("BGCOLOR=\"{fill}\" FIXEDSIZE=\"TRUE\" WIDTH=\"8\" HEIGHT=\"8\"");
            if port.agnostic {
                format!(
                    "<TD PORT=\"{side}{number}\"><TABLE BORDER=\"1\" CELLBORDER=\"1\" CELLSPACING=\"1\" \
                     CELLPADDING=\"0\" BGCOLOR=\"white\" FIXEDSIZE=\"TRUE\" WIDTH=\"13\" HEIGHT=\"13\"><TR><TD {square}></TD></TR></TABLE></TD>"
                )
            } else {
                format!(
                    "<TD PORT=\"{side}{number}\"><TABLE BORDER=\"0\" CELLBORDER=\"1\" CELLSPACING=\"0\" \
                     CELLPADDING=\"0\"><TR><TD {square}></TD></TR></TABLE></TD>"
                )
            }
        })
        .collect();
    format!(
        "<TR><TD><TABLE BORDER=\"0\" CELLSPACING=\"4\" CELLPADDING=\"0\"><TR>{cells}</TR></TABLE></TD></TR>"
    )
}

/// White when cold, orange when hot.
fn colour(heat: f64) -> String {
    let heat = if heat.is_finite() { heat.clamp(0.0, 1.0) } else { 0.0 };
    let mix = |hot: f64| (255.0 + (hot - 255.0) * heat).round() as u8;
    format!("#{:02x}{:02x}{:02x}", mix(251.0), mix(168.0), mix(102.0))
}

/// A quoted string of Graphviz's language: backslashes would begin its escapes.
fn quote(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '"' => quoted += "\\\"",
            '\\' => quoted += "\\\\",
            '\n' => quoted += "\\n",
            c if c.is_control() => quoted.push(' '),
            c => quoted.push(c),
        }
    }
    quoted + "\""
}

#[cfg(test)]
mod tests {
    use super::super::{Kind, Picture, PictureEdge, PictureNode, Port};
    use super::*;

    #[test]
    fn names_texts_and_ports() {
        let picture = Picture {
            title: "a \"title\"".into(),
            nodes: vec![
                PictureNode {
                    name: "c<0>".into(),
                    class: "Classifier".into(),
                    configuration: "12/0800, \"x\\y\"".into(),
                    outputs: vec![Port::default(), Port { agnostic: true, pull: true }],
                    ..PictureNode::default()
                },
                PictureNode {
                    name: "Discard@2".into(),
                    class: "Discard".into(),
                    inputs: vec![Port::default()],
                    notes: vec!["dropped 12".into()],
                    kind: Kind::Lane,
                    ..PictureNode::default()
                },
            ],
            edges: vec![
                PictureEdge {
                    from: 0,
                    output: 1,
                    to: 1,
                    label: Some("1 Mpps".into()),
                    ..PictureEdge::default()
                },
                PictureEdge { from: 1, to: 0, pull: true, ..PictureEdge::default() },
                PictureEdge { from: 7, ..PictureEdge::default() },
            ],
        };
        let text = dot(&picture);
        for part in [
            "label=\"a \\\"title\\\"\";",
            "\"c<0>\" [label=<<TABLE",
            "c&lt;0&gt;<BR/><B>Classifier</B><BR/><FONT POINT-SIZE=\"9\">12/0800, &quot;x\\y&quot;</FONT>",
            "tooltip=\"c<0> :: Classifier(12/0800, \\\"x\\\\y\\\")\"",
            "<TD><B>Discard</B><BR/><FONT POINT-SIZE=\"8\">dropped 12</FONT></TD>",
            "\"c<0>\":o1:s -> \"Discard@2\":i0:n [label=\"1 Mpps\"];",
            "\"Discard@2\":s -> \"c<0>\":n [arrowhead=onormal];",
        ] {
            assert!(text.contains(part), "{part} is not in\n{text}");
        }
        assert_eq!(text.matches(" -> ").count(), 2);
    }

    #[test]
    fn heat_becomes_colour() {
        assert_eq!(
            (colour(0.0).as_str(), colour(9.0).as_str(), colour(f64::NAN).as_str()),
            ("#ffffff", "#fba866", "#ffffff")
        );
    }
}
