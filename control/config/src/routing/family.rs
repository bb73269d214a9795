//! Families of addresses, as prefixes are of them and as BGP exchanges them.

use ipnet::IpNet;

/// One of the two families of addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// IPv4.
    Ipv4,
    /// IPv6.
    Ipv6,
}

impl Family {
    /// The key of a section.
    pub fn key(self) -> &'static str {
        match self {
            Family::Ipv4 => "ipv4",
            Family::Ipv6 => "ipv6",
        }
    }

    /// As people write it.
    pub fn word(self) -> &'static str {
        match self {
            Family::Ipv4 => "IPv4",
            Family::Ipv6 => "IPv6",
        }
    }

    /// Whether a prefix is of it.
    pub fn has(self, net: &IpNet) -> bool {
        matches!((self, net), (Family::Ipv4, IpNet::V4(_)) | (Family::Ipv6, IpNet::V6(_)))
    }
}

/// What BGP exchanges: addresses of a family, and for what (AFI and SAFI, RFC 4760). In FRR's
/// order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum AddressFamily {
    /// IPv4.
    Ipv4,
    /// IPv4, for the reverse path of multicast.
    Ipv4Multicast,
    /// IPv4 with labels of MPLS (RFC 8277).
    Ipv4Labeled,
    /// IPv4 of VRFs (RFC 4364).
    Vpnv4,
    /// IPv6.
    Ipv6,
    /// IPv6, for the reverse path of multicast.
    Ipv6Multicast,
    /// IPv6 with labels of MPLS.
    Ipv6Labeled,
    /// IPv6 of VRFs (RFC 4659).
    Vpnv6,
    /// Ethernet addresses, and prefixes with them (RFC 7432).
    Evpn,
}

/// What a family is for: by this it has keys, or has not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum For {
    Unicast,
    Multicast,
    Labeled,
    Vpn,
    Evpn,
}

impl AddressFamily {
    /// All, in their order.
    pub const ALL: [AddressFamily; 9] = [
        AddressFamily::Ipv4,
        AddressFamily::Ipv4Multicast,
        AddressFamily::Ipv4Labeled,
        AddressFamily::Vpnv4,
        AddressFamily::Ipv6,
        AddressFamily::Ipv6Multicast,
        AddressFamily::Ipv6Labeled,
        AddressFamily::Vpnv6,
        AddressFamily::Evpn,
    ];

    /// The key of a section.
    pub fn key(self) -> &'static str {
        match self {
            AddressFamily::Ipv4 => "ipv4",
            AddressFamily::Ipv4Multicast => "ipv4_multicast",
            AddressFamily::Ipv4Labeled => "ipv4_labeled",
            AddressFamily::Vpnv4 => "vpnv4",
            AddressFamily::Ipv6 => "ipv6",
            AddressFamily::Ipv6Multicast => "ipv6_multicast",
            AddressFamily::Ipv6Labeled => "ipv6_labeled",
            AddressFamily::Vpnv6 => "vpnv6",
            AddressFamily::Evpn => "evpn",
        }
    }

    /// As FRR names it.
    pub fn frr(self) -> &'static str {
        match self {
            AddressFamily::Ipv4 => "ipv4 unicast",
            AddressFamily::Ipv4Multicast => "ipv4 multicast",
            AddressFamily::Ipv4Labeled => "ipv4 labeled-unicast",
            AddressFamily::Vpnv4 => "ipv4 vpn",
            AddressFamily::Ipv6 => "ipv6 unicast",
            AddressFamily::Ipv6Multicast => "ipv6 multicast",
            AddressFamily::Ipv6Labeled => "ipv6 labeled-unicast",
            AddressFamily::Vpnv6 => "ipv6 vpn",
            AddressFamily::Evpn => "l2vpn evpn",
        }
    }

    /// What its prefixes are of; `None`: of both.
    pub fn addresses(self) -> Option<Family> {
        match self {
            AddressFamily::Ipv4
            | AddressFamily::Ipv4Multicast
            | AddressFamily::Ipv4Labeled
            | AddressFamily::Vpnv4 => Some(Family::Ipv4),
            AddressFamily::Ipv6
            | AddressFamily::Ipv6Multicast
            | AddressFamily::Ipv6Labeled
            | AddressFamily::Vpnv6 => Some(Family::Ipv6),
            AddressFamily::Evpn => None,
        }
    }

    /// Whether FRR has it in VRFs.
    pub(super) fn is_of_vrfs(self) -> bool {
        matches!(self.purpose(), For::Unicast | For::Multicast)
    }

    pub(super) fn purpose(self) -> For {
        match self {
            AddressFamily::Ipv4 | AddressFamily::Ipv6 => For::Unicast,
            AddressFamily::Ipv4Multicast | AddressFamily::Ipv6Multicast => For::Multicast,
            AddressFamily::Ipv4Labeled | AddressFamily::Ipv6Labeled => For::Labeled,
            AddressFamily::Vpnv4 | AddressFamily::Vpnv6 => For::Vpn,
            AddressFamily::Evpn => For::Evpn,
        }
    }
}
