//! A graph as a picture, and what was measured in it.

use std::time::Duration;

use notation::grouped;
use wire::Reason;

use super::{Picture, PictureEdge, PictureNode, Port};
use crate::{Description, Flow, GraphCounters};

/// What was counted at a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Packets that entered.
    pub packets: u64,
    /// Packets that left, by output.
    pub outputs: Vec<u64>,
    /// Packets that it dropped.
    pub drops: u64,
    /// Cycles that it took, as far as they were measured.
    pub cycles: u64,
    /// Packets that entered while cycles were measured.
    pub measured: u64,
}

impl Figures {
    /// What was counted at every node of a graph by all of its instances together.
    pub fn of(description: &Description, instances: &[&GraphCounters]) -> Vec<Figures> {
        let figures_of = |node: &crate::Node| {
            let mut figures = Figures { outputs: vec![0; node.outputs.len()], ..Figures::default() };
            for counters in instances.iter().filter_map(|counters| counters.node(node.id)) {
                figures.packets += counters.packets();
                figures.cycles += counters.cycles();
                figures.measured += counters.measured_packets();
                // An answer that a limit held back is no packet: the one it was about counts for
                // itself.
                let reasons = Reason::ALL.into_iter().filter(|reason| *reason != Reason::IcmpLimited);
                figures.drops += reasons.map(|reason| counters.dropped(reason)).sum::<u64>();
                for (output, packets) in figures.outputs.iter_mut().enumerate() {
                    *packets += counters.output(output);
                }
            }
            figures
        };
        description.nodes.iter().map(figures_of).collect()
    }

    /// What was counted after `earlier`; everything if the counters began anew since.
    pub fn since(&self, earlier: &Figures) -> Figures {
        let anew = self.packets < earlier.packets;
        let since = |now: u64, then: u64| if anew { now } else { now.saturating_sub(then) };
        let before = |output: usize| earlier.outputs.get(output).copied().unwrap_or(0);
        Figures {
            packets: since(self.packets, earlier.packets),
            outputs: (self.outputs.iter().enumerate()).map(|(n, now)| since(*now, before(n))).collect(),
            drops: since(self.drops, earlier.drops),
            cycles: since(self.cycles, earlier.cycles),
            measured: since(self.measured, earlier.measured),
        }
    }

    fn cycles_per_packet(&self) -> Option<f64> {
        (self.measured > 0).then(|| self.cycles as f64 / self.measured as f64)
    }

    /// What all packets cost that entered.
    fn cost(&self) -> f64 {
        self.cycles_per_packet().unwrap_or(0.0) * self.packets as f64
    }
}

/// A graph without figures. Edges are labelled with the names of outputs that have names.
impl From<&Description> for Picture {
    fn from(description: &Description) -> Picture {
        let port = |flow: &Flow, agnostic: Option<&bool>| Port {
            pull: *flow == Flow::Pull,
            agnostic: agnostic.copied().unwrap_or(false),
        };
        let nodes = description.nodes.iter().map(|node| PictureNode {
            name: node.name.clone(),
            class: node.class.to_owned(),
            configuration: node.configuration.clone(),
            inputs: node
                .inputs
                .iter()
                .enumerate()
                .map(|(n, flow)| port(flow, node.agnostic.get(n)))
                .collect(),
            outputs: (node.outputs.iter().enumerate())
                .map(|(n, flow)| port(flow, node.agnostic.get(node.inputs.len() + n)))
                .collect(),
            ..PictureNode::default()
        });
        let edges = description.edges.iter().map(|edge| {
            let from = description.nodes.get(edge.from.0);
            PictureEdge {
                from: edge.from.0,
                output: edge.output,
                to: edge.to.0,
                input: edge.input,
                label: from
                    .and_then(|node| node.output_names.get(edge.output))
                    .map(|name| (*name).to_owned()),
                pull: from.is_some_and(|node| node.outputs.get(edge.output) == Some(&Flow::Pull)),
            }
        });
        Picture { title: String::new(), nodes: nodes.collect(), edges: edges.collect() }
    }
}

impl Picture {
    /// Writes figures into the boxes and beside the lines, those of the first node into the first
    /// box. With the time in which they were counted, packets become packets a second. What costs
    /// most stands out most.
    pub fn annotate(&mut self, figures: &[Figures], during: Option<Duration>) {
        let flow = |packets: u64| match during.map(|time| time.as_secs_f64()).filter(|seconds| *seconds > 0.0)
        {
            Some(seconds) => rate(packets as f64 / seconds),
            None if packets == 1 => "1 packet".to_owned(),
            None => format!("{} packets", grouped(packets)),
        };
        let most = figures.iter().map(Figures::cost).fold(0.0, f64::max);
        for (node, figures) in self.nodes.iter_mut().zip(figures) {
            if figures.packets > 0 {
                node.notes.push(flow(figures.packets));
            }
            if let Some(cycles) = figures.cycles_per_packet() {
                node.notes.push(format!("{cycles:.0} cycles/packet"));
            }
            if figures.drops > 0 {
                node.notes.push(format!("dropped {}", grouped(figures.drops)));
            }
            node.heat = if most > 0.0 { figures.cost() / most } else { 0.0 };
        }
        for edge in &mut self.edges {
            let packets = figures.get(edge.from).and_then(|figures| figures.outputs.get(edge.output));
            if let Some(packets) = packets.filter(|packets| **packets > 0) {
                let name = edge.label.take().map_or_else(String::new, |name| name + " ");
                edge.label = Some(name + &flow(*packets));
            }
        }
    }
}

/// `950 pps`, `12.3 kpps`, `1.23 Mpps`.
fn rate(per_second: f64) -> String {
    let (mut value, mut unit) = (per_second, "pps");
    for larger in ["kpps", "Mpps", "Gpps"] {
        if value < 999.5 {
            break;
        }
        (value, unit) = (value / 1000.0, larger);
    }
    let digits = match unit {
        "pps" => 0,
        _ if value < 9.995 => 2,
        _ => usize::from(value < 99.95),
    };
    format!("{value:.digits$} {unit}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Edge, Node, NodeId};

    fn node(id: usize, class: &'static str, inputs: Vec<Flow>, outputs: Vec<Flow>) -> Node {
        Node {
            id: NodeId(id),
            name: format!("n{id}"),
            class,
            configuration: String::new(),
            output_names: &[],
            agnostic: vec![false; inputs.len() + outputs.len()],
            inputs,
            outputs,
        }
    }

    /// A source, a queue with a name for its output, a sink.
    fn description() -> Description {
        let mut queue = node(1, "Queue", vec![Flow::Push], vec![Flow::Pull]);
        queue.configuration = "200".into();
        queue.output_names = &["head"];
        let mut sink = node(2, "Sink", vec![Flow::Pull], vec![]);
        sink.agnostic = vec![true];
        let edge = |from, to| Edge { from: NodeId(from), output: 0, to: NodeId(to), input: 0 };
        Description {
            nodes: vec![node(0, "Source", vec![], vec![Flow::Push]), queue, sink],
            edges: vec![edge(0, 1), edge(1, 2)],
        }
    }

    #[test]
    fn ports_and_names_of_a_graph() {
        let picture = Picture::from(&description());
        let pull = Port { pull: true, agnostic: false };
        assert_eq!(
            (&picture.nodes[1].inputs, &picture.nodes[1].outputs),
            (&vec![Port::default()], &vec![pull])
        );
        assert_eq!(picture.nodes[2].inputs, [Port { pull: true, agnostic: true }]);
        assert_eq!(picture.nodes[1].configuration, "200");
        let edges: Vec<_> =
            picture.edges.iter().map(|edge| (edge.from, edge.to, edge.label.as_deref(), edge.pull)).collect();
        assert_eq!(edges, [(0, 1, None, false), (1, 2, Some("head"), true)]);
    }

    #[test]
    fn figures_become_notes_labels_and_heat() {
        let figures = [
            Figures { packets: 2_000_000, outputs: vec![2_000_000], cycles: 100, measured: 10, drops: 0 },
            Figures { packets: 1_000_000, outputs: vec![1], cycles: 390, measured: 10, drops: 1234 },
            Figures::default(),
        ];
        let mut picture = Picture::from(&description());
        picture.annotate(&figures, Some(Duration::from_secs(2)));
        assert_eq!(picture.nodes[0].notes, ["1.00 Mpps", "10 cycles/packet"]);
        assert_eq!(picture.nodes[1].notes, ["500 kpps", "39 cycles/packet", "dropped 1,234"]);
        assert_eq!(picture.nodes[2].notes, Vec::<String>::new());
        assert_eq!((picture.nodes[1].heat, picture.nodes[2].heat), (1.0, 0.0));
        assert!((picture.nodes[0].heat - 20.0 / 39.0).abs() < 1e-9);
        assert_eq!(picture.edges[0].label.as_deref(), Some("1.00 Mpps"));
        assert_eq!(picture.edges[1].label.as_deref(), Some("head 0 pps"));

        let mut picture = Picture::from(&description());
        picture.annotate(&figures, None);
        assert_eq!(picture.nodes[0].notes[0], "2,000,000 packets");
        assert_eq!(picture.edges[1].label.as_deref(), Some("head 1 packet"));
    }

    #[test]
    fn figures_since_earlier_ones() {
        let earlier = Figures { packets: 10, outputs: vec![9], drops: 1, cycles: 100, measured: 10 };
        let now = Figures { packets: 15, outputs: vec![13, 1], drops: 1, cycles: 150, measured: 15 };
        assert_eq!(
            now.since(&earlier),
            Figures { packets: 5, outputs: vec![4, 1], drops: 0, cycles: 50, measured: 5 }
        );
        // Counters that began anew.
        assert_eq!(earlier.since(&now), earlier);
    }

    #[test]
    fn figures_are_summed_over_instances() {
        let description = description();
        let counters = || GraphCounters::new(description.nodes.iter().map(|node| node.outputs.len()));
        let (a, b) = (counters(), counters());
        a.node(NodeId(1)).expect("is there").count_batch(3);
        a.node(NodeId(1)).expect("is there").count_output(0, 2);
        b.node(NodeId(1)).expect("is there").count_batch(4);
        b.node(NodeId(1)).expect("is there").count_cycles(4, 80);
        b.node(NodeId(1)).expect("is there").count_drop(Reason::ALL[0]);
        let figures = Figures::of(&description, &[&a, &b]);
        assert_eq!(figures[1], Figures { packets: 7, outputs: vec![2], drops: 1, cycles: 80, measured: 4 });
        assert_eq!(figures[2], Figures::default());
    }

    #[test]
    fn rates_in_words() {
        let rates: Vec<String> =
            [0.0, 950.4, 999.6, 12_345.0, 1_234_567.0, 99_960_000.0, 2e9].map(rate).into();
        assert_eq!(
            rates,
            ["0 pps", "950 pps", "1.00 kpps", "12.3 kpps", "1.23 Mpps", "100 Mpps", "2.00 Gpps"]
        );
    }
}
