//! Rules made ready for the ports that there are: names have become numbers, and each rule knows
//! its counters and its scope.

use std::collections::HashMap;
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64};

use flow::Tuple;
use ipnet::IpNet;

use crate::Clamp;
use crate::addresses::{address, octets};
use crate::mapping::{Endpoint, Scope};
use crate::rule::{Action, ClampRule, Half, Match, Rule, Rules};
use crate::space::Class;

/// A port of the router, as rules need it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Port {
    /// The number that packets carry ([`flow::Account::ports`]).
    pub number: u16,
    /// The interface's name.
    pub name: String,
    /// Its addresses; of each family the first that is not link-local is what masquerading takes.
    pub addresses: Vec<IpAddr>,
}

impl Port {
    /// The address that the port leases to masqueraded packets.
    pub(crate) fn address(&self, ipv4: bool) -> Option<[u8; 16]> {
        let usable = |address: &&IpAddr| match address {
            IpAddr::V4(address) => ipv4 && !address.is_link_local(),
            IpAddr::V6(address) => !ipv4 && !address.is_unicast_link_local(),
        };
        self.addresses.iter().find(usable).map(|found| octets(*found))
    }
}

/// Numbers of ports.
#[derive(Clone, Debug)]
pub(crate) enum PortSet {
    All,
    Some(Vec<u16>),
}

impl PortSet {
    /// What words mean, without what `not` means.
    fn of(words: &[String], not: &[String], ports: &[Port], named: &dyn Fn(&str, &str) -> bool) -> PortSet {
        if words.is_empty() && not.is_empty() {
            return PortSet::All;
        }
        let any = |words: &[String], port: &Port| words.iter().any(|word| named(word, &port.name));
        let meant = ports.iter().filter(|port| (words.is_empty() || any(words, port)) && !any(not, port));
        PortSet::Some(meant.map(|port| port.number).collect())
    }

    pub fn has(&self, port: u16) -> bool {
        match self {
            PortSet::All => true,
            PortSet::Some(numbers) => numbers.contains(&port),
        }
    }
}

/// What a rule has counted. It goes on when rules are changed, as long as the name stays.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub flows: AtomicU64,
    pub mappings: AtomicU64,
    pub exhausted: AtomicU64,
    pub limited: AtomicU64,
    pub refused: AtomicU64,
    /// The next target of a destination rule.
    pub next: AtomicU32,
}

/// A rule with what it needs at hand.
#[derive(Clone, Debug)]
pub(crate) struct Compiled {
    pub rule: Rule,
    pub input: PortSet,
    pub output: PortSet,
    /// Stands for what the rule says. A mapping made by another rule, or before this one was
    /// changed, is none of its own.
    pub scope: u32,
    pub counters: Arc<Counters>,
}

/// A clamp with the ports that packets come and leave by.
#[derive(Clone, Debug)]
pub(crate) struct CompiledClamp {
    pub ports: [PortSet; 2],
    pub families: [bool; 2],
    pub mss: Clamp,
}

/// All of them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ruleset {
    pub rules: Vec<Compiled>,
    pub ports: Vec<Port>,
    pub by_scope: HashMap<u32, usize>,
    pub clamps: Vec<CompiledClamp>,
    pub lowest_ipv6_mtu: u16,
    half: Option<Half>,
    scopes: HashMap<String, u32>,
    next_scope: u32,
}

impl Ruleset {
    /// Of checked rules. `named` says whether a word of a rule (a name or a pattern) means the
    /// interface of a name.
    pub fn new(
        rules: &Rules,
        ports: &[Port],
        named: &dyn Fn(&str, &str) -> bool,
        before: &Ruleset,
    ) -> Ruleset {
        let mut set = Ruleset { ports: ports.to_vec(), next_scope: before.next_scope, ..Ruleset::default() };
        for rule in &rules.rules {
            // What a mapping depends on: who made it, and how. Which flows it is for may change
            // under it.
            let meaning = format!("{} {:?}", rule.name, rule.action);
            let scope = before.scopes.get(&meaning).copied().unwrap_or_else(|| {
                set.next_scope += 1;
                set.next_scope
            });
            set.scopes.insert(meaning, scope);
            set.by_scope.insert(scope, set.rules.len());
            let counters = before.rules.iter().find(|old| old.rule.name == rule.name);
            let counters = counters.map(|old| old.counters.clone()).unwrap_or_default();
            let Match { input, output, not_input, not_output, .. } = &rule.matches;
            let input = PortSet::of(input, not_input, ports, named);
            let output = PortSet::of(output, not_output, ports, named);
            set.rules.push(Compiled { rule: rule.clone(), input, output, scope, counters });
        }
        (set.lowest_ipv6_mtu, set.half) = (rules.lowest_ipv6_mtu, rules.half);
        let clamp = |clamp: &ClampRule| CompiledClamp {
            ports: [&clamp.input, &clamp.output].map(|words| PortSet::of(words, &[], ports, named)),
            families: clamp.families,
            mss: clamp.mss,
        };
        set.clamps = rules.clamps.iter().map(clamp).collect();
        set
    }

    /// The same with counters of its own.
    pub fn for_dry_run(&self) -> Ruleset {
        let mut set = self.clone();
        set.rules.iter_mut().for_each(|compiled| compiled.counters = Arc::default());
        set
    }

    /// Those of a range of ports that are given out here.
    pub fn given_out(&self, ports: &RangeInclusive<u16>) -> RangeInclusive<u16> {
        Half::of_any(self.half, ports)
    }

    /// The port of a number.
    pub fn port(&self, number: u16) -> Option<&Port> {
        self.ports.iter().find(|port| port.number == number)
    }

    /// Ports of outside addresses that are spoken for: those that destination rules forward.
    pub fn reserved(&self) -> HashMap<([u8; 16], Class), Vec<RangeInclusive<u16>>> {
        let mut reserved: HashMap<_, Vec<RangeInclusive<u16>>> = HashMap::new();
        for compiled in &self.rules {
            let matches = &compiled.rule.matches;
            if !matches!(compiled.rule.action, Action::Destination { .. }) {
                continue;
            }
            let single = matches.destination.iter().filter(|net| net.prefix_len() == net.max_prefix_len());
            let mut addresses: Vec<[u8; 16]> = single.map(|net| octets(net.addr())).collect();
            addresses.extend(self.own_addresses(compiled).filter(|own| within(&matches.destination, own)));
            for class in matches.protocols.iter().filter_map(|number| Class::of(*number)) {
                for address in &addresses {
                    let ranges = reserved.entry((*address, class)).or_default();
                    ranges.extend(matches.destination_ports.iter().cloned());
                }
            }
        }
        reserved
    }

    /// Whether an address, called from outside by port `input`, is in the pool of a rule and no
    /// port's own: then it is nobody's but those who have mappings there.
    pub fn gives_out(&self, called: &[u8; 16], input: u16) -> bool {
        let pooled = self.rules.iter().any(|compiled| {
            let nat64 = matches!(compiled.rule.action, Action::Nat64 { .. });
            (nat64 || compiled.output.has(input))
                && compiled.rule.action.addresses().is_some_and(|pool| pool.position(called).is_some())
        });
        pooled && !self.ports.iter().flat_map(|port| &port.addresses).any(|own| octets(*own) == *called)
    }

    /// The addresses of the ports that a rule names as `input`.
    fn own_addresses<'s>(&'s self, compiled: &'s Compiled) -> impl Iterator<Item = [u8; 16]> + 's {
        let ports = self.ports.iter().filter(|port| compiled.input.has(port.number));
        ports.flat_map(|port| port.addresses.iter().map(|found| octets(*found)))
    }

    /// Whether a flow is to one of the addresses of the ports that a rule names as `input`.
    pub fn is_own(&self, compiled: &Compiled, destination: &[u8; 16]) -> bool {
        self.own_addresses(compiled).any(|own| own == *destination)
    }
}

fn within(nets: &[IpNet], octets: &[u8; 16]) -> bool {
    nets.is_empty() || {
        let address = address(octets);
        nets.iter().any(|net| net.contains(&address))
    }
}

fn among(ranges: &[RangeInclusive<u16>], port: u16) -> bool {
    ranges.is_empty() || ranges.iter().any(|range| range.contains(&port))
}

impl Compiled {
    /// Whether everything but ports of the router matches.
    pub fn takes(&self, flow: &Tuple) -> bool {
        let Match { source, destination, protocols, source_ports, destination_ports, .. } =
            &self.rule.matches;
        (protocols.is_empty() || protocols.contains(&flow.protocol))
            && among(destination_ports, flow.destination_port)
            && among(source_ports, flow.source_port)
            && within(source, &flow.source)
            && within(destination, &flow.destination)
    }

    /// The scope of mappings by this rule, with the address that a port leases to it.
    pub fn scope(&self, address: &[u8; 16]) -> Scope {
        let leases = matches!(self.rule.action, Action::Masquerade(_));
        let leased = if leases { wire::flow_hash6(u128::from_be_bytes(*address), 0, 0, 0) } else { 0 };
        Scope { rule: self.scope, leased }
    }

    /// Whether the rule may have given an endpoint outside to one inside.
    pub fn gives(&self, set: &Ruleset, inside: &Endpoint, outside: &Endpoint) -> bool {
        let Some(dynamic) = self.rule.action.dynamic() else { return false };
        let own = |port: &Port| port.addresses.iter().any(|found| octets(*found) == outside.address);
        let here = match (&self.rule.action, self.rule.action.addresses()) {
            (Action::Deterministic { blocks, .. }, _) => {
                match (address(&inside.address), address(&outside.address)) {
                    (IpAddr::V4(inside), IpAddr::V4(outside_address)) => blocks
                        .subscriber(outside_address, outside.port)
                        .is_some_and(|block| block.inside == inside),
                    _ => false,
                }
            }
            (_, Some(addresses)) => addresses.position(&outside.address).is_some(),
            (_, None) => set.ports.iter().any(|port| self.output.has(port.number) && own(port)),
        };
        here && dynamic.ports.contains(&outside.port) && within(&self.rule.matches.source, &inside.address)
    }
}
