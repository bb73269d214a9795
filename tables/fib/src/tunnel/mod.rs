//! IP tunnels: the header that stands in front of an interface's packets, made in advance, and how
//! the interface of a packet is found by the header that it came in.
//!
//! ```text
//! in:   source, destination, protocol, key --hash--> a tunnel's words --> InterfaceId
//! out:  InterfaceId --link word--> a tunnel's words: the header, and how large a packet may be
//! ```
//!
//! A VXLAN is a link of Ethernet with several other ends: it is one interface here for each of
//! them, as a bridge is one for each member. Frames come in by it from hosts that Linux knows
//! behind that end ([`hosts`]): others are Linux's, which learns from them.
//!
//! What a tunnel is stands here; what readers see of it in [`word`], and who writes that in
//! [`table`].

mod hosts;
mod table;
mod word;

pub(crate) use hosts::HOST_BYTES;
use hosts::Hosts;
pub(crate) use table::{END_BYTES, TUNNEL_BYTES, Table};
pub use word::TunnelWord;
pub(crate) use word::Words;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Bytes of the outer header of IPv4, and of IPv6.
const IPV4: usize = 20;
const IPV6: usize = 40;
/// Bytes of the header that is kept: IPv6's, and GRE's with a key.
pub(crate) const KEPT: usize = 48;
/// Bytes of the option that limits how many tunnels a packet enters (RFC 2473, 4.1.1), with the
/// extension header that it stands in.
const LIMIT: usize = 8;
/// Bytes of GRE's checksum, and of what is reserved behind it.
const SUM: usize = 4;
/// Bytes of a header of Ethernet, of UDP, and of VXLAN.
const ETHERNET: usize = 14;
const UDP: usize = 8;
const VXLAN: usize = 8;
/// Bytes of the longest header in front of a packet: the one that is kept, and what stands in it
/// besides. Of IPv6 and UDP VXLAN's is longer than GRE's with all that there is.
pub const LONGEST_HEADER: usize = KEPT + VXLAN + ETHERNET;
const _: () = assert!(LONGEST_HEADER >= KEPT + LIMIT + SUM);

/// What a tunnel's packets are of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Payload {
    /// IPv4 (RFC 2003, RFC 2473).
    Ipv4,
    /// IPv6 (RFC 4213, RFC 2473).
    Ipv6,
    /// Either, without anything in between: over IPv6 alone (RFC 2473).
    Any,
    /// Either, in GRE (RFC 2784).
    Gre {
        /// What is in the header of packets that come in.
        enters: Gre,
        /// Of packets that leave.
        leaves: Gre,
    },
    /// Either, in frames of Ethernet in VXLAN (RFC 7348).
    Vxlan(Vxlan),
}

/// What is in a header of VXLAN and of UDP in front of it, and what is asked of those that come in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Vxlan {
    /// Its number, 24 bits.
    pub vni: u32,
    /// The port of UDP that packets go to.
    pub port: u16,
    /// Those that they come from: the first, and the one behind the last, which is higher. Each
    /// flow inside has one of its own.
    pub sources: (u16, u16),
    /// What leaves has a checksum of UDP.
    pub sum: bool,
    /// What comes in needs none. (Over IPv4 nothing does.)
    pub unsummed: bool,
    /// Linux learns from what comes in: only frames of hosts that it knows are the plane's.
    pub learns: bool,
}

/// What is in a header of GRE beside the type of the packet inside.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Gre {
    /// A key (RFC 2890).
    pub key: Option<u32>,
    /// A checksum (RFC 2784, 2.2).
    pub sum: bool,
}

impl Gre {
    /// Nothing.
    pub const PLAIN: Gre = Gre { key: None, sum: false };

    /// Bytes of the header.
    fn length(self) -> usize {
        4 + if self.sum { SUM } else { 0 } + if self.key.is_some() { 4 } else { 0 }
    }
}

/// Between which ends a tunnel is, and what is only in a header of that family.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Over {
    /// IPv4.
    Ipv4 {
        /// This end.
        local: Ipv4Addr,
        /// The other end.
        remote: Ipv4Addr,
        /// Path MTU discovery: what leaves is not to be fragmented. Else the packet inside says
        /// that.
        dont_fragment: bool,
        /// But what it says does not count (`ignore-df`).
        ignore_df: bool,
    },
    /// IPv6.
    Ipv6 {
        /// This end.
        local: Ipv6Addr,
        /// The other end.
        remote: Ipv6Addr,
        /// Flow label of what leaves, 20 bits; `None`: that of the packet inside, if it is IPv6.
        /// Where there is none, or it is 0, each flow has one of its own (RFC 6438).
        label: Option<u32>,
        /// How many more tunnels a packet may enter (RFC 2473, 4.1.1); `None`: that is not said.
        limit: Option<u8>,
    },
}

/// The header of an interface that is a tunnel, by Linux's names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Tunnel {
    /// What is in it.
    pub payload: Payload,
    /// Time to live or hop limit of what leaves; 0: that of the packet inside.
    pub ttl: u8,
    /// Type of service or traffic class of what leaves; `None`: that of the packet inside.
    pub tos: Option<u8>,
    /// Its ends.
    pub over: Over,
}

/// The four things by which the tunnel of a packet that comes in is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ends {
    /// The other end, the packet's source.
    pub remote: IpAddr,
    /// This end.
    pub local: IpAddr,
    /// Protocol of the outer header. IPv6's two are one here ([`protocol::IPV6`]), as in Linux:
    /// there the ends alone say which tunnel it is.
    ///
    /// [`protocol::IPV6`]: abi::protocol::IPV6
    pub protocol: u8,
    /// GRE's key, or VXLAN's number.
    pub key: Option<u32>,
    /// Of VXLAN: the port of UDP that packets go to; else 0.
    pub port: u16,
}

impl Over {
    /// This end.
    pub fn local(&self) -> IpAddr {
        match self {
            Over::Ipv4 { local, .. } => (*local).into(),
            Over::Ipv6 { local, .. } => (*local).into(),
        }
    }

    /// The other end.
    pub fn remote(&self) -> IpAddr {
        match self {
            Over::Ipv4 { remote, .. } => (*remote).into(),
            Over::Ipv6 { remote, .. } => (*remote).into(),
        }
    }
}

impl Payload {
    /// The protocols that the outer header may say.
    pub fn protocols(self) -> &'static [u8] {
        match self {
            Payload::Ipv4 => &[abi::protocol::IPIP],
            Payload::Ipv6 => &[abi::protocol::IPV6],
            Payload::Any => &[abi::protocol::IPIP, abi::protocol::IPV6],
            Payload::Gre { .. } => &[abi::protocol::GRE],
            Payload::Vxlan(_) => &[abi::protocol::UDP],
        }
    }

    /// Bytes of what stands between the outer header and the packet inside.
    fn length(self) -> usize {
        match self {
            Payload::Ipv4 | Payload::Ipv6 | Payload::Any => 0,
            Payload::Gre { leaves, .. } => leaves.length(),
            Payload::Vxlan(_) => UDP + VXLAN + ETHERNET,
        }
    }

    /// What it is as a VXLAN, if it is one.
    pub fn vxlan(&self) -> Option<&Vxlan> {
        if let Payload::Vxlan(vxlan) = self { Some(vxlan) } else { None }
    }

    /// GRE's fields of packets that come in, and that leave; nothing without GRE.
    pub fn fields(self) -> [Gre; 2] {
        if let Payload::Gre { enters, leaves } = self { [enters, leaves] } else { [Gre::PLAIN; 2] }
    }
}

impl Tunnel {
    /// By what its packets are known that come in.
    pub fn ends(&self) -> Ends {
        let (local, remote, protocol) = (self.over.local(), self.over.remote(), self.payload.protocols()[0]);
        if let Payload::Vxlan(Vxlan { vni, port, .. }) = self.payload {
            return Ends { port, ..Ends::of(local, remote, protocol, Some(vni)) };
        }
        let [Gre { key, .. }, _] = self.payload.fields();
        Ends::of(local, remote, protocol, key)
    }

    /// Bytes that stand in front of its packets.
    pub fn length(&self) -> usize {
        let outer = match self.over {
            Over::Ipv4 { .. } => IPV4,
            Over::Ipv6 { limit: None, .. } => IPV6,
            Over::Ipv6 { limit: Some(_), .. } => IPV6 + LIMIT,
        };
        outer + self.payload.length()
    }

    /// The header as far as it is the same for all packets, without the option that limits tunnels,
    /// GRE's checksum, and what VXLAN has behind UDP: 0 stands for lengths, IPv4's identification,
    /// checksums, GRE's type, and for what the packet inside says. Of two protocols the first is
    /// there. Of UDP's source ports the first is there, and the end of them in the place of its
    /// length.
    pub fn header(&self) -> [u8; 48] {
        let mut header = [0; KEPT];
        let (protocol, tos) = (self.payload.protocols()[0], self.tos.unwrap_or(0));
        let upper = match self.over {
            Over::Ipv4 { local, remote, dont_fragment, .. } => {
                (header[0], header[1], header[8], header[9]) = (0x45, tos, self.ttl, protocol);
                header[6] = if dont_fragment { 0x40 } else { 0 };
                header[12..16].copy_from_slice(&local.octets());
                header[16..20].copy_from_slice(&remote.octets());
                IPV4
            }
            Over::Ipv6 { local, remote, label, .. } => {
                let first = 6 << 28 | u32::from(tos) << 20 | label.unwrap_or(0) & 0xf_ffff;
                header[..4].copy_from_slice(&first.to_be_bytes());
                (header[6], header[7]) = (protocol, self.ttl);
                header[8..24].copy_from_slice(&local.octets());
                header[24..40].copy_from_slice(&remote.octets());
                IPV6
            }
        };
        if let Payload::Vxlan(Vxlan { port, sources, .. }) = self.payload {
            for (bytes, number) in
                header[upper..].as_chunks_mut().0.iter_mut().zip([sources.0, port, sources.1])
            {
                *bytes = number.to_be_bytes();
            }
        }
        let [_, Gre { key, sum }] = self.payload.fields();
        header[upper] |= if sum { 0x80 } else { 0 };
        if let Some(key) = key {
            header[upper] |= 0x20;
            header[upper + 4..upper + 8].copy_from_slice(&key.to_be_bytes());
        }
        header
    }
}

impl Ends {
    /// Those of a packet with such a header.
    pub fn of(local: IpAddr, remote: IpAddr, protocol: u8, key: Option<u32>) -> Ends {
        let either = protocol == abi::protocol::IPIP && local.is_ipv6();
        Ends { remote, local, protocol: if either { abi::protocol::IPV6 } else { protocol }, key, port: 0 }
    }

    fn hash(&self) -> usize {
        let bits = |address| match address {
            IpAddr::V4(address) => u64::from(u32::from(address)),
            IpAddr::V6(address) => {
                let bits = u128::from(address);
                (bits >> 64) as u64 ^ (bits as u64).rotate_left(29)
            }
        };
        let both = bits(self.remote).rotate_left(32) ^ bits(self.local);
        let key =
            u64::from(self.key.unwrap_or(0)) << 8 | u64::from(self.protocol) ^ u64::from(self.port) << 48;
        let mixed = (both ^ key.rotate_left(24)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        ((mixed ^ mixed >> 29).wrapping_mul(0xBF58_476D_1CE4_E5B9) >> 32) as usize
    }
}
