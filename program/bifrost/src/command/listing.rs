//! `bifrost show graph` as a text: the graph in its own language, and behind each element and
//! connection what passed it.
//!
//! The figures are comments, so that the text can be read again (`bifrost click --format`,
//! `--svg`).

use crate::control::status::{GraphEdge, GraphNode};
use crate::screen::units::count;

/// Where comments begin, unless the text in front is longer.
const COLUMN: usize = 44;

/// The graph, with its figures.
pub fn listing(nodes: &Vec<GraphNode>) -> String {
    let mut text = String::from("// packets since the start, cycles a packet while somebody looks\n\n");
    for node in nodes {
        let figures = figures(node);
        if node.class == EXPRESS {
            let to = node.edges.first().map_or(0, |edge| edge.packets);
            text += &format!(
                "// In front of it, in the driver, the express lane: {figures}; {} to workers.\n\n",
                count(to)
            );
            continue;
        }
        let arguments = match node.configuration.as_str() {
            "" => String::new(),
            configuration => format!("({configuration})"),
        };
        text += &line(&format!("{} :: {}{arguments};", node.name, node.class), &figures);
    }
    text.push('\n');
    for node in nodes.iter().filter(|node| node.class != EXPRESS) {
        for edge in &node.edges {
            text += &line(&connection(node, edge), &passed(edge));
        }
    }
    text
}

/// The class under which the driver's lane appears, which is no class of the language.
const EXPRESS: &str = "ExpressLane";

fn connection(node: &GraphNode, edge: &GraphEdge) -> String {
    let port = |number: usize| if number == 0 { String::new() } else { format!("[{number}]") };
    let (output, input) = (port(edge.number), port(edge.input));
    let space = |port: &str| if port.is_empty() { "" } else { " " };
    format!("{}{}{output} -> {input}{}{};", node.name, space(&output), space(&input), edge.to)
}

fn figures(node: &GraphNode) -> String {
    let mut parts = vec![format!("{} packets", count(node.packets))];
    if node.batches > 0 && node.batches < node.packets {
        parts.push(format!("{:.1} a batch", node.packets as f64 / node.batches as f64));
    }
    parts.extend(node.cycles_per_packet.map(|cycles| format!("{cycles:.1} cycles")));
    if node.drops > 0 {
        parts.push(format!("{} dropped", count(node.drops)));
    }
    parts.join(", ")
}

fn passed(edge: &GraphEdge) -> String {
    // An output without a name goes by its number, which stands in front already.
    match edge.output == edge.number.to_string() {
        true => count(edge.packets),
        false => format!("{}: {}", edge.output, count(edge.packets)),
    }
}

fn line(statement: &str, comment: &str) -> String {
    format!("{statement:<COLUMN$}  // {comment}\n")
}
