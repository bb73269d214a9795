//! What is written in a box, and how large that makes it.
//!
//! A program that draws SVG by itself does not know the fonts of whoever looks at it. Widths are
//! estimated for a wide font (DejaVu Sans); in a narrower one, boxes have more air.

use std::collections::BTreeMap;

use super::layout::Shape;
use super::{Picture, PictureNode, Port};
use crate::markup::shorten;

/// How a line of text looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Style {
    Name,
    Class,
    Configuration,
    Note,
}

/// A line of text in a box: its style, the text, where its baseline is from the top of the box.
pub(super) type Line = (Style, String, f64);

/// A box that is ready to be drawn.
pub(super) struct Sketch {
    pub shape: Shape,
    pub lines: Vec<Line>,
    /// By output: what is written beside the line that begins there.
    pub labels: BTreeMap<usize, String>,
}

/// The most characters of a configuration and of a note.
const MOST_TEXT: usize = 30;
/// The most characters of names.
const MOST_NAME: usize = 40;
/// The most characters of a label.
const MOST_LABEL: usize = 24;
/// The least room for a port.
const PORT: f64 = 22.0;
/// From the text to the box's left and right.
const BESIDE: f64 = 14.0;
/// How high a label is with the room above it.
pub(super) const LABEL: f64 = 14.0;
/// From an output to its label.
pub(super) const TO_LABEL: f64 = 6.0;

impl Style {
    /// The size of the type, and the height of a line, in pixels.
    pub(super) fn size(self) -> (f64, f64) {
        match self {
            Style::Name => (11.0, 14.0),
            Style::Class => (13.0, 17.0),
            Style::Configuration => (10.5, 14.0),
            Style::Note => (10.0, 13.0),
        }
    }

    /// About how wide a text is, in pixels.
    fn width(self, text: &str) -> f64 {
        let (size, _) = self.size();
        let ems: f64 = match self {
            Style::Configuration => {
                text.chars().map(|c| if c.is_ascii() || c == '…' { 0.61 } else { 1.05 }).sum()
            }
            Style::Class => text.chars().map(|c| 1.1 * advance(c)).sum(),
            Style::Name | Style::Note => text.chars().map(advance).sum(),
        };
        ems * size
    }
}

/// About how wide a character is, for type of size 1.
fn advance(c: char) -> f64 {
    match c {
        'i' | 'j' | 'l' | 'I' | ' ' | '.' | ',' | ':' | ';' | '\'' | '|' | '!' | '/' | '[' | ']' | '('
        | ')' => 0.38,
        'f' | 't' | 'r' | '-' => 0.42,
        'm' | 'w' | 'M' | 'W' | '@' | '%' | '…' => 1.0,
        c if c.is_ascii_uppercase() => 0.72,
        c if c.is_ascii() => 0.64,
        _ => 1.05,
    }
}

/// Sketches every box of a picture.
pub(super) fn sketch(picture: &Picture) -> Vec<Sketch> {
    let mut labels: Vec<BTreeMap<usize, String>> = vec![BTreeMap::new(); picture.nodes.len()];
    for edge in &picture.edges {
        let (Some(label), Some(of_node)) = (&edge.label, labels.get_mut(edge.from)) else { continue };
        let whole = of_node.entry(edge.output).or_default();
        *whole =
            shorten(&if whole.is_empty() { label.clone() } else { format!("{whole} · {label}") }, MOST_LABEL);
    }
    picture.nodes.iter().zip(labels).map(|(node, labels)| sketch_node(node, labels)).collect()
}

fn sketch_node(node: &PictureNode, labels: BTreeMap<usize, String>) -> Sketch {
    let mut texts = Vec::new();
    if node.is_named() {
        texts.push((Style::Name, shorten(&node.name, MOST_NAME)));
    }
    texts.push((Style::Class, shorten(&node.class, MOST_NAME)));
    if !node.configuration.trim().is_empty() {
        texts.push((Style::Configuration, shorten(&node.configuration, MOST_TEXT)));
    }
    texts.extend(node.notes.iter().map(|note| (Style::Note, shorten(note, MOST_TEXT))));

    let room = |ports: &[Port]| if ports.is_empty() { 7.0 } else { 14.0 };
    let mut height = room(&node.inputs);
    let mut text_width = 0.0_f64;
    let lines = (texts.into_iter())
        .map(|(style, text)| {
            text_width = text_width.max(style.width(&text));
            let (size, line_height) = style.size();
            let baseline = height + line_height - (line_height - size * 0.72) / 2.0;
            height += line_height;
            (style, text, baseline)
        })
        .collect();
    height += room(&node.outputs);

    // Between two outputs, and between the last one and the box's right edge, is the room that a
    // label needs; so labels neither meet nor reach beyond the box.
    let label_width = |label: &String| TO_LABEL + Style::Note.width(label) + 4.0;
    let label_room = labels.values().map(label_width).fold(0.0, f64::max);
    let (inputs, outputs) = (node.inputs.len() as f64, node.outputs.len() as f64);
    let width = (text_width + 2.0 * BESIDE)
        .max(inputs * PORT)
        .max(outputs * PORT)
        .max((outputs - 1.0).max(0.0) * label_room.max(PORT) + 2.0 * label_room)
        .max(44.0)
        .ceil();
    let spread = |ports: &[Port], beside: f64| {
        let steps = ports.len() as f64 - 1.0;
        let step = (width / (steps + 1.0)).min((width - 2.0 * beside) / steps.max(1.0));
        (0..ports.len()).map(|port| width / 2.0 + (port as f64 - steps / 2.0) * step).collect::<Vec<_>>()
    };
    let below = if labels.is_empty() { 0.0 } else { LABEL };
    Sketch {
        shape: Shape {
            width,
            height,
            below,
            inputs: spread(&node.inputs, 0.0),
            outputs: spread(&node.outputs, label_room),
        },
        lines,
        labels,
    }
}

#[cfg(test)]
mod tests {
    use super::super::PictureEdge;
    use super::*;

    #[test]
    fn made_up_names_are_left_out() {
        let texts = |name: &str, class: &str| -> Vec<String> {
            let node = PictureNode { name: name.into(), class: class.into(), ..PictureNode::default() };
            sketch_node(&node, BTreeMap::new()).lines.into_iter().map(|line| line.1).collect()
        };
        assert_eq!(texts("Counter@3", "Counter"), ["Counter"]);
        assert_eq!(texts("a/Counter@3", "Counter"), ["Counter"]);
        assert_eq!(texts("c", "Counter"), ["c", "Counter"]);
        assert_eq!(texts("Counter@x", "Counter"), ["Counter@x", "Counter"]);
    }

    #[test]
    fn labels_of_one_output_stand_together_and_fit_below_the_box() {
        let node = PictureNode { outputs: vec![Port::default(); 3], ..PictureNode::default() };
        let edge =
            |output, label: &str| PictureEdge { output, label: Some(label.into()), ..PictureEdge::default() };
        let picture = Picture {
            nodes: vec![node],
            edges: vec![
                edge(0, "ten Mpps"),
                edge(2, "a"),
                edge(2, "b"),
                edge(1, "a rather long text for a label"),
            ],
            ..Picture::default()
        };
        let sketch = &sketch(&picture)[0];
        assert_eq!(sketch.labels[&0], "ten Mpps");
        assert_eq!(sketch.labels[&2], "a · b");
        assert_eq!(sketch.labels[&1], "a rather long text for…");
        for (output, label) in &sketch.labels {
            let right = sketch.shape.outputs[*output] + TO_LABEL + Style::Note.width(label);
            let limit = sketch.shape.outputs.get(output + 1).copied().unwrap_or(sketch.shape.width);
            assert!(right < limit, "{label}");
        }
    }
}
