//! Advertisements: the one packet that VRRP has.
//!
//! ```text
//!  0       1       2       3
//! | v |type| id   | prio  | count |      v = 2 or 3, type = 1
//! | interval      | checksum      |      version 3: centiseconds, 12 bits; version 2: no authentication, seconds
//! | addresses ...                 |      version 2: and 8 bytes that once held a password
//! ```
//!
//! The checksum of version 3 covers a pseudo-header. Not every router has it for IPv4: we write it,
//! as keepalived and FRR do, and read either.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use wire::checksum;

use crate::{PROTOCOL, Version};

/// Where advertisements go, IPv4.
pub const GROUP4: Ipv4Addr = Ipv4Addr::new(224, 0, 0, 18);
/// Where advertisements go, IPv6.
pub const GROUP6: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 0x12);
/// The TTL, or hop limit: nobody farther away than on the link can send it.
pub const HOPS: u8 = 255;
/// Bytes in front of the addresses.
const HEADER: usize = 8;
/// Bytes behind the addresses in version 2.
const PASSWORD: usize = 8;

/// The group that routers of an address's family speak to.
pub fn group(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(_) => GROUP4.into(),
        IpAddr::V6(_) => GROUP6.into(),
    }
}

/// What an active router says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Advertisement {
    /// Of the protocol.
    pub version: Version,
    /// The virtual router, 1..=255.
    pub id: u8,
    /// Its priority; 0: it is about to stop.
    pub priority: u8,
    /// Time between two of these.
    pub interval: Duration,
    /// What the virtual router answers for.
    pub addresses: Vec<IpAddr>,
}

/// Why a packet is no advertisement that one may believe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, thiserror::Error)]
pub enum Wrong {
    /// It may come from anywhere.
    #[error("its TTL (hop limit) is not 255")]
    Hops,
    /// It is cut off, or its number of addresses does not fit.
    #[error("its length does not fit the number of its addresses")]
    Length,
    /// Another version or type.
    #[error("it is of another version or type")]
    Version,
    /// Bits have changed.
    #[error("its checksum is wrong")]
    Checksum,
    /// A password: only none is understood, for any other can be read by all.
    #[error("it has an authentication")]
    Authentication,
    /// No virtual router, or no interval.
    #[error("its identifier or its interval is 0")]
    Zero,
    /// It answers for something else.
    #[error("its addresses are not those configured here")]
    Addresses,
    /// Version 2 wants it to be the same everywhere.
    #[error("its interval is not that configured here")]
    Interval,
    /// Only those configured may speak.
    #[error("it is not from one of the peers configured here")]
    Stranger,
}

impl Wrong {
    /// Every one, in the order of their numbers.
    pub const ALL: [Wrong; 9] = [
        Wrong::Hops,
        Wrong::Length,
        Wrong::Version,
        Wrong::Checksum,
        Wrong::Authentication,
        Wrong::Zero,
        Wrong::Addresses,
        Wrong::Interval,
        Wrong::Stranger,
    ];

    /// The stable name.
    pub fn name(self) -> &'static str {
        match self {
            Wrong::Hops => "ttl",
            Wrong::Length => "length",
            Wrong::Version => "version",
            Wrong::Checksum => "checksum",
            Wrong::Authentication => "authentication",
            Wrong::Zero => "zero",
            Wrong::Addresses => "addresses",
            Wrong::Interval => "interval",
            Wrong::Stranger => "stranger",
        }
    }
}

/// Reads the payload of an IP packet. Addresses, interval and sender are for the virtual router to
/// judge.
///
/// # Errors
/// Why it cannot be believed.
pub fn parse(packet: &[u8], source: IpAddr, destination: IpAddr, hops: u8) -> Result<Advertisement, Wrong> {
    if hops != HOPS {
        return Err(Wrong::Hops);
    }
    let (&[first, id, priority, count, high, low, ..], rest) =
        packet.split_first_chunk::<HEADER>().ok_or(Wrong::Length)?;
    let version = match (first, source) {
        (0x21, IpAddr::V4(_)) => Version::Two,
        (0x31, _) => Version::Three,
        _ => return Err(Wrong::Version),
    };
    let each = if source.is_ipv4() { 4 } else { 16 };
    let bytes = usize::from(count) * each;
    let ends = match version {
        Version::Two => rest.len() == bytes || rest.len() == bytes + PASSWORD,
        Version::Three => rest.len() == bytes,
    };
    if count == 0 || !ends {
        return Err(Wrong::Length);
    }
    if !sums(version, source).any(|pseudo| sum(packet, source, destination, pseudo) == 0) {
        return Err(Wrong::Checksum);
    }
    let interval = match version {
        Version::Two if high != 0 => return Err(Wrong::Authentication),
        Version::Two => Duration::from_secs(low.into()),
        Version::Three => Duration::from_millis(u64::from(u16::from_be_bytes([high & 0xf, low])) * 10),
    };
    if id == 0 || interval.is_zero() {
        return Err(Wrong::Zero);
    }
    let addresses = rest[..bytes].chunks_exact(each).map(address).collect();
    Ok(Advertisement { version, id, priority, interval, addresses })
}

/// The packet, as the payload of an IP packet between these addresses.
pub fn emit(advertisement: &Advertisement, source: IpAddr, destination: IpAddr) -> Vec<u8> {
    let Advertisement { version, id, priority, interval, addresses } = advertisement;
    let (first, [high, low]) = match version {
        Version::Two => (0x21, [0, u8::try_from(interval.as_secs()).unwrap_or(u8::MAX)]),
        Version::Three => {
            let centiseconds = u16::try_from(interval.as_millis() / 10).unwrap_or(u16::MAX).min(0xfff);
            (0x31, centiseconds.to_be_bytes())
        }
    };
    let count = u8::try_from(addresses.len()).unwrap_or(u8::MAX);
    let mut packet = vec![first, *id, *priority, count, high, low, 0, 0];
    for address in &addresses[..count.into()] {
        match address {
            IpAddr::V4(address) => packet.extend(address.octets()),
            IpAddr::V6(address) => packet.extend(address.octets()),
        }
    }
    if *version == Version::Two {
        packet.extend([0; PASSWORD]);
    }
    set_checksum(&mut packet, source, destination);
    packet
}

/// Writes the checksum of a packet, as long as it has room for one.
pub(crate) fn set_checksum(packet: &mut [u8], source: IpAddr, destination: IpAddr) {
    let Some(header) = packet.first_chunk_mut::<HEADER>() else { return };
    (header[6], header[7]) = (0, 0);
    let pseudo = header[0] >> 4 != 2;
    let sum = sum(packet, source, destination, pseudo);
    packet[6..8].copy_from_slice(&sum.to_be_bytes());
}

/// With or without a pseudo-header, what a checksum may be made of.
fn sums(version: Version, source: IpAddr) -> impl Iterator<Item = bool> {
    let with = (version == Version::Three).then_some(true);
    let without = source.is_ipv4().then_some(false);
    with.into_iter().chain(without)
}

/// 0: the checksum that is in the packet is right.
fn sum(packet: &[u8], source: IpAddr, destination: IpAddr, pseudo: bool) -> u16 {
    let length = packet.len();
    let begun = match (source, destination) {
        _ if !pseudo => checksum::Sum::default(),
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            checksum::pseudo4(source.into(), destination.into(), PROTOCOL, length as u16)
        }
        (IpAddr::V6(source), IpAddr::V6(destination)) => {
            checksum::pseudo6(source.into(), destination.into(), PROTOCOL, length as u32)
        }
        _ => return 1,
    };
    begun.with(packet).finish()
}

fn address(bytes: &[u8]) -> IpAddr {
    match bytes.first_chunk::<16>() {
        Some(six) => Ipv6Addr::from(*six).into(),
        None => Ipv4Addr::from(*bytes.first_chunk::<4>().unwrap_or(&[0; 4])).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const FROM4: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 2));
    const FROM6: IpAddr = IpAddr::V6(Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 2));

    fn advertisement(version: Version, six: bool) -> Advertisement {
        let addresses = if six {
            vec!["fe80::1".parse().unwrap(), "2001:db8::1".parse().unwrap()]
        } else {
            vec!["192.0.2.1".parse().unwrap()]
        };
        Advertisement { version, id: 7, priority: 100, interval: Duration::from_secs(1), addresses }
    }

    /// What keepalived 2.2.7 sends for these, as captured: version 2, and version 3 of both
    /// families.
    #[test]
    fn bytes_are_those_of_keepalived() {
        let emit = |version, from: IpAddr| emit(&advertisement(version, from.is_ipv6()), from, group(from));
        let two = emit(Version::Two, FROM4);
        assert_eq!(two[..8], [0x21, 7, 100, 1, 0, 1, 0xb8, 0xf4]);
        assert_eq!(two[8..], [192, 0, 2, 1, 0, 0, 0, 0, 0, 0, 0, 0]);
        let three = emit(Version::Three, FROM4);
        assert_eq!(three, [0x31, 7, 100, 1, 0, 100, 0x06, 0x00, 192, 0, 2, 1]);
        let six = emit(Version::Three, "fe80::8cb7:22ff:fe7a:8f85".parse().unwrap());
        assert_eq!((&six[..8], six.len()), (&[0x31, 7, 100, 2, 0, 100, 0x02, 0x71][..], 8 + 32));
    }

    #[test]
    fn what_may_not_be_believed_is_told_apart() {
        let good = advertisement(Version::Three, false);
        let packet = emit(&good, FROM4, GROUP4.into());
        let parse = |packet: &[u8], hops| super::parse(packet, FROM4, GROUP4.into(), hops);
        assert_eq!(parse(&packet, 255), Ok(good.clone()));
        assert_eq!(parse(&packet, 254), Err(Wrong::Hops));
        assert_eq!(parse(&packet[..7], 255), Err(Wrong::Length));
        assert_eq!(parse(&packet[..11], 255), Err(Wrong::Length));
        let with = |at: usize, byte: u8| {
            let mut packet = packet.clone();
            packet[at] = byte;
            set_checksum(&mut packet, FROM4, GROUP4.into());
            parse(&packet, 255)
        };
        assert_eq!(with(0, 0x41), Err(Wrong::Version));
        assert_eq!(with(0, 0x32), Err(Wrong::Version));
        assert_eq!(with(1, 0), Err(Wrong::Zero));
        assert_eq!(with(5, 0), Err(Wrong::Zero));
        assert_eq!(with(3, 0), Err(Wrong::Length));
        assert_eq!(with(3, 2), Err(Wrong::Length));
        let mut flipped = packet.clone();
        flipped[8] ^= 1;
        assert_eq!(parse(&flipped, 255), Err(Wrong::Checksum));
        // To another group the pseudo-header is another one.
        let elsewhere = emit(&good, FROM4, FROM4);
        assert_eq!(parse(&elsewhere, 255), Err(Wrong::Checksum));
        let mut old = emit(&advertisement(Version::Two, false), FROM4, GROUP4.into());
        old[4] = 1;
        set_checksum(&mut old, FROM4, GROUP4.into());
        assert_eq!(parse(&old, 255), Err(Wrong::Authentication));
        let old = emit(&advertisement(Version::Two, false), FROM4, GROUP4.into());
        assert_eq!(super::parse(&old, FROM6, GROUP6.into(), 255), Err(Wrong::Version));
    }

    #[test]
    fn without_the_pseudo_header_ipv4_is_read_as_well_and_ipv6_is_not() {
        for (from, believed) in [(FROM4, true), (FROM6, false)] {
            let mut packet = emit(&advertisement(Version::Three, from.is_ipv6()), from, group(from));
            (packet[6], packet[7]) = (0, 0);
            let sum = checksum::of(&packet);
            packet[6..8].copy_from_slice(&sum.to_be_bytes());
            assert_eq!(parse(&packet, from, group(from), 255).is_ok(), believed);
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(
            id in 1u8.., priority: u8, centiseconds in 1u64..4096, four: Vec<[u8; 4]>, six: bool, two: bool
        ) {
            let four = if four.is_empty() { vec![[10, 0, 0, 1]] } else { four };
            let addresses: Vec<IpAddr> = four.iter().take(255).map(|four| match six {
                true => Ipv6Addr::from_bits(u32::from_be_bytes(*four).into()).into(),
                false => Ipv4Addr::from(*four).into(),
            }).collect();
            let (version, interval) = match two && !six {
                true => (Version::Two, Duration::from_secs(centiseconds % 255 + 1)),
                false => (Version::Three, Duration::from_millis(centiseconds * 10)),
            };
            let source = if six { FROM6 } else { FROM4 };
            let it = Advertisement { version, id, priority, interval, addresses };
            prop_assert_eq!(parse(&emit(&it, source, group(source)), source, group(source), 255), Ok(it));
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes: Vec<u8>) {
            crate::fuzz(&bytes);
        }
    }
}
