//! Where packets leave that Linux sends by an interface: by one interface of the plane's, or, where
//! Linux's is a bond or lies on one, or is a bridge, by one for each member (a *leg*).
//!
//! A way over a bond becomes a way over each leg that transmits now, so that the flow hash chooses
//! the member as it chooses among gateways: a flow stays on its member, and when a member goes only
//! its flows move. What transmits is read from the model, so the kernel's word about a member is in
//! the tables with the next hops that it concerns.
//!
//! A way over a bridge is one over the leg whose member the neighbour is behind. While Linux does
//! not know where that is, packets are for Linux to find out; and so are all to who is behind a
//! member that is no port. A VXLAN is as a bridge, and its other ends are as members.

use super::adjacency::{Behind, FOREIGN};
use crate::model::{Link, Links, Model, Outlet};
use fib::InterfaceId;
use smallvec::SmallVec;
use std::net::IpAddr;

/// `BOND_XMIT_POLICY_LAYER2` and `BOND_XMIT_POLICY_VLAN_SRCMAC` in Linux.
const BY_NEIGHBOUR: [u8; 2] = [0, 5];
/// `BOND_MODE_ACTIVEBACKUP`: the policy is for no more than one member.
const ACTIVE_BACKUP: Option<u8> = Some(1);

/// See the head of this file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Legs {
    legs: SmallVec<[Leg; 1]>,
    /// The bond or bridge below, or the VXLAN itself, by Linux's index.
    below: Option<u32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Leg {
    interface: InterfaceId,
    by: Outlet,
}

impl From<InterfaceId> for Legs {
    fn from(interface: InterfaceId) -> Legs {
        Legs { legs: SmallVec::from_slice(&[Leg { interface, by: Outlet::Member(0) }]), below: None }
    }
}

impl Legs {
    /// Those on the members of a bond or bridge.
    pub fn of_members(below: u32, members: impl IntoIterator<Item = (InterfaceId, u32)>) -> Legs {
        Legs::of(below, members.into_iter().map(|(interface, member)| (interface, Outlet::Member(member))))
    }

    /// Those on the members of a bond or bridge, and to the other ends of a VXLAN that is one, or
    /// is the interface itself.
    pub fn of(below: u32, legs: impl IntoIterator<Item = (InterfaceId, Outlet)>) -> Legs {
        let legs = legs.into_iter().map(|(interface, by)| Leg { interface, by });
        Legs { legs: legs.collect(), below: Some(below) }
    }

    /// One of them, to name the interface by.
    pub fn first(&self) -> Option<InterfaceId> {
        self.legs.first().map(|leg| leg.interface)
    }

    /// Whether what they come to depends on this interface of Linux's.
    pub fn depend_on(&self, ifindex: u32) -> bool {
        self.below.is_some_and(|below| {
            let member = |leg: &Leg| match leg.by {
                Outlet::Member(member) | Outlet::End { vxlan: member, .. } => member,
            };
            below == ifindex || self.legs.iter().any(|leg| member(leg) == ifindex)
        })
    }

    /// Whether they are members of this bridge or bond, or ends of this VXLAN.
    pub fn are_on(&self, below: u32) -> bool {
        self.below == Some(below)
    }

    /// By which packets to a neighbour on Linux's interface of this index leave now, and where it
    /// must be then; none where no member of a bond transmits.
    pub fn towards(
        &self,
        ifindex: u32,
        neighbour: IpAddr,
        model: &Model,
    ) -> SmallVec<[(InterfaceId, Behind); 1]> {
        let any = |leg: &Leg| (leg.interface, Behind::Any);
        let Some(below) = self.below else { return self.legs.iter().map(any).collect() };
        match model.links.by_index(below).filter(|link| link.is_bridge() || link.is_vxlan()) {
            Some(link) => self.towards_one(link, (ifindex, neighbour), model).into_iter().collect(),
            None => self.towards_members(below, neighbour, model).into_iter().map(any).collect(),
        }
    }

    /// Of a bridge or VXLAN.
    fn towards_one(
        &self,
        below: &Link,
        (ifindex, neighbour): (u32, IpAddr),
        model: &Model,
    ) -> Option<(InterfaceId, Behind)> {
        let known = model.neighbours.find(ifindex, neighbour).and_then(|known| known.usable());
        let Some(outlet) = known.and_then(|mac| model.outlet_towards(ifindex, mac)) else {
            return self.first().map(|interface| (interface, Behind::Linux));
        };
        let Some(leg) = self.legs.iter().find(|leg| leg.by == outlet) else {
            return Some((FOREIGN, Behind::Linux));
        };
        let sends = match outlet {
            Outlet::End { vxlan, .. } if vxlan == below.ifindex => below.up,
            Outlet::Member(member) | Outlet::End { vxlan: member, .. } => {
                model.links.is_sent_by_bridge(below, ifindex, member)
            }
        };
        Some((leg.interface, if sends { Behind::This(outlet) } else { Behind::Linux }))
    }

    /// Of a bond.
    fn towards_members(&self, bond: u32, neighbour: IpAddr, model: &Model) -> SmallVec<[&Leg; 1]> {
        let transmits = |leg: &&Leg| model.links.is_sent_by(bond, leg.by);
        let sending = self.legs.iter().filter(transmits);
        let says = model.links.by_index(bond).and_then(|link| link.bond()).unwrap_or_default();
        if says.mode != ACTIVE_BACKUP && BY_NEIGHBOUR.contains(&says.policy) {
            // All packets to one neighbour by one member, and to another perhaps by another.
            return sending.max_by_key(|leg| rank(neighbour, leg.by)).into_iter().collect();
        }
        sending.collect()
    }
}

impl Links {
    /// Whether a bridge sends by a member now what leaves by an interface, itself or one on it.
    fn is_sent_by_bridge(&self, bridge: &Link, ifindex: u32, member: u32) -> bool {
        let Some(is) = self.by_index(member).filter(|link| link.master == Some(bridge.ifindex)) else {
            return false;
        };
        let passes = |vlan| self.vlans_of(member).passage(vlan).is_some_and(|passage| passage.forwarding);
        let within = self.by_index(ifindex).and_then(|link| self.within_bridge(link));
        is.is_sent_by_bridge() && within.is_some_and(|(_, vlan)| vlan == 0 || passes(vlan))
    }

    /// Whether a bond sends by a member now.
    fn is_sent_by(&self, bond: u32, by: Outlet) -> bool {
        let Outlet::Member(member) = by else { return false };
        self.by_index(member).is_some_and(|link| link.master == Some(bond) && link.transmits())
    }
}

/// How well a member suits a neighbour: as good as random, and the same for as long as both are
/// there (rendezvous hashing), so that a member that goes moves only the neighbours that were its.
fn rank(neighbour: IpAddr, by: Outlet) -> u64 {
    let Outlet::Member(member) = by else { return 0 };
    let address = match neighbour {
        IpAddr::V4(address) => u128::from(address.to_bits()),
        IpAddr::V6(address) => address.to_bits(),
    };
    let parts = [address as u64, (address >> 64) as u64, u64::from(member)];
    parts.into_iter().fold(0, |hash, part| {
        let mixed = (hash ^ part).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        (mixed ^ mixed >> 32).wrapping_mul(0xBF58_476D_1CE4_E5B9)
    })
}

#[cfg(test)]
mod tests {
    use crate::kind::{Bond, Is, Member};
    use crate::model::{Changes, Model, Path, SourceId, Table};
    use crate::netlink::EXCLUSIVE;
    use crate::netlink::link::LinkMessage;
    use crate::netlink::neighbour::NeighbourMessage;
    use crate::netlink::route::RouteMessage;
    use crate::programmer::{Legs, Programmer};
    use fib::{Capacity, HopKind, InterfaceId, Tables};
    use proptest::prelude::*;
    use std::collections::BTreeMap;
    use std::net::IpAddr;
    use std::time::{Duration, Instant};

    /// Linux's indexes: a bond, an interface that is none, and from `FIRST` on the bond's members.
    /// The plane's interfaces have the same numbers.
    const BOND: u32 = 100;
    const PLAIN: u32 = 101;
    const FIRST: u32 = 1;
    const XOR: u8 = 2;
    const LAYER34: u8 = 1;
    const LAYER2: u8 = 0;
    const UP: u32 = (libc::IFF_UP | libc::IFF_RUNNING) as u32;

    struct World {
        tables: Tables,
        model: Model,
        changes: Changes,
        programmer: Programmer,
        members: u32,
    }

    fn link(ifindex: u32) -> LinkMessage {
        let name = format!("e{ifindex}");
        let (kind, master, member, bridged) = (None, None, None, None);
        LinkMessage {
            ifindex,
            name,
            mac: None,
            mtu: 1500,
            flags: UP,
            kind,
            master,
            is: Is::default(),
            member,
            bridged,
        }
    }

    fn gateway(ifindex: u32, last: u8) -> IpAddr {
        IpAddr::from([10, 0, ifindex as u8, last])
    }

    impl World {
        fn new(members: u32, policy: u8) -> World {
            let tables = Tables::new(Capacity { ipv4: 100, ipv6: 100, next_hops: 100 }, None).unwrap();
            let (model, changes, programmer) = (Model::default(), Changes::default(), Programmer::new());
            let mut world = World { tables, model, changes, programmer, members };
            world.programmer.prepare(&mut world.model, &mut world.tables).unwrap();
            let is = Bond { mode: Some(XOR), policy }.into();
            world.tell(LinkMessage { is, kind: Some("bond".into()), ..link(BOND) });
            world.tell(link(PLAIN));
            let legs: Vec<_> = world.members().map(|member| (InterfaceId(member as u16), member)).collect();
            legs.iter().for_each(|(_, member)| world.member(*member, Some(true)));
            let World { tables, model, programmer, .. } = &mut world;
            programmer.bind(BOND, Some(Legs::of_members(BOND, legs)), model, tables);
            programmer.bind(PLAIN, Some(InterfaceId(PLAIN as u16).into()), model, tables);
            for ifindex in [BOND, PLAIN] {
                (1..=60).for_each(|last| world.neighbour(ifindex, last));
            }
            world
        }

        fn members(&self) -> std::ops::Range<u32> {
            FIRST..FIRST + self.members
        }

        fn tell(&mut self, link: LinkMessage) {
            self.model.set_link(&link, &mut self.changes);
            self.settle();
        }

        fn neighbour(&mut self, ifindex: u32, last: u8) {
            let (address, mac) = (gateway(ifindex, last), Some([2, 0, 0, 0, ifindex as u8, last]));
            let message = NeighbourMessage { ifindex, address, mac, state: 2, flags: 0 };
            self.model.set_neighbour(&message, &mut self.changes);
            self.settle();
        }

        /// A member that is active, one in reserve, or one without carrier.
        fn member(&mut self, ifindex: u32, active: Option<bool>) {
            let member = Some(Member { active: active != Some(false), link: true });
            let flags = if active.is_some() { UP } else { libc::IFF_UP as u32 };
            self.tell(LinkMessage { master: Some(BOND), member, flags, ..link(ifindex) });
        }

        fn route(&mut self, prefix: &str, ways: &[(u32, u8, u32)]) {
            let path = |&(ifindex, last, weight): &(u32, u8, u32)| Path {
                ifindex,
                gateway: Some(gateway(ifindex, last)),
                weight,
                encap: false,
            };
            let message = RouteMessage {
                prefix: prefix.parse().unwrap(),
                table: 254,
                protocol: 4,
                kind: 1,
                scope: 0,
                tos: 0,
                metric: 0,
                preference: 0,
                mtu: 0,
                sourced: false,
                from: None,
                expires: None,
                object: None,
                paths: ways.iter().map(path).collect(),
            };
            self.model.routes.announce(SourceId::Netlink, &message, EXCLUSIVE);
            self.changes.prefixes.push((message.prefix, Table::Main));
            self.settle();
        }

        fn settle(&mut self) {
            let World { tables, model, changes, programmer, .. } = self;
            programmer.take(changes, model, tables);
            while programmer.work(model, tables, Instant::now() + Duration::from_secs(1)) {}
        }

        /// By which interface each flow leaves to 10.9.0.1, by its hash; `None`: Linux has it.
        fn flows(&self) -> Vec<Option<u32>> {
            let view = self.tables.view();
            let hop = view.hop(view.lookup4(u32::from_be_bytes([10, 9, 0, 1])));
            let way = |hash| {
                let adjacency = view.adjacency(view.select(hop, hash));
                adjacency.resolved().then(|| u32::from(adjacency.interface().0))
            };
            (0..4096).map(|hash| if hop.kind() == HopKind::Forward { way(hash) } else { None }).collect()
        }
    }

    fn shares(flows: &[Option<u32>]) -> BTreeMap<Option<u32>, usize> {
        let mut shares = BTreeMap::new();
        flows.iter().for_each(|flow| *shares.entry(*flow).or_default() += 1);
        shares
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

        #[test]
        fn flows_leave_by_members_that_transmit_and_only_those_of_one_that_goes_move(
            members in 1u32..6,
            changes in prop::collection::vec((0u32..6, prop_oneof![Just(None), any::<bool>().prop_map(Some)]), 1..12),
            beside: bool,
        ) {
            let mut world = World::new(members, LAYER34);
            let over_both = [(BOND, 1, 1), (PLAIN, 1, 1)];
            world.route("10.9.0.0/24", if beside { &over_both[..] } else { &over_both[..1] });
            let mut sending: Vec<u32> = world.members().collect();
            for (member, active) in changes {
                let member = FIRST + member % members;
                let before = world.flows();
                world.member(member, active);
                let after = world.flows();
                let was = sending.contains(&member);
                sending.retain(|other| *other != member);
                if active == Some(true) {
                    sending.push(member);
                }
                let plain = if beside { shares(&after).get(&Some(PLAIN)).copied().unwrap_or(0) } else { 0 };
                let allowed = |flow: &Option<u32>| match flow {
                    Some(PLAIN) => beside,
                    Some(member) => sending.contains(member),
                    None => sending.is_empty(),
                };
                prop_assert!(after.iter().all(allowed), "{:?} of {:?}", shares(&after), sending);
                if beside && !sending.is_empty() {
                    prop_assert!((2000..2100).contains(&plain), "{:?}", shares(&after));
                }
                for member in &sending {
                    let share = shares(&after)[&Some(*member)] * sending.len();
                    prop_assert!((share as f64 / (4096 - plain) as f64 - 1.0).abs() < 0.25, "{:?}", shares(&after));
                }
                if was && active != Some(true) && !sending.is_empty() {
                    let moved = before.iter().zip(&after).filter(|(before, after)| before != after);
                    prop_assert!(moved.clone().all(|(before, _)| *before == Some(member)), "{:?}", shares(&before));
                }
            }
        }
    }

    #[test]
    fn by_layer_2_all_flows_to_a_neighbour_leave_by_one_member() {
        let mut world = World::new(3, LAYER2);
        let mut used = BTreeMap::new();
        let ways = |world: &World| -> Vec<IpAddr> {
            (1..=60).map(|last| gateway(BOND, last)).filter(|_| world.members > 0).collect()
        };
        let by = |world: &World, to: IpAddr| {
            let ways = world.programmer.ports[&BOND].towards(BOND, to, &world.model);
            ways.into_iter().map(|(interface, _)| interface).collect::<Vec<_>>()
        };
        for to in ways(&world) {
            let members = by(&world, to);
            assert_eq!(members.len(), 1, "{members:?}");
            *used.entry(members[0]).or_insert(0) += 1;
        }
        assert!(used.len() == 3 && used.values().all(|count| *count > 8), "{used:?}");
        let before: Vec<_> = ways(&world).into_iter().map(|to| by(&world, to)).collect();
        world.member(FIRST, None);
        for (to, before) in ways(&world).into_iter().zip(before) {
            let after = by(&world, to);
            assert!(before == after || before == [InterfaceId(FIRST as u16)], "{before:?} {after:?}");
            assert_ne!(after, [InterfaceId(FIRST as u16)]);
        }
        world.route("10.9.0.0/24", &[(BOND, 1, 1)]);
        assert_eq!(shares(&world.flows()).len(), 1);
        // Another policy takes effect at once.
        let is = Bond { mode: Some(XOR), policy: LAYER34 }.into();
        world.tell(LinkMessage { is, ..link(BOND) });
        assert_eq!(shares(&world.flows()).len(), 2);
    }

    #[test]
    fn a_member_that_is_gone_or_of_another_bond_carries_nothing() {
        let mut world = World::new(2, LAYER34);
        world.route("10.9.0.0/24", &[(BOND, 1, 1)]);
        assert_eq!(shares(&world.flows()).len(), 2);
        let member = Some(Member { active: true, link: true });
        world.tell(LinkMessage { master: Some(PLAIN), member, ..link(FIRST) });
        assert_eq!(shares(&world.flows()), BTreeMap::from([(Some(FIRST + 1), 4096)]));
        world.model.remove_link(FIRST + 1, &mut world.changes);
        world.settle();
        assert_eq!(shares(&world.flows()), BTreeMap::from([(None, 4096)]));
    }

    /// A group of next-hop objects with weights keeps them, though one of its ways is spread over
    /// members.
    #[test]
    fn ways_keep_their_weights() {
        let mut world = World::new(3, LAYER34);
        world.route("10.9.0.0/24", &[(BOND, 1, 3), (PLAIN, 1, 1)]);
        let shares = shares(&world.flows());
        assert_eq!(shares[&Some(PLAIN)], 1024, "{shares:?}");
        assert_eq!(shares.len(), 4);
    }
}
