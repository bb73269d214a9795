//! IP tunnels (`ip tunnel add gre1 mode gre remote 192.0.2.1 local 192.0.2.2`): a header in front
//! of the packets of an interface, which leave by whatever port leads to the other end. GRE, IPIP
//! and 6in4 over IPv4, GRE, IPv4 and IPv6 over IPv6 are the plane's with nothing to configure; what
//! makes their header other than the plane's ([`fib::Tunnel`]) is Linux's, whole. (6rd says nothing
//! where the other end is fixed.)

use super::{Around, Is, Kind, NotOurs, Place, Said, Told};
use crate::model::{Link, Links};
use crate::netlink::{attributes, u32_value};
use fib::{Ends, Gre, Over, Payload};
use std::net::IpAddr;

/// Attributes of GRE (`linux/if_tunnel.h`).
mod gre {
    pub const LINK: u16 = 1;
    pub const IFLAGS: u16 = 2;
    pub const OFLAGS: u16 = 3;
    pub const IKEY: u16 = 4;
    pub const OKEY: u16 = 5;
    pub const LOCAL: u16 = 6;
    pub const REMOTE: u16 = 7;
    pub const TTL: u16 = 8;
    pub const TOS: u16 = 9;
    pub const PMTUDISC: u16 = 10;
    pub const ENCAP_LIMIT: u16 = 11;
    pub const FLOWINFO: u16 = 12;
    pub const FLAGS: u16 = 13;
    pub const ENCAP_TYPE: u16 = 14;
    pub const COLLECT_METADATA: u16 = 18;
    pub const IGNORE_DF: u16 = 19;
    pub const FWMARK: u16 = 20;
}

/// Those of tunnels without GRE.
mod ip {
    pub const LINK: u16 = 1;
    pub const LOCAL: u16 = 2;
    pub const REMOTE: u16 = 3;
    pub const TTL: u16 = 4;
    pub const TOS: u16 = 5;
    pub const ENCAP_LIMIT: u16 = 6;
    pub const FLOWINFO: u16 = 7;
    pub const FLAGS: u16 = 8;
    pub const PROTO: u16 = 9;
    pub const PMTUDISC: u16 = 10;
    pub const ENCAP_TYPE: u16 = 15;
    pub const COLLECT_METADATA: u16 = 19;
    pub const FWMARK: u16 = 20;
}

/// `GRE_KEY` in `IFLA_GRE_IFLAGS` and `IFLA_GRE_OFLAGS`.
const KEY: u16 = 0x2000;
/// `GRE_CSUM`.
const CHECKSUM: u16 = 0x8000;
/// `GRE_SEQ`.
const SEQUENCE: u16 = 0x1000;
/// `SIT_ISATAP`.
const ISATAP: u16 = 1;

/// Flags of tunnels over IPv6 (`linux/ip6_tunnel.h`, `IP6_TNL_F_`).
mod flag {
    pub const NO_LIMIT: u32 = 0x1;
    pub const INHERIT_CLASS: u32 = 0x2;
    pub const INHERIT_LABEL: u32 = 0x4;
    pub const MOBILE: u32 = 0x8;
    pub const COPY_DSCP: u32 = 0x10;
    pub const INHERIT_MARK: u32 = 0x20;
}

/// What is said of a tunnel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tunnel {
    /// Its header, or why that is not the plane's.
    header: Result<fib::Tunnel, Why>,
    /// By what Linux knows packets that come in by it, where that is fixed.
    ends: Option<Ends>,
}

/// Why a tunnel stays with Linux.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
enum Why {
    #[error("a tunnel that carries Ethernet is Linux's")]
    Ethernet,
    #[error("its headers are set packet by packet (external)")]
    Metadata,
    #[error("it has no fixed ends (local and remote)")]
    Ends,
    #[error("it is bound to an interface (dev)")]
    Bound,
    #[error("it is in UDP (encap fou or gue)")]
    Udp,
    #[error("GRE with sequence numbers (seq)")]
    Sequence,
    #[error("it does not carry what tunnels of its kind do (mode)")]
    Mode,
    #[error("it is ISATAP's")]
    Isatap,
    #[error("its packets are routed by a mark (fwmark)")]
    Mark,
    #[error("its type of service is odd")]
    Tos,
    #[error("it copies what it reads in its headers into packets (dscp inherit)")]
    Copies,
    #[error("it is mobile IPv6's (mip6)")]
    Mobile,
    #[error("it belongs to a bond or bridge")]
    Enslaved,
    #[error("{0} has the same ends")]
    Twin(String),
}

/// What attributes of both kinds of messages say.
#[derive(Default)]
struct Values {
    local: Option<IpAddr>,
    remote: Option<IpAddr>,
    link: u32,
    ttl: u8,
    tos: u8,
    dont_fragment: bool,
    ignore_df: bool,
    flags: [u16; 2],
    keys: [u32; 2],
    encapsulated: bool,
    metadata: bool,
    mark: bool,
    protocol: u8,
    isatap: bool,
    /// Over IPv6: `IP6_TNL_F_`, traffic class and flow label, and how many more tunnels.
    flags6: u32,
    flow: u32,
    limit: u8,
}

/// A link-local one is an interface's, and the tunnel bound to it.
fn address(value: &[u8]) -> Option<IpAddr> {
    let address = match value.len() {
        4 => IpAddr::from(*value.first_chunk::<4>()?),
        _ => IpAddr::from(*value.first_chunk::<16>()?),
    };
    let linked = matches!(address, IpAddr::V6(address) if address.is_unicast_link_local());
    Some(address).filter(|address| !address.is_unspecified() && !address.is_multicast() && !linked)
}

fn byte(value: &[u8]) -> u8 {
    value.first().copied().unwrap_or_default()
}

/// In network order.
fn number16(value: &[u8]) -> u16 {
    value.first_chunk().map_or(0, |bytes| u16::from_be_bytes(*bytes))
}

/// In network order.
fn number32(value: &[u8]) -> u32 {
    value.first_chunk().map_or(0, |bytes| u32::from_be_bytes(*bytes))
}

/// Whether a number of any length is not 0.
fn is_set(value: &[u8]) -> bool {
    value.iter().any(|byte| *byte != 0)
}

impl Values {
    fn of_gre(data: &[u8]) -> Values {
        let mut values = Values::default();
        for (kind, value) in attributes(data) {
            match kind {
                gre::LINK => values.link = u32_value(value).unwrap_or_default(),
                gre::IFLAGS => values.flags[0] = number16(value),
                gre::OFLAGS => values.flags[1] = number16(value),
                gre::IKEY => values.keys[0] = number32(value),
                gre::OKEY => values.keys[1] = number32(value),
                gre::LOCAL => values.local = address(value),
                gre::REMOTE => values.remote = address(value),
                gre::TTL => values.ttl = byte(value),
                gre::TOS => values.tos = byte(value),
                gre::PMTUDISC => values.dont_fragment = is_set(value),
                gre::ENCAP_LIMIT => values.limit = byte(value),
                gre::FLOWINFO => values.flow = number32(value),
                gre::FLAGS => values.flags6 = u32_value(value).unwrap_or_default(),
                gre::ENCAP_TYPE => values.encapsulated = is_set(value),
                gre::COLLECT_METADATA => values.metadata = true,
                gre::IGNORE_DF => values.ignore_df = is_set(value),
                gre::FWMARK => values.mark = is_set(value),
                _ => {}
            }
        }
        values
    }

    fn of_ip(data: &[u8]) -> Values {
        let mut values = Values::default();
        for (kind, value) in attributes(data) {
            match kind {
                ip::LINK => values.link = u32_value(value).unwrap_or_default(),
                ip::LOCAL => values.local = address(value),
                ip::REMOTE => values.remote = address(value),
                ip::TTL => values.ttl = byte(value),
                ip::TOS => values.tos = byte(value),
                ip::ENCAP_LIMIT => values.limit = byte(value),
                ip::FLOWINFO => values.flow = number32(value),
                // 6in4's are two bytes.
                ip::FLAGS if value.len() == 2 => values.isatap = number16(value) & ISATAP != 0,
                ip::FLAGS => values.flags6 = u32_value(value).unwrap_or_default(),
                ip::PROTO => values.protocol = byte(value),
                ip::PMTUDISC => values.dont_fragment = is_set(value),
                ip::ENCAP_TYPE => values.encapsulated = is_set(value),
                ip::COLLECT_METADATA => values.metadata = true,
                ip::FWMARK => values.mark = is_set(value),
                _ => {}
            }
        }
        values
    }

    fn tunnel(&self, name: &str) -> Tunnel {
        Tunnel { header: self.header(name), ends: self.ends(name) }
    }

    fn ends(&self, name: &str) -> Option<Ends> {
        let protocol = match name {
            "gre" | "ip6gre" => wire::protocol::GRE,
            "ipip" => wire::protocol::IPIP,
            _ => wire::protocol::IPV6,
        };
        let key = (self.flags[0] & KEY != 0).then_some(self.keys[0]);
        Some(Ends::of(self.local?, self.remote?, protocol, key))
    }

    fn header(&self, name: &str) -> Result<fib::Tunnel, Why> {
        let payload = match (name, self.protocol) {
            ("gre" | "ip6gre", _) => {
                let [enters, leaves] = [0, 1].map(|way: usize| Gre {
                    key: (self.flags[way] & KEY != 0).then_some(self.keys[way]),
                    sum: self.flags[way] & CHECKSUM != 0,
                });
                Payload::Gre { enters, leaves }
            }
            // 0 is "any": IPIP carries MPLS as well, 6in4 IPv4 too, which is Linux's.
            ("ipip", 0 | wire::protocol::IPIP) => Payload::Ipv4,
            ("sit", 0 | wire::protocol::IPV6) => Payload::Ipv6,
            ("ip6tnl", 0) => Payload::Any,
            ("ip6tnl", wire::protocol::IPIP) => Payload::Ipv4,
            ("ip6tnl", wire::protocol::IPV6) => Payload::Ipv6,
            _ => return Err(Why::Mode),
        };
        let (both, has) = (self.flags[0] | self.flags[1], |flag: u32| self.flags6 & flag != 0);
        for (is, why) in [
            (self.metadata, Why::Metadata),
            (self.encapsulated, Why::Udp),
            (self.link != 0, Why::Bound),
            (both & SEQUENCE != 0, Why::Sequence),
            (self.isatap, Why::Isatap),
            (self.mark || has(flag::INHERIT_MARK), Why::Mark),
            (has(flag::COPY_DSCP), Why::Copies),
            (has(flag::MOBILE), Why::Mobile),
            (self.tos & 1 != 0 && self.tos != 1, Why::Tos),
        ] {
            if is {
                return Err(why);
            }
        }
        let Values { ttl, dont_fragment, ignore_df, .. } = *self;
        let (over, tos) = match (self.local, self.remote) {
            (Some(IpAddr::V4(local)), Some(IpAddr::V4(remote))) => {
                let tos = (self.tos != 1).then_some(self.tos);
                (Over::Ipv4 { local, remote, dont_fragment, ignore_df }, tos)
            }
            (Some(IpAddr::V6(local)), Some(IpAddr::V6(remote))) => {
                let label = (!has(flag::INHERIT_LABEL)).then_some(self.flow & 0xf_ffff);
                let limit = (!has(flag::NO_LIMIT)).then_some(self.limit);
                let class = (!has(flag::INHERIT_CLASS)).then_some((self.flow >> 20) as u8);
                (Over::Ipv6 { local, remote, label, limit }, class)
            }
            _ => return Err(Why::Ends),
        };
        Ok(fib::Tunnel { payload, ttl, tos, over })
    }
}

impl Told for Tunnel {
    const NAMES: &'static [&'static str] = &["gre", "ipip", "sit", "gretap", "ip6gre", "ip6gretap", "ip6tnl"];

    fn read(said: &Said<'_>) -> Option<Tunnel> {
        let name = said.name?;
        let linuxs = |why| Tunnel { header: Err(why), ends: None };
        Some(match name {
            "gretap" | "ip6gretap" => linuxs(Why::Ethernet),
            "gre" | "ip6gre" => Values::of_gre(said.data?).tunnel(name),
            _ => Values::of_ip(said.data?).tunnel(name),
        })
    }
}

impl Kind for Tunnel {
    fn place<'a>(&self, link: &'a Link, around: &Around<'a, '_>) -> Result<Place<'a>, NotOurs> {
        let tunnel = self.header.clone()?;
        if super::is_enslaved(link, around.links) {
            return Err(Why::Enslaved.into());
        }
        // One with the same ends that is bound to an interface has what comes in by that.
        if let Some(twin) = around.links.twins(link).next() {
            return Err(Why::Twin(twin.name.clone()).into());
        }
        Ok(Place::of_tunnels(link, vec![tunnel]))
    }

    fn has_neighbours(&self) -> bool {
        self.header == Err(Why::Ethernet)
    }

    fn is_tunnel(&self) -> bool {
        true
    }
}

impl Links {
    /// Other tunnels with the same ends: one of them is bound to an interface.
    pub fn twins<'a>(&'a self, link: &'a Link) -> impl Iterator<Item = &'a Link> {
        let ends = |link: &Link| if let Is::Tunnel(tunnel) = &link.is { tunnel.ends } else { None };
        let own = ends(link);
        let same = move |other: &&Link| own.is_some() && other.ifindex != link.ifindex && ends(other) == own;
        self.iter().filter(same)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kind::tests::{link, place, told};
    use fib::Tags;

    const LOCAL: [u8; 4] = [192, 0, 2, 1];
    const REMOTE: [u8; 4] = [192, 0, 2, 2];

    fn ours(payload: Payload) -> fib::Tunnel {
        let (local, remote) = (LOCAL.into(), REMOTE.into());
        let over = Over::Ipv4 { local, remote, dont_fragment: true, ignore_df: false };
        fib::Tunnel { payload, ttl: 0, tos: None, over }
    }

    const LOCAL6: [u8; 16] = [0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
    const REMOTE6: [u8; 16] = [0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2];

    fn of(name: &str, data: &[(u16, &[u8])]) -> Result<Tags, String> {
        let tunnel = Link { is: told(name, data), ..link(5) };
        place(&[], &[tunnel]).map(|(_, ports, tags)| {
            assert!(ports.is_empty());
            tags
        })
    }

    #[test]
    fn a_tunnel_says_its_header() {
        let ends = [(gre::LOCAL, &LOCAL[..]), (gre::REMOTE, &REMOTE), (gre::TOS, &[1]), (gre::PMTUDISC, &[1])];
        let plain = Payload::Gre { enters: Gre::PLAIN, leaves: Gre::PLAIN };
        assert_eq!(of("gre", &ends), Ok(Tags::Tunnel(ours(plain))));
        let keys = [(gre::IFLAGS, &[0x20, 0][..]), (gre::IKEY, &[0, 0, 0, 7]), (gre::OKEY, &[0, 0, 0, 9])];
        let only_in = Payload::Gre { enters: Gre { key: Some(7), sum: false }, leaves: Gre::PLAIN };
        assert_eq!(of("gre", &[&ends[..], &keys].concat()), Ok(Tags::Tunnel(ours(only_in))));
        let sums = Payload::Gre { enters: Gre::PLAIN, leaves: Gre { key: None, sum: true } };
        assert_eq!(of("gre", &[&ends[..], &[(gre::OFLAGS, &[0x80, 0])]].concat()), Ok(Tags::Tunnel(ours(sums))));
        let set = [(gre::TTL, &[64][..]), (gre::TOS, &[0x10]), (gre::PMTUDISC, &[0]), (gre::IGNORE_DF, &[1])];
        let (local, remote) = (LOCAL.into(), REMOTE.into());
        let over = Over::Ipv4 { local, remote, dont_fragment: false, ignore_df: true };
        let other = fib::Tunnel { ttl: 64, tos: Some(0x10), over, ..ours(plain) };
        assert_eq!(of("gre", &[&ends[..], &set].concat()), Ok(Tags::Tunnel(other)));
        let ends = [(ip::LOCAL, &LOCAL[..]), (ip::REMOTE, &REMOTE), (ip::TOS, &[1]), (ip::PMTUDISC, &[1])];
        let (four, six) = (Payload::Ipv4, Payload::Ipv6);
        for (name, protocol, payload) in [("ipip", 4, four), ("ipip", 0, four), ("sit", 41, six)] {
            let mode = [(ip::PROTO, &[protocol][..])];
            assert_eq!(of(name, &[&ends[..], &mode].concat()), Ok(Tags::Tunnel(ours(payload))));
        }
    }

    #[test]
    fn one_over_ipv6_says_its_header() {
        let over = |label, limit| Over::Ipv6 { local: LOCAL6.into(), remote: REMOTE6.into(), label, limit };
        let said = |flags: u32, flow: [u8; 4]| (flags.to_ne_bytes(), flow);
        let (flags, flow) = said(0, [0x0b, 0x81, 0x23, 0x45]);
        let ends = [(ip::LOCAL, &LOCAL6[..]), (ip::REMOTE, &REMOTE6), (ip::TTL, &[64]), (ip::ENCAP_LIMIT, &[4])];
        for (mode, payload) in [(0, Payload::Any), (4, Payload::Ipv4), (41, Payload::Ipv6)] {
            let rest = [(ip::PROTO, &[mode][..]), (ip::FLOWINFO, &flow), (ip::FLAGS, &flags)];
            let wanted =
                fib::Tunnel { payload, ttl: 64, tos: Some(0xb8), over: over(Some(0x12345), Some(4)) };
            assert_eq!(of("ip6tnl", &[&ends[..], &rest].concat()), Ok(Tags::Tunnel(wanted)), "{mode}");
        }
        let ends = [(gre::LOCAL, &LOCAL6[..]), (gre::REMOTE, &REMOTE6), (gre::ENCAP_LIMIT, &[4])];
        let keys = [(gre::OFLAGS, &[0x20, 0][..]), (gre::OKEY, &[0, 0, 0, 9])];
        let (flags, flow) = said(flag::NO_LIMIT | flag::INHERIT_CLASS | flag::INHERIT_LABEL, [0; 4]);
        let rest = [(gre::FLOWINFO, &flow[..]), (gre::FLAGS, &flags)];
        let payload = Payload::Gre { enters: Gre::PLAIN, leaves: Gre { key: Some(9), sum: false } };
        let wanted = fib::Tunnel { payload, ttl: 0, tos: None, over: over(None, None) };
        assert_eq!(of("ip6gre", &[&ends[..], &keys, &rest].concat()), Ok(Tags::Tunnel(wanted)));
        for (flag, why) in
            [(flag::COPY_DSCP, Why::Copies), (flag::MOBILE, Why::Mobile), (flag::INHERIT_MARK, Why::Mark)]
        {
            let said = flag.to_ne_bytes();
            let rest = [(gre::FLAGS, &said[..])];
            assert_eq!(of("ip6gre", &[&ends[..], &rest].concat()), Err(why.to_string()));
        }
        let local = [0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
        let linked = [(ip::LOCAL, &local[..]), (ip::REMOTE, &REMOTE6)];
        assert_eq!(of("ip6tnl", &linked), Err(Why::Ends.to_string()));
    }

    #[test]
    fn what_the_plane_cannot_do_is_linuxs() {
        let ends = [(gre::LOCAL, &LOCAL[..]), (gre::REMOTE, &REMOTE)];
        let gre = |more: &[(u16, &[u8])]| of("gre", &[&ends[..], more].concat());
        let refused = |why: Why| Err(why.to_string());
        assert_eq!(of("gre", &ends[..1]), refused(Why::Ends));
        assert_eq!(of("gre", &[ends[0], (gre::REMOTE, &[239, 1, 1, 1])]), refused(Why::Ends));
        assert_eq!(of("gre", &[ends[0], (gre::REMOTE, &[0; 4])]), refused(Why::Ends));
        assert_eq!(gre(&[(gre::LINK, &3u32.to_ne_bytes())]), refused(Why::Bound));
        assert_eq!(gre(&[(gre::IFLAGS, &[0x10, 0])]), refused(Why::Sequence));
        assert_eq!(gre(&[(gre::ENCAP_TYPE, &[1, 0])]), refused(Why::Udp));
        assert_eq!(gre(&[(gre::COLLECT_METADATA, &[])]), refused(Why::Metadata));
        assert_eq!(gre(&[(gre::FWMARK, &[1, 0, 0, 0])]), refused(Why::Mark));
        assert_eq!(gre(&[(gre::TOS, &[0x11])]), refused(Why::Tos));
        let ends = [(ip::LOCAL, &LOCAL[..]), (ip::REMOTE, &REMOTE)];
        let ip = |name: &str, protocol, more: (u16, &[u8])| {
            of(name, &[&ends[..], &[(ip::PROTO, &[protocol][..]), more]].concat())
        };
        let nothing = (ip::TTL, &[0][..]);
        assert_eq!(ip("ipip", 137, nothing), refused(Why::Mode));
        assert_eq!(ip("sit", 4, nothing), refused(Why::Mode));
        assert_eq!(ip("sit", 41, (ip::FLAGS, &[0, 1])), refused(Why::Isatap));
        assert_eq!(of("ip6tnl", &[]), refused(Why::Ends));
        assert_eq!(of("ip6gretap", &[]), refused(Why::Ethernet));
        assert_eq!(of("gretap", &[]), refused(Why::Ethernet));
    }

    #[test]
    fn one_with_the_same_ends_is_in_the_way() {
        let ends = [(gre::LOCAL, &LOCAL[..]), (gre::REMOTE, &REMOTE)];
        let bound = [ends[0], ends[1], (gre::LINK, &3u32.to_ne_bytes())];
        let other = Link { is: told("gre", &bound), ..link(4) };
        let own = Link { is: told("gre", &ends), ..link(5) };
        assert_eq!(place(&[], &[other.clone(), own.clone()]), Err("e4 has the same ends".to_owned()));
        let keyed = [ends[0], ends[1], (gre::IFLAGS, &[0x20, 0]), (gre::IKEY, &[0, 0, 0, 7])];
        let keyed = Link { is: told("gre", &keyed), ..link(6) };
        assert!(place(&[], &[other, own, keyed]).is_ok(), "but for the key");
        let ends = [(ip::LOCAL, &LOCAL6[..]), (ip::REMOTE, &REMOTE6)];
        let bound = [ends[0], ends[1], (ip::LINK, &3u32.to_ne_bytes()), (ip::PROTO, &[4])];
        let other = Link { is: told("ip6tnl", &bound), ..link(4) };
        let own = Link { is: told("ip6tnl", &ends), ..link(5) };
        assert_eq!(place(&[], &[other, own]), Err("e4 has the same ends".to_owned()), "whatever is in them");
    }
}
