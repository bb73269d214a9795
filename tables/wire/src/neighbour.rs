//! The messages of neighbour discovery (RFC 4861): solicitations and advertisements, in Ethernet
//! frames.

use std::net::Ipv6Addr;

use crate::{Mac, checksum, ethernet, ipv6, protocol};

/// ICMPv6 type: who has this address?
pub const SOLICITATION: u8 = 135;
/// ICMPv6 type: I have.
pub const ADVERTISEMENT: u8 = 136;
/// Flag of an advertisement: the sender is a router.
pub const ROUTER: u8 = 0x80;
/// Flag of an advertisement: it answers a solicitation.
pub const SOLICITED: u8 = 0x40;
/// Flag of an advertisement: it replaces what was known.
pub const OVERRIDE: u8 = 0x20;

/// The group of all hosts on the link.
pub const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);

/// Bytes of a message without options.
const LENGTH: usize = 24;
/// Hop limit of all messages: they came over no router.
const HOP_LIMIT: u8 = 255;
/// Option: the sender's link address; the target's is the next.
pub const SOURCE_LINK: u8 = 1;
const TARGET_LINK: u8 = 2;

/// A message with all that is said of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    /// Who sends the frame.
    pub from_mac: Mac,
    /// To whom.
    pub to_mac: Mac,
    /// The packet's source.
    pub from: Ipv6Addr,
    /// Its destination.
    pub to: Ipv6Addr,
    /// [`SOLICITATION`] or [`ADVERTISEMENT`].
    pub kind: u8,
    /// Of an advertisement.
    pub flags: u8,
    /// The address in question.
    pub target: Ipv6Addr,
    /// The link address option: in a solicitation the sender's, in an advertisement the target's.
    pub link: Option<Mac>,
}

impl Message {
    /// Reads a frame; `None` when it is no such message or fails one of the tests of RFC 4861, 7.1.
    pub fn parse(bytes: &[u8]) -> Option<Message> {
        let Carried { from_mac, to_mac, from, to, message } = Carried::parse(bytes)?;
        let (head, more) = message.split_first_chunk::<LENGTH>()?;
        let &[kind @ (SOLICITATION | ADVERTISEMENT), 0, _, _, flags, _, _, _, ref target @ ..] = head else {
            return None;
        };
        let target = Ipv6Addr::from(*target.first_chunk::<16>()?);
        let mut link = None;
        for option in options(more) {
            let (option, value) = option?;
            if option == link_option(kind) && value.len() == 6 {
                link = value.first_chunk().copied().map(Mac);
            }
        }
        let unspecified = from.is_unspecified();
        let wrong_for_all = unspecified && (kind == ADVERTISEMENT || link.is_some());
        let wrong_for_group = to.is_multicast() && kind == ADVERTISEMENT && flags & SOLICITED != 0;
        let wrong = wrong_for_all || wrong_for_group || target.is_multicast();
        (!wrong).then_some(Message { from_mac, to_mac, from, to, kind, flags, target, link })
    }

    /// The frame.
    pub fn emit(&self) -> Vec<u8> {
        let mut message = vec![0; LENGTH];
        (message[0], message[4]) = (self.kind, self.flags);
        message[8..].copy_from_slice(&self.target.octets());
        if let Some(link) = self.link {
            message.extend([link_option(self.kind), 1]);
            message.extend(link.0);
        }
        let Message { from_mac, to_mac, from, to, .. } = *self;
        Carried { from_mac, to_mac, from, to, message: &message }.emit()
    }
}

/// A message of neighbour or router discovery, and what it is carried by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Carried<'a> {
    /// Who sends the frame.
    pub from_mac: Mac,
    /// To whom.
    pub to_mac: Mac,
    /// The packet's source.
    pub from: Ipv6Addr,
    /// Its destination.
    pub to: Ipv6Addr,
    /// From the ICMP type on.
    pub message: &'a [u8],
}

impl<'a> Carried<'a> {
    /// Reads a frame; `None` unless it is a whole ICMPv6 message with a right checksum, which came
    /// over no router.
    pub fn parse(bytes: &'a [u8]) -> Option<Carried<'a>> {
        let frame =
            ethernet::Frame::parse(bytes).ok().filter(|frame| frame.ether_type() == ethernet::IPV6)?;
        let ip = ipv6::Packet::parse(frame.payload()).ok()?;
        let (message, from, to) = (ip.payload(), ip.source(), ip.destination());
        let whole = message.len() == usize::from(ip.payload_len());
        let known = whole && ip.next_header() == protocol::ICMP6 && ip.hop_limit() == HOP_LIMIT;
        let right = known && sum(from, to, message).fold() == 0xffff;
        right.then_some(Carried { from_mac: frame.source(), to_mac: frame.destination(), from, to, message })
    }

    /// The frame; the message's checksum is filled in.
    pub fn emit(&self) -> Vec<u8> {
        let mut message = self.message.to_vec();
        message[2..4].fill(0);
        let sum = sum(self.from, self.to, &message).finish();
        message[2..4].copy_from_slice(&sum.to_be_bytes());
        let link =
            ethernet::Repr { destination: self.to_mac, source: self.from_mac, ether_type: ethernet::IPV6 };
        let header = ipv6::Repr {
            next_header: protocol::ICMP6,
            hop_limit: HOP_LIMIT,
            ..ipv6::Repr::new(self.from, self.to)
        };
        [&link.header()[..], &header.header(message.len()), &message].concat()
    }
}

/// The options of a message: type, and what stands behind type and length. `None` for what is no
/// option, and the last.
pub fn options(mut bytes: &[u8]) -> impl Iterator<Item = Option<(u8, &[u8])>> {
    std::iter::from_fn(move || {
        let (&kind, &words) = (bytes.first()?, bytes.get(1).unwrap_or(&0));
        let length = usize::from(words) * 8;
        let value = bytes.get(2..length).filter(|_| length > 0);
        bytes = value.map_or(&[], |_| &bytes[length..]);
        Some(value.map(|value| (kind, value)))
    })
}

fn link_option(kind: u8) -> u8 {
    if kind == SOLICITATION { SOURCE_LINK } else { TARGET_LINK }
}

fn sum(from: Ipv6Addr, to: Ipv6Addr, message: &[u8]) -> checksum::Sum {
    let length = message.len() as u32;
    checksum::pseudo6(from.to_bits(), to.to_bits(), protocol::ICMP6, length).with(message)
}

/// The group that a host listens to which has an address (RFC 4291, 2.7.1).
pub fn solicited_node(address: Ipv6Addr) -> Ipv6Addr {
    let group: u128 = 0xff02_0000_0000_0000_0000_0001_ff00_0000;
    Ipv6Addr::from_bits(group | address.to_bits() & 0xff_ffff)
}

/// The Ethernet address of a group (RFC 2464, 7).
pub fn group_mac(group: Ipv6Addr) -> Mac {
    let [.., a, b, c, d] = group.octets();
    Mac([0x33, 0x33, a, b, c, d])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn any_message() -> impl Strategy<Value = Message> {
        let link = prop::option::of(any::<[u8; 6]>().prop_map(Mac));
        (any::<[u8; 6]>(), 1u128.., 0u128..1 << 100, any::<bool>(), any::<u8>(), 0u128..1 << 100, link)
            .prop_map(|(mac, from, to, solicits, flags, target, link)| Message {
                from_mac: Mac(mac),
                to_mac: Mac::BROADCAST,
                from: from.into(),
                to: to.into(),
                kind: if solicits { SOLICITATION } else { ADVERTISEMENT },
                flags,
                target: target.into(),
                link,
            })
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(message in any_message()) {
            prop_assert_eq!(Message::parse(&message.emit()), Some(message));
        }

        #[test]
        fn what_was_changed_is_refused(message in any_message(), at in 18usize..78, bit in 0u8..8) {
            let mut bytes = message.emit();
            if let Some(byte) = bytes.get_mut(at) {
                *byte ^= 1 << bit;
                prop_assert_eq!(Message::parse(&bytes), None);
            }
        }

        #[test]
        fn any_bytes_are_read_or_refused(mut bytes in prop::collection::vec(any::<u8>(), 0..120)) {
            if let Some(front) = bytes.first_chunk_mut::<22>() {
                front[12..].copy_from_slice(&[0x86, 0xdd, 0x60, 0, 0, 0, 0, 40, 58, 255]);
            }
            let _ = Message::parse(&bytes);
        }
    }

    #[test]
    fn groups() {
        let address: Ipv6Addr = "2001:db8::1234:5678".parse().unwrap();
        let group = solicited_node(address);
        assert_eq!(group.to_string(), "ff02::1:ff34:5678");
        assert_eq!(group_mac(group), Mac([0x33, 0x33, 0xff, 0x34, 0x56, 0x78]));
    }
}
