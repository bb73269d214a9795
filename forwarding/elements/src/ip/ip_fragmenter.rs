//! IPFragmenter: cuts IPv4 packets that are too large.
//!
//! Group: ip
//! Usage: `IPFragmenter(MTU [, HONOR_DF, VERBOSE, keyword HEADROOM])`
//! Ports: 1 input, 1-2 outputs; push
//!
//! Packets of up to `MTU` bytes from the network header on leave by output 0 as they came. Larger
//! ones are cut, and their fragments leave by output 0 in order, with the annotations of the
//! packet. Those with the flag don't fragment, or where not even 8 bytes fit behind the header,
//! leave by output 1, usually to an ICMPError with `unreachable, needfrag`, or are dropped when it
//! isn't connected; the first 5 of them are told of. Expects marked headers, as CheckIPHeader
//! leaves them. What stands in front of the header goes with the first fragment alone.
//!
//! - `MTU` (bytes, at least 8): the largest packet that leaves by output 0
//! - `HONOR_DF` (boolean): false cuts also packets with the flag don't fragment, and gives them a
//!   random identification, as theirs need not be their own. Default true.
//! - `VERBOSE` (boolean): tells of every packet that may not be cut. Default false.
//! - `HEADROOM` (bytes): accepted, and without effect: there is always headroom for link headers
//!
//! Handlers:
//! - `drops` (read): how many packets could not be cut
//! - `fragments` (read): how many fragments were made
//!
//! See also: [IPReassembler], [ICMPError], [IP6Fragmenter]

use graph::arguments::{Arguments, Refused};
use graph::{Batch, Class, Context, Element, Handler, HandlerError, Setup};
use port::Packet;
use wire::{Reason, ipv4};

use crate::basic::random::Random;

/// See [`IpFragmenter`].
pub const CLASS: Class = Class {
    name: "IPFragmenter",
    ports: "1/1-2",
    processing: Class::PUSH,
    flow: Class::COMPLETE_FLOW,
    source: include_str!("ip_fragmenter.rs"),
    make,
};

/// Cuts packets.
struct IpFragmenter {
    mtu: usize,
    honor_df: bool,
    verbose: bool,
    drops: u32,
    fragments: u32,
    random: Random,
    /// The bytes of the packet being cut, from its network header on.
    gathered: Vec<u8>,
    /// Its fragments but the first.
    later: Vec<Packet>,
}

fn make(args: &mut Arguments<'_>, _: &mut Setup<'_>) -> Result<Box<dyn Element>, Refused> {
    let mtu = args.mandatory::<u32>("MTU");
    let honor_df = args.optional("HONOR_DF").unwrap_or(true);
    let verbose = args.optional("VERBOSE").unwrap_or(false);
    args.keyword::<u32>("HEADROOM");
    if mtu.is_some_and(|mtu| mtu < 8) {
        args.wrong("MTU", "MTU must be at least 8");
    }
    args.finish()?;
    Ok(Box::new(IpFragmenter {
        mtu: mtu.ok_or(Refused)? as usize,
        honor_df,
        verbose,
        drops: 0,
        fragments: 0,
        random: Random::new(),
        gathered: Vec::new(),
        later: Vec::new(),
    }))
}

/// Why a packet is not cut.
enum Uncut {
    /// It is none.
    Malformed,
    /// It fits, once what stands behind it is gone.
    Fits,
    /// It may not be cut, or the pieces would be too small.
    Refused,
    /// There is no memory for all the fragments, and some of them are of no use.
    NoBuffer,
}

impl IpFragmenter {
    /// Makes the packet the first fragment, and the others into `later`.
    fn cut(&mut self, packet: &mut Packet) -> Result<(), Uncut> {
        self.gathered.clear();
        let parts = std::iter::once(packet.network()).chain(packet.segments().skip(1));
        parts.for_each(|part| self.gathered.extend_from_slice(part));
        let ip = ipv4::Packet::parse(&self.gathered).map_err(|_| Uncut::Malformed)?;
        let (head, mut word, mut id) = (ip.header_len(), ip.fragment(), ip.id());
        let total = usize::from(ip.total_len()).min(self.gathered.len());
        let front = packet.total_len() - self.gathered.len();
        let piece = self.mtu.saturating_sub(head) & !7;
        if ip.dont_fragment() && self.honor_df || piece < 8 {
            return Err(Uncut::Refused);
        }
        if total <= self.mtu {
            packet.truncate(front + total);
            return Err(Uncut::Fits);
        }
        if ip.dont_fragment() {
            word &= !ipv4::DONT_FRAGMENT;
            id = self.random.next() as u16;
        }

        let first = self.gathered.first_chunk::<{ ipv4::HEADER }>().ok_or(Uncut::Malformed)?;
        let mut header = [0; 60];
        header[..ipv4::HEADER].copy_from_slice(first);
        header[4..6].copy_from_slice(&id.to_be_bytes());
        let (options, length) = ipv4::option::copied(&self.gathered[ipv4::HEADER..head]);
        header[ipv4::HEADER..][..length].copy_from_slice(&options[..length]);
        let later_head = ipv4::HEADER + length;
        let data = &self.gathered[head..total];
        let later_piece = self.mtu.saturating_sub(later_head) & !7;
        for (index, part) in data[piece..].chunks(later_piece).enumerate() {
            let at = piece + index * later_piece;
            let last = at + part.len() == data.len();
            let more = if last { word & ipv4::MORE_FRAGMENTS } else { ipv4::MORE_FRAGMENTS };
            let offset = (word & ipv4::FRAGMENT_OFFSET) + (at / 8) as u16;
            let fragment = more | (offset & ipv4::FRAGMENT_OFFSET);
            header[0] = 0x40 | (later_head / 4) as u8;
            write(&mut header[..later_head], part.len(), fragment);
            let mut fragment = Packet::new(&header[..later_head]).ok_or(Uncut::NoBuffer)?;
            append(&mut fragment, part).ok_or(Uncut::NoBuffer)?;
            (fragment.input, fragment.output) = (packet.input, packet.output);
            (fragment.next_hop, fragment.adjacency) = (packet.next_hop, packet.adjacency);
            (fragment.destination, fragment.paint) = (packet.destination, packet.paint);
            *fragment.annotations_mut() = packet.annotations().clone();
            fragment.set_link(None);
            fragment.set_network(0);
            fragment.set_transport(Some(later_head as isize));
            self.later.push(fragment);
        }
        packet.truncate(front + head + piece);
        if let Some(header) = packet.network_mut().get_mut(..head) {
            header[4..6].copy_from_slice(&id.to_be_bytes());
            write(header, piece, word | ipv4::MORE_FRAGMENTS);
        }
        Ok(())
    }

    #[cold]
    fn push_large(&mut self, mut packet: Packet, cx: &mut Context<'_>) {
        match self.cut(&mut packet) {
            Ok(()) => {
                self.fragments = self.fragments.wrapping_add(1 + self.later.len() as u32);
                cx.emit(0, packet);
                self.later.drain(..).for_each(|fragment| cx.emit(0, fragment));
            }
            Err(Uncut::Fits) => cx.emit(0, packet),
            Err(Uncut::Malformed) => cx.drop(packet, Reason::Malformed),
            Err(Uncut::NoBuffer) => {
                self.later.clear();
                cx.drop(packet, Reason::NoBuffer);
            }
            Err(Uncut::Refused) => {
                if let Ok(ip) = ipv4::Packet::parse(packet.network())
                    && (self.verbose || self.drops < 5)
                {
                    let (from, to, length) = (ip.source(), ip.destination(), packet.total_len());
                    cx.say(&format!("IPFragmenter({}) DF {from} {to} len={length}", self.mtu));
                }
                self.drops = self.drops.wrapping_add(1);
                if cx.has_output(1) {
                    cx.emit(1, packet);
                } else {
                    cx.drop(packet, Reason::TooBig);
                }
            }
        }
    }
}

/// Writes what differs between a packet's fragments into the header of one with so many bytes.
fn write(header: &mut [u8], data: usize, fragment: u16) {
    let total = (header.len() + data) as u16;
    header[2..4].copy_from_slice(&total.to_be_bytes());
    header[6..8].copy_from_slice(&fragment.to_be_bytes());
    ipv4::set_checksum(header);
}

/// Puts bytes behind a packet of one segment, in as many as they take.
fn append(packet: &mut Packet, bytes: &[u8]) -> Option<()> {
    let (here, rest) = bytes.split_at(bytes.len().min(packet.tailroom()));
    packet.extend(here.len())?.copy_from_slice(here);
    if !rest.is_empty() {
        packet.append(Packet::new(rest)?).ok()?;
    }
    Some(())
}

/// Whether a packet is larger than `mtu` from its network header on.
#[inline(always)]
fn is_large(packet: &Packet, mtu: usize) -> bool {
    packet.network().len() > mtu
        || packet.segment_count() > 1
            && packet.network_offset().is_some_and(|at| packet.total_len().saturating_add_signed(-at) > mtu)
}

impl Element for IpFragmenter {
    fn class(&self) -> &'static str {
        CLASS.name
    }

    fn push(&mut self, _: usize, batch: &mut Batch, cx: &mut Context<'_>) {
        let mut large = 0u64;
        for (index, packet) in batch.packets().iter().enumerate() {
            large |= u64::from(is_large(packet, self.mtu)) << index;
        }
        if large == 0 {
            return cx.emit_batch(0, batch);
        }
        // In the order that they came in.
        for (index, packet) in batch.drain().enumerate() {
            if large >> index & 1 == 0 {
                cx.emit(0, packet);
            } else {
                self.push_large(packet, cx);
            }
        }
    }

    fn handlers(&self) -> Vec<Handler> {
        ["drops", "fragments"].map(Handler::read).into()
    }

    fn read(&mut self, handler: &str, _: &str, _: &mut Context<'_>) -> Result<String, HandlerError> {
        match handler {
            "drops" => Ok(self.drops.to_string()),
            "fragments" => Ok(self.fragments.to_string()),
            _ => Err(HandlerError::unknown(handler)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use port::Pool;
    use proptest::prelude::*;

    fn fragmenter(mtu: usize) -> IpFragmenter {
        let (gathered, later) = (Vec::new(), Vec::new());
        let random = Random::new();
        IpFragmenter { mtu, honor_df: false, verbose: false, drops: 0, fragments: 0, random, gathered, later }
    }

    proptest! {
        #[test]
        fn fragments_make_the_packet_again(
            length in 0usize..9000,
            mtu in 68usize..6000,
            offset in 0u16..100,
            options in prop::collection::vec(any::<u8>(), 0..=10),
            front in 0usize..20,
        ) {
            Pool::heap(400).install();
            let data: Vec<u8> = (0..length).map(|i| (i % 251) as u8).collect();
            let options: Vec<u8> = options.iter().flat_map(|kind| [*kind, 4, 1, 2]).collect();
            let repr = ipv4::Repr { fragment: offset, id: 9, ..ipv4::Repr::new([1; 4].into(), [2; 4].into()) };
            let mut header = repr.header(options.len() + length).to_vec();
            header[0] = 0x45 + (options.len() / 4) as u8;
            header.extend(&options);
            ipv4::set_checksum(&mut header);
            let mut packet = Packet::new(&[&vec![7; front][..], &header, &data].concat()).unwrap();
            packet.set_network(front as isize);
            let mut element = fragmenter(mtu);
            if !is_large(&packet, mtu) {
                prop_assert!(header.len() + length <= mtu);
                return Ok(());
            }
            prop_assert!(element.cut(&mut packet).is_ok());
            packet.pull(front);
            let mut again = Vec::new();
            for (index, fragment) in std::iter::once(&packet).chain(&element.later).enumerate() {
                let bytes = fragment.to_vec();
                let ip = ipv4::Packet::parse(&bytes).unwrap();
                prop_assert!(ip.checksum_ok() && ip.id() == 9 && bytes.len() <= mtu);
                prop_assert_eq!(usize::from(ip.total_len()), bytes.len());
                prop_assert_eq!(ip.fragment_offset(), usize::from(offset) * 8 + again.len());
                prop_assert_eq!(ip.more_fragments(), index < element.later.len());
                again.extend_from_slice(ip.payload());
            }
            prop_assert_eq!(again, data);
        }

        #[test]
        fn any_bytes_are_cut_or_refused(mut bytes in prop::collection::vec(any::<u8>(), 0..300), mtu in 8usize..200) {
            Pool::heap(64).install();
            if let Some(first) = bytes.first_mut() {
                *first = 0x40 | *first & 15;
            }
            let mut packet = Packet::new(&bytes).unwrap();
            packet.set_network(0);
            let mut element = fragmenter(mtu);
            if element.cut(&mut packet).is_ok() {
                prop_assert!(element.later.iter().all(|fragment| fragment.total_len() <= mtu));
            }
        }
    }
}
