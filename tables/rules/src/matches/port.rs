//! `port LIST`, behind `from` or `to`: ports, of protocols that have them.

use wire::protocol;

use super::{Complain, Condition, List, Match, Row, Side, Span, Test, ranges_of};
use crate::classifier::region::{Key, NO_PORTS, Narrowing, Region};
use crate::language::{Line, Word, named_or, span};
use crate::matching::shows_ports;
use crate::mistake::Hint;
use crate::names::Names;
use crate::nftables::Sentence;

/// Well-known ports, for those who prefer names (IANA "Service Names").
const PORTS: &Names<u16> = &[
    ("ftp", 21),
    ("ssh", 22),
    ("telnet", 23),
    ("smtp", 25),
    ("domain", 53),
    ("dns", 53),
    ("tftp", 69),
    ("http", 80),
    ("ntp", 123),
    ("snmp", 161),
    ("bgp", 179),
    ("ldap", 389),
    ("https", 443),
    ("syslog", 514),
    ("ldaps", 636),
];

/// The port of a name.
pub(crate) fn port_named(name: &str) -> Option<u16> {
    crate::names::number(PORTS, name)
}

pub(crate) struct BySourcePort;

impl Condition for BySourcePort {
    type Value = List<Span>;

    const WORDS: &'static [&'static str] = &["port"];
    const TEST: Test<List<Span>> = Test::Constant(|list, headers, _, _| {
        shows_ports(headers) && list.holds(|span| span.contains(headers.source_port))
    });
    const MANUAL: Row = None;

    /// It is of the side that was named last.
    fn takes(line: &Line, text: &str) -> bool {
        text == "port" && line.side != Some(Side::Destination)
    }

    fn read(line: &mut Line, word: &Word) -> Option<List<Span>> {
        let list = ports(line);
        if line.side.is_none() {
            let hint = Hint::expected("from any port 53, or to any port 53");
            line.wrong(word, "ports of which side?", hint);
        }
        list
    }

    fn print(list: &List<Span>, of: &Match) -> String {
        print("from", of.source.is_some(), list)
    }

    fn nftables(list: &List<Span>, sentence: &mut Sentence) -> Option<()> {
        compare(sentence, "sport", list)
    }

    fn narrow<const W: usize>(list: &List<Span>, narrowing: &mut Narrowing<W>) {
        narrow(list, Side::Source, narrowing);
    }

    fn agree(matches: &mut Match, complain: &mut Complain) {
        agree(matches, complain);
    }
}

pub(crate) struct ByDestinationPort;

impl Condition for ByDestinationPort {
    type Value = List<Span>;

    const WORDS: &'static [&'static str] = &["port"];
    const TEST: Test<List<Span>> = Test::Constant(|list, headers, _, _| {
        shows_ports(headers) && list.holds(|span| span.contains(headers.destination_port))
    });
    const MANUAL: Row = None;

    fn read(line: &mut Line, _: &Word) -> Option<List<Span>> {
        ports(line)
    }

    fn print(list: &List<Span>, of: &Match) -> String {
        print("to", of.destination.is_some(), list)
    }

    fn nftables(list: &List<Span>, sentence: &mut Sentence) -> Option<()> {
        compare(sentence, "dport", list)
    }

    fn narrow<const W: usize>(list: &List<Span>, narrowing: &mut Narrowing<W>) {
        narrow(list, Side::Destination, narrowing);
    }

    fn agree(matches: &mut Match, complain: &mut Complain) {
        // The source's have complained already.
        if matches.source_ports.is_none() {
            agree(matches, complain);
        }
    }
}

fn ports(line: &mut Line) -> Option<List<Span>> {
    line.list("the ports", "ports and ranges: 80,443,1024-65535", |text| {
        named_or(PORTS, text, |port| Span { first: port, last: port }, span)
    })
}

fn print(side: &str, has_addresses: bool, list: &List<Span>) -> String {
    let any = if has_addresses { String::new() } else { format!("{side} any ") };
    format!("{any}port {}", list.print(Span::to_string))
}

fn compare(sentence: &mut Sentence, side: &str, list: &List<Span>) -> Option<()> {
    if sentence.matches.protocols.is_none() && !sentence.says_tcp() {
        sentence.say_once("meta l4proto { 6, 17, 33, 132, 136 }");
    }
    sentence.say_shown();
    sentence.say(format!("th {side} {}", ranges_of(list)?));
    Some(())
}

fn narrow<const W: usize>(list: &List<Span>, side: Side, narrowing: &mut Narrowing<W>) {
    let option = |span: Span| {
        let mut region = Region::ALL.with(Key::<W>::SMALL, 0, NO_PORTS);
        region.ports[side as usize] = span;
        region
    };
    narrowing.one_of(list.spans().into_iter().map(option).collect());
}

fn agree(matches: &Match, complain: &mut Complain) {
    if !super::protocol::only(matches, protocol::has_ports) {
        complain("only some protocols have ports", "tcp, udp, sctp, dccp or udplite, or no protocol");
    }
}
