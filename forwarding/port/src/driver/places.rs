//! Which port an interface is, as the driver's programs find out by the interface's index.
//!
//! One program serves all ports, so it must ask for each packet. A hash map would cost a packet
//! some 15 ns; this is an array whose lookup the kernel compiles in. An element has room for a few
//! ports whose indexes are the same modulo the array's size, and is compared with all at once.
//! Where more than those meet, which numbers given one after the other never do, the port is
//! refused.

use abi::driver::{PLACES, Place};
use fib::PortId;

/// What stands where, as in the map.
pub(super) struct Places(Box<[Place]>);

impl Places {
    pub(super) fn new() -> Places {
        Places(vec![Place::default(); PLACES as usize].into())
    }

    /// From now on this interface is that port. What to write where in the map; `None` when there
    /// is no room for it.
    pub(super) fn put(&mut self, ifindex: u32, port: PortId) -> Option<(u32, Place)> {
        let at = ifindex % PLACES;
        let place = &mut self.0[at as usize];
        let known = place.word.iter().position(|word| index_of(*word) == ifindex);
        let free = known.or_else(|| place.word.iter().position(|word| *word == 0))?;
        place.word[free] = (u64::from(ifindex) << 32) | (u64::from(port.0) + 1);
        Some((at, *place))
    }

    /// This interface is no port any more. What to write where in the map; `None` when it was none.
    pub(super) fn remove(&mut self, ifindex: u32) -> Option<(u32, Place)> {
        let at = ifindex % PLACES;
        let place = &mut self.0[at as usize];
        let known = place.word.iter().position(|word| index_of(*word) == ifindex)?;
        place.word[known] = 0;
        Some((at, *place))
    }
}

fn index_of(word: u64) -> u32 {
    (word >> 32) as u32
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use abi::driver::PORTS_A_PLACE as PORTS;

    use super::*;

    /// As `port_at` in `forwarding/bpf/maps.h`.
    fn found(places: &Places, ifindex: u32) -> Option<u16> {
        let place = places.0[(ifindex % PLACES) as usize];
        place.word.into_iter().find(|word| index_of(*word) == ifindex).map(|word| word as u16 - 1)
    }

    proptest! {
        #[test]
        fn every_interface_with_a_place_is_found(
            changes in prop::collection::vec((1u32..4, 0u32..7, 0u16..256, any::<bool>()), 1..200)
        ) {
            let (mut places, mut known) = (Places::new(), HashMap::new());
            for (low, high, port, come) in changes {
                let ifindex = low + high * PLACES;
                if come {
                    if places.put(ifindex, PortId(port)).is_some() {
                        known.insert(ifindex, port);
                    }
                } else {
                    prop_assert_eq!(places.remove(ifindex).is_some(), known.remove(&ifindex).is_some());
                }
                for ifindex in (1..4).flat_map(|low| (0..7).map(move |high| low + high * PLACES)) {
                    prop_assert_eq!(found(&places, ifindex), known.get(&ifindex).copied());
                }
            }
        }
    }

    #[test]
    fn an_interface_without_a_place_is_refused() {
        let mut places = Places::new();
        let indexes = (0..=PORTS as u32).map(|n| 7 + n * PLACES);
        let placed = indexes.filter(|ifindex| places.put(*ifindex, PortId(1)).is_some()).count();
        assert_eq!(placed, PORTS);
    }
}
