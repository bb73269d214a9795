//! Numbers of the protocols above IP (IANA "Protocol Numbers"), for IPv4's protocol and IPv6's next header field.

/// IPv6 hop-by-hop options (RFC 8200).
pub const HOP_BY_HOP: u8 = 0;
/// ICMP (RFC 792).
pub const ICMP: u8 = 1;
/// IGMP (RFC 9776).
pub const IGMP: u8 = 2;
/// TCP (RFC 9293).
pub const TCP: u8 = 6;
/// UDP (RFC 768).
pub const UDP: u8 = 17;
/// DCCP (RFC 4340).
pub const DCCP: u8 = 33;
/// IPv6 routing header (RFC 8200).
pub const ROUTING: u8 = 43;
/// IPv6 fragment header (RFC 8200).
pub const FRAGMENT: u8 = 44;
/// RSVP (RFC 2205).
pub const RSVP: u8 = 46;
/// GRE (RFC 2784, RFC 2890).
pub const GRE: u8 = 47;
/// Encapsulating security payload (RFC 4303).
pub const ESP: u8 = 50;
/// Authentication header (RFC 4302).
pub const AUTHENTICATION: u8 = 51;
/// ICMPv6 (RFC 4443).
pub const ICMP6: u8 = 58;
/// Nothing follows (RFC 8200).
pub const NO_NEXT: u8 = 59;
/// IPv6 destination options (RFC 8200).
pub const DESTINATION_OPTIONS: u8 = 60;
/// EIGRP (RFC 7868).
pub const EIGRP: u8 = 88;
/// OSPF (RFC 2328, RFC 5340).
pub const OSPF: u8 = 89;
/// PIM (RFC 7761).
pub const PIM: u8 = 103;
/// VRRP (RFC 9568).
pub const VRRP: u8 = 112;
/// SCTP (RFC 9260).
pub const SCTP: u8 = 132;
/// Mobility header (RFC 6275).
pub const MOBILITY: u8 = 135;
/// UDP-Lite (RFC 3828).
pub const UDP_LITE: u8 = 136;

/// Whether the protocol starts with a 16-bit source and a 16-bit destination port.
#[inline]
pub const fn has_ports(protocol: u8) -> bool {
    matches!(protocol, TCP | UDP | SCTP | UDP_LITE | DCCP)
}
