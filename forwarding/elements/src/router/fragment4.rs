//! Fragment4: cuts packets to the MTU of their path (RFC 791, 3.2)
//!
//! Group: router
//! Usage: `Fragment4`
//! Ports: 1 input, 1 output; push
//!
//! Each fragment is a copy: header, and a piece whose length is a multiple of 8. The packet is
//! gathered into one buffer first (it may be a chain); each header is then written right in front
//! of its piece, over what was sent before, so that every fragment is one run of bytes. As in
//! Linux, options that are not to be copied become no-operations in the later fragments, so that
//! all headers have the same length.

use super::router_context::on_tables;
use super::way_mtu;
use fib::View;
use graph::{Batch, Class, Context, Element};
use port::Packet;
use wire::{Reason, ipv4};

/// The class `Fragment4`.
pub const CLASS: Class = Class {
    name: "Fragment4",
    ports: "1/1",
    processing: Class::PUSH,
    flow: Class::COMPLETE_FLOW,
    source: include_str!("fragment4.rs"),
    make: |arguments, setup| on_tables(arguments, setup, |s| Fragment4::new(s.view.clone())),
};

/// Fragments IPv4 packets. Output: `fragments`. Drops `no_buffer` when packet memory runs out: then
/// none of the fragments goes on, as without one the others are of no use. Drops `too_big` what
/// cannot be cut.
pub struct Fragment4 {
    view: View,
    gathered: Vec<u8>,
    fragments: Vec<Packet>,
}

impl Fragment4 {
    /// Reads the adjacencies' MTU from the tables.
    pub fn new(view: View) -> Fragment4 {
        Fragment4 { view, gathered: Vec::with_capacity(1 << 17), fragments: Vec::with_capacity(64) }
    }

    fn cut(&mut self, packet: &Packet) -> Result<(), Reason> {
        self.gathered.clear();
        packet.segments().for_each(|segment| self.gathered.extend_from_slice(segment));
        let l3 = packet.l3();
        let bytes = &mut self.gathered[..];
        let Ok(ip) = ipv4::Packet::parse(bytes.get(l3..).unwrap_or_default()) else {
            return Err(Reason::TooBig);
        };
        let (head, flags) = (ip.header_len(), ip.fragment());
        let mut header = [0; 60];
        header[..head].copy_from_slice(ip.header());
        let mtu = way_mtu(&self.view.hops(), packet).unwrap_or(0) as usize;
        let piece = mtu.saturating_sub(head) & !7;
        if piece == 0 {
            return Err(Reason::TooBig);
        }
        let data = bytes.len() - l3 - head;
        let mut at = 0;
        while at < data {
            let length = piece.min(data - at);
            let last = at + length == data;
            let offset = (flags & ipv4::FRAGMENT_OFFSET) + (at / 8) as u16;
            let more = if last { flags & ipv4::MORE_FRAGMENTS } else { ipv4::MORE_FRAGMENTS };
            header[2..4].copy_from_slice(&((head + length) as u16).to_be_bytes());
            header[6..8].copy_from_slice(&(offset & ipv4::FRAGMENT_OFFSET | more).to_be_bytes());
            ipv4::set_checksum(&mut header[..head]);
            // The piece starts at l3 + head + at, so its header at l3 + at, and its link header
            // (yet unwritten) at `at`.
            bytes[l3 + at..l3 + at + head].copy_from_slice(&header[..head]);
            let fragment = &bytes[at..l3 + at + head + length];
            let mut fragment = Packet::new(fragment).ok_or(Reason::NoBuffer)?;
            (fragment.input, fragment.output) = (packet.input, packet.output);
            fragment.set_network(l3 as isize);
            (fragment.next_hop, fragment.adjacency) = (packet.next_hop, packet.adjacency);
            fragment.paint = packet.paint;
            self.fragments.push(fragment);
            blank_uncopied(&mut header[ipv4::HEADER..head]);
            at += length;
        }
        Ok(())
    }
}

/// Turns options that only the first fragment carries into no-operations.
fn blank_uncopied(options: &mut [u8]) {
    let mut before = [0; 40];
    let Some(before) = before.get_mut(..options.len()) else { return };
    before.copy_from_slice(options);
    for place in ipv4::option::places(before).map_while(Result::ok) {
        if options[place.start] & ipv4::option::COPIED == 0 {
            options[place].fill(ipv4::option::NOP);
        }
    }
}

impl Element for Fragment4 {
    fn class(&self) -> &'static str {
        "Fragment4"
    }

    fn outputs(&self) -> &'static [&'static str] {
        &["fragments"]
    }

    fn push(&mut self, _input: usize, batch: &mut Batch, cx: &mut Context<'_>) {
        for packet in batch.drain() {
            match self.cut(&packet) {
                Ok(()) => self.fragments.drain(..).for_each(|fragment| cx.emit(0, fragment)),
                Err(reason) => {
                    self.fragments.clear();
                    cx.drop(packet, reason);
                }
            }
        }
    }
}
