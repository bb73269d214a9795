//! Frames that are forwarded, and whether those that leave are right.

use fib::{PortId, Tags};
use port::Packet;
use wire::{Mac, checksum, protocol};

use super::case::Load;
use super::tables::{ENDS, GATEWAYS, gateway};
use super::{IN, OUT};
use crate::frames::udp4;

/// Most bytes of a frame that are written: with two tags, without check sequence. What is behind
/// them is what was there before.
const WRITTEN: usize = 68;
/// Bytes of the two addresses of a frame, behind which tags stand.
const ADDRESSES: usize = 12;
/// The lengths of IMIX, without check sequence, seven to four to one.
const SIZES: [usize; 12] = [60, 590, 60, 60, 590, 60, 1514, 60, 590, 60, 590, 60];
/// Bytes of a GRE header and the IPv4 header in front of it.
const GRE: usize = 24;

pub const ROUTER: [Mac; 2] = [Mac([2, 0, 0, 0, 1, 1]), Mac([2, 0, 0, 0, 1, 2])];
pub const HOST: Mac = Mac([2, 0, 0, 0, 0, 1]);
/// The sender, of each family.
const SENDER4: u32 = 0x0a63_0102;
const SENDER6: u128 = 0x2001_0db8_0001_0000_0000_0000_0000_0002;
/// The first of as many senders as there are frames.
const SENDERS: u32 = 0x0a40_0000;

/// A frame, and how long it is.
#[derive(Clone, Copy)]
pub struct Frame {
    bytes: [u8; WRITTEN],
    length: usize,
}

impl Frame {
    pub fn of(bytes: &[u8]) -> Frame {
        let mut frame = Frame { bytes: [0; WRITTEN], length: bytes.len() };
        let written = bytes.len().min(WRITTEN);
        frame.bytes[..written].copy_from_slice(&bytes[..written]);
        frame
    }

    /// Frame number `n` of a load, to an address.
    pub fn ipv4(load: Load, n: u32, to: u32) -> Frame {
        let sender = if load.has_senders() { SENDERS + n } else { SENDER4 };
        let mut frame = Frame::of(&udp4(ROUTER[0], HOST, sender, to));
        if load.has_sizes() {
            let length = SIZES[n as usize % SIZES.len()];
            let protocol = match load {
                Load::Mixed if (n / 2).is_multiple_of(2) => protocol::TCP,
                _ => protocol::UDP,
            };
            let ip = wire::ipv4::Repr { protocol, ..wire::ipv4::Repr::new(sender.into(), to.into()) };
            let upper = length - 34;
            frame.bytes[14..34].copy_from_slice(&ip.header(upper));
            // The sender's port, and one of some services.
            let ports = [1024 + (n * 7919 % 60_000) as u16, [443, 53, 80, 123, 8080][n as usize % 5]];
            frame.bytes[34..36].copy_from_slice(&ports[0].to_be_bytes());
            frame.bytes[36..38].copy_from_slice(&ports[1].to_be_bytes());
            match protocol {
                // In mid-stream: sequence, acknowledgement, five words, ACK, a window.
                protocol::TCP => {
                    frame.bytes[38..46].fill(0);
                    frame.bytes[46..54].copy_from_slice(&[0x50, 0x10, 0xff, 0xff, 0, 0, 0, 0]);
                    if let Some(data) = frame.bytes.get(34..length) {
                        let pseudo = checksum::pseudo4(sender, to, protocol, upper as u16);
                        let sum = !pseudo.with(data).fold();
                        frame.bytes[50..52].copy_from_slice(&sum.to_be_bytes());
                    }
                }
                // The length, and no checksum.
                _ => frame.bytes[38..42].copy_from_slice(&[(upper >> 8) as u8, upper as u8, 0, 0]),
            }
            frame.length = length;
        }
        frame
    }

    pub fn ipv6(to: u128) -> Frame {
        let ip = wire::ipv6::Repr::new(SENDER6.into(), to.into());
        let ip = wire::ipv6::Repr { next_header: protocol::UDP, ..ip };
        let pseudo = checksum::pseudo6(SENDER6, to, protocol::UDP, 8);
        let link =
            wire::ethernet::Repr { destination: ROUTER[0], source: HOST, ether_type: wire::ethernet::IPV6 };
        let udp = wire::udp::header(5000, 33434, &[], pseudo);
        Frame::of(&[&link.header()[..], &ip.header(8), &udp].concat())
    }

    /// A frame as it comes out of the tunnel: an empty datagram in it.
    pub fn enclosed(to: u32) -> Frame {
        let frame = udp4(ROUTER[0], HOST, SENDER4, to);
        let [local, remote] = ENDS.map(Into::into);
        let outer = wire::ipv4::Repr { protocol: protocol::GRE, ..wire::ipv4::Repr::new(remote, local) };
        let inner =
            wire::ipv4::Repr { protocol: protocol::UDP, ..wire::ipv4::Repr::new(SENDER4.into(), to.into()) };
        let mut udp = [&frame[34..38], &[0, 8, 0, 0]].concat();
        let sum = checksum::pseudo4(SENDER4, to, protocol::UDP, 8).with(&udp).fold();
        udp[6..].copy_from_slice(&(!sum).to_be_bytes());
        let gre = [0, 0, 8, 0];
        Frame::of(&[&frame[..14], &outer.header(4 + 28), &gre, &inner.header(8), &udp].concat())
    }

    /// The frame with tags.
    pub fn tagged(&self, tags: Tags) -> Frame {
        let (addresses, rest) = self.bytes[..self.length].split_at(ADDRESSES);
        Frame::of(&[addresses, &tags.bytes(), rest].concat())
    }

    /// Bits that it takes on the wire: with preamble, check sequence and gap.
    pub fn bits(&self) -> usize {
        (self.length + 24) * 8
    }

    /// Makes a packet this frame.
    pub fn write(&self, packet: &mut Packet) {
        packet.reset(self.length);
        // One copy of a length that is known when this is compiled.
        if let Some(bytes) = packet.data_mut().first_chunk_mut::<60>() {
            bytes.copy_from_slice(&self.bytes[..60]);
        }
        if self.length > 60 {
            let written = self.length.min(WRITTEN);
            packet.data_mut()[60..written].copy_from_slice(&self.bytes[60..written]);
        }
    }

    /// The answer to it, as it comes to `router`.
    pub fn answered(&self, router: Mac) -> Frame {
        let mut answer = *self;
        let bytes = &mut answer.bytes;
        bytes[..6].copy_from_slice(&router.0);
        bytes[22] = 64;
        let (source, destination) = (self.bytes[26..30].to_vec(), self.bytes[30..34].to_vec());
        bytes[26..30].copy_from_slice(&destination);
        bytes[30..34].copy_from_slice(&source);
        let (source, destination) = (self.bytes[34..36].to_vec(), self.bytes[36..38].to_vec());
        bytes[34..36].copy_from_slice(&destination);
        bytes[36..38].copy_from_slice(&source);
        wire::ipv4::set_checksum(&mut bytes[14..34]);
        answer
    }
}

/// Whether a frame that has left is right.
pub fn right(frame: &[u8], way: PortId) -> bool {
    let (to, from) = (&frame[..6], &frame[6..12]);
    let outward = way == OUT && (0..GATEWAYS).any(|index| to == gateway(index).0) && from == ROUTER[1].0;
    let inward = way == IN && to == HOST.0 && from == ROUTER[0].0;
    let headers = wire::Headers::parse(&frame[14..]);
    let Ok(headers) = headers else { return false };
    let upper = &frame[14 + usize::from(headers.transport)..14 + usize::from(headers.length)];
    let no_checksum = headers.protocol == protocol::UDP && upper[6..8] == [0, 0] || frame.len() > WRITTEN;
    let pseudo = match headers.version {
        4 => {
            let address = |octets| u32::from_be_bytes(wire::headers::unmapped(octets).unwrap_or_default());
            let [source, destination] = [&headers.source, &headers.destination].map(address);
            checksum::pseudo4(source, destination, headers.protocol, upper.len() as u16)
        }
        _ => {
            let [source, destination] = [headers.source, headers.destination].map(u128::from_be_bytes);
            checksum::pseudo6(source, destination, headers.protocol, upper.len() as u32)
        }
    };
    let header = headers.version == 6 || checksum::verify(&frame[14..34]);
    let data = no_checksum || pseudo.with(upper).fold() == 0xffff;
    (outward || inward) && headers.ttl == 63 && header && data
}

/// Whether one is right that has left with the tags that it had when it came in as `sent`.
pub fn right_with_tags(frame: &[u8], sent: &Frame, length: usize, way: PortId) -> bool {
    let behind = ADDRESSES + length;
    frame[ADDRESSES..behind] == sent.bytes[ADDRESSES..behind]
        && right(&[&frame[..ADDRESSES], &frame[behind..]].concat(), way)
}

/// Whether one is right that has left through the tunnel.
pub fn right_in_tunnel(frame: &[u8], way: PortId) -> bool {
    frame[23] == protocol::GRE && right(&[&frame[..14], &frame[14 + GRE..]].concat(), way)
}
