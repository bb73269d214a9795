//! `bifrost show graph` as a drawing: the router's graph, with what it does in a second.

use std::thread::sleep;
use std::time::{Duration, Instant};

use graph::drawing::{Figures, Kind, Picture, PictureEdge, PictureNode, Port};

use super::{Failure, table};
use crate::control::Client;
use crate::control::status::{GraphNode, GraphPort};

/// Between the two readings that make rates.
const BETWEEN: Duration = Duration::from_secs(1);

/// Asks for the graph twice and prints the drawing.
pub fn print(mut client: Client, draw: fn(&Picture) -> String) -> Result<(), Failure> {
    let earlier: Vec<GraphNode> = client.subject("graph")?;
    let begin = Instant::now();
    sleep(BETWEEN);
    let nodes: Vec<GraphNode> = client.subject("graph")?;
    table::print(&draw(&picture(&nodes, &earlier, begin.elapsed())))
}

/// A graph with the figures since an earlier reading. An element that is new counts from its
/// beginning.
fn picture(nodes: &[GraphNode], earlier: &[GraphNode], during: Duration) -> Picture {
    let mut picture = Picture::default();
    let mut all_figures = Vec::with_capacity(nodes.len());
    for (index, node) in nodes.iter().enumerate() {
        picture.nodes.push(PictureNode {
            name: node.name.clone(),
            class: node.class.clone(),
            configuration: node.configuration.clone(),
            inputs: node.inputs.iter().map(port).collect(),
            outputs: node.outputs.iter().map(port).collect(),
            kind: if node.class == "ExpressLane" { Kind::Lane } else { Kind::Element },
            ..PictureNode::default()
        });
        for edge in &node.edges {
            let Some(to) = nodes.iter().position(|node| node.name == edge.to) else { continue };
            picture.edges.push(PictureEdge {
                from: index,
                output: edge.number,
                to,
                input: edge.input,
                // An output without a name goes by its number, which its place tells already.
                label: Some(edge.output.clone()).filter(|name| *name != edge.number.to_string()),
                pull: node.outputs.get(edge.number).is_some_and(|port| port.pull),
            });
        }
        let before = earlier.iter().find(|before| before.name == node.name).map(counted).unwrap_or_default();
        let mut figures = counted(node).since(&before);
        if let Some(cycles) = node.cycles_per_packet {
            figures.measured = figures.packets;
            figures.cycles = (cycles * figures.packets as f64) as u64;
        }
        all_figures.push(figures);
    }
    picture.annotate(&all_figures, Some(during));
    picture
}

fn port(port: &GraphPort) -> Port {
    Port { pull: port.pull, agnostic: port.agnostic }
}

fn counted(node: &GraphNode) -> Figures {
    let mut outputs = vec![0; node.outputs.len()];
    for edge in &node.edges {
        if let Some(output) = outputs.get_mut(edge.number) {
            *output = edge.packets;
        }
    }
    Figures { packets: node.packets, outputs, drops: node.drops, ..Figures::default() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::status::GraphEdge;

    fn reading(seconds: u64) -> Vec<GraphNode> {
        let edge = |output: &str, number, to: &str, packets| GraphEdge {
            output: output.into(),
            number,
            to: to.into(),
            packets,
            ..GraphEdge::default()
        };
        vec![
            GraphNode {
                name: "express".into(),
                class: "ExpressLane".into(),
                outputs: vec![GraphPort::default()],
                packets: 5_000 * seconds,
                edges: vec![edge("worker", 0, "check", 2_000 * seconds), edge("gone", 1, "nowhere", 1)],
                ..GraphNode::default()
            },
            GraphNode {
                name: "check".into(),
                class: "CheckIPHeader".into(),
                configuration: "14".into(),
                inputs: vec![GraphPort { pull: false, agnostic: true }],
                packets: 2_000 * seconds,
                cycles_per_packet: Some(34.4),
                drops: 3 * seconds,
                ..GraphNode::default()
            },
        ]
    }

    #[test]
    fn rates_are_those_between_two_readings() {
        let picture = picture(&reading(7), &reading(5), Duration::from_secs(2));
        assert_eq!(picture.nodes[0].notes, ["5.00 kpps"]);
        assert_eq!((picture.nodes[0].kind, picture.nodes[1].kind), (Kind::Lane, Kind::Element));
        assert_eq!(picture.nodes[1].notes, ["2.00 kpps", "34 cycles/packet", "dropped 6"]);
        assert_eq!(picture.nodes[1].inputs, [Port { pull: false, agnostic: true }]);
        assert_eq!(picture.edges.len(), 1);
        assert_eq!(picture.edges[0].label.as_deref(), Some("worker 2.00 kpps"));
        assert_eq!((picture.nodes[0].heat, picture.nodes[1].heat), (0.0, 1.0));
    }
}
