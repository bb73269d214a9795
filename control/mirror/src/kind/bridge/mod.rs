//! Bridges (`ip link add br0 type bridge`): several interfaces that are one link, with addresses on
//! the bridge. What comes in by a member to the bridge's own Ethernet address is routed as the
//! bridge's, and what is routed to a host on it leaves by the member that the host is behind.
//! Nothing configures it but `[[port]]`, which names members. One that is named itself is a port as
//! any other: its program stands behind the bridge, not in front of it.
//!
//! A member may be a VXLAN, as where EVPN joins bridges of several routers: hosts behind its ends
//! are on the bridge as well, and it is the plane's without being named.
//!
//! Linux keeps what makes a bridge: what it has learnt of hosts, the spanning tree, the frames
//! between members. The plane follows its word (`programmer::legs`), and takes from a member only
//! frames of hosts that Linux knows there, so that Linux learns from all others. A bridge that the
//! plane cannot do as Linux does it stays with Linux, whole.
//!
//! A bridge that tells VLANs apart is a link of its own for each VLAN, with an interface that has
//! addresses: the bridge itself has the VLAN without a tag, and a VLAN device on it (`br0.10`) has
//! another. Frames of a VLAN have a tag on some members and none on others, as Linux says of each
//! (`bridge vlan`): so each leg has tags of its own, and what comes by a member without a tag is
//! the interface's that has the member's VLAN.

use super::{Around, Is, Kind, Leg, NotOurs, Place, Queues, Said, Told, attribute, is_enslaved};
use crate::model::{Link, Links, Passage};
use crate::netlink::u32_at;
use crate::netlink::vlan::FORWARDING;
use fib::{Tag, Tags};
use wire::ethernet;

const IFLA_BR_VLAN_FILTERING: u16 = 7;
const IFLA_BR_VLAN_PROTOCOL: u16 = 8;
const IFLA_BR_MULTI_BOOLOPT: u16 = 46;
/// `BR_BOOLOPT_MST_ENABLE`, as a bit.
const TREES: u32 = 1 << 2;
const IFLA_BRPORT_STATE: u16 = 1;
const IFLA_BRPORT_LEARNING: u16 = 8;
const IFLA_BRPORT_LOCKED: u16 = 39;
/// `rp_filter`: a sender must be where the route to it leads.
const STRICT: u8 = 1;
/// Tags of an interface of the plane's at most.
const MOST_TAGS: usize = 2;

/// What is said of a bridge.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bridge {
    /// It tells VLANs apart (`vlan_filtering 1`).
    pub vlans: bool,
    /// Their tags are 802.1ad's, else 802.1Q's.
    pub service: bool,
    /// Some VLANs have spanning trees of their own (`mst_enabled 1`).
    pub trees: bool,
}

/// What is said of a member of a bridge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bridged {
    /// Its state is `forwarding`: frames pass it.
    pub forwarding: bool,
    /// The bridge learns who is behind it from whoever sends by it: not with `learning off` or
    /// `locked on`.
    pub learns: bool,
    /// Only hosts that it knows may send by it (`locked on`).
    pub locked: bool,
}

/// Why a bridge stays with Linux.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
enum Why {
    #[error("neither it nor one of its members is a port of Bifrost's")]
    Unnamed,
    #[error("VLANs on it have spanning trees of their own (mst_enabled 1)")]
    Trees,
    #[error("it has no VLAN without a tag (bridge vlan add dev {0} vid 1 pvid untagged self)")]
    Untagged(String),
    #[error("its tags are of another kind (vlan_protocol)")]
    Protocol,
    #[error("it has no VLAN {vlan} with a tag (bridge vlan add dev {name} vid {vlan} self)")]
    Tagged { name: String, vlan: u16 },
    #[error("none of its members that are ports of Bifrost's has VLAN {0}")]
    Nowhere(u16),
    #[error("frames of VLAN {vlan} leave by {name} without a tag, but come by it with one")]
    OneWay { name: String, vlan: u16 },
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
        let of = |wanted| attribute(said.data, wanted);
        Some(Bridge {
            vlans: of(IFLA_BR_VLAN_FILTERING).is_some_and(|value| value != [0]),
            service: of(IFLA_BR_VLAN_PROTOCOL).is_some_and(|value| value == ethernet::QINQ.to_be_bytes()),
            // `struct br_boolopt_multi`: the bits, and which of them count.
            trees: of(IFLA_BR_MULTI_BOOLOPT).and_then(|bits| u32_at(bits, 0)).is_some_and(|bits| bits & TREES != 0),
        })
    }
}

impl Bridged {
    /// What `IFLA_INFO_SLAVE_DATA` or `IFLA_PROTINFO` says.
    pub(crate) fn read(data: &[u8]) -> Bridged {
        let is = |kind, value: u8| attribute(Some(data), kind) == Some(&[value]);
        Bridged {
            forwarding: is(IFLA_BRPORT_STATE, FORWARDING),
            learns: !is(IFLA_BRPORT_LEARNING, 0) && !is(IFLA_BRPORT_LOCKED, 1),
            locked: is(IFLA_BRPORT_LOCKED, 1),
        }
    }
}

impl Kind for Bridge {
    fn place<'a>(&self, bridge: &'a Link, around: &Around<'a, '_>) -> Result<Place<'a>, NotOurs> {
        if around.port(bridge).is_some() {
            return super::port::Port.place(bridge, around);
        }
        self.place_on(bridge, bridge, None, around)
    }

    fn stands_for_members(&self) -> bool {
        true
    }
}

impl Bridge {
    /// Where frames of a link enter and leave, which is the bridge, or a VLAN on it if it tells
    /// these apart.
    pub(super) fn place_on<'a>(
        &self,
        bridge: &'a Link,
        link: &Link,
        tag: Option<Tag>,
        around: &Around<'a, '_>,
    ) -> Result<Place<'a>, NotOurs> {
        let members = || around.links.members(bridge.ifindex);
        let vxlans = || members().filter_map(|member| Some((member, around.links.bridged_ends(member)?)));
        if !members().any(|member| is_ours(member, around)) && vxlans().next().is_none() {
            return Err(Why::Unnamed.into());
        }
        if is_enslaved(bridge, around.links) {
            return Err(Why::Enslaved.into());
        }
        // Linux drops what does not fit, and tells nobody.
        if let Some(narrow) = members().find(|member| member.mtu < bridge.mtu) {
            return Err(Why::Narrow(narrow.name.clone()).into());
        }
        let vlan = self.vlan_of(bridge, tag, around.links)?;
        // Of several VXLANs one: two could have the same end.
        let vxlan = vxlans().find(|(member, _)| passes_plainly(member, vlan, around.links));
        can_check(bridge, link, (vlan, vxlan.as_ref().map(|(member, _)| member.ifindex)), around)?;
        let mut legs = Vec::new();
        for member in members().filter(|member| is_ours(member, around)) {
            legs.extend(self.leg(member, vlan, around.links)?);
        }
        let place = Place::on_ports(bridge, legs, tag.map_or(Tags::None, Tags::One));
        match (vlan.filter(|_| place.legs.is_empty()), vxlan) {
            (_, Some((member, tunnels))) => Ok(Place { tunnels, vxlan: Some(member.ifindex), ..place }),
            (Some(vlan), None) => Err(Why::Nowhere(vlan).into()),
            (None, None) => Ok(place),
        }
    }

    /// The VLAN of the bridge's that frames with this tag, or without one, are in; `None`: it tells
    /// none apart.
    fn vlan_of(&self, bridge: &Link, tag: Option<Tag>, links: &Links) -> Result<Option<u16>, Why> {
        if !self.vlans {
            return Ok(None);
        }
        if self.trees {
            return Err(Why::Trees);
        }
        let own = links.vlans_of(bridge.ifindex);
        let passes = |vlan, untagged| {
            own.passage(vlan).is_some_and(|own| own.untagged_out == untagged && own.forwarding)
        };
        match tag {
            None => {
                let untagged = own.of_untagged().filter(|vlan| passes(*vlan, true));
                untagged.map(Some).ok_or_else(|| Why::Untagged(bridge.name.clone()))
            }
            Some(tag) if tag.service != self.service => Err(Why::Protocol),
            Some(Tag { id, .. }) if passes(id, false) => Ok(Some(id)),
            Some(Tag { id, .. }) => Err(Why::Tagged { name: bridge.name.clone(), vlan: id }),
        }
    }

    /// How frames of a VLAN pass a member; `None`: not at all.
    fn leg<'a>(&self, port: &'a Link, vlan: Option<u16>, links: &Links) -> Result<Option<Leg<'a>>, Why> {
        let forwarding = port.bridged.is_some_and(|bridged| bridged.forwarding);
        let leg = Leg { port, receives: forwarding, sends: port.is_sent_by_bridge(), tags: Tags::None };
        let Some(vlan) = vlan else { return Ok(Some(leg)) };
        let Some(passage) = links.vlans_of(port.ifindex).passage(vlan) else { return Ok(None) };
        let tags = match passage.untagged_out {
            true if !passage.untagged_in => return Err(Why::OneWay { name: port.name.clone(), vlan }),
            true => Tags::None,
            false => Tags::One(Tag { service: self.service, id: vlan }),
        };
        let (receives, sends) = (leg.receives && passage.forwarding, leg.sends && passage.forwarding);
        Ok(Some(Leg { receives, sends, tags, ..leg }))
    }
}

fn is_ours(member: &Link, around: &Around<'_, '_>) -> bool {
    around.port(member) == Some(Queues::Driver)
}

/// Whether frames of a VLAN pass a member now, without a tag both ways.
fn passes_plainly(member: &Link, vlan: Option<u16>, links: &Links) -> bool {
    let passage = |vlan| links.vlans_of(member.ifindex).passage(vlan);
    let plain = |passage: Passage| passage.untagged_in && passage.untagged_out && passage.forwarding;
    let locked = member.bridged.is_some_and(|bridged| bridged.locked);
    member.is_sent_by_bridge() && !locked && vlan.is_none_or(|vlan| passage(vlan).is_some_and(plain))
}

/// Whether sources that come in by an interface, a bridge or one that lies on it, can be checked as
/// it wants. Members without its VLAN do not matter, and one VXLAN may be the plane's.
pub(super) fn can_check(
    bridge: &Link,
    link: &Link,
    (vlan, vxlan): (Option<u16>, Option<u32>),
    around: &Around<'_, '_>,
) -> Result<(), NotOurs> {
    let has = |member: &Link| match vlan {
        Some(vlan) => around.links.vlans_of(member.ifindex).passage(vlan).is_some(),
        None => true,
    };
    let ours = |member: &Link| is_ours(member, around) || Some(member.ifindex) == vxlan;
    let mut others = around.links.members(bridge.ifindex).filter(|member| !ours(member));
    match others.find(|member| has(member)).filter(|_| link.rp_filter == STRICT) {
        Some(other) => Err(Why::Strict(other.name.clone()).into()),
        None => Ok(()),
    }
}

impl Link {
    /// What it is as a bridge, if it is one.
    pub fn bridge(&self) -> Option<Bridge> {
        if let Is::Bridge(bridge) = &self.is { Some(*bridge) } else { None }
    }

    /// Whether it is a bridge.
    pub fn is_bridge(&self) -> bool {
        self.bridge().is_some()
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

    /// The bridge that an interface is, or that it lies on with its tags, and the VLAN of the
    /// bridge's that it is; 0 where the bridge tells none apart.
    pub fn within_bridge<'a>(&'a self, link: &'a Link) -> Option<(&'a Link, u16)> {
        let (mut below, mut tag) = (link, None);
        for _ in 0..MOST_TAGS {
            let Is::Vlan(vlan) = &below.is else { break };
            (below, tag) = (self.by_index(vlan.on?)?, Some(vlan.id));
        }
        let Is::Bridge(bridge) = &below.is else { return None };
        let untagged = || self.vlans_of(below.ifindex).of_untagged();
        let vlan = if bridge.vlans { tag.or_else(untagged) } else { None };
        Some((below, vlan.unwrap_or_default()))
    }

    /// The bond or bridge that an interface is a member of, or the VLAN on that bridge, whose may
    /// be what comes by the member without a tag.
    pub fn untagged_of(&self, link: &Link) -> Option<&Link> {
        let whole = self.whole_of(link)?;
        let Is::Bridge(bridge) = &whole.is else { return Some(whole) };
        if !bridge.vlans {
            return Some(whole);
        }
        let vlan = self.vlans_of(link.ifindex).of_untagged()?;
        if self.vlans_of(whole.ifindex).of_untagged() == Some(vlan) {
            return Some(whole);
        }
        let tag = Tag { service: bridge.service, id: vlan };
        self.iter().find(|above| {
            matches!(&above.is, Is::Vlan(is) if is.on == Some(whole.ifindex) && is.tag() == tag)
        })
    }

    /// The bond or bridge that what enters and leaves by an interface may belong to.
    pub fn whole_of(&self, link: &Link) -> Option<&Link> {
        let bridge = || self.bridge_of(link).filter(|_| matches!(link.is, Is::Port(_)));
        self.bond_of(link).or_else(bridge)
    }
}

#[cfg(test)]
mod tests;
