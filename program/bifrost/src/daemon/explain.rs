//! What would happen to a packet.
//!
//! Nothing is decided here. A frame is made as the question describes it, and shown to the very
//! programs that would handle it: a copy of the port's program in the driver, and a graph like the
//! workers'. What they do is then told with the route and the adjacency that they found, from the
//! same tables.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use crate::control::Question;
use crate::control::status::Step;
use fib::{AdjacencyId, HopKind, InterfaceId, NextHopId, TableId, Tags};
use flow::Tuple;
use plane::FlowSnapshot;
use plane::packet_tracer::{Event, What};
use port::{DriverCounters, Lane};
use wire::checksum::{self, Sum};
use wire::{Class, Headers, Mac, Reason, ethernet, ipv4, ipv6, protocol, tcp, udp};

use super::forwarding::Forwarding;
use super::routes;
use rules::{Asked, Entry};
use translation::Translation;

mod rules;
mod translation;

/// Who the packet seems to come from: a locally administered address.
const SENDER: Mac = Mac([0x02, 0, 0, 0, 0, 0xee]);

/// IPv4's flag, in the field with the offset.
const DONT_FRAGMENT: u16 = 0x4000;

impl Forwarding {
    pub(super) fn explain(&mut self, question: &Question) -> Result<Vec<Step>, String> {
        let mut steps = Vec::new();
        let entry = self.entry(question, &mut steps)?;
        let Entry::Port(input) = entry else {
            // The address that it would be sent to is nobody's.
            let frame = frame(question, Mac::default())?;
            let destination = question.destination;
            let asked = Asked { frame: &frame, table: self.table_of_entry(entry), destination, aim: None };
            self.explain_route(asked, &mut steps);
            self.explain_linux(entry, asked, &mut steps);
            return Ok(steps);
        };
        let place = self.plane.place(input);
        let Some((port, interface, tags, lane)) =
            place.and_then(|(port, interface, tags)| Some((port, interface, tags, port.lane()?)))
        else {
            return Ok(end(steps, "port", "Linux has it", "the port is not taken: see `bifrost show ports`"));
        };
        let port_id = port.id;
        let shared = port.shared.is_some();
        let mut frame = frame(question, Mac(interface.mac))?;
        let tuple = frame.get(ethernet::HEADER..).and_then(|ip| Headers::parse(ip).ok());
        let vrf = self.tables.view().hops().link(input).table().of_addresses();
        let tuple = tuple.map(|headers| Tuple::of(&headers, vrf.0)).unwrap_or_default();
        let flow = self.plane.policy().flow_snapshot(&tuple);
        if let Some(flow) = &flow {
            go_on(&mut frame, flow);
            explain_flow(flow, &mut steps);
        }
        // The same for both, so that they say the same of what is chosen at random.
        let nat = self.plane.policy().nat().map(|nat| Arc::new(nat.for_dry_run(&tuple)));
        let translation = Translation::of(nat.as_ref(), input, tuple, flow);
        let aim = translation.explain_destination(self.nat_rules(), &mut steps);
        let destination = aim.map_or(question.destination, |(address, _)| nat::address(&address));
        // What changes its family asks no rules.
        let by_rules = match destination.is_ipv6() == question.destination.is_ipv6() {
            true => self.explain_rules(input, &frame, (destination, aim.map(|(_, port)| port)), &mut steps),
            false => None,
        };
        let table = by_rules.unwrap_or_else(|| self.table_of_entry(entry));
        let asked = Asked { frame: &frame, table, destination, aim };
        self.explain_route(asked, &mut steps);

        if shared {
            step(&mut steps, "shared memory", "to a worker", "no program in a driver sees what comes by it");
            return self.explain_worker(input, asked, &translation, steps);
        }
        let on_wire = tagged(&frame, tags);
        // The first time, the kernel checks a copy of the programs.
        self.plane.takes_long();
        let run =
            self.plane.driver_mut().trace_packet(port_id, &on_wire).map_err(|error| error.to_string())?;
        let counted = &run.counted;
        if let Some(reason) = Reason::ALL.into_iter().find(|reason| counted.reason(*reason) > 0) {
            return Ok(end(steps, "driver", &format!("dropped: {}", reason.name()), reason.description()));
        }
        if counted.lane(Lane::Express).packets > 0 {
            let (hop, adjacency) = self.chosen(asked);
            self.explain_adjacency(hop, adjacency, &mut steps);
            let out = self.view().adjacency(adjacency).interface();
            let decision = format!("sent by {}", self.port_name(out));
            return Ok(end(steps, "express lane", &decision, &difference(&frame, &run.bytes)));
        }
        if let Some(class) = passed(counted) {
            let (decision, detail) = match class {
                Class::Unresolved => ("handed to Linux", "transit whose neighbour is not resolved"),
                Class::Transit => ("handed to Linux", "transit that Linux forwards"),
                _ => ("handed to Linux", "for this machine, or control traffic"),
            };
            step(&mut steps, "classifier", decision, &format!("{detail}; class {}", class.name()));
            self.explain_linux(entry, asked, &mut steps);
            return Ok(steps);
        }
        let why = if lane.express { "the express lane leaves it to a worker" } else { lane.why };
        step(&mut steps, "classifier", "for transit: to a worker", why);
        self.explain_worker(input, asked, &translation, steps)
    }

    fn nat_rules(&self) -> &[nat::Rule] {
        self.plane.policy().settings().nat.as_ref().map_or(&[], |nat| &nat.rules)
    }

    /// What the packet comes in by: as asked, or where Linux has the way back.
    fn entry<'q>(&self, question: &'q Question, steps: &mut Vec<Step>) -> Result<Entry<'q>, String> {
        let ports = self.plane.ports();
        let by_name = |name: &str| {
            let id = self.plane.interface_named(name)?;
            let place = self.plane.place(id).map(|(port, ..)| port);
            place.or_else(|| ports.get(usize::from(id.0))).map(|port| (id, port))
        };
        let back = || self.mirror.explain(&self.tables, TableId::MAIN, question.source);
        let (id, port) = match &question.input {
            Some(name) if by_name(name).is_none() && self.mirror.model().links.by_name(name).is_some() => {
                step(
                    steps,
                    "port",
                    &format!("in by {name}"),
                    "no port of Bifrost's: Linux carries what comes in by it",
                );
                return Ok(Entry::Interface(name));
            }
            Some(name) => by_name(name).ok_or_else(|| {
                let known: Vec<&str> = ports.iter().map(|port| port.name.as_str()).collect();
                format!("no port is named \"{name}\"; the ports are {}", known.join(", "))
            })?,
            None if back().is_some_and(|back| back.route.kind == "local") => {
                step(
                    steps,
                    "port",
                    "from this machine",
                    "Linux sends what is its own; say `in PORT` for one that comes in",
                );
                return Ok(Entry::Router);
            }
            None => back()
                .and_then(|back| back.route.ways.iter().find_map(|way| by_name(&way.device)))
                .or_else(|| {
                    ports.iter().find(|port| port.taken.is_some()).map(|port| (port.id.interface(), port))
                })
                .ok_or("no port is taken, so nothing can come in; say `in PORT`")?,
        };
        let detail = match port.lane() {
            Some(lane) => format!("{} lane: {}", if lane.express { "express" } else { "worker" }, lane.why),
            None => "not taken".to_owned(),
        };
        let decision = match &question.input {
            Some(name) => format!("in by {name}"),
            None => {
                let name = self.port_name(id);
                format!("in by {name}, where the way back to {} leads", question.source)
            }
        };
        step(steps, "port", &decision, &detail);
        Ok(Entry::Port(id))
    }

    /// The table that routes what enters so.
    fn table_of_entry(&self, entry: Entry<'_>) -> TableId {
        let ifindex = match entry {
            Entry::Port(id) => self.plane.place(id).map(|(_, interface, _)| interface.ifindex),
            Entry::Interface(name) => self.mirror.model().links.by_name(name).map(|link| link.ifindex),
            Entry::Router => None,
        };
        ifindex.and_then(|ifindex| self.mirror.table_of(ifindex)).unwrap_or(TableId::MAIN)
    }

    fn explain_route(&self, asked: Asked<'_>, steps: &mut Vec<Step>) {
        let Some(found) = self.mirror.explain(&self.tables, asked.table, asked.destination) else {
            return step(steps, "route", "no route", "");
        };
        let route = routes::route(&found.route);
        let ways: Vec<String> = route
            .next_hops
            .iter()
            .map(|hop| match hop.via {
                Some(via) => format!("via {via} dev {}", hop.dev),
                None => format!("dev {}", hop.dev),
            })
            .collect();
        let programmed = found.route.programmed.unwrap_or("missing");
        let detail = format!(
            "{} from {}, metric {}{}{}; in the tables as: {programmed}",
            found.route.kind,
            found.route.origin,
            found.route.metric,
            if ways.is_empty() { "" } else { ", " },
            ways.join(", ")
        );
        step(steps, "route", &route.prefix.to_string(), &detail);
        if let Some(host) = found.host {
            let mac = host.mac.map_or_else(|| "unresolved".to_owned(), |mac| mac.to_string());
            step(
                steps,
                "neighbour",
                &host.address.to_string(),
                &format!("{mac}, {} on {}", host.state, host.device),
            );
        }
    }

    fn view(&self) -> fib::View {
        self.tables.view()
    }

    /// The next hop and adjacency that both lanes choose for the frame.
    fn chosen(&self, asked: Asked<'_>) -> (NextHopId, AdjacencyId) {
        let view = self.view();
        let id = view.lookup(asked.table, asked.destination);
        let hash = asked.frame.get(ethernet::HEADER..).map_or(0, wire::flow_hash);
        (id, view.select(view.hop(id), hash))
    }

    fn explain_adjacency(&self, hop: NextHopId, id: AdjacencyId, steps: &mut Vec<Step>) {
        let view = self.view();
        let word = view.hop(hop);
        if word.kind() != HopKind::Forward {
            return;
        }
        let adjacency = view.adjacency(id);
        let paths = match word.log2() {
            0 => "one path".to_owned(),
            log2 => format!("one of several paths, by flow hash over {} buckets", 1u32 << log2),
        };
        let mac =
            if adjacency.resolved() { Mac(adjacency.mac()).to_string() } else { "unresolved".to_owned() };
        step(
            steps,
            "adjacency",
            &format!("{mac} on {}", self.port_name(adjacency.interface())),
            &format!("next hop {}, adjacency {}, mtu {}; {paths}", hop.0, id.0, adjacency.mtu()),
        );
    }

    fn explain_worker(
        &self,
        input: InterfaceId,
        asked: Asked<'_>,
        translation: &Translation<'_>,
        mut steps: Vec<Step>,
    ) -> Result<Vec<Step>, String> {
        let (frame, of_linux) = (asked.frame, self.is_of_linux(asked));
        let events = self
            .plane
            .trace_packet(input, frame, translation.nat, translation.flow.as_ref())
            .map_err(|error| error.to_string())?;
        let mut told = AdjacencyId(0);
        let mut events = events.into_iter().peekable();
        while let Some(Event { element, what, next_hop, adjacency, output }) = events.next() {
            if adjacency.0 != 0 && adjacency != told {
                told = adjacency;
                self.explain_adjacency(next_hop, adjacency, &mut steps);
            }
            match what {
                What::Entered => {
                    // What became of it there is the next event: another element, or the end, which
                    // has a step of its own.
                    match events.peek() {
                        Some(Event { element: next, what: What::Entered, .. }) => {
                            step(&mut steps, &element, &format!("passes: on to {next}"), "");
                        }
                        Some(Event { element: next, .. }) if *next == element => {}
                        _ => step(&mut steps, &element, "keeps it", ""),
                    }
                    if of_linux {
                        continue;
                    }
                    let flow = (translation.flow.map(|flow| flow.state()), translation.has_dnat());
                    self.explain_filter(&element, (input, output), flow, asked, &mut steps);
                    if translates(&element) {
                        translation.explain_source(self.nat_rules(), output, &mut steps);
                    }
                }
                What::Dropped(reason) => {
                    step(&mut steps, &element, &format!("dropped: {}", reason.name()), reason.description());
                }
                What::Linux(class) => {
                    step(&mut steps, &element, "handed to Linux", &format!("class {}", class.name()));
                    if of_linux {
                        self.explain_linux(Entry::Port(input), asked, &mut steps);
                    }
                }
                What::Sent(bytes) => {
                    let decision = format!("sent by {}", self.port_name(output));
                    step(&mut steps, &element, &decision, &difference(frame, &bytes));
                }
            }
        }
        Ok(steps)
    }

    fn port_name(&self, id: InterfaceId) -> String {
        self.interface_name(id).unwrap_or_else(|| "an interface of Linux's".to_owned())
    }
}

/// A frame with these tags, as it is on the wire.
fn tagged(frame: &[u8], tags: Tags) -> Vec<u8> {
    let (addresses, rest) = frame.split_at(frame.len().min(12));
    [addresses, &tags.bytes(), rest].concat()
}

pub(super) fn step(steps: &mut Vec<Step>, name: &str, decision: &str, detail: &str) {
    steps.push(Step { step: name.to_owned(), decision: decision.to_owned(), detail: detail.to_owned() });
}

/// Tells of the flow that the packet belongs to.
fn explain_flow(flow: &FlowSnapshot, steps: &mut Vec<Step>) {
    let Tuple { source, source_port, destination, destination_port, .. } = flow.original();
    let ends = [endpoint(source, source_port), endpoint(destination, destination_port)].join(" > ");
    step(steps, "flow", &format!("of one that lives: {ends}"), flow.phase().name());
}

/// Makes the first segment of a connection one that comes next.
fn go_on(frame: &mut [u8], flow: &FlowSnapshot) {
    let Some(numbers) = flow.numbers() else { return };
    let at = frame.get(ethernet::HEADER..).and_then(|ip| Headers::parse(ip).ok());
    let at = at.map_or(frame.len(), |headers| ethernet::HEADER + usize::from(headers.transport));
    if let Some(segment) = frame.get_mut(at..).filter(|segment| segment.len() >= tcp::HEADER) {
        segment[4..12].copy_from_slice(&numbers.map(u32::to_be_bytes).concat());
        segment[13] = tcp::flag::ACK;
    }
}

fn end(mut steps: Vec<Step>, name: &str, decision: &str, detail: &str) -> Vec<Step> {
    step(&mut steps, name, decision, detail);
    steps
}

/// Whether flows begin at an element of the graph, with what they are translated into.
fn translates(element: &str) -> bool {
    matches!(element.trim_end_matches(['4', '6']), "filter" | "unresolved")
}

fn passed(counted: &DriverCounters) -> Option<Class> {
    Class::ALL.into_iter().find(|class| counted.passed[*class as usize] > 0)
}

/// A frame without its tags.
fn untagged(frame: &[u8]) -> Vec<u8> {
    let mut frame = frame.to_vec();
    let is_tag = |frame: &[u8]| {
        let ether_type = frame.get(12..14).and_then(|bytes| bytes.first_chunk());
        ether_type.is_some_and(|bytes| matches!(u16::from_be_bytes(*bytes), ethernet::VLAN | ethernet::QINQ))
    };
    while frame.len() >= 16 && is_tag(&frame) {
        frame.drain(12..16);
    }
    frame
}

/// What was done to the frame, for people: as it was without tags, and as it is on the wire.
fn difference(before: &[u8], after: &[u8]) -> String {
    let (sent, after) = (after.len(), &untagged(after)[..]);
    let mac = |frame: &[u8], at: usize| {
        let bytes = frame.get(at..at + 6).and_then(|bytes| <[u8; 6]>::try_from(bytes).ok());
        bytes.map_or_else(|| "?".to_owned(), |bytes| Mac(bytes).to_string())
    };
    let ttl = |frame: &[u8]| match frame.get(14).map(|first| first >> 4) {
        Some(4) => frame.get(22).copied(),
        _ => frame.get(21).copied(),
    };
    let hops = match (ttl(before), ttl(after)) {
        (Some(before), Some(after)) => format!(", ttl {before} to {after}"),
        _ => String::new(),
    };
    let lengths = match (before.len(), after.len()) {
        (before, after) if before == after => String::new(),
        _ => format!(", {sent} bytes"),
    };
    let headers = |frame: &[u8]| Headers::parse(frame.get(ethernet::HEADER..)?).ok();
    let addresses = match (headers(before), headers(after)) {
        // An answer is another packet.
        (Some(before), Some(after)) if !flow::is_error(&after) => changed(&before, &after),
        _ => String::new(),
    };
    format!("from {} to {}{hops}{lengths}{addresses}", mac(after, 6), mac(after, 0))
}

/// The packet's ends, if they are others than before.
fn changed(before: &Headers, after: &Headers) -> String {
    let ends = |headers: &Headers| {
        let from = endpoint(headers.source, headers.source_port);
        format!("{from} > {}", endpoint(headers.destination, headers.destination_port))
    };
    let (before, after) = (ends(before), ends(after));
    if before == after { String::new() } else { format!("\n{before} becomes {after}") }
}

fn endpoint(address: [u8; 16], port: u16) -> String {
    match port {
        0 => nat::address(&address).to_string(),
        port => SocketAddr::new(nat::address(&address), port).to_string(),
    }
}

/// Gives a packet behind its IP header the checksum that workers ask for.
fn sum_up(question: &Question, upper: &mut [u8]) {
    let number = question.protocol.0;
    let at = match number {
        protocol::TCP => 16,
        protocol::UDP => 6,
        protocol::ICMP | protocol::ICMP6 => 2,
        _ => return,
    };
    let length = upper.len();
    let pseudo = match (question.source, question.destination) {
        _ if number == protocol::ICMP => Sum::new(),
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            checksum::pseudo4(source.to_bits(), destination.to_bits(), number, length as u16)
        }
        (IpAddr::V6(source), IpAddr::V6(destination)) => {
            checksum::pseudo6(source.to_bits(), destination.to_bits(), number, length as u32)
        }
        _ => return,
    };
    let sum = pseudo.with(upper).finish();
    if let Some(field) = upper.get_mut(at..at + 2) {
        field.copy_from_slice(&sum.to_be_bytes());
    }
}

/// The frame that the question describes, as it would arrive.
pub(crate) fn frame(question: &Question, to: Mac) -> Result<Vec<u8>, String> {
    let length = usize::from(question.length);
    let (ether_type, mut packet) = match (question.source, question.destination) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            let payload = length.checked_sub(ipv4::HEADER).ok_or("an IPv4 packet has at least 20 bytes")?;
            let repr = ipv4::Repr {
                protocol: question.protocol.0,
                ttl: question.ttl,
                fragment: if question.dont_fragment { DONT_FRAGMENT } else { 0 },
                ..ipv4::Repr::new(source, destination)
            };
            (ethernet::IPV4, repr.header(payload).to_vec())
        }
        (IpAddr::V6(source), IpAddr::V6(destination)) => {
            let payload = length.checked_sub(ipv6::HEADER).ok_or("an IPv6 packet has at least 40 bytes")?;
            let repr = ipv6::Repr {
                next_header: question.protocol.0,
                hop_limit: question.ttl,
                ..ipv6::Repr::new(source, destination)
            };
            (ethernet::IPV6, repr.header(payload).to_vec())
        }
        _ => return Err("source and destination are of different families".into()),
    };
    let header = packet.len();
    packet.resize(length.max(header), 0);
    let upper = &mut packet[header..];
    let ports = [question.source_port.to_be_bytes(), question.destination_port.to_be_bytes()].concat();
    match question.protocol.0 {
        protocol::TCP | protocol::UDP if upper.len() >= 4 => upper[..4].copy_from_slice(&ports),
        protocol::ICMP if !upper.is_empty() => upper[0] = 8,
        protocol::ICMP6 if !upper.is_empty() => upper[0] = 128,
        _ => {}
    }
    if question.protocol.0 == protocol::TCP && upper.len() >= tcp::HEADER {
        // The first segment of a connection.
        upper[12..14].copy_from_slice(&[(tcp::HEADER as u8 / 4) << 4, tcp::flag::SYN]);
    }
    if question.protocol.0 == protocol::UDP && upper.len() >= udp::HEADER {
        let length = (upper.len() as u16).to_be_bytes();
        upper[4..6].copy_from_slice(&length);
    }
    sum_up(question, upper);
    let ethernet = ethernet::Repr { destination: to, source: SENDER, ether_type };
    Ok([&ethernet.header()[..], &packet].concat())
}
