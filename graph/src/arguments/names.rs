//! What a configuration calls its addresses, ports and annotations.
//!
//! `AddressInfo` and `PortInfo` define names for the compound element that they stand in and everything inside it:
//! an element `a/b/c` sees what was defined in `a/b`, then `a`, then outside, and last what everybody knows.

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

/// Values by the path of the compound element they are defined in, with a `/` behind it, and the name.
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

    /// The names that a configuration's AddressInfo and PortInfo elements define, wherever they stand. What is wrong
    /// with their arguments is said here; the elements themselves have nothing to do.
    pub fn of(flat: &Flat, report: &mut Report) -> Names {
        let mut names = Names::new();
        let none = Names::new();
        for element in &flat.elements {
            let define = match element.class.as_str() {
                "AddressInfo" => Names::address_info,
                "PortInfo" => Names::port_info,
                _ => continue,
            };
            let mut arguments = Arguments::of(element, Scope::written(&none), report);
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

    /// Defines what one argument of AddressInfo says: `NAME ADDRESS...`. `element` is the AddressInfo's own name. Of
    /// several addresses of a kind the last counts.
    ///
    /// # Errors
    /// What is wrong with it, in Click's words, a line each. What is right in it is defined nevertheless.
    pub fn address_info(&mut self, element: &str, argument: &str) -> Result<(), String> {
        let words = split_words(argument);
        let Some((name, addresses)) = words.split_first() else { return Ok(()) };
        if addresses.is_empty() {
            return Err("expected 'NAME [ADDRS]'".to_owned());
        }
        let key = || context(element).to_owned() + name;
        let mut strange = Vec::new();
        // Addresses are written down here, not called by name.
        let none = Names::new();
        let scope = Scope::written(&none);
        for address in addresses {
            let mut known = false;
            if let Ok(ethernet) = Mac::parse(address, &scope) {
                self.ethernet.insert(key(), ethernet);
                known = true;
            }
            if let Ok(ip) = Ipv4Addr::parse(address, &scope) {
                self.ip.insert(key(), ip);
                known = true;
            } else if let Ok(prefix) = Prefix4::parse(address, &scope) {
                self.prefix4.insert(key(), prefix);
                if prefix.network() != prefix.address {
                    self.ip.insert(key(), prefix.address);
                }
                known = true;
            }
            if let Ok(ip6) = Ipv6Addr::parse(address, &scope) {
                self.ip6.insert(key(), ip6);
                known = true;
            } else if let Ok(prefix) = Prefix6::parse(address, &scope) {
                self.prefix6.insert(key(), prefix);
                if prefix.network() != prefix.address {
                    self.ip6.insert(key(), prefix.address);
                }
                known = true;
            }
            if !known {
                strange.push(format!("\"{name}\" '{address}' is not a recognizable address"));
            }
        }
        if strange.is_empty() { Ok(()) } else { Err(strange.join("\n")) }
    }

    /// Defines what one argument of PortInfo says: `NAME PORT[/PROTOCOL] [ALIAS...] [# comment]`. `element` is the
    /// PortInfo's own name. Without a protocol it is a port of TCP and UDP.
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

/// The path of the compound element that an element stands in, with a `/` behind it; empty outside of all.
fn context(element: &str) -> &str {
    element.rfind('/').map_or("", |slash| &element[..=slash])
}

/// The names as an element sees them.
#[derive(Clone, Copy, Debug)]
pub struct Scope<'a> {
    names: &'a Names,
    element: &'a str,
    devices: bool,
}

impl<'a> Scope<'a> {
    /// The place of the element with this (full) name.
    pub fn new(names: &'a Names, element: &'a str) -> Scope<'a> {
        Scope { names, element, devices: true }
    }

    /// Where nothing has a name, not even the machine's devices.
    fn written(names: &'a Names) -> Scope<'a> {
        Scope { names, element: "", devices: false }
    }

    /// The element's full name.
    pub fn element(&self) -> &'a str {
        self.element
    }

    /// Whether a device of this machine may stand for its address.
    pub(super) fn knows_devices(&self) -> bool {
        self.devices
    }

    /// What `name` may mean in this place, the innermost first: in `a/b/c`, `x` is `a/b/x`, `a/x` or `x`.
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
