//! Plain packets: which of a batch are, as far as their headers show.
//!
//! Most packets need nothing but to be forwarded. The elements that do all of it at once ([`FastPath`](super::FastPath),
//! [`FlowPath`](super::FlowPath), [`RulesPath`](super::RulesPath)) begin here and end with [`leave`](super::leave), and differ
//! in what they ask in between. What is not plain in any way stays as it came.
//!
//! A batch is handled in loops, for memory's sake: the first reads headers, which were asked for some packets
//! before, and notes where the plain ones go; another asks the table for all of them, so that its waits overlap; the last
//! writes. Each is a function of its own, never inlined: together they would need more registers than there are.

use fib::{AdjacencyId, Hops, NextHopId, PortId, View};
use graph::BATCH;
use port::Packet;
use wire::{ethernet, protocol};

use super::check_ip_header4::is_plain;
use super::family::{Family, V4, V6};
use super::leave::Leave;
use super::{ETHERNET, Sources, prefetch, u16_at, u64_at};

/// How many packets ahead the headers are fetched.
const AHEAD: usize = 6;

/// Bytes of the headers of both layers.
pub(super) const FRAME4: usize = ETHERNET + 20;
pub(super) const FRAME6: usize = ETHERNET + 40;

/// The packets of a batch that are plain as far as their headers show: their places in it, where they go, and by which path.
pub(super) struct Chosen<F: Family> {
    pub(super) places: [u8; BATCH],
    pub(super) addresses: [F::Address; BATCH],
    pub(super) ids: [NextHopId; BATCH],
    pub(super) paths: [AdjacencyId; BATCH],
}

impl<F: Family> Chosen<F> {
    pub(super) fn new() -> Chosen<F> {
        Chosen {
            places: [0; BATCH],
            addresses: [F::Address::default(); BATCH],
            ids: [NextHopId::NONE; BATCH],
            paths: [AdjacencyId::default(); BATCH],
        }
    }

    /// The place in the batch of the packet of this number.
    #[inline(always)]
    pub(super) fn place(&self, number: usize) -> usize {
        usize::from(self.places[number % BATCH])
    }

    /// The places of the packets of these numbers: bits for bits.
    #[inline(always)]
    pub(super) fn places(&self, mut numbers: u64) -> u64 {
        let mut places = 0;
        while numbers != 0 {
            places |= 1 << self.place(numbers.trailing_zeros() as usize);
            numbers &= numbers - 1;
        }
        places
    }

    /// Gives a packet a lower number.
    #[inline(always)]
    pub(super) fn keep(&mut self, number: usize, before: usize) {
        // The usual: all are kept.
        if number == before {
            return;
        }
        self.places[number % BATCH] = self.places[before % BATCH];
        self.addresses[number % BATCH] = self.addresses[before % BATCH];
    }

    /// Sends a packet to another address than its header says.
    #[inline(always)]
    pub(super) fn send_to(&mut self, number: usize, address: F::Address) {
        self.addresses[number % BATCH] = address;
    }

    /// Notes a packet as number `count`. If it is not plain, that number will be given again: so there is no branch.
    #[inline(always)]
    fn note(&mut self, count: usize, place: usize, address: F::Address) {
        self.places[count % BATCH] = place as u8;
        self.addresses[count % BATCH] = address;
    }
}

/// What is to be known of the port that packets come in by.
#[derive(Clone, Copy)]
struct Input {
    id: PortId,
    /// Its address, as the first bytes of a frame.
    mac: u64,
    /// Whether it forwards, and asks nothing of sources.
    open: bool,
}

impl Input {
    const NONE: Input = Input { id: PortId::NONE, mac: 0, open: false };

    #[inline(always)]
    fn turn_to<F: Family>(&mut self, hops: &Hops<'_>, id: PortId) {
        if self.id != id {
            let word = hops.port(id);
            let flags = word.flags();
            let open = flags.contains(F::FORWARD) && !flags.intersects(F::STRICT | F::LOOSE);
            let [a, b, c, d, e, f] = word.mac();
            let first = [a, b, c, d, e, f, 0, 0];
            *self = Input { id, mac: u64::from_le_bytes(first), open };
        }
    }

    /// What differs between the address that a frame goes to and the port's.
    #[inline(always)]
    fn differs<const N: usize>(&self, frame: &[u8; N]) -> u64 {
        let first = frame.first_chunk().map_or(0, |first| u64::from_le_bytes(*first));
        // The last two bytes are not the address's.
        (first ^ self.mac) << 16
    }
}

impl Chosen<V4> {
    /// Reads the headers of all packets, and cuts off what the plain ones have behind their end (short ones are padded on the wire).
    /// How many are plain, and those that are not of this family, as bits.
    #[inline(never)]
    pub(super) fn choose(&mut self, view: &View, sources: &Sources, packets: &mut [Packet]) -> (usize, u64) {
        let (hops, mut input) = (view.hops(), Input::NONE);
        let (mut count, mut others) = (0, 0);
        packets.iter().take(AHEAD).for_each(prefetch);
        for place in 0..packets.len() {
            if let Some(packet) = packets.get(place + AHEAD) {
                prefetch(packet);
            }
            let packet = &mut packets[place];
            input.turn_to::<V4>(&hops, packet.input);
            let frame = packet.data().first_chunk::<FRAME4>();
            let frame = frame.filter(|frame| u16_at(frame, 12) == ethernet::IPV4);
            let Some(frame) = frame else {
                others |= 1 << place;
                continue;
            };
            let Some(header) = frame.last_chunk::<20>() else { continue };
            let address = super::u32_at(header, 16);
            view.prefetch4(address);
            self.note(count, place, address);
            let total = u16_at(header, 2);
            // At least 20, and no more than there is.
            let fits = total.wrapping_sub(20) <= packet.data().len() as u16 - FRAME4 as u16;
            let odd = input.differs(frame) | (packet.segment_count() - 1) as u64;
            let plain = input.open & (odd == 0) & (header[8] > 1) & fits & is_plain(header, sources);
            packet.cut(if plain { total.wrapping_add(ETHERNET as u16) } else { u16::MAX });
            count += usize::from(plain);
        }
        (count, others)
    }
}

impl Chosen<V6> {
    /// The same of the packets whose bits are set. How many are plain.
    #[inline(never)]
    pub(super) fn choose(&mut self, view: &View, packets: &mut [Packet], mut which: u64) -> usize {
        let (hops, mut input) = (view.hops(), Input::NONE);
        let mut count = 0;
        while which != 0 {
            let place = which.trailing_zeros() as usize;
            which &= which - 1;
            let Some(packet) = packets.get_mut(place) else { continue };
            input.turn_to::<V6>(&hops, packet.input);
            let Some(frame) = packet.data().first_chunk::<FRAME6>() else { continue };
            let Some(header) = frame.last_chunk::<40>() else { continue };
            let address = u128::from(u64_at(header, 24)) << 64 | u128::from(u64_at(header, 32));
            self.note(count, place, address);
            let end = FRAME6 + usize::from(u16_at(header, 4));
            let plain = (u16_at(frame, 12) == ethernet::IPV6)
                & (header[0] >> 4 == 6)
                & (end <= packet.len())
                & (packet.segment_count() == 1)
                & (header[6] != protocol::HOP_BY_HOP)
                & (header[7] > 1)
                & TRAVELS[usize::from(header[8])]
                & TRAVELS[usize::from(header[24])]
                & (input.differs(frame) == 0)
                & input.open;
            packet.cut(if plain { end as u16 } else { u16::MAX });
            count += usize::from(plain);
        }
        count
    }
}

/// Whether a first byte of an IPv6 address is one of 2000::/3 or fc00::/7: of what is neither, some is never forwarded.
const TRAVELS: [bool; 256] = {
    let mut travels = [false; 256];
    let mut byte = 0;
    while byte < 256 {
        travels[byte] = byte >> 5 == 1 || byte >> 1 == 0xfc >> 1;
        byte += 1;
    }
    travels
};

/// A family's packets as rules and flows know them.
pub(super) trait Upper: Leave {
    /// The protocol, if its header follows the IP header at once and whole.
    fn protocol(ip: &[u8]) -> Option<u8>;
}

impl Upper for V4 {
    #[inline(always)]
    fn protocol(ip: &[u8]) -> Option<u8> {
        let header = ip.first_chunk::<20>()?;
        (u16_at(header, 6) & 0x3fff == 0).then_some(header[9])
    }
}

impl Upper for V6 {
    #[inline(always)]
    fn protocol(ip: &[u8]) -> Option<u8> {
        ip.get(6).copied()
    }
}

/// The ports of a packet of TCP or UDP as they stand in its header, if that is in order, as
/// [`Headers::read`](wire::Headers::read) asks it to be.
#[inline(always)]
pub(super) fn ports<F: Upper>(ip: &[u8], protocol: u8) -> Option<[u8; 4]> {
    let upper = ip.get(F::HEADER..)?;
    match protocol {
        protocol::UDP => upper.first_chunk::<8>()?.first_chunk().copied(),
        protocol::TCP => {
            let header = upper.first_chunk::<20>()?;
            let data = usize::from(header[12] >> 4) * 4;
            header.first_chunk().copied().filter(|_| (20..=upper.len()).contains(&data))
        }
        _ => None,
    }
}
