//! Control connections of FTP count otherwise behind a translation, from an announcement that
//! became longer on: each as long as it lives, and none that comes after it by the same ports.

mod instance;

use std::net::Ipv4Addr;

use elements::router::SharedContext;
use fib::Tables;
use instance::{IN, Instance, NEIGHBOUR, OUT, segment, tables};
use plane::{Policy, PolicySettings};
use port::Pool;
use wire::tcp::flag::{ACK, RST, SYN};

const CLIENT: Ipv4Addr = Ipv4Addr::new(10, 1, 0, 2);
const OUTSIDE: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 200);
const SERVER: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 1);
const PORT: &str = "PORT 10,1,0,2,4,210\r\n";
/// By how much that becomes longer.
const GROWN: u32 = 6;

/// The router, and another worker beside this one.
struct Trial {
    instance: Instance,
    beside: SharedContext,
    _tables: Tables,
    _policy: Policy,
}

impl Trial {
    fn new() -> Trial {
        Pool::heap(64).install();
        let tables = tables(&[(IN, NEIGHBOUR, "10.1.0.0/24"), (OUT, NEIGHBOUR, "198.18.0.0/15")]);
        let rule = serde_json::json!({
            "name": "hosts", "type": "source", "out": "outside", "pool": OUTSIDE, "pool_ports": "4000-4071",
        });
        let rules = serde_json::from_value::<nat::Text>(serde_json::json!({ "rule": [rule] })).unwrap();
        let nat = Some(rules.check().unwrap());
        let settings = PolicySettings { nat, ftp: true, ..PolicySettings::default() };
        let (instance, policy) = Instance::start(&tables, settings, 2);
        let beside = policy.context(1).unwrap();
        Trial { instance, beside, _tables: tables, _policy: policy }
    }

    /// Sequence and acknowledgement of a segment as it leaves: from the client, or from the server.
    fn pass(&mut self, from_client: bool, numbers: [u32; 2], flags: u8, text: &str) -> [u32; 2] {
        let (input, ends) = match from_client {
            true => (IN, [(CLIENT, 4000), (SERVER, 21)]),
            false => (OUT, [(SERVER, 21), (OUTSIDE, 4000)]),
        };
        let sent = self.instance.pass(input, &[segment(ends, numbers, flags, text)]);
        let [(_, frame)] = &sent[..] else { panic!("{} packets left for one", sent.len()) };
        [38, 42].map(|at| u32::from_be_bytes(*frame[at..].first_chunk().unwrap()))
    }

    /// A connection of which the client counts from one number on and the server from another:
    /// until an announcement has been acknowledged.
    fn announces(&mut self, [client, server]: [u32; 2]) {
        self.begins([client, server]);
        assert_eq!(self.pass(true, [client + 1, server + 1], ACK, PORT), [client + 1, server + 1]);
        let length = PORT.len() as u32;
        let acknowledged = [server + 1, client + 1 + length + GROWN];
        assert_eq!(self.pass(false, acknowledged, ACK, ""), [server + 1, client + 1 + length]);
        self.is_shifted([client + 1 + length, server + 1], GROWN);
    }

    fn begins(&mut self, [client, server]: [u32; 2]) {
        assert_eq!(self.pass(true, [client, 0], SYN, ""), [client, 0]);
        assert_eq!(self.pass(false, [server, client + 1], SYN | ACK, ""), [server, client + 1]);
        self.is_shifted([client + 1, server + 1], 0);
    }

    /// What the client sends now is counted so much further by the server.
    fn is_shifted(&mut self, [sequence, acknowledged]: [u32; 2], by: u32) {
        assert_eq!(self.pass(true, [sequence, acknowledged], ACK, ""), [sequence + by, acknowledged]);
    }
}

#[test]
fn that_both_ends_have_lost_begin_anew() {
    let mut trial = Trial::new();
    trial.announces([1000, 500]);
    trial.begins([9000, 5000]);
}

#[test]
fn that_begin_before_the_end_of_the_one_before_is_told_are_not_forgotten_with_it() {
    let mut trial = Trial::new();
    trial.announces([1000, 500]);
    let next = 1001 + PORT.len() as u32;
    trial.pass(true, [next, 501], RST, "");
    // Until this worker has come by as well, nobody is told that the flow has ended.
    trial.beside.online();
    trial.instance.maintain();
    trial.announces([9000, 5000]);
    trial.instance.maintain();
    trial.beside.offline();
    for _ in 0..3 {
        trial.instance.maintain();
    }
    trial.is_shifted([9001 + PORT.len() as u32, 5001], GROWN);
}
