//! IPReassembler: makes packets whole again from their fragments.
//!
//! Group: ip
//! Usage: `IPReassembler([keywords HIMEM, MAX_MTU_ANNO])`
//! Ports: 1 input, 1-2 outputs; agnostic, second output push
//!
//! Expects IPv4 packets with marked headers, as CheckIPHeader leaves them. Whole packets pass.
//! Fragments are kept until all of their packet are there; then it leaves by output 0, with the
//! header, the annotations and what stands in front of the header from its first fragment, and the
//! timestamp of the one that came last. Where fragments overlap, the later one counts.
//!
//! What is not whole 30 seconds after its first fragment leaves by output 1 as it is, usually to an
//! ICMPError with `timeexceeded, reassembly`, or is dropped when it isn't connected. Fragments
//! whose lengths cannot be right are dropped.
//!
//! - `HIMEM` (bytes): above this much memory, the oldest unfinished packets are given up until
//!   three quarters of it are in use. Default 262144.
//! - `MAX_MTU_ANNO` (annotation of 2 bytes): where to note the length of the largest fragment; not
//!   set on packets that were whole
//!
//! Handlers:
//! - `dump` (read): counts, and what is being reassembled
//!
//! See also: [IPFragmenter], [ICMPError]

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::Ipv4Addr;
use std::ops::Range;

use graph::arguments::{AnnoShort, Arguments, Refused, offset};
use graph::{Batch, Class, Context, Element, Handler, HandlerError, Setup};
use port::{Annotations, Packet};
use wire::{Reason, ipv4};

/// See [`IpReassembler`].
pub const CLASS: Class = Class {
    name: "IPReassembler",
    ports: "1/1-2",
    processing: "a/ah",
    flow: Class::COMPLETE_FLOW,
    source: include_str!("ip_reassembler.rs"),
    make,
};

/// Nanoseconds after which a packet is given up.
const PATIENCE: i64 = 30_000_000_000;
/// Nanoseconds from one look for packets to give up to the next.
const BETWEEN_LOOKS: i64 = 10_000_000_000;
/// Most bytes of an IPv4 packet.
const MOST: usize = 0xffff;

/// What the fragments of one packet have in common: source, destination, identification, protocol.
type Key = (Ipv4Addr, Ipv4Addr, u16, u8);

/// Makes packets whole.
struct IpReassembler {
    high: usize,
    anno: Option<usize>,
    packets: BTreeMap<Key, Unfinished>,
    /// What `packets` take, in bytes.
    memory: usize,
    next_look: i64,
    fragments: u32,
    whole: u32,
    failed: u32,
    bad: u32,
}

/// A packet of which fragments are missing. It keeps no packet memory, of which everybody needs
/// some.
struct Unfinished {
    /// The header of the first fragment, or until it comes, of another one, and what stands in
    /// front of it.
    front: Vec<u8>,
    /// Bytes of `front` that are no header.
    network: usize,
    /// Where the link header is in it.
    link: Option<isize>,
    annotations: Annotations,
    destination: [u8; 4],
    paint: u8,
    data: Data,
    /// The largest fragment, from its network header on.
    largest: u16,
    /// When the first fragment came, in nanoseconds since 1970.
    since: i64,
}

/// The data of a packet, as far as it has come.
#[derive(Default)]
struct Data {
    bytes: Vec<u8>,
    /// What has come, in order; between two there is a gap.
    ranges: Vec<Range<usize>>,
    /// Where it ends, when its last fragment has come.
    end: Option<usize>,
}

impl Data {
    /// Puts a fragment in its place. False, and nothing done, when that is beyond the end.
    fn put(&mut self, at: usize, bytes: &[u8], more: bool) -> bool {
        let to = at + bytes.len();
        if self.end.is_some_and(|end| to > end) || !more && to < self.bytes.len() {
            return false;
        }
        if !more {
            self.end = Some(to);
        }
        if self.bytes.len() < to {
            self.bytes.resize(to, 0);
        }
        self.bytes[at..to].copy_from_slice(bytes);
        // Those that touch it become one with it.
        let first = self.ranges.partition_point(|range| range.end < at);
        let last = self.ranges.partition_point(|range| range.start <= to);
        let touched = &self.ranges[first..last];
        let start = touched.first().map_or(at, |range| range.start.min(at));
        let end = touched.last().map_or(to, |range| range.end.max(to));
        self.ranges.splice(first..last, std::iter::once(start..end));
        true
    }

    fn is_whole(&self) -> bool {
        matches!((self.end, &self.ranges[..]), (Some(end), [range]) if *range == (0..end))
    }
}

impl Unfinished {
    fn new(packet: &Packet, now: i64) -> Unfinished {
        let (annotations, data) = (packet.annotations().clone(), Data::default());
        let mut unfinished = Unfinished {
            front: Vec::new(),
            network: 0,
            link: None,
            annotations,
            destination: [0; 4],
            paint: 0,
            data,
            largest: 0,
            since: now,
        };
        unfinished.set_front(packet);
        unfinished
    }

    /// Takes over what belongs to the packet and not to its data.
    fn set_front(&mut self, packet: &Packet) {
        let network = packet.network();
        let head = network.first().map_or(0, |first| usize::from(first & 15) * 4);
        // What stands in front of the packet's front is of no use to anybody.
        self.network = packet.l3();
        let before = packet.data().get(..self.network).unwrap_or_default();
        self.front = [before, &network[..head.min(network.len())]].concat();
        self.link = packet.link_offset().filter(|at| *at >= 0);
        self.annotations = packet.annotations().clone();
        (self.destination, self.paint) = (packet.destination, packet.paint);
    }

    fn memory(&self) -> usize {
        let ranges = self.data.ranges.capacity() * size_of::<Range<usize>>();
        size_of::<(Key, Unfinished)>() + self.front.capacity() + self.data.bytes.capacity() + ranges
    }

    /// The packet as far as it has come. `None` without packet memory, or when it would be too
    /// long.
    fn packet(mut self, anno: Option<usize>, whole: bool) -> Option<Packet> {
        let header = self.front.get_mut(self.network..)?;
        let (head, flags) = (header.len(), u16::from_be_bytes([*header.get(6)?, *header.get(7)?]));
        let total = u16::try_from(head + self.data.bytes.len()).ok()?;
        let more = if whole { 0 } else { ipv4::MORE_FRAGMENTS };
        header[2..4].copy_from_slice(&total.to_be_bytes());
        header[6..8].copy_from_slice(&(flags & ipv4::DONT_FRAGMENT | more).to_be_bytes());
        ipv4::set_checksum(header);
        self.front.append(&mut self.data.bytes);
        let mut packet = Packet::new(&self.front)?;
        packet.paint = self.paint;
        *packet.annotations_mut() = self.annotations;
        packet.destination = self.destination;
        packet.set_annotation(offset::IPREASSEMBLER, [0; 4]);
        if let Some(anno) = anno {
            packet.set_annotation(anno, self.largest.to_ne_bytes());
        }
        packet.set_link(self.link);
        packet.set_network(self.network as isize);
        packet.set_transport(Some((self.network + head) as isize));
        Some(packet)
    }
}

fn make(args: &mut Arguments<'_>, _: &mut Setup<'_>) -> Result<Box<dyn Element>, Refused> {
    let high = args.keyword::<u32>("HIMEM").unwrap_or(256 * 1024);
    let anno = args.keyword::<AnnoShort>("MAX_MTU_ANNO").map(|anno| anno.offset);
    args.finish()?;
    Ok(Box::new(IpReassembler::new(high as usize, anno)))
}

/// What becomes of a fragment.
enum Taken {
    /// It is in its place.
    Kept,
    /// It was the last that was missing.
    Whole(Packet),
    /// Its lengths are wrong.
    Bad,
    /// There is no packet memory for the whole.
    NoBuffer,
}

impl IpReassembler {
    fn new(high: usize, anno: Option<usize>) -> IpReassembler {
        let (packets, memory, next_look) = (BTreeMap::new(), 0, 0);
        IpReassembler { high, anno, packets, memory, next_look, fragments: 0, whole: 0, failed: 0, bad: 0 }
    }

    /// Puts a fragment, which came at `now`, to the others of its packet.
    fn take(&mut self, packet: &Packet, now: i64) -> Taken {
        let mut gathered = packet.network().to_vec();
        packet.segments().skip(1).for_each(|part| gathered.extend_from_slice(part));
        let Ok(ip) = ipv4::Packet::parse(&gathered) else { return Taken::Bad };
        let (at, more, data) = (ip.fragment_offset(), ip.more_fragments(), ip.payload());
        let short = data.len() < usize::from(ip.total_len()) - ip.header_len();
        let wrong = short || data.is_empty() || at + data.len() > MOST - ipv4::HEADER;
        if wrong || more && !data.len().is_multiple_of(8) {
            return Taken::Bad;
        }
        let key = (ip.source(), ip.destination(), ip.id(), ip.protocol());
        let mut unfinished = match self.packets.remove(&key) {
            Some(unfinished) => {
                self.memory = self.memory.saturating_sub(unfinished.memory());
                unfinished
            }
            None => Unfinished::new(packet, now),
        };
        if unfinished.data.put(at, data, more) {
            unfinished.largest = unfinished.largest.max(ip.total_len());
            if at == 0 {
                unfinished.set_front(packet);
            }
        }
        if !unfinished.data.is_whole() {
            self.memory += unfinished.memory();
            self.packets.insert(key, unfinished);
            return Taken::Kept;
        }
        unfinished.annotations.timestamp = now;
        self.whole = self.whole.wrapping_add(1);
        unfinished.packet(self.anno, true).map_or(Taken::NoBuffer, Taken::Whole)
    }

    /// Takes out the oldest packets: those that came before `before`, and more until no more than
    /// `most` bytes are in use.
    fn give_up(&mut self, before: i64, most: usize) -> Vec<Unfinished> {
        let mut ages: Vec<(i64, Key)> =
            self.packets.iter().map(|(key, packet)| (packet.since, *key)).collect();
        ages.sort_unstable();
        let mut given_up = Vec::new();
        for (since, key) in ages {
            if since >= before && self.memory <= most {
                break;
            }
            if let Some(unfinished) = self.packets.remove(&key) {
                self.memory = self.memory.saturating_sub(unfinished.memory());
                self.failed = self.failed.wrapping_add(1);
                given_up.push(unfinished);
            }
        }
        given_up
    }

    /// Gives up what is old, and when too much memory is in use, what is oldest.
    fn look(&mut self, now: i64, cx: &mut Context<'_>) {
        let too_much = self.memory > self.high;
        if now < self.next_look && !too_much {
            return;
        }
        self.next_look = now.saturating_add(BETWEEN_LOOKS);
        let most = if too_much { self.high / 4 * 3 } else { usize::MAX };
        for unfinished in self.give_up(now.saturating_sub(PATIENCE), most) {
            if !cx.has_output(1) {
                cx.count_missing(Reason::Discarded);
                continue;
            }
            match unfinished.packet(self.anno, false) {
                Some(packet) => cx.emit(1, packet),
                None => cx.count_missing(Reason::NoBuffer),
            }
        }
    }

    fn dump(&self) -> String {
        let mut text = format!(
            "frags seen total:    {}\ngood reassemblies:   {}\nfailed reassemblies: {}\nbad fragments seen:  {}\ncached chunk data:\n",
            self.fragments, self.whole, self.failed, self.bad
        );
        for ((source, destination, id, _), Unfinished { data, .. }) in &self.packets {
            let port = |at: usize| {
                data.bytes.get(at..).and_then(<[u8]>::first_chunk).copied().map_or(0, u16::from_be_bytes)
            };
            let (from, to) = (port(0), port(2));
            let _ = write!(text, " ({source}, {from}, {destination}, {to}) {id}");
            for range in &data.ranges {
                let _ = write!(text, " ({},{})", range.start, range.end);
            }
            text.push('\n');
        }
        text
    }
}

/// Whether a packet is a fragment.
#[inline(always)]
fn is_fragment(packet: &Packet) -> bool {
    packet.network().first_chunk::<8>().is_some_and(|header| {
        u16::from_be_bytes([header[6], header[7]]) & (ipv4::MORE_FRAGMENTS | ipv4::FRAGMENT_OFFSET) != 0
    })
}

impl Element for IpReassembler {
    fn class(&self) -> &'static str {
        CLASS.name
    }

    fn act(&mut self, batch: &mut Batch, cx: &mut Context<'_>) {
        let (mut kept, mut bad, mut lost) = (0u64, 0u64, 0u64);
        for (index, packet) in batch.packets_mut().iter_mut().enumerate() {
            if !is_fragment(packet) {
                continue;
            }
            self.fragments = self.fragments.wrapping_add(1);
            let noted = packet.annotations().timestamp;
            let now = if noted == 0 { cx.wall() } else { noted };
            self.look(now, cx);
            match self.take(packet, now) {
                Taken::Kept => kept |= 1 << index,
                Taken::Whole(whole) => *packet = whole,
                Taken::Bad => {
                    self.bad = self.bad.wrapping_add(1);
                    bad |= 1 << index;
                }
                Taken::NoBuffer => lost |= 1 << index,
            }
        }
        if kept | bad | lost != 0 {
            batch.take(kept | bad | lost, |index, packet| match 1u64 << index {
                bit if bit & bad != 0 => cx.drop(packet, Reason::Malformed),
                bit if bit & lost != 0 => cx.drop(packet, Reason::NoBuffer),
                // Its bytes are in what is being made whole.
                _ => drop(packet),
            });
        }
    }

    fn handlers(&self) -> Vec<Handler> {
        vec![Handler::read("dump")]
    }

    fn read(&mut self, handler: &str, _: &str, _: &mut Context<'_>) -> Result<String, HandlerError> {
        match handler {
            "dump" => Ok(self.dump()),
            _ => Err(HandlerError::unknown(handler)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use port::Pool;
    use proptest::prelude::*;

    fn fragment(at: usize, data: &[u8], more: bool) -> Packet {
        let more = if more { ipv4::MORE_FRAGMENTS } else { 0 };
        let repr =
            ipv4::Repr { fragment: (at / 8) as u16 | more, ..ipv4::Repr::new([1; 4].into(), [2; 4].into()) };
        let mut packet = Packet::new(&[&repr.header(data.len())[..], data].concat()).unwrap();
        packet.set_network(0);
        packet
    }

    /// A packet as a list of bytes that may be missing.
    #[derive(Default)]
    struct Naive {
        bytes: Vec<Option<u8>>,
        end: Option<usize>,
    }

    impl Naive {
        fn put(&mut self, at: usize, data: &[u8], more: bool) -> Option<Vec<u8>> {
            let to = at + data.len();
            if self.end.is_none_or(|end| to <= end) && (more || to >= self.bytes.len()) {
                if !more {
                    self.end = Some(to);
                }
                self.bytes.resize(self.bytes.len().max(to), None);
                for (place, byte) in self.bytes[at..].iter_mut().zip(data) {
                    *place = Some(*byte);
                }
            }
            let whole: Option<Vec<u8>> = self.bytes.iter().copied().collect();
            let whole = whole.filter(|_| self.end == Some(self.bytes.len()))?;
            *self = Naive::default();
            Some(whole)
        }
    }

    proptest! {
        #[test]
        fn fragments_come_together_as_in_the_model(
            fragments in prop::collection::vec((0usize..12, 1usize..6, 0usize..8, any::<u8>(), prop::bool::weighted(0.8)), 1..60),
        ) {
            Pool::heap(8).install();
            let (mut element, mut naive) = (IpReassembler::new(1 << 20, None), Naive::default());
            for (at, units, odd, fill, more) in fragments {
                let length = units * 8 - if more { 0 } else { odd };
                let (at, data) = (at * 8, vec![fill; length]);
                let expected = naive.put(at, &data, more);
                match element.take(&fragment(at, &data, more), 1) {
                    Taken::Whole(packet) => {
                        let ip = ipv4::Packet::parse(packet.data()).unwrap();
                        prop_assert!(ip.checksum_ok() && ip.fragment() == 0);
                        prop_assert_eq!(Some(ip.payload().to_vec()), expected);
                    }
                    Taken::Kept => prop_assert_eq!(None, expected),
                    Taken::Bad | Taken::NoBuffer => prop_assert!(false),
                }
                let memory: usize = element.packets.values().map(Unfinished::memory).sum();
                prop_assert_eq!(memory, element.memory);
            }
        }

        #[test]
        fn hostile_fragments_are_kept_or_refused(
            packets in prop::collection::vec((any::<[u8; 8]>(), 0usize..60), 1..40),
            high in 0usize..100_000,
        ) {
            Pool::heap(24).install();
            let mut element = IpReassembler::new(high, Some(20));
            for (index, (start, length)) in packets.into_iter().enumerate() {
                let mut bytes = [&start[..], &vec![index as u8 % 3; length]].concat();
                bytes[0] = 0x40 | start[0] & 7;
                (bytes[2], bytes[4]) = (0, 0);
                let mut packet = Packet::new(&bytes).unwrap();
                packet.set_network(0);
                let _ = element.take(&packet, index as i64);
                element.give_up(0, high);
                let memory: usize = element.packets.values().map(Unfinished::memory).sum();
                prop_assert!(memory == element.memory && memory <= high);
            }
        }
    }
}
