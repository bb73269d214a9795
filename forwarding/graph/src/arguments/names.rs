//! What a configuration calls its addresses, ports and annotations.
//!
//! `AddressInfo` and `PortInfo` define names for the compound element that they stand in and
//! everything inside it: an element `a/b/c` sees what was defined in `a/b`, then `a`, then outside,
//! and last what everybody knows.

use super::address::{Prefix4, Prefix6};
use super::{Argument, Arguments, built_in, parse_integer};
use crate::language::{Flat, Report, first_word, split_words};
use std::collections::HashMap;
use std::net::{Ipv4Addr, Ipv6Addr};
use wire::Mac;

/// What a name may stand for besides an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// An IP protocol.
    Protocol,
    /// A port of an IP protocol.
    Port(u8),
    /// An ICMP type.
    IcmpType,
    /// A code of an ICMP type.
    IcmpCode(u8),
    /// An annotation: its size above 16 bits of offset.
    Annotation,
}

/// Values by the path of the compound element they are defined in, with a `/` behind it, and the
/// name.
type Table<T> = HashMap<String, T>;

/// All names that a configuration defined.
#[derive(Clone, Debug, Default)]
pub struct Names {
    ip: Table<Ipv4Addr>,
    prefix4: Table<Prefix4>,
    ip6: Table<Ipv6Addr>,
    prefix6: Table<Prefix6>,
    ethernet: Table<Mac>,
    numbers: HashMap<(Kind, String), u32>,
}

impl Names {
    /// No names but those that everybody knows.
    pub fn new() -> Names {
        Names::default()
    }

    /// The names that a configuration's AddressInfo and PortInfo elements define, wherever they
    /// stand. What is wrong with their arguments is said here; the elements themselves have nothing
    /// to do.
    pub fn of(flat: &Flat, report: &mut Report) -> Names {
        let mut names = Names::new();
        let none = Names::new();
        for element in &flat.elements {
            let define = match element.class.as_str() {
                "AddressInfo" => Names::address_info,
                "PortInfo" => Names::port_info,
                _ => continue,
            };
            let mut arguments = Arguments::of(element, Scope::new(&none, &element.name), report);
            for piece in arguments.rest() {
                if let Err(mistakes) = define(&mut names, &element.name, &piece.text) {
                    for mistake in mistakes.lines() {
                        arguments.wrong(&piece, mistake);
                    }
                }
            }
        }
        names
    }

    /// Defines what one argument of AddressInfo says: `NAME ADDRESS...`. `element` is the
    /// AddressInfo's own name. An address may be a name, too, of an AddressInfo before or of a
    /// device of this machine (`eth0`, `eth0:bcast`). Of several addresses of a kind the last
    /// counts; but what is of several kinds, as a device is, does not replace any.
    ///
    /// # Errors
    /// What is wrong with it, in Click's words, a line each. What is right in it is defined
    /// nevertheless.
    pub fn address_info(&mut self, element: &str, argument: &str) -> Result<(), String> {
        let words = split_words(argument);
        let Some((name, addresses)) = words.split_first() else { return Ok(()) };
        if addresses.is_empty() {
            return Err("expected 'NAME [ADDRS]'".to_owned());
        }
        let key = context(element).to_owned() + name;
        let (mut defined, mut strange) = (Meanings::default(), Vec::new());
        for address in addresses {
            let meant = Meanings::of(address, &Scope::new(self, element));
            match meant.count() {
                0 => strange.push(format!("\"{name}\" '{address}' is not a recognizable address")),
                1 => defined = meant.or(defined),
                _ => defined = defined.or(meant),
            }
        }
        let Meanings { ip, prefix4, ip6, prefix6, ethernet } = defined;
        ip.map(|ip| self.ip.insert(key.clone(), ip));
        prefix4.map(|prefix| self.prefix4.insert(key.clone(), prefix));
        ip6.map(|ip| self.ip6.insert(key.clone(), ip));
        prefix6.map(|prefix| self.prefix6.insert(key.clone(), prefix));
        ethernet.map(|ethernet| self.ethernet.insert(key, ethernet));
        if strange.is_empty() { Ok(()) } else { Err(strange.join("\n")) }
    }

    /// Defines what one argument of PortInfo says: `NAME PORT[/PROTOCOL] [ALIAS...] [# comment]`.
    /// `element` is the PortInfo's own name. Without a protocol it is a port of TCP and UDP.
    ///
    /// # Errors
    /// What is wrong with it, in Click's words; then nothing is defined.
    pub fn port_info(&mut self, element: &str, argument: &str) -> Result<(), String> {
        let (name, rest) = first_word(argument).unwrap_or_default();
        let (port, aliases) = first_word(rest).unwrap_or_default();
        if name.is_empty() || name.starts_with('#') {
            return Ok(());
        }
        let wrong = || format!("expected 'NAME PORT/PROTO', got '{argument}'");
        let (port, protocol) =
            port.split_once('/').map_or((port, None), |(port, protocol)| (port, Some(protocol)));
        let port = parse_integer(port, 0, u16::MAX.into()).map_err(|_| wrong())? as u32;
        let number = |name: &str| {
            let scope = Scope::new(self, element);
            scope.number(Kind::Protocol, name).or_else(|| u32::parse(name, &scope).ok())
        };
        let protocols: &[u8] = match protocol.map(number) {
            None | Some(Some(built_in::PROTOCOL_TCP_OR_UDP)) => &[6, 17],
            Some(Some(protocol)) => &[u8::try_from(protocol).map_err(|_| wrong())?],
            Some(None) => return Err(wrong()),
        };
        let names = split_words(aliases).into_iter().take_while(|name| !name.starts_with('#'));
        for name in [name].into_iter().chain(names) {
            for &protocol in protocols {
                self.define_number(element, Kind::Port(protocol), name, port);
            }
        }
        Ok(())
    }

    /// Defines a number for the compound element that `element` stands in.
    pub fn define_number(&mut self, element: &str, kind: Kind, name: &str, value: u32) {
        self.numbers.insert((kind, context(element).to_owned() + name), value);
    }
}

/// What an address is.
#[derive(Clone, Copy, Default)]
struct Meanings {
    ip: Option<Ipv4Addr>,
    prefix4: Option<Prefix4>,
    ip6: Option<Ipv6Addr>,
    prefix6: Option<Prefix6>,
    ethernet: Option<Mac>,
}

impl Meanings {
    fn of(address: &str, scope: &Scope<'_>) -> Meanings {
        let (ip, ip6) = (Ipv4Addr::parse(address, scope).ok(), Ipv6Addr::parse(address, scope).ok());
        let prefix4 = Prefix4::parse(address, scope).ok().filter(|_| ip.is_none());
        let prefix6 = Prefix6::parse(address, scope).ok().filter(|_| ip6.is_none());
        // A prefix with bits behind it is an address as well.
        let host4 = prefix4.filter(|prefix| prefix.network() != prefix.address).map(|prefix| prefix.address);
        let host6 = prefix6.filter(|prefix| prefix.network() != prefix.address).map(|prefix| prefix.address);
        let ethernet = Mac::parse(address, scope).ok();
        Meanings { ip: ip.or(host4), prefix4, ip6: ip6.or(host6), prefix6, ethernet }
    }

    /// Of how many kinds it is.
    fn count(&self) -> usize {
        let Meanings { ip, prefix4, ip6, prefix6, ethernet } = self;
        [ip.is_some(), prefix4.is_some(), ip6.is_some(), prefix6.is_some(), ethernet.is_some()]
            .into_iter()
            .filter(|is| *is)
            .count()
    }

    /// These, and of the kinds that are missing those.
    fn or(self, those: Meanings) -> Meanings {
        Meanings {
            ip: self.ip.or(those.ip),
            prefix4: self.prefix4.or(those.prefix4),
            ip6: self.ip6.or(those.ip6),
            prefix6: self.prefix6.or(those.prefix6),
            ethernet: self.ethernet.or(those.ethernet),
        }
    }
}

/// The path of the compound element that an element stands in, with a `/` behind it; empty outside
/// of all.
fn context(element: &str) -> &str {
    element.rfind('/').map_or("", |slash| &element[..=slash])
}

/// The names as an element sees them.
#[derive(Clone, Copy, Debug)]
pub struct Scope<'a> {
    names: &'a Names,
    element: &'a str,
}

impl<'a> Scope<'a> {
    /// The place of the element with this (full) name.
    pub fn new(names: &'a Names, element: &'a str) -> Scope<'a> {
        Scope { names, element }
    }

    /// The element's full name.
    pub fn element(&self) -> &'a str {
        self.element
    }

    /// What `name` may mean in this place, the innermost first: in `a/b/c`, `x` is `a/b/x`, `a/x`
    /// or `x`.
    pub fn places<'n>(&self, name: &'n str) -> impl Iterator<Item = String> + use<'a, 'n> {
        let mut context = Some(context(self.element));
        std::iter::from_fn(move || {
            let place = context?;
            context = place.strip_suffix('/').map(self::context);
            Some(place.to_owned() + name)
        })
    }

    /// The address that a name stands for.
    pub fn ip(&self, name: &str) -> Option<Ipv4Addr> {
        self.find(&self.names.ip, name)
    }

    /// The prefix that a name stands for.
    pub fn prefix4(&self, name: &str) -> Option<Prefix4> {
        self.find(&self.names.prefix4, name)
    }

    /// The IPv6 address that a name stands for.
    pub fn ip6(&self, name: &str) -> Option<Ipv6Addr> {
        self.find(&self.names.ip6, name)
    }

    /// The IPv6 prefix that a name stands for.
    pub fn prefix6(&self, name: &str) -> Option<Prefix6> {
        self.find(&self.names.prefix6, name)
    }

    /// The Ethernet address that a name stands for.
    pub fn ethernet(&self, name: &str) -> Option<Mac> {
        self.find(&self.names.ethernet, name)
    }

    /// The number that a name stands for; numbers themselves are no names.
    pub fn number(&self, kind: Kind, name: &str) -> Option<u32> {
        let defined = self.places(name).find_map(|place| self.names.numbers.get(&(kind, place)).copied());
        defined.or_else(|| built_in::number(kind, name))
    }

    /// The name that everybody knows for a number.
    pub fn name_of(&self, kind: Kind, number: u32) -> Option<&'static str> {
        built_in::name(kind, number)
    }

    fn find<T: Copy>(&self, table: &Table<T>, name: &str) -> Option<T> {
        if table.is_empty() {
            return None;
        }
        self.places(name).find_map(|place| table.get(&place).copied())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_innermost_name_counts() {
        let mut names = Names::new();
        names.address_info("info", "x 1.1.1.1").unwrap();
        names.address_info("a/info", "x 2.2.2.2").unwrap();
        names.address_info("a/b/info", "y 4.4.4.4/24").unwrap();
        let ip = |element: &str, name: &str| Scope::new(&names, element).ip(name);
        let address = |last: u8| Some(Ipv4Addr::from([last; 4]));
        assert_eq!(
            (ip("e", "x"), ip("a/e", "x"), ip("a/b/e", "x"), ip("a/c/d/e", "x")),
            (address(1), address(2), address(2), address(2))
        );
        assert_eq!((ip("e", "y"), ip("a/b/e", "y"), ip("ab/e", "x")), (None, address(4), address(1)));
        assert_eq!(Scope::new(&names, "a/b/e").places("x").collect::<Vec<_>>(), ["a/b/x", "a/x", "x"]);
        assert_eq!(Scope::new(&names, "e").places("x").collect::<Vec<_>>(), ["x"]);
    }

    #[test]
    fn address_info_knows_what_is_what() {
        let mut names = Names::new();
        assert_eq!(names.address_info("info", ""), Ok(()));
        assert_eq!(names.address_info("info", "x"), Err("expected 'NAME [ADDRS]'".to_owned()));
        assert_eq!(
            names.address_info("info", "x 1.2.3.4/24 abc fe80::1/64 0:1:2:3:4:5"),
            Err("\"x\" 'abc' is not a recognizable address".to_owned())
        );
        let scope = Scope::new(&names, "");
        assert_eq!(scope.ip("x"), Some(Ipv4Addr::new(1, 2, 3, 4)));
        assert_eq!(scope.prefix4("x").map(|prefix| prefix.to_string()).as_deref(), Some("1.2.3.4/24"));
        assert_eq!(scope.ip6("x"), "fe80::1".parse().ok());
        assert_eq!(scope.prefix6("x").map(|prefix| prefix.length), Some(64));
        assert_eq!(scope.ethernet("x"), Some(Mac([0, 1, 2, 3, 4, 5])));
        assert_eq!(scope.ip("lo"), None);
    }

    #[test]
    fn an_address_may_be_a_name_and_a_device() {
        let mut names = Names::new();
        names.address_info("info", "a 10.1.2.3/16 0:1:2:3:4:5").unwrap();
        // Every machine has it; it has no Ethernet address.
        names.address_info("info", "b lo").unwrap();
        names.address_info("info", "c lo:ipnet").unwrap();
        names.address_info("info", "d lo:bcast").unwrap();
        names.address_info("info", "e a:eth a:bcast").unwrap();
        // What is of several kinds replaces nothing, wherever it stands.
        names.address_info("info", "f a 10.9.9.9").unwrap();
        names.address_info("info", "g 10.9.9.9 a").unwrap();
        let scope = Scope::new(&names, "");
        let ip = |text: &str| text.parse::<Ipv4Addr>().ok();
        assert_eq!((scope.ip("b"), scope.prefix4("b"), scope.ethernet("b")), (ip("127.0.0.1"), None, None));
        assert_eq!(scope.prefix4("c"), Some(Prefix4::new(Ipv4Addr::LOCALHOST, 8)));
        assert_eq!((scope.ip("c"), scope.ip("d")), (ip("127.0.0.1"), ip("127.255.255.255")));
        assert_eq!((scope.ip("e"), scope.ethernet("e")), (ip("10.1.255.255"), Some(Mac([0, 1, 2, 3, 4, 5]))));
        assert_eq!((scope.ip("f"), scope.ip("g")), (ip("10.9.9.9"), ip("10.9.9.9")));
        assert_eq!(Ipv4Addr::parse("lo:bcast", &scope), Ok(Ipv4Addr::new(127, 255, 255, 255)));
    }

    #[test]
    fn port_info_names_ports() {
        let mut names = Names::new();
        assert_eq!(names.port_info("info", "# comment"), Ok(()));
        assert_eq!(names.port_info("info", "both 100 two three # four"), Ok(()));
        assert_eq!(names.port_info("info", "one 0x10/tcp"), Ok(()));
        for wrong in ["x", "x y", "x 65536", "x 5/nothing", "x 5/tcp/udp", "x 5/300"] {
            assert_eq!(
                names.port_info("info", wrong),
                Err(format!("expected 'NAME PORT/PROTO', got '{wrong}'"))
            );
        }
        let port = |protocol, name| Scope::new(&names, "").number(Kind::Port(protocol), name);
        assert_eq!((port(6, "both"), port(17, "three"), port(6, "four")), (Some(100), Some(100), None));
        assert_eq!((port(6, "one"), port(17, "one")), (Some(16), None));
    }
}
