//! The way back to a packet's sender, for the router's own answers.

use fib::{AdjacencyId, HopKind, InterfaceId, NextHopId, TableId, View};
use port::Packet;

use super::SENDS;
use super::tunnel::{Wanted, carries};
use super::tunnel_rules::TunnelRules;

/// Bytes of an answer at most: RFC 4443, 2.4, of IPv6; less of IPv4.
const ANSWER: usize = 1280;

/// Where an answer leaves.
#[derive(Clone, Copy, Debug)]
pub(super) struct Way {
    hop: NextHopId,
    path: AdjacencyId,
    /// The port that it leaves by.
    pub port: InterfaceId,
    /// Bytes of the largest IP packet there.
    pub mtu: usize,
    /// The route names a source for what this machine sends, which only Linux knows.
    pub sourced: bool,
}

/// What becomes of an answer.
#[derive(Clone, Copy, Debug)]
pub(super) enum Back {
    /// It goes this way.
    Way(Way),
    /// Only Linux can send it: an unresolved neighbour, a port that is not Bifrost's.
    Linux,
    /// Nobody can.
    None,
}

/// Whether routing rules concern what comes in where a packet did. Linux has others for what it
/// sends itself, so that the answer is Linux's.
pub(super) fn is_by_rules(view: &View, packet: &Packet) -> bool {
    view.hops().link(packet.input).table() == TableId::BY_RULES
}

/// The way by a next hop of an answer of this IP version; `hash` chooses among equal paths.
pub(super) fn back(view: &View, id: NextHopId, version: u8, hash: u32, tunnels: &mut TunnelRules) -> Back {
    let hop = view.hop(id);
    match hop.kind() {
        HopKind::Forward => {}
        HopKind::Glean | HopKind::Punt => return Back::Linux,
        _ => return Back::None,
    }
    let path = view.select(hop, hash);
    let adjacency = view.adjacency(path);
    let (port, mtu) = (adjacency.interface(), adjacency.mtu() as usize);
    let sends = view.interface(port).flags().contains(SENDS);
    // An answer has no extension headers, and does not go where it is from.
    let wanted = Wanted { version, length: ANSWER, hash, source: Some([0; 16]), whole: true };
    let ready = adjacency.resolved() && (sends || carries(view, adjacency, &wanted, tunnels));
    if ready { Back::Way(Way { hop: id, path, port, mtu, sourced: hop.sourced() }) } else { Back::Linux }
}

impl Way {
    /// Sends an answer this way.
    pub fn take(&self, view: &View, answer: &mut Packet) {
        view.mark_used(self.path);
        (answer.next_hop, answer.adjacency, answer.output) = (self.hop, self.path, self.port);
    }
}
