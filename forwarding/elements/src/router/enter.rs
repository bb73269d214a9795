//! How a frame with tags becomes one of its interface: as Linux shows it there, without them.
//!
//! The addresses move up to the type behind the tags, and the frame begins there. So no element
//! behind this knows of tags, and what is handed to Linux is what the VLAN's interface would have
//! received. Frames of one VLAN come one after the other: whose tags were the last is known, and
//! they are counted together.

use abi::Count;
use fib::{Hops, InterfaceId, PortId, View};
use port::Packet;
use wire::ethernet;

use super::plain::AHEAD;
use super::wide::wide;
use super::{prefetch, u16_at};

/// Bytes of the two addresses.
pub(super) const ADDRESSES: usize = 12;
/// What is looked at behind them: two tags and a type.
const TAGS: usize = 10;

/// Whether the type of a frame says that a tag follows.
#[inline(always)]
pub(super) fn is_tag(ether_type: u16) -> bool {
    matches!(ether_type, ethernet::VLAN | ethernet::QINQ)
}

/// Where frames with tags enter.
pub(super) struct Entrance<'a> {
    hops: Hops<'a>,
    /// By which port, and with which tags, the last one came.
    last: (InterfaceId, u64),
    /// Whose it was; none: Linux's.
    interface: InterfaceId,
    /// Bytes of its tags.
    length: usize,
    /// Those of that interface that have not been counted.
    frames: Count,
}

impl<'a> Entrance<'a> {
    pub(super) fn new(hops: Hops<'a>) -> Entrance<'a> {
        let (last, frames) = ((InterfaceId::NONE, 0), Count::default());
        Entrance { hops, last, interface: InterfaceId::NONE, length: 0, frames }
    }

    /// Takes the tags off a frame of an interface of the plane's, which is the packet's input from
    /// then on. Nothing is done where no such interface has these tags: Linux has the frame.
    #[inline(always)]
    pub(super) fn enter(&mut self, packet: &mut Packet) {
        // It has entered already: tags that are left are inside those of its interface.
        if packet.input >= InterfaceId::FIRST_LOGICAL {
            return;
        }
        let Some((addresses, rest)) = packet.data().split_first_chunk::<ADDRESSES>() else { return };
        let tags = rest.first_chunk::<TAGS>().filter(|tags| is_tag(u16_at(tags, 0)));
        let Some(tags) = tags else { return };
        let key = (packet.input, key(tags));
        if self.last != key {
            self.turn(key, tags);
        }
        if self.interface == InterfaceId::NONE {
            return;
        }
        let (addresses, length) = (*addresses, self.length);
        self.frames.packets += 1;
        self.frames.bytes += packet.len() as u64;
        packet.input = self.interface;
        packet.pull(length);
        packet.data_mut().first_chunk_mut().into_iter().for_each(|first| *first = addresses);
    }

    /// Those that were let in are counted.
    #[inline(always)]
    pub(super) fn close(mut self) {
        if self.frames.packets != 0 {
            self.count();
        }
    }

    #[cold]
    #[inline(never)]
    fn turn(&mut self, key: (InterfaceId, u64), tags: &[u8; TAGS]) {
        self.count();
        let found = self.hops.enter(PortId(key.0.0), tags);
        self.last = key;
        (self.interface, self.length) = found.unwrap_or((InterfaceId::NONE, 0));
    }

    fn count(&mut self) {
        self.hops.count_received(self.interface, std::mem::take(&mut self.frames));
    }
}

wide! {
    /// Takes the tags off frames that came by ports on which interfaces with tags are.
    fn enter_some(view: &View, packets: &mut [Packet]) {
        let hops = view.hops();
        let (mut entrance, mut port, mut tagged) = (Entrance::new(hops), InterfaceId::NONE, false);
        for n in 0..packets.len() {
            if let Some(packet) = packets.get(n + AHEAD) {
                prefetch(packet);
            }
            let packet = &mut packets[n];
            if packet.input != port {
                (port, tagged) = (packet.input, hops.has_tags(PortId(packet.input.0)));
            }
            if tagged {
                entrance.enter(packet);
            }
        }
        entrance.close();
    }
}

/// Takes the tags off a batch's frames, where interfaces with tags are on their ports: in front of
/// loops that know of none.
#[inline(always)]
pub(super) fn enter_all(view: &View, packets: &mut [Packet]) {
    let hops = view.hops();
    let (mut port, mut any) = (InterfaceId::NONE, false);
    for packet in packets.iter() {
        if packet.input != port {
            port = packet.input;
            any |= hops.has_tags(PortId(port.0));
        }
    }
    if any {
        packets.iter().take(AHEAD).for_each(prefetch);
        enter_some(view, packets);
    }
}

/// What tells frames of different interfaces apart: the outer tag, and where one follows the inner
/// one.
#[inline(always)]
fn key(tags: &[u8; TAGS]) -> u64 {
    let tags = tags.first_chunk().map_or(0, |tags| u64::from_be_bytes(*tags));
    if (tags >> 16) as u16 == ethernet::VLAN { tags } else { tags & !0xffff }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fib::{Capacity, InterfaceEntry, InterfaceFlags, Tables, Tag, Tags};
    use port::Pool;
    use proptest::prelude::*;

    const PORTS: [PortId; 3] = [PortId(0), PortId(1), PortId(2)];

    /// Interfaces of all kinds on two ports, and none on the third.
    fn tables() -> Tables {
        let mut tables = Tables::new(Capacity { ipv4: 100, ipv6: 100, next_hops: 100 }, None).unwrap();
        let (ten, provider) = (Tag { service: false, id: 10 }, Tag { service: true, id: 10 });
        let two = Tags::Two(ten, 7);
        let kinds = [Tags::One(ten), two, Tags::Two(ten, 8), Tags::One(provider)];
        let all = PORTS[..2].iter().flat_map(|port| kinds.map(|tags| (*port, tags)));
        for (n, (port, tags)) in all.enumerate() {
            let own = InterfaceEntry::of_port(port, 1, 1500, [2; 6], InterfaceFlags::UP);
            let id = InterfaceId(InterfaceId::FIRST_LOGICAL.0 + n as u16);
            tables.set_interface(id, Some(InterfaceEntry { ifindex: 9 + n as u32, tags, ..own })).unwrap();
        }
        tables
    }

    /// A frame with these types and identifiers behind its addresses, and so much more.
    fn frame(tags: &[(u16, u16)], more: usize) -> Vec<u8> {
        let mut bytes: Vec<u8> = (1..=12).collect();
        tags.iter().for_each(|(kind, id)| bytes.extend([kind.to_be_bytes(), id.to_be_bytes()].concat()));
        bytes.extend([8, 0, 0x45, 0]);
        bytes.resize(bytes.len() + more, 0xee);
        bytes
    }

    fn some_frame() -> impl Strategy<Value = Vec<u8>> {
        let kind = prop_oneof![Just(ethernet::VLAN), Just(ethernet::QINQ)];
        // With priorities.
        let id =
            (0u16..8, prop_oneof![Just(0u16), Just(7), Just(8), Just(10)]).prop_map(|(p, id)| p << 13 | id);
        (prop::collection::vec((kind, id), 0..4), 0usize..40).prop_map(|(tags, more)| frame(&tags, more))
    }

    proptest! {
        /// As if each were the first: by whichever port and tags those before it came.
        #[test]
        fn frames_enter_one_after_the_other_as_each_by_itself(
            frames in prop::collection::vec((0usize..3, some_frame()), 1..40),
        ) {
            Pool::heap(64).install();
            let (tables, counts) = (tables(), fib::Counts::default());
            let view = tables.view().counting(counts.clone());
            let mut packets: Vec<Packet> = Vec::new();
            for (port, bytes) in &frames {
                let mut packet = Packet::new(bytes).unwrap();
                packet.input = PORTS[*port].interface();
                packets.push(packet);
            }
            enter_all(&view, &mut packets);
            let mut wanted = std::collections::HashMap::<InterfaceId, (u64, u64)>::new();
            for ((port, bytes), packet) in frames.iter().zip(&packets) {
                let tags = bytes[ADDRESSES..].first_chunk();
                let found = tags.and_then(|tags| view.hops().enter(PORTS[*port], tags)).filter(|_| *port != 2);
                let (interface, length) = found.unwrap_or((PORTS[*port].interface(), 0));
                let left = [&bytes[..ADDRESSES], &bytes[ADDRESSES + length..]].concat();
                prop_assert_eq!((packet.input, packet.data()), (interface, &left[..]), "{:x?}", bytes);
                if interface >= InterfaceId::FIRST_LOGICAL {
                    let counted = wanted.entry(interface).or_default();
                    (counted.0, counted.1) = (counted.0 + 1, counted.1 + bytes.len() as u64);
                }
            }
            for n in 0..8 {
                let id = InterfaceId(InterfaceId::FIRST_LOGICAL.0 + n);
                let received = counts.read(id).received;
                let wanted = wanted.get(&id).copied().unwrap_or_default();
                prop_assert_eq!((received.packets, received.bytes), wanted);
            }
        }
    }
}
