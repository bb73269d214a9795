//! What is said of mappings where the flow table is full: one that is made for a flow which then
//! finds no room ends at once, and that is said as well.

mod instance;

use std::net::Ipv4Addr;

use fib::PortId;
use instance::{IN, Instance, NEIGHBOUR, OUT, segment, tables};
use nat::Event;
use plane::PolicySettings;
use port::Pool;
use wire::tcp::flag::{ACK, SYN};

const OUTSIDE: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 200);
const SERVER: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 1);
/// More than the smallest table holds.
const CONNECTIONS: u16 = 30_000;

#[test]
fn ends_what_it_made_for_nobody() {
    Pool::heap(64).install();
    let tables = tables(&[(IN, NEIGHBOUR, "10.1.0.0/24"), (OUT, NEIGHBOUR, "198.18.0.0/15")]);
    let rules = serde_json::json!({
        "log": true,
        "rule": [{ "name": "hosts", "type": "source", "out": "outside", "pool": OUTSIDE, "host_limit": 0 }],
    });
    let rules = serde_json::from_value::<nat::Text>(rules).unwrap().check().unwrap();
    let flows = flow::Settings { memory: 3 << 20, ..flow::Settings::default() };
    let settings = PolicySettings { nat: Some(rules), flows: Some(flows), ..PolicySettings::default() };
    let (mut instance, policy) = Instance::start(&tables, settings, 1);
    let mut pass = |input: PortId, ends, numbers, flags| {
        let sent = instance.pass(input, &[segment(ends, numbers, flags, "")]);
        instance.maintain();
        sent.len() == 1
    };
    let (mut refused, mut made, mut ended) = (0, 0, 0);
    for port in 2000..2000 + CONNECTIONS {
        let client = (Ipv4Addr::new(10, 1, 0, 2), port);
        if pass(IN, [client, (SERVER, 80)], [1, 0], SYN) {
            // What both ends want need not make room for others.
            assert!(pass(OUT, [(SERVER, 80), (OUTSIDE, port)], [1, 2], SYN | ACK));
            assert!(pass(IN, [client, (SERVER, 80)], [2, 2], ACK));
        } else {
            refused += 1;
        }
        let records = &policy.ended().unwrap().made;
        while let Some(record) = records.pop() {
            match record.event {
                Event::Made => made += 1,
                Event::Ended => ended += 1,
            }
        }
    }
    assert!(refused > 0 && made >= refused, "{refused} of {CONNECTIONS} found no room");
    assert_eq!((made, ended), (usize::from(CONNECTIONS), refused));
    assert_eq!(policy.nat().unwrap().len(), made - ended);
}
