//! The graph as nodes and edges: for `show graph`, as text in Click's notation and for Graphviz.

use std::fmt;

use crate::NodeId;

/// The nodes and edges of a graph.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Description {
    /// The nodes; the index is the [`NodeId`].
    pub nodes: Vec<Node>,
    /// The edges, by node and output.
    pub edges: Vec<Edge>,
}

/// A node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Its number, also in the counters.
    pub id: NodeId,
    /// Its name in this graph.
    pub name: String,
    /// The kind of element.
    pub class: &'static str,
    /// The names of its outputs.
    pub outputs: &'static [&'static str],
}

/// An edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Edge {
    /// Where it begins.
    pub from: NodeId,
    /// The output of that node.
    pub output: usize,
    /// Where it ends.
    pub to: NodeId,
    /// The input of that node.
    pub input: usize,
}

impl Description {
    /// The node of a name.
    pub fn find(&self, name: &str) -> Option<&Node> {
        self.nodes.iter().find(|node| node.name == name)
    }

    /// The name of the output that an edge begins at.
    pub fn output_name(&self, edge: &Edge) -> &'static str {
        self.nodes[edge.from.0].outputs[edge.output]
    }

    /// The graph in Graphviz's language. `label` adds lines to a node, such as its rates.
    pub fn dot(&self, label: impl Fn(&Node) -> String) -> String {
        let mut text = String::from("digraph bifrost {\n  node [shape=box, fontname=\"monospace\"];\n");
        for node in &self.nodes {
            let extra = label(node);
            let line = if extra.is_empty() { String::new() } else { format!("\\n{}", escape(&extra)) };
            text += &format!(
                "  \"{}\" [label=\"{} :: {}{line}\"];\n",
                escape(&node.name),
                escape(&node.name),
                node.class
            );
        }
        for edge in &self.edges {
            let (from, to) = (&self.nodes[edge.from.0].name, &self.nodes[edge.to.0].name);
            let name = self.output_name(edge);
            text += &format!("  \"{}\" -> \"{}\" [label=\"{name}\"];\n", escape(from), escape(to));
        }
        text + "}\n"
    }
}

fn escape(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

/// Declarations, then connections, in Click's notation.
impl fmt::Display for Description {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for node in &self.nodes {
            writeln!(f, "{} :: {};", node.name, node.class)?;
        }
        for edge in &self.edges {
            let (from, to) = (&self.nodes[edge.from.0].name, &self.nodes[edge.to.0].name);
            let name = self.output_name(edge);
            let input = if edge.input == 0 { String::new() } else { format!("[{}]", edge.input) };
            writeln!(f, "{from}[{}] -> {input}{to};  // {name}", edge.output)?;
        }
        Ok(())
    }
}
