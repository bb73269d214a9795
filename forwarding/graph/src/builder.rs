//! Naming and connecting elements, and the checks before a graph runs.

use std::collections::HashMap;
use std::sync::Arc;

use crate::executor::{Manner, Sources, Wiring};
use crate::fabric::Slot;
use crate::{Description, Edge, Element, Flow, Graph, Node};

/// A node of the graph being built, and of the graph it becomes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeId(pub usize);

/// Elements and connections on the way to a [`Graph`]. Mistakes are collected and reported by
/// [`build`](GraphBuilder::build), all at once.
#[derive(Default)]
pub struct GraphBuilder {
    nodes: Vec<Part>,
    manner: Manner,
    /// Texts for the graph's own handlers.
    pub(crate) about: crate::About,
    /// What elements are made of, when they are made again.
    pub(crate) origin: crate::reconfigure::Origin,
    names: std::collections::HashSet<String>,
    /// From node, its output, to node, its input.
    connections: Vec<(NodeId, usize, NodeId, usize)>,
    mistakes: Vec<Mistake>,
}

/// An element on its way into a graph.
struct Part {
    name: String,
    element: Box<dyn Element>,
    configuration: String,
    inputs: Vec<Flow>,
    outputs: Vec<Flow>,
    agnostic: Vec<bool>,
}

/// Everything that is wrong with a graph.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", .0.iter().map(Mistake::to_string).collect::<Vec<_>>().join("; "))]
pub struct GraphError(pub Vec<Mistake>);

/// One thing that is wrong with a graph.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Mistake {
    /// Two elements have the same name.
    #[error("two elements are named `{0}`")]
    DuplicateName(String),
    /// An output is not connected.
    #[error("output `{output}` of `{node}` leads nowhere; connect it")]
    Unconnected {
        /// The element.
        node: String,
        /// Its output.
        output: String,
    },
    /// An output is connected twice.
    #[error("output `{output}` of `{node}` is connected twice; an output leads to one place")]
    ConnectedTwice {
        /// The element.
        node: String,
        /// Its output.
        output: String,
    },
    /// A connection from an output that the element does not have.
    #[error("`{node}` has no output `{output}`; it has {known}")]
    UnknownOutput {
        /// The element.
        node: String,
        /// The output asked for.
        output: String,
        /// The outputs that it has.
        known: String,
    },
    /// A connection to an input that the element does not have.
    #[error("`{node}` has no input {input}; it has {inputs}")]
    UnknownInput {
        /// The element.
        node: String,
        /// The input asked for.
        input: usize,
        /// How many inputs it has.
        inputs: usize,
    },
    /// A connection to or from a node of another graph.
    #[error("node {} is not of this graph", .0.0)]
    UnknownNode(NodeId),
    /// More inputs than the executor counts.
    #[error("more than 65,535 inputs in one graph")]
    TooLarge,
}

impl GraphBuilder {
    /// A graph without elements.
    pub fn new() -> GraphBuilder {
        GraphBuilder::default()
    }

    /// A graph without elements that will run in this manner.
    pub fn with_manner(manner: Manner) -> GraphBuilder {
        GraphBuilder { manner, ..GraphBuilder::default() }
    }

    /// Adds an element under a name of its own, with the inputs and outputs it says it has; packets
    /// are pushed.
    pub fn element(&mut self, name: &str, element: impl Element + 'static) -> NodeId {
        let (inputs, outputs) =
            (vec![Flow::Push; element.inputs()], vec![Flow::Push; element.outputs().len()]);
        let agnostic = vec![false; inputs.len() + outputs.len()];
        self.place(name, Box::new(element), "", inputs, outputs, agnostic)
    }

    /// Adds an element with these inputs and outputs.
    pub(crate) fn place(
        &mut self,
        name: &str,
        element: Box<dyn Element>,
        configuration: &str,
        inputs: Vec<Flow>,
        outputs: Vec<Flow>,
        agnostic: Vec<bool>,
    ) -> NodeId {
        if !self.names.insert(name.to_owned()) {
            self.mistakes.push(Mistake::DuplicateName(name.to_owned()));
        }
        let (name, configuration) = (name.to_owned(), configuration.to_owned());
        self.nodes.push(Part { name, element, configuration, inputs, outputs, agnostic });
        NodeId(self.nodes.len() - 1)
    }

    /// Connects an output, by number, to an input.
    pub fn connect(&mut self, from: NodeId, output: usize, to: NodeId, input: usize) -> &mut Self {
        for node in [from, to] {
            if node.0 >= self.nodes.len() {
                self.mistakes.push(Mistake::UnknownNode(node));
                return self;
            }
        }
        let part = &self.nodes[from.0];
        if output >= part.outputs.len() {
            self.mistakes.push(Mistake::UnknownOutput {
                node: part.name.clone(),
                output: output.to_string(),
                known: known(part.element.as_ref()),
            });
            return self;
        }
        let part = &self.nodes[to.0];
        if input >= part.inputs.len() {
            let mistake = Mistake::UnknownInput { node: part.name.clone(), input, inputs: part.inputs.len() };
            self.mistakes.push(mistake);
            return self;
        }
        self.connections.push((from, output, to, input));
        self
    }

    /// Connects an output, by name, to input 0.
    pub fn link(&mut self, from: NodeId, output: &str, to: NodeId) -> &mut Self {
        self.link_to(from, output, to, 0)
    }

    /// Connects an output, by name, to an input.
    pub fn link_to(&mut self, from: NodeId, output: &str, to: NodeId, input: usize) -> &mut Self {
        let Some(Part { name, element, .. }) = self.nodes.get(from.0) else {
            self.mistakes.push(Mistake::UnknownNode(from));
            return self;
        };
        match element.outputs().iter().position(|known| *known == output) {
            Some(number) => self.connect(from, number, to, input),
            None => {
                let (node, known) = (name.clone(), known(element.as_ref()));
                self.mistakes.push(Mistake::UnknownOutput { node, output: output.to_owned(), known });
                self
            }
        }
    }

    /// Checks the graph and makes it ready to run.
    pub fn build(mut self) -> Result<Graph, GraphError> {
        let mut targets: HashMap<(usize, usize), (NodeId, usize)> = HashMap::new();
        for (from, output, to, input) in &self.connections {
            let part = &self.nodes[from.0];
            let twice = targets.insert((from.0, *output), (*to, *input)).is_some();
            if twice && part.outputs[*output] == Flow::Push {
                let output = part.output_name(*output);
                self.mistakes.push(Mistake::ConnectedTwice { node: part.name.clone(), output });
            }
        }
        for (index, part) in self.nodes.iter().enumerate() {
            for number in 0..part.outputs.len() {
                if !targets.contains_key(&(index, number)) {
                    let (node, output) = (part.name.clone(), part.output_name(number));
                    self.mistakes.push(Mistake::Unconnected { node, output });
                }
            }
        }
        // The last number stands for an output that leads nowhere.
        if self.nodes.iter().map(|part| part.inputs.len()).sum::<usize>() >= usize::from(u16::MAX) {
            self.mistakes.push(Mistake::TooLarge);
        }
        if !self.mistakes.is_empty() {
            return Err(GraphError(self.mistakes));
        }

        let mut slots = Vec::new();
        let mut entries = vec![Slot(0); self.nodes.len()];
        for node in self.order() {
            entries[node.0] = Slot(slots.len() as u16);
            slots.extend((0..self.nodes[node.0].inputs.len()).map(|input| (node, input)));
        }
        let mut sources: Vec<Sources> =
            self.nodes.iter().map(|part| vec![None; part.inputs.len()].into()).collect();
        for (from, output, to, input) in &self.connections {
            if self.nodes[to.0].inputs[*input] == Flow::Pull {
                sources[to.0][*input] = Some((*from, *output));
            }
        }
        let outputs = self.nodes.iter().enumerate().map(|(index, part)| {
            let slot = |(output, flow): (usize, &Flow)| match flow {
                Flow::Pull => Slot::NOWHERE,
                Flow::Push => {
                    let (to, input) = targets[&(index, output)];
                    Slot(entries[to.0].0 + input as u16)
                }
            };
            part.outputs.iter().enumerate().map(slot).collect()
        });
        let wiring = Wiring {
            outputs: outputs.collect(),
            sources,
            slots,
            entries,
            description: Arc::new(self.description()),
            about: self.about.clone(),
            origin: self.origin,
            nobody: Default::default(),
        };
        Ok(Graph::new(self.nodes.into_iter().map(|part| part.element).collect(), wiring, self.manner))
    }

    /// A topological order; an edge that closes a loop leads backwards in it. It is the reverse of
    /// the order in which a depth-first walk leaves the nodes.
    fn order(&self) -> Vec<NodeId> {
        let mut next: Vec<Vec<NodeId>> = vec![Vec::new(); self.nodes.len()];
        let mut entered = vec![false; self.nodes.len()];
        for (from, _, to, _) in &self.connections {
            next[from.0].push(*to);
            entered[to.0] = true;
        }
        // Nodes that nothing leads to are walked first, so that a loop is cut where it is entered.
        let mut roots: Vec<usize> = (0..self.nodes.len()).collect();
        roots.sort_by_key(|node| entered[*node]);
        let mut seen = vec![false; self.nodes.len()];
        let mut left = Vec::with_capacity(self.nodes.len());
        for root in roots {
            if std::mem::replace(&mut seen[root], true) {
                continue;
            }
            let mut path = vec![(root, 0)];
            while let Some((node, edge)) = path.last_mut() {
                match next[*node].get(*edge) {
                    Some(to) => {
                        *edge += 1;
                        if !std::mem::replace(&mut seen[to.0], true) {
                            path.push((to.0, 0));
                        }
                    }
                    None => {
                        left.push(NodeId(*node));
                        path.pop();
                    }
                }
            }
        }
        left.reverse();
        left
    }

    fn description(&self) -> Description {
        let nodes = self.nodes.iter().enumerate().map(|(index, part)| Node {
            id: NodeId(index),
            name: part.name.clone(),
            class: part.element.class(),
            configuration: part.configuration.clone(),
            output_names: part.element.outputs(),
            inputs: part.inputs.clone(),
            outputs: part.outputs.clone(),
            agnostic: part.agnostic.clone(),
        });
        let mut edges: Vec<Edge> = self
            .connections
            .iter()
            .map(|&(from, output, to, input)| Edge { from, output, to, input })
            .collect();
        edges.sort_by_key(|edge| (edge.from, edge.output));
        Description { nodes: nodes.collect(), edges }
    }
}

impl Part {
    fn output_name(&self, output: usize) -> String {
        self.element.outputs().get(output).map_or_else(|| output.to_string(), |name| (*name).to_owned())
    }
}

fn known(element: &dyn Element) -> String {
    if element.outputs().is_empty() { "none".to_owned() } else { element.outputs().join(", ") }
}
