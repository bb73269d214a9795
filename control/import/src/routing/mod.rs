//! What FRR has, by its running configuration.
//!
//! What is turned is held against FRR's lines: a section is written piece by piece, and a piece
//! that would tell FRR anything that it has not is left out again. What FRR has beyond the sections
//! goes to `[routing] frr`, line by line. So the first plan has nothing to tell.

mod bfd;
mod bgp;
mod ospf;
mod policy;
mod protocol;

use std::collections::HashSet;
use std::path::Path;

use ::frr::{Config, Node, render_for};

use crate::draft::{Draft, judged};
use crate::write;

const SOURCE: &str = "FRR";

/// How lines begin that are FRR's own settings: who runs it sets them.
const OWN: [&str; 14] = [
    "frr ",
    "hostname ",
    "domainname ",
    "log ",
    "no log ",
    "service ",
    "line vty",
    "password ",
    "enable password ",
    "debug ",
    "username ",
    "banner ",
    "agentx",
    "fpm ",
];

/// Words that a secret stands behind.
const SECRETS: [&str; 5] = ["password", "authentication-key", "md5", "key-string", "string"];

impl Draft {
    /// What FRR has: what `show running-config` prints. `sockets`: where its daemons have theirs.
    pub fn frr(&mut self, text: &str, sockets: &Path) {
        let mut running = Config::parse(text);
        let (own, rest): (Vec<Node>, Vec<Node>) =
            running.0.into_iter().partition(|node| OWN.iter().any(|head| node.line.starts_with(head)));
        running = Config(rest);
        // FRR shows Linux's own setting so.
        let of_linux = |node: &Node| {
            matches!(node.line.strip_prefix("no ").unwrap_or(&node.line), "ip forwarding" | "ipv6 forwarding")
        };
        let linux = running.0.iter().filter(|node| of_linux(node));
        let linux: Vec<String> = linux.map(|node| node.line.clone()).collect();
        running.0.retain(|node| !of_linux(node));
        for line in linux.iter().filter(|line| line.starts_with("no ")) {
            self.leave(SOURCE, line, "it is a sysctl of Linux's");
        }
        for node in own.iter().filter(|node| !node.line.starts_with("frr ")) {
            self.leave(SOURCE, covered(&node.line), "who runs FRR sets it, in /etc/frr");
        }
        // A context that is empty says nothing.
        let says = |node: &Node| !(node.children.is_empty() && opens_empty(&node.line));
        running.0.retain(says);
        let mut text = Vec::new();
        let (lists, names) = policy::policy(&running);
        text.extend(bgp::bgp(&running, &names));
        text.extend(bfd::bfd(&running));
        text.extend(ospf::ospf(&running, &names));
        text.extend(protocol::protocols(&running, &names));
        text.extend(lists);
        let mut sections = text.concat();
        // What is named may be in the block at last.
        let lists = running.0.iter().filter(|node| policy::is_of_policy(&node.line)).cloned().collect();
        let named = block(&Config(lists));
        if !fits(&format!("{named}{sections}"), &running) {
            // It is FRR's in any case, line by line.
            sections.clear();
        }
        let said = judged(&page(&format!("{named}{sections}"))).map(|mut router| {
            router.routing.lines.clear();
            render_for(&router.routing, &running)
        });
        let beyond = beyond(&running.0, &said.unwrap_or_default().0);
        let elsewhere = *sockets != config::Routing::default().sockets;
        let place = format!("sockets = {}\n", write::text(&sockets.display().to_string()));
        if elsewhere || !beyond.is_empty() {
            let lines = if beyond.is_empty() { "[routing]\n".to_owned() } else { block(&Config(beyond)) };
            let block = match elsewhere {
                true => lines.replacen("[routing]\n", &format!("[routing]\n{place}"), 1),
                false => lines,
            };
            match judged(&page(&format!("{block}\n{sections}"))) {
                Ok(_) => sections = format!("{block}\n{sections}"),
                Err(why) => self.leave(SOURCE, "lines for which there are no keys", why),
            }
        }
        self.routing = sections.trim_end().to_owned();
        if !self.routing.is_empty() {
            self.routing += "\n";
        }
    }
}

/// Contexts that FRR shows with nothing in them.
fn opens_empty(line: &str) -> bool {
    line.starts_with("interface ") || line.starts_with("vrf ") || line.starts_with("address-family ")
}

fn page(sections: &str) -> String {
    format!("without_ports = \"on\"\n{sections}")
}

/// `[routing]` with these lines.
fn block(lines: &Config) -> String {
    format!("[routing]\nfrr = '''\n{}'''\n", without_ends(&lines.text()))
}

/// Lines of the block, without those that end contexts: they go without saying.
fn without_ends(lines: &str) -> String {
    let ends = |line: &&str| matches!(line.trim(), "exit" | "exit-address-family" | "exit-vrf");
    lines.lines().filter(|line| !ends(line)).map(|line| format!("{line}\n")).collect()
}

/// A line without its secret.
fn covered(line: &str) -> String {
    let words: Vec<&str> = line.split(' ').collect();
    let at = words.iter().position(|word| SECRETS.contains(word));
    match at {
        Some(at) if at + 1 < words.len() => format!("{} ***", words[..=at].join(" ")),
        _ => line.to_owned(),
    }
}

/// The text of a file with its secrets covered, those in FRR's lines as well.
pub fn hidden(text: &str) -> String {
    let text = config::secrets::covered(text);
    let mut in_block = false;
    let mut hidden = String::new();
    for line in text.split_inclusive('\n') {
        match line.trim_end() {
            "frr = '''" => in_block = true,
            "'''" => in_block = false,
            _ => {}
        }
        let end = if line.ends_with('\n') { "\n" } else { "" };
        match in_block {
            true => hidden += &(covered(line.trim_end_matches('\n')) + end),
            false => hidden += line,
        }
    }
    hidden
}

/// Whether a file can have these sections, and they tell FRR nothing that it has not.
fn fits(sections: &str, running: &Config) -> bool {
    judged(&page(sections))
        .is_ok_and(|router| beyond(&render_for(&router.routing, running).0, &running.0).is_empty())
}

/// What the one has and the other has not.
fn beyond(these: &[Node], others: &[Node]) -> Vec<Node> {
    let mut there = std::collections::HashMap::new();
    others.iter().for_each(|node| {
        there.entry(node.line.as_str()).or_insert(node);
    });
    let mut left = Vec::new();
    for node in these {
        let Some(other) = there.get(node.line.as_str()) else {
            left.push(node.clone());
            continue;
        };
        let children = beyond(&node.children, &other.children);
        if !children.is_empty() {
            left.push(Node { line: node.line.clone(), children, shared: false });
        }
    }
    left
}

/// What there is to be named: lists and route maps, by the words of their kind.
#[derive(Default)]
struct Names(HashSet<(&'static str, String)>);

impl Names {
    /// `key = "NAME"`, where FRR has something of this name.
    fn key(&self, key: &str, kind: &'static str, name: &str) -> Option<String> {
        self.0.contains(&(kind, name.to_owned())).then(|| format!("{key} = {}", write::text(name)))
    }
}

/// A number, as TOML has it.
fn number(text: &str) -> Option<String> {
    text.parse::<u32>().ok().map(|number| number.to_string())
}

/// Options behind `redistribute` and `default-information originate`, as keys.
fn options(words: &[&str], names: &Names) -> Option<Vec<String>> {
    let (mut keys, mut words) = (Vec::new(), words.iter());
    while let Some(word) = words.next() {
        match *word {
            "always" => keys.push("always = true".to_owned()),
            "metric" => keys.push(format!("metric = {}", number(words.next()?)?)),
            "metric-type" => keys.push(format!("metric_type = {}", number(words.next()?)?)),
            "route-map" => keys.push(names.key("route_map", "route-map", words.next()?)?),
            _ => return None,
        }
    }
    Some(keys)
}

/// An entry of `redistribute`.
fn redistributed(line: &str, names: &Names) -> Option<String> {
    let words: Vec<&str> = line.split(' ').collect();
    let ["redistribute", from, rest @ ..] = words.as_slice() else { return None };
    let keys = options(rest, names)?;
    let from = write::text(from);
    match keys.is_empty() {
        true => Some(from),
        false => Some(format!("{{ from = {from}, {} }}", keys.join(", "))),
    }
}

/// Pieces of a section that fit, one after another, behind its head.
fn pieces(head: &str, pieces: Vec<String>, running: &Config) -> Option<String> {
    fits(head, running).then(|| {
        let fitting = pieces.into_iter().filter(|piece| fits(&format!("{head}{piece}"), running));
        head.to_owned() + &fitting.collect::<String>()
    })
}

/// Keys of a section that fit, one after another.
fn keys(head: &str, keys: Vec<String>, running: &Config) -> String {
    let fitting = keys.into_iter().filter(|key| fits(&format!("{head}{key}\n"), running));
    head.to_owned() + &fitting.map(|key| key + "\n").collect::<String>()
}
