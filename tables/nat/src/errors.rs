//! ICMP errors of a translated flow, and the packets they quote (RFC 5508, REQ-4 and REQ-5; RFC
//! 4443).
//!
//! An error goes against the direction of the packet it quotes, so the quote says what packets of
//! the other direction say as they leave: it is the tuple of the error's direction, reversed, and
//! must become that direction's target, reversed. Of the error itself the destination changes as
//! that of any packet of its direction; its source only where this direction's source is
//! translated: then whoever complains stands behind the translation, and is hidden by it like the
//! host he complains for.
//!
//! Checksums inside the quote are corrected as far as they are there: whoever gets the error may
//! compare.

use flow::Tuple;
use wire::{Headers, Reason, icmp4};

use crate::delta::Delta;
use crate::rewrite::{ipv4_of, is_ipv4, write_at, write_quoted};

/// The packet that an ICMP error quotes: what follows the fixed header.
pub(crate) fn quote<'a>(ip: &'a [u8], headers: &Headers) -> Option<&'a [u8]> {
    let end = usize::from(headers.length).min(ip.len());
    ip.get(usize::from(headers.transport) + icmp4::HEADER..end)
}

/// Rewrites an ICMP error that goes in a direction in which the flow's packets come as `seen` and
/// leave as `to`; one family. `ip` begins at the IP header that `headers` were read from.
///
/// Refuses, with nothing done, what is cut short (`Truncated`), a quote that is no packet, and a
/// `to` of the other family (`BadVersion`).
pub fn rewrite_error(ip: &mut [u8], headers: &Headers, seen: &Tuple, to: &Tuple) -> Result<(), Reason> {
    let transport = usize::from(headers.transport);
    let end = usize::from(headers.length).min(ip.len());
    let quoted = Headers::quoted(quote(ip, headers).ok_or(Reason::Truncated)?)?;
    if quoted.version != headers.version {
        return Err(Reason::BadVersion);
    }
    let inner = to.reversed();
    let ip = &mut ip[..end];
    let (head, message) = ip.split_at_mut_checked(transport).ok_or(Reason::Truncated)?;
    let (icmp, quote) = message.split_at_mut_checked(icmp4::HEADER).ok_or(Reason::Truncated)?;
    let mut outer = Delta::new();
    let mut message = Delta::new();
    if headers.version == 4 {
        let [source, destination] = ipv4_of(to)?;
        if seen.source != to.source {
            write_at(head, 12, &source, &mut outer);
        }
        if seen.destination != to.destination {
            write_at(head, 16, &destination, &mut outer);
        }
        let checksum = outer.apply([head[10], head[11]]);
        head[10..12].copy_from_slice(&checksum);
        let mut addresses = Delta::new();
        write_at(quote, 12, &destination, &mut addresses);
        write_at(quote, 16, &source, &mut addresses);
        message.merge(addresses);
        let checksum = addresses.apply([quote[10], quote[11]]);
        write_at(quote, 10, &checksum, &mut message);
        let upper = quote.get_mut(usize::from(quoted.transport)..).unwrap_or_default();
        write_quoted(upper, &quoted, &inner, addresses, &mut message);
    } else {
        if is_ipv4(&to.source) || is_ipv4(&to.destination) {
            return Err(Reason::BadVersion);
        }
        if seen.source != to.source {
            write_at(head, 8, &to.source, &mut outer);
        }
        if seen.destination != to.destination {
            write_at(head, 24, &to.destination, &mut outer);
        }
        let mut addresses = Delta::new();
        write_at(quote, 8, &inner.source, &mut addresses);
        write_at(quote, 24, &inner.destination, &mut addresses);
        message.merge(addresses);
        message.merge(outer);
        let upper = quote.get_mut(usize::from(quoted.transport)..).unwrap_or_default();
        write_quoted(upper, &quoted, &inner, addresses, &mut message);
    }
    let checksum = message.apply([icmp[2], icmp[3]]);
    icmp[2..4].copy_from_slice(&checksum);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packets::{self, checksums_hold, plan};
    use flow::is_error;
    use proptest::prelude::*;
    use wire::protocol;

    proptest! {
        #[test]
        fn errors_add_up_and_go_back(
            plan in plan(&[4, 6]),
            router: [u8; 16],
            other: ([u8; 16], [u8; 16], [u16; 2]),
            translated: [bool; 2],
            cut in 0usize..200,
            which in 0usize..3,
        ) {
            let version = plan.version;
            let quoted = Tuple::of(&Headers::parse(&plan.packet()).unwrap(), 0);
            // What the flow's packets in the error's direction say, and what they are to say.
            let seen = quoted.reversed();
            let mut to = seen;
            if translated[0] {
                to.source = packets::address(version, other.0);
            }
            if translated[1] {
                to.destination = packets::address(version, other.1);
            }
            let [a, b] = match plan.protocol {
                protocol::ICMP | protocol::ICMP6 => [other.2[0]; 2],
                protocol::GRE => [0; 2],
                _ => other.2,
            };
            (to.source_port, to.destination_port) = (a, b);
            let icmp_type = if version == 4 { [3, 11, 12] } else { [1, 2, 3] }[which];
            let front = Headers::parse(&plan.packet()).unwrap().transport;
            let router = packets::address(version, router);
            let mut packet = plan.error(router, icmp_type, 0, usize::from(front) + 8 + cut);
            let before = packet.clone();
            let headers = Headers::parse(&packet).unwrap();
            prop_assert!(is_error(&headers));
            rewrite_error(&mut packet, &headers, &seen, &to).unwrap();
            let sctp = plan.protocol == protocol::SCTP;
            if !sctp {
                checksums_hold(&packet);
            }
            let rewritten = Headers::parse(&packet).unwrap();
            prop_assert_eq!(rewritten.destination, to.destination);
            prop_assert_eq!(rewritten.source, if translated[0] && to.source != seen.source { to.source } else { router });
            let inner = Headers::quoted(quote(&packet, &rewritten).unwrap()).unwrap();
            prop_assert_eq!(Tuple::of(&inner, 0), to.reversed());
            if rewritten.source == router {
                rewrite_error(&mut packet, &rewritten, &to, &seen).unwrap();
                prop_assert_eq!(packet, before);
            }
        }

        #[test]
        fn mutated_errors_never_panic(plan in plan(&[4, 6]), at in 0usize..120, byte: u8, bytes in 0usize..120, cut in 0usize..200) {
            let icmp_type = if plan.version == 4 { 3 } else { 1 };
            let mut packet = plan.error(plan.destination, icmp_type, 0, bytes);
            let tuple = Tuple::of(&Headers::parse(&packet).unwrap(), 0);
            if let Some(place) = packet.get_mut(at) {
                *place = byte;
            }
            if let Ok(headers) = Headers::parse(&packet) {
                let _ = rewrite_error(&mut packet.clone(), &headers, &tuple, &tuple.reversed());
                packet.truncate(cut);
                let _ = rewrite_error(&mut packet, &headers, &tuple, &tuple);
            }
        }
    }
}
