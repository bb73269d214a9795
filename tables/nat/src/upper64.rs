//! What is above IP when the family changes: ports, identifiers, and checksums with their
//! pseudo-header.

use flow::Tuple;
use wire::checksum::pseudo6;
use wire::headers::unmapped;
use wire::{Fragment, Headers, Reason, protocol, udp};

use crate::delta::Delta;
use crate::icmp::{query4, query6};
use crate::rewrite::{Kind, ipv4_of, write_at, write_ports, write_sctp};

/// What changes in the checksum when the pseudo-header goes from one family to the other.
fn pseudo_change(old: &[&[u8]], new: &[&[u8]]) -> Delta {
    let mut delta = Delta::new();
    old.iter().for_each(|part| delta.take(part));
    new.iter().for_each(|part| delta.add(part));
    delta
}

pub(crate) fn upper_to_ipv4(
    upper: &mut [u8],
    headers: &Headers,
    from: [[u8; 16]; 2],
    to: &Tuple,
) -> Result<(), Reason> {
    if headers.fragment == Fragment::Later {
        return Ok(());
    }
    Kind::of(headers).check(upper, headers, to)?;
    quoted_to_ipv4(upper, headers, from, to)
}

/// The upper layer of an IPv6 packet, as far as it is there, becomes that of an IPv4 packet.
pub(crate) fn quoted_to_ipv4(
    upper: &mut [u8],
    headers: &Headers,
    from: [[u8; 16]; 2],
    to: &Tuple,
) -> Result<(), Reason> {
    let [source, destination] = ipv4_of(to)?;
    let delta = pseudo_change(&[&from[0], &from[1]], &[&source, &destination]);
    match Kind::of(headers) {
        Kind::Ports(at) => write_upper(upper, to, at, false, delta),
        Kind::PortsStated(at) => write_upper(upper, to, at, true, delta),
        Kind::Sctp => sctp(upper, headers, to),
        Kind::Query { .. } => {
            let length = u32::from(headers.length) - u32::from(headers.transport);
            let pseudo = [0, 0, 0, protocol::ICMP6];
            let delta = pseudo_change(&[&from[0], &from[1], &length.to_be_bytes(), &pseudo], &[]);
            query(upper, query4(headers.icmp_type).ok_or(Reason::Malformed)?, to, delta);
        }
        Kind::Icmp6 => return Err(Reason::Malformed),
        Kind::Addresses => {}
    }
    Ok(())
}

pub(crate) fn upper_to_ipv6(upper: &mut [u8], headers: &Headers, to: &Tuple) -> Result<(), Reason> {
    if headers.fragment == Fragment::Later {
        return Ok(());
    }
    Kind::of(headers).check(upper, headers, to)?;
    let bare = headers.protocol == protocol::UDP && upper[6..8] == [0, 0];
    if bare && headers.fragment != Fragment::Whole {
        return Err(Reason::Malformed);
    }
    quoted_to_ipv6(upper, headers, to)?;
    if bare {
        let pseudo = pseudo6(
            u128::from_be_bytes(to.source),
            u128::from_be_bytes(to.destination),
            protocol::UDP,
            upper.len() as u32,
        );
        let sum = udp::stated(pseudo.with(upper).finish());
        upper[6..8].copy_from_slice(&sum.to_be_bytes());
    }
    Ok(())
}

/// The upper layer of an IPv4 packet, as far as it is there, becomes that of an IPv6 packet.
pub(crate) fn quoted_to_ipv6(upper: &mut [u8], headers: &Headers, to: &Tuple) -> Result<(), Reason> {
    let old = |address: &[u8; 16]| unmapped(address).ok_or(Reason::BadVersion);
    let (source, destination) = (old(&headers.source)?, old(&headers.destination)?);
    let delta = pseudo_change(&[&source, &destination], &[&to.source, &to.destination]);
    match Kind::of(headers) {
        Kind::Ports(at) => write_upper(upper, to, at, false, delta),
        Kind::PortsStated(at) => write_upper(upper, to, at, true, delta),
        Kind::Sctp => sctp(upper, headers, to),
        Kind::Query { .. } => {
            let length = u32::from(headers.length) - u32::from(headers.transport);
            let pseudo = [0, 0, 0, protocol::ICMP6];
            let new: [&[u8]; 4] = [&to.source, &to.destination, &length.to_be_bytes(), &pseudo];
            query(upper, query6(headers.icmp_type).ok_or(Reason::Malformed)?, to, pseudo_change(&[], &new));
        }
        Kind::Icmp6 => return Err(Reason::Malformed),
        Kind::Addresses if headers.protocol == protocol::ICMP => return Err(Reason::Malformed),
        Kind::Addresses => {}
    }
    Ok(())
}

fn write_upper(upper: &mut [u8], to: &Tuple, at: usize, stated: bool, mut delta: Delta) {
    write_ports(upper, to, &mut delta);
    if let Some(place) = upper.get_mut(at..).and_then(|rest| rest.first_chunk_mut::<2>()) {
        *place = if stated { delta.apply_stated(*place) } else { delta.apply(*place) };
    }
}

/// SCTP's checksum covers no addresses; a quote cut short cannot be corrected.
fn sctp(upper: &mut [u8], headers: &Headers, to: &Tuple) {
    let length = usize::from(headers.length - headers.transport);
    match upper.get_mut(..length) {
        Some(whole) if length >= 12 && headers.fragment == Fragment::Whole => write_sctp(whole, to),
        _ => write_ports(upper, to, &mut Delta::new()),
    }
}

fn query(upper: &mut [u8], icmp_type: u8, to: &Tuple, mut delta: Delta) {
    write_at(upper, 0, &[icmp_type, 0], &mut delta);
    write_at(upper, 4, &to.source_port.to_be_bytes(), &mut delta);
    let checksum = delta.apply([upper[2], upper[3]]);
    upper[2..4].copy_from_slice(&checksum);
}
