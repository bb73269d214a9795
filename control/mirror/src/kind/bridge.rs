//! Bridges (`ip link add br0 type bridge`): several interfaces that are one link, with addresses on
//! the bridge. What comes in by a member to the bridge's own Ethernet address is routed as the
//! bridge's, and what is routed to a host on it leaves by the member that the host is behind.
//! Nothing configures it but `[[port]]`, which names members. One that is named itself is a port as
//! any other: its program stands behind the bridge, not in front of it.
//!
//! Linux keeps what makes a bridge: what it has learnt of hosts, the spanning tree, the frames
//! between members. The plane follows its word (`programmer::legs`), and takes from a member only
//! frames of hosts that Linux knows there, so that Linux learns from all others. A bridge that the
//! plane cannot do as Linux does it stays with Linux, whole.

use super::{Around, Is, Kind, Leg, NotOurs, Place, Queues, Said, Told, attribute, is_enslaved};
use crate::model::{Link, Links};
use fib::Tags;

const IFLA_BR_VLAN_FILTERING: u16 = 7;
const IFLA_BRPORT_STATE: u16 = 1;
const IFLA_BRPORT_LEARNING: u16 = 8;
const IFLA_BRPORT_LOCKED: u16 = 39;
/// `BR_STATE_FORWARDING`.
const FORWARDING: u8 = 3;
/// `rp_filter`: a sender must be where the route to it leads.
const STRICT: u8 = 1;
/// Tags of an interface of the plane's at most.
const MOST_TAGS: usize = 2;

/// What is said of a bridge.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bridge {
    /// It tells VLANs apart (`vlan_filtering 1`).
    pub vlans: bool,
}

/// What is said of a member of a bridge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bridged {
    /// Its state is `forwarding`: frames pass it.
    pub forwarding: bool,
    /// The bridge learns who is behind it from whoever sends by it: not with `learning off` or
    /// `locked on`.
    pub learns: bool,
}

/// Why a bridge stays with Linux.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
enum Why {
    #[error("neither it nor one of its members is a port of Bifrost's")]
    Unnamed,
    #[error("it tells VLANs apart (vlan_filtering 1)")]
    Vlans,
    #[error("it belongs to a bond or another bridge")]
    Enslaved,
    #[error("its member {0} has a smaller MTU than it has")]
    Narrow(String),
    #[error(
        "its member {0} is no port of Bifrost's, so only Linux can check sources strictly (rp_filter 1)"
    )]
    Strict(String),
}

impl Told for Bridge {
    const NAMES: &'static [&'static str] = &["bridge"];

    fn read(said: &Said<'_>) -> Option<Bridge> {
        let vlans = attribute(said.data, IFLA_BR_VLAN_FILTERING);
        Some(Bridge { vlans: vlans.is_some_and(|value| value != [0]) })
    }
}

impl Bridged {
    /// What `IFLA_INFO_SLAVE_DATA` or `IFLA_PROTINFO` says.
    pub(crate) fn read(data: &[u8]) -> Bridged {
        let is = |kind, value: u8| attribute(Some(data), kind) == Some(&[value]);
        Bridged {
            forwarding: is(IFLA_BRPORT_STATE, FORWARDING),
            learns: !is(IFLA_BRPORT_LEARNING, 0) && !is(IFLA_BRPORT_LOCKED, 1),
        }
    }
}

impl Kind for Bridge {
    fn place<'a>(&self, bridge: &'a Link, around: &Around<'a, '_>) -> Result<Place<'a>, NotOurs> {
        if around.port(bridge).is_some() {
            return super::port::Port.place(bridge, around);
        }
        let members = || around.links.members(bridge.ifindex);
        let legs: Vec<Leg<'a>> = members().filter(|member| is_ours(member, around)).map(leg).collect();
        if legs.is_empty() {
            return Err(Why::Unnamed.into());
        }
        if self.vlans {
            return Err(Why::Vlans.into());
        }
        if is_enslaved(bridge, around.links) {
            return Err(Why::Enslaved.into());
        }
        // Linux drops what does not fit, and tells nobody.
        if let Some(narrow) = members().find(|member| member.mtu < bridge.mtu) {
            return Err(Why::Narrow(narrow.name.clone()).into());
        }
        can_check(bridge, bridge, around)?;
        Ok(Place { base: bridge, legs, tags: Tags::None })
    }

    fn stands_for_members(&self) -> bool {
        true
    }
}

fn is_ours(member: &Link, around: &Around<'_, '_>) -> bool {
    around.port(member) == Some(Queues::Driver)
}

/// Whether sources that come in by an interface, a bridge or one that lies on it, can be checked as
/// it wants.
pub(super) fn can_check(bridge: &Link, link: &Link, around: &Around<'_, '_>) -> Result<(), NotOurs> {
    let other = around.links.members(bridge.ifindex).find(|member| !is_ours(member, around));
    match other.filter(|_| link.rp_filter == STRICT) {
        Some(other) => Err(Why::Strict(other.name.clone()).into()),
        None => Ok(()),
    }
}

fn leg(port: &Link) -> Leg<'_> {
    let forwarding = port.bridged.is_some_and(|bridged| bridged.forwarding);
    Leg { port, receives: forwarding, sends: port.is_sent_by_bridge() }
}

impl Link {
    /// Whether it is a bridge.
    pub fn is_bridge(&self) -> bool {
        matches!(self.is, Is::Bridge(_))
    }

    /// Whether the bridge that it is a member of sends by it now (`should_deliver` in Linux).
    pub fn is_sent_by_bridge(&self) -> bool {
        self.up && self.running && self.bridged.is_some_and(|bridged| bridged.forwarding)
    }
}

impl Links {
    /// The bridge that an interface is a member of.
    pub fn bridge_of(&self, link: &Link) -> Option<&Link> {
        self.by_index(link.master?).filter(|master| master.is_bridge())
    }

    /// The bridge that an interface is, or that it lies on with its tags.
    pub fn bridge_below<'a>(&'a self, link: &'a Link) -> Option<&'a Link> {
        let mut below = link;
        for _ in 0..MOST_TAGS {
            let Some(on) = below.is.kind().lies_on() else { break };
            below = self.by_index(on)?;
        }
        Some(below).filter(|below| below.is_bridge())
    }

    /// The bond or bridge that what enters and leaves by an interface may belong to.
    pub fn whole_of(&self, link: &Link) -> Option<&Link> {
        let bridge = || self.bridge_of(link).filter(|_| matches!(link.is, Is::Port(_)));
        self.bond_of(link).or_else(bridge)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kind::tests::{attribute, place, told};
    use crate::kind::{Vlan, Vrf};

    fn bridge() -> Link {
        Link { ifindex: 1, name: "br0".to_owned(), mtu: 1500, is: Bridge::default().into(), ..Link::default() }
    }

    fn member(ifindex: u32) -> Link {
        Link {
            ifindex,
            name: format!("eth{ifindex}"),
            mtu: 1500,
            up: true,
            running: true,
            master: Some(1),
            bridged: Some(Bridged { forwarding: true, learns: true }),
            ..Link::default()
        }
    }

    fn of(ports: &[&str], bridge: Link, members: &[Link]) -> Result<Vec<u32>, String> {
        let links: Vec<Link> = members.iter().cloned().chain([bridge]).collect();
        place(ports, &links).map(|(_, ports, _)| ports)
    }

    #[test]
    fn a_bridge_says_whether_it_tells_vlans_apart_and_a_member_its_state() {
        assert_eq!(told("bridge", &[(IFLA_BR_VLAN_FILTERING, &[1])]), Bridge { vlans: true }.into());
        assert_eq!(told("bridge", &[(IFLA_BR_VLAN_FILTERING, &[0])]), Bridge::default().into());
        assert_eq!(told("bridge", &[]), Bridge::default().into());
        // BR_STATE_DISABLED, LISTENING, LEARNING, FORWARDING, BLOCKING.
        for state in 0..=4 {
            let read = Bridged::read(&attribute(IFLA_BRPORT_STATE, &[state]));
            assert_eq!(read.forwarding, state == FORWARDING);
        }
        assert!(!Bridged::read(&[]).forwarding && Bridged::read(&[]).learns);
        for (kind, value, learns) in [
            (IFLA_BRPORT_LEARNING, 0, false),
            (IFLA_BRPORT_LEARNING, 1, true),
            (IFLA_BRPORT_LOCKED, 0, true),
            (IFLA_BRPORT_LOCKED, 1, false),
        ] {
            assert_eq!(Bridged::read(&attribute(kind, &[value])).learns, learns);
        }
    }

    #[test]
    fn a_bridge_is_ours_by_those_of_its_members_that_are_ports() {
        let both = [member(2), member(3)];
        assert_eq!(of(&["eth2", "eth3"], bridge(), &both), Ok(vec![2, 3]));
        assert_eq!(of(&["eth3"], bridge(), &both), Ok(vec![3]));
        assert_eq!(of(&["br0", "eth3"], bridge(), &both), Ok(vec![1]), "it is a port itself");
        let memif = Link { name: "memif0".to_owned(), ..member(4) };
        assert_eq!(of(&["eth2", "memif0"], bridge(), &[member(2), memif]), Ok(vec![2]));
        let vlan = Link { is: Vlan::default().into(), ..member(4) };
        assert_eq!(of(&["eth2", "eth4"], bridge(), &[member(2), vlan.clone()]), Ok(vec![2]));
        let links: Links = [bridge(), member(2), vlan].into_iter().collect();
        let whole = |ifindex| links.whole_of(links.by_index(ifindex).unwrap()).map(|whole| whole.ifindex);
        assert_eq!((whole(1), whole(2), whole(4)), (None, Some(1), None));
    }

    #[test]
    fn a_member_receives_and_sends_while_it_forwards() {
        let blocked = Link { bridged: Some(Bridged { forwarding: false, learns: true }), ..member(3) };
        let links: Links =
            [bridge(), member(2), blocked, Link { running: false, ..member(4) }].into_iter().collect();
        let ports: &dyn super::super::Ports = &&["eth2", "eth3", "eth4"][..];
        let place = Around { links: &links, ports }.place(links.by_index(1).unwrap()).unwrap();
        let legs: Vec<_> = place.legs.iter().map(|leg| (leg.port.ifindex, leg.receives, leg.sends)).collect();
        assert_eq!(legs, [(2, true, true), (3, false, false), (4, true, false)]);
        assert_eq!(place.whole().map(|whole| whole.ifindex), Some(1));
    }

    #[test]
    fn what_the_plane_cannot_do_is_linuxs() {
        let both = [member(2), member(3)];
        let refused = |why: Why| Err(why.to_string());
        let ports = &["eth2", "eth3"][..];
        let vlans = Link { is: Bridge { vlans: true }.into(), ..bridge() };
        assert_eq!(of(ports, vlans, &both), refused(Why::Vlans));
        assert_eq!(of(&["nic"], bridge(), &both), refused(Why::Unnamed));
        assert_eq!(of(ports, Link { master: Some(9), ..bridge() }, &both), refused(Why::Enslaved));
        let vrf = Link { ifindex: 9, is: Vrf { table: 9 }.into(), ..Link::default() };
        let inside = Link { master: Some(9), ..bridge() };
        assert_eq!(of(ports, inside, &[member(2), vrf]), Ok(vec![2]));
        let narrow = Link { mtu: 1400, ..member(3) };
        assert_eq!(of(ports, bridge(), &[member(2), narrow]), refused(Why::Narrow("eth3".to_owned())));
        let strict = || Link { rp_filter: STRICT, ..bridge() };
        assert_eq!(of(ports, strict(), &both), Ok(vec![2, 3]));
        assert_eq!(of(&["eth2"], strict(), &both), refused(Why::Strict("eth3".to_owned())));
    }
}
