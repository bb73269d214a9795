//! From one configuration of FRR's to another, by as few lines as can be.
//!
//! Lists and route maps come before what asks for them, and go after it. Inside a context what must
//! be out of the way goes first, then comes what is new, then goes what is left over. A line that
//! takes the place of another one is only said.

use crate::owned::is_policy;
use crate::slot::{Mode, lacks_option, negation, slot};
use crate::tree::{Config, Node};

/// A line that FRR is told, and the contexts that it is told in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    /// The lines that open the contexts, from the outside.
    pub contexts: Vec<String>,
    /// The line.
    pub line: String,
    /// It opens a context and has nothing to say in it.
    pub opens: bool,
}

/// The commands from one configuration to another.
pub fn diff(from: &Config, to: &Config) -> Vec<Command> {
    let is_policy = |node: &&Node| is_policy(&node.line);
    let of = |config: &Config, policy: bool| -> Vec<Node> {
        config.0.iter().filter(|node| is_policy(node) == policy).cloned().collect()
    };
    let lists = between(&[], &of(from, true), &of(to, true));
    let rest = between(&[], &of(from, false), &of(to, false));
    [lists.first, lists.new, rest.first, rest.new, rest.last, lists.last].concat()
}

/// What is told first, then, and last.
#[derive(Default)]
struct Way {
    first: Vec<Command>,
    new: Vec<Command>,
    last: Vec<Command>,
}

/// The way from what a context has to what it is to have.
fn between(contexts: &[String], from: &[Node], to: &[Node]) -> Way {
    let mut way = Way::default();
    let mut gone_neighbours = Vec::new();
    let mut from = from.to_vec();
    if let [outermost] = contexts
        && outermost.starts_with("router bgp ")
    {
        gone_neighbours = neighbours_that_go(&from, to);
        from = way.without(contexts, from, &gone_neighbours);
    }
    let has = |nodes: &[Node], line: &str| nodes.iter().any(|node| node.line == line);
    let mut gone: Vec<&Node> = from.iter().filter(|node| !has(to, &node.line)).collect();
    for name in &gone_neighbours {
        // A group goes after those that were in it, unless it is made anew.
        let again = to.iter().any(|node| neighbour_of(&node.line) == Some(neighbour_name(name)));
        let line = told(contexts, format!("no neighbor {}", name.line));
        if name.shared && !again { way.last.push(line) } else { way.first.push(line) }
    }
    for node in to {
        let same = from.iter().find(|other| other.line == node.line);
        if same.is_none() {
            way.add(contexts, node, &mut gone);
        }
        way.enter(contexts, same.map_or(&[], |same| &same.children), node);
    }
    // What came last goes first.
    gone.into_iter().rev().for_each(|node| way.remove(contexts, node, to));
    // BGP of the main table goes after that of VRFs, which may depend on it.
    way.first
        .sort_by_key(|command| command.line.starts_with("no router bgp ") && !command.line.contains(" vrf "));
    way
}

fn told(contexts: &[String], line: String) -> Command {
    Command { contexts: contexts.to_vec(), line, opens: false }
}

fn above(contexts: &[String]) -> &str {
    contexts.last().map_or("", String::as_str)
}

fn inside(contexts: &[String], node: &Node) -> Vec<String> {
    [contexts, std::slice::from_ref(&node.line)].concat()
}

impl Way {
    /// What a speaker of BGP has besides these neighbours.
    fn without(&mut self, contexts: &[String], from: Vec<Node>, gone: &[Node]) -> Vec<Node> {
        let left = without_neighbours(&from, gone);
        // Prefixes that a group listens on are others' to have.
        let listens = from.iter().filter(|node| node.line.starts_with("bgp listen range "));
        let go = listens.filter(|node| !left.iter().any(|other| other.line == node.line));
        self.first.extend(go.map(|node| told(contexts, negation(&node.line))));
        left
    }

    /// A line that is new. What of `gone` it takes the place of goes with that.
    fn add(&mut self, contexts: &[String], node: &Node, gone: &mut Vec<&Node>) {
        let place = slot(contexts, &node.line);
        let rival = |other: &&&Node| place.is_some() && place_of(contexts, other) == place_key(&place);
        if let (Some(rival), Some((_, mode))) = (gone.iter().find(rival).copied(), &place) {
            let first = match mode {
                Mode::Over => false,
                Mode::Options => lacks_option(&node.line, &rival.line),
                Mode::Anew => true,
            };
            if first {
                self.first.extend(what_leaks(rival));
                self.first.push(told(contexts, negation(&rival.line)));
            }
            gone.retain(|other| other.line != rival.line);
        }
        let opens = node.is_context(above(contexts));
        if !opens || node.children.is_empty() {
            self.new.push(Command { opens, ..told(contexts, node.line.clone()) });
        }
    }

    /// What changes inside a line, if it is a context, which has had these lines.
    fn enter(&mut self, contexts: &[String], had: &[Node], node: &Node) {
        if !node.is_context(above(contexts)) {
            return;
        }
        let inner = between(&inside(contexts, node), had, &node.children);
        match is_family(&node.line) {
            // What a family gives up another one may take.
            true => {
                self.first.extend(inner.first);
                self.new.extend([inner.new, inner.last].concat());
            }
            false => self.new.extend([inner.first, inner.new, inner.last].concat()),
        }
    }

    /// A line that is no longer there, beside those of `to`.
    fn remove(&mut self, contexts: &[String], node: &Node, to: &[Node]) {
        let stays = node.shared
            || node.line == "rpki"
            || node.line.starts_with("interface ")
            || is_family(&node.line);
        if node.is_context(above(contexts)) && stays {
            let inner = between(&inside(contexts, node), &node.children, &[]);
            match is_family(&node.line) {
                true => {
                    self.first.extend(inner.first);
                    self.last.extend([inner.new, inner.last].concat());
                }
                false => self.last.extend([inner.first, inner.new, inner.last].concat()),
            }
        } else if node.line.starts_with("router ")
            || node.line.ends_with(" activate")
            || is_of_vpn(&node.line)
            || is_of_a_route_that_stays(&node.line, to)
            || node.line.starts_with("bgp listen range ")
            || is_of_a_list_that_stays(&node.line, to)
        {
            self.first.extend(what_leaks(node));
            self.first.push(told(contexts, negation(&node.line)));
        } else {
            self.last.push(told(contexts, negation(&node.line)));
        }
    }
}

/// What of a VRF's BGP ties it to other tables: FRR takes a while to end one, and lets the other
/// ones not end before it.
fn what_leaks(node: &Node) -> Vec<Command> {
    let is_one = node.line.starts_with("router bgp ") && node.line.contains(" vrf ");
    let families = node.children.iter().filter(|child| is_one && is_family(&child.line));
    let leaks = families.flat_map(|family| {
        let lines = family.children.iter().map(|child| child.line.as_str());
        let lines = lines.filter(|line| is_of_vpn(line) || line.starts_with("advertise "));
        lines.map(|line| Command {
            contexts: vec![node.line.clone(), family.line.clone()],
            line: negation(line),
            opens: false,
        })
    });
    leaks.collect()
}

/// Whether a line opens a family of addresses of BGP's.
fn is_family(line: &str) -> bool {
    line.starts_with("address-family ")
}

/// Whether another line routes its prefix, and one of the two leads nowhere: FRR has no route that
/// has both.
fn is_of_a_route_that_stays(line: &str, to: &[Node]) -> bool {
    let words: Vec<&str> = line.split(' ').collect();
    let ["ip" | "ipv6", "route", _, ..] = words[..] else { return false };
    let nowhere = |line: &str| line.split(' ').any(|word| matches!(word, "Null0" | "blackhole" | "reject"));
    let same = |other: &&Node| other.line.split(' ').take(3).eq(words[..3].iter().copied());
    to.iter().filter(same).any(|other| nowhere(line) || nowhere(&other.line))
}

/// Whether a line says how routes of a VRF go to others: FRR has one manner or the other.
fn is_of_vpn(line: &str) -> bool {
    line.starts_with("import vrf ") || line.split(' ').nth(1) == Some("vpn")
}

/// FRR ignores an entry that its list has already: those that go make room for others first. So
/// they do where a list becomes one of another kind.
fn is_of_a_list_that_stays(line: &str, to: &[Node]) -> bool {
    let list = |line: &str| {
        let (list, _) = line.split_once(" seq ")?;
        Some(list.replace(" expanded ", " standard "))
    };
    list(line).is_some_and(|gone| to.iter().any(|node| list(&node.line).as_ref() == Some(&gone)))
}

fn place_of(contexts: &[String], node: &Node) -> Option<String> {
    slot(contexts, &node.line).map(|(place, _)| place)
}

fn place_key(place: &Option<(String, Mode)>) -> Option<String> {
    place.as_ref().map(|(place, _)| place.clone())
}

/// Whom a line is about: a neighbour, an interface with one, or a group of FRR's.
pub(crate) fn neighbour_of(line: &str) -> Option<&str> {
    let line = line.strip_prefix("no ").unwrap_or(line);
    if let Some(range) = line.strip_prefix("bgp listen range ") {
        return range.split_once(" peer-group ").map(|(_, group)| group);
    }
    line.strip_prefix("neighbor ").and_then(|rest| rest.split(' ').next())
}

/// Neighbours that are to be gone, or made anew since they belong to a group of FRR's or to another
/// system; groups are marked as shared.
fn neighbours_that_go(from: &[Node], to: &[Node]) -> Vec<Node> {
    let mut gone: Vec<Node> = Vec::new();
    let stays = |name: &str| to.iter().any(|node| neighbour_of(&node.line) == Some(name));
    for node in from {
        let Some(name) = neighbour_of(&node.line) else { continue };
        let words: Vec<&str> = node.line.split(' ').collect();
        let is_group = words.len() == 3 && words[2] == "peer-group";
        let in_group = words.len() == 4 && words[2] == "peer-group";
        // One of another system loses what its kind cannot have: it is made anew as well.
        let moves = in_group || matches!(words.get(2), Some(&("remote-as" | "interface")));
        let leaves = moves && !to.iter().any(|other| other.line == node.line);
        if stays(name) && !leaves {
            continue;
        }
        let line = if is_group { format!("{name} peer-group") } else { name.to_owned() };
        if !gone.iter().any(|other| neighbour_name(other) == name) {
            gone.push(Node { line, shared: is_group, ..Node::default() });
        }
    }
    gone
}

fn neighbour_name(node: &Node) -> &str {
    node.line.split(' ').next().unwrap_or_default()
}

fn without_neighbours(nodes: &[Node], gone: &[Node]) -> Vec<Node> {
    let about = |node: &Node| {
        neighbour_of(&node.line).is_some_and(|name| gone.iter().any(|other| neighbour_name(other) == name))
    };
    let left = nodes.iter().filter(|node| !about(node));
    left.map(|node| Node { children: without_neighbours(&node.children, gone), ..node.clone() }).collect()
}

/// Commands as a file for FRR's shell; and for each line of it the command, if it is one.
pub fn script(commands: &[Command]) -> (String, Vec<Option<usize>>) {
    let (mut text, mut of_line) = (String::new(), Vec::new());
    let mut open: Vec<&String> = Vec::new();
    let mut tell = |line: &str, depth: usize, command: Option<usize>| {
        text += &format!("{}{line}\n", " ".repeat(depth));
        of_line.push(command);
    };
    for (number, command) in commands.iter().enumerate() {
        let same = open.iter().zip(&command.contexts).take_while(|(a, b)| **a == *b).count();
        while open.len() > same {
            let depth = open.len() - 1;
            tell(Node::end(open.pop().map_or("", |line| line)), depth, None);
        }
        for line in &command.contexts[same..] {
            tell(line, open.len(), Some(number));
            open.push(line);
        }
        tell(&command.line, open.len(), Some(number));
        if command.opens {
            tell(Node::end(&command.line), open.len(), None);
        }
    }
    while let Some(line) = open.pop() {
        tell(Node::end(line), open.len(), None);
    }
    (text, of_line)
}
