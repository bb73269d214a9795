//! Routing rules (`ip rule`), compiled: which is the first that a packet matches.
//!
//! They ask less than a filter does, and most are told apart by an address. So their regions go
//! into the same trees. What no region says (`not`, a DSCP) is asked of the packet itself.
//!
//! [`RoutingRules::first`] is what they mean, one after the other; the trees are held against it.
//! What then happens, where a table has no route, is for whoever looks routes up.

use std::net::IpAddr;

use ipnet::IpNet;
use wire::{Fragment, Headers};

use super::BATCH;
use super::plain::Plain;
use super::region::{IN_PORT, Key, Keys, Region, W4, W6};
use super::tree::{Entry, Forest, kind};
use crate::model::{FlowState, Span};

/// The most rules of one family: the step of a rule is told to the workers for each packet.
pub const MOST_ROUTING_RULES: usize = 4096;

/// Protocols whose first four bytes Linux takes for ports (`proto_ports_offset`): TCP, UDP, DCCP,
/// ESP, SCTP, UDP-Lite.
const WITH_PORTS: [u8; 6] = [6, 17, 33, 50, 132, 136];

/// Every DSCP.
pub const ANY_DSCP: u64 = u64::MAX;

/// One rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoutingRule {
    /// Which packets.
    pub selector: Selector,
    /// What they come to.
    pub action: Action,
}

/// Which packets a rule is about: all that is said must hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selector {
    /// It is about all others.
    pub not: bool,
    /// Source.
    pub from: Option<IpNet>,
    /// Destination.
    pub to: Option<IpNet>,
    /// Interfaces of the plane's that it came in by; none of them where the list is empty.
    pub inputs: Option<Vec<u16>>,
    /// Protocol of the upper layer.
    pub protocol: Option<u8>,
    /// Source and destination port, from 1.
    pub ports: [Option<Span>; 2],
    /// Which DSCPs, as bits.
    pub dscp: u64,
}

impl Selector {
    /// Every packet.
    pub const ALL: Selector = Selector {
        not: false,
        from: None,
        to: None,
        inputs: None,
        protocol: None,
        ports: [None; 2],
        dscp: ANY_DSCP,
    };

    /// Whether it is about a packet.
    pub fn holds(&self, seen: &Seen) -> bool {
        let within = |net: &Option<IpNet>, address| net.is_none_or(|net| contains(net, address));
        let at = |n: usize| self.ports[n].is_none_or(|span| span.contains(seen.ports[n]));
        let holds = within(&self.from, seen.source)
            && within(&self.to, seen.destination)
            && self.inputs.as_ref().is_none_or(|inputs| inputs.contains(&seen.input))
            && self.protocol.is_none_or(|protocol| protocol == seen.protocol)
            && at(0)
            && at(1)
            && self.dscp >> (seen.dscp & 63) & 1 != 0;
        holds != self.not
    }

    fn asks_upper(&self) -> bool {
        self.protocol.is_some() || self.ports.iter().any(Option::is_some)
    }
}

fn contains(net: IpNet, address: u128) -> bool {
    let (bits, first) = match net {
        IpNet::V4(net) => (32, u128::from(net.network().to_bits())),
        IpNet::V6(net) => (128, net.network().to_bits()),
    };
    let open = u32::from(bits - net.prefix_len());
    open >= 128 || (address ^ first) >> open == 0
}

/// What becomes of packets that match.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// They are looked up in a table. Where that has no route, the next rule decides.
    Look {
        /// The plane's number of the table.
        table: u16,
        /// Routes count only if their prefix is longer than this.
        longer: Option<u8>,
    },
    /// The rules from this one on decide.
    GoTo(usize),
    /// They are refused; Linux says how.
    Refuse,
}

/// What rules ask of a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// Source; an IPv4 address is a number of 32 bits.
    pub source: u128,
    /// Destination.
    pub destination: u128,
    /// The plane's interface that it came in by.
    pub input: u16,
    /// Protocol of the upper layer.
    pub protocol: u8,
    /// Ports, 0 where Linux sees none: those of fragments too, even the first.
    pub ports: [u16; 2],
    /// DSCP.
    pub dscp: u8,
}

impl Seen {
    /// Of a packet, from its IP header on, as Linux sees it (`skb_flow_dissect`). `None`: only
    /// Linux knows.
    pub fn read(ip: &[u8], input: u16) -> Option<Seen> {
        let headers = Headers::parse(ip).ok()?;
        // Linux does not look behind an authentication header, nor takes an only fragment for a
        // whole packet.
        let alike = match headers.version {
            4 => ip.get(9) == Some(&headers.protocol),
            _ => headers.transport == 40,
        };
        alike.then(|| Seen::of(&headers, input))
    }

    /// The same of headers that have been read.
    pub fn of(headers: &Headers, input: u16) -> Seen {
        let number = |address: &[u8; 16]| crate::matching::number_of(address, headers.version);
        let shows = headers.fragment == Fragment::Whole && WITH_PORTS.contains(&headers.protocol);
        let ports = if shows { [headers.source_port, headers.destination_port] } else { [0; 2] };
        Seen {
            source: number(&headers.source),
            destination: number(&headers.destination),
            input,
            protocol: headers.protocol,
            ports,
            dscp: headers.dscp,
        }
    }

    /// The same, bound for an address; and for a port, where that is said and ports are shown.
    pub fn bound_for(self, to: IpAddr, port: Option<u16>) -> Seen {
        let destination = match to {
            IpAddr::V4(to) => u128::from(to.to_bits()),
            IpAddr::V6(to) => to.to_bits(),
        };
        let [source, shown] = self.ports;
        let port = port.filter(|_| self.ports != [0; 2]).unwrap_or(shown);
        Seen { destination, ports: [source, port], ..self }
    }

    /// The packet that would come back by an interface: by it Linux asks whether the source is
    /// right.
    pub fn turned(self, input: u16) -> Seen {
        let [source, destination] = self.ports;
        Seen {
            source: self.destination,
            destination: self.source,
            ports: [destination, source],
            input,
            ..self
        }
    }

    fn key<const W: usize>(&self) -> Key<W> {
        let mut words = [0; W];
        let addresses = Key::<W>::PORTS / 2;
        for n in 0..addresses {
            let shift = 32 * (addresses - 1 - n);
            words[n] = (self.source >> shift) as u32;
            words[addresses + n] = (self.destination >> shift) as u32;
        }
        words[Key::<W>::PORTS] = u32::from(self.ports[0]) | u32::from(self.ports[1]) << 16;
        words[Key::<W>::SMALL] = Key::<W>::small(self.protocol.into(), FlowState::default(), self.input);
        Key(words)
    }
}

/// The rules of one family in their order.
#[derive(Clone, Debug)]
pub struct RoutingRules {
    rules: Vec<RoutingRule>,
    /// The tables of those that look into one, and do nothing else.
    looks: Vec<Option<u16>>,
    trees: Trees,
    asks_upper: bool,
}

#[derive(Clone, Debug)]
enum Trees {
    V4(Box<Forest<W4>>),
    V6(Box<Forest<W6>>),
}

impl RoutingRules {
    /// Compiles them; of those beyond [`MOST_ROUTING_RULES`] nothing is known.
    pub fn new(ipv6: bool, mut rules: Vec<RoutingRule>) -> RoutingRules {
        rules.truncate(MOST_ROUTING_RULES);
        let trees = match ipv6 {
            false => Trees::V4(Box::new(Forest::new(entries(&rules)))),
            true => Trees::V6(Box::new(Forest::new(entries(&rules)))),
        };
        let asks_upper = rules.iter().any(|rule| rule.selector.asks_upper());
        let looks = rules.iter().map(|rule| match rule.action {
            Action::Look { table, longer: None } => Some(table),
            _ => None,
        });
        RoutingRules { looks: looks.collect(), rules, trees, asks_upper }
    }

    /// All of them.
    pub fn rules(&self) -> &[RoutingRule] {
        &self.rules
    }

    /// The table that the rule of this step looks into, if that is all that it does.
    #[inline(always)]
    pub fn only_looks_into(&self, step: u32) -> Option<u16> {
        *self.looks.get(step as usize)?
    }

    /// Whether there are none: then the main table decides.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// Whether some ask for what is behind the IP header.
    pub fn asks_upper(&self) -> bool {
        self.asks_upper
    }

    /// The first rule from this one on that a packet matches; their number if none does.
    pub fn first(&self, from: usize, seen: &Seen) -> usize {
        let rest = self.rules.get(from..).unwrap_or_default();
        let first = rest.iter().position(|rule| rule.selector.holds(seen));
        first.map_or(self.rules.len(), |first| from + first)
    }

    /// The first rule that each packet of a batch matches; a large number if none does.
    pub fn firsts(&self, seen: &[Seen]) -> [u32; BATCH] {
        let look = |n: usize, step: u32, _| self.rules[step as usize].selector.holds(&seen[n]);
        match &self.trees {
            Trees::V4(forest) => forest.find_all(&keys(seen), look).steps,
            Trees::V6(forest) => forest.find_all(&keys(seen), look).steps,
        }
    }

    /// The same of packets of which the keys are known; `seen` says more of one.
    #[inline(always)]
    pub fn firsts4(&self, keys: &Plain<W4>, seen: impl Fn(usize) -> Seen) -> [u32; BATCH] {
        let look = |n: usize, step: u32, _| self.rules[step as usize].selector.holds(&seen(n));
        match &self.trees {
            Trees::V4(forest) => forest.find_all(keys.keys(), look).steps,
            Trees::V6(_) => [u32::MAX; BATCH],
        }
    }

    /// As [`RoutingRules::firsts4`].
    #[inline(always)]
    pub fn firsts6(&self, keys: &Plain<W6>, seen: impl Fn(usize) -> Seen) -> [u32; BATCH] {
        let look = |n: usize, step: u32, _| self.rules[step as usize].selector.holds(&seen(n));
        match &self.trees {
            Trees::V4(_) => [u32::MAX; BATCH],
            Trees::V6(forest) => forest.find_all(keys.keys(), look).steps,
        }
    }
}

fn keys<const W: usize>(seen: &[Seen]) -> Keys<W> {
    let mut keys = Keys::none(seen.len().min(BATCH));
    seen.iter().take(BATCH).enumerate().for_each(|(n, seen)| keys.set(n, &seen.key()));
    keys
}

fn entries<const W: usize>(rules: &[RoutingRule]) -> Vec<Entry<W>> {
    let numbered = rules.iter().zip(0..);
    numbered.flat_map(|(rule, step)| entries_of(&rule.selector, step)).collect()
}

fn entries_of<const W: usize>(selector: &Selector, step: u32) -> Vec<Entry<W>> {
    if selector.not {
        return vec![Entry::new(&Region::ALL, step, kind::LARGER)];
    }
    let half = Key::<W>::PORTS / 2;
    let mut region = Region::ALL;
    for (net, first) in [(selector.from, 0), (selector.to, half)] {
        for (n, (value, mask)) in net.iter().flat_map(|net| words(*net)).enumerate().take(half) {
            if mask != 0 {
                region = region.with(first + n, value, mask);
            }
        }
    }
    for (n, span) in selector.ports.iter().enumerate() {
        region.ports[n] = span.unwrap_or(region.ports[n]);
    }
    let small = Key::<W>::SMALL;
    let protocol = selector.protocol.map_or((0, 0), |protocol| (u32::from(protocol), 0xff));
    let what = if selector.dscp == ANY_DSCP { kind::FINAL } else { kind::LARGER };
    let entry = |value, mask| Entry::new(&region.with(small, value, mask), step, what);
    match &selector.inputs {
        None => vec![entry(protocol.0, protocol.1)],
        Some(inputs) => {
            let by = |input: &u16| {
                entry(protocol.0 | u32::from(*input) << IN_PORT, protocol.1 | 0xffff << IN_PORT)
            };
            inputs.iter().map(by).collect()
        }
    }
}

/// A prefix in words, each with its mask.
fn words(net: IpNet) -> Vec<(u32, u32)> {
    let bytes = match net {
        IpNet::V4(net) => net.network().octets().to_vec(),
        IpNet::V6(net) => net.network().octets().to_vec(),
    };
    let (words, _) = bytes.as_chunks::<4>();
    let mask = |n: usize| {
        let known = usize::from(net.prefix_len()).saturating_sub(32 * n).min(32) as u32;
        !u32::MAX.checked_shr(known).unwrap_or(0)
    };
    words.iter().enumerate().map(|(n, word)| (u32::from_be_bytes(*word), mask(n))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use chance::Random;

    fn address(random: &mut Random, ipv6: bool) -> u128 {
        let low = random.pick(&[0u128, 1, 2, 0x4000, 0x0102_0304]);
        if ipv6 {
            random.pick(&[0x2001 << 112, 0x2001_0db8 << 96, 0xfc << 120]) | low
        } else {
            low | 10 << 24
        }
    }

    fn prefix(random: &mut Random, ipv6: bool) -> Option<IpNet> {
        let bits = address(random, ipv6);
        let length =
            if ipv6 { random.pick(&[0, 7, 32, 64, 127, 128]) } else { random.pick(&[0, 1, 8, 17, 31, 32]) };
        let address = if ipv6 {
            std::net::Ipv6Addr::from(bits).into()
        } else {
            std::net::Ipv4Addr::from(bits as u32).into()
        };
        random.chance(50).then(|| IpNet::new(address, length).unwrap().trunc())
    }

    fn seen(random: &mut Random, ipv6: bool) -> Seen {
        Seen {
            source: address(random, ipv6),
            destination: address(random, ipv6),
            input: random.below(3) as u16,
            protocol: random.pick(&[1, 6, 17]),
            ports: [random.pick(&[0, 53, 1000]), random.pick(&[0, 80, 443])],
            dscp: random.pick(&[0, 10, 46]),
        }
    }

    fn selector(random: &mut Random, ipv6: bool) -> Selector {
        let span = |random: &mut Random| {
            let first = random.pick(&[1, 53, 80]);
            random.chance(20).then(|| Span { first, last: first + random.pick(&[0, 1, 500]) })
        };
        Selector {
            not: random.chance(15),
            from: prefix(random, ipv6),
            to: prefix(random, ipv6),
            inputs: random.chance(30).then(|| (0..random.below(3) as u16).collect()),
            protocol: random.chance(30).then(|| random.pick(&[6, 17])),
            ports: [span(random), span(random)],
            dscp: if random.chance(20) { 1 << 10 | 1 << 46 } else { ANY_DSCP },
        }
    }

    #[test]
    fn the_trees_find_the_rule_that_the_list_says() {
        for seed in 0..600 {
            let (mut random, ipv6) = (Random(seed), seed % 2 == 1);
            let count = random.pick(&[0, 1, 5, 20, 100, 400]);
            let rule = |random: &mut Random| RoutingRule {
                selector: selector(random, ipv6),
                action: Action::Refuse,
            };
            let rules = RoutingRules::new(ipv6, (0..count).map(|_| rule(&mut random)).collect());
            let packets: Vec<Seen> = (0..BATCH).map(|_| seen(&mut random, ipv6)).collect();
            for (packet, found) in packets.iter().zip(rules.firsts(&packets)) {
                let plainly = rules.rules().iter().position(|rule| rule.selector.holds(packet));
                assert_eq!((found as usize).min(count), plainly.unwrap_or(count), "{packet:?} {rules:?}");
                assert_eq!(rules.first(0, packet), plainly.unwrap_or(count));
            }
        }
    }

    #[test]
    fn ports_are_those_that_linux_sees() {
        let headers = |protocol, fragment| Headers {
            version: 4,
            protocol,
            source_port: 7,
            destination_port: 8,
            fragment,
            ..Headers::default()
        };
        let ports = |protocol, fragment| Seen::of(&headers(protocol, fragment), 1).ports;
        assert_eq!(ports(17, Fragment::Whole), [7, 8]);
        assert_eq!(ports(17, Fragment::First), [0, 0], "the first has them, and Linux does not look");
        assert_eq!(ports(50, Fragment::Whole), [7, 8], "an SPI");
        assert_eq!(ports(1, Fragment::Whole), [0, 0], "an echo's identifier is no port");
    }
}
