//! Packets for which Linux's routing rules (`ip rule`) choose the table.
//!
//! The control thread compiles the rules; workers take note of others once a batch. For what came
//! in by an interface that rules concern, the first rule that matches says which table is looked
//! up, and where that has no route the next one does, as Linux goes on (`fib_rules_lookup`). What
//! no rule's table decides is refused, or not known here: then the packet has no next hop, and is
//! Linux's, which says what becomes of it.
//!
//! What table `local` says comes first in any case: the plane's tables have it in them.
//!
//! Rules see packets as Linux routes them: behind the translation of destinations, and, where flows
//! are known, fragments with the ports of their flow. What changes its family is looked up in the
//! main table.

use std::net::IpAddr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use fib::{HopKind, InterfaceId, NextHopId, TableId, View};
use flow::Direction;
use graph::BATCH;
use port::Packet;
use rules::{Action, RoutingRules, Seen};
use wire::{Fragment, Headers, protocol};

use super::context::{Metadata, SharedContext, WorkerContext};
use super::family::Family;
use super::filter::bound;

/// The routing rules in force, of IPv4 and IPv6.
pub type Lists = [Arc<RoutingRules>; 2];

/// Routing rules as all workers share them.
pub struct Steering {
    generation: AtomicU32,
    lists: Mutex<Lists>,
}

impl Steering {
    /// No rules: the main table decides.
    pub fn new() -> Arc<Steering> {
        let lists = [false, true].map(|ipv6| Arc::new(RoutingRules::new(ipv6, Vec::new())));
        Arc::new(Steering { generation: AtomicU32::new(0), lists: Mutex::new(lists) })
    }

    /// Puts others in force: every worker goes over to them with its next batch.
    pub fn change(&self, lists: Lists) {
        *self.lists.lock().unwrap_or_else(PoisonError::into_inner) = lists;
        self.generation.fetch_add(1, Ordering::Release);
    }

    /// Those in force.
    pub fn lists(&self) -> Lists {
        self.lists.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Which of a packet's ways is looked for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Towards {
    /// Where it goes.
    Destination,
    /// Where it came from: what would come back, by the interface that it leaves by.
    Source,
}

/// A worker's sight of them.
pub(super) struct Reader {
    steering: Arc<Steering>,
    generation: u32,
    lists: Lists,
    any: bool,
    /// What is noted about packets.
    context: Option<SharedContext>,
}

impl Reader {
    pub fn new(steering: Arc<Steering>) -> Reader {
        let generation = steering.generation.load(Ordering::Acquire);
        let lists = steering.lists();
        let any = lists.iter().any(|rules| !rules.is_empty());
        Reader { generation, any, lists, steering, context: None }
    }

    /// The same, for packets whose flows and translation are noted in this context.
    pub fn noted(self, context: Option<SharedContext>) -> Reader {
        Reader { context, ..self }
    }

    /// Takes note of a change; once a batch.
    #[inline]
    pub fn refresh(&mut self) {
        if self.steering.generation.load(Ordering::Acquire) != self.generation {
            *self = Reader::new(self.steering.clone()).noted(self.context.take());
        }
    }

    /// Whether there are some.
    #[inline(always)]
    pub fn any(&self) -> bool {
        self.any
    }

    /// The rules of a family.
    #[inline]
    pub fn rules<F: Family>(&self) -> &RoutingRules {
        &self.lists[F::NUMBER]
    }

    /// Puts right the next hops of a batch's addresses, found in the main table, where rules choose
    /// another one.
    #[inline(never)]
    pub fn correct<F: Family>(
        &mut self,
        view: &View,
        packets: &[Packet],
        addresses: &[F::Address],
        ids: &mut [NextHopId],
        towards: Towards,
    ) {
        self.refresh();
        let (hops, rules) = (view.hops(), self.rules::<F>());
        if rules.is_empty() {
            return;
        }
        let mut context = self.context.as_ref().map(SharedContext::lock);
        let (mut seen, mut of) = ([Seen::default(); BATCH], [0u8; BATCH]);
        let mut count = 0;
        for (index, packet) in packets.iter().enumerate().take(BATCH) {
            let concerned = hops.link(packet.input).table() == TableId::BY_RULES;
            if !concerned || hops.hop(ids[index]).kind() == HopKind::Local {
                continue;
            }
            match shown(packet, context.as_deref_mut()) {
                Some(one) => {
                    seen[count] = match towards {
                        Towards::Destination => one,
                        Towards::Source => one.turned(packet.output.0),
                    };
                    of[count] = index as u8;
                    count += 1;
                }
                None if rules.asks_upper() => ids[index] = NextHopId::NONE,
                None => {}
            }
        }
        let firsts = rules.firsts(&seen[..count]);
        for (n, seen) in seen[..count].iter().enumerate() {
            let index = usize::from(of[n]);
            let address = F::ip(addresses[index]);
            ids[index] = route(view, rules, firsts[n] as usize, seen, address, |_, _| ()).unwrap_or_default();
        }
    }

    /// Whether a packet's addresses or ports are changed on its way.
    pub fn is_translated(&self, packet: &Packet) -> bool {
        let mut context = self.context.as_ref().map(SharedContext::lock);
        context
            .as_mut()
            .and_then(|context| context.metadata(packet))
            .is_some_and(|metadata| is_translated(metadata))
    }

    /// Where a packet goes that came in by an interface that rules concern, to this address.
    #[cold]
    pub fn next_hop(
        &mut self,
        view: &View,
        packet: &Packet,
        noted: &mut WorkerContext,
        to: IpAddr,
    ) -> NextHopId {
        self.choose(view, packet.input, to, || shown(packet, Some(noted)))
    }

    /// Where an answer of this machine's own goes, to what came in by an interface that rules
    /// concern: from this address, or 0 where the way chooses it.
    #[cold]
    pub fn way_back(&mut self, view: &View, input: InterfaceId, from: u128, to: IpAddr) -> NextHopId {
        // It comes in by no interface of the plane's.
        let own = Seen { source: from, input: InterfaceId::NONE.0, ..Seen::default() };
        self.choose(view, input, to, || Some(own.bound_for(to, None)))
    }

    /// What the rules choose for a packet that is asked for if there are some, as
    /// [`correct`](Self::correct) does for a batch.
    fn choose(
        &mut self,
        view: &View,
        input: InterfaceId,
        to: IpAddr,
        packet: impl FnOnce() -> Option<Seen>,
    ) -> NextHopId {
        self.refresh();
        let main = view.lookup_from(input, to);
        let rules = &self.lists[usize::from(to.is_ipv6())];
        if rules.is_empty() || view.hop(main).kind() == HopKind::Local {
            return main;
        }
        match packet() {
            Some(seen) => route(view, rules, rules.first(0, &seen), &seen, to, |_, _| ()).unwrap_or_default(),
            None if rules.asks_upper() => NextHopId::NONE,
            None => main,
        }
    }
}

/// Whether the addresses or ports of a packet with this metadata are changed.
fn is_translated(metadata: &Metadata) -> bool {
    metadata.aim.is_some() || metadata.hit.is_some_and(|hit| hit.translated)
}

/// A packet as rules see it; `None`: only Linux knows.
fn shown(packet: &Packet, context: Option<&mut WorkerContext>) -> Option<Seen> {
    let read = Seen::read(packet.network(), packet.input.0);
    let Some((Some(metadata), flows)) = context.map(|context| context.open(packet)) else { return read };
    // Linux does not know what is translated here: it goes by what is known of it.
    let read =
        read.or_else(|| is_translated(metadata).then(|| Seen::of(&metadata.headers, packet.input.0)))?;
    let headers = bound(metadata, flows.as_deref());
    let bound = Seen::of(&headers, packet.input.0);
    let mut seen = Seen { destination: bound.destination, ports: bound.ports, ..read };
    // Where flows are known, Linux has put fragments together before it asks.
    if let Some(flows) = flows.filter(|_| headers.fragment != Fragment::Whole) {
        seen.ports = match metadata.hit.filter(|_| protocol::has_ports(headers.protocol)) {
            Some(hit) => {
                let came = match hit.direction {
                    Direction::Original => flows.original(&hit),
                    Direction::Reply => flows.reply(&hit),
                };
                let to = if hit.translated { flows.leaving(&hit, hit.direction) } else { came };
                [came.source_port, to.destination_port]
            }
            None => Seen::of(&Headers { fragment: Fragment::Whole, ..headers }, packet.input.0).ports,
        };
    }
    Some(seen)
}

/// The next hop of an address for a packet whose first rule is known; `None` where no rule's table
/// says one. `see` is told the rules that matched, and whether they decided.
pub fn route(
    view: &View,
    rules: &RoutingRules,
    first: usize,
    seen: &Seen,
    address: IpAddr,
    mut see: impl FnMut(usize, bool),
) -> Option<NextHopId> {
    let mut at = first;
    while let Some(rule) = rules.rules().get(at) {
        let mut next = at + 1;
        match rule.action {
            Action::Look { table, longer } => {
                let (id, length) = view.route(TableId(table), address);
                let found = match view.hop(id).kind() {
                    HopKind::None => false,
                    // What is refused is not passed over for its length.
                    HopKind::Blackhole | HopKind::Unreachable | HopKind::Prohibit => true,
                    _ => longer.is_none_or(|longer| length > longer),
                };
                see(at, found);
                if found {
                    return Some(id);
                }
            }
            Action::GoTo(target) => {
                see(at, false);
                next = target.max(next);
            }
            Action::Refuse => {
                see(at, true);
                return None;
            }
        }
        at = rules.first(next, seen);
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use chance::Random;
    use fib::{Capacity, NextHop, Tables};
    use ipnet::{IpNet, Ipv4Net, Ipv6Net};
    use rules::{ANY_DSCP, RoutingRule, Selector, Span};

    const TABLES: [TableId; 4] = [TableId::MAIN, TableId(1), TableId(2), TableId(3)];

    fn bits(random: &mut Random) -> u128 {
        let high = random.pick(&[0x0au128, 0xac]) << 24 | random.pick(&[0u128, 1]) << 16;
        high | random.pick(&[0, 1, 2, 0x100, 0x8000])
    }

    fn address(random: &mut Random, ipv6: bool) -> IpAddr {
        let bits = bits(random);
        if ipv6 { IpAddr::V6((bits << 96).into()) } else { IpAddr::V4((bits as u32).into()) }
    }

    fn prefix(random: &mut Random, ipv6: bool) -> IpNet {
        let length = random.pick(&[0, 0, 7, 8, 16, 24, 31, 32]);
        match address(random, ipv6) {
            IpAddr::V4(address) => Ipv4Net::new(address, length).unwrap().trunc().into(),
            IpAddr::V6(address) => Ipv6Net::new(address, length).unwrap().trunc().into(),
        }
    }

    /// A route as Linux would have it.
    struct Route {
        table: TableId,
        prefix: IpNet,
        id: NextHopId,
        kind: HopKind,
    }

    /// What Linux does (`fib_rules_lookup`), as plainly as can be.
    fn plainly(routes: &[Route], rules: &[RoutingRule], seen: &Seen, to: IpAddr) -> Option<NextHopId> {
        let mut at = 0;
        while at < rules.len() {
            let rule = &rules[at];
            at += 1;
            if !rule.selector.holds(seen) {
                continue;
            }
            match rule.action {
                Action::Refuse => return None,
                Action::GoTo(target) => at = target.max(at),
                Action::Look { table, longer } => {
                    let of =
                        routes.iter().filter(|route| route.table.0 == table && route.prefix.contains(&to));
                    let Some(best) = of.max_by_key(|route| route.prefix.prefix_len()) else { continue };
                    let refuses = best.kind == HopKind::Blackhole;
                    let short = longer.is_some_and(|longer| best.prefix.prefix_len() <= longer);
                    if best.kind != HopKind::None && (refuses || !short) {
                        return Some(best.id);
                    }
                }
            }
        }
        None
    }

    fn rule(random: &mut Random, ipv6: bool, count: usize) -> RoutingRule {
        let selector = Selector {
            not: random.chance(15),
            from: random.chance(50).then(|| prefix(random, ipv6)),
            to: random.chance(40).then(|| prefix(random, ipv6)),
            inputs: random.chance(20).then(|| vec![1]),
            protocol: random.chance(20).then_some(17),
            ports: [None, random.chance(20).then_some(Span { first: 53, last: 443 })],
            dscp: if random.chance(10) { 1 << 46 } else { ANY_DSCP },
        };
        let action = match random.below(8) {
            0 => Action::Refuse,
            1 => Action::GoTo(random.below(count + 2)),
            _ => Action::Look {
                table: random.pick(&TABLES).0,
                longer: random.chance(25).then(|| random.pick(&[0, 8])),
            },
        };
        RoutingRule { selector, action }
    }

    #[test]
    fn the_next_hop_is_that_of_linux() {
        for seed in 0..120 {
            let (mut random, ipv6) = (Random(seed), seed % 2 == 1);
            let capacity = Capacity { ipv4: 1000, ipv6: 1000, next_hops: 100 };
            let mut tables = Tables::new(capacity, None).unwrap();
            let kinds = [NextHop::Local, NextHop::Blackhole, NextHop::Punt, NextHop::None];
            let ids = kinds.map(|kind| tables.add_next_hop(&kind).unwrap());
            let mut routes: Vec<Route> = Vec::new();
            for _ in 0..random.below(60) {
                let (table, prefix, hop) =
                    (random.pick(&TABLES), prefix(&mut random, ipv6), random.pick(&ids));
                tables.insert(table, prefix, hop).unwrap();
                routes.retain(|route| (route.table, route.prefix) != (table, prefix));
                let kind = tables.view().hop(hop).kind();
                routes.push(Route { table, prefix, id: hop, kind });
            }
            let count = random.pick(&[1, 4, 30]);
            let list = (0..count).map(|_| rule(&mut random, ipv6, count)).collect();
            let rules = RoutingRules::new(ipv6, list);
            let number = |address| match address {
                IpAddr::V4(address) => u128::from(address.to_bits()),
                IpAddr::V6(address) => address.to_bits(),
            };
            let packets: Vec<(Seen, IpAddr)> = (0..BATCH)
                .map(|_| {
                    let to = address(&mut random, ipv6);
                    let seen = Seen {
                        source: number(address(&mut random, ipv6)),
                        destination: number(to),
                        input: random.below(2) as u16,
                        protocol: random.pick(&[6, 17]),
                        ports: [1, random.pick(&[0, 53, 500])],
                        dscp: random.pick(&[0, 46]),
                    };
                    (seen, to)
                })
                .collect();
            let seen: Vec<Seen> = packets.iter().map(|(seen, _)| *seen).collect();
            let firsts = rules.firsts(&seen);
            for (n, (seen, to)) in packets.iter().enumerate() {
                let found = route(&tables.view(), &rules, firsts[n] as usize, seen, *to, |_, _| ());
                let plainly = plainly(&routes, rules.rules(), seen, *to);
                assert_eq!(found, plainly, "{seen:?} to {to}: {:?}", rules.rules());
            }
        }
    }
}
