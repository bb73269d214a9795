//! The drawing.
//!
//! Its colours are rules of a style sheet, with a second set for those who read on a dark
//! background. Where the mouse rests, a box tells its whole declaration and a line its ports.

use std::fmt::Write;

use super::layout::{self, Layout, Link, Point, Rect, Route, Step};
use super::sketch::{self, Sketch, Style};
use super::{Kind, Picture, PictureEdge, PictureNode, Port};
use crate::markup::escape;

const LIGHT: &str = "
  .paper { fill: #ffffff; }
  .title { fill: #0f172a; }
  .box { fill: #f8fafc; stroke: #94a3b8; }
  .lane .box { fill: #ecfeff; stroke: #0891b2; }
  .name { fill: #475569; }
  .class { fill: #0f172a; }
  .configuration { fill: #475569; }
  .note { fill: #64748b; }
  .label { fill: #64748b; stroke: #ffffff; }
  .push { fill: #0f172a; stroke: #0f172a; }
  .pull { fill: #ffffff; stroke: #0f172a; }
  .outline { fill: #ffffff; stroke: #0f172a; }
  .edge { stroke: #64748b; }
  .edge.asks { stroke: #2563eb; }
";

const DARK: &str = "
  .paper { fill: #0f172a; }
  .title { fill: #f1f5f9; }
  .box { fill: #1e293b; stroke: #64748b; }
  .lane .box { fill: #083344; stroke: #22d3ee; }
  .name { fill: #cbd5e1; }
  .class { fill: #f8fafc; }
  .configuration { fill: #cbd5e1; }
  .note { fill: #a3b3c7; }
  .label { fill: #a3b3c7; stroke: #0f172a; }
  .push { fill: #e2e8f0; stroke: #e2e8f0; }
  .pull { fill: #0f172a; stroke: #e2e8f0; }
  .outline { fill: #0f172a; stroke: #e2e8f0; }
  .edge { stroke: #94a3b8; }
  .edge.asks { stroke: #60a5fa; }
";

const COMMON: &str = "
  text { font-family: 'Inter', 'Helvetica Neue', 'DejaVu Sans', Arial, sans-serif; }
  .title { font-size: 16px; font-weight: bold; }
  .box { stroke-width: 1; }
  .lane .box { stroke-dasharray: 5 3; stroke-width: 1.5; }
  .heat { fill: #f97316; }
  .name, .class, .configuration, .note { text-anchor: middle; }
  .name { font-size: 11px; }
  .class { font-size: 13px; font-weight: bold; }
  .configuration { font-size: 10.5px; font-family: 'DejaVu Sans Mono', Menlo, Consolas, monospace; }
  .note { font-size: 10px; }
  .label { font-size: 10px; stroke-width: 3; stroke-linejoin: round; paint-order: stroke; }
  .push, .pull, .outline { stroke-width: 1; stroke-linejoin: round; }
  .edge { fill: none; stroke-width: 1.3; }
  .edge.asks { stroke-dasharray: 5 2; }
  .edge:hover { stroke-width: 3; }
";

/// Around the drawing.
const MARGIN: f64 = 20.0;
/// For the title.
const TITLE: f64 = 30.0;

/// `picture` as an SVG document.
pub fn svg(picture: &Picture) -> String {
    let sketches = sketch::sketch(picture);
    let edges: Vec<&PictureEdge> = (picture.edges.iter())
        .filter(|edge| edge.from < picture.nodes.len() && edge.to < picture.nodes.len())
        .collect();
    let links: Vec<Link> = (edges.iter())
        .map(|edge| Link { from: edge.from, output: edge.output, to: edge.to, input: edge.input })
        .collect();
    let shapes: Vec<layout::Shape> = sketches.iter().map(|sketch| sketch.shape.clone()).collect();
    let layout = layout::layout(&shapes, &links);
    draw(picture, &sketches, &edges, &layout)
}

fn draw(picture: &Picture, sketches: &[Sketch], edges: &[&PictureEdge], layout: &Layout) -> String {
    let above = MARGIN + if picture.title.is_empty() { 0.0 } else { TITLE };
    let title_width = picture.title.chars().count() as f64 * 11.0;
    let width = layout.width.max(title_width) + 2.0 * MARGIN;
    let height = layout.height + above + MARGIN;
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.0}\" height=\"{height:.0}\" viewBox=\"0 0 {width:.0} \
         {height:.0}\">\n<style>{COMMON}{LIGHT}@media (prefers-color-scheme: dark) {{{DARK}}}</style>\n\
         <rect class=\"paper\" width=\"100%\" height=\"100%\"/>\n"
    );
    if !picture.title.is_empty() {
        let title = escape(&picture.title);
        let _ = writeln!(
            text,
            "<title>{title}</title>\n<text class=\"title\" x=\"{MARGIN}\" y=\"32\">{title}</text>"
        );
    }
    let left = (width - layout.width) / 2.0;
    let _ = writeln!(text, "<g transform=\"translate({left:.1} {above:.1})\">");
    for (edge, route) in edges.iter().zip(&layout.routes) {
        draw_edge(&mut text, picture, edge, route);
    }
    for ((node, sketch), at) in picture.nodes.iter().zip(sketches).zip(&layout.boxes) {
        draw_node(&mut text, node, sketch, at);
    }
    text + "</g>\n</svg>\n"
}

fn draw_edge(text: &mut String, picture: &Picture, edge: &PictureEdge, route: &Route) {
    let (from, to) = (&picture.nodes[edge.from].name, &picture.nodes[edge.to].name);
    let mut says = format!("{from} [{}] -> [{}] {to}", edge.output, edge.input);
    if let Some(label) = &edge.label {
        says += &format!("\n{label}");
    }
    let class = if edge.pull { "edge asks" } else { "edge" };
    let _ = writeln!(
        text,
        "<path class=\"{class}\" d=\"{}\"><title>{}</title></path>",
        path(route),
        escape(&says)
    );
}

fn path(route: &Route) -> String {
    let at = |point: Point| format!("{:.1} {:.1}", point.x, point.y);
    let mut text = format!("M{}", at(route.start));
    for step in &route.steps {
        text += &match *step {
            Step::Line(end) => format!("L{}", at(end)),
            Step::Curve(a, b, end) => format!("C{} {} {}", at(a), at(b), at(end)),
        };
    }
    text
}

fn draw_node(text: &mut String, node: &PictureNode, sketch: &Sketch, at: &Rect) {
    let class = match node.kind {
        Kind::Element => "element",
        Kind::Lane => "element lane",
    };
    let mut says = node.declaration();
    for note in &node.notes {
        says += &format!("\n{note}");
    }
    let _ = writeln!(
        text,
        "<g class=\"{class}\" transform=\"translate({:.1} {:.1})\"><title>{}</title>",
        at.x,
        at.y,
        escape(&says)
    );
    let frame = format!("width=\"{}\" height=\"{}\" rx=\"6\"", at.width, at.height);
    let _ = writeln!(text, "<rect class=\"box\" {frame}/>");
    if node.heat > 0.0 {
        let _ =
            writeln!(text, "<rect class=\"heat\" {frame} fill-opacity=\"{:.2}\"/>", node.heat.min(1.0) * 0.5);
    }
    for (style, line, baseline) in &sketch.lines {
        let class = match style {
            Style::Name => "name",
            Style::Class => "class",
            Style::Configuration => "configuration",
            Style::Note => "note",
        };
        let x = at.width / 2.0;
        let _ = writeln!(
            text,
            "<text class=\"{class}\" x=\"{x:.1}\" y=\"{baseline:.1}\">{}</text>",
            escape(line)
        );
    }
    for (port, x) in node.inputs.iter().zip(&sketch.shape.inputs) {
        draw_port(text, *port, |grown| {
            let (half, top, tip) = (5.0 + 1.7 * grown, -grown, 8.0 + 2.0 * grown);
            format!("M{:.1} {top:.1}H{:.1}L{x:.1} {tip:.1}Z", x - half, x + half)
        });
    }
    for (port, x) in node.outputs.iter().zip(&sketch.shape.outputs) {
        draw_port(text, *port, |grown| {
            let (half, top, bottom) = (3.5 + grown, at.height - 7.0 - grown, at.height + grown);
            format!("M{:.1} {top:.1}H{:.1}V{bottom:.1}H{:.1}Z", x - half, x + half, x - half)
        });
    }
    for (output, label) in &sketch.labels {
        let x = sketch.shape.outputs.get(*output).copied().unwrap_or(at.width / 2.0) + sketch::TO_LABEL;
        let y = at.height + sketch::LABEL - 2.0;
        let _ = writeln!(text, "<text class=\"label\" x=\"{x:.1}\" y=\"{y:.1}\">{}</text>", escape(label));
    }
    *text += "</g>\n";
}

/// A port of a shape that can be drawn larger, as the second outline of an agnostic one.
fn draw_port(text: &mut String, port: Port, shape: impl Fn(f64) -> String) {
    if port.agnostic {
        let _ = writeln!(text, "<path class=\"outline\" d=\"{}\"/>", shape(2.0));
    }
    let class = if port.pull { "pull" } else { "push" };
    let _ = writeln!(text, "<path class=\"{class}\" d=\"{}\"/>", shape(0.0));
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The elements of a document and its text, or what is wrong with it: enough of XML for what is
    /// written here.
    fn parse(document: &str) -> Result<(Vec<String>, String), String> {
        let (mut open, mut elements, mut content) = (Vec::new(), Vec::new(), String::new());
        let mut rest = document;
        while let Some(at) = rest.find('<') {
            content += &text(&rest[..at])?;
            let end = rest.find('>').ok_or("a tag without end")?;
            let tag = &rest[at + 1..end];
            rest = &rest[end + 1..];
            if let Some(name) = tag.strip_prefix('/') {
                let last = open.pop();
                if last.as_deref() != Some(name) {
                    return Err(format!("</{name}> closes {last:?}"));
                }
                continue;
            }
            if !tag.matches('"').count().is_multiple_of(2) || tag.contains('<') {
                return Err(format!("bad tag {tag}"));
            }
            let name = tag.split([' ', '/']).next().unwrap_or_default().to_owned();
            elements.push(tag.to_owned());
            if !tag.ends_with('/') {
                open.push(name);
            }
        }
        if open.is_empty() { Ok((elements, content)) } else { Err(format!("{open:?} are not closed")) }
    }

    fn text(escaped: &str) -> Result<String, String> {
        if escaped.chars().any(|c| c == '>' || (c < ' ' && c != '\n' && c != '\t' && c != '\r')) {
            return Err(format!("not escaped: {escaped:?}"));
        }
        let mut parts = escaped.split('&');
        let mut plain = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            let (entity, after) = part.split_once(';').ok_or("an & without ;")?;
            plain += match entity {
                "amp" => "&",
                "lt" => "<",
                "gt" => ">",
                "quot" => "\"",
                "#39" => "'",
                other => return Err(format!("&{other};")),
            };
            plain += after;
        }
        Ok(plain)
    }

    fn port() -> impl Strategy<Value = Port> {
        (any::<bool>(), any::<bool>()).prop_map(|(pull, agnostic)| Port { pull, agnostic })
    }

    fn picture() -> impl Strategy<Value = Picture> {
        let node = (
            "\\PC{0,12}",
            ".{0,60}",
            prop::collection::vec(port(), 0..5),
            prop::collection::vec(port(), 0..5),
            prop::collection::vec(".{0,40}", 0..3),
            prop::num::f64::ANY,
            any::<bool>(),
        )
            .prop_map(|(class, configuration, inputs, outputs, notes, heat, lane)| PictureNode {
                name: String::new(),
                class,
                configuration,
                inputs,
                outputs,
                notes,
                heat,
                kind: if lane { Kind::Lane } else { Kind::Element },
            });
        let edge =
            (0..20_usize, 0..6_usize, 0..20_usize, 0..6_usize, prop::option::of(".{0,30}"), any::<bool>())
                .prop_map(|(from, output, to, input, label, pull)| PictureEdge {
                    from,
                    output,
                    to,
                    input,
                    label,
                    pull,
                });
        (".{0,20}", prop::collection::vec(node, 0..20), prop::collection::vec(edge, 0..30)).prop_map(
            |(title, mut nodes, edges)| {
                for (number, node) in nodes.iter_mut().enumerate() {
                    node.name = format!("<{number}>&");
                }
                Picture { title, nodes, edges }
            },
        )
    }

    proptest! {
        #[test]
        fn every_node_and_edge_is_in_a_valid_document(picture in picture()) {
            let (elements, content) = parse(&svg(&picture)).map_err(TestCaseError::fail)?;
            let count = |class: &str| elements.iter().filter(|tag| tag.contains(&format!("class=\"{class}"))).count();
            let nodes = picture.nodes.len();
            let edges = picture.edges.iter().filter(|edge| edge.from < nodes && edge.to < nodes).count();
            prop_assert_eq!(count("element"), nodes);
            prop_assert_eq!(count("box"), nodes);
            prop_assert_eq!(count("edge"), edges);
            let ports: usize = picture.nodes.iter().map(|node| node.inputs.len() + node.outputs.len()).sum();
            prop_assert_eq!(count("push") + count("pull"), ports);
            for node in &picture.nodes {
                let name = format!("{} :: ", node.name);
                prop_assert!(content.contains(&name));
            }
            prop_assert!(!elements.iter().any(|tag| tag.contains("NaN") || tag.contains("inf\"")));
        }
    }

    #[test]
    fn texts_are_shortened_in_the_box_and_whole_for_the_mouse() {
        let configuration = "12/0806 20/0001, 12/0806 20/0002, 12/0800, \"<&>\"";
        let node = PictureNode {
            name: "c0".into(),
            class: "Classifier".into(),
            configuration: configuration.into(),
            notes: vec!["1.23 Mpps".into()],
            heat: 0.5,
            ..PictureNode::default()
        };
        let document = svg(&Picture { title: "A & B".into(), nodes: vec![node], edges: Vec::new() });
        let (_, content) = parse(&document).expect("valid");
        assert!(content.contains(&format!("c0 :: Classifier({configuration})\n1.23 Mpps")));
        assert!(content.contains("\n12/0806 20/0001, 12/0806 20/0…\n"));
        assert!(content.contains("A & B"));
        assert!(document.contains("class=\"heat\""));
    }

    #[test]
    fn the_ports_of_the_notation() {
        let node =
            |inputs: Vec<Port>, outputs: Vec<Port>| PictureNode { inputs, outputs, ..PictureNode::default() };
        let pull = Port { pull: true, agnostic: false };
        let agnostic = Port { pull: false, agnostic: true };
        let of = |node: PictureNode| svg(&Picture { nodes: vec![node], ..Picture::default() });
        let count =
            |document: &str, class: &str| document.matches(&format!("<path class=\"{class}\"")).count();
        let queue = of(node(vec![Port::default()], vec![pull]));
        assert_eq!((count(&queue, "push"), count(&queue, "pull"), count(&queue, "outline")), (1, 1, 0));
        let paint = of(node(vec![agnostic], vec![agnostic]));
        assert_eq!((count(&paint, "push"), count(&paint, "pull"), count(&paint, "outline")), (2, 0, 2));
    }
}
