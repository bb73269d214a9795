//! The names that everybody knows: IP protocols, ports, ICMP types and codes, annotations; and this
//! machine's /etc/protocols and /etc/services.

use super::annotation::ANNOTATIONS;
use super::names::Kind;
use std::collections::HashMap;
use std::sync::LazyLock;

/// Not a protocol number: TCP or UDP.
pub const PROTOCOL_TCP_OR_UDP: u32 = 256;
/// Not a protocol number: any protocol with a transport header.
pub const PROTOCOL_TRANSPORT: u32 = 258;
/// Not a protocol number: what comes behind the transport header.
pub const PROTOCOL_PAYLOAD: u32 = 259;

const PROTOCOLS: &[(&str, u32)] = &[
    ("dccp", 33),
    ("gre", 47),
    ("icmp", 1),
    ("igmp", 2),
    ("ipip", 4),
    ("payload", PROTOCOL_PAYLOAD),
    ("sctp", 132),
    ("tcp", 6),
    ("tcpudp", PROTOCOL_TCP_OR_UDP),
    ("transp", PROTOCOL_TRANSPORT),
    ("udp", 17),
];

/// The same in TCP and UDP.
const PORTS: &[(&str, u32)] = &[
    ("auth", 113),
    ("bootpc", 68),
    ("bootps", 67),
    ("chargen", 19),
    ("daytime", 13),
    ("discard", 9),
    ("dns", 53),
    ("domain", 53),
    ("echo", 7),
    ("finger", 79),
    ("ftp", 21),
    ("ftp-data", 20),
    ("https", 443),
    ("imap3", 220),
    ("imaps", 993),
    ("irc", 194),
    ("netbios-dgm", 138),
    ("netbios-ns", 137),
    ("netbios-ssn", 139),
    ("nntp", 119),
    ("ntp", 123),
    ("pop3", 110),
    ("pop3s", 995),
    ("pptp", 1723),
    ("rip", 520),
    ("route", 520),
    ("smtp", 25),
    ("snmp", 161),
    ("snmp-trap", 162),
    ("ssh", 22),
    ("sunrpc", 111),
    ("telnet", 23),
    ("tftp", 69),
    ("www", 80),
];

/// RFC 792, RFC 950 and RFC 1256.
const ICMP_TYPES: &[(&str, u32)] = &[
    ("echo", 8),
    ("echo-reply", 0),
    ("inforeq", 15),
    ("inforeq-reply", 16),
    ("maskreq", 17),
    ("maskreq-reply", 18),
    ("parameterproblem", 12),
    ("redirect", 5),
    ("routeradvert", 9),
    ("routersolicit", 10),
    ("sourcequench", 4),
    ("timeexceeded", 11),
    ("timestamp", 13),
    ("timestamp-reply", 14),
    ("unreachable", 3),
];

/// RFC 792, RFC 1122, section 3.2.2.1, and RFC 1812, section 5.2.7.1.
const UNREACHABLE_CODES: &[(&str, u32)] = &[
    ("filterprohibited", 13),
    ("host", 1),
    ("hostprecedence", 14),
    ("hostprohibited", 10),
    ("hostunknown", 7),
    ("isolated", 8),
    ("needfrag", 4),
    ("net", 0),
    ("netprohibited", 9),
    ("netunknown", 6),
    ("port", 3),
    ("precedencecutoff", 15),
    ("protocol", 2),
    ("srcroutefail", 5),
    ("toshost", 12),
    ("tosnet", 11),
];
const REDIRECT_CODES: &[(&str, u32)] = &[("host", 1), ("net", 0), ("toshost", 3), ("tosnet", 2)];
const TIME_EXCEEDED_CODES: &[(&str, u32)] = &[("reassembly", 1), ("transit", 0)];
const PARAMETER_PROBLEM_CODES: &[(&str, u32)] = &[("erroratptr", 0), ("length", 2), ("missingopt", 1)];

/// The number that a name stands for everywhere.
pub(super) fn number(kind: Kind, name: &str) -> Option<u32> {
    let of =
        |table: &[(&str, u32)]| table.iter().find(|(entry, _)| *entry == name).map(|&(_, number)| number);
    match kind {
        Kind::Annotation => of(ANNOTATIONS),
        Kind::Protocol => of(PROTOCOLS).or_else(|| SYSTEM.protocols.get(name).copied()),
        Kind::Port(protocol) => of(if matches!(protocol, 6 | 17) { PORTS } else { &[] })
            .or_else(|| SYSTEM.services.get(&(protocol.into(), name.to_owned())).copied()),
        Kind::IcmpType => of(ICMP_TYPES),
        Kind::IcmpCode(3) => of(UNREACHABLE_CODES),
        Kind::IcmpCode(5) => of(REDIRECT_CODES),
        Kind::IcmpCode(11) => of(TIME_EXCEEDED_CODES),
        Kind::IcmpCode(12) => of(PARAMETER_PROBLEM_CODES),
        Kind::IcmpCode(_) => None,
    }
}

/// The name of a number; the first in alphabetical order when there are several.
pub(super) fn name(kind: Kind, number: u32) -> Option<&'static str> {
    let table = match kind {
        Kind::Annotation => ANNOTATIONS,
        Kind::Protocol => PROTOCOLS,
        Kind::Port(6 | 17) => PORTS,
        Kind::IcmpType => ICMP_TYPES,
        Kind::IcmpCode(3) => UNREACHABLE_CODES,
        Kind::IcmpCode(5) => REDIRECT_CODES,
        Kind::IcmpCode(11) => TIME_EXCEEDED_CODES,
        Kind::IcmpCode(12) => PARAMETER_PROBLEM_CODES,
        Kind::Port(_) | Kind::IcmpCode(_) => &[],
    };
    table.iter().find(|&&(_, entry)| entry == number).map(|&(name, _)| name)
}

/// What this machine calls protocols and ports; read when something is first looked up that is none
/// of ours.
static SYSTEM: LazyLock<SystemNames> = LazyLock::new(|| {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    SystemNames::new(&read("/etc/protocols"), &read("/etc/services"))
});

#[derive(Default)]
struct SystemNames {
    protocols: HashMap<String, u32>,
    /// By protocol number and name.
    services: HashMap<(u32, String), u32>,
}

impl SystemNames {
    fn new(protocols: &str, services: &str) -> SystemNames {
        let mut names = SystemNames::default();
        for words in entries(protocols) {
            let [name, number, aliases @ ..] = words.as_slice() else { continue };
            let Ok(number) = number.parse::<u8>() else { continue };
            for name in aliases.iter().chain([name]) {
                names.protocols.insert((*name).to_owned(), number.into());
            }
        }
        for words in entries(services) {
            let [name, port, aliases @ ..] = words.as_slice() else { continue };
            let Some((port, protocol)) = port.split_once(['/', ',']) else { continue };
            let known = PROTOCOLS.iter().find(|(name, _)| *name == protocol).map(|&(_, number)| number);
            let protocol = known.or_else(|| names.protocols.get(protocol).copied());
            let (Ok(port), Some(protocol)) = (port.parse::<u16>(), protocol) else { continue };
            for name in aliases.iter().chain([name]) {
                names.services.insert((protocol, (*name).to_owned()), port.into());
            }
        }
        names
    }
}

/// The lines as words, without comments.
fn entries(text: &str) -> impl Iterator<Item = Vec<&str>> {
    text.lines().map(|line| line.split('#').next().unwrap_or_default().split_whitespace().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everybody_knows_these() {
        assert_eq!(number(Kind::Protocol, "tcp"), Some(6));
        assert_eq!(number(Kind::Port(17), "domain"), Some(53));
        assert_eq!(number(Kind::IcmpCode(3), "port"), Some(3));
        assert_eq!(number(Kind::IcmpCode(8), "port"), None);
        assert_eq!(number(Kind::Annotation, "PAINT"), Some(1 << 16 | 16));
        assert_eq!(name(Kind::IcmpType, 11), Some("timeexceeded"));
        assert_eq!(name(Kind::Port(6), 53), Some("dns"));
    }

    #[test]
    fn the_system_knows_more() {
        let names = SystemNames::new(
            "# comment\nospf 89 OSPFIGP # more\nbad x\nlarge 300\n",
            "mysql 3306/tcp db\nmysql 3306/udp\nrouted 1/ospf\nbad 99999/tcp\nworse\nunknown 5/xyz\n",
        );
        assert_eq!(names.protocols.get("OSPFIGP"), Some(&89));
        assert_eq!(names.services.get(&(6, "db".to_owned())), Some(&3306));
        assert_eq!(names.services.get(&(89, "routed".to_owned())), Some(&1));
        assert_eq!((names.protocols.len(), names.services.len()), (2, 4));
    }
}
