//! IPv6 (RFC 8200) and the walk over its extension headers.

use std::net::Ipv6Addr;

use crate::{ParseError, protocol, require, u16_at, u32_at};

/// Bytes of the fixed header.
pub const HEADER: usize = 40;
/// The MTU that every IPv6 link has at least (RFC 8200, 5).
pub const MINIMUM_MTU: usize = 1280;

/// A packet with a whole fixed header of version 6. Its payload length may exceed the bytes given.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'a>(&'a [u8]);

/// Where the walk over the extension headers ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UpperLayer {
    /// The last next header value: that of the upper layer, of a header the walk does not know, or
    /// of one cut short.
    pub protocol: u8,
    /// Where that header starts, from the start of the packet; may lie beyond the bytes given.
    pub offset: usize,
    /// Whether the packet is a fragment other than the first, so that `offset` shows data and not a
    /// header.
    pub later_fragment: bool,
}

impl<'a> Packet<'a> {
    /// Checks what the accessors rely on.
    #[inline]
    pub fn parse(bytes: &'a [u8]) -> Result<Packet<'a>, ParseError> {
        require("IPv6", bytes, HEADER)?;
        if bytes[0] >> 4 != 6 {
            return Err(ParseError::Malformed { what: "IPv6", field: "version" });
        }
        Ok(Packet(bytes))
    }

    /// Traffic class: DSCP and ECN.
    pub fn traffic_class(&self) -> u8 {
        (u16_at(self.0, 0) >> 4) as u8
    }

    /// Flow label, 20 bits.
    pub fn flow_label(&self) -> u32 {
        u32_at(self.0, 0) & 0xf_ffff
    }

    /// Payload length as the header states it.
    pub fn payload_len(&self) -> u16 {
        u16_at(self.0, 4)
    }

    /// Next header of the fixed header.
    pub fn next_header(&self) -> u8 {
        self.0[6]
    }

    /// Hop limit.
    pub fn hop_limit(&self) -> u8 {
        self.0[7]
    }

    /// Source address.
    pub fn source(&self) -> Ipv6Addr {
        Ipv6Addr::from(self.address(8))
    }

    /// Destination address.
    pub fn destination(&self) -> Ipv6Addr {
        Ipv6Addr::from(self.address(24))
    }

    fn address(&self, at: usize) -> [u8; 16] {
        let mut bytes = [0; 16];
        bytes.copy_from_slice(&self.0[at..at + 16]);
        bytes
    }

    /// What follows the fixed header, up to the payload length or to the end of the bytes.
    pub fn payload(&self) -> &'a [u8] {
        &self.0[HEADER..(HEADER + usize::from(self.payload_len())).min(self.0.len())]
    }

    /// The options of the hop-by-hop header, if there is one and it is all here (RFC 8200, 4.3).
    pub fn hop_by_hop(&self) -> Option<&'a [u8]> {
        let payload = self.payload();
        let length = (usize::from(*payload.get(1)?) + 1) * 8;
        (self.next_header() == protocol::HOP_BY_HOP).then_some(payload.get(2..length)?)
    }

    /// Walks over hop-by-hop, routing, destination options, authentication and fragment headers.
    /// Each header is at least 8 bytes long, so the walk ends with the bytes.
    pub fn upper_layer(&self) -> UpperLayer {
        let mut upper = UpperLayer { protocol: self.next_header(), offset: HEADER, later_fragment: false };
        loop {
            let Some([next, length]) = self.0.get(upper.offset..upper.offset + 2) else { return upper };
            let bytes = match upper.protocol {
                protocol::HOP_BY_HOP | protocol::ROUTING | protocol::DESTINATION_OPTIONS => {
                    (usize::from(*length) + 1) * 8
                }
                protocol::AUTHENTICATION => (usize::from(*length) + 2) * 4,
                protocol::FRAGMENT => {
                    let Some(word) = self.0.get(upper.offset + 2..upper.offset + 4) else { return upper };
                    upper.later_fragment = u16_at(word, 0) & 0xfff8 != 0;
                    8
                }
                _ => return upper,
            };
            upper.protocol = *next;
            upper.offset += bytes;
            if upper.later_fragment {
                return upper;
            }
        }
    }
}

/// Options of hop-by-hop and destination headers (RFC 8200, 4.2).
pub mod option {
    /// A single byte of padding.
    pub const PAD1: u8 = 0;
    /// The bits of a kind of which any says: who does not know it drops the packet.
    pub const REFUSED: u8 = 0xc0;

    /// The kinds of a header's options, without single bytes of padding; `None`, and no more, where
    /// they make no sense.
    pub fn kinds(options: &[u8]) -> impl Iterator<Item = Option<u8>> + '_ {
        let mut rest = options;
        std::iter::from_fn(move || {
            while let [PAD1, behind @ ..] = rest {
                rest = behind;
            }
            let (&kind, behind) = rest.split_first()?;
            let behind = behind.split_first().and_then(|(length, behind)| behind.get(usize::from(*length)..));
            rest = behind.unwrap_or_default();
            Some(behind.map(|_| kind))
        })
    }
}

/// The values of a fixed header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repr {
    /// Traffic class.
    pub traffic_class: u8,
    /// Flow label, 20 bits.
    pub flow_label: u32,
    /// Next header.
    pub next_header: u8,
    /// Hop limit.
    pub hop_limit: u8,
    /// Source address.
    pub source: Ipv6Addr,
    /// Destination address.
    pub destination: Ipv6Addr,
}

impl Repr {
    /// UDP from `source` to `destination`, hop limit 64, the rest zero.
    pub fn new(source: Ipv6Addr, destination: Ipv6Addr) -> Repr {
        Repr {
            traffic_class: 0,
            flow_label: 0,
            next_header: protocol::UDP,
            hop_limit: 64,
            source,
            destination,
        }
    }

    /// The values of a packet's fixed header.
    pub fn of(packet: &Packet<'_>) -> Repr {
        Repr {
            traffic_class: packet.traffic_class(),
            flow_label: packet.flow_label(),
            next_header: packet.next_header(),
            hop_limit: packet.hop_limit(),
            source: packet.source(),
            destination: packet.destination(),
        }
    }

    /// The fixed header of a packet with `payload` bytes behind it. A length beyond 65,535 is
    /// stated as 65,535.
    pub fn header(&self, payload: usize) -> [u8; HEADER] {
        let mut bytes = [0; HEADER];
        let first = 6 << 28 | u32::from(self.traffic_class) << 20 | self.flow_label & 0xf_ffff;
        bytes[..4].copy_from_slice(&first.to_be_bytes());
        bytes[4..6].copy_from_slice(&u16::try_from(payload).unwrap_or(u16::MAX).to_be_bytes());
        bytes[6] = self.next_header;
        bytes[7] = self.hop_limit;
        bytes[8..24].copy_from_slice(&self.source.octets());
        bytes[24..40].copy_from_slice(&self.destination.octets());
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn repr(next_header: u8) -> Repr {
        let (source, destination) = ("2001:db8::1".parse().unwrap(), "2001:db8:1::2".parse().unwrap());
        Repr { traffic_class: 0xb8, flow_label: 0x12345, next_header, ..Repr::new(source, destination) }
    }

    #[test]
    fn header_round_trips() {
        let bytes = [&repr(17).header(2)[..], &[1, 2, 3]].concat();
        let packet = Packet::parse(&bytes).unwrap();
        assert_eq!(Repr::of(&packet), repr(17));
        assert_eq!(packet.payload(), [1, 2]);
    }

    #[test]
    fn walk_passes_every_extension_header() {
        let hop_by_hop = [protocol::FRAGMENT, 0, 1, 4, 0, 0, 0, 0];
        let first = [protocol::AUTHENTICATION, 0, 0, 1, 0, 0, 0, 9];
        let authentication = [protocol::TCP, 1, 0, 0, 0, 0, 0, 1, 0, 0, 0, 2];
        let bytes =
            [&repr(protocol::HOP_BY_HOP).header(30)[..], &hop_by_hop, &first, &authentication, &[0, 22]]
                .concat();
        let upper = Packet::parse(&bytes).unwrap().upper_layer();
        assert_eq!(upper, UpperLayer { protocol: protocol::TCP, offset: 68, later_fragment: false });

        let later = [protocol::TCP, 0, 0, 8, 0, 0, 0, 9];
        let bytes = [&repr(protocol::FRAGMENT).header(8)[..], &later].concat();
        let upper = Packet::parse(&bytes).unwrap().upper_layer();
        assert_eq!(upper, UpperLayer { protocol: protocol::TCP, offset: 48, later_fragment: true });
    }

    #[test]
    fn options_are_told_by_kind() {
        let options = |header: &[u8]| {
            let bytes = [&repr(protocol::HOP_BY_HOP).header(header.len())[..], header].concat();
            Packet::parse(&bytes).unwrap().hop_by_hop().map(<[u8]>::to_vec)
        };
        assert_eq!(options(&[59, 0, 5, 2, 0, 0, 1, 0]), Some(vec![5, 2, 0, 0, 1, 0]));
        assert_eq!(options(&[59, 1, 1, 4, 0, 0, 0, 0]), None);
        assert_eq!(Packet::parse(&repr(17).header(0)).unwrap().hop_by_hop(), None);
        let kinds = |options: &[u8]| option::kinds(options).collect::<Vec<_>>();
        // Router alert, padding of one byte, of more, a jumbogram's length, and one that has
        // nothing in it.
        assert_eq!(
            kinds(&[5, 2, 0, 0, 0, 0, 1, 2, 9, 9, 0xc2, 4, 0, 1, 0, 0, 0x3e, 0]),
            [5, 1, 0xc2, 0x3e].map(Some)
        );
        for wrong in [&[5][..], &[5, 3, 0, 0], &[0, 0x80, 255, 1]] {
            assert_eq!(kinds(wrong), [None]);
        }
        assert_eq!(kinds(&[0, 0, 0]), []);
    }

    proptest! {
        #[test]
        fn no_bytes_panic(mut bytes in proptest::collection::vec(any::<u8>(), 1..300), next in 0usize..5) {
            bytes[0] = 0x60;
            if let Some(byte) = bytes.get_mut(6) {
                *byte = [0, 43, 44, 51, 60][next];
            }
            if let Ok(packet) = Packet::parse(&bytes) {
                let _ = (Repr::of(&packet), packet.payload(), packet.upper_layer());
                let kinds = option::kinds(packet.hop_by_hop().unwrap_or(&bytes));
                prop_assert!(kinds.count() <= bytes.len());
            }
        }
    }
}
