//! Bonds (`ip link add bond0 type bond mode 802.3ad`) and teams. The plane takes a bond's members,
//! and what enters or leaves by them does so as the bond's: nothing configures it but `[[port]]`,
//! which names the bond or its members.
//!
//! Linux keeps what makes a bond: LACP, the links' state, which member is active. The plane follows
//! its word (`programmer::legs`). A member in reserve is Linux's on the way in, which drops what
//! comes by it as bonds do. A bond that the plane cannot do as Linux does it stays with Linux,
//! whole.

use super::{Around, Is, Kind, Leg, NotOurs, Place, Queues, Said, Told, attribute, is_enslaved};
use crate::model::{Link, Links};
use fib::Tags;

const IFLA_BOND_MODE: u16 = 1;
const IFLA_BOND_XMIT_HASH_POLICY: u16 = 14;
const IFLA_BOND_SLAVE_STATE: u16 = 1;
const IFLA_BOND_SLAVE_MII_STATUS: u16 = 2;

/// Names of `BOND_MODE_*`, by number (`linux/if_bonding.h`).
const MODES: [&str; 7] =
    ["balance-rr", "active-backup", "balance-xor", "broadcast", "802.3ad", "balance-tlb", "balance-alb"];
/// Those that the plane does: they send a flow by one member, and say by which.
const OURS: [&str; 3] = ["active-backup", "balance-xor", "802.3ad"];

/// What is said of a bond, by the kernel's numbers (`linux/if_bonding.h`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bond {
    /// `BOND_MODE_*`; `None`: it is a team, which has none.
    pub mode: Option<u8>,
    /// `BOND_XMIT_POLICY_*`.
    pub policy: u8,
}

/// What is said of a member of a bond.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member {
    /// Its state is `ACTIVE`, not `BACKUP`: the bond takes what comes by it. LACP has it collect
    /// and distribute; of an active-backup bond it is the active one.
    pub active: bool,
    /// Its link is up, as the bond sees it (`miimon`, `arp_interval`).
    pub link: bool,
}

/// Why a bond stays with Linux.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
enum Why {
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

impl Told for Bond {
    const NAMES: &'static [&'static str] = &["bond", "team"];

    fn read(said: &Said<'_>) -> Option<Bond> {
        let byte = |wanted| attribute(said.data, wanted).map(|value| value.first().copied().unwrap_or_default());
        let mode = byte(IFLA_BOND_MODE).filter(|_| said.name == Some("bond"));
        Some(Bond { mode, policy: byte(IFLA_BOND_XMIT_HASH_POLICY).unwrap_or_default() })
    }
}

impl Member {
    /// What `IFLA_INFO_SLAVE_DATA` says. What is not said counts as good, as in a kernel that says
    /// less.
    pub(crate) fn read(data: &[u8]) -> Member {
        let good = |wanted| attribute(Some(data), wanted).is_none_or(|value| value == [0]);
        Member { active: good(IFLA_BOND_SLAVE_STATE), link: good(IFLA_BOND_SLAVE_MII_STATUS) }
    }
}

impl Kind for Bond {
    fn place<'a>(&self, bond: &'a Link, around: &Around<'a, '_>) -> Result<Place<'a>, NotOurs> {
        let members: Vec<&Link> = around.links.members(bond.ifindex).collect();
        if around.ports.named(&bond.name).is_none() && members.iter().all(|member| around.port(member).is_none()) {
            return Err(Why::Unnamed.into());
        }
        let mode = self.mode.ok_or(Why::Team)?;
        let mode = MODES.get(usize::from(mode)).copied().unwrap_or("unknown");
        if !OURS.contains(&mode) {
            return Err(Why::Mode(mode).into());
        }
        if is_enslaved(bond, around.links) {
            return Err(Why::Enslaved.into());
        }
        if members.is_empty() {
            return Err(Why::Empty.into());
        }
        for member in &members {
            match around.port(member) {
                None => return Err(Why::Member(member.name.clone()).into()),
                Some(Queues::Shared) => return Err(Why::Shared(member.name.clone()).into()),
                Some(Queues::Driver) => {}
            }
        }
        let leg = |port: &'a Link| Leg {
            port,
            receives: port.member.is_some_and(|member| member.active),
            sends: port.transmits(),
            tags: Tags::None,
        };
        Ok(Place::on_ports(bond, members.into_iter().map(leg).collect(), Tags::None))
    }

    fn stands_for_members(&self) -> bool {
        true
    }
}

impl Link {
    /// What it is as a bond, if it is one.
    pub fn bond(&self) -> Option<Bond> {
        if let Is::Bond(bond) = &self.is { Some(*bond) } else { None }
    }

    /// Whether the bond that it is a member of sends by it now (`bond_slave_can_tx` in Linux).
    pub fn transmits(&self) -> bool {
        self.up && self.running && self.member.is_some_and(|member| member.active && member.link)
    }
}

impl Links {
    /// The bond, no team, that an interface is a member of.
    pub fn bond_of(&self, link: &Link) -> Option<&Link> {
        let is_bond = |master: &&Link| master.bond().is_some_and(|bond| bond.mode.is_some());
        self.by_index(link.master?).filter(is_bond)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kind::tests::{attribute, place, told};

    fn bond(mode: &str) -> Link {
        let mode = MODES.iter().position(|name| *name == mode).map(|mode| mode as u8);
        Link { ifindex: 1, name: "bond0".to_owned(), is: Bond { mode, policy: 0 }.into(), ..Link::default() }
    }

    fn member(ifindex: u32) -> Link {
        let member = Some(Member { active: true, link: true });
        Link { ifindex, name: format!("eth{ifindex}"), master: Some(1), member, ..Link::default() }
    }

    fn of(ports: &[&str], bond: Link, members: &[Link]) -> Result<Vec<u32>, String> {
        let links: Vec<Link> = members.iter().cloned().chain([bond]).collect();
        place(ports, &links).map(|(_, ports, _)| ports)
    }

    #[test]
    fn a_bond_says_its_mode_and_by_what_it_hashes() {
        let data = [(IFLA_BOND_MODE, &[4][..]), (IFLA_BOND_XMIT_HASH_POLICY, &[1])];
        assert_eq!(told("bond", &data), Bond { mode: Some(4), policy: 1 }.into());
        assert_eq!(told("bond", &[(IFLA_BOND_MODE, &[])]), Bond { mode: Some(0), policy: 0 }.into());
        assert_eq!(told("team", &[]), Bond::default().into());
    }

    #[test]
    fn a_member_says_whether_it_is_active_and_its_link_up() {
        let of = |state, mii| {
            let said = [attribute(IFLA_BOND_SLAVE_STATE, &[state]), attribute(IFLA_BOND_SLAVE_MII_STATUS, &[mii])];
            Member::read(&said.concat())
        };
        assert_eq!(of(0, 0), Member { active: true, link: true });
        assert_eq!(of(1, 0), Member { active: false, link: true });
        // BOND_LINK_FAIL, DOWN and BACK.
        for status in 1..=3 {
            assert_eq!(of(0, status), Member { active: true, link: false });
        }
        assert_eq!(Member::read(&[]), Member { active: true, link: true });
    }

    #[test]
    fn a_bond_is_ours_by_its_name_or_its_members() {
        let both = [member(2), member(3)];
        for ports in [&["bond0"][..], &["eth2", "eth3"], &["eth2", "bond0"]] {
            for mode in OURS {
                assert_eq!(of(ports, bond(mode), &both), Ok(vec![2, 3]), "{ports:?}");
            }
        }
        // A member is a port by the bond's name, whatever the bond.
        let links = [bond("802.3ad"), member(2)];
        assert_eq!(place(&["bond0"], &links), Ok((2, vec![2], Tags::None)));
        let known: Links = links.iter().cloned().collect();
        assert_eq!(known.bond_of(&links[1]).map(|bond| bond.ifindex), Some(1));
        assert!(super::super::port_names(&links[0], &known).next().is_none(), "a bond has no queues");
    }

    #[test]
    fn a_member_receives_and_sends_as_linux_says() {
        let reserve = Member { active: false, link: true };
        let links: Links = [bond("active-backup"), member(2), Link { member: Some(reserve), ..member(3) }]
            .map(|link| Link { up: true, running: true, ..link })
            .into_iter()
            .collect();
        let ports: &dyn super::super::Ports = &&["bond0"][..];
        let around = Around { links: &links, ports };
        let place = around.place(links.by_index(1).unwrap()).unwrap();
        let legs: Vec<_> = place.legs.iter().map(|leg| (leg.port.ifindex, leg.receives, leg.sends)).collect();
        assert_eq!(legs, [(2, true, true), (3, false, false)]);
        assert_eq!(place.whole().map(|bond| bond.ifindex), Some(1));
        assert_eq!(around.place(links.by_index(2).unwrap()).unwrap().whole(), None);
    }

    #[test]
    fn what_the_plane_cannot_do_is_linuxs() {
        let both = [member(2), member(3)];
        let refused = |why: Why| Err(why.to_string());
        for mode in ["balance-rr", "broadcast", "balance-tlb", "balance-alb"] {
            assert_eq!(of(&["eth2", "eth3"], bond(mode), &both), refused(Why::Mode(mode)));
        }
        assert!(Why::Mode("balance-rr").to_string().contains("active-backup, balance-xor, 802.3ad"));
        let xor = || bond("balance-xor");
        assert_eq!(of(&["eth2"], xor(), &both), refused(Why::Member("eth3".to_owned())));
        assert_eq!(of(&["nic"], xor(), &both), refused(Why::Unnamed));
        assert_eq!(of(&["bond0"], xor(), &[]), refused(Why::Empty));
        assert_eq!(of(&["bond0"], Link { master: Some(9), ..xor() }, &both), refused(Why::Enslaved));
        assert_eq!(of(&["bond0"], bond("team"), &both), refused(Why::Team));
        let memif = Link { name: "memif0".to_owned(), ..member(2) };
        assert_eq!(of(&["memif0"], xor(), &[memif]), refused(Why::Shared("memif0".to_owned())));
    }
}
