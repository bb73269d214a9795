//! Programs against what the patterns say.
//!
//! Three readers of the same random patterns: the program as it runs, its condition walked as a
//! tree, and a naive evaluator of the written expression, which knows nothing of words and masks.

use super::*;
use graph::arguments::Names;
use proptest::prelude::*;

fn program(patterns: &[&str], form: Form, outputs: usize) -> Compiled {
    let patterns: Vec<String> = patterns.iter().map(|pattern| (*pattern).to_owned()).collect();
    compile(&patterns, form, outputs, &Scope::new(&Names::new(), "filter"))
}

fn text(patterns: &[&str], form: Form, outputs: usize) -> String {
    let compiled = program(patterns, form, outputs);
    assert_eq!(compiled.mistakes, []);
    Program::grouped(&compiled.tests).to_string()
}

#[test]
fn programs_read_as_clicks() {
    // Ports are asked for once the protocol is known and it is no later fragment; three ports of
    // one output are one step.
    let patterns = ["icmp type echo", "dst port 80", "dst tcp port 25 or 110", "-"];
    let lines = [
        " 0 260/00000000%00001fff  yes->step 1  no->[3]",
        " 1 264/00010000%00ff0000  yes->step 2  no->step 3",
        " 2 512/08000000%ff000000  yes->[0]  no->[3]",
        " 3 264/00060000%00ff0000  yes->step 5  no->step 4",
        " 4 264/00110000%00ff0000  yes->step 5  no->[3]",
        " 5 512/00000050%0000ffff  yes->[1]  no->step 6",
        " 6 264/00060000%00ff0000  yes->step 7  no->[3]",
        " 7 512/00000019%0000ffff  yes->[2]  no->step 8",
        " 8 512/0000006e%0000ffff  yes->[2]  no->[3]",
        "safe length 516",
        "alignment offset 0",
        "",
    ];
    assert_eq!(text(&patterns, Form::Classifier, 4), lines.join("\n"));
}

#[test]
fn what_decides_nothing_is_not_asked() {
    let nothing = |output: usize| format!("all->[{output}]\nsafe length 0\nalignment offset 0\n");
    assert_eq!(text(&["allow tcp && src 1.2.3.4", "allow udp", "allow all"], Form::Filter, 1), nothing(0));
    assert_eq!(text(&["allow false"], Form::Filter, 1), nothing(NOWHERE));
    assert_eq!(text(&[], Form::Filter, 1), nothing(NOWHERE));
    let one = " 0 268/01020304%ffffffff  yes->[0]  no->[X]\nsafe length 272\nalignment offset 0\n";
    assert_eq!(text(&["allow false", "allow src 1.2.3.4", "deny all"], Form::Filter, 1), one);
}

#[test]
fn ethernet_addresses_lie_across_two_words() {
    let patterns = ["src 2:0:0:0:0:1", "ether host 2:0:0:0:0:2"];
    let lines = [
        " 0   8/02000000%ffffffff  yes->step 1  no->step 3",
        " 1  12/00010000%ffff0000  yes->[0]  no->step 2",
        " 2  12/00020000%ffff0000  yes->[1]  no->step 3",
        " 3   0/00000200%0000ffff  yes->step 4  no->[X]",
        " 4   4/00000002%ffffffff  yes->[1]  no->[X]",
        "safe length 14",
        "alignment offset 0",
        "",
    ];
    assert_eq!(text(&patterns, Form::Classifier, 2), lines.join("\n"));
}

#[test]
fn many_values_are_found_by_halving() {
    let ports: Vec<String> = (0..300).map(|number| format!("{}", 20 * number + 7)).collect();
    let pattern = format!("dst udp port {}", ports.join(" or "));
    let compiled = program(&[&pattern], Form::Classifier, 1);
    let program = Program::grouped(&compiled.tests);
    assert_eq!(program.to_string().lines().count(), 304);
    for port in [0u16, 7, 27, 28, 5987, 6007] {
        let mut transport = [0; 8];
        transport[2..4].copy_from_slice(&port.to_be_bytes());
        let mut network = [0; 20];
        network[9] = 17;
        let headers = Headers { link: &[], network: &network, transport: &transport, length: TRANSPORT + 8 };
        let expected = if port % 20 == 7 && port < 6000 { 0 } else { NOWHERE };
        assert_eq!(program.output(headers.length, |offset| headers.word(offset)), expected, "{port}");
    }
}

/// Everything that is said about a pattern.
fn said(pattern: &str) -> Vec<String> {
    let compiled = program(&[pattern], Form::Filter, 1);
    let said = compiled.mistakes.into_iter().chain(compiled.warnings);
    said.map(|(_, message)| message.strip_prefix("pattern 0: ").unwrap_or(&message).to_owned()).collect()
}

#[test]
fn mistakes_are_said_in_clicks_words() {
    for (pattern, message) in [
        ("", "empty pattern 0"),
        ("permit tcp", "unknown slot ID 'permit'"),
        ("1 tcp", "slot '1' out of range"),
        ("0 src port 80 >", "garbage after expression at '>'"),
        ("0 tcp and", "missing expression"),
        ("0 (tcp", "missing ')'"),
        ("0 tcp ? udp", "missing ':' in ternary expression"),
        ("0 !", "missing expression after '!'"),
        ("0 echo", "'<none>  echo' is ambiguous; try 'port  echo', 'port  echo', 'icmp type  echo'"),
        ("0 tcp opt www", "'tcp opt tcp www' is meaningless; try 'port tcp www', 'port tcp www'"),
        ("0 src host", "'src ip host': address missing"),
        ("0 5", "specify header field or 'port'"),
        ("0 src", "partial directive"),
        ("0 port 70000", "'port': out of range, bound 65535"),
        ("0 ip ttl & 256 1", "'ip ttl': mask out of range, bound 0xFF"),
        ("0 ip[3:2] 1", "field [3:2] does not fit in a single word"),
        ("0 ip[3:9] 1", "LEN in '[POS:LEN]' out of range, should be between 1 and 4"),
        ("0 ip[x] 1", "syntax error after '[', expected '[POS]' or '[POS:LEN]'"),
        ("0 ip[3 1", "missing ']'"),
        ("0 tcp udp", "transport protocol specified twice"),
        ("0 src src host 1.2.3.4", "'src' or 'dst' specified twice"),
        ("0 src host > 1.2.3.4", "'src ip host': operator not supported"),
        ("0 icmp port 5", "'port': bad protocol 1"),
        ("0 udp opt syn", "'tcp opt udp syn' is meaningless; try 'tcp opt udp syn'"),
        ("0 ip ttl > 255", "relation '> 255' is always false (range 0-255)"),
        ("0 src tcp", "'src proto': 'src' or 'dst' ignored"),
        ("0 port & 0 5", "zero mask ignored"),
        ("0 tcp opt != syn", "'tcp opt': operator or mask not supported"),
        ("0 ip ttl >= abc", "dangling operator near 'abc'"),
    ] {
        let said = said(pattern);
        assert!(said.iter().any(|other| other == message), "{pattern}: {said:?}");
    }
    assert!(said(&format!("0 {}", "(".repeat(1_000_000))).iter().any(|message| message.contains("200")));
}

#[test]
fn what_is_left_out_comes_from_the_primitive_before() {
    for (short, long) in [
        ("src port 80 or 81", "src port 80 or src port 81"),
        ("dst tcp port 80 or 81", "dst tcp port 80 or dst tcp port 81"),
        ("ip ttl > 5 and < 9", "ip ttl > 5 and ip ttl < 9"),
        ("10.0.0.0/8 or 1.2.3.4", "net 10.0.0.0/8 or host 1.2.3.4"),
        ("src 10.0.0.0/8 or 1.2.3.4", "src net 10.0.0.0/8 or src host 1.2.3.4"),
        ("net 10.0.0.0 mask 255.0.0.0", "net 10.0.0.0/8"),
        ("tcp syn !ack", "tcp opt syn and not tcp opt ack"),
        ("ip proto 6 or 17", "tcp or udp"),
        ("icmp type echo-reply", "icmp[0] == 0"),
        ("echo-reply or 8", "icmp type 0 or icmp type 8"),
        ("tcp win 5", "tcp[14:2] == 5"),
        ("src and dst port 5", "src port 5 and dst port 5"),
        ("ip[2,3] 5", "ip len 5"),
    ] {
        let one = |pattern: &str| text(&[pattern], Form::Classifier, 1);
        assert_eq!(one(short), one(long), "{short}");
    }
}

/// A condition, walked. `short`: what it means for a word that bytes of it are missing.
fn holds(condition: &Condition, headers: &Headers<'_>, short: bool) -> bool {
    match condition {
        Condition::Word { offset, mask, value } => {
            let word = u32::from_be_bytes(headers.word(*offset).to_ne_bytes());
            let there = headers.length.saturating_sub(*offset).min(4) as u32;
            let there = !u32::MAX.checked_shr(8 * there).unwrap_or(0);
            (word ^ value) & mask & there == 0 && (mask & !there == 0 || short)
        }
        Condition::Not(other) => !holds(other, headers, short),
        Condition::Unlike(other) => !holds(other, headers, !short),
        Condition::All(all) => all.iter().all(|condition| holds(condition, headers, short)),
        Condition::Any(any) => any.iter().any(|condition| holds(condition, headers, short)),
        Condition::Choice(parts) => match parts.as_slice() {
            [condition, then, rest @ ..] if !rest.is_empty() => {
                if holds(condition, headers, short) {
                    holds(then, headers, short)
                } else {
                    holds(&Condition::Choice(rest.to_vec()), headers, short)
                }
            }
            parts => parts.iter().all(|condition| holds(condition, headers, short)),
        },
    }
}

/// A primitive as it is written, and what it says of a packet of which nothing is missing.
#[derive(Clone, Debug)]
enum Said {
    Host {
        side: usize,
        mask: Option<u32>,
        unequal: bool,
        address: u32,
    },
    Net {
        side: usize,
        length: u32,
        address: u32,
    },
    Port {
        side: usize,
        proto: usize,
        mask: Option<u32>,
        sign: usize,
        value: u32,
    },
    Proto(usize),
    /// Of the header (0: IPv4, else the protocol), first byte, bytes.
    Bytes {
        header: usize,
        first: usize,
        length: usize,
        mask: Option<u32>,
        sign: usize,
        value: u32,
    },
    Named {
        name: usize,
        sign: usize,
        value: u32,
    },
    Flag(usize),
    Word(usize),
}

const SIDES: [&str; 4] = ["", "src ", "dst ", "src and dst "];
const PROTOS: [(&str, &[u8]); 5] =
    [("tcpudp", &[6, 17]), ("tcp", &[6]), ("udp", &[17]), ("icmp", &[1]), ("50", &[50])];
const SIGNS: [&str; 7] = ["", "==", "!=", "<", "<=", ">", ">="];
const HEADERS: [(&str, Option<&[u8]>); 4] =
    [("ip", None), ("transp", Some(&[])), ("tcp", Some(&[6])), ("icmp", Some(&[1]))];
/// Name, first bit in the header, bits, protocol.
const NAMED: [(&str, usize, u32, Option<u8>); 9] = [
    ("ip vers", 0, 4, None),
    ("ip hl", 4, 4, None),
    ("ip tos", 8, 8, None),
    ("ip dscp", 8, 6, None),
    ("ip len", 16, 16, None),
    ("ip id", 32, 16, None),
    ("ip ttl", 64, 8, None),
    ("tcp win", 112, 16, Some(6)),
    ("icmp type", 0, 8, Some(1)),
];
const FLAGS: [(&str, u8); 4] = [("syn", 2), ("ack", 16), ("fin", 1), ("urg", 32)];
const WORDS: [&str; 6] = ["ip frag", "ip unfrag", "ip ect", "ip ce", "true", "false"];

/// Whether a relation holds of the bits of a mask. `any`: of one of the values, or else of all;
/// what is negative in the relation is the opposite of the whole.
fn related(values: &[u32], mask: u32, sign: usize, value: u32, any: bool) -> bool {
    let one = |of: &u32| match SIGNS[sign] {
        "" | "==" | "!=" => of & mask == value & mask,
        "<" | ">=" => of & mask >= value,
        _ => of & mask > value,
    };
    let positive = if any { values.iter().any(one) } else { values.iter().all(one) };
    positive != matches!(SIGNS[sign], "!=" | "<" | "<=")
}

struct Sample {
    network: Vec<u8>,
    transport: Vec<u8>,
}

impl Sample {
    fn number(bytes: &[u8], bit: usize, bits: u32) -> u32 {
        let wide =
            bytes[bit / 8..].iter().chain(&[0; 8]).take(8).fold(0u64, |n, &byte| n << 8 | u64::from(byte));
        (wide << (bit % 8) >> (64 - bits)) as u32
    }
    fn first_fragment(&self) -> bool {
        Sample::number(&self.network, 51, 13) == 0
    }
    fn is(&self, protos: &[u8]) -> bool {
        protos.is_empty() || protos.contains(&self.network[9])
    }
    fn sided(&self, side: usize, bytes: &[u8], bits: u32, first: usize) -> Vec<u32> {
        let at = |which: usize| Sample::number(bytes, first + which * bits as usize, bits);
        match side {
            1 => vec![at(0)],
            2 => vec![at(1)],
            _ => vec![at(0), at(1)],
        }
    }
}

impl Said {
    fn text(&self) -> String {
        let masked = |mask: &Option<u32>| mask.map_or(String::new(), |mask| format!(" & {mask}"));
        let ip = |address: u32| std::net::Ipv4Addr::from(address);
        match self {
            Said::Host { side, mask, unequal, address } => {
                let mask = mask.map_or(String::new(), |mask| format!(" & {}", ip(mask)));
                format!("{}host{mask} {} {}", SIDES[*side], if *unequal { "!=" } else { "" }, ip(*address))
            }
            Said::Net { side, length, address } => format!("{}net {}/{length}", SIDES[*side], ip(*address)),
            Said::Port { side, proto, mask, sign, value } => {
                format!("{}{} port{} {} {value}", SIDES[*side], PROTOS[*proto].0, masked(mask), SIGNS[*sign])
            }
            Said::Proto(proto) => format!("ip proto {}", PROTOS[*proto].0),
            Said::Bytes { header, first, length, mask, sign, value } => {
                format!("{}[{first}:{length}]{} {} {value}", HEADERS[*header].0, masked(mask), SIGNS[*sign])
            }
            Said::Named { name, sign, value } => format!("{} {} {value}", NAMED[*name].0, SIGNS[*sign]),
            Said::Flag(flag) => format!("tcp opt {}", FLAGS[*flag].0),
            Said::Word(word) => WORDS[*word].to_owned(),
        }
    }

    fn holds(&self, packet: &Sample) -> bool {
        let Sample { network, transport } = packet;
        match *self {
            Said::Host { side, mask, unequal, address } => {
                let sign = if unequal { 2 } else { 1 };
                let addresses = packet.sided(side, network, 32, 96);
                related(&addresses, mask.unwrap_or(u32::MAX), sign, address, side != 3)
            }
            Said::Net { side, length, address } => {
                let mask = u32::MAX.checked_shl(32 - length).unwrap_or(0);
                related(&packet.sided(side, network, 32, 96), mask, 1, address, side != 3)
            }
            Said::Port { side, proto, mask, sign, value } => {
                let ports = packet.sided(side, transport, 16, 0);
                packet.is(PROTOS[proto].1)
                    && packet.first_fragment()
                    && related(&ports, mask.unwrap_or(0xffff), sign, value, side != 3)
            }
            Said::Proto(proto) => packet.is(PROTOS[proto].1),
            Said::Bytes { header, first, length, mask, sign, value } => {
                let bits = 8 * length as u32;
                let full = u32::MAX >> (32 - bits);
                let (bytes, there) = match HEADERS[header].1 {
                    None => (network, true),
                    Some(protos) => (transport, packet.is(protos) && packet.first_fragment()),
                };
                there
                    && related(
                        &[Sample::number(bytes, 8 * first, bits)],
                        mask.unwrap_or(full),
                        sign,
                        value,
                        true,
                    )
            }
            Said::Named { name, sign, value } => {
                let (_, bit, bits, proto) = NAMED[name];
                let bytes = if proto.is_some() { transport } else { network };
                let there = proto.is_none_or(|proto| packet.is(&[proto]) && packet.first_fragment());
                there && related(&[Sample::number(bytes, bit, bits)], u32::MAX, sign, value, true)
            }
            Said::Flag(flag) => {
                packet.is(&[6]) && packet.first_fragment() && transport[13] & FLAGS[flag].1 != 0
            }
            Said::Word(word) => match WORDS[word] {
                "ip frag" => Sample::number(network, 50, 14) != 0,
                "ip unfrag" => Sample::number(network, 50, 14) == 0,
                "ip ect" => network[1] & 3 != 0,
                "ip ce" => network[1] & 3 == 3,
                other => other == "true",
            },
        }
    }
}

/// An expression as it is written.
#[derive(Clone, Debug)]
enum Written {
    Primitive(Said),
    Not(Box<Written>),
    And(Vec<Written>),
    Or(Vec<Written>),
    Choice(Box<[Written; 3]>),
}

impl Written {
    fn text(&self) -> String {
        let inside = |written: &Written| match written {
            Written::Primitive(said) => said.text(),
            other => format!("({})", other.text()),
        };
        let list = |list: &[Written], joints: [&str; 2]| {
            let joints = joints.iter().cycle();
            let parts = list.iter().zip(joints).map(|(part, joint)| format!("{} {joint} ", inside(part)));
            let text: String = parts.collect();
            text.trim_end().trim_end_matches(['a', 'n', 'd', 'o', 'r', '&', '|']).to_owned()
        };
        match self {
            Written::Primitive(said) => said.text(),
            Written::Not(other) => format!("! {}", inside(other)),
            Written::And(all) => list(all, ["and", "&&"]),
            Written::Or(any) => list(any, ["or", "||"]),
            Written::Choice(parts) => {
                let [condition, then, other] = parts.as_ref();
                format!("{} ? {} : {}", inside(condition), inside(then), inside(other))
            }
        }
    }

    fn holds(&self, packet: &Sample) -> bool {
        match self {
            Written::Primitive(said) => said.holds(packet),
            Written::Not(other) => !other.holds(packet),
            Written::And(all) => all.iter().all(|part| part.holds(packet)),
            Written::Or(any) => any.iter().any(|part| part.holds(packet)),
            Written::Choice(parts) => parts[if parts[0].holds(packet) { 1 } else { 2 }].holds(packet),
        }
    }
}

/// Few different addresses, so that patterns and packets meet.
fn address() -> impl Strategy<Value = u32> {
    prop::sample::select(vec![0x0a00_0001, 0x0a00_0002, 0x0a00_0102, 0x0aff_0001, 0xc0a8_0101, 0])
}

fn said_by_anybody() -> impl Strategy<Value = Said> {
    let mask = |most: u32| prop::option::weighted(0.3, 1..=most);
    let byte_mask = prop::option::weighted(0.3, 1u32..256);
    prop_oneof![
        (
            0usize..4,
            prop::option::weighted(0.3, address().prop_map(|mask| mask | 1)),
            any::<bool>(),
            address()
        )
            .prop_map(|(side, mask, unequal, address)| Said::Host { side, mask, unequal, address }),
        (0usize..4, 0u32..=32, address()).prop_map(|(side, length, address)| Said::Net {
            side,
            length,
            address
        }),
        (0usize..4, 0usize..3, mask(0xffff), 0usize..7, prop_oneof![0u32..6, 0u32..0x1_0000])
            .prop_map(|(side, proto, mask, sign, value)| Said::Port { side, proto, mask, sign, value }),
        (0usize..5).prop_map(Said::Proto),
        (0usize..4, 0usize..5, 0usize..4, 1usize..=4, byte_mask, 0usize..7, 0u32..256).prop_map(
            |(header, word, byte, length, mask, sign, value)| {
                Said::Bytes {
                    header,
                    first: 4 * word + byte,
                    length: length.min(4 - byte),
                    mask,
                    sign,
                    value,
                }
            }
        ),
        (0usize..9, 0usize..7, 0u32..16).prop_map(|(name, sign, value)| Said::Named { name, sign, value }),
        (0usize..4).prop_map(Said::Flag),
        (0usize..6).prop_map(Said::Word),
    ]
}

fn written() -> impl Strategy<Value = Written> {
    said_by_anybody().prop_map(Written::Primitive).prop_recursive(4, 16, 4, |inner| {
        prop_oneof![
            inner.clone().prop_map(|other| Written::Not(Box::new(other))),
            prop::collection::vec(inner.clone(), 1..4).prop_map(Written::And),
            prop::collection::vec(inner.clone(), 1..4).prop_map(Written::Or),
            [inner.clone(), inner.clone(), inner].prop_map(|parts| Written::Choice(Box::new(parts))),
        ]
    })
}

fn sample() -> impl Strategy<Value = Sample> {
    let byte = || prop_oneof![Just(0u8), 1u8..8, any::<u8>()];
    let proto = prop::sample::select(vec![1u8, 6, 17, 50, 33]);
    let fragment = prop_oneof![3 => Just([0u8, 0]), 1 => Just([0x20, 0]), 1 => any::<[u8; 2]>()];
    let words = prop::collection::vec(byte(), 20);
    (5usize..8, words, proto, fragment, [address(), address()], prop::collection::vec(byte(), 20)).prop_map(
        |(words, start, proto, fragment, addresses, transport)| {
            let mut network = start;
            network.resize(4 * words, 7);
            network[0] = 0x40 | words as u8;
            network[6..8].copy_from_slice(&fragment);
            network[9] = proto;
            network[12..16].copy_from_slice(&addresses[0].to_be_bytes());
            network[16..20].copy_from_slice(&addresses[1].to_be_bytes());
            Sample { network, transport }
        },
    )
}

impl std::fmt::Debug for Sample {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:02x?} {:02x?}", self.network, self.transport)
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]
    #[test]
    fn the_program_does_what_is_written(
        expressions in prop::collection::vec(written(), 1..6),
        packets in prop::collection::vec((sample(), 0usize..60), 60..100),
    ) {
        let patterns: Vec<String> = expressions.iter().map(Written::text).collect();
        let names = Names::new();
        let scope = Scope::new(&names, "filter");
        let compiled = compile(&patterns, Form::Classifier, patterns.len(), &scope);
        prop_assert_eq!(&compiled.mistakes, &[], "{:?}", patterns);
        let conditions: Vec<Condition> = patterns
            .iter()
            .map(|pattern| expression::Reader::new(&words::words(pattern), scope).read())
            .collect();
        let (grouped, plain) = (Program::grouped(&compiled.tests), Program::plain(&compiled.tests));
        for (packet, length) in &packets {
            let whole = [&packet.network[..], &packet.transport[..]].concat();
            for length in [*length, whole.len()] {
                let network = &whole[..length.min(whole.len())];
                let transport = network.get(packet.network.len()..).unwrap_or_default();
                let length =
                    if transport.is_empty() { NETWORK + network.len() } else { TRANSPORT + transport.len() };
                let headers = Headers { link: &[], network, transport, length };
                let run = |program: &Program| program.output(headers.length, |offset| headers.word(offset));
                let walked = conditions.iter().position(|condition| holds(condition, &headers, false));
                let walked = walked.unwrap_or(NOWHERE);
                prop_assert_eq!(run(&plain), walked, "{:?} {:?} {}\n{}", patterns, packet, headers.length, plain);
                prop_assert_eq!(run(&grouped), walked, "{:?} {:?}\n{}", patterns, packet, grouped);
                if network.len() == whole.len() {
                    let naive = expressions.iter().position(|written| written.holds(packet)).unwrap_or(NOWHERE);
                    prop_assert_eq!(walked, naive, "{:?} {:?}", patterns, packet);
                }
            }
        }
    }

    #[test]
    fn any_text_is_a_pattern_or_refused(
        words in prop::collection::vec(prop_oneof![
            prop::sample::select(vec![
                "src", "dst", "and", "or", "not", "!", "(", ")", "[", "]", "?", ":", "&", "==", "!=", "<", ">", "<=", ">=",
                "host", "net", "port", "ip", "ether", "tcp", "udp", "icmp", "type", "proto", "frag", "ect", "ce", "ttl",
                "transp", "opt", "syn", "www", "echo", "true", "mask", "5", "0", "-1", "70000", "9:2", "10.0.0.1",
                "10.0.0.0/8", "2:0:0:0:0:1", "tcpudp", "payload", "win", "unfrag",
            ]).prop_map(str::to_owned),
            "[ -~é]{0,3}",
        ], 0..14),
    ) {
        let compiled = program(&[&format!("0 {}", words.join(" "))], Form::Filter, 1);
        if compiled.mistakes.is_empty() {
            let program = Program::grouped(&compiled.tests);
            prop_assert!(!program.to_string().is_empty());
        }
    }
}
