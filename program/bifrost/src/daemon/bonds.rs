//! Bonds of Linux's. Bifrost takes a bond's members, and what enters or leaves by them does so as the bond's:
//! nothing configures it here but `[[port]]`, which names the bond or its members.
//!
//! Linux keeps what makes a bond: LACP, the links' state, which member is active. The plane follows its word
//! (`mirror`'s legs). A member in reserve is Linux's on the way in, which drops what comes by it as bonds do.
//! A bond that the plane cannot do as Linux does it stays with Linux, whole, with the reason.

use config::{PortRule, Router};
use fib::{InterfaceId, PortId};
use mirror::model::{Link, Links};

use super::forwarding::Forwarding;
use super::settings;
use super::vlans::{base, is_enslaved};

/// Names of `BOND_MODE_*`, by number (`linux/if_bonding.h`).
const MODES: [&str; 7] =
    ["balance-rr", "active-backup", "balance-xor", "broadcast", "802.3ad", "balance-tlb", "balance-alb"];
/// Those that the plane does: they send a flow by one member, and say by which.
const OURS: [&str; 3] = ["active-backup", "balance-xor", "802.3ad"];

/// Why a bond stays with Linux.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NotOurs {
    #[error("a team is Linux's: make it a bond")]
    Team,
    #[error("a bond with mode {0} is Linux's; Bifrost does {list}", list = OURS.join(", "))]
    Mode(&'static str),
    #[error("it belongs to a bond or bridge")]
    Enslaved,
    #[error("it has no members")]
    Empty,
    #[error("no [[port]] names it or its members")]
    Unnamed,
    #[error("its member {0} is no port of Bifrost's")]
    Member(String),
    #[error("its member {0} is a port in shared memory")]
    Shared(String),
}

/// Whether an interface is made of others that send for it.
pub(super) fn is_bond(link: &Link) -> bool {
    matches!(link.kind.as_deref(), Some("bond" | "team"))
}

/// The bond that an interface is a member of.
pub(super) fn of_member<'a>(link: &Link, links: &'a Links) -> Option<&'a Link> {
    links.by_index(link.master?).filter(|master| master.kind.as_deref() == Some("bond"))
}

/// What the configuration says of an interface as a port: by its own name, or by that of its bond. A bond
/// itself is none.
pub(super) fn rule<'a>(link: &Link, links: &Links, router: &'a Router) -> Option<&'a PortRule> {
    if is_bond(link) || link.vlan.is_some() {
        return None;
    }
    router.port(&link.name).or_else(|| router.port(&of_member(link, links)?.name))
}

/// The members of a bond of ours; `None` if it is no bond.
pub(crate) fn members<'a>(
    bond: &Link,
    links: &'a Links,
    router: &Router,
) -> Option<Result<Vec<&'a Link>, NotOurs>> {
    is_bond(bond).then(|| look(bond, links, router))
}

fn look<'a>(bond: &Link, links: &'a Links, router: &Router) -> Result<Vec<&'a Link>, NotOurs> {
    let members: Vec<&Link> = links.members(bond.ifindex).collect();
    let named = |member: &&Link| rule(member, links, router);
    if router.port(&bond.name).is_none() && members.iter().all(|member| named(member).is_none()) {
        return Err(NotOurs::Unnamed);
    }
    let Some(says) = bond.bond else { return Err(NotOurs::Team) };
    let mode = MODES.get(usize::from(says.mode)).copied().unwrap_or("unknown");
    if !OURS.contains(&mode) {
        return Err(NotOurs::Mode(mode));
    }
    if is_enslaved(bond, links) {
        return Err(NotOurs::Enslaved);
    }
    if members.is_empty() {
        return Err(NotOurs::Empty);
    }
    for member in &members {
        match named(member) {
            None => return Err(NotOurs::Member(member.name.clone())),
            Some(rule) if settings::memif(rule).is_some() => {
                return Err(NotOurs::Shared(member.name.clone()));
            }
            Some(_) => {}
        }
    }
    Ok(members)
}

/// The bond of ours that an interface is a member of.
pub(super) fn ours<'a>(link: &Link, links: &'a Links, router: &Router) -> Option<&'a Link> {
    of_member(link, links).filter(|bond| matches!(members(bond, links, router), Some(Ok(_))))
}

/// Whether packets that come in or leave by an interface are the plane's: it is a port by the configuration, a bond
/// of ours, or a VLAN on one of these.
pub(super) fn is_ours(name: &str, links: &Links, router: &Router) -> bool {
    let Some(link) = links.by_name(name) else { return router.port(name).is_some() };
    let base = base(link, links);
    match members(base, links, router) {
        Some(members) => members.is_ok(),
        None => rule(base, links, router).is_some(),
    }
}

/// Whether a bond takes what comes by a member.
pub(super) fn receives(member: &Link) -> bool {
    member.member.is_some_and(|member| member.active)
}

impl Forwarding {
    /// The ports by which frames of an interface without tags pass, and whether what comes by each is the plane's:
    /// its own, or those of a bond's members.
    pub(super) fn ports_of(&self, base: &Link) -> Vec<(PortId, bool)> {
        let links = &self.mirror.model().links;
        let Some(members) = members(base, links, &self.router) else {
            let own = self.plane.port_of(base.ifindex).filter(|port| port.bond.is_none());
            return own.into_iter().map(|port| (port.id, true)).collect();
        };
        let port = |member: &Link| Some((self.plane.port_of(member.ifindex)?.id, receives(member)));
        members.unwrap_or_default().into_iter().filter_map(port).collect()
    }

    /// Lets routes lead to an interface: by its port, or, on a bond, by its members' once all of them are taken. To
    /// none otherwise.
    pub(super) fn bind_interface(&mut self, ifindex: u32) {
        let Forwarding { plane, mirror, tables, router, .. } = self;
        let links = &mirror.model().links;
        let Some(base) = links.by_index(ifindex).map(|link| base(link, links)) else { return };
        let taken = plane.interfaces_of(ifindex).filter(|(id, port)| {
            // A name leads elsewhere until what it was there has been forgotten.
            port.taken.is_some() && tables.interface(*id).is_some_and(|entry| entry.ifindex == ifindex)
        });
        let below = |port: &plane::port::Port| port.interface.as_ref().map_or(0, |own| own.ifindex);
        let legs: Vec<(InterfaceId, u32)> = taken.map(|(id, port)| (id, below(port))).collect();
        let (bond, wanted) = match members(base, links, router) {
            Some(members) => (Some(base.ifindex), members.map_or(0, |members| members.len())),
            None => (None, 1),
        };
        match (bond, legs.as_slice()) {
            (_, some) if some.is_empty() || some.len() != wanted => mirror.unbind(ifindex, tables),
            (None, some) => mirror.bind(ifindex, some[0].0, tables),
            (Some(bond), some) => mirror.bind_bond(ifindex, bond, some.iter().copied(), tables),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mirror::model::{Bond, Member};

    fn router(ports: &[&str]) -> Router {
        let text: String = ports.iter().map(|name| format!("[[port]]\nname = \"{name}\"\n")).collect();
        Router::read("router.toml", &text, &config::Machine::this())
            .unwrap_or_else(|mistakes| panic!("{mistakes}"))
    }

    fn bond(mode: &str) -> Link {
        let mode = MODES.iter().position(|name| *name == mode).unwrap() as u8;
        let bond = Some(Bond { mode, policy: 0 });
        Link { ifindex: 1, name: "bond0".to_owned(), kind: Some("bond".to_owned()), bond, ..Link::default() }
    }

    fn member(ifindex: u32) -> Link {
        let member = Some(Member { active: true, link: true });
        Link { ifindex, name: format!("eth{ifindex}"), master: Some(1), member, ..Link::default() }
    }

    fn of(ports: &[&str], bond: Link, members: &[Link]) -> Result<Vec<u32>, NotOurs> {
        let links: Links = members.iter().cloned().chain([bond.clone()]).collect();
        let found = super::members(&bond, &links, &router(ports)).expect("it is a bond");
        found.map(|members| members.iter().map(|member| member.ifindex).collect())
    }

    #[test]
    fn a_bond_is_ours_by_its_name_or_its_members() {
        let both = [member(2), member(3)];
        for ports in [&["bond0"][..], &["eth2", "eth3"], &["eth*"], &["eth2", "bond*"]] {
            for mode in OURS {
                assert_eq!(of(ports, bond(mode), &both), Ok(vec![2, 3]), "{ports:?}");
            }
        }
        let links: Links = both.iter().cloned().chain([bond("802.3ad")]).collect();
        let named = router(&["bond0"]);
        assert!(["bond0", "eth2", "eth3"].iter().all(|name| is_ours(name, &links, &named)));
        assert_eq!(ours(&both[0], &links, &named).map(|bond| bond.ifindex), Some(1));
        assert!(rule(&bond("802.3ad"), &links, &named).is_none(), "a bond has no queues");
    }

    #[test]
    fn what_the_plane_cannot_do_is_linuxs() {
        let both = [member(2), member(3)];
        for mode in ["balance-rr", "broadcast", "balance-tlb", "balance-alb"] {
            assert_eq!(of(&["eth*"], bond(mode), &both), Err(NotOurs::Mode(mode)));
        }
        assert!(NotOurs::Mode("balance-rr").to_string().contains("active-backup, balance-xor, 802.3ad"));
        let xor = || bond("balance-xor");
        assert_eq!(of(&["eth2"], xor(), &both), Err(NotOurs::Member("eth3".to_owned())));
        assert_eq!(of(&["nic*"], xor(), &both), Err(NotOurs::Unnamed));
        assert_eq!(of(&["bond0"], xor(), &[]), Err(NotOurs::Empty));
        assert_eq!(of(&["bond0"], Link { master: Some(9), ..xor() }, &both), Err(NotOurs::Enslaved));
        let team = Link { kind: Some("team".to_owned()), bond: None, ..xor() };
        assert_eq!(of(&["bond0"], team, &both), Err(NotOurs::Team));
    }
}
