//! The graph as nodes and edges: for `show graph`, as text in Click's notation, and to be
//! [drawn](crate::drawing).

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
    /// Its arguments, as text.
    pub configuration: String,
    /// The names of its outputs, where they have names.
    pub output_names: &'static [&'static str],
    /// Whether each input is pushed to or pulls.
    pub inputs: Vec<Flow>,
    /// Whether each output pushes or is pulled from.
    pub outputs: Vec<Flow>,
    /// Whether the class leaves open which it is, input by input, then output by output.
    pub agnostic: Vec<bool>,
}

/// Who begins the passing of a packet over a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Flow {
    /// The source.
    Push,
    /// The destination.
    Pull,
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

    /// The node that a name means inside the element `from`: of `from`'s own compound, else of
    /// those around it.
    pub fn find_from(&self, from: &str, name: &str) -> Option<NodeId> {
        let mut scope = from;
        while let Some((outer, _)) = scope.rsplit_once('/') {
            if let Some(node) = self.find(&format!("{outer}/{name}")) {
                return Some(node.id);
            }
            scope = outer;
        }
        self.find(name).map(|node| node.id)
    }

    /// The name of the output that an edge begins at: its number where it has none.
    pub fn output_name(&self, edge: &Edge) -> String {
        let name = self.nodes.get(edge.from.0).and_then(|node| node.output_names.get(edge.output));
        name.map_or_else(|| edge.output.to_string(), |name| (*name).to_owned())
    }
}

/// Declarations, then connections, in Click's notation.
impl fmt::Display for Description {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for node in &self.nodes {
            match node.configuration.as_str() {
                "" => writeln!(f, "{} :: {};", node.name, node.class)?,
                text => writeln!(f, "{} :: {}({text});", node.name, node.class)?,
            }
        }
        for edge in &self.edges {
            let (from, to) = (&self.nodes[edge.from.0].name, &self.nodes[edge.to.0].name);
            let name = self.output_name(edge);
            let name = if name.parse::<usize>().is_ok() { String::new() } else { format!("  // {name}") };
            let input = if edge.input == 0 { String::new() } else { format!("[{}]", edge.input) };
            writeln!(f, "{from}[{}] -> {input}{to};{name}", edge.output)?;
        }
        Ok(())
    }
}
