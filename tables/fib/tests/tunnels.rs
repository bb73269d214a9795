//! Tunnels beside a model that is a list: whatever comes, changes and goes, a packet's ends lead to
//! the interface that has them, and the interface to its header.

use fib::{
    Capacity, FibError, Gre, InterfaceEntry, InterfaceFlags, InterfaceId, Over, Payload, PortId, TableId,
    Tables, Tags, Tunnel, Vxlan,
};
use proptest::prelude::*;
use std::collections::BTreeMap;

fn tunnel() -> impl Strategy<Value = Tunnel> {
    let key = || prop_oneof![Just(None), (0u32..2).prop_map(Some)];
    let fields = || (key(), any::<bool>()).prop_map(|(key, sum)| Gre { key, sum });
    let gre = (fields(), fields()).prop_map(|(enters, leaves)| Payload::Gre { enters, leaves });
    let vxlan =
        (0u32..2, 4789u16..4791, any::<[bool; 3]>()).prop_map(|(vni, port, [sum, unsummed, learns])| {
            Payload::Vxlan(Vxlan { vni, port, sources: (32768, 61000), sum, unsummed, learns })
        });
    let payload = prop_oneof![Just(Payload::Ipv4), Just(Payload::Ipv6), gre, vxlan];
    let over4 = (0u32..3, 0u32..3, any::<bool>(), any::<bool>()).prop_map(
        |(local, remote, dont_fragment, ignore_df)| {
            let [local, remote] = [local, remote].map(|end| (0x0a00_0000 + end).into());
            Over::Ipv4 { local, remote, dont_fragment, ignore_df }
        },
    );
    let label = prop_oneof![Just(None), Just(Some(0)), Just(Some(0x12345))];
    let limit = prop_oneof![Just(None), Just(Some(0)), Just(Some(4))];
    let over6 = (0u128..3, 0u128..3, label, limit).prop_map(|(local, remote, label, limit)| {
        let [local, remote] = [local, remote].map(|end| (0x2001_0db8 << 96 | end).into());
        Over::Ipv6 { local, remote, label, limit }
    });
    let any = (Just(Payload::Any), over6.clone());
    let both = prop_oneof![2 => (payload.clone(), over4), 2 => (payload, over6), 1 => any];
    let tos = prop_oneof![Just(None), Just(Some(0)), Just(Some(0xb8))];
    (both, 0u8..2, tos).prop_map(|((payload, over), ttl, tos)| Tunnel { payload, ttl, tos, over })
}

fn entry(tags: Tags) -> InterfaceEntry {
    let (flags, port, table) = (InterfaceFlags::UP, PortId::NONE, TableId::MAIN);
    let priorities = Default::default();
    InterfaceEntry { ifindex: 9, mtu: 1400, mac: [0; 6], flags, port, tags, table, priorities }
}

proptest! {
    #[test]
    fn ends_lead_to_the_interface_that_has_them(
        changes in prop::collection::vec((300u16..306, prop::option::of(tunnel()), 500u32..600), 1..60),
        others in prop::collection::vec(tunnel(), 10),
    ) {
        let mut tables = Tables::new(Capacity { ipv4: 1, ipv6: 1, next_hops: 1 }, None).unwrap();
        let view = tables.view();
        let mut model: BTreeMap<u16, (Tunnel, u32)> = BTreeMap::new();
        for (id, change, mtu) in changes {
            let taken = change.is_some_and(|new| {
                model.iter().any(|(other, (has, _))| *other != id && has.ends() == new.ends())
            });
            let done = tables.set_interface(InterfaceId(id), change.map(|new| entry(Tags::Tunnel(new))));
            prop_assert_eq!(matches!(done, Err(FibError::EndsTaken)), taken);
            match change {
                Some(new) if !taken => {
                    // The same again keeps what is known of its path.
                    if model.get(&id).is_none_or(|(has, _)| *has != new) {
                        tables.set_path_mtu(InterfaceId(id), mtu);
                        model.insert(id, (new, mtu));
                    }
                }
                Some(_) => {}
                None => drop(model.remove(&id)),
            }
            tables.reclaim();
            let hops = view.hops();
            for id in 300..306 {
                let (is, wanted) = (hops.tunnel(InterfaceId(id)), model.get(&id));
                prop_assert_eq!(is.is_some(), wanted.is_some());
                let (Some(is), Some((wanted, mtu))) = (is, wanted) else { continue };
                prop_assert_eq!(is.header(), wanted.header());
                prop_assert_eq!((is.length(), is.path_mtu()), (wanted.length(), *mtu));
                prop_assert_eq!((is.interface().0, is.remote()), (id, wanted.over.remote()));
                let ignores = matches!(wanted.over, Over::Ipv4 { ignore_df: true, .. });
                prop_assert_eq!((is.inherits_tos(), is.ignores_df()), (wanted.tos.is_none(), ignores));
                let (label, limit) = match wanted.over {
                    Over::Ipv4 { .. } => (Some(0), None),
                    Over::Ipv6 { label, limit, .. } => (label, limit),
                };
                prop_assert_eq!((is.inherits_label(), is.limit()), (label.is_none(), limit));
                let [enters, leaves] = wanted.payload.fields();
                let vxlan = wanted.payload.vxlan();
                prop_assert_eq!(is.vxlan(), vxlan.map(|vxlan| (vxlan.vni, vxlan.port)));
                prop_assert_eq!(is.learns(), vxlan.is_some_and(|vxlan| vxlan.learns));
                let sums = match vxlan {
                    Some(vxlan) => [!vxlan.unsummed && is.over_ipv6(), vxlan.sum],
                    None => [enters.sum, leaves.sum],
                };
                prop_assert_eq!((is.key_out(), is.sums()), (leaves.key, sums));
                let carried: Vec<_> = [4, 6].into_iter().filter(|version| is.carries(*version)).collect();
                let protocols: Vec<_> = carried.iter().map(|version| is.protocol(*version)).collect();
                match wanted.payload {
                    Payload::Gre { .. } => prop_assert_eq!(protocols, [47, 47]),
                    Payload::Vxlan(_) => prop_assert_eq!(protocols, [17, 17]),
                    payload => prop_assert_eq!(protocols, payload.protocols()),
                }
            }
            for ends in others.iter().chain(model.values().map(|(has, _)| has)).map(Tunnel::ends) {
                let wanted = model.iter().find(|(_, (has, _))| has.ends() == ends).map(|(id, _)| *id);
                prop_assert_eq!(hops.tunnel_at(&ends).map(|is| is.interface().0), wanted);
            }
        }
    }
}

#[test]
fn there_is_room_for_thousands() {
    let mut tables = Tables::new(Capacity { ipv4: 1, ipv6: 1, next_hops: 1 }, None).unwrap();
    let view = tables.view();
    let tunnel = |n: u16| Tunnel {
        payload: Payload::Ipv4,
        ttl: 0,
        tos: Some(0),
        over: match n % 2 {
            0 => Over::Ipv4 {
                local: 0x0a00_0001.into(),
                remote: (0x0a01_0000 + u32::from(n)).into(),
                dont_fragment: true,
                ignore_df: false,
            },
            _ => Over::Ipv6 {
                local: (0x2001_0db8 << 96 | 1).into(),
                remote: (0x2001_0db8 << 96 | u128::from(0x10000 + u32::from(n))).into(),
                label: Some(0),
                limit: None,
            },
        },
    };
    let set = |tables: &mut Tables, n: u16| {
        tables.set_interface(InterfaceId(300 + n), Some(entry(Tags::Tunnel(tunnel(n)))))
    };
    let refused = (0..4096).filter(|n| set(&mut tables, *n).is_err()).count();
    assert_eq!(refused, 0);
    assert!((0..4096).all(|n| view.hops().tunnel_at(&tunnel(n).ends()).is_some()));
    // Those that go make room, and take what others need not with them.
    for n in (0..4096).filter(|n| n % 4 < 2) {
        tables.set_interface(InterfaceId(300 + n), None).unwrap();
    }
    let there = |n| view.hops().tunnel_at(&tunnel(n).ends()).is_some();
    assert!((0..4096).all(|n| there(n) == (n % 4 >= 2)));
}

#[test]
fn hosts_are_known_behind_one_end_until_they_are_forgotten() {
    let mut tables = Tables::new(Capacity { ipv4: 1, ipv6: 1, next_hops: 1 }, None).unwrap();
    let view = tables.view();
    let mac = |n: u16| [2, 0, 0, 0, (n >> 8) as u8, n as u8];
    assert!((0..10_000).all(|n| tables.know_host(InterfaceId(300 + n % 3), mac(n), true)));
    let known = |n: u16, by: u16| view.hops().knows_host(InterfaceId(300 + by), mac(n));
    assert!((0..10_000).all(|n| known(n, n % 3) && !known(n, (n + 1) % 3)));
    assert!((0..10_000).filter(|n| n % 2 == 0).all(|n| tables.know_host(
        InterfaceId(300 + n % 3),
        mac(n),
        false
    )));
    assert!((0..10_000).all(|n| known(n, n % 3) == (n % 2 == 1)));
    // More than there is room for are unknown, and say so.
    let refused = (0..60_000).filter(|n| !tables.know_host(InterfaceId(400), mac(*n), true)).count();
    let unknown = (0..60_000).filter(|n| !view.hops().knows_host(InterfaceId(400), mac(*n))).count();
    assert_eq!(refused, unknown);
    assert!(refused > 0);
}
