//! Interfaces and their tags as readers see them, beside a naive model.

use chance::Random;
use fib::{
    Capacity, FibError, InterfaceEntry, InterfaceFlags, InterfaceId, PortId, TableId, Tables, Tag, Tags, View,
};
use std::collections::BTreeMap;

const CAPACITY: Capacity = Capacity { ipv4: 100, ipv6: 100, next_hops: 100 };

fn entry(port: u16, tags: Tags) -> InterfaceEntry {
    let flags = InterfaceFlags::UP | InterfaceFlags::TARGET;
    InterfaceEntry {
        ifindex: 5,
        mtu: 1500,
        mac: [2, 0, 0, 0, 0, 5],
        flags,
        port: PortId(port),
        tags,
        table: TableId::MAIN,
        priorities: fib::Priorities::default(),
    }
}

fn one(id: u16) -> Tags {
    Tags::One(Tag { service: false, id })
}

fn two(outer: u16, inner: u16) -> Tags {
    Tags::Two(Tag { service: false, id: outer }, inner)
}

/// The interface of a frame with these tags (type, identifier), and how many bytes of them are its.
fn enter(view: &View, port: u16, tags: &[(u16, u16)]) -> Option<(InterfaceId, usize)> {
    let mut bytes: Vec<u8> =
        tags.iter().flat_map(|(kind, id)| [kind.to_be_bytes(), id.to_be_bytes()]).flatten().collect();
    bytes.extend([8, 0, 0x45, 0, 0, 20, 0, 0, 0, 0]);
    view.hops().enter(PortId(port), bytes.first_chunk().unwrap())
}

#[test]
fn interfaces_come_and_go() {
    let mut tables = Tables::new(CAPACITY, None).unwrap();
    let view = tables.view();
    let (id, entry) = (InterfaceId(3), entry(3, Tags::None));
    tables.set_interface(id, Some(entry)).unwrap();
    let word = view.interface(id);
    assert_eq!((word.ifindex(), word.mtu(), word.mac(), word.flags()), (5, 1500, entry.mac, entry.flags));
    assert_eq!((view.hops().link(id).port(), tables.interface(id)), (PortId(3), Some(entry)));
    tables.set_interface(id, None).unwrap();
    assert_eq!((view.interface(id).ifindex(), tables.interface(id)), (0, None));
    assert_eq!(view.interface(InterfaceId::NONE).flags(), InterfaceFlags::empty());
}

#[test]
fn tags_lead_to_the_interface_that_has_them() {
    let mut tables = Tables::new(CAPACITY, None).unwrap();
    let view = tables.view();
    for (id, tags) in [(300, one(10)), (301, two(20, 7)), (302, two(10, 7))] {
        tables.set_interface(InterfaceId(id), Some(entry(1, tags))).unwrap();
    }
    let provider = Tags::One(Tag { service: true, id: 10 });
    tables.set_interface(InterfaceId(303), Some(entry(1, provider))).unwrap();
    let of = |tags: &[(u16, u16)]| enter(&view, 1, tags);
    assert_eq!(of(&[(0x8100, 10)]), Some((InterfaceId(300), 4)));
    assert_eq!(of(&[(0x8100, 0xe000 | 10)]), Some((InterfaceId(300), 4)), "whatever the priority");
    assert_eq!(of(&[(0x8100, 10), (0x8100, 7)]), Some((InterfaceId(302), 8)));
    assert_eq!(of(&[(0x8100, 10), (0x8100, 8)]), None);
    assert_eq!(of(&[(0x8100, 10), (0x8100, 0)]), Some((InterfaceId(300), 8)), "a priority, inside");
    assert_eq!(of(&[(0x8100, 20)]), None);
    assert_eq!(of(&[(0x8100, 20), (0x8100, 7)]), Some((InterfaceId(301), 8)));
    assert_eq!(of(&[(0x88a8, 10)]), Some((InterfaceId(303), 4)));
    assert_eq!(of(&[(0x8100, 0)]), Some((InterfaceId(1), 4)), "a priority alone");
    assert_eq!(of(&[(0x8100, 0), (0x8100, 10)]), None, "a priority in front of a tag");
    assert_eq!(of(&[]), None);
    assert_eq!(enter(&view, 2, &[(0x8100, 10)]), None, "another port");
    assert!(matches!(
        tables.set_interface(InterfaceId(304), Some(entry(1, one(10)))),
        Err(FibError::TagsTaken { port: 1 })
    ));
    assert_eq!(tables.interface(InterfaceId(304)), None);
    // It moves, and leaves nothing behind.
    tables.set_interface(InterfaceId(300), Some(entry(2, one(11)))).unwrap();
    assert_eq!((of(&[(0x8100, 10)]), of(&[(0x8100, 11)])), (None, None));
    assert_eq!(enter(&view, 2, &[(0x8100, 11)]), Some((InterfaceId(300), 4)));
}

#[test]
fn whatever_comes_and_goes_a_naive_table_says_the_same() {
    let mut random = Random(7);
    let mut tables = Tables::new(CAPACITY, None).unwrap();
    let view = tables.view();
    let mut naive: BTreeMap<u16, InterfaceEntry> = BTreeMap::new();
    let mut below = |limit: usize| random.below(limit) as u16;
    for step in 0..20_000 {
        let (id, port, outer, inner) = (256 + below(12), below(3), 1 + below(4), 1 + below(3));
        let outer = Tag { service: below(2) == 1, id: outer };
        let tags = if below(2) == 0 { Tags::One(outer) } else { Tags::Two(outer, inner) };
        let wanted = (below(3) > 0).then(|| entry(port, tags));
        let taken = wanted.is_some_and(|wanted| {
            naive.iter().any(|(at, has)| *at != id && (has.port, has.tags) == (wanted.port, wanted.tags))
        });
        let set = tables.set_interface(InterfaceId(id), wanted);
        assert_eq!(set.is_err(), taken, "step {step}");
        if !taken {
            match wanted {
                Some(wanted) => naive.insert(id, wanted),
                None => naive.remove(&id),
            };
        }
        tables.reclaim();
        let (port, outer, inner, tagged) = (below(3), 1 + below(4), below(4), below(2) == 1);
        let service = below(2) == 1;
        let kind = if service { 0x88a8 } else { 0x8100 };
        let find = |tags: Tags| {
            naive
                .iter()
                .find(|(_, has)| has.port.0 == port && has.tags == tags)
                .map(|(id, _)| InterfaceId(*id))
        };
        let outer_tag = Tag { service, id: outer };
        let opens = naive
            .values()
            .any(|has| has.port.0 == port && matches!(has.tags, Tags::Two(tag, _) if tag == outer_tag));
        let expected = match (tagged, inner) {
            (true, 0) => find(Tags::One(outer_tag)).map(|id| (id, 8)),
            (false, _) => find(Tags::One(outer_tag)).map(|id| (id, 4)),
            (true, _) if !opens => find(Tags::One(outer_tag)).map(|id| (id, 4)),
            (true, inner) => find(Tags::Two(outer_tag, inner)).map(|id| (id, 8)),
        };
        let frame: &[_] = if tagged { &[(kind, outer), (0x8100, inner)] } else { &[(kind, outer)] };
        let found = enter(&view, port, frame);
        // Where nothing is inside, whose a second tag is does not matter: Linux has the frame.
        let either = tagged && !opens && found.is_none();
        assert!(
            found == expected || either,
            "step {step}: {frame:x?} is {found:?}, not {expected:?}, in {naive:?}"
        );
    }
}

#[test]
fn blocks_of_tags_are_used_again() {
    let mut tables = Tables::new(CAPACITY, None).unwrap();
    for round in 0..3 {
        for outer in 1..=400 {
            let id = InterfaceId(256 + outer);
            tables
                .set_interface(id, Some(entry(0, two(outer, 5))))
                .unwrap_or_else(|e| panic!("{round}: {e}"));
        }
        (1..=400).for_each(|outer| tables.set_interface(InterfaceId(256 + outer), None).unwrap());
        tables.reclaim();
    }
    let last =
        (1..=600).map(|outer| tables.set_interface(InterfaceId(256 + outer), Some(entry(0, two(outer, 5)))));
    assert!(matches!(last.last(), Some(Err(FibError::TooManyTags { .. }))));
}

#[test]
fn there_is_room_for_16127_beside_those_of_ports() {
    let mut tables = Tables::new(CAPACITY, None).unwrap();
    let view = tables.view();
    let first = InterfaceId::FIRST_LOGICAL.0;
    let place = |n: u16| entry(1 + n / 4094, one(1 + n % 4094));
    for n in 0..16_127 {
        tables.set_interface(InterfaceId(first + n), Some(place(n))).unwrap();
    }
    for n in [0, 4093, 4094, 16_126] {
        let tag = (0x8100, 1 + n % 4094);
        assert_eq!(enter(&view, 1 + n / 4094, &[tag]), Some((InterfaceId(first + n), 4)));
    }
    let more = tables.set_interface(InterfaceId(first + 16_127), Some(place(16_127)));
    assert!(matches!(more, Err(FibError::NoSuchInterface(_))));
}
