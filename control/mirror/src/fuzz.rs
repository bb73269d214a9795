//! Where a fuzzer comes in: bytes of the kernel's or of zebra's, through the model into tables, and
//! what must hold then.

use crate::Model;
use crate::fpm::{Frames, told};
use crate::linux;
use crate::mirror::{Counters, take_in};
use crate::model::{Changes, SourceId};
use crate::netlink::{self, group, netfilter, rule};
use crate::programmer::{Legs, Programmer};
use crate::source::{self, Change};
use fib::{Capacity, InterfaceEntry, InterfaceFlags, InterfaceId, Tables};
use std::time::{Duration, Instant};

/// Interfaces that are ports, by their indices.
const PORTS: std::ops::Range<u32> = 1..4;
/// A bond, or bridge, of the first two.
const BOND: u32 = 4;

struct World {
    tables: Tables,
    model: Model,
    changes: Changes,
    programmer: Programmer,
}

impl World {
    fn new() -> World {
        let capacity = Capacity { ipv4: 1000, ipv6: 1000, next_hops: 500 };
        // Invariants of a fuzzer's world, here and below: what is so small there is room for.
        let mut tables = Tables::new(capacity, None).expect("small tables");
        let (mut model, mut programmer) = (Model::default(), Programmer::new());
        programmer.prepare(&mut model, &mut tables).expect("an empty table");
        for ifindex in PORTS {
            let port = InterfaceId(ifindex as u16);
            let entry = InterfaceEntry::of_port(
                fib::PortId(port.0),
                ifindex,
                1500,
                [2, 0, 0, 0, 0, ifindex as u8],
                InterfaceFlags::UP,
            );
            tables.set_interface(port, Some(entry)).expect("few ports");
            programmer.bind(ifindex, Some(port.into()), &model, &mut tables);
        }
        let members = [1, 2].map(|member| (InterfaceId(member as u16), member));
        programmer.bind(BOND, Some(Legs::of_members(BOND, members)), &model, &mut tables);
        World { tables, model, changes: Changes::default(), programmer }
    }

    /// Takes in what a source said, and programs it.
    fn take_in(&mut self, source: SourceId, said: impl IntoIterator<Item = Change>) {
        for change in said {
            take_in(source, change, &mut self.model, &mut self.changes, &mut Counters::default());
        }
        self.settle();
    }

    /// Programs what changed. The tables then hold what the model says, but for what they have no
    /// room for.
    fn settle(&mut self) {
        let World { tables, model, changes, programmer } = self;
        programmer.take(changes, model, tables);
        *changes = Changes::default();
        while programmer.work(model, tables, Instant::now() + Duration::from_secs(1)) {}
        tables.reclaim();
        for place in programmer.places_after(None, usize::MAX, model).0 {
            let known = programmer.is_missing(&place) || programmer.is_programmed(place, model, tables);
            assert!(known || programmer.failures() > 0, "{place:?} is not as the model says");
        }
        assert_eq!(programmer.written(), tables.len());
    }
}

/// A datagram of the kernel's: notifications, and what dumps are made of.
pub fn netlink(bytes: &[u8]) {
    let (mut world, mut counters) = (World::new(), source::Counters::default());
    for message in netlink::messages(bytes) {
        world.take_in(SourceId::Netlink, linux::told(message, &mut counters));
        let body = message.body;
        let own = netfilter::parse_own_rule(message.kind, body).is_some();
        std::hint::black_box((
            rule::parse(body),
            netfilter::parse_chain(body),
            netfilter::parse_generation(body),
            own,
            (group::parse(body), group::chooses_table(body), group::tells_interfaces(body)),
        ));
    }
}

/// What comes over zebra's connection.
pub fn fpm(bytes: &[u8]) {
    let (mut world, mut counters) = (World::new(), source::Counters::default());
    world.programmer.believe(SourceId::Fpm, true);
    let (mut frames, mut rest) = (Frames::default(), bytes);
    while frames.read(&mut rest).is_ok_and(|read| read > 0) {
        loop {
            match frames.next() {
                Ok(Some(frame)) => world.take_in(SourceId::Fpm, told(frame, &mut counters)),
                Ok(None) => break,
                Err(_) => return,
            }
        }
    }
}
