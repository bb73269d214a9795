//! `bfd`, as FRR shows it.

use config::{BfdPeer, BfdSessions, BfdTimes};

use super::context;
use crate::tree::Node;

pub(super) fn bfd(it: &BfdSessions) -> Node {
    let profiles = it.profiles.iter().map(|(name, it)| context(format!("profile {name}"), times(it)));
    let peers = it.peers.iter().map(|it| context(peer(it), of_peer(it)));
    Node { line: "bfd".to_owned(), children: profiles.chain(peers).collect(), shared: false }
}

fn peer(it: &BfdPeer) -> String {
    let multihop = if it.multihop { " multihop" } else { "" };
    let local = it.local.map_or_else(String::new, |local| format!(" local-address {local}"));
    let vrf = it.vrf.as_ref().map_or_else(String::new, |vrf| format!(" vrf {vrf}"));
    let interface = it.interface.as_ref().map_or_else(String::new, |name| format!(" interface {name}"));
    format!("peer {}{multihop}{local}{vrf}{interface}", it.address)
}

fn of_peer(it: &BfdPeer) -> Vec<String> {
    let mut lines: Vec<String> = it.profile.iter().map(|name| format!("profile {name}")).collect();
    lines.extend(times(&it.times));
    lines
}

/// FRR says nothing of its defaults.
fn times(it: &BfdTimes) -> Vec<String> {
    let mut lines = Vec::new();
    let multiplier = it.multiplier.filter(|number| *number != 3);
    lines.extend(multiplier.map(|number| format!("detect-multiplier {number}")));
    for (time, word) in [(it.transmit, "transmit-interval"), (it.receive, "receive-interval")] {
        lines.extend(time.filter(|time| *time != 300).map(|time| format!("{word} {time}")));
    }
    if !it.enabled {
        lines.push("shutdown".to_owned());
    }
    if it.passive {
        lines.push("passive-mode".to_owned());
    }
    let ttl = it.minimum_ttl.filter(|ttl| *ttl != 254);
    lines.extend(ttl.map(|ttl| format!("minimum-ttl {ttl}")));
    lines
}
