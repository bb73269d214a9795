//! Protocols above IP (IANA "Protocol Numbers"), for IPv4's protocol and IPv6's next header field:
//! their numbers, and the names that operators write and read.

macro_rules! protocols {
    ($($(#[doc = $doc:literal])* $name:ident = $number:literal [$($called:literal),*];)*) => {
        $($(#[doc = $doc])* pub const $name: u8 = $number;)*

        /// Names and their numbers. The first name of a number is the one that is printed.
        pub const NAMES: &[(&str, u8)] = &[$($(($called, $number),)*)*];

        /// The numbers in C.
        pub(crate) fn numbers() -> String {
            [$(concat!("#define PROTOCOL_", stringify!($name), " ", $number, "\n")),*].concat()
        }
    };
}

protocols! {
    /// IPv6 hop-by-hop options (RFC 8200).
    HOP_BY_HOP = 0 [];
    /// ICMP (RFC 792).
    ICMP = 1 ["icmp"];
    /// IGMP (RFC 9776).
    IGMP = 2 ["igmp"];
    /// IPv4 in IP (RFC 2003).
    IPIP = 4 ["ipip"];
    /// TCP (RFC 9293).
    TCP = 6 ["tcp"];
    /// UDP (RFC 768).
    UDP = 17 ["udp"];
    /// DCCP (RFC 4340).
    DCCP = 33 ["dccp"];
    /// IPv6 in IP (RFC 4213).
    IPV6 = 41 ["ipv6"];
    /// IPv6 routing header (RFC 8200).
    ROUTING = 43 [];
    /// IPv6 fragment header (RFC 8200).
    FRAGMENT = 44 [];
    /// RSVP (RFC 2205).
    RSVP = 46 ["rsvp"];
    /// GRE (RFC 2784, RFC 2890).
    GRE = 47 ["gre"];
    /// Encapsulating security payload (RFC 4303).
    ESP = 50 ["esp"];
    /// Authentication header (RFC 4302).
    AUTHENTICATION = 51 ["ah"];
    /// ICMPv6 (RFC 4443).
    ICMP6 = 58 ["icmp6", "icmpv6", "ipv6-icmp"];
    /// Nothing follows (RFC 8200).
    NO_NEXT = 59 [];
    /// IPv6 destination options (RFC 8200).
    DESTINATION_OPTIONS = 60 [];
    /// EIGRP (RFC 7868).
    EIGRP = 88 ["eigrp"];
    /// OSPF (RFC 2328, RFC 5340).
    OSPF = 89 ["ospf"];
    /// PIM (RFC 7761).
    PIM = 103 ["pim"];
    /// VRRP (RFC 9568).
    VRRP = 112 ["vrrp"];
    /// L2TP (RFC 3931).
    L2TP = 115 ["l2tp"];
    /// SCTP (RFC 9260).
    SCTP = 132 ["sctp"];
    /// Mobility header (RFC 6275).
    MOBILITY = 135 [];
    /// UDP-Lite (RFC 3828).
    UDP_LITE = 136 ["udplite"];
}

macro_rules! with_ports {
    ($($name:ident),*) => {
        /// Whether the protocol starts with a 16-bit source and a 16-bit destination port.
        #[inline]
        pub const fn has_ports(protocol: u8) -> bool {
            matches!(protocol, $($name)|*)
        }

        /// The same in C.
        fn c_has_ports() -> String {
            let any = [$(concat!("protocol == PROTOCOL_", stringify!($name))),*].join(" || ");
            format!("static __always_inline int has_ports(__u8 protocol) {{\n    return {any};\n}}\n")
        }
    };
}

with_ports!(TCP, UDP, SCTP, UDP_LITE, DCCP);

/// The number of a name; case does not matter.
pub fn number(name: &str) -> Option<u8> {
    NAMES.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, number)| *number)
}

/// What a number is called.
pub fn name(number: u8) -> Option<&'static str> {
    NAMES.iter().find(|(_, known)| *known == number).map(|(name, _)| *name)
}

pub(crate) fn c() -> String {
    numbers() + &c_has_ports()
}
