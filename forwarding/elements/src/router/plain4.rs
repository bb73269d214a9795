//! Plain packets of IPv4.
//!
//! Where they need only be sent, a header is read and judged at once: what it takes is in
//! registers. Where more is wanted of them, that is too much for the registers there are, so
//! headers are copied, turned, and judged in [columns](super::columns).

use std::ops::Range;

use fib::View;
use graph::BATCH;
use port::Packet;
use wire::which::{bits, lowest, numbers, which};
use wire::{ethernet, protocol};

use super::check_ip_header4::{are_usual, is_plain, is_usual};
use super::columns::Columns;
use super::enter::enter_all;
use super::family::V4;
use super::plain::{AHEAD, Chosen, Input};
use super::wide::wide;
use super::{ETHERNET, Sources, prefetch, u16_at, u32_at};

/// Bytes of the headers of both layers.
const FRAME: usize = ETHERNET + 20;
/// What is read of each frame, whether it is so long or not: to the word of a TCP header that says
/// how long that is.
const FRONT: usize = ETHERNET + 36;
/// The columns begin in it where the last word of the Ethernet header is the second.
const _: () = assert!(FRONT - Columns::BYTES + 8 == ETHERNET);
/// Stands for a frame that cannot be read so far.
const NOTHING: [u8; FRONT] = [0; FRONT];
/// The places of packets none of which is left out.
const IN_ORDER: [u8; BATCH] = {
    let mut places = [0; BATCH];
    let mut n = 0;
    while n < BATCH {
        places[n] = n as u8;
        n += 1;
    }
    places
};

impl Chosen<V4> {
    /// Finds the plain ones among a group of a batch's packets, and cuts off what they have behind
    /// their end (short ones are padded on the wire). Those of the group that are not of this
    /// family, as bits.
    #[inline(always)]
    pub(super) fn choose(
        &mut self,
        view: &View,
        sources: &Sources,
        packets: &mut [Packet],
        group: Range<usize>,
    ) -> u64 {
        choose(self, view, sources, packets, group)
    }

    /// The same, and puts down what is in their upper headers. All packets are noted, plain or not,
    /// while most of them are; none is cut.
    #[inline(always)]
    pub(super) fn choose_upper(&mut self, view: &View, sources: &Sources, packets: &mut [Packet]) -> u64 {
        enter_all(view, packets);
        let ours = gather(self, view, packets);
        self.upper.columns.turn(self.count);
        let others = judge(self, sources, ours);
        if self.sources_are_asked {
            self.vouch(view);
        }
        if self.upper.whole.count_ones() as usize * 4 < self.count * 3 {
            close_up(self);
        }
        others
    }
}

wide! {
    fn choose(chosen: &mut Chosen<V4>, view: &View, sources: &Sources, packets: &mut [Packet], group: Range<usize>) -> u64 {
        let (hops, mut input) = (view.hops(), Input::NONE);
        let (mut count, mut others) = (0, 0);
        if group.start == 0 {
            packets.iter().take(AHEAD).for_each(prefetch);
        }
        for place in group.start..group.end.min(packets.len()) {
            if let Some(packet) = packets.get(place + AHEAD) {
                prefetch(packet);
            }
            let packet = &mut packets[place];
            input.turn_to::<V4>(&hops, packet.input);
            let frame = packet.data().first_chunk::<FRAME>();
            let frame = frame.filter(|frame| u16_at(frame, 12) == ethernet::IPV4);
            let Some(frame) = frame else {
                others |= 1 << place;
                continue;
            };
            let Some(header) = frame.last_chunk::<20>().filter(|header| are_usual(header)) else { continue };
            let destination = u32_at(header, 16);
            hops.prefetch4(destination);
            chosen.note(count, place, destination);
            let total = u16_at(header, 2);
            // At least 20, and no more than there is.
            let fits = total.wrapping_sub(20) <= packet.data().len() as u16 - FRAME as u16;
            let plain = input.takes(packet, frame) & (header[8] > 1) & fits & is_plain(header, sources);
            packet.cut(if plain { total.wrapping_add(ETHERNET as u16) } else { u16::MAX });
            count += usize::from(plain);
        }
        (chosen.count, chosen.group) = (count, group);
        chosen.sources_are_asked = input.sources_are_asked;
        others
    }
}

wide! {
    /// Copies the headers of all. Those that came in as packets should that are to be forwarded, as
    /// bits.
    fn gather(chosen: &mut Chosen<V4>, view: &View, packets: &mut [Packet]) -> u64 {
        let count = packets.len().min(BATCH);
        let packets = &mut packets[..count];
        let (hops, mut input, mut ours) = (view.hops(), Input::none(chosen.by_rules, true), [0; BATCH]);
        packets.iter().take(AHEAD).for_each(prefetch);
        for n in 0..count {
            prefetch(packets.get(n + AHEAD).unwrap_or(&packets[n]));
            let packet = &mut packets[n];
            input.turn_to::<V4>(&hops, packet.input);
            let front = packet.front::<FRONT>().unwrap_or(&NOTHING);
            hops.prefetch4(u32_at(front, ETHERNET + 16));
            ours[n] = u8::from(input.takes(packet, front));
            let upper = &mut chosen.upper;
            upper.columns.set(n, front.last_chunk().unwrap_or(&[0; Columns::BYTES]));
            (upper.inputs[n], upper.lengths[n]) = (packet.input.0, packet.len() as u32);
        }
        (chosen.count, chosen.places, chosen.group) = (count, IN_ORDER, 0..count);
        chosen.sources_are_asked = input.sources_are_asked;
        bits(&ours)
    }
}

wide! {
    /// Finds out which of those that are `ours` are plain, and puts down what else is wanted of
    /// them. Those of other families, as bits.
    fn judge(chosen: &mut Chosen<V4>, sources: &Sources, ours: u64) -> u64 {
        let (destinations, upper) = (&mut chosen.destinations, &mut chosen.upper);
        let Columns { words: [_, kind, first, second, third, from, to, behind], last, .. } = &upper.columns;
        let (mut whole, mut near) = ([0u8; BATCH], [0u8; BATCH]);
        let own = sources.near_local4();
        for n in 0..BATCH {
            let words = [first[n], second[n], third[n], from[n], to[n]];
            let [version, _, a, b] = words[0].to_ne_bytes();
            let [ttl, protocol, ..] = words[2].to_ne_bytes();
            let total = u32::from(u16::from_be_bytes([a, b]));
            let fits = (total >= 20) & (total + ETHERNET as u32 <= upper.lengths[n]);
            let usual = is_usual(words[3].to_ne_bytes()) & is_usual(words[4].to_ne_bytes());
            let plain = is_ipv4(kind[n]) & (version == 0x45) & fits & (ttl > 1) & usual & is_right(words);
            // Neither more fragments nor an offset.
            let one = words[1] & u32::from_ne_bytes([0, 0, 0x3f, 0xff]) == 0;
            let data = u32::from(last[n].to_ne_bytes()[0] >> 4) * 4;
            let udp = (protocol == protocol::UDP) & (total >= 28);
            let tcp = (protocol == protocol::TCP) & (data >= 20) & (data + 20 <= total);
            whole[n] = u8::from(plain & one & (udp | tcp));
            near[n] = u8::from(own.may_be(words[3].to_ne_bytes()));
            (upper.lengths[n], upper.protocols[n]) = (total, u32::from(protocol));
            (upper.ports[n], upper.sources[n]) = (u32::from_be(behind[n]), u32::from_be(words[3]));
            destinations[n] = u32::from_be(words[4]);
        }
        let present = lowest(chosen.count);
        upper.whole = bits(&whole) & ours & present;
        upper.whole &= !sources.local4_among(&upper.sources, upper.whole & bits(&near));
        which(|n| !is_ipv4(kind[n])) & present
    }
}

/// Whether this is the word of a frame that ends in the type of IPv4.
#[inline(always)]
fn is_ipv4(word: u32) -> bool {
    let [_, _, kind @ ..] = word.to_ne_bytes();
    u16::from_be_bytes(kind) == ethernet::IPV4
}

/// Leaves out what is not plain: each of those costs as much as one that is.
#[cold]
fn close_up(chosen: &mut Chosen<V4>) {
    let upper = &mut chosen.upper;
    chosen.count = upper.whole.count_ones() as usize;
    for (to, from) in numbers(upper.whole).enumerate() {
        chosen.places[to] = from as u8;
        chosen.destinations[to] = chosen.destinations[from];
        (upper.sources[to], upper.protocols[to]) = (upper.sources[from], upper.protocols[from]);
        (upper.ports[to], upper.lengths[to]) = (upper.ports[from], upper.lengths[from]);
        upper.inputs[to] = upper.inputs[from];
    }
    upper.whole = lowest(chosen.count);
}

/// Whether the checksum of a header is right, whose words lie as they do in memory: ones'
/// complement does not ask in which order.
#[inline(always)]
fn is_right(words: [u32; 5]) -> bool {
    let sum = words.iter().fold(0, |sum, word| sum + (word & 0xffff) + (word >> 16));
    let sum = (sum & 0xffff) + (sum >> 16);
    (sum & 0xffff) + (sum >> 16) == 0xffff
}
