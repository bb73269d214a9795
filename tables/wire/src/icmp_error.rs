//! The ICMP errors that a router sends, each one a row.
//!
//! An element that refuses a packet has an output with an error's name, the router's graph connects
//! it with the input of the elements that tell the sender, and rules of the filter may ask for some
//! of them (`reject with`). All of these read this table, so that a new error is a row here, and an
//! output of the element that refuses.

use crate::{Reason, icmp4, icmp6};

/// Makes [`IcmpError`] of rows: variant and name; what its packets are dropped for; type and code
/// of ICMP, and of ICMPv6; and where rules can ask for it, their word and that of nftables (`reject
/// with icmpx`).
macro_rules! errors {
    ($($(#[$about:meta])* $error:ident $name:literal, $reason:ident, $four:expr, $six:expr
        $(, asked $word:literal $nft:literal)?;)*) => {
        /// An ICMP error that a router sends. The number is that of the input of `IcmpError4` and
        /// `IcmpError6`.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum IcmpError {
            $($(#[$about])* $error,)*
        }

        impl IcmpError {
            /// All, in the order of their numbers.
            pub const ALL: &'static [IcmpError] = &[$(IcmpError::$error),*];

            /// The name of the outputs that lead to it.
            pub const fn name(self) -> &'static str {
                match self {
                    $(IcmpError::$error => $name,)*
                }
            }

            /// What the packets that it is about are dropped for.
            pub const fn reason(self) -> Reason {
                match self {
                    $(IcmpError::$error => Reason::$reason,)*
                }
            }

            /// Type and code of ICMP.
            pub const fn icmp4(self) -> (u8, u8) {
                match self {
                    $(IcmpError::$error => $four,)*
                }
            }

            /// Type and code of ICMPv6.
            pub const fn icmp6(self) -> (u8, u8) {
                match self {
                    $(IcmpError::$error => $six,)*
                }
            }

            /// How rules of the filter ask for it, and how those of nftables do, if they can.
            pub const fn asked(self) -> Option<(&'static str, &'static str)> {
                match self {
                    $($(IcmpError::$error => Some(($word, $nft)),)?)*
                    _ => None,
                }
            }
        }
    };
}

errors! {
    /// Time to live, or hop limit, exceeded in transit.
    Expired "expired", TtlExpired, (icmp4::TIME_EXCEEDED, 0), (icmp6::TIME_EXCEEDED, 0);
    /// No route to the destination.
    NoRoute "no_route", NoRoute, (icmp4::UNREACHABLE, icmp4::unreachable::NET),
        (icmp6::UNREACHABLE, icmp6::unreachable::NO_ROUTE);
    /// An unreachable route: as in Linux, ICMPv6 says no route at all.
    Unreachable "unreachable", Unreachable, (icmp4::UNREACHABLE, icmp4::unreachable::HOST),
        (icmp6::UNREACHABLE, icmp6::unreachable::NO_ROUTE);
    /// A route that prohibits.
    Prohibit "prohibit", Prohibit, (icmp4::UNREACHABLE, icmp4::unreachable::PROHIBITED),
        (icmp6::UNREACHABLE, icmp6::unreachable::PROHIBITED);
    /// Larger than the MTU of its way, which is told.
    TooBig "too_big", TooBig, (icmp4::UNREACHABLE, icmp4::unreachable::FRAGMENTATION_NEEDED),
        (icmp6::PACKET_TOO_BIG, 0);
    /// Refused by a rule, as if nobody took the port.
    RefusedPort "refused_port", Filtered, (icmp4::UNREACHABLE, icmp4::unreachable::PORT),
        (icmp6::UNREACHABLE, icmp6::unreachable::PORT), asked "port-unreachable" "port-unreachable";
    /// Refused by a rule, as if the host were not there.
    RefusedHost "refused_host", Filtered, (icmp4::UNREACHABLE, icmp4::unreachable::HOST),
        (icmp6::UNREACHABLE, icmp6::unreachable::ADDRESS), asked "host-unreachable" "host-unreachable";
    /// Refused by a rule, as if there were no route.
    RefusedRoute "refused_route", Filtered, (icmp4::UNREACHABLE, icmp4::unreachable::NET),
        (icmp6::UNREACHABLE, icmp6::unreachable::NO_ROUTE), asked "no-route" "no-route";
    /// Refused by a rule, which is told.
    Refused "refused", Filtered, (icmp4::UNREACHABLE, icmp4::unreachable::PROHIBITED),
        (icmp6::UNREACHABLE, icmp6::unreachable::PROHIBITED), asked "prohibited" "admin-prohibited";
    /// No port was left to translate its flow to: host unreachable (RFC 6888, REQ-11; that may
    /// pass, which "prohibited" of RFC 5508, REQ-8, would not say), address unreachable (RFC 6146,
    /// 3.5.1.1).
    NoPortLeft "no_port_left", PortsExhausted, (icmp4::UNREACHABLE, icmp4::unreachable::HOST),
        (icmp6::UNREACHABLE, icmp6::unreachable::ADDRESS);
}

impl IcmpError {
    /// The one of this name.
    pub fn named(name: &str) -> Option<IcmpError> {
        IcmpError::ALL.iter().copied().find(|error| error.name() == name)
    }

    /// Whether the filter is who refuses by it: its rules, or translation behind them.
    pub const fn is_of_the_filter(self) -> bool {
        matches!(self.reason(), Reason::Filtered | Reason::PortsExhausted)
    }

    /// Whether Linux can tell the sender instead. It would let pass what there is no port for.
    pub const fn is_known_to_linux(self) -> bool {
        !matches!(self.reason(), Reason::PortsExhausted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_different_and_all_are_errors() {
        for (number, error) in IcmpError::ALL.iter().copied().enumerate() {
            assert_eq!((error as usize, IcmpError::named(error.name())), (number, Some(error)));
            assert!(icmp4::is_error(error.icmp4().0) && icmp6::is_error(error.icmp6().0), "{error:?}");
            // A rule's refusal is dropped as what the rule says.
            assert!(error.asked().is_none() || error.reason() == Reason::Filtered, "{error:?}");
        }
    }
}
