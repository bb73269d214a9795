//! Names of numbers. Each table is read both ways, and where a number has two names the first is
//! the one that is printed.

use wire::protocol;

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
