//! Where a fuzzer comes in: bytes of the kernel's or of zebra's, through the model into tables, and what must hold then.

use crate::Model;
use crate::fpm::{FpmCounters, Frames, Told, told};
use crate::mirror::{Counters, take_in};
use crate::model::{Changes, Source, Table};
use crate::netlink::{self, netfilter, rule};
use crate::programmer::{Legs, Programmer};
use fib::{Capacity, InterfaceEntry, InterfaceFlags, InterfaceId, Tables};
use std::time::{Duration, Instant};

/// Interfaces that are ports, by their indices.
const PORTS: std::ops::Range<u32> = 1..4;
/// A bond of the first two.
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
        programmer.bind(BOND, Some(Legs::of_bond(BOND, members)), &model, &mut tables);
        World { tables, model, changes: Changes::default(), programmer }
    }

    /// Programs what changed. The tables then hold what the model says, but for what they have no room for.
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
    let (mut world, mut counters) = (World::new(), Counters::default());
    for message in netlink::messages(bytes) {
        take_in(message, &mut world.model, &mut world.changes, &mut counters);
        world.settle();
        let body = message.body;
        let own = netfilter::parse_own_rule(message.kind, body).is_some();
        std::hint::black_box((
            rule::parse(body),
            netfilter::parse_chain(body),
            netfilter::parse_generation(body),
            own,
        ));
    }
}

/// What comes over zebra's connection.
pub fn fpm(bytes: &[u8]) {
    let (mut world, mut counters) = (World::new(), FpmCounters::default());
    world.programmer.use_fpm(true);
    let (mut frames, mut rest) = (Frames::default(), bytes);
    while frames.read(&mut rest).is_ok_and(|read| read > 0) {
        loop {
            let all = match frames.next() {
                Ok(Some(frame)) => told(frame, &mut counters),
                Ok(None) => break,
                Err(_) => return,
            };
            for told in all {
                let World { model, changes, .. } = &mut world;
                match told {
                    Told::Route(route) => {
                        model.routes.announce_fpm(&route);
                        changes
                            .prefixes
                            .extend(Table::from_number(route.table).map(|table| (route.prefix, table)));
                    }
                    Told::RouteGone(route) => {
                        model.routes.withdraw_fpm(&route);
                        changes
                            .prefixes
                            .extend(Table::from_number(route.table).map(|table| (route.prefix, table)));
                    }
                    Told::Object(object) => model.set_object(Source::Fpm, &object, changes),
                    Told::ObjectGone(id) => model.remove_object(Source::Fpm, id, changes),
                }
            }
            world.settle();
        }
    }
}
