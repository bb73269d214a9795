//! WireGuard: what the file asks for of an interface, and the steps to that, a peer each.
//!
//! A peer that moves is followed by Linux. So an endpoint of the file is where a peer is looked for
//! first, and again when the file says another one: else each reload would send all that moved
//! back.

use std::io;

use config::{PrivateKey, PublicKey, WireGuard};
use mirror::netlink::socket;
use mirror::netlink::wireguard::{Device, Peer};

use super::step::{Failed, Step};

/// What an interface is to have that has `now`; `before`: what the file said of it.
pub(super) fn wanted(now: &Device, asked: &WireGuard, before: Option<&WireGuard>) -> Device {
    let peers = asked.peers.iter().map(|peer| {
        let key = &peer.public_key;
        let had = now.peers.get(&key.0).and_then(|had| had.endpoint);
        let said = before.and_then(|before| before.peers.iter().find(|other| other.public_key == *key));
        let moved = said.is_some_and(|said| said.endpoint != peer.endpoint);
        let endpoint = if moved { peer.endpoint.or(had) } else { had.or(peer.endpoint) };
        let wanted = Peer {
            preshared_key: peer.preshared_key.as_ref().map(|key| *key.reveal()),
            endpoint,
            keepalive: peer.keepalive,
            allowed: peer.allowed_ips.clone(),
        };
        (key.0, wanted)
    });
    Device {
        private_key: Some(*asked.private_key.reveal()),
        port: asked.listen_port.unwrap_or(now.port),
        peers: peers.collect(),
    }
}

/// The steps. Who goes, goes first: a prefix has one peer.
pub(super) fn steps(name: &str, from: &Device, to: &Device) -> Vec<Step> {
    let name = || name.to_owned();
    let mut steps = Vec::new();
    if to.private_key != from.private_key {
        steps.push(Step::PrivateKey { name: name(), key: to.private_key.map(PrivateKey::new) });
    }
    if to.port != from.port && to.port != 0 {
        steps.push(Step::Port { name: name(), port: to.port });
    }
    for key in from.peers.keys().filter(|key| !to.peers.contains_key(*key)) {
        steps.push(Step::NoPeer { name: name(), key: PublicKey(*key) });
    }
    // One that takes a prefix from another is told when that has given it up.
    let (mut gives, mut takes) = (Vec::new(), Vec::new());
    for (key, peer) in &to.peers {
        let had = from.peers.get(key);
        if had == Some(peer) {
            continue;
        }
        let step = Step::Peer { name: name(), key: PublicKey(*key), peer: peer.clone(), new: had.is_none() };
        let takes_more = had.is_none_or(|had| !peer.allowed.is_subset(&had.allowed));
        if takes_more { &mut takes } else { &mut gives }.push(step);
    }
    steps.extend(gives);
    steps.extend(takes);
    steps
}

/// Goes a step of these.
pub(super) fn go<'s>(linux: &mut socket::WireGuard, step: &'s Step) -> Option<Failed<'s>> {
    let done = match step {
        Step::PrivateKey { name, key } => {
            let key = key.as_ref().map_or([0; 32], |key| *key.reveal());
            linux.set_device(name, Some(&key), None)
        }
        Step::Port { name, port } => linux.set_device(name, None, Some(*port)),
        Step::Peer { name, key, peer, .. } => linux.set_peer(name, &key.0, Some(peer)),
        Step::NoPeer { name, key } => linux.set_peer(name, &key.0, None),
        _ => Err(io::ErrorKind::Unsupported.into()),
    };
    done.err().map(|error| Failed { step, why: error.to_string() })
}
