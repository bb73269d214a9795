//! VXLANs (`ip link add vx0 type vxlan id 7 local 192.0.2.1 remote 192.0.2.2 dstport 4789`): links
//! of Ethernet whose frames pass in UDP to other ends (RFC 7348), of which each host is behind one.
//! Linux knows which, because it was told or has learnt it (`bridge fdb`). One with addresses is
//! the plane's with nothing to configure, but for what makes its packets other than the plane's
//! ([`fib::Vxlan`]).
//!
//! As a member of a bridge with addresses, a VXLAN is a part of that link (`bridge`).
//!
//! Frames to hosts that Linux does not know are its own, to all ends where they might be. So are
//! those that come from hosts that it does not know, where it learns from them.

use super::{Around, Is, Kind, NotOurs, Place, Said, Told};
use crate::model::{Link, Links};
use crate::netlink::vtep::Vtep;
use crate::netlink::{attributes, u32_value};
use fib::{Over, Payload};
use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv6Addr};
use wire::Mac;

/// Attributes (`linux/if_link.h`, `IFLA_VXLAN_`).
mod of {
    pub const ID: u16 = 1;
    pub const LINK: u16 = 3;
    pub const LOCAL: u16 = 4;
    pub const TTL: u16 = 5;
    pub const TOS: u16 = 6;
    pub const LEARNING: u16 = 7;
    pub const PORT_RANGE: u16 = 10;
    pub const RSC: u16 = 12;
    pub const PORT: u16 = 15;
    pub const LOCAL6: u16 = 17;
    pub const UDP_CSUM: u16 = 18;
    pub const UDP_ZERO_CSUM6_TX: u16 = 19;
    pub const UDP_ZERO_CSUM6_RX: u16 = 20;
    pub const REMCSUM_TX: u16 = 21;
    pub const REMCSUM_RX: u16 = 22;
    pub const GBP: u16 = 23;
    pub const COLLECT_METADATA: u16 = 25;
    pub const LABEL: u16 = 26;
    pub const GPE: u16 = 27;
    pub const TTL_INHERIT: u16 = 28;
    pub const DF: u16 = 29;
    pub const LABEL_POLICY: u16 = 32;
    pub const RESERVED_BITS: u16 = 33;
}

/// `VXLAN_DF_SET` and `VXLAN_DF_INHERIT`.
const DF_SET: u8 = 1;
const DF_INHERIT: u8 = 2;
/// `net.ipv4.ip_default_ttl` and its like of IPv6, as they are if nobody changes them.
const DEFAULT_TTL: u8 = 64;
/// `net.ipv4.ip_local_port_range`, likewise: the first, and the one behind the last.
const SOURCES: (u16, u16) = (32_768, 61_000);
/// Type of service that stands for that of the packet inside.
const INHERIT: u8 = 1;
/// The reserved bits of a header that are set in none (`IFLA_VXLAN_RESERVED_BITS`): all but the
/// flag that says that there is a number, and but the number.
const RESERVED: [u8; 8] = [0xf7, 0xff, 0xff, 0xff, 0, 0, 0, 0xff];

/// What is said of a VXLAN.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vxlan {
    /// Its packets to any other end, or why they are not the plane's.
    header: Result<Header, Why>,
    /// The interface that frames to hosts that it does not know leave by; 0: whichever leads there.
    pub by: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Header {
    /// `sum` is of IPv4.
    vxlan: fib::Vxlan,
    /// Its own address; `None`: Linux chooses one for each end.
    local: Option<IpAddr>,
    /// What leaves over IPv6 has a checksum.
    sum6: bool,
    ttl: u8,
    tos: Option<u8>,
    /// Of IPv6.
    label: u32,
    /// Of IPv4: set always; else as the packet inside has it, if that is asked for.
    dont_fragment: bool,
    inherits_df: bool,
}

/// An end of a VXLAN that has no address of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unsourced {
    pub(crate) vxlan: u32,
    /// The interface that it is on; 0: none.
    pub(crate) by: u32,
    pub(crate) end: IpAddr,
}

/// Why a VXLAN stays with Linux.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
enum Why {
    #[error("its headers are set packet by packet (external)")]
    Metadata,
    #[error("Linux knows no address to send from (local)")]
    Local,
    #[error("it has no number (id)")]
    Number,
    #[error("its headers say more than VXLAN's do (gbp, gpe, remcsum)")]
    Extended,
    #[error("it sends what is routed past routers (rsc)")]
    Short,
    #[error("it takes the flow label from what is inside (flowlabel inherit)")]
    Label,
    #[error("it passes over bits of headers that are reserved (reserved_bits)")]
    Reserved,
    #[error("it belongs to a bond or bridge, which has what passes it")]
    Enslaved,
    #[error("the interface that it is on (dev) belongs to a VRF")]
    Vrf,
    #[error("it knows no other end that is one host (remote, bridge fdb)")]
    Nobody,
}

impl Told for Vxlan {
    const NAMES: &'static [&'static str] = &["vxlan"];

    fn read(said: &Said<'_>) -> Option<Vxlan> {
        let mut by = 0;
        let header = Header::read(said.data?, &mut by);
        Some(Vxlan { header, by })
    }
}

impl Header {
    fn read(data: &[u8], by: &mut u32) -> Result<Header, Why> {
        let (mut vni, mut local, mut why) = (None, None, None);
        let mut vxlan =
            fib::Vxlan { vni: 0, port: 0, sources: SOURCES, sum: false, unsummed: false, learns: false };
        let (mut ttl, mut inherits_ttl, mut tos, mut label, mut df) = (0, false, 0, 0, 0);
        let mut sum6 = true;
        for (kind, value) in attributes(data) {
            let is_set = value.iter().any(|byte| *byte != 0);
            let byte = value.first().copied().unwrap_or_default();
            let number = value.first_chunk().map_or(0, |bytes| u32::from_be_bytes(*bytes));
            match kind {
                of::ID => vni = u32_value(value),
                of::LINK => *by = u32_value(value).unwrap_or_default(),
                of::LOCAL => local = value.first_chunk::<4>().map(|address| IpAddr::from(*address)),
                of::LOCAL6 => local = value.first_chunk::<16>().map(|address| Ipv6Addr::from(*address).into()),
                of::TTL => ttl = byte,
                of::TTL_INHERIT => inherits_ttl = is_set,
                of::TOS => tos = byte,
                of::LABEL => label = number,
                of::DF => df = byte,
                of::LEARNING => vxlan.learns = is_set,
                of::PORT => vxlan.port = value.first_chunk().map_or(0, |bytes| u16::from_be_bytes(*bytes)),
                of::PORT_RANGE if is_set => vxlan.sources = ((number >> 16) as u16, number as u16),
                of::UDP_CSUM => vxlan.sum = is_set,
                of::UDP_ZERO_CSUM6_TX => sum6 = !is_set,
                of::UDP_ZERO_CSUM6_RX => vxlan.unsummed = is_set,
                of::COLLECT_METADATA if is_set => why = Some(Why::Metadata),
                of::RSC if is_set => why = why.or(Some(Why::Short)),
                of::REMCSUM_TX | of::REMCSUM_RX if is_set => why = why.or(Some(Why::Extended)),
                // Flags, which are there or not.
                of::GBP | of::GPE => why = why.or(Some(Why::Extended)),
                of::LABEL_POLICY if is_set => why = why.or(Some(Why::Label)),
                of::RESERVED_BITS if *value != RESERVED => why = why.or(Some(Why::Reserved)),
                _ => {}
            }
        }
        if let Some(why) = why {
            return Err(why);
        }
        let local = local.filter(|local| !local.is_unspecified());
        vxlan.vni = vni.ok_or(Why::Number)?;
        let ttl = match ttl {
            0 if inherits_ttl => 0,
            0 => DEFAULT_TTL,
            ttl => ttl,
        };
        let tos = (tos != INHERIT).then_some(tos);
        let (dont_fragment, inherits_df) = (df == DF_SET, df == DF_INHERIT);
        Ok(Header { vxlan, local, sum6, ttl, tos, label: label & 0xf_ffff, dont_fragment, inherits_df })
    }

    /// Its packets from one end to another; `None` where these have addresses of two families.
    fn between(&self, local: IpAddr, remote: IpAddr) -> Option<fib::Tunnel> {
        let Header { vxlan, sum6, ttl, tos, label, dont_fragment, inherits_df, .. } = *self;
        let sum = if remote.is_ipv4() { vxlan.sum } else { sum6 };
        let over = match (local, remote) {
            (IpAddr::V4(local), IpAddr::V4(remote)) => {
                Over::Ipv4 { local, remote, dont_fragment, ignore_df: !inherits_df }
            }
            (IpAddr::V6(local), IpAddr::V6(remote)) => {
                Over::Ipv6 { local, remote, label: Some(label), limit: None }
            }
            _ => return None,
        };
        Some(fib::Tunnel { payload: Payload::Vxlan(fib::Vxlan { sum, ..vxlan }), ttl, tos, over })
    }
}

impl Kind for Vxlan {
    fn place<'a>(&self, link: &'a Link, around: &Around<'a, '_>) -> Result<Place<'a>, NotOurs> {
        if super::is_enslaved(link, around.links) {
            return Err(Why::Enslaved.into());
        }
        Ok(Place::of_tunnels(link, self.tunnels(link, around.links)?))
    }

    fn is_tunnel(&self) -> bool {
        true
    }
}

impl Vxlan {
    /// Its packets to each other end.
    fn tunnels(&self, link: &Link, links: &Links) -> Result<Vec<fib::Tunnel>, Why> {
        let header = self.header.clone()?;
        let below = links.by_index(self.by);
        if below.is_some_and(|below| links.vrf_of(below).is_some()) {
            return Err(Why::Vrf);
        }
        let (mut tunnels, mut why) = (Vec::new(), Why::Nobody);
        for end in links.ends_of(link) {
            match header.local.or_else(|| links.source_of(link.ifindex, end)) {
                Some(local) => tunnels.extend(header.between(local, end)),
                None => why = Why::Local,
            }
        }
        if tunnels.is_empty() { Err(why) } else { Ok(tunnels) }
    }

    /// Whether packets to an end leave as the plane sends them.
    fn leads_to(&self, end: &Vtep) -> Option<IpAddr> {
        end.address.filter(|_| end.by == 0 || end.by == self.by)
    }
}

impl Link {
    /// What it is as a VXLAN, if it is one.
    pub fn vxlan(&self) -> Option<&Vxlan> {
        if let Is::Vxlan(vxlan) = &self.is { Some(vxlan) } else { None }
    }

    /// Whether it is a VXLAN.
    pub fn is_vxlan(&self) -> bool {
        self.vxlan().is_some()
    }
}

impl Links {
    /// What passes a VXLAN that is a member of a bridge, by its headers; `None` where only Linux
    /// knows these. The bridge may learn from what comes in as well.
    pub(super) fn bridged_ends(&self, member: &Link) -> Option<Vec<fib::Tunnel>> {
        let mut tunnels = member.vxlan()?.tunnels(member, self).ok()?;
        let bridge_learns = member.bridged.is_none_or(|bridged| bridged.learns);
        for tunnel in &mut tunnels {
            if let Payload::Vxlan(vxlan) = &mut tunnel.payload {
                vxlan.learns |= bridge_learns;
            }
        }
        Some(tunnels)
    }

    /// The end of a VXLAN that frames to a host leave for, if they leave as the plane sends them.
    pub(crate) fn end_towards(&self, link: &Link, mac: Mac) -> Option<IpAddr> {
        let host = self.vtep_of_host(link.ifindex, mac);
        link.vxlan()?.leads_to(&host.or_else(|| self.vtep_of_anybody(link.ifindex))?)
    }

    /// The end of a VXLAN that frames of a host may come by, if it learns from them; else any that
    /// leads there.
    pub fn end_from(&self, link: &Link, mac: Mac) -> Option<IpAddr> {
        let learns = matches!(link.vxlan()?.header, Ok(Header { vxlan: fib::Vxlan { learns: true, .. }, .. }));
        match learns {
            true => self.vtep_of_host(link.ifindex, mac)?.address,
            false => self.end_towards(link, mac),
        }
    }

    /// All other ends of a VXLAN.
    fn ends_of(&self, link: &Link) -> BTreeSet<IpAddr> {
        let vteps = self.vteps_of(link.ifindex);
        vteps.iter().filter_map(|end| link.vxlan()?.leads_to(end)).collect()
    }

    /// The ends of a VXLAN without an address of its own.
    pub(crate) fn ends_without_source(&self, link: &Link) -> Vec<Unsourced> {
        let chosen = |vxlan: &&Vxlan| matches!(vxlan.header, Ok(Header { local: None, .. }));
        let Some(vxlan) = link.vxlan().filter(chosen) else { return Vec::new() };
        let of = |end| Unsourced { vxlan: link.ifindex, by: vxlan.by, end };
        self.ends_of(link).into_iter().map(of).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kind::tests::{link, told};
    use crate::netlink::vtep::VtepMessage;

    const LOCAL: [u8; 4] = [192, 0, 2, 1];
    const VNI: [u8; 4] = 7u32.to_ne_bytes();
    const PORT: [u8; 2] = 4789u16.to_be_bytes();
    /// What Linux says of every one.
    const USUAL: [(u16, &[u8]); 8] = [
        (of::ID, &VNI),
        (of::LOCAL, &LOCAL),
        (of::PORT_RANGE, &[0; 4]),
        (of::TTL, &[0]),
        (of::LEARNING, &[1]),
        (of::PORT, &PORT),
        (of::UDP_CSUM, &[1]),
        (of::RESERVED_BITS, &RESERVED),
    ];

    /// What its packets are to these ends.
    fn of(data: &[(u16, &[u8])], ends: &[(Mac, Vtep)]) -> Result<Vec<fib::Tunnel>, String> {
        let vxlan = Link { is: told("vxlan", &[&USUAL[..], data].concat()), ..link(5) };
        let mut links: Links = [vxlan].into_iter().collect();
        for (mac, end) in ends {
            links.set_remote(&VtepMessage { vxlan: 5, mac: *mac, end: *end });
        }
        let around = Around { links: &links, ports: &&[][..] };
        let place = around.place(links.by_index(5).unwrap());
        place.map(|place| place.tunnels).map_err(|why| why.to_string())
    }

    fn end(last: u8, by: u32) -> (Mac, Vtep) {
        (Mac([2, 0, 0, 0, 0, last]), Vtep { address: Some([192, 0, 2, last].into()), by })
    }

    fn ours(last: u8) -> fib::Tunnel {
        let (local, remote) = (LOCAL.into(), [192, 0, 2, last].into());
        let over = Over::Ipv4 { local, remote, dont_fragment: false, ignore_df: true };
        let (vni, port, sources) = (7, 4789, SOURCES);
        let vxlan = fib::Vxlan { vni, port, sources, sum: true, unsummed: false, learns: true };
        fib::Tunnel { payload: Payload::Vxlan(vxlan), ttl: 64, tos: Some(0), over }
    }

    #[test]
    fn a_vxlan_says_its_header_and_has_one_for_each_end() {
        assert_eq!(of(&[], &[end(2, 0), end(3, 0)]), Ok(vec![ours(2), ours(3)]));
        let set: [(u16, &[u8]); 8] = [
            (of::TTL_INHERIT, &[1]),
            (of::TOS, &[1]),
            (of::DF, &[DF_INHERIT]),
            (of::PORT_RANGE, &[0x30, 0, 0x40, 0]),
            (of::PORT, &[0x21, 0x18]),
            (of::LEARNING, &[0]),
            (of::UDP_CSUM, &[0]),
            (of::LINK, &[3, 0, 0, 0]),
        ];
        let [tunnel] = of(&set, &[end(2, 3)]).unwrap()[..] else { panic!("one end") };
        let (local, remote) = (LOCAL.into(), [192, 0, 2, 2].into());
        let over = Over::Ipv4 { local, remote, dont_fragment: false, ignore_df: false };
        let (port, sources) = (0x2118, (0x3000, 0x4000));
        let vxlan = fib::Vxlan { vni: 7, port, sources, sum: false, unsummed: false, learns: false };
        assert_eq!(tunnel, fib::Tunnel { payload: Payload::Vxlan(vxlan), ttl: 0, tos: None, over });
        let [tunnel] = of(&[(of::TTL, &[9]), (of::DF, &[DF_SET])], &[end(2, 0)]).unwrap()[..] else { panic!() };
        assert!(matches!(tunnel, fib::Tunnel { ttl: 9, over: Over::Ipv4 { dont_fragment: true, .. }, .. }));
    }

    #[test]
    fn one_over_ipv6_has_checksums_unless_it_says_otherwise() {
        let [local, remote] = [1, 2].map(|last| Ipv6Addr::from(0x2001_0db8 << 96 | last));
        let octets = local.octets();
        let end = (Mac([2; 6]), Vtep { address: Some(remote.into()), by: 0 });
        let label = [0, 1, 2, 3];
        let usual = [(of::LOCAL6, &octets[..]), (of::LABEL, &label)];
        let over = Over::Ipv6 { local, remote, label: Some(0x10203), limit: None };
        for (zero, sum) in [([0], true), ([1], false)] {
            let more = [(of::UDP_ZERO_CSUM6_TX, &zero[..]), (of::UDP_ZERO_CSUM6_RX, &zero)];
            let [tunnel] = of(&[&usual[..], &more].concat(), &[end]).unwrap()[..] else { panic!("one") };
            let vxlan = *tunnel.payload.vxlan().unwrap();
            assert_eq!((vxlan.sum, vxlan.unsummed, tunnel.over), (sum, !sum, over));
        }
        assert!(of(&usual, &[self::end(2, 0)]).unwrap_err().contains("no other end"), "of another family");
    }

    #[test]
    fn what_the_plane_does_not_do_is_said() {
        let why = |data: &[(u16, &[u8])]| of(data, &[end(2, 0)]).unwrap_err();
        for (data, word) in [
            ((of::COLLECT_METADATA, &[1][..]), "external"),
            ((of::LOCAL, &[0; 4]), "no address to send from"),
            ((of::GBP, &[]), "gbp"),
            ((of::GPE, &[]), "gpe"),
            ((of::REMCSUM_RX, &[1]), "remcsum"),
            ((of::RSC, &[1]), "rsc"),
            ((of::LABEL_POLICY, &[1, 0, 0, 0]), "flowlabel inherit"),
            ((of::RESERVED_BITS, &[0xff; 8]), "reserved_bits"),
        ] {
            assert!(why(&[data]).contains(word), "{word}: {}", why(&[data]));
        }
        assert!(of(&[], &[]).unwrap_err().contains("no other end"));
        let group = (Mac([0; 6]), Vtep { address: None, by: 0 });
        assert!(of(&[], &[group]).unwrap_err().contains("no other end"));
        assert_eq!(of(&[], &[group, end(2, 0)]), Ok(vec![ours(2)]));
        assert!(of(&[], &[end(2, 9)]).unwrap_err().contains("no other end"), "by another interface than its own");
    }

    #[test]
    fn without_an_address_of_its_own_it_has_the_one_that_linux_chooses() {
        let usual: Vec<_> = USUAL.iter().filter(|(kind, _)| *kind != of::LOCAL).copied().collect();
        let mut links: Links = [Link { is: told("vxlan", &usual), ..link(5) }].into_iter().collect();
        let (mac, end) = end(2, 0);
        links.set_remote(&VtepMessage { vxlan: 5, mac, end });
        let remote = [192, 0, 2, 2].into();
        let asked = links.ends_without_source(links.by_index(5).unwrap());
        assert_eq!(asked, [Unsourced { vxlan: 5, by: 0, end: remote }]);
        let tunnels = |links: &Links| {
            let place = Around { links, ports: &&[][..] }.place(links.by_index(5).unwrap());
            place.map(|place| place.tunnels).map_err(|why| why.to_string())
        };
        assert!(tunnels(&links).unwrap_err().contains("no address to send from"));
        assert!(links.set_source((5, remote), Some(LOCAL.into())) && !links.set_source((5, remote), Some(LOCAL.into())));
        assert_eq!(tunnels(&links), Ok(vec![ours(2)]));
        assert!(links.set_source((5, remote), None));
        assert!(tunnels(&links).is_err());
    }

    #[test]
    fn a_member_of_a_bridge_is_linuxs() {
        let is = || told("vxlan", &USUAL);
        let vxlan = Link { is: is(), master: Some(9), ..link(5) };
        let bridge = Link { is: crate::kind::Bridge::default().into(), ..link(9) };
        let links: Links = [vxlan, bridge].into_iter().collect();
        let around = Around { links: &links, ports: &&[][..] };
        let why = around.place(links.by_index(5).unwrap()).unwrap_err().to_string();
        assert!(why.contains("bond or bridge"), "{why}");
    }
}
