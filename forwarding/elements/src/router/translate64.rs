//! Translate64: makes IPv4 packets of IPv6 packets and the reverse, for flows of NAT64
//!
//! Group: router
//! Usage: `Translate64`
//! Ports: 1 input, 4 outputs; push
//!
//! Stands where it is known where a packet leaves, and before its TTL and size are looked at, for
//! both mean something else in the other family. Packets of flows that stay in their family pass as
//! they are. Of the others the TTL is decremented, the size compared with the way's MTU, and the
//! headers written anew (RFC 7915); what may be fragmented is (as IPv6 here, to what every way of
//! IPv6 carries unless `lowest_ipv6_mtu` says more; as IPv4 by whoever needs to). ICMP errors are
//! translated with what they quote. It is the PLAT of 464XLAT (RFC 6877) as well.
//!
//! Outputs:
//! - 0: what stays in its family
//! - 1: translated, with a TTL that is decremented
//! - 2: the TTL is used up; that it would have gone over is noted, by an MTU
//! - 3: too big; the MTU to tell is noted
//!
//! See also: [Translate], [Lookup4], [Lookup6]

use fib::{AdjacencyId, InterfaceId, NextHopId, View};
use graph::arguments::{Blame, Refused};
use graph::{BATCH, Batch, Class, Context, Element};
use nat::{GROWTH, Mtus, Translator};
use port::Packet;
use wire::{Fragment, IcmpError, Reason, ipv4, ipv6};

use super::context::SharedContext;
use super::translate::{Rewriting, rewriting};
use super::{RouterContext, network, note_mtu, u16_at, way_mtu};

/// The class `Translate64`.
pub const CLASS: Class = Class {
    name: "Translate64",
    ports: "1/4",
    processing: Class::PUSH,
    flow: Class::COMPLETE_FLOW,
    source: include_str!("translate64.rs"),
    make: |arguments, setup| {
        let (context, tables) =
            (setup.environment.get::<SharedContext>(), setup.environment.get::<RouterContext>());
        if context.is_none() || tables.is_none() {
            let message = "this element translates the flows of a running router, which are not here";
            arguments.wrong(Blame::Element, message);
        }
        arguments.finish()?;
        let (context, view) = ((*context.ok_or(Refused)?).clone(), tables.ok_or(Refused)?.view.clone());
        // Different from worker to worker, whose contexts are at different addresses.
        let id = (&*context.lock() as *const _ as usize >> 6) as u16;
        let mtus = Mtus { ipv4: 0, ipv6: 0 };
        Ok(Box::new(Translate64 {
            context,
            view,
            translator: Translator::new(Vec::new(), mtus, id),
            id: u32::from(id),
            gathered: Vec::new(),
        }))
    },
};

const SAME: usize = 0;
const TRANSLATED: usize = 1;
const EXPIRED: usize = 2;
const TOO_BIG: usize = 3;
/// The outputs' names.
pub(super) const OUTPUTS: [&str; 4] =
    ["same", "translated", IcmpError::Expired.name(), IcmpError::TooBig.name()];
/// What an IPv6 header has more than an IPv4 header.
const WIDER: usize = ipv6::HEADER - ipv4::HEADER;
/// An IPv6 fragment header.
const FRAGMENT_HEADER: usize = 8;

/// Translates between families. Drops (`untranslatable`, or what is wrong with it) what has no
/// counterpart there.
pub struct Translate64 {
    context: SharedContext,
    view: View,
    translator: Translator,
    /// Of the next IPv6 packet that is fragmented here.
    id: u32,
    /// A packet of several segments, in one piece.
    gathered: Vec<u8>,
}

/// What becomes of a packet.
enum Fate {
    Goes,
    /// In pieces that fit.
    Pieces(Vec<Packet>),
    Told(usize),
    Dropped(Reason),
}

impl Translate64 {
    /// The MTU of the way out, and of the way in.
    fn mtus(&self, packet: &Packet) -> [usize; 2] {
        let back = Some(self.view.interface(packet.input).mtu()).filter(|mtu| *mtu > 0);
        [way_mtu(&self.view.hops(), packet), back].map(|mtu| mtu.unwrap_or(1500) as usize)
    }

    #[cold]
    fn translate(
        &mut self,
        packet: &mut Packet,
        found: &Rewriting,
        prefixes: Vec<nat::Prefix64>,
        lowest: usize,
    ) -> Fate {
        let Rewriting { headers, seen, to, error } = found;
        let [out, back] = self.mtus(packet);
        if headers.ttl <= 1 {
            note_mtu(packet, out as u32);
            return Fate::Told(EXPIRED);
        }
        let (length, version) = (usize::from(headers.length), headers.version);
        let fragment = headers.fragment != Fragment::Whole;
        let more = WIDER + if fragment { FRAGMENT_HEADER } else { 0 };
        let mut cut = None;
        if version == 6 {
            let room = out.max(ipv6::MINIMUM_MTU - WIDER);
            if length.saturating_sub(more) > room {
                note_mtu(packet, (room + WIDER) as u32);
                return Fate::Told(TOO_BIG);
            }
        } else if !*error {
            let Some(header) = network::<20>(packet) else { return Fate::Dropped(Reason::Truncated) };
            let (whole, room) = (u16_at(header, 6) & ipv4::DONT_FRAGMENT != 0, out.max(ipv6::MINIMUM_MTU));
            // Of a sender that lets others fragment nobody knows that it would heed a router behind
            // this one.
            let room = if whole { room } else { room.min(lowest) };
            if length + more > room && whole {
                note_mtu(packet, (room - more) as u32);
                return Fate::Told(TOO_BIG);
            }
            cut = (length + more > room).then_some(room);
        }
        let [four, six] = if version == 4 { [back, out] } else { [out, back] };
        let narrow = |mtu: usize| u16::try_from(mtu).unwrap_or(u16::MAX);
        self.translator.mtus = Mtus { ipv4: narrow(four), ipv6: narrow(six) };
        self.translator.prefixes = prefixes;
        let headers = wire::Headers { ttl: headers.ttl - 1, ..*headers };
        let (l3, way) = (packet.l3(), Way::of(packet));
        let whole = packet.segment_count() == 1;
        if whole {
            if !packet.pull(l3) || packet.push(GROWTH).is_none() {
                return Fate::Dropped(Reason::Untranslatable);
            }
        } else {
            self.gather(packet, l3);
        }
        let buffer = if whole { packet.data_mut() } else { &mut self.gathered[..] };
        let place = if version == 6 {
            self.translator.to_ipv4(buffer, GROWTH, &headers, seen, to)
        } else {
            self.translator.to_ipv6(buffer, GROWTH, &headers, seen, to)
        };
        let place = match place {
            Ok(place) => place,
            Err(Reason::Malformed) => return Fate::Dropped(Reason::Untranslatable),
            Err(reason) => return Fate::Dropped(reason),
        };
        if let Some(room) = cut {
            self.id = self.id.wrapping_add(1);
            return pieces(way, &buffer[place], room, self.id);
        }
        if !whole {
            let Some(translated) = Packet::new(&buffer[place]) else {
                return Fate::Dropped(Reason::NoBuffer);
            };
            *packet = way.lead(translated);
            return Fate::Goes;
        }
        packet.truncate(place.end);
        packet.pull(place.start);
        packet.set_network(0);
        Fate::Goes
    }

    /// Puts a packet into one piece, from its network header on, with room in front.
    fn gather(&mut self, packet: &Packet, l3: usize) {
        self.gathered.clear();
        packet.segments().for_each(|segment| self.gathered.extend_from_slice(segment));
        self.gathered.splice(..l3.min(self.gathered.len()), [0; GROWTH]);
    }
}

/// An IPv6 packet in fragments.
fn pieces(way: Way, bytes: &[u8], mtu: usize, id: u32) -> Fate {
    let (mut pieces, mut full) = (Vec::new(), false);
    let done = nat::fragment6(bytes, mtu, id, |header, data| {
        let Some(mut piece) = Packet::new(data).filter(|_| !full) else {
            full = true;
            return;
        };
        full |= !piece.prepend(header);
        pieces.push(way.lead(piece));
    });
    match (done, full) {
        (true, false) => Fate::Pieces(pieces),
        (true, true) => Fate::Dropped(Reason::NoBuffer),
        // The header of a translated packet is known, so it could be.
        (false, _) => Fate::Dropped(Reason::TooBig),
    }
}

/// Where a packet comes from and goes.
#[derive(Clone, Copy)]
struct Way {
    ports: [InterfaceId; 2],
    next_hop: NextHopId,
    adjacency: AdjacencyId,
    paint: u8,
}

impl Way {
    fn of(packet: &Packet) -> Way {
        let Packet { input, output, next_hop, adjacency, paint, .. } = *packet;
        Way { ports: [input, output], next_hop, adjacency, paint }
    }

    /// Sends one that begins with its IP header there.
    fn lead(self, mut packet: Packet) -> Packet {
        let Way { ports: [input, output], next_hop, adjacency, paint } = self;
        (packet.input, packet.output, packet.paint) = (input, output, paint);
        (packet.next_hop, packet.adjacency) = (next_hop, adjacency);
        packet.set_network(0);
        packet
    }
}

impl Element for Translate64 {
    fn class(&self) -> &'static str {
        CLASS.name
    }

    fn outputs(&self) -> &'static [&'static str] {
        &OUTPUTS
    }

    fn push(&mut self, _input: usize, batch: &mut Batch, cx: &mut Context<'_>) {
        let context = self.context.clone();
        let mut context = context.lock();
        let mut crossing = 0u64;
        let mut found = [const { None }; BATCH];
        for (index, packet) in batch.packets().iter().enumerate() {
            let crosses = |rewriting: &Rewriting| (rewriting.headers.version == 4) != rewriting.to.is_ipv4();
            if context.metadata(packet).is_some_and(|metadata| metadata.towards.is_some())
                && let Some(rewriting) = rewriting(&self.view, &mut context, packet).filter(crosses)
            {
                crossing |= 1 << index;
                found[index] = Some(rewriting);
            }
        }
        let lowest = context.nat.as_ref().filter(|_| crossing != 0).map_or(0, |nat| nat.lowest_ipv6_mtu());
        let lowest = usize::from(lowest.max(nat::Rules::LOWEST_IPV6_MTU));
        batch.take(crossing, |index, mut packet| {
            let Some(rewriting) = found[index].take() else { return };
            let wanted = context.nat.as_ref().filter(|_| rewriting.error);
            let prefixes = wanted.map(|nat| nat.prefixes64()).unwrap_or_default();
            match self.translate(&mut packet, &rewriting, prefixes, lowest) {
                Fate::Goes => cx.emit(TRANSLATED, packet),
                Fate::Pieces(pieces) => pieces.into_iter().for_each(|piece| cx.emit(TRANSLATED, piece)),
                Fate::Told(output) => cx.emit(output, packet),
                Fate::Dropped(reason) => cx.drop(packet, reason),
            }
        });
        cx.emit_batch(SAME, batch);
    }
}
