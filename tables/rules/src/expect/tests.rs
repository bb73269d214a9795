//! Sets of packets against packets one by one.

use std::net::Ipv4Addr;

use chance::Random;
use ipnet::IpNet;
use wire::{Fragment, Headers, headers::mapped};

use super::ground::{Aim, Ground, Lead, Routes, Target, To};
use super::judge::{Judge, Judgement};
use super::sentence::{Fate, Sentence};
use super::space::{Axis, Names, Space};
use super::walk::{Part, Ways};
use crate::evaluate::Outcome;
use crate::matching::{Context, number_of};
use crate::model::*;
use crate::moment::Now;

#[path = "../../tests/rules/pools.rs"]
mod pools;

fn filter(text: &str) -> Filter {
    Filter::read("f", text, &mut |_| Err(std::io::ErrorKind::NotFound.into()))
        .unwrap_or_else(|mistakes| panic!("{mistakes}\n{text}"))
}

/// Whether a packet is in a part.
fn has(space: &Space, headers: &Headers, context: &Context) -> bool {
    let fragment = match headers.fragment {
        Fragment::Whole => 0,
        Fragment::First => 1,
        Fragment::Later => 2,
    };
    let values = [
        (Axis::Source, number_of(&headers.source, headers.version)),
        (Axis::Destination, number_of(&headers.destination, headers.version)),
        (Axis::SourcePort, headers.source_port.into()),
        (Axis::DestinationPort, headers.destination_port.into()),
        (Axis::Protocol, headers.protocol.into()),
        (Axis::Icmp, u16::from_be_bytes([headers.icmp_type, headers.icmp_code]).into()),
        (Axis::Flags, headers.tcp_flags.into()),
        (Axis::Length, headers.length.into()),
        (Axis::Ttl, headers.ttl.into()),
        (Axis::Dscp, headers.dscp.into()),
        (Axis::Fragment, fragment),
        (Axis::Input, context.in_port.into()),
        (Axis::Output, context.out_port.unwrap_or_default().into()),
        (Axis::State, (context.state as u8).trailing_zeros().into()),
    ];
    values.into_iter().all(|(axis, value)| space.at(axis).has(value))
}

#[test]
fn parts_are_what_the_evaluator_says_of_each_packet() {
    let mut random = Random(20_261_126);
    let names = ["eth0", "eth1", "wlan0", "wlan1", "other"].map(str::to_owned);
    let (mut packets, mut most) = (0, 0);
    for _ in 0..150 {
        // Parts at other times are two of one packet.
        let text = pools::filter(&mut random, 8);
        let text: Vec<&str> = text.lines().filter(|line| !line.contains(" time ")).collect();
        let mut filter = filter(&text.join("\n"));
        filter.resolve(pools::ports);
        // Every second chain that is jumped to is one that what is accepted goes on behind.
        filter.chains.iter_mut().skip(Hook::ALL.len()).step_by(2).for_each(|chain| chain.base = true);
        let known = Names { sets: &filter.sets, interfaces: &names };
        let ways = Family::BOTH.map(|family| Ways::new(&filter, family, &known));
        for hook in Hook::ALL {
            for (family, ways) in Family::BOTH.into_iter().zip(&ways) {
                let space = Space::all(family);
                let all = Part { space, mark: 0x12, dscp: None, at_times_of: None, came: None };
                let Ok(ended) = ways.through(hook, vec![all]) else { continue };
                most = most.max(ended.len());
                for _ in 0..60 {
                    let (headers, context) = pools::packet(&mut random, Some(family.version()));
                    let out_port = Some(context.out_port.unwrap_or(4));
                    let context = Context { mark: 0x12, out_port, dnat: false, ..context };
                    let said = filter.evaluate(hook, &headers, &context, &Now::default(), None);
                    let mut own = ended.iter().filter(|ended| has(&ended.part.space, &headers, &context));
                    let (one, other) = (own.next().expect("it is in one"), own.next());
                    assert!(other.is_none(), "{headers:?} {context:?}\n{filter:?}");
                    let found = (one.outcome, one.rule, one.part.mark, one.part.dscp);
                    assert_eq!(
                        found,
                        (said.outcome, said.rule, said.mark, said.dscp),
                        "{headers:?} {context:?}"
                    );
                    packets += 1;
                }
            }
        }
    }
    assert!(packets > 40_000 && most > 30, "{packets} {most}");
}

/// A small world: 8 addresses, 4 ports, 3 interfaces.
struct World {
    filter: Filter,
    ground: Ground,
    routes: Vec<(IpNet, Lead)>,
}

const NAMES: [&str; 3] = ["eth0", "eth1", "eth2"];

fn net(random: &mut Random) -> IpNet {
    let length = 29 + random.below(4) as u8;
    let address = Ipv4Addr::new(10, 0, 0, random.below(8) as u8);
    IpNet::new(address.into(), length).expect("a length").trunc()
}

fn ports(random: &mut Random) -> String {
    let first = random.below(4);
    format!("{first}-{}", first + random.below(4 - first))
}

fn rule(random: &mut Random, output: bool) -> String {
    let verdicts = ["accept", "drop", "reject", "accept mark 1", "mark 2", "jump more", "return"];
    let mut text = random.pick(&verdicts).to_owned();
    if text == "accept mark 1" {
        text = "mark 1 accept".to_owned();
    }
    if random.chance(60) {
        text += random.pick(&[" tcp", " udp", " proto !tcp"]);
    }
    let turned = |random: &mut Random| if random.chance(15) { "!" } else { "" };
    if random.chance(60) {
        text += &format!(" from {}{}", turned(random), net(random));
    }
    if random.chance(60) {
        text += &format!(" to {}{}", turned(random), net(random));
        if random.chance(50) && !text.contains("proto") {
            text += &format!(" port {}{}", turned(random), ports(random));
        }
    }
    if random.chance(25) {
        text += &format!(" in {}", random.pick(&["eth0", "!eth1", "eth1,eth2", "eth*"]));
    }
    if output && random.chance(30) {
        text += &format!(" out {}", random.pick(&["eth0", "!eth1", "eth2"]));
    }
    if output && random.chance(10) {
        text += " dnat";
    }
    if random.chance(10) {
        text += " marked 2";
    }
    text
}

fn world(random: &mut Random) -> World {
    let mut text = String::new();
    for (chain, output) in [("input", false), ("forward", true), ("output", true), ("more", false)] {
        let policy = random.pick(&["policy accept", "policy accept", "policy drop"]);
        text += &format!("chain {chain} {}\n", if chain == "more" { "" } else { policy });
        for _ in 0..random.below(5) {
            let rule = rule(random, output);
            let jumps = chain == "more" && rule.starts_with("jump");
            text += &if jumps { "return\n".to_owned() } else { rule + "\n" };
        }
    }
    let mut routes: Vec<(IpNet, Lead)> = Vec::new();
    for _ in 0..random.below(6) {
        let lead = match random.below(5) {
            0 => Lead::Here,
            1 => Lead::Nowhere("blackhole".to_owned()),
            2 => Lead::By(vec![0, 1]),
            n => Lead::By(vec![n - 2]),
        };
        let prefix = net(random);
        if routes.iter().all(|(known, _)| *known != prefix) {
            routes.push((prefix, lead));
        }
    }
    let mut aims = Vec::new();
    for n in 0..random.below(3) {
        let from = random.below(3) as u16;
        let to = random.below(3) as u16;
        let one = random.chance(50);
        let count = 1 + random.below(2);
        let targets: Vec<Target> = (0..count)
            .map(|_| Target {
                net: net(random),
                ports: random.chance(50).then_some(if one { to..=to } else { to..=to + 1 }),
            })
            .collect();
        aims.push(Aim {
            rule: format!("r{n}"),
            input: random.chance(30).then(|| vec![random.below(3)]),
            source: if random.chance(30) { vec![net(random)] } else { vec![] },
            destination: if random.chance(70) { vec![net(random)] } else { vec![] },
            protocols: vec![6],
            source_ports: vec![],
            ports: vec![from..=from + 1],
            to: if random.chance(15) { To::Itself } else { To::Targets(targets) },
        });
    }
    let ground = Ground {
        interfaces: NAMES.map(str::to_owned).to_vec(),
        inputs: vec![0, 1, 2],
        outputs: vec![0, 1],
        aims,
        own: vec![],
        routes: Some(Routes::new(routes.clone())),
    };
    let mut filter = filter(&text);
    filter
        .resolve(|word| (0..3).filter(|at| super::space::is_called(word, NAMES[usize::from(*at)])).collect());
    World { filter, ground, routes }
}

/// A packet of the small world: source, destination, protocol, destination port, interface.
type Packet = (u8, u8, u8, u16, u16);

impl World {
    /// What may become of a packet.
    fn fates(&self, (source, destination, protocol, port, input): Packet) -> Vec<Fate> {
        let headers = Headers {
            source: mapped([10, 0, 0, source]),
            destination: mapped([10, 0, 0, destination]),
            version: 4,
            protocol,
            source_port: 40_000,
            destination_port: port,
            tcp_flags: 2,
            ttl: 64,
            length: 84,
            ..Headers::default()
        };
        let context = Context { in_port: input, state: FlowState::New, ..Context::default() };
        let ask = |hook, headers: &Headers, context: &Context| {
            self.filter.evaluate(hook, headers, context, &Now::default(), None)
        };
        let said = ask(Hook::Input, &headers, &context);
        if said.outcome != Outcome::Accept {
            return vec![Fate::Dropped];
        }
        let marked = Context { mark: said.mark, ..context };
        let own = IpNet::from(std::net::IpAddr::from([10, 0, 0, destination]));
        let from = IpNet::from(std::net::IpAddr::from([10, 0, 0, source]));
        let within =
            |nets: &[IpNet], one: &IpNet| nets.is_empty() || nets.iter().any(|net| net.contains(one));
        let aim = self.ground.aims.iter().find(|aim| {
            aim.input.as_ref().is_none_or(|ports| ports.contains(&usize::from(input)))
                && within(&aim.source, &from)
                && within(&aim.destination, &own)
                && aim.protocols.contains(&protocol)
                && aim.ports.iter().any(|range| range.contains(&port))
        });
        let dnat = aim.is_some_and(|aim| matches!(aim.to, To::Targets(_)));
        let marked = Context { dnat, ..marked };
        let seen = match aim.map(|aim| (aim, &aim.to)) {
            Some((aim, To::Targets(targets))) => {
                let led = targets.iter().map(|target| {
                    let mask = 32 - target.net.prefix_len();
                    let host = u32::from(destination) & ((1u64 << mask) - 1) as u32;
                    let IpNet::V4(net) = target.net else { unreachable!() };
                    let to = (u32::from(net.network()) | host).to_be_bytes();
                    let port = match &target.ports {
                        None => port,
                        Some(ports) if ports.start() == ports.end() => *ports.start(),
                        Some(ports) => ports.start() + (port - aim.ports[0].start()),
                    };
                    Headers { destination: mapped(to), destination_port: port, ..headers }
                });
                led.collect()
            }
            _ => vec![headers],
        };
        seen.iter().flat_map(|headers| self.beyond(headers, marked, &ask)).collect()
    }

    fn beyond(
        &self,
        headers: &Headers,
        context: Context,
        ask: &dyn Fn(Hook, &Headers, &Context) -> crate::Decision,
    ) -> Vec<Fate> {
        let to = IpNet::from(std::net::IpAddr::from([10, 0, 0, headers.destination[15]]));
        let covers = self.routes.iter().filter(|(prefix, _)| prefix.contains(&to));
        match covers.max_by_key(|(prefix, _)| prefix.prefix_len()) {
            None | Some((_, Lead::Nowhere(_))) => vec![Fate::Dropped],
            Some((_, Lead::Here)) => vec![Fate::Here],
            Some((_, Lead::By(interfaces))) => {
                let by = |output: &usize| {
                    let context = Context { out_port: Some(*output as u16), ..context };
                    let forward = ask(Hook::Forward, headers, &context);
                    let context = Context { mark: forward.mark, ..context };
                    let passes = forward.outcome == Outcome::Accept
                        && (!self.ground.outputs.contains(output)
                            || ask(Hook::Output, headers, &context).outcome == Outcome::Accept);
                    if passes { Fate::Forwarded } else { Fate::Dropped }
                };
                interfaces.iter().map(by).collect()
            }
        }
    }
}

/// The packet that a breach shows.
fn shown(packet: &str) -> Packet {
    let words: Vec<&str> = packet.split(' ').collect();
    let last = |text: &str| text.rsplit('.').next().and_then(|last| last.parse().ok()).expect("an address");
    let protocol = if words[3] == "tcp" { 6 } else { 17 };
    let port = words[4].rsplit(':').next().and_then(|port| port.parse().ok()).expect("a port");
    let input = NAMES.iter().position(|name| *name == words[6]).expect("an interface") as u16;
    (last(words[0]), last(words[2]), protocol, port, input)
}

#[test]
fn sentences_hold_if_they_do_for_every_packet() {
    let mut random = Random(23);
    let (mut held, mut broken) = (0, 0);
    for _ in 0..1_500 {
        let world = world(&mut random);
        let judge = Judge::new(&world.filter, &world.ground);
        for _ in 0..4 {
            let (source, destination) = (net(&mut random), net(&mut random));
            let (from, to) = (random.below(4), random.below(4));
            let (first, last) = (from.min(to), from.max(to));
            let protocol = random.pick(&["tcp", "udp", "proto tcp,udp"]);
            let input = random.pick(&["", "in eth0", "in !eth0", "in eth1,eth2"]);
            let nothing = random.pick(&["", "nothing "]);
            let fate = random.pick(&["reaches me", "is forwarded", "is dropped"]);
            let text = format!("{nothing}{source} > {destination} {protocol} {first}-{last} {input} {fate}");
            let read = Sentence::read("e", &text, &world.filter).unwrap_or_else(|wrong| panic!("{wrong}"));
            let [sentence] = &read[..] else { panic!("{text}") };
            let within = |net: &IpNet, last: u8| net.contains(&std::net::IpAddr::from([10, 0, 0, last]));
            let is_input = |at: u16| match input {
                "in eth0" => at == 0,
                "in !eth0" | "in eth1,eth2" => at != 0,
                _ => true,
            };
            let mut all = Vec::new();
            for source_host in (0..8).filter(|host| within(&source, *host)) {
                for host in (0..8).filter(|host| within(&destination, *host)) {
                    for number in [6, 17] {
                        for port in first as u16..=last as u16 {
                            for at in (0..3).filter(|at| is_input(*at)) {
                                all.push((source_host, host, number, port, at));
                            }
                        }
                    }
                }
            }
            all.retain(|packet: &Packet| match protocol {
                "tcp" => packet.2 == 6,
                "udp" => packet.2 == 17,
                _ => true,
            });
            let breaks = |packet: &Packet| {
                world.fates(*packet).iter().any(|fate| (*fate == sentence.fate) == sentence.nothing)
            };
            match judge.judge(sentence) {
                Judgement::Holds => {
                    held += 1;
                    let found = all.iter().find(|packet| breaks(packet));
                    assert_eq!(found, None, "{text}\n{:?}\n{:?}", world.filter.chains, world.ground);
                }
                Judgement::Broken(breach) => {
                    broken += 1;
                    let packet = shown(&breach.packet);
                    assert!(
                        all.contains(&packet) && breaks(&packet),
                        "{text}: {breach:?}\n{:?}\n{:?}",
                        world.filter.chains,
                        world.ground
                    );
                }
                Judgement::Open(why) => panic!("{text}: {why}"),
            }
        }
    }
    assert!(held > 500 && broken > 500, "{held} {broken}");
}

#[test]
fn the_same_is_said_in_other_words() {
    let filter = filter("set known 192.0.2.0/24\n");
    for (one, other) in [
        ("198.51.100.7 tcp 443 is forwarded", "tcp to 198.51.100.7 port https is forwarded"),
        (
            "10.0.0.1>198.51.100.7 udp 1-9:53 is dropped",
            "udp from 10.0.0.1 port 1-9 to 198.51.100.7 port dns is dropped",
        ),
        ("nothing of @known > 10.0.0.0/8 is forwarded", "nothing to 10.0.0.0/8 from @known is forwarded"),
        ("dns reaches me", "proto tcp,udp 53 reaches me"),
        ("telnet from any to any is dropped", "tcp 23 is dropped"),
        ("ping any is forwarded", "ping is forwarded # all of them"),
    ] {
        let said = Sentence::read("e", &format!("{one}\n{other}"), &filter).map_err(|wrong| wrong.0);
        let wrong = said.expect_err(other);
        assert_eq!((wrong.len(), wrong[0].message.as_str()), (1, "the same is said on line 1"), "{wrong:?}");
        // Turned round it is something else.
        let turned = format!("{one}\nnothing {}", one.trim_start_matches("nothing "));
        let expected = if one.starts_with("nothing") { 0 } else { 2 };
        assert_eq!(Sentence::read("e", &turned, &filter).map_or(0, |all| all.len()), expected, "{one}");
    }
}
