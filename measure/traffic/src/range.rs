//! Values that change from flow to flow: addresses, ports, MAC addresses.
//!
//! Flow *k* has value *k* of a range, counted round and round, or a random one (the same in every
//! run). All ranges of a stream count together: 256 flows of `10.0.0.0/24` to `10.1.0.0/24` are 256
//! pairs. Ranges whose lengths have no common divisor make as many pairs as their product; random
//! ones, nearly any.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::PathBuf;
use std::str::FromStr;

use ipnet::IpNet;
use wire::Mac;

use crate::text::as_text;

/// A number that a range may be made of.
pub trait Number: Copy + PartialEq + fmt::Display {
    /// As a number.
    fn to_number(self) -> u128;
    /// Of a number that came from [`Number::to_number`] of the ends, or lies between.
    fn of_number(number: u128) -> Self;
    /// One end of a range, as text.
    fn parse(text: &str) -> Option<Self>;
}

impl Number for u16 {
    fn to_number(self) -> u128 {
        self.into()
    }
    fn of_number(number: u128) -> u16 {
        number as u16
    }
    fn parse(text: &str) -> Option<u16> {
        text.parse().ok()
    }
}

impl Number for Mac {
    fn to_number(self) -> u128 {
        self.to_u64().into()
    }
    fn of_number(number: u128) -> Mac {
        Mac::from_u64(number as u64)
    }
    fn parse(text: &str) -> Option<Mac> {
        text.parse().ok()
    }
}

impl Number for Ipv4Addr {
    fn to_number(self) -> u128 {
        self.to_bits().into()
    }
    fn of_number(number: u128) -> Ipv4Addr {
        Ipv4Addr::from_bits(number as u32)
    }
    fn parse(text: &str) -> Option<Ipv4Addr> {
        text.parse().ok()
    }
}

impl Number for Ipv6Addr {
    fn to_number(self) -> u128 {
        self.to_bits()
    }
    fn of_number(number: u128) -> Ipv6Addr {
        Ipv6Addr::from_bits(number)
    }
    fn parse(text: &str) -> Option<Ipv6Addr> {
        text.parse().ok()
    }
}

/// In which order a range's values come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// One after the other.
    #[default]
    Counting,
    /// Random.
    Random,
}

/// From one value to another.
///
/// As text: `5000`, `1024-65535`, `random 1024-65535`; for MAC addresses with `..` between the
/// ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range<T> {
    /// First value.
    pub first: T,
    /// Last value, not before the first.
    pub last: T,
    /// In which order.
    pub order: Order,
}

/// Ports of UDP or TCP.
pub type Ports = Range<u16>;
/// Ethernet addresses.
pub type Macs = Range<Mac>;

impl<T: Number> Range<T> {
    /// One value.
    pub fn of(value: T) -> Range<T> {
        Range { first: value, last: value, order: Order::Counting }
    }

    /// Number of values; 2^128 - 1 for all of IPv6.
    pub fn count(&self) -> u128 {
        (self.last.to_number() - self.first.to_number()).saturating_add(1)
    }

    /// Whether there is one value only.
    pub fn is_one(&self) -> bool {
        self.first == self.last
    }

    /// The value of flow `k`; `salt` tells the random ranges of a stream apart.
    #[inline]
    pub fn value(&self, k: u64, salt: u64) -> T {
        let index = index(self.count(), self.order, k, salt);
        T::of_number(self.first.to_number() + index)
    }
}

/// Which of `len` values flow `k` has.
#[inline]
pub(crate) fn index(len: u128, order: Order, k: u64, salt: u64) -> u128 {
    if len == 1 {
        return 0;
    }
    match order {
        Order::Counting => match u64::try_from(len) {
            Ok(len) if len.is_power_of_two() => u128::from(k & (len - 1)),
            Ok(len) => u128::from(k % len),
            Err(_) => u128::from(k),
        },
        Order::Random => {
            let random = crate::random::mix(k.wrapping_mul(crate::random::STEP) ^ salt);
            match u64::try_from(len) {
                Ok(len) => (u128::from(random) * u128::from(len)) >> 64,
                Err(_) => {
                    let more = crate::random::mix(random ^ salt);
                    (u128::from(random) << 64 | u128::from(more)) % len
                }
            }
        }
    }
}

/// A text that is no range.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{text}` is no {what}: write one as {example}, from first to last, with `random` in front for random order"
)]
pub struct RangeError {
    text: String,
    what: &'static str,
    example: &'static str,
}

impl<T: Number> Range<T> {
    fn read(
        text: &str,
        separator: &str,
        what: &'static str,
        example: &'static str,
    ) -> Result<Self, RangeError> {
        let wrong = || RangeError { text: text.to_owned(), what, example };
        let (order, values) = order_of(text);
        let (first, last) = values.split_once(separator).unwrap_or((values, values));
        let end = |text: &str| T::parse(text.trim()).ok_or_else(wrong);
        let range = Range { first: end(first)?, last: end(last)?, order };
        if range.last.to_number() < range.first.to_number() { Err(wrong()) } else { Ok(range) }
    }

    fn write(&self, separator: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", prefix(self.order), self.first)?;
        if self.is_one() { Ok(()) } else { write!(f, "{separator}{}", self.last) }
    }
}

fn order_of(text: &str) -> (Order, &str) {
    let text = text.trim();
    match text.strip_prefix("random ") {
        Some(rest) => (Order::Random, rest.trim()),
        None => (Order::Counting, text),
    }
}

fn prefix(order: Order) -> &'static str {
    match order {
        Order::Counting => "",
        Order::Random => "random ",
    }
}

impl FromStr for Ports {
    type Err = RangeError;

    fn from_str(text: &str) -> Result<Ports, RangeError> {
        Range::read(text, "-", "range of ports", "5000 or 1024-65535")
    }
}

impl FromStr for Macs {
    type Err = RangeError;

    fn from_str(text: &str) -> Result<Macs, RangeError> {
        Range::read(
            text,
            "..",
            "range of Ethernet addresses",
            "02:00:00:00:00:01 or 02:00:00:00:00:00..02:00:00:00:00:ff",
        )
    }
}

impl fmt::Display for Ports {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write("-", f)
    }
}

impl fmt::Display for Macs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write("..", f)
    }
}

/// Addresses.
///
/// As text: `10.0.0.1`, `10.0.0.1-10.0.0.99`, `10.0.0.0/24`, `2001:db8::/64`, each with `random` in
/// front if wanted; `file:PATH`, a list of addresses or prefixes, one a line (of a prefix one
/// address, which is inside it), `#` begins a comment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Addresses {
    /// IPv4.
    V4(Range<Ipv4Addr>),
    /// IPv6.
    V6(Range<Ipv6Addr>),
    /// Of a file; all of one family.
    File(PathBuf, Order),
}

/// A text that says no addresses, or a file that has none.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)] // the messages say it
pub enum AddressError {
    #[error(
        "`{0}` is no range of addresses: write 10.0.0.1, 10.0.0.1-10.0.0.99, 10.0.0.0/24 or file:PATH, with `random` in front for random order"
    )]
    Text(String),
    #[error("{path}: {source}")]
    File { path: PathBuf, source: std::io::Error },
    #[error("{path}, line {line}: `{text}` is neither an address nor a prefix")]
    Line { path: PathBuf, line: usize, text: String },
    #[error("{path}, line {line}: the file has addresses of both families; make a stream of each")]
    Families { path: PathBuf, line: usize },
    #[error("{path} has no addresses")]
    Empty { path: PathBuf },
}

as_text!(Ports, Macs, Addresses);

impl Addresses {
    /// One address.
    pub fn of(address: IpAddr) -> Addresses {
        match address {
            IpAddr::V4(address) => Addresses::V4(Range::of(address)),
            IpAddr::V6(address) => Addresses::V6(Range::of(address)),
        }
    }

    /// Reads what is in a file.
    pub fn load(&self) -> Result<Loaded, AddressError> {
        match self {
            Addresses::V4(range) => Ok(Loaded::V4(*range)),
            Addresses::V6(range) => Ok(Loaded::V6(*range)),
            Addresses::File(path, order) => {
                let text = std::fs::read_to_string(path)
                    .map_err(|source| AddressError::File { path: path.clone(), source })?;
                list(path, &text, *order)
            }
        }
    }
}

/// Addresses in memory.
#[derive(Clone, Debug, PartialEq)]
pub enum Loaded {
    /// A range of IPv4.
    V4(Range<Ipv4Addr>),
    /// A range of IPv6.
    V6(Range<Ipv6Addr>),
    /// A list of IPv4, not empty.
    List4(Vec<Ipv4Addr>, Order),
    /// A list of IPv6, not empty.
    List6(Vec<Ipv6Addr>, Order),
}

impl Loaded {
    /// 4 or 6.
    pub fn version(&self) -> u8 {
        match self {
            Loaded::V4(_) | Loaded::List4(..) => 4,
            Loaded::V6(_) | Loaded::List6(..) => 6,
        }
    }

    /// How many there are, and in which order they come.
    pub(crate) fn values(&self) -> (u128, Order) {
        match self {
            Loaded::V4(range) => (range.count(), range.order),
            Loaded::V6(range) => (range.count(), range.order),
            Loaded::List4(list, order) => (list.len() as u128, *order),
            Loaded::List6(list, order) => (list.len() as u128, *order),
        }
    }

    /// The IPv4 address of flow `k`; the unspecified one for IPv6.
    #[inline]
    pub fn v4(&self, k: u64, salt: u64) -> Ipv4Addr {
        match self {
            Loaded::V4(range) => range.value(k, salt),
            Loaded::List4(list, order) => list[index(list.len() as u128, *order, k, salt) as usize],
            Loaded::V6(_) | Loaded::List6(..) => Ipv4Addr::UNSPECIFIED,
        }
    }

    /// The IPv6 address of flow `k`; the unspecified one for IPv4.
    #[inline]
    pub fn v6(&self, k: u64, salt: u64) -> Ipv6Addr {
        match self {
            Loaded::V6(range) => range.value(k, salt),
            Loaded::List6(list, order) => list[index(list.len() as u128, *order, k, salt) as usize],
            Loaded::V4(_) | Loaded::List4(..) => Ipv6Addr::UNSPECIFIED,
        }
    }
}

/// The addresses of a file's text. What follows an address or a prefix on its line is not looked
/// at, so that the output of `ip route` will do as well.
fn list(path: &std::path::Path, text: &str, order: Order) -> Result<Loaded, AddressError> {
    let (mut v4, mut v6) = (Vec::new(), Vec::new());
    let mut random = crate::random::Random(0xadd2);
    for (number, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or_default();
        let Some(word) = line.split_whitespace().next() else { continue };
        let at = || (path.to_owned(), number + 1);
        match word.parse::<IpAddr>().ok().map(IpNet::from).or_else(|| word.parse::<IpNet>().ok()) {
            Some(IpNet::V4(net)) => {
                let host = random.next() as u32 & net.hostmask().to_bits();
                v4.push(Ipv4Addr::from_bits(net.network().to_bits() | host));
            }
            Some(IpNet::V6(net)) => {
                let host = u128::from(random.next()) << 64 | u128::from(random.next());
                v6.push(Ipv6Addr::from_bits(net.network().to_bits() | host & net.hostmask().to_bits()));
            }
            None => {
                let (path, line) = at();
                return Err(AddressError::Line { path, line, text: word.to_owned() });
            }
        }
        if !v4.is_empty() && !v6.is_empty() {
            let (path, line) = at();
            return Err(AddressError::Families { path, line });
        }
    }
    match (v4.is_empty(), v6.is_empty()) {
        (false, _) => Ok(Loaded::List4(v4, order)),
        (_, false) => Ok(Loaded::List6(v6, order)),
        _ => Err(AddressError::Empty { path: path.to_owned() }),
    }
}

impl fmt::Display for Addresses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Addresses::V4(range) => range.write("-", f),
            Addresses::V6(range) => range.write("-", f),
            Addresses::File(path, order) => write!(f, "{}file:{}", prefix(*order), path.display()),
        }
    }
}

impl FromStr for Addresses {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Addresses, AddressError> {
        let wrong = || AddressError::Text(text.to_owned());
        let (order, values) = order_of(text);
        if let Some(path) = values.strip_prefix("file:") {
            return if path.is_empty() { Err(wrong()) } else { Ok(Addresses::File(path.into(), order)) };
        }
        if values.contains('/') {
            return match values.parse::<IpNet>().map_err(|_| wrong())? {
                IpNet::V4(net) => {
                    Ok(Addresses::V4(Range { first: net.network(), last: net.broadcast(), order }))
                }
                IpNet::V6(net) => {
                    Ok(Addresses::V6(Range { first: net.network(), last: net.broadcast(), order }))
                }
            };
        }
        let text = if order == Order::Random { format!("random {values}") } else { values.to_owned() };
        let v4 = Range::read(&text, "-", "", "").map(Addresses::V4);
        v4.or_else(|_| Range::read(&text, "-", "", "").map(Addresses::V6)).map_err(|_: RangeError| wrong())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_say_the_same_when_read_again() {
        for text in ["5000", "1024-65535", "random 1-2"] {
            assert_eq!(text.parse::<Ports>().unwrap().to_string(), text);
        }
        for text in ["02:00:00:00:00:01", "random 02:00:00:00:00:00..02:00:00:00:00:ff"] {
            assert_eq!(text.parse::<Macs>().unwrap().to_string(), text);
        }
        for text in ["10.0.0.1", "10.0.0.1-10.0.0.9", "random 2001:db8::-2001:db8::ff", "random file:/x"] {
            assert_eq!(text.parse::<Addresses>().unwrap().to_string(), text);
        }
        assert_eq!("10.0.0.0/30".parse::<Addresses>().unwrap().to_string(), "10.0.0.0-10.0.0.3");
        for text in ["", "10.0.0.9-10.0.0.1", "10.0.0.1-::1", "10.0.0.0/33", "file:", "x", "random", "1-"] {
            assert!(text.parse::<Addresses>().is_err(), "{text}");
            assert!(text.parse::<Ports>().is_err(), "{text}");
            assert!(text.parse::<Macs>().is_err(), "{text}");
        }
    }

    #[test]
    fn counting_goes_round_and_random_stays_inside() {
        let ports: Ports = "10-12".parse().unwrap();
        assert_eq!((0..5).map(|k| ports.value(k, 0)).collect::<Vec<_>>(), [10, 11, 12, 10, 11]);
        let random: Ports = "random 10-12".parse().unwrap();
        let seen: std::collections::HashSet<_> = (0..100).map(|k| random.value(k, 7)).collect();
        assert_eq!(seen, [10, 11, 12].into());
        let Addresses::V6(all) = "::/0".parse().unwrap() else { panic!() };
        let all = Range { order: Order::Random, ..all };
        assert_ne!(all.value(1, 1), all.value(2, 1));
    }

    #[test]
    fn a_file_has_addresses_and_prefixes_of_one_family() {
        let path = std::path::Path::new("f");
        let text = "# table\n10.0.0.1\n 192.0.2.0/24 via 10.0.0.1 # x\n\n";
        let Loaded::List4(list, _) = super::list(path, text, Order::Counting).unwrap() else { panic!() };
        assert_eq!(list[0], Ipv4Addr::new(10, 0, 0, 1));
        assert_eq!(list[1].octets()[..3], [192, 0, 2]);
        let error = |text| super::list(path, text, Order::Counting).unwrap_err().to_string();
        assert_eq!(error("10.0.0.1\nx"), "f, line 2: `x` is neither an address nor a prefix");
        assert!(error("10.0.0.1\n::1").contains("both families"));
        assert!(error("# nothing").contains("no addresses"));
    }
}
