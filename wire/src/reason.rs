//! Why a packet was dropped.

use std::fmt;

/// Why a packet was dropped. The numbers are shared with the driver's programs (`bpf/abi.h`, `enum reason`); the
/// names are stable, and are what operators read in `show drops` and in the metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Reason {
    /// Not dropped.
    #[default]
    None = 0,
    /// Shorter than its headers say.
    Truncated = 1,
    /// The IP version is not that of the Ethernet type.
    BadVersion = 2,
    /// IPv4 header length below 20 bytes or beyond the packet (RFC 1812, 5.2.2).
    BadHeaderLength = 3,
    /// IPv4 total length below the header length, or beyond the frame (RFC 1812, 5.2.2).
    BadTotalLength = 4,
    /// Wrong IPv4 header checksum (RFC 1812, 5.2.2).
    BadChecksum = 5,
    /// TTL or hop limit used up; answered with time exceeded.
    TtlExpired = 6,
    /// A source address that no packet to be forwarded can have (RFC 1812, 5.3.7; RFC 4291).
    MartianSource = 7,
    /// A destination address that is never forwarded (RFC 1812, 5.3.7; RFC 4291).
    MartianDestination = 8,
    /// No route to the destination; answered with unreachable.
    NoRoute = 9,
    /// A blackhole route: dropped without an answer.
    Blackhole = 10,
    /// An unreachable route; answered with host unreachable.
    Unreachable = 11,
    /// A prohibit route; answered with administratively prohibited.
    Prohibit = 12,
    /// The source is not reached by the port the packet came from (RFC 3704).
    ReversePath = 13,
    /// Larger than the MTU and may not be fragmented; answered with the MTU.
    TooBig = 14,
    /// Forwarding of this family is off on the input port.
    ForwardingOff = 15,
    /// The output port is down or gone.
    PortDown = 16,
    /// The transmit ring of the output port is full.
    TransmitFull = 17,
    /// No packet memory left for a copy, a fragment or an answer.
    NoBuffer = 18,
    /// The driver refused the frame at redirect.
    RedirectFailed = 19,
    /// For Linux, above the rate of class routing.
    PolicedRouting = 20,
    /// For Linux, above the rate of class management.
    PolicedManagement = 21,
    /// For Linux, above the rate of class icmp.
    PolicedIcmp = 22,
    /// For Linux, above the rate of class rest.
    PolicedRest = 23,
    /// For Linux, above the rate of class unresolved.
    PolicedUnresolved = 24,
    /// For Linux to forward, above the rate of its class.
    PolicedTransit = 25,
    /// For Linux: ARP or neighbour discovery, above the rate of its class.
    PolicedNeighbour = 26,
    /// Handing the packet to Linux failed.
    PuntFailed = 27,
    /// An ICMP answer suppressed by its rate limit or by the rules on what is never answered.
    IcmpLimited = 28,
    /// A ring descriptor that points outside the packet memory.
    CorruptRing = 29,
    /// Neither IPv4 nor IPv6.
    NotIp = 30,
    /// The worker's receive ring was full: it could not keep up.
    ReceiveFull = 31,
    /// An element's purpose (Discard), or an output that leads nowhere.
    Discarded = 32,
    /// A queue in the graph was full, or dropped early to stay short.
    QueueFull = 33,
    /// The filter, or a switch of the graph, let nothing like it pass.
    Filtered = 34,
    /// A check of the graph found its headers wrong.
    Malformed = 35,
    /// A new flow for which the flow table has no room.
    FlowsFull = 36,
    /// A new flow for which address translation has no port left.
    PortsExhausted = 37,
    /// Address translation has no counterpart for it.
    Untranslatable = 38,
}

impl Reason {
    /// How many reasons there are; every number is below it.
    pub const COUNT: usize = 39;

    /// Every reason, in the order of the numbers.
    pub const ALL: [Reason; Reason::COUNT] = [
        Reason::None,
        Reason::Truncated,
        Reason::BadVersion,
        Reason::BadHeaderLength,
        Reason::BadTotalLength,
        Reason::BadChecksum,
        Reason::TtlExpired,
        Reason::MartianSource,
        Reason::MartianDestination,
        Reason::NoRoute,
        Reason::Blackhole,
        Reason::Unreachable,
        Reason::Prohibit,
        Reason::ReversePath,
        Reason::TooBig,
        Reason::ForwardingOff,
        Reason::PortDown,
        Reason::TransmitFull,
        Reason::NoBuffer,
        Reason::RedirectFailed,
        Reason::PolicedRouting,
        Reason::PolicedManagement,
        Reason::PolicedIcmp,
        Reason::PolicedRest,
        Reason::PolicedUnresolved,
        Reason::PolicedTransit,
        Reason::PolicedNeighbour,
        Reason::PuntFailed,
        Reason::IcmpLimited,
        Reason::CorruptRing,
        Reason::NotIp,
        Reason::ReceiveFull,
        Reason::Discarded,
        Reason::QueueFull,
        Reason::Filtered,
        Reason::Malformed,
        Reason::FlowsFull,
        Reason::PortsExhausted,
        Reason::Untranslatable,
    ];

    /// The stable name.
    pub const fn name(self) -> &'static str {
        match self {
            Reason::None => "none",
            Reason::Truncated => "truncated",
            Reason::BadVersion => "bad_version",
            Reason::BadHeaderLength => "bad_header_length",
            Reason::BadTotalLength => "bad_total_length",
            Reason::BadChecksum => "bad_checksum",
            Reason::TtlExpired => "ttl_expired",
            Reason::MartianSource => "martian_source",
            Reason::MartianDestination => "martian_destination",
            Reason::NoRoute => "no_route",
            Reason::Blackhole => "blackhole",
            Reason::Unreachable => "unreachable",
            Reason::Prohibit => "prohibit",
            Reason::ReversePath => "reverse_path",
            Reason::TooBig => "too_big",
            Reason::ForwardingOff => "forwarding_off",
            Reason::PortDown => "port_down",
            Reason::TransmitFull => "transmit_full",
            Reason::NoBuffer => "no_buffer",
            Reason::RedirectFailed => "redirect_failed",
            Reason::PolicedRouting => "policed_routing",
            Reason::PolicedManagement => "policed_management",
            Reason::PolicedIcmp => "policed_icmp",
            Reason::PolicedRest => "policed_rest",
            Reason::PolicedUnresolved => "policed_unresolved",
            Reason::PolicedTransit => "policed_transit",
            Reason::PolicedNeighbour => "policed_neighbour",
            Reason::PuntFailed => "punt_failed",
            Reason::IcmpLimited => "icmp_limited",
            Reason::CorruptRing => "corrupt_ring",
            Reason::NotIp => "not_ip",
            Reason::ReceiveFull => "receive_full",
            Reason::Discarded => "discarded",
            Reason::QueueFull => "queue_full",
            Reason::Filtered => "filtered",
            Reason::Malformed => "malformed",
            Reason::FlowsFull => "flows_full",
            Reason::PortsExhausted => "ports_exhausted",
            Reason::Untranslatable => "untranslatable",
        }
    }

    /// One sentence for an operator.
    pub const fn description(self) -> &'static str {
        match self {
            Reason::None => "Not dropped.",
            Reason::Truncated => "Shorter than its headers say.",
            Reason::BadVersion => "The IP version is not that of the Ethernet type.",
            Reason::BadHeaderLength => {
                "IPv4 header length below 20 bytes or beyond the packet (RFC 1812, 5.2.2)."
            }
            Reason::BadTotalLength => {
                "IPv4 total length below the header length, or beyond the frame (RFC 1812, 5.2.2)."
            }
            Reason::BadChecksum => "Wrong IPv4 header checksum (RFC 1812, 5.2.2).",
            Reason::TtlExpired => "TTL or hop limit used up; answered with time exceeded.",
            Reason::MartianSource => {
                "A source address that no packet to be forwarded can have (RFC 1812, 5.3.7; RFC 4291)."
            }
            Reason::MartianDestination => {
                "A destination address that is never forwarded (RFC 1812, 5.3.7; RFC 4291)."
            }
            Reason::NoRoute => "No route to the destination; answered with unreachable.",
            Reason::Blackhole => "A blackhole route: dropped without an answer.",
            Reason::Unreachable => "An unreachable route; answered with host unreachable.",
            Reason::Prohibit => "A prohibit route; answered with administratively prohibited.",
            Reason::ReversePath => "The source is not reached by the port the packet came from (RFC 3704).",
            Reason::TooBig => "Larger than the MTU and may not be fragmented; answered with the MTU.",
            Reason::ForwardingOff => "Forwarding of this family is off on the input port.",
            Reason::PortDown => "The output port is down or gone.",
            Reason::TransmitFull => "The transmit ring of the output port is full.",
            Reason::NoBuffer => "No packet memory left for a copy, a fragment or an answer.",
            Reason::RedirectFailed => "The driver refused the frame at redirect.",
            Reason::PolicedRouting => "For Linux, above the rate of class routing.",
            Reason::PolicedManagement => "For Linux, above the rate of class management.",
            Reason::PolicedIcmp => "For Linux, above the rate of class icmp.",
            Reason::PolicedRest => "For Linux, above the rate of class rest.",
            Reason::PolicedUnresolved => "For Linux, above the rate of class unresolved.",
            Reason::PolicedTransit => "For Linux to forward, above the rate of class transit.",
            Reason::PolicedNeighbour => "For Linux, above the rate of class neighbour.",
            Reason::PuntFailed => "Handing the packet to Linux failed.",
            Reason::IcmpLimited => {
                "An ICMP answer suppressed by its rate limit or by the rules on what is never answered."
            }
            Reason::CorruptRing => "A ring descriptor that points outside the packet memory.",
            Reason::NotIp => "Neither IPv4 nor IPv6.",
            Reason::ReceiveFull => "The worker's receive ring was full: it could not keep up.",
            Reason::Discarded => "An element's purpose (Discard), or an output that leads nowhere.",
            Reason::QueueFull => "A queue in the graph was full, or dropped early to stay short.",
            Reason::Filtered => "The filter, or a switch of the graph, let nothing like it pass.",
            Reason::Malformed => "A check of the graph found its headers wrong.",
            Reason::FlowsFull => "A new flow for which the flow table has no room.",
            Reason::PortsExhausted => {
                "A new flow for which address translation has no port left; answered with unreachable."
            }
            Reason::Untranslatable => "Address translation has no counterpart for it.",
        }
    }

    /// The reason of a number, as the driver's counters give it.
    pub fn from_number(number: usize) -> Option<Reason> {
        Reason::ALL.get(number).copied()
    }

    /// The reason of a name.
    pub fn from_name(name: &str) -> Option<Reason> {
        Reason::ALL.into_iter().find(|reason| reason.name() == name)
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_names_are_each_their_own() {
        for (number, reason) in Reason::ALL.into_iter().enumerate() {
            assert_eq!(reason as usize, number);
            assert_eq!(Reason::from_number(number), Some(reason));
            assert_eq!(Reason::from_name(reason.name()), Some(reason));
        }
        assert_eq!(Reason::from_number(Reason::COUNT), None);
    }

    #[test]
    fn numbers_shared_with_the_driver_stay() {
        let fixed = [
            (6, "ttl_expired"),
            (9, "no_route"),
            (17, "transmit_full"),
            (24, "policed_unresolved"),
            (30, "not_ip"),
        ];
        for (number, name) in fixed {
            assert_eq!(Reason::ALL[number].name(), name);
        }
    }
}
