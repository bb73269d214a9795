//! The key of a plain IPv4 packet, in two words.
//!
//! [`Key`] has room for every protocol of both families and any table. Most packets are whole ones of IPv4 with ports, and what
//! the table has of them fits into 16 bytes: built and compared in a third of the instructions.

use crate::entry::SWAPPED;
use crate::key::{Key, ordered4};

/// What [`Key`] is, of a whole IPv4 packet of TCP or UDP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Key4 {
    /// As the first word of [`Key::addresses`].
    pub(crate) ends: u64,
    /// [`Key::ports`] in the high half, [`Key::meta`] in the low one, there with [`SWAPPED`] if the source is the higher end.
    pub(crate) rest: u64,
}

impl Key4 {
    /// Source and destination, and both their ports, as a packet has them; and its protocol.
    #[inline(always)]
    pub fn of(addresses: [u8; 8], ports: [u8; 4], protocol: u8) -> Key4 {
        let (ends, ports) = (u64::from_be_bytes(addresses), u32::from_be_bytes(ports));
        let (ends, ports, swapped) = ordered4(ends, ports, false);
        let meta = u32::from(protocol) | (u32::from(swapped) * SWAPPED);
        Key4 { ends, rest: u64::from(ports) << 32 | u64::from(meta) }
    }

    #[inline(always)]
    pub(crate) fn ports(&self) -> u32 {
        (self.rest >> 32) as u32
    }

    /// As [`Key::meta`].
    #[inline(always)]
    pub(crate) fn meta(&self) -> u32 {
        self.rest as u32 & !SWAPPED
    }

    /// The same in the form that has room for all.
    pub(crate) fn key(&self) -> Key {
        Key {
            addresses: [self.ends, 0, 0, 0],
            ports: self.ports(),
            meta: self.meta(),
            swapped: self.rest as u32 & SWAPPED != 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Tuple;
    use proptest::prelude::*;
    use wire::headers::mapped;

    proptest! {
        #[test]
        fn it_is_the_key_of_the_tuple(
            source in 0u8..3,
            destination in 0u8..3,
            source_port in 0u16..3,
            destination_port in 0u16..3,
            tcp: bool,
            high: bool,
        ) {
            let address = |last: u8| [if high { 198 } else { 10 }, 0, 0, last];
            let protocol = if tcp { 6 } else { 17 };
            let tuple = Tuple {
                source: mapped(address(source)),
                destination: mapped(address(destination)),
                source_port,
                destination_port,
                protocol,
                table: 0,
            };
            let mut addresses = [0; 8];
            addresses[..4].copy_from_slice(&address(source));
            addresses[4..].copy_from_slice(&address(destination));
            let [a, b] = source_port.to_be_bytes();
            let [c, d] = destination_port.to_be_bytes();
            prop_assert_eq!(Key4::of(addresses, [a, b, c, d], protocol).key(), Key::of(&tuple));
        }
    }
}
