//! A tunnel as workers see it: eight words, one cache line. They never change while a reader may
//! see them, but for the path's MTU, which is in one of them. The driver hands tunnels' packets
//! over, and reads none of this.

use super::table::{PLACES, PROBES};
use super::{Ends, IPV4, IPV6, KEPT, LIMIT, Over, Payload, Tunnel, Vxlan, hosts};
use crate::{Hops, InterfaceId};
use std::net::IpAddr;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Words of a tunnel.
pub(crate) const WORDS: usize = 8;

/// A tunnel as readers see it: its interface, length and path's MTU; the key of what comes in, or
/// VXLAN's number, with the bits below; the header ([`Tunnel::header`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TunnelWord([u64; WORDS]);

/// In the second word: the keys of packets that come in are compared.
const KEYED: u64 = 1 << 32;
/// What the packet inside says of fragments does not count.
const IGNORES_DF: u64 = 1 << 33;
/// IPv4 may be inside, IPv6 may.
const CARRIES_4: u64 = 1 << 34;
const CARRIES_6: u64 = 1 << 35;
/// Type of service and flow label are those of the packet inside.
const INHERITS_TOS: u64 = 1 << 36;
const INHERITS_LABEL: u64 = 1 << 37;
/// How many more tunnels a packet may enter is said: so many.
const LIMITED: u64 = 1 << 38;
const LIMIT_AT: u32 = 40;
/// GRE has a checksum, of packets that come in, and that leave.
const SUMS_IN: u64 = 1 << 48;
const SUMS_OUT: u64 = 1 << 49;
/// It is a VXLAN: `SUMS_IN` and `SUMS_OUT` are of UDP. Linux learns from what comes in.
const VXLAN: u64 = 1 << 50;
const LEARNS: u64 = 1 << 51;

impl TunnelWord {
    pub(super) fn new(id: InterfaceId, tunnel: &Tunnel) -> TunnelWord {
        let mut words = [0; WORDS];
        words[0] = u64::from(u32::MAX) << 32 | (tunnel.length() as u64) << 16 | u64::from(id.0);
        let (ignores, inherits_label, limit) = match tunnel.over {
            Over::Ipv4 { ignore_df, .. } => (ignore_df, false, None),
            Over::Ipv6 { label, limit, .. } => (false, label.is_none(), limit),
        };
        let [enters, leaves] = tunnel.payload.fields();
        let vxlan = tunnel.payload.vxlan();
        let key = vxlan.map(|vxlan| vxlan.vni).or(enters.key);
        let sums_out = leaves.sum || vxlan.is_some_and(|vxlan| vxlan.sum);
        // Over IPv4 UDP has one or none.
        let needed = |vxlan: &Vxlan| tunnel.over.remote().is_ipv6() && !vxlan.unsummed;
        words[1] = u64::from(key.unwrap_or(0)) | u64::from(limit.unwrap_or(0)) << LIMIT_AT;
        for (is, bit) in [
            (key.is_some(), KEYED),
            (ignores, IGNORES_DF),
            (tunnel.payload != Payload::Ipv6, CARRIES_4),
            (tunnel.payload != Payload::Ipv4, CARRIES_6),
            (tunnel.tos.is_none(), INHERITS_TOS),
            (inherits_label, INHERITS_LABEL),
            (limit.is_some(), LIMITED),
            (enters.sum || vxlan.is_some_and(needed), SUMS_IN),
            (sums_out, SUMS_OUT),
            (vxlan.is_some(), VXLAN),
            (vxlan.is_some_and(|vxlan| vxlan.learns), LEARNS),
        ] {
            words[1] |= if is { bit } else { 0 };
        }
        for (word, bytes) in words[2..].iter_mut().zip(tunnel.header().as_chunks().0) {
            *word = u64::from_ne_bytes(*bytes);
        }
        TunnelWord(words)
    }

    /// As it is stored.
    pub(super) fn words(self) -> [u64; WORDS] {
        self.0
    }

    #[inline(always)]
    fn is(&self, bit: u64) -> bool {
        self.0[1] & bit != 0
    }

    /// The interface whose packets these are.
    #[inline(always)]
    pub fn interface(&self) -> InterfaceId {
        InterfaceId(self.0[0] as u16)
    }

    /// Bytes in front of a packet that leaves.
    #[inline(always)]
    pub fn length(&self) -> usize {
        usize::from((self.0[0] >> 16) as u8)
    }

    /// Bytes of the longest packet, with its header, that is known to pass to the other end.
    #[inline(always)]
    pub fn path_mtu(&self) -> u32 {
        (self.0[0] >> 32) as u32
    }

    /// See [`Tunnel::header`].
    #[inline(always)]
    pub fn header(&self) -> [u8; 48] {
        let mut bytes = [0; KEPT];
        for (bytes, word) in bytes.as_chunks_mut().0.iter_mut().zip(&self.0[2..]) {
            *bytes = word.to_ne_bytes();
        }
        bytes
    }

    /// Whether its header is IPv6's.
    #[inline(always)]
    pub fn over_ipv6(&self) -> bool {
        self.0[2].to_ne_bytes()[0] >> 4 == 6
    }

    /// This end, and the other one.
    #[inline(always)]
    pub fn addresses(&self) -> [IpAddr; 2] {
        let header = self.header();
        fn of<const N: usize>(header: &[u8; KEPT], at: usize) -> IpAddr
        where
            IpAddr: From<[u8; N]>,
        {
            header[at..].first_chunk::<N>().copied().expect("in the header").into()
        }
        match self.over_ipv6() {
            false => [of::<4>(&header, 12), of::<4>(&header, 16)],
            true => [of::<16>(&header, 8), of::<16>(&header, 24)],
        }
    }

    /// The other end.
    #[inline(always)]
    pub fn remote(&self) -> IpAddr {
        self.addresses()[1]
    }

    /// The protocol of its header, with a packet of this version of IP inside.
    #[inline(always)]
    pub fn protocol(&self, version: u8) -> u8 {
        match self.header()[if self.over_ipv6() { 6 } else { 9 }] {
            upper @ (abi::protocol::GRE | abi::protocol::UDP) => upper,
            _ if version == 6 => abi::protocol::IPV6,
            _ => abi::protocol::IPIP,
        }
    }

    /// The key of what leaves, if it has one.
    pub fn key_out(&self) -> Option<u32> {
        let (header, upper) = (self.header(), if self.over_ipv6() { IPV6 } else { IPV4 });
        let keyed = self.protocol(4) == abi::protocol::GRE && header[upper] & 0x20 != 0;
        keyed.then(|| u32::from_be_bytes(*header[upper + 4..].first_chunk().expect("in the header")))
    }

    /// Bytes of GRE's header in front of a packet that leaves; 0 without GRE.
    #[inline(always)]
    pub fn gre_length(&self) -> usize {
        let limit = if self.limit().is_some() { LIMIT } else { 0 };
        self.length() - limit - if self.over_ipv6() { IPV6 } else { IPV4 }
    }

    /// Whether packets of this version of IP may be in it.
    #[inline(always)]
    pub fn carries(&self, version: u8) -> bool {
        self.is(if version == 6 { CARRIES_6 } else { CARRIES_4 })
    }

    /// Whether the type of service is that of the packet inside.
    #[inline(always)]
    pub fn inherits_tos(&self) -> bool {
        self.is(INHERITS_TOS)
    }

    /// Whether the flow label is that of the packet inside.
    #[inline(always)]
    pub fn inherits_label(&self) -> bool {
        self.is(INHERITS_LABEL)
    }

    /// How many more tunnels a packet may enter, if that is said.
    #[inline(always)]
    pub fn limit(&self) -> Option<u8> {
        self.is(LIMITED).then_some((self.0[1] >> LIMIT_AT) as u8)
    }

    /// Whether it is a VXLAN.
    #[inline(always)]
    pub fn is_vxlan(&self) -> bool {
        self.is(VXLAN)
    }

    /// Of a VXLAN: its number, and the port of UDP.
    #[inline(always)]
    pub fn vxlan(&self) -> Option<(u32, u16)> {
        let port = |upper: usize| u16::from_be_bytes([self.header()[upper + 2], self.header()[upper + 3]]);
        let upper = if self.over_ipv6() { IPV6 } else { IPV4 };
        self.is_vxlan().then(|| (self.0[1] as u32, port(upper)))
    }

    /// The ports that a VXLAN's packets come from: the first, and the one behind the last.
    #[inline(always)]
    pub fn sources(&self) -> (u16, u16) {
        let (header, upper) = (self.header(), if self.over_ipv6() { IPV6 } else { IPV4 });
        let port = |at: usize| u16::from_be_bytes([header[upper + at], header[upper + at + 1]]);
        (port(0), port(4))
    }

    /// Whether only frames of hosts that are known may come in ([`Hops::knows_host`]).
    #[inline(always)]
    pub fn learns(&self) -> bool {
        self.is(LEARNS)
    }

    /// Whether GRE has a checksum of packets that come in, and that leave; of VXLAN, whether UDP
    /// must have one, and has one.
    #[inline(always)]
    pub fn sums(&self) -> [bool; 2] {
        [self.is(SUMS_IN), self.is(SUMS_OUT)]
    }

    /// See `ignore_df` of [`Over::Ipv4`].
    #[inline(always)]
    pub fn ignores_df(&self) -> bool {
        self.is(IGNORES_DF)
    }

    /// Whether these are its ends: [`Tunnel::ends`], without making them.
    #[inline(always)]
    fn is_at(&self, ends: &Ends) -> bool {
        let (header, over_ipv6) = (self.header(), self.over_ipv6());
        let same = match (ends.local, ends.remote) {
            (IpAddr::V4(local), IpAddr::V4(remote)) => {
                !over_ipv6 && header[12..16] == local.octets() && header[16..20] == remote.octets()
            }
            (IpAddr::V6(local), IpAddr::V6(remote)) => {
                over_ipv6 && header[8..24] == local.octets() && header[24..40] == remote.octets()
            }
            _ => false,
        };
        let protocol = match header[if over_ipv6 { 6 } else { 9 }] {
            abi::protocol::IPIP if over_ipv6 => abi::protocol::IPV6,
            protocol => protocol,
        };
        let key = self.is(KEYED).then_some(self.0[1] as u32);
        let port = self.vxlan().map_or(0, |(_, port)| port);
        same && protocol == ends.protocol && key == ends.key && port == ends.port
    }
}

/// What readers have of all tunnels.
#[derive(Clone, Copy)]
pub(crate) struct Words<'a> {
    pub tunnels: &'a [AtomicU64],
    pub ends: &'a [AtomicU32],
    pub hosts: &'a [AtomicU64],
}

impl Words<'_> {
    #[inline(always)]
    fn read(&self, slot: u32) -> Option<TunnelWord> {
        let words = self.tunnels.as_chunks::<WORDS>().0.get(slot as usize)?;
        Some(TunnelWord(std::array::from_fn(|n| words[n].load(Ordering::Relaxed))))
    }
}

impl Hops<'_> {
    /// The tunnel that an interface is, if it is one.
    #[inline]
    pub fn tunnel(&self, id: InterfaceId) -> Option<TunnelWord> {
        let slot = self.link(id).tunnel()?;
        self.tunnels().read(slot)
    }

    /// The tunnel that a packet came in by; `None`: none of the plane's.
    #[inline(always)]
    pub fn tunnel_at(&self, ends: &Ends) -> Option<TunnelWord> {
        let (words, hash) = (self.tunnels(), ends.hash());
        (0..PROBES).find_map(|n| {
            let slot = words.ends.get((hash + n) % PLACES)?.load(Ordering::Acquire);
            if slot == 0 { None } else { words.read(slot).filter(|tunnel| tunnel.is_at(ends)) }
        })
    }

    /// Whether Linux knows a host with this Ethernet address behind the end that an interface is.
    #[inline]
    pub fn knows_host(&self, id: InterfaceId, mac: [u8; 6]) -> bool {
        hosts::is_known(self.tunnels().hosts, id, mac)
    }
}
