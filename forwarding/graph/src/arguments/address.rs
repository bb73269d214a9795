//! Addresses, prefixes and ports, as numbers or by the names that a configuration or the system
//! gave them.

use super::device;
use super::names::{Kind, Scope};
use super::{Argument, parse_error, parse_integer};
use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};
use wire::Mac;

/// `10.0.0.1`, or a name of AddressInfo (`name`, `name:ip`, `name:bcast`), or a device of this
/// machine (`device`, and `device:gw` for the gateway of the default route by it).
impl Argument for Ipv4Addr {
    fn parse(text: &str, scope: &Scope<'_>) -> Result<Ipv4Addr, String> {
        if let (bytes, 4) =
            quad(text).ok_or_else(parse_error).or_else(|error| named4(text, scope).ok_or(error))?
        {
            Ok(Ipv4Addr::from(bytes))
        } else {
            Err(parse_error())
        }
    }
}

/// Up to four decimal bytes between dots, and how many there are.
fn quad(text: &str) -> Option<([u8; 4], usize)> {
    let mut bytes = [0; 4];
    let mut count = 0;
    for part in text.split('.') {
        let digits = !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
        *bytes.get_mut(count)? = part.parse().ok().filter(|_| digits)?;
        count += 1;
    }
    Some((bytes, count))
}

fn named4(text: &str, scope: &Scope<'_>) -> Option<([u8; 4], usize)> {
    let (name, kind) = split_kind(text);
    let address = match kind.as_deref() {
        None | Some("ip" | "ip4") => scope.ip(name).or_else(|| device::ip(name))?,
        Some("bcast") => prefix_of(name, scope)?.broadcast(),
        Some("gw") => device::gateway(name)?,
        Some(_) => return None,
    };
    Some((address.octets(), 4))
}

/// The prefix of a name, or of a device.
fn prefix_of(name: &str, scope: &Scope<'_>) -> Option<Prefix4> {
    scope.prefix4(name).or_else(|| device::prefix(name))
}

/// A name, and behind its last colon as what it is meant.
fn split_kind(text: &str) -> (&str, Option<String>) {
    match text.rsplit_once(':') {
        Some((name, kind)) => (name, Some(kind.to_ascii_lowercase())),
        None => (text, None),
    }
}

/// Addresses between spaces.
impl Argument for Vec<Ipv4Addr> {
    fn parse(text: &str, scope: &Scope<'_>) -> Result<Vec<Ipv4Addr>, String> {
        crate::language::split_words(text).into_iter().map(|word| Ipv4Addr::parse(word, scope)).collect()
    }
}

/// Any of the forms of RFC 4291, section 2.2; at the end also a name of an IPv4 address; or a name
/// of AddressInfo (`name`, `name:ip6`).
impl Argument for Ipv6Addr {
    fn parse(text: &str, scope: &Scope<'_>) -> Result<Ipv6Addr, String> {
        if let Ok(address) = text.parse() {
            return Ok(address);
        }
        if let Some((head, name)) = text.rsplit_once(':')
            && head.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b':')
            && let Some(([a, b, c, d], 4)) = quad(name).or_else(|| named4(name, scope))
        {
            // Behind `::` one more colon may separate the name.
            let forms = [format!("{head}:{a}.{b}.{c}.{d}"), format!("{head}{a}.{b}.{c}.{d}")];
            if let Some(address) = forms.iter().find_map(|form| form.parse().ok()) {
                return Ok(address);
            }
        }
        let (name, kind) = split_kind(text);
        let as_asked = matches!(kind.as_deref(), None | Some("ip6"));
        scope.ip6(name).filter(|_| as_asked).ok_or_else(parse_error)
    }
}

/// `00-50-BA-85-84-A9` or with colons, or a name of AddressInfo (`name`, `name:eth`), or a device
/// of this machine.
impl Argument for Mac {
    fn parse(text: &str, scope: &Scope<'_>) -> Result<Mac, String> {
        if let Ok(address) = text.parse() {
            return Ok(address);
        }
        let (name, kind) = split_kind(text);
        let as_asked = matches!(kind.as_deref(), None | Some("eth" | "ethernet"));
        if as_asked {
            scope.ethernet(name).or_else(|| device::ethernet(name)).ok_or_else(parse_error)
        } else {
            Err(parse_error())
        }
    }
}

/// An IPv4 address and a mask: `10.0.0.0/8`, `10/8`, `10.0.0.0/255.0.0.0`, `10.0.0.0/name`, or a
/// name of AddressInfo (`name`, `name:ipnet`). The address may have bits outside the mask, and the
/// mask gaps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Prefix4 {
    /// As written, with the bits outside the mask.
    pub address: Ipv4Addr,
    /// Which bits of it count.
    pub mask: Ipv4Addr,
}

impl Prefix4 {
    /// The first `length` (at most 32) bits of an address.
    pub fn new(address: Ipv4Addr, length: u32) -> Prefix4 {
        let mask = u32::MAX.checked_shl(32u32.saturating_sub(length)).unwrap_or(0);
        Prefix4 { address, mask: mask.into() }
    }

    /// How many bits count; `None` when they aren't the first ones.
    pub fn length(self) -> Option<u32> {
        let mask = u32::from(self.mask);
        (mask.leading_ones() == mask.count_ones()).then_some(mask.count_ones())
    }

    /// The address without the bits outside the mask.
    pub fn network(self) -> Ipv4Addr {
        self.address & self.mask
    }

    /// The address with all bits outside the mask set.
    pub fn broadcast(self) -> Ipv4Addr {
        self.address | !self.mask
    }

    /// Whether an address has the same bits where they count.
    pub fn contains(self, address: Ipv4Addr) -> bool {
        address & self.mask == self.network()
    }
}

impl fmt::Display for Prefix4 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.length() {
            Some(length) => write!(f, "{}/{length}", self.address),
            None => write!(f, "{}/{}", self.address, self.mask),
        }
    }
}

impl Argument for Prefix4 {
    fn parse(text: &str, scope: &Scope<'_>) -> Result<Prefix4, String> {
        written4(text, scope)
            .or_else(|| {
                let (name, kind) = split_kind(text);
                let as_asked = matches!(kind.as_deref(), None | Some("net" | "ipnet" | "ip4net"));
                prefix_of(name, scope).filter(|_| as_asked)
            })
            .ok_or_else(parse_error)
    }
}

fn written4(text: &str, scope: &Scope<'_>) -> Option<Prefix4> {
    let (address, mask) = text.rsplit_once('/')?;
    let (bytes, count) = quad(address).or_else(|| named4(address, scope))?;
    let address = Ipv4Addr::from(bytes);
    let prefix = match length(mask, 32) {
        Some(length) => Prefix4::new(address, length),
        None => Prefix4 { address, mask: Ipv4Addr::parse(mask, scope).ok()? },
    };
    // A mask with more bits than were written down is a mistake.
    let written = Prefix4::new(address, 8 * count as u32).mask;
    (prefix.mask & written == prefix.mask).then_some(prefix)
}

/// A decimal prefix length.
fn length(text: &str, most: u32) -> Option<u32> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|&length| digits && length <= most)
}

/// A [`Prefix4`]; an address alone is a prefix of 32 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AddressOrPrefix4(pub Prefix4);

impl Argument for AddressOrPrefix4 {
    fn parse(text: &str, scope: &Scope<'_>) -> Result<AddressOrPrefix4, String> {
        let written = written4(text, scope);
        let address = || Ipv4Addr::parse(text, scope).ok().map(|address| Prefix4::new(address, 32));
        written.or_else(address).map_or_else(|| Prefix4::parse(text, scope), Ok).map(AddressOrPrefix4)
    }
}

/// An IPv6 address and how many of its first bits count: `2001:db8::/32`, `2001:db8::/ffff:ffff::`,
/// or a name of AddressInfo (`name`, `name:ip6net`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Prefix6 {
    /// As written, with the bits that don't count.
    pub address: Ipv6Addr,
    /// How many bits count, at most 128.
    pub length: u8,
}

impl Prefix6 {
    /// Ones where bits count.
    pub fn mask(self) -> Ipv6Addr {
        u128::MAX.checked_shl(128u32.saturating_sub(self.length.into())).unwrap_or(0).into()
    }

    /// The address without the bits that don't count.
    pub fn network(self) -> Ipv6Addr {
        self.address & self.mask()
    }

    /// Whether an address has the same bits where they count.
    pub fn contains(self, address: Ipv6Addr) -> bool {
        address & self.mask() == self.network()
    }
}

impl fmt::Display for Prefix6 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.length)
    }
}

impl Argument for Prefix6 {
    fn parse(text: &str, scope: &Scope<'_>) -> Result<Prefix6, String> {
        written6(text, scope)
            .or_else(|| {
                let (name, kind) = split_kind(text);
                let as_asked = matches!(kind.as_deref(), None | Some("ip6net"));
                scope.prefix6(name).filter(|_| as_asked)
            })
            .ok_or_else(parse_error)
    }
}

fn written6(text: &str, scope: &Scope<'_>) -> Option<Prefix6> {
    let (address, bits) = text.rsplit_once('/')?;
    let address = Ipv6Addr::parse(address, scope).ok()?;
    let length = length(bits, 128).or_else(|| {
        let mask = u128::from(Ipv6Addr::parse(bits, scope).ok()?);
        (mask.leading_ones() == mask.count_ones()).then_some(mask.count_ones())
    })?;
    Some(Prefix6 { address, length: length as u8 })
}

/// A [`Prefix6`]; an address alone is a prefix of 128 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AddressOrPrefix6(pub Prefix6);

impl Argument for AddressOrPrefix6 {
    fn parse(text: &str, scope: &Scope<'_>) -> Result<AddressOrPrefix6, String> {
        let written = written6(text, scope);
        let address = || Ipv6Addr::parse(text, scope).ok().map(|address| Prefix6 { address, length: 128 });
        written.or_else(address).map_or_else(|| Prefix6::parse(text, scope), Ok).map(AddressOrPrefix6)
    }
}

/// A port of IP protocol `PROTOCOL`, as a number or by name: of PortInfo, well known, or in
/// /etc/services.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Port<const PROTOCOL: u8>(pub u16);

/// A TCP port: `80`, `www`.
pub type TcpPort = Port<6>;
/// A UDP port: `53`, `domain`.
pub type UdpPort = Port<17>;

impl<const PROTOCOL: u8> Argument for Port<PROTOCOL> {
    fn parse(text: &str, scope: &Scope<'_>) -> Result<Port<PROTOCOL>, String> {
        let number = match scope.number(Kind::Port(PROTOCOL), text) {
            Some(port) => port,
            None => parse_integer(text, 0, u32::MAX.into()).map_err(|_| parse_error())? as u32,
        };
        u16::try_from(number).map(Port).map_err(|_| "overflow, range 0-65535".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arguments::{Names, unparse};
    use proptest::prelude::*;

    fn names() -> Names {
        let mut names = Names::new();
        names.address_info("info", "host 1.2.3.4 2001:db8::7 00:11:22:33:44:55").unwrap();
        names.address_info("info", "net 10.1.2.0/24 fd00::/8").unwrap();
        names
    }

    fn read<T: Argument>(text: &str) -> Result<T, String> {
        T::parse(text, &Scope::new(&names(), "element"))
    }

    #[test]
    fn addresses() {
        assert_eq!(read("10.0.0.255"), Ok(Ipv4Addr::new(10, 0, 0, 255)));
        assert_eq!(read("010.00.0.001"), Ok(Ipv4Addr::new(10, 0, 0, 1)));
        assert_eq!(read("host"), Ok(Ipv4Addr::new(1, 2, 3, 4)));
        assert_eq!(read("host:IP"), Ok(Ipv4Addr::new(1, 2, 3, 4)));
        assert_eq!(read("net:bcast"), Ok(Ipv4Addr::new(10, 1, 2, 255)));
        assert_eq!(read("lo"), Ok(Ipv4Addr::LOCALHOST));
        for wrong in
            ["", "10", "10.0.0", "10.0.0.256", "10.0.0.1.2", "10..0.1", "1.2.3.+4", "net", "host:eth", ":"]
        {
            assert_eq!(read::<Ipv4Addr>(wrong), Err("parse error".to_owned()), "{wrong}");
        }
        assert_eq!(read("1.1.1.1  host"), Ok(vec![Ipv4Addr::new(1, 1, 1, 1), Ipv4Addr::new(1, 2, 3, 4)]));
        assert_eq!(read("host:eth"), Ok(Mac([0, 0x11, 0x22, 0x33, 0x44, 0x55])));
        assert_eq!(read("0-1-2-A-b-ff"), Ok(Mac([0, 1, 2, 10, 11, 255])));
        assert!(read::<Mac>("0-1-2-A:b:ff").is_err() && read::<Mac>("host:ip").is_err());
    }

    #[test]
    fn ip6_addresses_may_end_in_an_ip4_name() {
        let mapped: Ipv6Addr = "::ffff:1.2.3.4".parse().unwrap();
        assert_eq!(read("0::ffff:host"), Ok(mapped));
        assert_eq!(read("::FFFF:1.2.3.4"), Ok(mapped));
        assert_eq!(read("0:::host"), Ok("::1.2.3.4".parse::<Ipv6Addr>().unwrap()));
        assert_eq!(read("host"), Ok("2001:db8::7".parse::<Ipv6Addr>().unwrap()));
        for wrong in [":::", "8000::1:1:1:1:1:1:1", "1:2:3:4:5:6:7:", "::nobody", "net", ""] {
            assert!(read::<Ipv6Addr>(wrong).is_err(), "{wrong}");
        }
        assert_eq!(read("1:2:3:4:5:6:7::"), Ok("1:2:3:4:5:6:7:0".parse::<Ipv6Addr>().unwrap()));
    }

    #[test]
    fn prefixes() {
        let print = |text: &str| read::<Prefix4>(text).map(|prefix| prefix.to_string());
        for (text, printed) in [
            ("18.26.4/24", "18.26.4.0/24"),
            ("10.1.2.3/8", "10.1.2.3/8"),
            ("10.0.0.0/255.0.255.0", "10.0.0.0/255.0.255.0"),
            ("0/0", "0.0.0.0/0"),
            ("host/32", "1.2.3.4/32"),
            ("net", "10.1.2.0/24"),
            ("net:ipnet", "10.1.2.0/24"),
        ] {
            assert_eq!(print(text).as_deref(), Ok(printed));
        }
        for wrong in
            ["18.26.4/28", "10.0.0.0", "10.0.0.0/33", "10.0.0.0/", "/8", "10.0.0.0/+8", "host", "1/2/3"]
        {
            assert!(read::<Prefix4>(wrong).is_err(), "{wrong}");
        }
        assert_eq!(read::<AddressOrPrefix4>("host").unwrap().0.to_string(), "1.2.3.4/32");
        assert_eq!(read::<AddressOrPrefix4>("net").unwrap().0.to_string(), "10.1.2.0/24");
        assert_eq!(read::<Prefix6>("2001:db8::/ffff:f000::").unwrap().to_string(), "2001:db8::/20");
        assert_eq!(read::<Prefix6>("net").unwrap().to_string(), "fd00::/8");
        assert_eq!(read::<AddressOrPrefix6>("::1").unwrap().0.to_string(), "::1/128");
        assert!(read::<Prefix6>("::1/129").is_err() && read::<Prefix6>("::1/::1").is_err());
    }

    #[test]
    fn ports_have_names() {
        let mut names = names();
        names.port_info("compound/info", "mine 4000/udp alias # comment").unwrap();
        let inside = Scope::new(&names, "compound/element");
        assert_eq!(UdpPort::parse("mine", &inside), Ok(Port(4000)));
        assert_eq!(UdpPort::parse("alias", &inside), Ok(Port(4000)));
        assert!(TcpPort::parse("mine", &inside).is_err());
        assert!(UdpPort::parse("mine", &Scope::new(&names, "element")).is_err());
        assert_eq!(read("www"), Ok(Port::<6>(80)));
        assert_eq!(read("0x35"), Ok(Port::<17>(53)));
        assert_eq!(read::<TcpPort>("65536"), Err("overflow, range 0-65535".to_owned()));
    }

    proptest! {
        #[test]
        fn what_is_printed_is_read_back(ip: u32, mask: u32, ip6: u128, length in 0u8..=128, mac: [u8; 6]) {
            let (ip, ip6) = (Ipv4Addr::from(ip), Ipv6Addr::from(ip6));
            prop_assert_eq!(read(&unparse::ip(ip)), Ok(ip));
            prop_assert_eq!(read(&unparse::ip6(ip6)), Ok(ip6));
            prop_assert_eq!(read(&unparse::ethernet(Mac(mac))), Ok(Mac(mac)));
            let prefix = Prefix4 { address: ip, mask: mask.into() };
            prop_assert_eq!(read(&unparse::prefix(prefix)), Ok(prefix));
            let short = Prefix4::new(ip, u32::from(length) / 4);
            prop_assert_eq!(read(&unparse::prefix(short)), Ok(short));
            let prefix6 = Prefix6 { address: ip6, length };
            prop_assert_eq!(read(&unparse::prefix6(prefix6)), Ok(prefix6));
        }

        #[test]
        fn any_text_is_an_address_or_refused(text in "[0-9a-f:./ hostneé-]{0,24}") {
            let _ = (read::<Ipv4Addr>(&text), read::<Vec<Ipv4Addr>>(&text), read::<Ipv6Addr>(&text), read::<Mac>(&text));
            let _ = (read::<AddressOrPrefix4>(&text), read::<AddressOrPrefix6>(&text), read::<TcpPort>(&text));
        }
    }
}
