//! Track: what a packet's headers say, and which flow it belongs to
//!
//! Group: router
//! Usage: `Track`
//! Ports: 1 input, 1 output; push
//!
//! Stands before everything that judges packets. It reads the headers once, looks up the flows of a
//! batch together, and brings each flow up to date: its state, its TCP windows, its time, its
//! packets and bytes. What it finds out it leaves for the elements behind it. An ICMP error is
//! looked up by the packet that it quotes, if its checksum holds, as that of every packet must
//! which opens a flow or changes how far it is; a later fragment is known by its first. A new flow
//! is not begun here but where it has been let through ([Filter]), so the later fragments of its
//! first packet, where they come in the same batch as the first, wait here until that batch has
//! gone through. Those that overtook their first (RFC 4787, REQ-14) wait for it, 50 to 100 ms and
//! at most 128 of them; what then is still without it, or finds no room, is of no flow. They go on
//! at once where nothing depends on flows.
//!
//! Packets whose upper layer's header is cut short or overlapped by a fragment are dropped: no rule
//! can be applied to them.
//!
//! See also: [Filter]

use fib::View;
use flow::{Hit, Key, State, Tracked, Tuple};
use graph::{BATCH, Batch, Class, Context, Element};
use nat::Destination;
use port::Packet;
use rules::FlowState;
use wire::{Fragment, Headers, Reason, icmp4};

use super::context::{SharedContext, WorkerContext};
use super::ftp::may_be_control;
use super::intact::is_intact;
use super::router_context::on_policy;
use super::{RouterContext, beside};

/// The class `Track`.
pub const CLASS: Class = Class {
    name: "Track",
    ports: "1/1",
    processing: Class::PUSH,
    flow: Class::COMPLETE_FLOW,
    source: include_str!("track.rs"),
    make: |arguments, setup| {
        on_policy(arguments, setup, |RouterContext { view, .. }, context, _| {
            let blank = Key::of(&Tuple::default());
            let waiting = [Batch::new(), Batch::new()];
            let aims = Vec::with_capacity(BATCH);
            Track { context, view, blank, keys: [blank; BATCH], hits: [None; BATCH], aims, waiting }
        })
    },
};

/// How long a fragment waits for its first in each of two ages, in nanoseconds: many times what
/// ways differ by.
const AGE: u64 = 50_000_000;
/// Of those in [`Track::waiting`].
const YOUNG: usize = 0;
const OLD: usize = 1;

/// Notes what each packet is. Drops what no rule can be applied to.
pub struct Track {
    context: SharedContext,
    view: View,
    /// What no packet has.
    blank: Key,
    /// Of the batch in work.
    keys: [Key; BATCH],
    hits: [Option<Hit>; BATCH],
    /// Where the first packets of new flows in the batch go, by their places in it: those behind
    /// them in it go there as well, though a rule may lead every flow elsewhere.
    aims: Vec<(usize, Destination)>,
    /// Later fragments, young and old: whose first is on its way, of no flow yet, until the end of
    /// the round; and whose first did not come yet.
    waiting: [Batch; 2],
}

/// How the filter calls the state of a packet.
pub(super) fn called(state: State) -> FlowState {
    match state {
        State::New => FlowState::New,
        State::Established => FlowState::Established,
        State::Related => FlowState::Related,
        State::Invalid => FlowState::Invalid,
    }
}

/// A packet's headers. Of one in several segments the first is all that can be looked at.
pub(super) fn headers(packet: &Packet) -> Result<Headers, Reason> {
    let mut headers = Headers::default();
    read(packet, &mut headers)?;
    Ok(headers)
}

/// As [`headers`], where they are to stay.
#[inline(always)]
fn read(packet: &Packet, headers: &mut Headers) -> Result<(), Reason> {
    if packet.segment_count() == 1 {
        return headers.read(packet.network());
    }
    *headers = Headers::quoted(packet.network())?;
    Ok(())
}

/// The flow that an ICMP error is about. None is what was damaged on its way (RFC 5508, REQ-3),
/// what goes to somebody else than who sent the packet that it quotes, and a redirect: that is for
/// the first hop to say (RFC 1122, 3.2.2.2), and never comes from afar. The checksum in the header
/// that it quotes is not asked: routers count the TTL down there and leave the checksum as it was.
#[cold]
fn related(
    flows: &mut flow::Worker,
    headers: &Headers,
    packet: &Packet,
    table: u16,
    now: u64,
) -> Option<Hit> {
    let redirects = headers.version == 4 && headers.icmp_type == icmp4::REDIRECT;
    if redirects || !is_intact(headers, packet) {
        return None;
    }
    let quoted = packet.network().get(usize::from(headers.transport) + 8..)?;
    let quote = Headers::quoted(quoted).ok()?;
    if quote.source != headers.destination {
        return None;
    }
    flows.related(&quote, quoted, table, now)
}

impl Element for Track {
    fn class(&self) -> &'static str {
        CLASS.name
    }

    fn push(&mut self, _input: usize, batch: &mut Batch, cx: &mut Context<'_>) {
        self.follow(batch, Some(YOUNG), cx);
    }

    fn task(&mut self, cx: &mut Context<'_>) -> bool {
        for age in [OLD, YOUNG] {
            let mut waiting = std::mem::take(&mut self.waiting[age]);
            self.follow(&mut waiting, Some(age), cx);
        }
        true
    }

    fn timer(&mut self, id: u32, cx: &mut Context<'_>) {
        let mut waiting = std::mem::take(&mut self.waiting[OLD]);
        self.follow(&mut waiting, None, cx);
        self.waiting.swap(YOUNG, OLD);
        if !self.waiting[OLD].is_empty() {
            let next = cx.now() + AGE;
            cx.set_timer(id, next);
        }
    }
}

impl Track {
    /// Notes what the packets of a batch are, and passes them on; later fragments may wait for
    /// their first, among those of an age.
    fn follow(&mut self, batch: &mut Batch, age: Option<usize>, cx: &mut Context<'_>) {
        let now = cx.now();
        let mut context = self.context.lock();
        let context = &mut *context;
        let (count, first) = (batch.len(), context.reserve(batch.len()));
        let WorkerContext { flows, nat, ftp, controls, otherwise, metadata, .. } = context;
        let all_metadata = &mut metadata[first..first + count];
        let hops = self.view.hops();
        let (mut wrong, mut reasons) = (0u64, [Reason::None; BATCH]);
        // First fragments, later ones that came before them, and all later ones that have to wait.
        let (mut firsts, mut orphans, mut early) = (0u64, 0u64, 0u64);
        // Fragments without their first, and errors, are not looked up by what they are themselves.
        let mut others = 0u64;
        for (index, (packet, metadata)) in batch.packets_mut().iter_mut().zip(&mut *all_metadata).enumerate()
        {
            metadata.begin(first + index, packet);
            if let Err(reason) = read(packet, &mut metadata.headers) {
                (wrong, reasons[index]) = (wrong | 1 << index, reason);
                others |= 1 << index;
                self.keys[index] = self.blank;
                continue;
            }
            let Some(flows) = flows else { continue };
            firsts |= u64::from(metadata.headers.fragment == Fragment::First) << index;
            let table = beside::of_flows(&hops, packet.input);
            if flow::is_error(&metadata.headers)
                || !flows.key(&metadata.headers, table, now, &mut self.keys[index])
            {
                others |= 1 << index;
                orphans |= u64::from(metadata.headers.fragment == Fragment::Later) << index;
                self.keys[index] = self.blank;
            }
        }
        let Some(flows) = flows else {
            all_metadata.iter_mut().for_each(|metadata| metadata.state = *otherwise);
            batch.take(wrong, |index, packet| cx.drop(packet, reasons[index]));
            return cx.emit_batch(0, batch);
        };
        let hits = &mut self.hits[..count];
        flows.lookup(&self.keys[..count], hits);
        if let Some(connections) = ftp {
            for (index, metadata) in
                all_metadata.iter().enumerate().filter(|(_, metadata)| may_be_control(&metadata.headers))
            {
                *controls += 1;
                if let Some(hit) = hits[index] {
                    let ip = batch.packets_mut()[index].network_mut();
                    connections.acknowledge(&flows.original(&hit), ip, &metadata.headers, hit.direction);
                }
            }
        }
        let orphans = if flows.table().is_needed() { orphans } else { 0 };
        if let Some(age) = age.filter(|_| firsts | orphans != 0) {
            let mut room = self.waiting[age].room();
            for (index, metadata) in all_metadata.iter().enumerate() {
                let follows = |at| firsts >> at & 1 != 0 && self.keys[at] == self.keys[index];
                let unknown = metadata.headers.fragment == Fragment::Later && hits[index].is_none();
                let waits = orphans >> index & 1 != 0 || unknown && (0..index).any(follows);
                if waits && room > 0 {
                    (early, room) = (early | 1 << index, room - 1);
                }
            }
        }
        flows.prepare(hits);
        self.aims.clear();
        for (index, ((metadata, packet), hit)) in
            all_metadata.iter_mut().zip(batch.packets()).zip(hits).enumerate()
        {
            if early >> index & 1 != 0 {
                continue;
            }
            let (headers, ip) = (&metadata.headers, packet.network());
            let (hit, state) = if others >> index & 1 != 0 {
                if wrong >> index & 1 != 0 {
                    continue;
                }
                let table = beside::of_flows(&hops, packet.input);
                let about = flow::is_error(headers).then(|| related(flows, headers, packet, table, now));
                let about = about.flatten();
                (about, if about.is_some() { State::Related } else { State::Invalid })
            } else {
                let intact = || is_intact(headers, packet);
                match hit.map(|hit| (hit, flows.track(&hit, headers, ip, now, intact))) {
                    Some((hit, Tracked::Is(state))) => (Some(hit), state),
                    Some((_, Tracked::Reopens)) | None => (None, flows.opens(headers, ip, intact)),
                }
            };
            (metadata.hit, metadata.state) = (hit, called(state));
            if let Some(hit) = hit.filter(|hit| hit.translated) {
                // An error goes the other way than the packet that it is about.
                let direction =
                    if state == State::Related { hit.direction.reversed() } else { hit.direction };
                metadata.towards = Some(flows.towards(&hit, direction));
            } else if let (Some(nat), None, State::New) = (&*nat, hit, state) {
                let called = Tuple::of(headers, beside::of_flows(&hops, packet.input));
                if nat.is_expected(&called) {
                    (metadata.state, metadata.expected) = (FlowState::Related, true);
                }
                let same = |(at, _): &&(usize, Destination)| self.keys[*at] == self.keys[index];
                let aim = match self.aims.iter().find(same) {
                    Some((_, aim)) => Ok(Some(*aim)),
                    None => nat.destination(&called, packet.input.0),
                };
                match aim {
                    Ok(Some(aim)) => {
                        (metadata.towards, metadata.aim) = (Some(aim.address), Some(aim));
                        self.aims.push((index, aim));
                    }
                    Ok(None) => {}
                    Err(refusal) => (wrong, reasons[index]) = (wrong | 1 << index, super::refused(refusal)),
                }
            } else if let (Some(nat), None, State::Invalid) = (&*nat, hit, state)
                && nat.gives_out(&metadata.headers.destination, packet.input.0)
            {
                (wrong, reasons[index]) = (wrong | 1 << index, super::refused(nat::Refusal::Nobody));
            }
        }
        batch.take(wrong | early, |index, packet| match age.filter(|_| early >> index & 1 != 0) {
            None => cx.drop(packet, reasons[index]),
            Some(age) => self.waiting[age].fill(std::iter::once(packet)),
        });
        if firsts != 0 && self.waiting.iter().any(|waiting| !waiting.is_empty()) {
            cx.schedule();
        }
        if early & orphans != 0 && cx.timer(0).is_none() {
            cx.set_timer(0, now + AGE);
        }
        cx.emit_batch(0, batch);
    }
}
