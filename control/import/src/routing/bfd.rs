//! `bfd`, and what stands beside BGP: `rpki`, and `bmp targets`.

use ::frr::{Config, Node};

use super::{keys, number};
use crate::write::{list, name, text};

/// `[routing.bfd]`.
pub(super) fn bfd(running: &Config) -> Option<String> {
    let running = &Config(running.context("bfd").into_iter().cloned().collect());
    let node = running.0.first()?;
    let mut parts = Vec::new();
    for child in &node.children {
        let words: Vec<&str> = child.line.split(' ').collect();
        let head = match words.as_slice() {
            ["profile", called] => format!("\n[routing.bfd.profile.{}]\n", name(called)),
            ["peer", address, rest @ ..] => {
                let Some(more) = peer(rest) else { continue };
                format!("\n[[routing.bfd.peer]]\naddress = {}\n{more}", text(address))
            }
            _ => continue,
        };
        let before: String = parts.concat();
        let own = child.children.iter().filter_map(|line| times(&line.line)).collect();
        // A profile that a peer names comes first in FRR as well.
        let whole = keys(&format!("{before}{head}"), own, running);
        parts.push(whole[before.len()..].to_owned());
    }
    (!parts.is_empty()).then(|| parts.concat() + "\n")
}

fn peer(mut words: &[&str]) -> Option<String> {
    let mut keys = String::new();
    while let Some(word) = words.first() {
        let (key, taken) = match (*word, words.get(1)) {
            ("multihop", _) => ("multihop = true\n".to_owned(), 1),
            ("local-address", Some(local)) => (format!("local = {}\n", text(local)), 2),
            (key @ ("vrf" | "interface"), Some(value)) => (format!("{key} = {}\n", text(value)), 2),
            _ => return None,
        };
        keys += &key;
        words = &words[taken..];
    }
    Some(keys)
}

fn times(line: &str) -> Option<String> {
    let words: Vec<&str> = line.split(' ').collect();
    Some(match words.as_slice() {
        ["profile", called] => format!("profile = {}", text(called)),
        ["detect-multiplier", times] => format!("multiplier = {}", number(times)?),
        ["transmit-interval", time] => format!("transmit = \"{}ms\"", number(time)?),
        ["receive-interval", time] => format!("receive = \"{}ms\"", number(time)?),
        ["minimum-ttl", ttl] => format!("minimum_ttl = {}", number(ttl)?),
        ["passive-mode"] => "passive = true".to_owned(),
        ["shutdown"] => "enabled = false".to_owned(),
        _ => return None,
    })
}

/// `[bgp.rpki]`.
pub(super) fn rpki(node: &Node) -> Option<String> {
    let (mut caches, mut keys) = (Vec::new(), String::new());
    for child in &node.children {
        let words: Vec<&str> = child.line.split(' ').collect();
        match words.as_slice() {
            ["rpki", "cache", host, port, "preference", at] => {
                caches.push((at.parse::<u32>().ok()?, endpoint(host, port)));
            }
            ["rpki", "polling_period", time] => keys += &format!("polling = \"{}s\"\n", number(time)?),
            ["rpki", "expire_interval", time] => keys += &format!("expire = \"{}s\"\n", number(time)?),
            ["rpki", "retry_interval", time] => keys += &format!("retry = \"{}s\"\n", number(time)?),
            _ => {}
        }
    }
    caches.sort();
    let caches: Vec<String> = caches.into_iter().map(|(_, cache)| cache).collect();
    (!caches.is_empty()).then(|| format!("\n[bgp.rpki]\ncaches = {}\n{keys}", list(&caches)))
}

/// `[bgp.bmp.NAME]`.
pub(super) fn bmp(node: &Node, title: &str) -> Option<String> {
    let called = node.line.strip_prefix("bmp targets ")?;
    let (mut connect, mut monitor, mut keys) = (Vec::new(), Vec::new(), String::new());
    let mut source = None;
    for child in &node.children {
        let words: Vec<&str> = child.line.split(' ').collect();
        match words.as_slice() {
            ["bmp", "connect", host, "port", port, "min-retry", _, "max-retry", _, rest @ ..] => {
                connect.push(endpoint(host, port));
                source = rest.get(1).copied();
            }
            ["bmp", "listener", address, "port", port] => {
                keys += &format!("listen = {}\n", text(&endpoint(address, port)));
            }
            ["bmp", "monitor", family, "unicast", which] => monitor.push(format!("{family}-{which}")),
            ["bmp", "monitor", family, "multicast", which] => {
                monitor.push(format!("{family}-multicast-{which}"));
            }
            ["bmp", "stats", "interval", time] => {
                keys += &format!("stats = \"{}s\"\n", time.parse::<u32>().ok()? / 1_000);
            }
            ["bmp", "mirror"] => keys += "mirror = true\n",
            _ => {}
        }
    }
    if !connect.is_empty() {
        keys += &format!("connect = {}\n", list(&connect));
    }
    if !monitor.is_empty() {
        keys += &format!("monitor = {}\n", list(&monitor));
    }
    keys += &source.map_or_else(String::new, |source| format!("source = {}\n", text(source)));
    Some(format!("\n[{title}.bmp.{}]\n{keys}", name(called)))
}

fn endpoint(host: &str, port: &str) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}
