//! Filter: applies the filter's rules, and lets new flows begin
//!
//! Group: router
//! Usage: `Filter(HOOK)`
//! Ports: 1 input, 2 outputs and one for each error that it refuses by; push
//!
//! `Filter(INPUT)` asks the chain `input`, before the route is known. `Filter(TRANSIT)` asks
//! `forward` and `output`, when it is; what they let pass and what belongs to no flow yet begins
//! one. The packets of a flow that has been judged are not judged again, as long as the rules, the
//! flow's state and the out port stay, and no rule asks for more than these: they are counted with
//! the rule that decided, and go on.
//!
//! Where addresses are translated, the rules for transit see where a packet really goes, and where
//! it came from as it came: so does Linux's copy of them.
//!
//! Where flows are tracked, what only Linux sees both ways of is not judged here: what is for this
//! machine, and what leaves by an interface that is no port. Answers come and go by Linux, so that
//! the packets that pass here would seem to contradict each other. It has the same rules, and
//! begins the flow, translated or not, by its own means.
//!
//! - `HOOK`: `INPUT` or `TRANSIT`
//!
//! Outputs:
//! - 0: what passes
//! - 1: to be answered with a TCP reset
//! - 2 and on: to be answered with an ICMP error, one that rules can ask for each; the last: new
//!   flows that address translation has no port for
//!
//! See also: [Track], [TcpReset], [IcmpError4], [IcmpError6]

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use fib::{HopKind, InterfaceId, View};
use flow::{Direction, End, Hit, Inserted, Key, Opening, Tuple};
use graph::arguments::{Blame, Refused, Word};
use graph::{BATCH, Batch, Class, Context, Element};
use port::Packet;
use rules::{Compiled, Decision, FlowState, Hook, Now, Outcome, Reject, RuleId};
use wire::{Fragment, Headers, IcmpError, Reason, protocol, tcp};

use super::RouterContext;
use super::beside;
use super::context::{Metadata, SharedContext, WorkerContext};
use super::family::{Family, V4};
use super::rulebook::{Logged, Reader, Rulebook, Verdict};
use super::steer;
use super::track::{called, headers};
use super::way_back::is_by_rules;

/// The class `Filter`.
pub const CLASS: Class = Class {
    name: "Filter",
    ports: "1/2-",
    processing: Class::PUSH,
    flow: Class::COMPLETE_FLOW,
    source: include_str!("filter.rs"),
    make: |arguments, setup| {
        let hook = arguments.mandatory::<Word>("HOOK");
        let transit = hook.as_ref().and_then(|hook| match hook.0.as_str() {
            "INPUT" => Some(false),
            "TRANSIT" => Some(true),
            _ => None,
        });
        if hook.is_some() && transit.is_none() {
            arguments.wrong("HOOK", "expected INPUT or TRANSIT");
        }
        let (context, book) =
            (setup.environment.get::<SharedContext>(), setup.environment.get::<Arc<Rulebook>>());
        let tables = setup.environment.get::<RouterContext>();
        if context.is_none() || book.is_none() || tables.is_none() {
            arguments.wrong(
                Blame::Element,
                "this element applies the filter of a running router, which is not here",
            );
        }
        arguments.finish()?;
        Ok(Box::new(Filter {
            transit: transit.ok_or(Refused)?,
            view: tables.as_ref().ok_or(Refused)?.view.clone(),
            steering: steer::Reader::new(tables.ok_or(Refused)?.steering.clone()),
            context: (*context.ok_or(Refused)?).clone(),
            reader: Reader::new((*book.ok_or(Refused)?).clone()),
            undecided: None,
        }))
    },
};

const PASS: usize = 0;
const RESET: usize = 1;
const NO_PORT_LEFT: usize = output_of(IcmpError::NoPortLeft);
/// Ports that are tried for a source whose own is taken.
const OTHER_PORTS: u32 = 8;

/// Applies rules. Drops what they drop (`filtered`), and new flows that the table has no room for
/// (`flows_full`).
pub struct Filter {
    transit: bool,
    view: View,
    steering: steer::Reader,
    context: SharedContext,
    reader: Reader,
    /// Here between two batches.
    undecided: Option<Box<Undecided>>,
}

/// Packets of the batch in work that have to be judged.
struct Undecided {
    /// Their places in the batch.
    places: [u8; BATCH],
    headers: [Headers; BATCH],
    contexts: [rules::Context; BATCH],
    judged: [Judged; BATCH],
    count: usize,
}

impl Default for Undecided {
    fn default() -> Undecided {
        Undecided {
            places: [0; BATCH],
            headers: [Headers::default(); BATCH],
            contexts: [rules::Context::default(); BATCH],
            judged: [Judged::default(); BATCH],
            count: 0,
        }
    }
}

/// Packets in a row that were decided by the same: counted together.
#[derive(Default)]
pub(super) struct Run<D> {
    pub decided: D,
    pub packets: u64,
    pub bytes: u64,
}

/// The rules that decide a packet, at each hook.
pub(super) type Deciders = [Option<RuleId>; 3];

impl<D: Copy + Default + PartialEq> Run<D> {
    /// Another packet; what does not belong to it goes to the accounts.
    #[inline(always)]
    pub(super) fn add(&mut self, decided: D, bytes: u16, ended: impl FnOnce(&Run<D>)) {
        if self.decided != decided {
            ended(self);
            *self = Run { decided, ..Run::default() };
        }
        self.packets += 1;
        self.bytes += u64::from(bytes);
    }

    /// Counts its packets with the rules that decided; `now` in steady nanoseconds.
    pub(super) fn count(&self, rules: &Deciders, compiled: &Compiled, worker: usize, now: u64) {
        for rule in rules.iter().flatten() {
            compiled.accounts().count(worker, *rule, self.packets, self.bytes, now);
        }
    }
}

/// What the chains came to.
#[derive(Clone, Copy, Default)]
struct Judged {
    outcome: Outcome,
    rules: Deciders,
    log: Option<RuleId>,
    mark: u32,
    dscp: Option<u8>,
    varies: bool,
}

impl Judged {
    fn add(&mut self, hook: Hook, decision: &Decision) {
        self.rules[hook as usize] = decision.rule;
        self.log = self.log.or(decision.log);
        self.mark = decision.mark;
        self.dscp = decision.dscp.or(self.dscp);
        self.varies |= decision.varies;
        // Last: what is beside it is read above, in one load with it, which would wait for this to
        // be written.
        self.outcome = decision.outcome;
    }
}

impl Filter {
    /// What all packets of this one's flow and direction come to, if that is known, and how long it
    /// is.
    #[inline(always)]
    fn known(&mut self, context: &mut WorkerContext, packet: &Packet) -> Option<(&Verdict, u16)> {
        let transit = self.transit;
        let (Some(metadata), Some(flows)) = context.open(packet) else { return None };
        let hit = metadata.hit.filter(|_| metadata.state != FlowState::Related)?;
        let verdict =
            self.reader.verdict(flows.decision(&hit)).filter(|verdict| verdict.state == metadata.state)?;
        if transit && verdict.output != packet.output {
            return None;
        }
        metadata.judged |= transit;
        Some((verdict, metadata.headers.length))
    }

    /// Whether a packet is of what Linux alone sees both ways of. What was translated here has its
    /// flow here.
    fn is_of_linux(&mut self, context: &mut WorkerContext, packet: &Packet) -> bool {
        if context.flows.is_none() {
            return false;
        }
        let Some(metadata) = context.metadata(packet) else { return false };
        if self.transit {
            return packet.output == InterfaceId::NONE && !metadata.hit.is_some_and(|hit| hit.translated);
        }
        if metadata.hit.is_some() {
            return false;
        }
        let to = metadata.towards.unwrap_or(metadata.headers.destination);
        let to = V4::address(to).map_or_else(|| IpAddr::V6(to.into()), |four| IpAddr::V4(four.into()));
        let id = match is_by_rules(&self.view, packet) {
            true => self.steering.next_hop(&self.view, packet, context, to),
            false => self.view.lookup_from(packet.input, to),
        };
        matches!(self.view.hop(id).kind(), HopKind::Local | HopKind::Punt)
    }

    /// Asks the chains about packets, one chain after the other.
    fn judge(&self, worker: usize, now: &Now, packets: &mut Undecided) {
        let count = packets.count;
        let hooks: &[Hook] = if self.transit { &[Hook::Forward, Hook::Output] } else { &[Hook::Input] };
        let mut decisions = [Decision::default(); BATCH];
        for hook in hooks.iter().filter(|hook| !self.reader.compiled().passes_all(**hook)) {
            let (headers, contexts) = (&packets.headers[..count], &packets.contexts[..count]);
            self.reader.compiled().classify(worker, *hook, now, headers, contexts, &mut decisions[..count]);
            let judged = packets.judged[..count].iter_mut().zip(&mut packets.contexts);
            for ((judged, context), decision) in judged.zip(&decisions) {
                if judged.outcome == Outcome::Accept {
                    judged.add(*hook, decision);
                    context.mark = judged.mark;
                }
            }
        }
    }

    /// Lets the flow of a packet that passes begin, unless there is one, and keeps what it came to
    /// for the packets behind it.
    fn keep(
        &mut self,
        context: &mut WorkerContext,
        packet: &Packet,
        judged: &Judged,
        now: u64,
    ) -> Result<(), Reason> {
        let (nat, ended) = (context.nat.clone(), context.ended.clone());
        let (Some(metadata), Some(flows)) = context.open(packet) else { return Ok(()) };
        (metadata.mark, metadata.varies) = (judged.mark, judged.varies);
        metadata.input = judged.rules[Hook::Input as usize];
        if !self.transit {
            return Ok(());
        }
        metadata.judged = true;
        let table = beside::of_flows(&self.view.hops(), packet.input);
        let original = Tuple::of(&metadata.headers, table);
        let ports = [packet.input, packet.output].map(|port| port.0.min(flow::NO_PORT));
        // An error is none of the packets that the flow it quotes is made of.
        if let (Some(hit), Some(nat)) = (&metadata.hit, &nat)
            && hit.direction == Direction::Original
            && metadata.state != FlowState::Related
            && begins_anew(flows, nat, hit, &original, ports)
        {
            // What was translated has been judged, and aimed, as what it is no more: its next
            // packet begins.
            if !flows.end(hit, End::Flushed) || hit.translated {
                return Err(Reason::Untranslatable);
            }
            (metadata.hit, metadata.state) = (None, FlowState::New);
        }
        if metadata.hit.is_none() && (metadata.state == FlowState::New || metadata.expected) {
            // From here on it is a flow like others; ICMP errors stay related.
            metadata.state = FlowState::New;
            let headers = &metadata.headers;
            let within = headers.protocol == protocol::TCP && headers.tcp_flags & tcp::flag::SYN == 0;
            if let Some(nat) = nat.as_ref().filter(|_| within && metadata.aim.is_none())
                && ports[1] != flow::NO_PORT
                && nat.is_of_target(&original)
            {
                // What a server says in mid-stream: as a flow of its own it would leave by another
                // address than was called. Its flow begins with what the other end says.
                return Err(Reason::Untranslatable);
            }
            let mut binding = match &nat {
                Some(nat) => {
                    nat.bind(&original, metadata.aim.as_ref(), ports, now).map_err(super::refused)?
                }
                None => None,
            };
            // Answers come by the interface that it leaves by, which another table may route.
            let answers = beside::of_answers(&self.view.hops(), packet);
            let back = |reply: Tuple| Tuple { table: answers, ..reply };
            let mut reply = binding.as_ref().map(|binding| back(binding.reply));
            let noted = |record| {
                if let Some(ended) = &ended
                    && ended.made.push(record).is_err()
                {
                    ended.lost.fetch_add(1, Ordering::Relaxed);
                }
            };
            binding.as_mut().and_then(|made| made.record.take()).into_iter().for_each(noted);
            let crosses = (answers != table && reply.is_none()).then(|| back(original.reversed()));
            let mut opening = Opening {
                headers: &metadata.headers,
                ip: packet.network(),
                original,
                reply: reply.or(crosses),
                ports,
                mark: judged.mark as u8,
            };
            let mut inserted = flows.insert(&opening, now);
            if let Err(flow::Refused::ReplyInUse(taken)) = &inserted
                && gives_way(flows, taken)
            {
                inserted = flows.insert(&opening, now);
            }
            if let (Err(flow::Refused::ReplyInUse(_)), Some(_)) = (&inserted, crosses) {
                // Of whoever has it there. It goes nevertheless, as all do that are not translated.
                opening.reply = None;
                inserted = flows.insert(&opening, now);
            }
            for attempt in 0..OTHER_PORTS {
                let (Err(flow::Refused::ReplyInUse(_)), Some(wanted)) = (&inserted, &reply) else { break };
                let Some(other) = nat::other_port(&original, wanted, attempt) else { break };
                (reply, opening.reply) = (Some(other), Some(other));
                inserted = flows.insert(&opening, now);
            }
            if let (Some(nat), Some(reply), false) = (&nat, reply, matches!(inserted, Ok(Inserted::New(_)))) {
                // Nobody has the binding.
                nat.release_tuples(&original, &reply, now, &mut |record| noted(record));
            }
            let translated = nat.as_ref().zip(binding.as_ref());
            match inserted {
                Ok(Inserted::New(hit)) => {
                    metadata.hit = Some(hit);
                    if let Some((nat, binding)) = translated {
                        nat.count(binding);
                    }
                }
                Ok(Inserted::Existing(hit)) => {
                    if let flow::Tracked::Is(state) =
                        flows.track(&hit, &metadata.headers, packet.network(), now, || true)
                    {
                        (metadata.hit, metadata.state) = (Some(hit), called(state));
                    }
                }
                Err(flow::Refused::NotAnOpening) => {}
                Err(flow::Refused::Full) if flows.table().is_needed() => return Err(Reason::FlowsFull),
                Err(flow::Refused::Full) => {}
                Err(flow::Refused::ReplyInUse(_)) => {
                    if let Some((nat, binding)) = translated {
                        nat.count_exhausted(binding, &original.source);
                    }
                    return Err(Reason::PortsExhausted);
                }
            }
        }
        if metadata.hit.is_none() && nat.is_some_and(|nat| nat.concerns(&original, ports)) {
            // Of no flow, and opening none: as it is it would show what is inside.
            return Err(Reason::Untranslatable);
        }
        // What is said of packets that do not belong to the flow is not kept for those that do.
        let of_flow = !matches!(metadata.state, FlowState::Related | FlowState::Invalid);
        if let Some(hit) = metadata.hit.filter(|_| !judged.varies && of_flow) {
            let Judged { rules, mark, dscp, .. } = *judged;
            let verdict = Verdict { state: metadata.state, output: packet.output, rules, mark, dscp };
            flows.set_decision(&hit, self.reader.word(&verdict).unwrap_or(0));
        }
        Ok(())
    }

    fn log(&self, rule: RuleId, headers: &Headers, packet: &Packet) {
        let line = Logged {
            rule,
            generation: self.reader.generation(),
            headers: *headers,
            input: packet.input,
            output: self.transit.then_some(packet.output),
        };
        if self.reader.book().log.push(line).is_err() {
            self.reader.book().unlogged.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Whether a flow whose packet leaves from one of these ports by the other cannot stay as it is.
/// One that only Linux could send on, as long as its port was not taken yet, met no rule of that
/// port, and would show what is inside for as long as it lives. One that has lost the address it
/// was leased would not be answered for as long as it lives.
#[cold]
fn begins_anew(flows: &flow::Worker, nat: &nat::Nat, hit: &Hit, original: &Tuple, ports: [u16; 2]) -> bool {
    let ([_, began], _) = flows.route(hit);
    let [input, output] = ports;
    if output == flow::NO_PORT {
        return false;
    }
    match hit.translated {
        true => nat.has_lost(original, &flows.leaving(hit, Direction::Original), input, [began, output]),
        false => began == flow::NO_PORT && nat.concerns(original, ports),
    }
}

/// Ends the flow that has this tuple, if it is one that began before its port was taken, and would
/// not be translated for as long as it lives.
#[cold]
fn gives_way(flows: &mut flow::Worker, taken: &Tuple) -> bool {
    let hit = flows.find(&Key::of(taken)).filter(|hit| !hit.translated);
    hit.is_some_and(|hit| flows.route(&hit).0[1] == flow::NO_PORT && flows.end(&hit, End::Flushed))
}

/// What the rules for transit are shown of a packet: as it came, bound for where it really goes.
/// What will be of the other family they know as it came.
#[inline(always)]
pub(super) fn bound(metadata: &Metadata, flows: Option<&flow::Worker>) -> Headers {
    match metadata.towards.filter(|to| V4::address(*to).is_some() == (metadata.headers.version == 4)) {
        Some(to) => redirected(metadata, flows, to),
        None => metadata.headers,
    }
}

/// Whether the destination of a packet's flow is translated.
#[inline(always)]
fn has_dnat(metadata: &Metadata, flows: Option<&flow::Worker>) -> bool {
    let of_flow = |hit: Hit| flows.is_some_and(|flows| flows.original(&hit).has_dnat(&flows.reply(&hit)));
    let (called, port) = (metadata.headers.destination, metadata.headers.destination_port);
    let aimed = metadata.aim.is_some_and(|aim| (aim.address, aim.port) != (called, port));
    aimed || metadata.hit.is_some_and(|hit| hit.translated && of_flow(hit))
}

#[cold]
fn redirected(metadata: &Metadata, flows: Option<&flow::Worker>, to: [u8; 16]) -> Headers {
    let mut headers = Headers { destination: to, ..metadata.headers };
    let hit = metadata.hit.filter(|hit| hit.translated && metadata.state != FlowState::Related);
    let port = match (&metadata.aim, hit, flows) {
        (Some(aim), ..) => Some(aim.port),
        (None, Some(hit), Some(flows)) => Some(flows.leaving(&hit, hit.direction).destination_port),
        _ => None,
    };
    if protocol::has_ports(headers.protocol) && headers.fragment != Fragment::Later {
        headers.destination_port = port.unwrap_or(headers.destination_port);
    }
    headers
}

/// The errors by which packets are refused here.
const REFUSALS: usize = {
    let (mut count, mut n) = (0, 0);
    while n < IcmpError::ALL.len() {
        count += IcmpError::ALL[n].is_of_the_filter() as usize;
        n += 1;
    }
    count
};
/// The outputs' names: those behind the second are errors'.
pub(super) const OUTPUTS: [&str; 2 + REFUSALS] = {
    let mut names = ["pass"; 2 + REFUSALS];
    names[RESET] = "tcp_reset";
    let (mut next, mut n) = (2, 0);
    while n < IcmpError::ALL.len() {
        if IcmpError::ALL[n].is_of_the_filter() {
            names[next] = IcmpError::ALL[n].name();
            next += 1;
        }
        n += 1;
    }
    names
};

/// The output that leads to an error.
const fn output_of(error: IcmpError) -> usize {
    let (mut output, mut n) = (2, 0);
    while n < error as usize {
        output += IcmpError::ALL[n].is_of_the_filter() as usize;
        n += 1;
    }
    output
}

/// By which output the sender is told.
fn told(reject: Reject, headers: &Headers) -> usize {
    match reject {
        Reject::TcpReset => RESET,
        Reject::Auto if headers.protocol == protocol::TCP => RESET,
        Reject::Auto => output_of(IcmpError::RefusedPort),
        Reject::Icmp(error) => output_of(error),
    }
}

/// Writes a code point (RFC 2474).
fn set_dscp(packet: &mut Packet, dscp: u8) {
    let ip = packet.network_mut();
    match ip.first().map(|first| first >> 4) {
        Some(4) if ip.len() >= wire::ipv4::HEADER => {
            let (before, tos) = (u16::from_be_bytes([ip[0], ip[1]]), dscp << 2 | ip[1] & 3);
            let sum = u16::from_be_bytes([ip[10], ip[11]]);
            ip[1] = tos;
            let sum = wire::checksum::update(sum, before, u16::from_be_bytes([ip[0], tos]));
            ip[10..12].copy_from_slice(&sum.to_be_bytes());
        }
        Some(6) if ip.len() >= wire::ipv6::HEADER => {
            let class = dscp << 2 | (ip[1] >> 4 & 3);
            ip[0] = 0x60 | class >> 4;
            ip[1] = class << 4 | ip[1] & 15;
        }
        _ => {}
    }
}

impl Element for Filter {
    fn class(&self) -> &'static str {
        CLASS.name
    }

    fn outputs(&self) -> &'static [&'static str] {
        &OUTPUTS
    }

    fn push(&mut self, _input: usize, batch: &mut Batch, cx: &mut Context<'_>) {
        self.reader.refresh();
        let steady = cx.now();
        let wall = cx.wall().div_euclid(1_000_000_000);
        let now = Now { monotonic: steady, utc: wall, local_offset: self.reader.book().local_offset() };
        let shared = self.context.clone();
        let mut context = shared.lock();
        let context = &mut *context;
        let (number, transit) = (context.number, self.transit);
        let mut undecided = self.undecided.take().unwrap_or_default();
        undecided.count = 0;
        let mut run = Run::<Deciders>::default();
        let (mut wrong, mut why) = (0u64, [(PASS, Reason::None); BATCH]);
        for (index, packet) in batch.packets_mut().iter_mut().enumerate() {
            if let Some((verdict, length)) = self.known(context, packet) {
                // What is decided at the input is counted where it is applied.
                if transit {
                    let (rules, dscp) = (verdict.rules, verdict.dscp);
                    run.add(rules, length, |run| {
                        run.count(&run.decided, self.reader.compiled(), number, steady)
                    });
                    dscp.into_iter().for_each(|dscp| set_dscp(packet, dscp));
                }
                continue;
            }
            if self.is_of_linux(context, packet) {
                continue;
            }
            // Without metadata (an element before this one kept the packet) it is of no flow.
            let unnoted;
            let (metadata, flows) = match context.open(packet) {
                (Some(metadata), flows) => (&*metadata, flows.map(|flows| &*flows)),
                (None, _) => match headers(packet) {
                    Ok(headers) => {
                        unnoted = Metadata { headers, ..Metadata::default() };
                        (&unnoted, None)
                    }
                    Err(reason) => {
                        (wrong, why[index].1) = (wrong | 1 << index, reason);
                        continue;
                    }
                },
            };
            let at = undecided.count;
            undecided.places[at] = index as u8;
            undecided.headers[at] = if transit { bound(metadata, flows) } else { metadata.headers };
            undecided.contexts[at] = rules::Context {
                in_port: packet.input.0,
                out_port: self.transit.then_some(packet.output.0),
                state: metadata.state,
                dnat: transit && has_dnat(metadata, flows),
                mark: metadata.mark,
            };
            undecided.judged[at] = Judged {
                rules: [metadata.input, None, None],
                mark: metadata.mark,
                varies: metadata.varies,
                ..Judged::default()
            };
            undecided.count += 1;
        }
        run.count(&run.decided, self.reader.compiled(), number, steady);
        if undecided.count > 0 {
            self.judge(number, &now, &mut undecided);
        }
        for at in 0..undecided.count {
            let (index, judged) = (usize::from(undecided.places[at]), undecided.judged[at]);
            let packet = &mut batch.packets_mut()[index];
            if let Some(rule) = judged.log {
                self.log(rule, &undecided.headers[at], packet);
            }
            let refused = match judged.outcome {
                Outcome::Accept => match self.keep(context, packet, &judged, steady) {
                    Ok(()) => None,
                    Err(Reason::PortsExhausted) => Some((NO_PORT_LEFT, Reason::PortsExhausted)),
                    Err(reason) => Some((PASS, reason)),
                },
                Outcome::Drop => Some((PASS, Reason::Filtered)),
                Outcome::Reject(reject) => Some((told(reject, &undecided.headers[at]), Reason::Filtered)),
            };
            match refused {
                Some(refused) => (wrong, why[index]) = (wrong | 1 << index, refused),
                None => judged.dscp.into_iter().for_each(|dscp| set_dscp(packet, dscp)),
            }
        }
        self.undecided = Some(undecided);
        batch.take(wrong, |index, packet| match why[index] {
            (PASS, reason) => cx.drop(packet, reason),
            (output, _) => cx.emit(output, packet),
        });
        cx.emit_batch(PASS, batch);
    }
}
