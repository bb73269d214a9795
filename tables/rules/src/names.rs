//! Names of numbers: protocols, ICMP types and codes, code points, TCP flags. Each table is read both ways, and where a
//! number has two names the first is the one that is printed.

use wire::{icmp4, icmp6, protocol, tcp::flag};

/// A name and what it stands for.
pub(crate) type Names<T> = [(&'static str, T)];

/// The number of a name.
pub(crate) fn number<T: Copy>(names: &Names<T>, name: &str) -> Option<T> {
    names.iter().find(|(known, _)| *known == name).map(|(_, number)| *number)
}

/// The name of a number.
pub(crate) fn name<T: PartialEq>(names: &Names<T>, number: &T) -> Option<&'static str> {
    names.iter().find(|(_, known)| known == number).map(|(name, _)| *name)
}

/// What a protocol is called in a rule: nftables' word for ICMPv6, and otherwise everybody's.
pub(crate) fn protocol(number: u8) -> Option<&'static str> {
    if number == protocol::ICMP6 { Some("icmpv6") } else { protocol::name(number) }
}

/// ICMP types, with a code where the name means one (IANA "ICMP Parameters"; RFC 792, RFC 1812).
pub(crate) const ICMP: &Names<(u8, Option<u8>)> = &[
    ("echo-reply", (icmp4::ECHO_REPLY, None)),
    ("unreachable", (icmp4::UNREACHABLE, None)),
    ("net-unreachable", (icmp4::UNREACHABLE, Some(icmp4::unreachable::NET))),
    ("host-unreachable", (icmp4::UNREACHABLE, Some(icmp4::unreachable::HOST))),
    ("protocol-unreachable", (icmp4::UNREACHABLE, Some(icmp4::unreachable::PROTOCOL))),
    ("port-unreachable", (icmp4::UNREACHABLE, Some(icmp4::unreachable::PORT))),
    ("fragmentation-needed", (icmp4::UNREACHABLE, Some(icmp4::unreachable::FRAGMENTATION_NEEDED))),
    ("prohibited", (icmp4::UNREACHABLE, Some(icmp4::unreachable::PROHIBITED))),
    ("source-quench", (icmp4::SOURCE_QUENCH, None)),
    ("redirect", (icmp4::REDIRECT, None)),
    ("echo-request", (icmp4::ECHO, None)),
    ("router-advertisement", (9, None)),
    ("router-solicitation", (10, None)),
    ("time-exceeded", (icmp4::TIME_EXCEEDED, None)),
    ("parameter-problem", (icmp4::PARAMETER_PROBLEM, None)),
    ("timestamp-request", (13, None)),
    ("timestamp-reply", (14, None)),
];

/// ICMPv6 types (IANA "ICMPv6 Parameters"; RFC 4443, RFC 4861).
pub(crate) const ICMP6: &Names<(u8, Option<u8>)> = &[
    ("unreachable", (icmp6::UNREACHABLE, None)),
    ("no-route", (icmp6::UNREACHABLE, Some(icmp6::unreachable::NO_ROUTE))),
    ("prohibited", (icmp6::UNREACHABLE, Some(icmp6::unreachable::PROHIBITED))),
    ("address-unreachable", (icmp6::UNREACHABLE, Some(icmp6::unreachable::ADDRESS))),
    ("port-unreachable", (icmp6::UNREACHABLE, Some(4))),
    ("packet-too-big", (icmp6::PACKET_TOO_BIG, None)),
    ("time-exceeded", (icmp6::TIME_EXCEEDED, None)),
    ("parameter-problem", (icmp6::PARAMETER_PROBLEM, None)),
    ("echo-request", (icmp6::ECHO, None)),
    ("echo-reply", (icmp6::ECHO_REPLY, None)),
    ("router-solicitation", (133, None)),
    ("router-advertisement", (134, None)),
    ("neighbour-solicitation", (135, None)),
    ("neighbour-advertisement", (136, None)),
    ("redirect", (icmp6::REDIRECT, None)),
];

/// Code points (RFC 2474, RFC 2597, RFC 3246, RFC 5865, RFC 8622).
pub(crate) const DSCP: &Names<u8> = &[
    ("default", 0),
    ("le", 1),
    ("cs1", 8),
    ("af11", 10),
    ("af12", 12),
    ("af13", 14),
    ("cs2", 16),
    ("af21", 18),
    ("af22", 20),
    ("af23", 22),
    ("cs3", 24),
    ("af31", 26),
    ("af32", 28),
    ("af33", 30),
    ("cs4", 32),
    ("af41", 34),
    ("af42", 36),
    ("af43", 38),
    ("cs5", 40),
    ("voice-admit", 44),
    ("ef", 46),
    ("cs6", 48),
    ("cs7", 56),
    ("cs0", 0),
    ("be", 0),
];

/// TCP flags (RFC 9293; RFC 3168).
pub(crate) const FLAGS: &Names<u8> = &[
    ("fin", flag::FIN),
    ("syn", flag::SYN),
    ("rst", flag::RST),
    ("psh", flag::PSH),
    ("ack", flag::ACK),
    ("urg", 32),
    ("ece", 64),
    ("cwr", 128),
];

/// States of a flow.
pub(crate) const STATES: &Names<u8> =
    &[("new", 1), ("established", 2), ("related", 4), ("invalid", 8), ("untracked", 16)];

/// Parts of fragmented packets.
pub(crate) const FRAGMENTS: &Names<u8> = &[("whole", 1), ("first", 2), ("later", 4)];

/// Days, as bits from Monday.
pub(crate) const DAYS: &[&str] = &["mon", "tue", "wed", "thu", "fri", "sat", "sun"];

/// Well-known ports, for those who prefer names (IANA "Service Names").
pub(crate) const PORTS: &Names<u16> = &[
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
