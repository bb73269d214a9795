//! One parse of an IP packet for all who judge it by its headers: the flow table, the filter and
//! NAT.
//!
//! The views of the other modules check what they show and no more; [`Headers`] is plain values,
//! read once, of both families in one shape, so that what stands on it need not know two. An IPv4
//! address is IPv4-mapped (`::ffff:a.b.c.d`, RFC 4291, 2.5.5.2).
//!
//! Nearly every packet is IPv4 without options or IPv6 without extension headers, whole, TCP or
//! UDP: that way is straight. The rest walks over at most [`EXTENSIONS`] extension headers, for a
//! walk that ends only with the bytes is a way to keep a router busy with 180 headers a packet.
//!
//! Ports are there only where the packet shows them: a later fragment has none, and a first
//! fragment or a whole packet in which the upper layer's header is cut short is refused, since that
//! is how filters are evaded (RFC 1858, RFC 7112). A packet quoted in an ICMP error is cut short by
//! nature and is read by [`Headers::quoted`].

use crate::checksum::{self, Sum};
use crate::{Reason, icmp4, icmp6, ipv4, ipv6, protocol, tcp, u16_at, u32_at};

/// Extension headers of one IPv6 packet at most; RFC 8504, 5.3 lets nodes have such limits, and no
/// traffic has so many.
pub const EXTENSIONS: usize = 8;

/// Whether a packet is a fragment, and which.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fragment {
    /// Not a fragment, or the only one of its packet (RFC 6946).
    #[default]
    Whole,
    /// The one with the upper layer's header.
    First,
    /// One without the upper layer's header: its ports are not known.
    Later,
}

/// What an IP packet's headers say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Headers {
    /// Source address; IPv4 as IPv4-mapped IPv6.
    pub source: [u8; 16],
    /// Destination address; IPv4 as IPv4-mapped IPv6.
    pub destination: [u8; 16],
    /// 4 or 6.
    pub version: u8,
    /// Of the upper layer, behind IPv6 extension headers; an authentication header is one as well,
    /// as in Linux's filter. Of a later IPv6 fragment: what its fragment header says.
    pub protocol: u8,
    /// Source port. 0 where there is none; the identifier of an ICMP query; the high half of a GRE
    /// key (version 0), or of an SPI (ESP, AH).
    pub source_port: u16,
    /// Destination port. 0 where there is none; the identifier of an ICMP query; the low half of a
    /// GRE key or SPI.
    pub destination_port: u16,
    /// Flags of a TCP segment ([`tcp::flag`]), else 0.
    pub tcp_flags: u8,
    /// Type of an ICMP or ICMPv6 message, else 0.
    pub icmp_type: u8,
    /// Code of an ICMP or ICMPv6 message, else 0.
    pub icmp_code: u8,
    /// Differentiated services code point, 0 to 63.
    pub dscp: u8,
    /// Time to live or hop limit.
    pub ttl: u8,
    /// Of the IP packet with its header as it states it; beyond 65,535 (IPv6) it is 65,535.
    pub length: u16,
    /// Whether the packet is a fragment.
    pub fragment: Fragment,
    /// Identification: always of IPv4, of IPv6 where there is a fragment header.
    pub fragment_id: u32,
    /// Where the upper layer's header (or a later fragment's data) begins, in bytes from the start
    /// of the IP header.
    pub transport: u16,
}

/// The prefix of IPv4-mapped addresses, ::ffff:0:0/96.
const MAPPED: [u8; 12] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff];

/// An IPv4 address as IPv4-mapped IPv6.
#[inline(always)]
pub const fn mapped(address: [u8; 4]) -> [u8; 16] {
    ((address[0] as u128) << 24
        | (address[1] as u128) << 16
        | (address[2] as u128) << 8
        | address[3] as u128
        | 0xffff << 32)
        .to_be_bytes()
}

/// The IPv4 address in an IPv4-mapped one.
#[inline(always)]
pub fn unmapped(address: &[u8; 16]) -> Option<[u8; 4]> {
    let (prefix, rest) = address.split_first_chunk::<12>()?;
    (*prefix == MAPPED).then(|| rest.first_chunk::<4>().copied())?
}

impl Headers {
    /// Reads a packet that is whole: its length as stated is within `ip` (behind it there may be
    /// padding), and the upper layer's header is there unless it is a later fragment.
    ///
    /// Refuses with `BadVersion`, `BadHeaderLength`, `BadTotalLength` (shorter than its header),
    /// `Truncated` (fewer bytes than the headers say; an upper layer's header cut short),
    /// `Malformed` (more than [`EXTENSIONS`] extension headers; a TCP data offset below 5; a TCP
    /// fragment with offset 8, which can only be meant to overwrite flags, RFC 3128).
    #[inline]
    pub fn parse(ip: &[u8]) -> Result<Headers, Reason> {
        let mut headers = Headers::default();
        headers.read(ip)?;
        Ok(headers)
    }

    /// [`Headers::parse`] where the headers are to stay: put together elsewhere and then moved,
    /// they cost the processor as much again as the reading. Of a packet that is refused it says
    /// nothing useful.
    #[inline(always)]
    pub fn read(&mut self, ip: &[u8]) -> Result<(), Reason> {
        self.fill::<true>(ip)
    }

    /// The sum of the pseudo-header of an upper layer's packet of `length` bytes.
    pub fn pseudo(&self, length: usize) -> Sum {
        match (unmapped(&self.source), unmapped(&self.destination)) {
            (Some(source), Some(destination)) if self.version == 4 => {
                let [source, destination] = [source, destination].map(u32::from_be_bytes);
                checksum::pseudo4(source, destination, self.protocol, length as u16)
            }
            _ => {
                let [source, destination] = [self.source, self.destination].map(u128::from_be_bytes);
                checksum::pseudo6(source, destination, self.protocol, length as u32)
            }
        }
    }

    /// Reads a packet as far as an ICMP error quotes it: it may end anywhere behind the first 8
    /// bytes of the upper layer's header (RFC 792), which hold ports and identifiers, and its TCP
    /// flags are 0 where they are not there.
    pub fn quoted(ip: &[u8]) -> Result<Headers, Reason> {
        let mut headers = Headers::default();
        headers.fill::<false>(ip)?;
        Ok(headers)
    }

    #[inline(always)]
    fn fill<const WHOLE: bool>(&mut self, ip: &[u8]) -> Result<(), Reason> {
        (self.source_port, self.destination_port) = (0, 0);
        (self.tcp_flags, self.icmp_type, self.icmp_code) = (0, 0, 0);
        self.fragment = Fragment::Whole;
        match ip.first().map(|byte| byte >> 4) {
            Some(4) => self.read4::<WHOLE>(ip),
            Some(6) => self.read6::<WHOLE>(ip),
            Some(_) => Err(Reason::BadVersion),
            None => Err(Reason::Truncated),
        }
    }

    #[inline(always)]
    fn read4<const WHOLE: bool>(&mut self, ip: &[u8]) -> Result<(), Reason> {
        let header = ip.first_chunk::<{ ipv4::HEADER }>().ok_or(Reason::Truncated)?;
        let transport = usize::from(header[0] & 15) * 4;
        let length = u16_at(header, 2);
        if transport < ipv4::HEADER {
            return Err(Reason::BadHeaderLength);
        }
        if usize::from(length) < transport {
            return Err(Reason::BadTotalLength);
        }
        let end = end::<WHOLE>(ip, usize::from(length))?;
        if end < transport {
            return Err(Reason::Truncated);
        }
        let word = u16_at(header, 6);
        self.source = mapped([header[12], header[13], header[14], header[15]]);
        self.destination = mapped([header[16], header[17], header[18], header[19]]);
        (self.version, self.protocol) = (4, header[9]);
        (self.dscp, self.ttl) = (header[1] >> 2, header[8]);
        self.length = length;
        self.fragment_id = u32::from(u16_at(header, 4));
        self.transport = transport as u16;
        if word & (ipv4::MORE_FRAGMENTS | ipv4::FRAGMENT_OFFSET) != 0 {
            self.set_fragment(word & ipv4::FRAGMENT_OFFSET)?;
        }
        self.read_upper::<WHOLE>(&ip[transport..end])
    }

    #[inline(always)]
    fn read6<const WHOLE: bool>(&mut self, ip: &[u8]) -> Result<(), Reason> {
        let header = ip.first_chunk::<{ ipv6::HEADER }>().ok_or(Reason::Truncated)?;
        let length = ipv6::HEADER + usize::from(u16_at(header, 4));
        let end = end::<WHOLE>(ip, length)?;
        // Invariant of both: 16 bytes of a header of 40.
        let (source, rest) = header[8..].split_first_chunk().ok_or(Reason::Truncated)?;
        let destination = rest.first_chunk().ok_or(Reason::Truncated)?;
        (self.source, self.destination) = (*source, *destination);
        (self.version, self.protocol) = (6, header[6]);
        (self.dscp, self.ttl) = ((u16_at(header, 0) >> 6) as u8 & 63, header[7]);
        self.length = u16::try_from(length).unwrap_or(u16::MAX);
        self.fragment_id = 0;
        self.transport = ipv6::HEADER as u16;
        if is_extension(self.protocol) {
            self.walk(&ip[..end])?;
        }
        self.read_upper::<WHOLE>(&ip[usize::from(self.transport)..end])
    }

    /// Passes the extension headers; afterwards `transport` is within `ip`.
    #[cold]
    fn walk(&mut self, ip: &[u8]) -> Result<(), Reason> {
        for _ in 0..EXTENSIONS {
            if !is_extension(self.protocol) || self.fragment == Fragment::Later {
                return Ok(());
            }
            let at = usize::from(self.transport);
            let Some(extension) = ip.get(at..at + 8) else { return Err(Reason::Truncated) };
            let units = usize::from(extension[1]);
            let (kind, bytes) = match std::mem::replace(&mut self.protocol, extension[0]) {
                protocol::FRAGMENT => (protocol::FRAGMENT, 8),
                other => (other, (units + 1) * 8),
            };
            if ip.len() < at + bytes {
                return Err(Reason::Truncated);
            }
            // At most 40 + 8 * 2048.
            self.transport = (at + bytes) as u16;
            if kind == protocol::FRAGMENT {
                self.fragment_id = u32_at(extension, 4);
                let word = u16_at(extension, 2);
                if word & 0xfff9 != 0 {
                    self.set_fragment(word >> 3)?;
                }
            }
        }
        let passed = !is_extension(self.protocol) || self.fragment == Fragment::Later;
        if passed { Ok(()) } else { Err(Reason::Malformed) }
    }

    /// `offset` counts units of 8 bytes.
    #[cold]
    fn set_fragment(&mut self, offset: u16) -> Result<(), Reason> {
        if offset == 1 && self.protocol == protocol::TCP {
            return Err(Reason::Malformed);
        }
        self.fragment = if offset == 0 { Fragment::First } else { Fragment::Later };
        Ok(())
    }

    #[inline(always)]
    fn read_upper<const WHOLE: bool>(&mut self, upper: &[u8]) -> Result<(), Reason> {
        if self.fragment == Fragment::Later {
            return Ok(());
        }
        match self.protocol {
            protocol::TCP => {
                self.read_ports::<8>(upper)?;
                match upper.first_chunk::<{ tcp::HEADER }>() {
                    Some(header) if header[12] >> 4 < 5 => return Err(Reason::Malformed),
                    Some(header) if WHOLE && upper.len() < usize::from(header[12] >> 4) * 4 => {
                        return Err(Reason::Truncated);
                    }
                    Some(header) => self.tcp_flags = header[13],
                    None if WHOLE => return Err(Reason::Truncated),
                    None => {}
                }
                Ok(())
            }
            protocol::UDP | protocol::UDP_LITE => self.read_ports::<8>(upper),
            other => self.read_rest(other, upper),
        }
    }

    #[inline(always)]
    fn read_ports<const NEED: usize>(&mut self, upper: &[u8]) -> Result<(), Reason> {
        let header = upper.first_chunk::<NEED>().ok_or(Reason::Truncated)?;
        self.source_port = u16_at(header, 0);
        self.destination_port = u16_at(header, 2);
        Ok(())
    }

    /// The upper layers other than TCP and UDP.
    fn read_rest(&mut self, protocol: u8, upper: &[u8]) -> Result<(), Reason> {
        match protocol {
            protocol::ICMP if self.version == 6 => Ok(()),
            protocol::ICMP6 if self.version == 4 => Ok(()),
            protocol::ICMP | protocol::ICMP6 => {
                let header = upper.first_chunk::<8>().ok_or(Reason::Truncated)?;
                (self.icmp_type, self.icmp_code) = (header[0], header[1]);
                if has_identifier(self.version, header[0]) {
                    self.source_port = u16_at(header, 4);
                    self.destination_port = self.source_port;
                }
                Ok(())
            }
            protocol::GRE => {
                let header = upper.first_chunk::<4>().ok_or(Reason::Truncated)?;
                // RFC 2890, 2. In version 1 (PPTP, RFC 2637) the key holds a length, which differs
                // from packet to packet.
                let (checksum, key) = (header[0] & 0x80 != 0, header[0] & 0x20 != 0);
                if key && header[1] & 7 == 0 {
                    let at = if checksum { 8 } else { 4 };
                    self.read_ports::<4>(upper.get(at..).unwrap_or_default())?;
                }
                Ok(())
            }
            protocol::ESP => self.read_ports::<4>(upper),
            protocol::AUTHENTICATION => self.read_ports::<4>(upper.get(4..).unwrap_or_default()),
            _ if protocol::has_ports(protocol) => self.read_ports::<8>(upper),
            _ => Ok(()),
        }
    }
}

/// Whether an ICMP message is a query or its answer with an identifier: echo; in IPv4 also
/// timestamp, information (RFC 792) and address mask (RFC 950).
#[inline]
fn has_identifier(version: u8, icmp_type: u8) -> bool {
    match version {
        4 => matches!(icmp_type, icmp4::ECHO_REPLY | icmp4::ECHO | 13..=18),
        _ => matches!(icmp_type, icmp6::ECHO | icmp6::ECHO_REPLY),
    }
}

/// Where a packet of this length ends in the bytes given.
#[inline(always)]
fn end<const WHOLE: bool>(ip: &[u8], length: usize) -> Result<usize, Reason> {
    if length <= ip.len() {
        Ok(length)
    } else if WHOLE {
        Err(Reason::Truncated)
    } else {
        Ok(ip.len())
    }
}

#[inline(always)]
fn is_extension(protocol: u8) -> bool {
    matches!(
        protocol,
        protocol::HOP_BY_HOP | protocol::ROUTING | protocol::FRAGMENT | protocol::DESTINATION_OPTIONS
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ip4(protocol: u8, word: u16, upper: &[u8]) -> Vec<u8> {
        let repr = ipv4::Repr {
            tos: 0xb8,
            id: 77,
            fragment: word,
            ttl: 9,
            protocol,
            ..ipv4::Repr::new([10, 0, 0, 1].into(), [192, 0, 2, 7].into())
        };
        [&repr.header(upper.len())[..], upper].concat()
    }

    fn ip6(next_header: u8, rest: &[u8]) -> Vec<u8> {
        let (source, destination) = ("2001:db8::1".parse().unwrap(), "2001:db8:1::2".parse().unwrap());
        let repr = ipv6::Repr {
            traffic_class: 0xb8,
            flow_label: 0xf_ffff,
            next_header,
            ..ipv6::Repr::new(source, destination)
        };
        [&repr.header(rest.len())[..], rest].concat()
    }

    fn segment(flags: u8) -> Vec<u8> {
        let mut bytes = vec![0x9c, 0x40, 0, 22, 0, 0, 0, 1, 0, 0, 0, 2, 0x50, flags, 0xff, 0xff, 0, 0, 0, 0];
        bytes.extend_from_slice(b"data");
        bytes
    }

    fn ports(headers: &Headers) -> (u16, u16) {
        (headers.source_port, headers.destination_port)
    }

    #[test]
    fn a_plain_packet_of_each_family() {
        let bytes = [ip4(protocol::TCP, ipv4::DONT_FRAGMENT, &segment(tcp::flag::SYN)), vec![0; 6]].concat();
        let headers = Headers::parse(&bytes).unwrap();
        let expected = Headers {
            source: [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 1],
            destination: [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 192, 0, 2, 7],
            version: 4,
            protocol: 6,
            source_port: 40_000,
            destination_port: 22,
            tcp_flags: tcp::flag::SYN,
            icmp_type: 0,
            icmp_code: 0,
            dscp: 46,
            ttl: 9,
            length: 44,
            fragment: Fragment::Whole,
            fragment_id: 77,
            transport: 20,
        };
        assert_eq!(headers, expected);
        assert_eq!(unmapped(&headers.source), Some([10, 0, 0, 1]));

        let headers = Headers::parse(&ip6(protocol::TCP, &segment(tcp::flag::ACK))).unwrap();
        assert_eq!((headers.version, headers.protocol, ports(&headers)), (6, 6, (40_000, 22)));
        assert_eq!((headers.dscp, headers.ttl, headers.length, headers.transport), (46, 64, 64, 40));
        assert_eq!((headers.tcp_flags, headers.fragment), (tcp::flag::ACK, Fragment::Whole));
        assert_eq!(headers.destination[..6], [0x20, 1, 0x0d, 0xb8, 0, 1]);
        assert_eq!(unmapped(&headers.source), None);
    }

    #[test]
    fn options_and_extension_headers_are_passed() {
        let mut bytes = ip4(protocol::UDP, 0, &[1, 1, 1, 1, 0, 53, 0, 53, 0, 8, 0, 0]);
        bytes[0] = 0x46;
        let headers = Headers::parse(&bytes).unwrap();
        assert_eq!((headers.transport, ports(&headers)), (24, (53, 53)));

        let hop_by_hop = [protocol::DESTINATION_OPTIONS, 0, 1, 4, 0, 0, 0, 0];
        let options = [protocol::UDP, 1, 1, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        let udp = [0, 53, 0, 54, 0, 8, 0, 0];
        let rest = [&hop_by_hop[..], &options, &udp].concat();
        let headers = Headers::parse(&ip6(protocol::HOP_BY_HOP, &rest)).unwrap();
        assert_eq!((headers.protocol, headers.transport, ports(&headers)), (17, 64, (53, 54)));

        let chain = |count: u8| {
            let mut rest = [protocol::DESTINATION_OPTIONS, 0, 1, 4, 0, 0, 0, 0].repeat(usize::from(count));
            let last = rest.len() - 8;
            rest[last] = protocol::UDP;
            rest.extend_from_slice(&udp);
            Headers::parse(&ip6(protocol::DESTINATION_OPTIONS, &rest)).map(|headers| ports(&headers))
        };
        assert_eq!(chain(EXTENSIONS as u8), Ok((53, 54)));
        assert_eq!(chain(EXTENSIONS as u8 + 1), Err(Reason::Malformed));
    }

    #[test]
    fn an_authentication_header_is_an_upper_layer_in_both_families() {
        let udp = [0, 53, 0, 54, 0, 8, 0, 0];
        let rest = [&[protocol::UDP, 2, 0, 0, 1, 2, 3, 4, 0, 0, 0, 2, 0, 0, 0, 0], &udp[..]].concat();
        for packet in [ip4(protocol::AUTHENTICATION, 0, &rest), ip6(protocol::AUTHENTICATION, &rest)] {
            let headers = Headers::parse(&packet).unwrap();
            assert_eq!((headers.protocol, ports(&headers)), (protocol::AUTHENTICATION, (0x0102, 0x0304)));
        }
    }

    #[test]
    fn later_fragments_have_no_ports() {
        let first = Headers::parse(&ip4(protocol::TCP, ipv4::MORE_FRAGMENTS, &segment(0))).unwrap();
        assert_eq!((first.fragment, first.fragment_id, ports(&first)), (Fragment::First, 77, (40_000, 22)));
        let later = Headers::parse(&ip4(protocol::TCP, 3, &segment(0))).unwrap();
        assert_eq!((later.fragment, later.protocol, ports(&later)), (Fragment::Later, 6, (0, 0)));

        let fragment = |word: u16, upper: &[u8]| {
            let [high, low] = word.to_be_bytes();
            let rest = [&[protocol::TCP, 0, high, low, 0, 1, 0, 2], upper].concat();
            Headers::parse(&ip6(protocol::FRAGMENT, &rest))
        };
        let first = fragment(1, &segment(0)).unwrap();
        assert_eq!((first.fragment, first.fragment_id), (Fragment::First, 0x1_0002));
        assert_eq!((ports(&first), first.transport), ((40_000, 22), 48));
        let later = fragment(16, &[7; 3]).unwrap();
        assert_eq!((later.fragment, ports(&later), later.transport), (Fragment::Later, (0, 0), 48));
        // RFC 6946.
        assert_eq!(fragment(0, &segment(0)).unwrap().fragment, Fragment::Whole);
    }

    #[test]
    fn fragments_that_hide_ports_or_flags_are_refused() {
        let tiny = &segment(0)[..8];
        assert_eq!(Headers::parse(&ip4(protocol::TCP, ipv4::MORE_FRAGMENTS, tiny)), Err(Reason::Truncated));
        assert_eq!(Headers::parse(&ip4(protocol::TCP, 1, &segment(0))), Err(Reason::Malformed));
        assert!(Headers::parse(&ip4(protocol::UDP, 1, &[0; 8])).is_ok());
    }

    #[test]
    fn identifiers_and_keys_stand_for_ports() {
        let four = |protocol: u8, upper: &[u8]| ports(&Headers::parse(&ip4(protocol, 0, upper)).unwrap());
        assert_eq!(four(protocol::ICMP, &[8, 0, 0, 0, 0x12, 0x34, 0, 1]), (0x1234, 0x1234));
        assert_eq!(four(protocol::ICMP, &[3, 4, 0, 0, 0x12, 0x34, 0, 1]), (0, 0));
        assert_eq!(four(protocol::GRE, &[0x20, 0, 8, 0, 1, 2, 3, 4]), (0x0102, 0x0304));
        assert_eq!(four(protocol::GRE, &[0xa0, 0, 8, 0, 9, 9, 9, 9, 1, 2, 3, 4]), (0x0102, 0x0304));
        assert_eq!(four(protocol::GRE, &[0, 0, 8, 0]), (0, 0));
        assert_eq!(four(protocol::GRE, &[0x30, 1, 0x88, 0x0b, 0, 9, 1, 2]), (0, 0));
        assert_eq!(four(protocol::ESP, &[1, 2, 3, 4, 0, 0, 0, 1]), (0x0102, 0x0304));
        assert_eq!(four(protocol::AUTHENTICATION, &[6, 4, 0, 0, 1, 2, 3, 4]), (0x0102, 0x0304));
        assert_eq!(four(protocol::SCTP, &[0, 5, 0, 6, 0, 0, 0, 0]), (5, 6));
        assert_eq!(four(protocol::OSPF, &[]), (0, 0));
        let echo = Headers::parse(&ip6(protocol::ICMP6, &[129, 0, 0, 0, 0x12, 0x34, 0, 1])).unwrap();
        assert_eq!((echo.icmp_type, ports(&echo)), (129, (0x1234, 0x1234)));
    }

    #[test]
    fn what_is_cut_short_or_contradicts_itself_is_named() {
        let packet = ip4(protocol::TCP, 0, &segment(0));
        for end in 0..packet.len() {
            assert_eq!(Headers::parse(&packet[..end]), Err(Reason::Truncated), "{end} bytes");
        }
        let changed = |at: usize, value: u8| {
            let mut packet = packet.clone();
            packet[at] = value;
            Headers::parse(&packet)
        };
        assert_eq!(changed(0, 0x55), Err(Reason::BadVersion));
        assert_eq!(changed(0, 0x44), Err(Reason::BadHeaderLength));
        assert_eq!(changed(3, 19), Err(Reason::BadTotalLength));
        assert_eq!(changed(3, 39), Err(Reason::Truncated));
        assert_eq!(changed(32, 0x40), Err(Reason::Malformed));
        assert_eq!(changed(32, 0x70), Err(Reason::Truncated));
        let packet = ip6(protocol::UDP, &[0; 8]);
        for end in 0..packet.len() {
            assert_eq!(Headers::parse(&packet[..end]), Err(Reason::Truncated), "{end} bytes");
        }
    }

    #[test]
    fn a_quote_needs_eight_bytes_of_the_upper_layer() {
        let packet = ip4(protocol::TCP, 0, &segment(tcp::flag::SYN));
        let quote = Headers::quoted(&packet[..28]).unwrap();
        assert_eq!((ports(&quote), quote.tcp_flags, quote.length), ((40_000, 22), 0, 44));
        assert_eq!(Headers::quoted(&packet[..40]).unwrap().tcp_flags, tcp::flag::SYN);
        assert_eq!(Headers::quoted(&packet[..27]), Err(Reason::Truncated));
        assert_eq!(Headers::quoted(&packet), Headers::parse(&packet));
    }

    /// Random bytes that get past the first checks: versions, protocols and lengths that mean
    /// something.
    fn bytes() -> impl Strategy<Value = Vec<u8>> {
        let protocols = [0, 1, 6, 17, 43, 44, 47, 50, 51, 58, 59, 60, 132];
        let any_bytes = proptest::collection::vec(any::<u8>(), 0..200);
        (any_bytes, 0u8..3, proptest::collection::vec(0..protocols.len(), 4), any::<bool>(), 0u8..4).prop_map(
            move |(mut bytes, family, next, fits, units)| {
                let length = bytes.len() as u16;
                let mut set = |at: usize, value: u8| {
                    if let Some(byte) = bytes.get_mut(at) {
                        *byte = value;
                    }
                };
                let next: Vec<u8> = next.into_iter().map(|index| protocols[index]).collect();
                let stated = |header: u16| if fits { length.saturating_sub(header) } else { 0x0101 };
                if family == 0 {
                    set(0, 0x45 + units % 2);
                    stated(0).to_be_bytes().into_iter().enumerate().for_each(|(at, byte)| set(2 + at, byte));
                    set(6, units / 2 * 0x20);
                    set(9, next[0]);
                } else if family == 1 {
                    set(0, 0x60);
                    stated(40).to_be_bytes().into_iter().enumerate().for_each(|(at, byte)| set(4 + at, byte));
                    set(6, next[0]);
                    for (index, next) in next[1..].iter().enumerate() {
                        set(40 + 8 * index, *next);
                        set(41 + 8 * index, units / 2);
                        set(43 + 8 * index, units * 4 % 9);
                    }
                }
                bytes
            },
        )
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(20_000))]

        /// Against the views, which were written apart from this.
        #[test]
        fn agrees_with_the_views(bytes in bytes()) {
            let Ok(headers) = Headers::parse(&bytes) else { return Ok(()) };
            prop_assert_eq!(Headers::quoted(&bytes), Ok(headers));
            let (protocol, offset, later) = match headers.version {
                4 => {
                    let packet = ipv4::Packet::parse(&bytes).unwrap();
                    prop_assert_eq!(headers.source, packet.source().to_ipv6_mapped().octets());
                    prop_assert_eq!(headers.destination, packet.destination().to_ipv6_mapped().octets());
                    prop_assert_eq!((headers.dscp, headers.ttl), (packet.tos() >> 2, packet.ttl()));
                    prop_assert_eq!(headers.length, packet.total_len());
                    prop_assert_eq!(headers.fragment == Fragment::First, packet.more_fragments() && packet.fragment_offset() == 0);
                    (packet.protocol(), packet.header_len(), packet.fragment_offset() != 0)
                }
                _ => {
                    let packet = ipv6::Packet::parse(&bytes).unwrap();
                    prop_assert_eq!(headers.source, packet.source().octets());
                    prop_assert_eq!(headers.destination, packet.destination().octets());
                    prop_assert_eq!((headers.dscp, headers.ttl), (packet.traffic_class() >> 2, packet.hop_limit()));
                    prop_assert_eq!(usize::from(headers.length), packet.payload().len() + ipv6::HEADER);
                    if headers.protocol == protocol::AUTHENTICATION {
                        // The view goes on to what is authenticated.
                        return Ok(());
                    }
                    let upper = packet.upper_layer();
                    (upper.protocol, upper.offset, upper.later_fragment)
                }
            };
            prop_assert_eq!((headers.protocol, usize::from(headers.transport)), (protocol, offset));
            prop_assert_eq!(headers.fragment == Fragment::Later, later);
            if later {
                prop_assert_eq!(ports(&headers), (0, 0));
            } else if protocol == protocol::TCP {
                let segment = tcp::Segment::parse(&bytes[offset..usize::from(headers.length)]).unwrap();
                prop_assert_eq!(ports(&headers), (segment.source(), segment.destination()));
                prop_assert_eq!(headers.tcp_flags, segment.flags());
            }
        }

        #[test]
        fn no_bytes_panic(bytes in bytes(), cut in 0usize..200) {
            let _ = Headers::parse(&bytes);
            let cut = &bytes[..cut.min(bytes.len())];
            if let Ok(headers) = Headers::quoted(cut) {
                prop_assert!(usize::from(headers.transport) <= cut.len());
            }
        }
    }
}
