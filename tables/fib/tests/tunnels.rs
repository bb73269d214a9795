//! Tunnels beside a model that is a list: whatever comes, changes and goes, a packet's ends lead to
//! the interface that has them, and the interface to its header.

use fib::{
    Capacity, FibError, Gre, InterfaceEntry, InterfaceFlags, InterfaceId, Over, Payload, PortId, TableId,
    Tables, Tags, Tunnel,
};
use proptest::prelude::*;
use std::collections::BTreeMap;

fn tunnel() -> impl Strategy<Value = Tunnel> {
    let key = || prop_oneof![Just(None), (0u32..2).prop_map(Some)];
    let fields = || (key(), any::<bool>()).prop_map(|(key, sum)| Gre { key, sum });
    let gre = (fields(), fields()).prop_map(|(enters, leaves)| Payload::Gre { enters, leaves });
    let payload = prop_oneof![Just(Payload::Ipv4), Just(Payload::Ipv6), gre];
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
    InterfaceEntry { ifindex: 9, mtu: 1400, mac: [0; 6], flags, port, tags, table }
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
                prop_assert_eq!((is.key_out(), is.sums()), (leaves.key, [enters.sum, leaves.sum]));
                let carried: Vec<_> = [4, 6].into_iter().filter(|version| is.carries(*version)).collect();
                let protocols: Vec<_> = carried.iter().map(|version| is.protocol(*version)).collect();
                match wanted.payload {
                    Payload::Gre { .. } => prop_assert_eq!(protocols, [47, 47]),
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
