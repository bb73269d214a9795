//! Packets of a translated flow, rewritten in place.
//!
//! A flow has two tuples: what its packets say as they come in one direction, and as they come in
//! the other. What a packet is to say when it leaves is the other tuple, reversed
//! ([`flow::Worker::leaving`]); there is nothing else to know. All that changes lies within one or
//! two cache lines that the lookup has read anyway, and the checksums are corrected by the
//! difference: the sum of the old fields is taken from the packet itself. Only for plain IPv4
//! packets, of which there are most, the entry of the flow table has it ([`flow::Change`]).
//!
//! | protocol | changed | checksum |
//! |---|---|---|
//! | TCP | ports | at 16, with pseudo-header |
//! | UDP, UDP-Lite | ports | at 6, with pseudo-header; 0 stays 0 and does not come about |
//! | DCCP | ports | at 6, with pseudo-header |
//! | SCTP | ports | CRC32c over the whole packet, by the difference of two passes when a port changes |
//! | ICMP queries | identifier | at 2, no pseudo-header |
//! | ICMPv6 | identifier of queries | at 2, with pseudo-header |
//! | others (GRE, ESP, ...) | addresses only | none that covers addresses (AH does, and breaks, as it means to) |
//!
//! A later fragment has neither ports nor checksum: only its addresses change. A fragment of SCTP
//! whose port would change is refused, for its CRC cannot be had.

use flow::{Leaving4, Tuple};
use wire::headers::unmapped;
use wire::{Fragment, Headers, Reason, protocol};

use crate::delta::Delta;

/// Gives a packet the addresses and ports of `to`, which is of the packet's family; `ip` begins at
/// the IP header that `headers` were read from. ICMP errors are for
/// [`rewrite_error`](crate::rewrite_error), other families for [`Translator`](crate::Translator).
///
/// Refuses, with nothing done, what is cut short (`Truncated`), a fragment of SCTP whose port would
/// change (`Malformed`), and a `to` of the other family (`BadVersion`).
#[inline]
pub fn rewrite(ip: &mut [u8], headers: &Headers, to: &Tuple) -> Result<(), Reason> {
    let transport = usize::from(headers.transport);
    let Some((head, upper)) = ip.split_at_mut_checked(transport) else { return Err(Reason::Truncated) };
    let kind = if headers.fragment == Fragment::Later { Kind::Addresses } else { Kind::of(headers) };
    kind.check(upper, headers, to)?;
    let mut addresses = Delta::new();
    if headers.version == 4 {
        let [source, destination] = ipv4_of(to)?;
        let head = head.first_chunk_mut::<20>().ok_or(Reason::Truncated)?;
        write_at(head, 12, &source, &mut addresses);
        write_at(head, 16, &destination, &mut addresses);
        let checksum = addresses.apply([head[10], head[11]]);
        head[10..12].copy_from_slice(&checksum);
    } else {
        let head = head.first_chunk_mut::<40>().ok_or(Reason::Truncated)?;
        if is_ipv4(&to.source) || is_ipv4(&to.destination) {
            return Err(Reason::BadVersion);
        }
        write_at(head, 8, &to.source, &mut addresses);
        write_at(head, 24, &to.destination, &mut addresses);
    }
    kind.write(upper, to, addresses, headers);
    Ok(())
}

/// [`rewrite`] of a whole IPv4 packet of TCP or UDP without options. False, and nothing done, where
/// it is cut short.
#[inline(always)]
pub fn rewrite_plain4(ip: &mut [u8], tcp: bool, to: &Leaving4) -> bool {
    if tcp {
        let Some(headers) = ip.first_chunk_mut::<38>() else { return false };
        let checksum = to.correction.of_segment([headers[36], headers[37]]);
        headers[36..38].copy_from_slice(&checksum);
        take_over(headers, to);
    } else {
        let Some(headers) = ip.first_chunk_mut::<28>() else { return false };
        let checksum = to.correction.of_datagram([headers[26], headers[27]]);
        headers[26..28].copy_from_slice(&checksum);
        take_over(headers, to);
    }
    true
}

/// Writes what is not the upper checksum; `N` is 24 or more.
#[inline(always)]
fn take_over<const N: usize>(headers: &mut [u8; N], to: &Leaving4) {
    let checksum = to.correction.of_header([headers[10], headers[11]]);
    headers[10..12].copy_from_slice(&checksum);
    headers[12..20].copy_from_slice(&to.addresses);
    headers[20..24].copy_from_slice(&to.ports);
}

/// Where a protocol has what changes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Ports in front, a checksum at this place.
    Ports(usize),
    /// The same, with 0 for no checksum.
    PortsStated(usize),
    /// Ports, and a CRC32c at 8.
    Sctp,
    /// Identifier at 4, checksum at 2; whether it covers the pseudo-header.
    Query { pseudo: bool },
    /// Checksum at 2, which covers the pseudo-header.
    Icmp6,
    /// Nothing that we know.
    Addresses,
}

impl Kind {
    #[inline(always)]
    pub fn of(headers: &Headers) -> Kind {
        match headers.protocol {
            protocol::TCP => Kind::Ports(16),
            protocol::UDP | protocol::UDP_LITE => Kind::PortsStated(6),
            other => Kind::rest(other, headers),
        }
    }

    fn rest(other: u8, headers: &Headers) -> Kind {
        match other {
            protocol::DCCP => Kind::Ports(6),
            protocol::SCTP => Kind::Sctp,
            protocol::ICMP if headers.version == 4 => match headers.icmp_type {
                0 | 8 | 13..=18 => Kind::Query { pseudo: false },
                _ => Kind::Addresses,
            },
            protocol::ICMP6 if headers.version == 6 => match headers.icmp_type {
                128 | 129 => Kind::Query { pseudo: true },
                _ => Kind::Icmp6,
            },
            _ => Kind::Addresses,
        }
    }

    /// Whether everything that [`Kind::write`] touches is there.
    #[inline(always)]
    pub fn check(self, upper: &[u8], headers: &Headers, to: &Tuple) -> Result<(), Reason> {
        let need = match self {
            Kind::Ports(checksum) | Kind::PortsStated(checksum) => checksum + 2,
            Kind::Sctp => return self.check_sctp(upper, headers, to),
            Kind::Query { .. } | Kind::Icmp6 => 8,
            Kind::Addresses => 0,
        };
        if upper.len() < need { Err(Reason::Truncated) } else { Ok(()) }
    }

    #[cold]
    fn check_sctp(self, upper: &[u8], headers: &Headers, to: &Tuple) -> Result<(), Reason> {
        let same = (headers.source_port, headers.destination_port) == (to.source_port, to.destination_port);
        if !same && headers.fragment != Fragment::Whole {
            return Err(Reason::Malformed);
        }
        let length = usize::from(headers.length.saturating_sub(headers.transport));
        if upper.len() < length || length < 12 { Err(Reason::Truncated) } else { Ok(()) }
    }

    /// Writes ports or identifier and corrects the checksum for them and for the addresses. The
    /// caller has checked that all is there.
    #[inline(always)]
    fn write(self, upper: &mut [u8], to: &Tuple, addresses: Delta, headers: &Headers) {
        match self {
            Kind::Ports(at) => {
                let mut delta = addresses;
                write_ports(upper, to, &mut delta);
                let checksum = delta.apply([upper[at], upper[at + 1]]);
                upper[at..at + 2].copy_from_slice(&checksum);
            }
            Kind::PortsStated(at) => {
                let mut delta = addresses;
                write_ports(upper, to, &mut delta);
                let checksum = delta.apply_stated([upper[at], upper[at + 1]]);
                upper[at..at + 2].copy_from_slice(&checksum);
            }
            Kind::Addresses => {}
            other => other.write_rest(upper, to, addresses, headers),
        }
    }

    #[cold]
    fn write_rest(self, upper: &mut [u8], to: &Tuple, addresses: Delta, headers: &Headers) {
        match self {
            Kind::Query { pseudo } => {
                let mut delta = if pseudo { addresses } else { Delta::new() };
                write_at(upper, 4, &to.source_port.to_be_bytes(), &mut delta);
                let checksum = delta.apply([upper[2], upper[3]]);
                upper[2..4].copy_from_slice(&checksum);
            }
            Kind::Icmp6 => {
                let checksum = addresses.apply([upper[2], upper[3]]);
                upper[2..4].copy_from_slice(&checksum);
            }
            Kind::Sctp => {
                let length = usize::from(headers.length.saturating_sub(headers.transport));
                write_sctp(&mut upper[..length], to);
            }
            Kind::Ports(_) | Kind::PortsStated(_) | Kind::Addresses => {}
        }
    }
}

/// CRC32c is linear: the difference of two checksums depends on the difference of the bytes alone.
/// So a packet that came damaged leaves damaged.
pub(crate) fn write_sctp(upper: &mut [u8], to: &Tuple) {
    let ports = ports_of(to);
    if upper[..4] == ports {
        return;
    }
    let before = crc32c::crc32c(upper);
    upper[..4].copy_from_slice(&ports);
    let after = crc32c::crc32c(upper);
    // The checksum in the packet stands least significant byte first (RFC 9260, appendix A), and
    // took part in both sums alike.
    for (byte, change) in upper[8..12].iter_mut().zip((before ^ after).to_le_bytes()) {
        *byte ^= change;
    }
}

#[inline(always)]
fn ports_of(to: &Tuple) -> [u8; 4] {
    (u32::from(to.source_port) << 16 | u32::from(to.destination_port)).to_be_bytes()
}

#[inline(always)]
pub(crate) fn write_ports(upper: &mut [u8], to: &Tuple, delta: &mut Delta) {
    write_at(upper, 0, &ports_of(to), delta);
}

/// Writes at a place that the caller has checked.
#[inline(always)]
pub(crate) fn write_at<const N: usize>(bytes: &mut [u8], at: usize, new: &[u8; N], delta: &mut Delta) {
    if let Some(place) = bytes[at..].first_chunk_mut::<N>() {
        delta.write(place, new);
    }
}

/// Writes ports, identifier and checksum of a packet quoted in an ICMP error, as far as they are
/// there; the address changes count in its checksum where that has a pseudo-header. All that is
/// written is noted in `message`.
pub(crate) fn write_quoted(
    upper: &mut [u8],
    quoted: &Headers,
    to: &Tuple,
    addresses: Delta,
    message: &mut Delta,
) {
    if quoted.fragment == Fragment::Later {
        return;
    }
    let mut ports = Delta::new();
    let (at, stated, pseudo) = match Kind::of(quoted) {
        Kind::Ports(at) => (at, false, true),
        Kind::PortsStated(at) => (at, true, true),
        Kind::Query { pseudo } => (2, false, pseudo),
        Kind::Icmp6 => (2, false, true),
        // The packet is not whole, so its CRC cannot be corrected; whoever sent it does not check
        // it (RFC 9260, 10.1).
        Kind::Sctp => {
            write_ports(upper, to, message);
            return;
        }
        Kind::Addresses => return,
    };
    match Kind::of(quoted) {
        Kind::Ports(_) | Kind::PortsStated(_) => write_ports(upper, to, &mut ports),
        Kind::Query { .. } => write_at(upper, 4, &to.source_port.to_be_bytes(), &mut ports),
        _ => {}
    }
    message.merge(ports);
    if pseudo {
        ports.merge(addresses);
    }
    if let Some(place) = upper.get_mut(at..).and_then(|rest| rest.first_chunk_mut::<2>()) {
        let new = if stated { ports.apply_stated(*place) } else { ports.apply(*place) };
        message.write(place, &new);
    }
}

/// Whether an address is an IPv4 one.
#[inline(always)]
pub(crate) fn is_ipv4(address: &[u8; 16]) -> bool {
    unmapped(address).is_some()
}

/// Source and destination of an IPv4 tuple.
#[inline(always)]
pub(crate) fn ipv4_of(to: &Tuple) -> Result<[[u8; 4]; 2], Reason> {
    match (unmapped(&to.source), unmapped(&to.destination)) {
        (Some(source), Some(destination)) => Ok([source, destination]),
        _ => Err(Reason::BadVersion),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packets::{self, checksums_hold, plan, upper_holds};
    use flow::Change;
    use proptest::prelude::*;

    /// A tuple for packets of this version; ICMP has one number for both ports.
    fn tuple(headers: &Headers, source: [u8; 16], destination: [u8; 16], ports: [u16; 2]) -> Tuple {
        let ports = match headers.protocol {
            protocol::ICMP | protocol::ICMP6 => [ports[0]; 2],
            protocol::GRE => [0; 2],
            _ => ports,
        };
        Tuple {
            source: packets::address(headers.version, source),
            destination: packets::address(headers.version, destination),
            source_port: ports[0],
            destination_port: ports[1],
            ..Tuple::of(headers, 0)
        }
    }

    proptest! {
        #[test]
        fn rewritten_packets_add_up_and_go_back(plan in plan(&[4, 6]), source: [u8; 16], destination: [u8; 16], ports: [u16; 2]) {
            let before = plan.packet();
            let headers = Headers::parse(&before).unwrap();
            let to = tuple(&headers, source, destination, ports);
            let mut packet = before.clone();
            rewrite(&mut packet, &headers, &to).unwrap();
            checksums_hold(&packet);
            let rewritten = Headers::parse(&packet).unwrap();
            prop_assert_eq!(Tuple::of(&rewritten, 0), to);
            if headers.transport == 20 && [protocol::TCP, protocol::UDP].contains(&headers.protocol) {
                let mut plainly = before.clone();
                let [(came, came_ports), (addresses, ports)] = [Tuple::of(&headers, 0), to].map(|tuple| {
                    let addresses: [u8; 8] = ipv4_of(&tuple).unwrap().concat().try_into().unwrap();
                    (addresses, ports_of(&tuple))
                });
                let change = Change::between(
                    (u64::from_be_bytes(came), u32::from_be_bytes(came_ports)),
                    (u64::from_be_bytes(addresses), u32::from_be_bytes(ports)),
                );
                let to = Leaving4 { addresses, ports, correction: change.correction() };
                prop_assert!(rewrite_plain4(&mut plainly, headers.protocol == protocol::TCP, &to));
                prop_assert_eq!(&plainly, &packet);
            }
            rewrite(&mut packet, &rewritten, &Tuple::of(&headers, 0)).unwrap();
            prop_assert_eq!(packet, before);
        }

        #[test]
        fn fragments_add_up_when_they_are_together(plan in plan(&[4, 6]), source: [u8; 16], destination: [u8; 16], ports: [u16; 2]) {
            // Where all that changes is in the first of them.
            let sctp = plan.protocol == protocol::SCTP;
            let (mut upper, mut last) = (Vec::new(), None);
            for mut packet in plan.fragments(24) {
                let headers = Headers::parse(&packet).unwrap();
                let ports = if sctp { plan.ports } else { ports };
                let to = tuple(&headers, source, destination, ports);
                rewrite(&mut packet, &headers, &to).unwrap();
                checksums_hold(&packet);
                upper.extend_from_slice(&packet[usize::from(headers.transport)..]);
                last = Some(to);
            }
            let to = last.unwrap();
            upper_holds(to.source, to.destination, plan.protocol, &upper);
        }

        #[test]
        fn mutated_packets_never_panic(plan in plan(&[4, 6]), at in 0usize..120, byte: u8, cut in 0usize..200) {
            let mut packet = plan.packet();
            let to = Tuple::of(&Headers::parse(&packet).unwrap(), 0);
            if let Some(place) = packet.get_mut(at) {
                *place = byte;
            }
            if let Ok(headers) = Headers::parse(&packet) {
                let _ = rewrite(&mut packet.clone(), &headers, &to.reversed());
                packet.truncate(cut);
                let _ = rewrite(&mut packet, &headers, &to);
            }
        }
    }

    #[test]
    fn damage_is_not_hidden() {
        let plan = |protocol| packets::Plan { protocol, ..udp() };
        for protocol in [protocol::TCP, protocol::UDP, protocol::SCTP] {
            let mut packet = plan(protocol).packet();
            *packet.last_mut().unwrap() ^= 1;
            let headers = Headers::parse(&packet).unwrap();
            let to = tuple(&headers, [7; 16], [8; 16], [9, 10]);
            rewrite(&mut packet, &headers, &to).unwrap();
            assert!(std::panic::catch_unwind(|| checksums_hold(&packet)).is_err());
        }
    }

    fn udp() -> packets::Plan {
        packets::Plan {
            version: 4,
            protocol: protocol::UDP,
            source: packets::address(4, [1; 16]),
            destination: packets::address(4, [2; 16]),
            ports: [3, 4],
            payload: vec![5; 20],
            bare: false,
            options: false,
            ttl: 6,
            tos: 7,
        }
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let packet =
            packets::Plan { protocol: protocol::SCTP, payload: vec![0; 60], ..udp() }.fragments(24).remove(0);
        let headers = Headers::parse(&packet).unwrap();
        let to = tuple(&headers, [7; 16], [8; 16], [9, 10]);
        assert_eq!(rewrite(&mut packet.clone(), &headers, &to), Err(Reason::Malformed));
        let to = Tuple { source: [1; 16], ..to };
        let packet = udp().packet();
        let headers = Headers::parse(&packet).unwrap();
        assert_eq!(rewrite(&mut packet.clone(), &headers, &to), Err(Reason::BadVersion));
    }
}
