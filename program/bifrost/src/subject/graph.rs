//! The graph that every worker runs, with packets, cost and drops of each element. The express lane
//! stands first, as packets meet it first.

use std::time::Duration;

use port::Lane;
use serde::{Deserialize, Serialize};
use wire::Reason;

use super::Subject;
use crate::command::listing::listing;
use crate::daemon::{Control, Forwarding};

/// How long the elements are timed after somebody asked for the graph: it costs two clock reads an
/// element and batch.
const MEASURED: Duration = Duration::from_secs(10);

/// The name under which the express lane appears in the graph.
const EXPRESS: &str = "express";

/// One element of the graph. The express lane appears as the element that it is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct GraphNode {
    /// Its name in the graph, unique.
    pub name: String,
    /// Its class, such as `DecrementTtl4`.
    pub class: String,
    /// Its arguments, as text.
    #[serde(default)]
    pub configuration: String,
    /// Its inputs.
    #[serde(default)]
    pub inputs: Vec<GraphPort>,
    /// Its outputs.
    #[serde(default)]
    pub outputs: Vec<GraphPort>,
    /// Packets that entered.
    pub packets: u64,
    /// Batches that entered.
    pub batches: u64,
    /// Mean cost since measuring began; absent while not measured.
    pub cycles_per_packet: Option<f64>,
    /// Packets that it dropped.
    pub drops: u64,
    /// Where its outputs go.
    pub edges: Vec<GraphEdge>,
}

/// How an input or output of an element works.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GraphPort {
    /// Packets are pulled through it; otherwise they are pushed.
    pub pull: bool,
    /// The element would do either.
    pub agnostic: bool,
}

/// One connection of the graph.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct GraphEdge {
    /// Name of the output, such as `expired`.
    pub output: String,
    /// Name of the node that it leads to.
    pub to: String,
    /// Input of that node.
    pub input: usize,
    /// Number of the output.
    #[serde(default)]
    pub number: usize,
    /// Packets that took it.
    #[serde(default)]
    pub packets: u64,
}

impl Subject for Vec<GraphNode> {
    const NAME: &'static str = "graph";
    const ABOUT: &'static str =
        "The graph as a text in Click's language, with packets, cost and drops of each element";

    fn answer(control: &mut Control) -> Result<Self, String> {
        Ok(nodes(&mut control.forwarding))
    }

    fn table(&self) -> String {
        listing(self)
    }
}

/// The express lane first: packets meet it first. Elements are timed while somebody asks.
fn nodes(forwarding: &mut Forwarding) -> Vec<GraphNode> {
    forwarding.measure(MEASURED);
    let worker_pool = forwarding.plane.worker_pool();
    let description = worker_pool.description();
    let totals = forwarding.plane.ports().iter().map(|port| forwarding.plane.driver_counters(port)).fold(
        (0, 0, 0),
        |(packets, drops, workers), counters| {
            let drop = counters.lane(Lane::Drop).packets;
            (
                packets + counters.lane(Lane::Express).packets + counters.lane(Lane::Worker).packets + drop,
                drops + drop,
                workers + counters.lane(Lane::Worker).packets,
            )
        },
    );
    let entry = description.nodes.first().map(|node| node.name.clone()).unwrap_or_default();
    let mut nodes = vec![GraphNode {
        name: EXPRESS.to_owned(),
        class: "ExpressLane".to_owned(),
        outputs: vec![GraphPort::default()],
        packets: totals.0,
        batches: totals.0,
        cycles_per_packet: None,
        drops: totals.1,
        edges: vec![GraphEdge {
            output: "worker".to_owned(),
            to: entry,
            packets: totals.2,
            ..GraphEdge::default()
        }],
        ..GraphNode::default()
    }];
    for node in &description.nodes {
        let counters: Vec<_> =
            worker_pool.handles().iter().filter_map(|member| member.counters.node(node.id)).collect();
        let measured: u64 = counters.iter().map(|node| node.measured_packets()).sum();
        let cycles: u64 = counters.iter().map(|node| node.cycles()).sum();
        let edges = description.edges.iter().filter(|edge| edge.from == node.id);
        let ports: Vec<GraphPort> = (node.inputs.iter().chain(&node.outputs).enumerate())
            .map(|(place, flow)| GraphPort {
                pull: *flow == graph::Flow::Pull,
                agnostic: node.agnostic.get(place).copied().unwrap_or_default(),
            })
            .collect();
        let (inputs, outputs) = ports.split_at(node.inputs.len());
        nodes.push(GraphNode {
            name: node.name.clone(),
            class: node.class.to_owned(),
            configuration: node.configuration.clone(),
            inputs: inputs.to_vec(),
            outputs: outputs.to_vec(),
            packets: counters.iter().map(|node| node.packets()).sum(),
            batches: counters.iter().map(|node| node.batches()).sum(),
            cycles_per_packet: (measured > 0).then(|| cycles as f64 / measured as f64),
            drops: counters.iter().map(|node| dropped(node)).sum(),
            edges: edges
                .map(|edge| GraphEdge {
                    output: description.output_name(edge),
                    number: edge.output,
                    to: description.nodes[edge.to.0].name.clone(),
                    input: edge.input,
                    packets: counters.iter().map(|node| node.output(edge.output)).sum(),
                })
                .collect(),
        });
    }
    nodes
}

/// Packets that a node dropped. An answer that a limit suppressed is no packet: the one it was
/// about counts for itself.
fn dropped(node: &graph::NodeCounters) -> u64 {
    Reason::ALL
        .into_iter()
        .filter(|reason| *reason != Reason::IcmpLimited)
        .map(|reason| node.dropped(reason))
        .sum()
}
