//! The keys of plain IPv4 packets, of two words each.
//!
//! [`Key`] has room for every protocol of both families and any table. Most packets are whole ones
//! of IPv4 with ports, and what the table has of them fits into 16 bytes. Those of a batch are
//! built and hashed side by side, by loops without branches.

use crate::BATCH;
use crate::entry::is_flow;
use crate::key::{Key, ordered4};
use crate::plain::Faces;
use wire::which::which;

/// What [`Key`] is, of whole IPv4 packets of TCP or UDP: up to [`BATCH`] of them, in columns.
pub struct Keys4 {
    count: usize,
    /// As the first words of [`Key::addresses`].
    ends: [u64; BATCH],
    /// [`Key::ports`].
    ports: [u32; BATCH],
    /// [`Key::meta`].
    metas: [u32; BATCH],
    /// [`Key::swapped`], as 0 or 1.
    swapped: [u8; BATCH],
}

impl Default for Keys4 {
    fn default() -> Keys4 {
        Keys4 { count: 0, ends: [0; BATCH], ports: [0; BATCH], metas: [0; BATCH], swapped: [0; BATCH] }
    }
}

impl Keys4 {
    /// Takes these packets instead of those that it had, the first `count`: addresses as numbers,
    /// protocols, ports with the source's in the upper half.
    #[inline(always)]
    pub fn set(
        &mut self,
        count: usize,
        [sources, destinations]: [&[u32; BATCH]; 2],
        protocols: &[u32; BATCH],
        ports: &[u32; BATCH],
    ) {
        self.count = count.min(BATCH);
        for n in 0..BATCH {
            let ends = u64::from(sources[n]) << 32 | u64::from(destinations[n]);
            let (ends, ports, turned) = ordered4(ends, ports[n], false);
            (self.ends[n], self.ports[n], self.swapped[n]) = (ends, ports, u8::from(turned));
        }
        self.metas = *protocols;
    }

    /// How many they are.
    #[inline(always)]
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// Whether their source is the higher end: 0 or 1.
    #[inline(always)]
    pub(crate) fn swapped(&self) -> &[u8; BATCH] {
        &self.swapped
    }

    /// Which of them are keys of flows' original directions, by what their entries say: bits.
    #[inline(always)]
    pub(crate) fn are(&self, faces: &Faces) -> u64 {
        which(|n| {
            let (ends, ports) = (faces.ends[n] ^ self.ends[n], faces.ports[n] ^ self.ports[n]);
            is_flow(ends, ports, faces.metas[n] ^ self.metas[n])
        })
    }

    /// Ends, ports and [`Key::meta`] of one.
    #[inline(always)]
    pub(crate) fn parts(&self, n: usize) -> (u64, u32, u32) {
        (self.ends[n % BATCH], self.ports[n % BATCH], self.metas[n % BATCH])
    }

    /// One in the form that has room for all.
    pub(crate) fn key(&self, n: usize) -> Key {
        let (ends, ports, meta) = self.parts(n);
        Key { addresses: [ends, 0, 0, 0], ports, meta, swapped: self.swapped[n % BATCH] != 0 }
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
            let [source, destination] = [source, destination].map(|last| u32::from_be_bytes(address(last)));
            let ports = u32::from(source_port) << 16 | u32::from(destination_port);
            let mut keys = Keys4::default();
            keys.set(BATCH, [&[source; BATCH], &[destination; BATCH]], &[protocol.into(); BATCH], &[ports; BATCH]);
            prop_assert!((0..BATCH).all(|n| keys.key(n) == Key::of(&tuple)));
        }
    }
}
