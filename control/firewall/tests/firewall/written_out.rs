//! Chains that lead to each other, written out, decide as a reader of them would: against one that
//! follows them word by word.

use std::net::{IpAddr, Ipv4Addr};

use chance::Random;
use nat::Action;

/// What a rule asks of a packet, in nft's words and as a reader understands it.
#[derive(Clone, Copy)]
enum Asks {
    Input(bool, &'static str),
    Output(bool, &'static str),
    Source(bool, [u8; 4], u8),
    Destination(bool, [u8; 4], u8),
    Protocol(bool, u8),
    Port(bool, u8, u16, u16),
}

#[derive(Clone, Copy)]
enum Does {
    To(u8),
    Jump(usize),
    Goto(usize),
    Return,
    Accept,
}

struct Rule {
    asks: Vec<Asks>,
    does: Does,
}

#[derive(Debug)]
struct Packet {
    input: &'static str,
    output: &'static str,
    source: Ipv4Addr,
    destination: Ipv4Addr,
    protocol: u8,
    port: u16,
}

/// What comes of a chain.
#[derive(PartialEq)]
enum End {
    To(u8),
    Stays,
    Behind,
}

const PORTS: [&str; 3] = ["a", "b", "c"];
const NETS: [([u8; 4], u8); 4] =
    [([10, 0, 0, 0], 30), ([10, 0, 0, 2], 31), ([10, 0, 0, 1], 32), ([10, 0, 0, 4], 30)];

impl Asks {
    fn random(random: &mut Random) -> Asks {
        let not = random.one_in(3);
        let (net, length) = random.pick(&NETS);
        match random.below(7) {
            0 => Asks::Input(not, random.pick(&PORTS)),
            1 => Asks::Output(not, random.pick(&PORTS)),
            2 | 3 => Asks::Source(not, net, length),
            4 => Asks::Destination(not, net, length),
            5 => Asks::Protocol(not, random.pick(&[6, 17])),
            _ => {
                Asks::Port(not, random.pick(&[6, 17]), random.below(3) as u16 + 1, random.below(3) as u16 + 3)
            }
        }
    }

    fn is_of_protocol(self) -> bool {
        matches!(self, Asks::Protocol(..) | Asks::Port(..))
    }

    fn text(self) -> String {
        let is = |not: bool| if not { "!= " } else { "" };
        let net = |net: [u8; 4], length: u8| format!("{}/{length}", Ipv4Addr::from(net));
        match self {
            Asks::Input(not, name) => format!("iifname {}\"{name}\"", is(not)),
            Asks::Output(not, name) => format!("oifname {}\"{name}\"", is(not)),
            Asks::Source(not, of, length) => format!("ip saddr {}{}", is(not), net(of, length)),
            Asks::Destination(not, of, length) => format!("ip daddr {}{}", is(not), net(of, length)),
            Asks::Protocol(not, number) => format!("meta l4proto {}{number}", is(not)),
            Asks::Port(not, of, first, last) => {
                format!("{} dport {}{first}-{last}", if of == 6 { "tcp" } else { "udp" }, is(not))
            }
        }
    }

    fn met(self, packet: &Packet) -> bool {
        let within = |address: Ipv4Addr, net: [u8; 4], length: u8| {
            u32::from(address) >> (32 - length) == u32::from(Ipv4Addr::from(net)) >> (32 - length)
        };
        match self {
            Asks::Input(not, name) => (packet.input == name) != not,
            Asks::Output(not, name) => (packet.output == name) != not,
            Asks::Source(not, net, length) => within(packet.source, net, length) != not,
            Asks::Destination(not, net, length) => within(packet.destination, net, length) != not,
            Asks::Protocol(not, number) => (packet.protocol == number) != not,
            Asks::Port(not, of, first, last) => {
                packet.protocol == of && (first..=last).contains(&packet.port) != not
            }
        }
    }
}

impl Rule {
    /// A rule of chain `at`, which leads to later ones alone.
    fn random(at: usize, chains: usize, target: &mut u8, random: &mut Random) -> Rule {
        let mut asks: Vec<Asks> = Vec::new();
        for _ in 0..random.below(3) {
            let more = Asks::random(random);
            // nft takes no rule for two protocols.
            if !(more.is_of_protocol() && asks.iter().any(|asks| asks.is_of_protocol())) {
                asks.push(more);
            }
        }
        let further = at + 1 < chains;
        let does = match random.below(8) {
            0 | 1 if further => Does::Jump(at + 1 + random.below(chains - at - 1)),
            2 if further => Does::Goto(at + 1 + random.below(chains - at - 1)),
            3 | 4 => Does::Return,
            5 => Does::Accept,
            _ => {
                *target += 1;
                Does::To(*target)
            }
        };
        Rule { asks, does }
    }

    fn text(&self) -> String {
        let mut words: Vec<String> = self.asks.iter().map(|asks| asks.text()).collect();
        words.push(match self.does {
            Does::To(n) => format!("snat to 192.0.2.{n}"),
            Does::Jump(chain) => format!("jump c{chain}"),
            Does::Goto(chain) => format!("goto c{chain}"),
            Does::Return => "return".to_owned(),
            Does::Accept => "accept".to_owned(),
        });
        words.join(" ")
    }
}

/// Follows a chain word by word.
fn follow(chains: &[Vec<Rule>], at: usize, packet: &Packet) -> End {
    for rule in chains[at].iter().filter(|rule| rule.asks.iter().all(|asks| asks.met(packet))) {
        match rule.does {
            Does::To(n) => return End::To(n),
            Does::Accept => return End::Stays,
            Does::Return => return End::Behind,
            Does::Goto(chain) => return follow(chains, chain, packet),
            Does::Jump(chain) => match follow(chains, chain, packet) {
                End::Behind => {}
                end => return end,
            },
        }
    }
    End::Behind
}

/// What the first rule of the plane's that matches does.
fn decided(rules: &[nat::Rule], packet: &Packet) -> Option<u8> {
    let takes = |rule: &&nat::Rule| {
        let of = &rule.matches;
        let named = |names: &[String], not: &[String], name: &str| {
            (names.is_empty() || names.iter().any(|one| one == name)) && !not.iter().any(|one| one == name)
        };
        let within = |nets: &[ipnet::IpNet], address: Ipv4Addr| {
            nets.is_empty() || nets.iter().any(|net| net.contains(&IpAddr::V4(address)))
        };
        named(&of.input, &of.not_input, packet.input)
            && named(&of.output, &of.not_output, packet.output)
            && within(&of.source, packet.source)
            && within(&of.destination, packet.destination)
            && (of.protocols.is_empty() || of.protocols.contains(&packet.protocol))
            && (of.destination_ports.is_empty()
                || of.destination_ports.iter().any(|range| range.contains(&packet.port)))
    };
    match &rules.iter().find(takes)?.action {
        Action::Source { addresses, .. } => match addresses.ranges()[0].first() {
            IpAddr::V4(address) => Some(address.octets()[3]),
            IpAddr::V6(address) => panic!("{address}"),
        },
        _ => None,
    }
}

#[test]
fn they_decide_as_they_say() {
    let mut random = Random(20_261_128);
    let (mut adopted, mut translated) = (0, 0);
    for round in 0..200 {
        let (count, mut target) = (1 + random.below(4), 0);
        let chains: Vec<Vec<Rule>> = (0..count)
            .map(|at| {
                let rules = 1 + random.below(4);
                (0..rules).map(|_| Rule::random(at, count, &mut target, &mut random)).collect()
            })
            .collect();
        let mut text = "table ip n {\n".to_owned();
        for (at, rules) in chains.iter().enumerate().rev() {
            let rules: Vec<String> = rules.iter().map(Rule::text).collect();
            let base = if at == 0 { "type nat hook postrouting priority srcnat;\n" } else { "" };
            text += &format!("chain c{at} {{ {base}{}\n}}\n", rules.join("\n"));
        }
        text += "}\n";
        let found = super::adopted(&text);
        assert_eq!(found.problems, [], "{round}\n{text}");
        adopted += 1;
        let rules = found.nat.map(|nat| nat.rules).unwrap_or_default();
        for _ in 0..300 {
            let host = |random: &mut Random| Ipv4Addr::new(10, 0, 0, random.below(9) as u8);
            let packet = Packet {
                input: random.pick(&PORTS),
                output: random.pick(&PORTS),
                source: host(&mut random),
                destination: host(&mut random),
                protocol: random.pick(&[1, 6, 17]),
                port: random.below(7) as u16,
            };
            let expected = match follow(&chains, 0, &packet) {
                End::To(n) => Some(n),
                End::Stays | End::Behind => None,
            };
            translated += u32::from(expected.is_some());
            assert_eq!(decided(&rules, &packet), expected, "{packet:?}\n{text}\n{rules:#?}");
        }
    }
    assert!(adopted == 200 && translated > 7000, "{translated} of 60,000 packets were translated");
}
