//! A tuple in the one form that it has in the table, whichever way its packet goes.
//!
//! Both directions of a connection must be found by one entry. So the ends (address and port) are
//! put in order, and which of them sent the packet becomes one bit beside the key. Should both ends
//! be the same, there is only one direction, and every packet goes the original one.

pub(crate) use abi::flow::V6;

use crate::Tuple;
use abi::fib::TABLES;
use std::hint::select_unpredictable;
use wire::headers::{mapped, unmapped};
use wire::protocol;

/// A tuple, ready to be looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key {
    /// IPv4: both addresses in the first word, the lower end's in its high half, the rest 0. IPv6:
    /// two words each, the lower end's first.
    pub(crate) addresses: [u64; 4],
    /// The lower end's port in the high half.
    pub(crate) ports: u32,
    /// Protocol, [`V6`], and from bit 16 on the table.
    pub(crate) meta: u32,
    /// Whether the source is the higher end.
    pub(crate) swapped: bool,
}

/// GRE's key stands where ports do, but belongs to neither end.
#[inline(always)]
fn has_common_key(protocol: u8) -> bool {
    protocol == protocol::GRE
}

/// Both ends of an IPv4 packet in the order that they have in a key, given with the source in the
/// high half, and their ports; and whether the source is the higher end. `common` where what stands
/// for ports belongs to neither end.
#[inline(always)]
pub(crate) fn ordered4(ends: u64, ports: u32, common: bool) -> (u64, u32, bool) {
    let (from, to) = if common { (0, 0) } else { (ports >> 16, ports & 0xffff) };
    let source = ends & 0xffff_ffff_0000_0000 | u64::from(from);
    let destination = ends << 32 | u64::from(to);
    let swapped = source > destination;
    // Which end is lower is as good as random.
    let ends = select_unpredictable(swapped, ends.rotate_left(32), ends);
    let ports = select_unpredictable(swapped && !common, ports.rotate_left(16), ports);
    (ends, ports, swapped)
}

impl Key {
    /// The key of a tuple.
    #[inline(always)]
    pub fn of(tuple: &Tuple) -> Key {
        let meta = u32::from(tuple.protocol) | u32::from(tuple.table % TABLES) << 16;
        let (from, to) = (u32::from(tuple.source_port), u32::from(tuple.destination_port));
        let common = has_common_key(tuple.protocol);
        let order = |port: u32| if common { 0 } else { port };
        if let (Some(source), Some(destination)) = (unmapped(&tuple.source), unmapped(&tuple.destination)) {
            return Key::of4([source, destination].map(u32::from_be_bytes), [from, to], meta, common);
        }
        let (source, destination) =
            (u128::from_be_bytes(tuple.source), u128::from_be_bytes(tuple.destination));
        let swapped = (source, order(from)) > (destination, order(to));
        let (low, high) = (
            select_unpredictable(swapped, destination, source),
            select_unpredictable(swapped, source, destination),
        );
        let ports = from << 16 | to;
        let ports = select_unpredictable(swapped && !common, ports.rotate_left(16), ports);
        let addresses = [(low >> 64) as u64, low as u64, (high >> 64) as u64, high as u64];
        Key { addresses, ports, meta: meta | V6, swapped }
    }

    /// That of IPv4; `common` where what stands for ports belongs to neither end.
    #[inline(always)]
    fn of4([source, destination]: [u32; 2], [from, to]: [u32; 2], meta: u32, common: bool) -> Key {
        let ends = u64::from(source) << 32 | u64::from(destination);
        let (ends, ports, swapped) = ordered4(ends, from << 16 | to, common);
        Key { addresses: [ends, 0, 0, 0], ports, meta, swapped }
    }

    /// The tuple that this is the key of.
    #[inline(always)]
    pub(crate) fn tuple(&self) -> Tuple {
        let [low, high] = if self.is_ipv4() {
            let both = self.addresses[0];
            [(both >> 32) as u32, both as u32].map(|address| mapped(address.to_be_bytes()))
        } else {
            let a = &self.addresses;
            [(a[0], a[1]), (a[2], a[3])].map(|(h, l)| (u128::from(h) << 64 | u128::from(l)).to_be_bytes())
        };
        let protocol = self.meta as u8;
        let (first, second) = ((self.ports >> 16) as u16, self.ports as u16);
        let (source, destination) = if self.swapped { (high, low) } else { (low, high) };
        let turned = self.swapped && !has_common_key(protocol);
        let (source_port, destination_port) = if turned { (second, first) } else { (first, second) };
        let table = (self.meta >> 16) as u16 % TABLES;
        Tuple { source, destination, source_port, destination_port, protocol, table }
    }

    #[inline(always)]
    pub(crate) fn is_ipv4(&self) -> bool {
        self.meta & V6 == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Tuples of which many have an end in common.
    pub(crate) fn tuples() -> impl Strategy<Value = Tuple> {
        (
            0u8..3,
            0u8..3,
            0u16..3,
            0u16..3,
            0u16..2,
            prop_oneof![Just(6u8), Just(17), Just(1), Just(47), Just(50)],
            any::<bool>(),
        )
            .prop_map(|(source, destination, from, to, table, protocol, four)| {
                let address = |last: u8| {
                    if four {
                        mapped([10, 0, 0, last])
                    } else {
                        [0x20, 1, 0, 0, 0, 0, 0, last, 0, 0, 0, 0, 0, 0, 0, last / 2]
                    }
                };
                let (from, to) = match protocol {
                    1 => (from, from),
                    50 => (0, 0),
                    _ => (from, to),
                };
                Tuple {
                    source: address(source),
                    destination: address(destination),
                    source_port: from,
                    destination_port: to,
                    protocol,
                    table,
                }
            })
    }

    proptest! {
        #[test]
        fn both_directions_have_one_key(tuple in tuples()) {
            let (key, back) = (Key::of(&tuple), Key::of(&tuple.reversed()));
            prop_assert_eq!((key.addresses, key.ports, key.meta), (back.addresses, back.ports, back.meta));
            prop_assert_eq!(key.swapped == back.swapped, tuple == tuple.reversed());
            prop_assert_eq!(key.tuple(), tuple);
            prop_assert_eq!(back.tuple(), tuple.reversed());
        }

        #[test]
        fn different_flows_have_different_keys(one in tuples(), two in tuples()) {
            let (a, b) = (Key::of(&one), Key::of(&two));
            let same = (a.addresses, a.ports, a.meta) == (b.addresses, b.ports, b.meta);
            prop_assert_eq!(same, one == two || one == two.reversed());
        }
    }
}
