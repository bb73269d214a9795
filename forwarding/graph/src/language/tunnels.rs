//! Connections through tunnels.
//!
//! A tunnel's end leads somewhere else: what enters `f` leaves `f/input`, what enters `f/output`
//! leaves `f`. Following every connection to its real ends takes the tunnels out. Tunnels that only
//! lead into each other lead nowhere.

use std::collections::{HashMap, HashSet};

use super::body::{Body, Connection, Kind, Port};
use super::report::Report;

/// The most connections a configuration may expand to.
pub const MAX_CONNECTIONS: usize = 1_000_000;

/// Where tunnels lead.
#[derive(Default)]
pub(super) struct Pairs {
    /// By the tunnel that is entered, the one that is left.
    exits: HashMap<usize, usize>,
    /// And the other way round.
    entries: HashMap<usize, usize>,
}

/// A port that is looked at from one direction: `backwards` asks who sends to it.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Way {
    port: Port,
    backwards: bool,
}

impl Pairs {
    pub fn new() -> Pairs {
        Pairs::default()
    }

    /// What enters `entry` leaves `exit`.
    pub fn join(&mut self, entry: usize, exit: usize) {
        self.exits.insert(entry, exit);
        self.entries.insert(exit, entry);
    }

    /// Whether an element is an end of a tunnel already.
    pub fn is_joined(&self, element: usize) -> bool {
        self.exits.contains_key(&element) || self.entries.contains_key(&element)
    }

    fn other(&self, way: Way) -> Option<usize> {
        let pairs = if way.backwards { &self.entries } else { &self.exits };
        pairs.get(&way.port.element).copied()
    }

    /// Every connection from element to element, through the tunnels between them. Those that need
    /// no tunnel come first; a connection may come twice.
    pub fn through(&self, body: &Body, report: &mut Report) -> Vec<Connection> {
        let is_tunnel = |port: Port| body.elements[port.element].kind == Kind::Tunnel;
        let mut search =
            Search { pairs: self, body, at: [HashMap::new(), HashMap::new()], found: HashMap::new() };
        let mut found = Vec::new();
        let mut indirect = Vec::new();
        for (index, connection) in body.connections.iter().enumerate() {
            for (side, this, other) in
                [(0, connection.from, connection.to), (1, connection.to, connection.from)]
            {
                if is_tunnel(this) {
                    search.at[side].entry(this).or_default().push(other);
                }
            }
            if is_tunnel(connection.from) || is_tunnel(connection.to) {
                indirect.push(index);
            } else {
                found.push(*connection);
            }
        }
        let mut seen = HashSet::new();
        for index in indirect {
            let Connection { from, to, at } = body.connections[index];
            let froms = search.ends(Way { port: from, backwards: true }, report);
            let tos = search.ends(Way { port: to, backwards: false }, report);
            for &from in &froms {
                for &to in &tos {
                    if seen.insert((from, to)) {
                        found.push(Connection { from, to, at });
                    }
                }
                if found.len() > MAX_CONNECTIONS {
                    let message =
                        format!("the configuration expands to more than {MAX_CONNECTIONS} connections");
                    report.error(Some(at), message);
                    return found;
                }
            }
        }
        found
    }
}

struct Search<'a> {
    pairs: &'a Pairs,
    body: &'a Body,
    /// By a tunnel's port, what is connected to it: where what leaves it goes, where what enters it
    /// comes from.
    at: [HashMap<Port, Vec<Port>>; 2],
    /// The real ends of a way, once they are known; `None` while they are looked for.
    found: HashMap<Way, Option<Vec<Port>>>,
}

/// A way that is being followed.
struct Step {
    way: Way,
    /// What is behind the tunnel, still to be looked at.
    todo: Vec<Port>,
    ends: Vec<Port>,
}

impl Search<'_> {
    /// The real ends that a port stands for. Follows tunnels into tunnels with a stack of its own:
    /// there may be very many in a row.
    fn ends(&mut self, way: Way, report: &mut Report) -> Vec<Port> {
        let mut stack: Vec<Step> = Vec::new();
        let mut result = Vec::new();
        let mut enter = Some(way);
        loop {
            if let Some(way) = enter.take() {
                let ends = match stack.last_mut() {
                    Some(step) => &mut step.ends,
                    None => &mut result,
                };
                if self.body.elements[way.port.element].kind != Kind::Tunnel {
                    ends.push(way.port);
                } else if let Some(known) = self.found.get(&way) {
                    ends.extend(known.iter().flatten());
                } else if let Some(step) = self.step(way, report) {
                    self.found.insert(way, None);
                    stack.push(step);
                }
            }
            let Some(step) = stack.last_mut() else { return result };
            if let Some(port) = step.todo.pop() {
                enter = Some(Way { port, backwards: step.way.backwards });
            } else if let Some(Step { way, mut ends, .. }) = stack.pop() {
                ends.sort_unstable();
                ends.dedup();
                match stack.last_mut() {
                    Some(step) => step.ends.extend(&ends),
                    None => result.extend(&ends),
                }
                self.found.insert(way, Some(ends));
            }
        }
    }

    /// Enters a tunnel, unless it has no other end.
    fn step(&self, way: Way, report: &mut Report) -> Option<Step> {
        let element = &self.body.elements[way.port.element];
        let Some(other) = self.pairs.other(way) else {
            if self.pairs.is_joined(way.port.element) {
                let used = if way.backwards { "output" } else { "input" };
                report.error(Some(element.at), format!("'{}' used as {used}", element.name));
            }
            return None;
        };
        let beyond = Port { element: other, port: way.port.port };
        let todo = self.at[usize::from(way.backwards)].get(&beyond).cloned().unwrap_or_default();
        if todo.is_empty() {
            self.report_dead_end(way, other, report);
        }
        Some(Step { way, todo, ends: Vec::new() })
    }

    /// Nothing is connected to a tunnel's other end: a compound's port is not used, or it has no
    /// such port.
    fn report_dead_end(&self, way: Way, other: usize, report: &mut Report) {
        let (entry, exit) = if way.backwards { (other, way.port.element) } else { (way.port.element, other) };
        let port = way.port.port;
        let [entry, exit] = [entry, exit].map(|end| &self.body.elements[end]);
        let is_input = exit.name.len() > entry.name.len();
        let outer = if is_input { entry } else { exit };
        let side = if is_input { "input" } else { "output" };
        let message = match way.backwards == is_input {
            true => format!("'{}' {side} {port} unused", outer.name),
            false => format!("'{}' has no {side} {port}", outer.name),
        };
        report.error(Some(outer.at), message);
    }
}
