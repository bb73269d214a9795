//! Frames of the network, through the standard router.
//!
//! ```text
//! so many times: how u8 (0: by which port, 1: the table's maintenance before) | length u16 | frame
//! ```
//!
//! Three routers get them: one with filter, flow table and every kind of translation, and two
//! without, of which one has the short way and the other not. Of these two the same must come out.

use std::cell::RefCell;

use config::{Cores, Machine, Router};
use elements::router::standard::{self, Hooks, Stages, Standard};
use elements::router::{IcmpPolicy, IcmpSettings, RouterContext, SharedContext, Sources};
use fib::{Adjacency, Capacity, InterfaceEntry, InterfaceFlags, NextHop, Path, PortId, Tables};
use graph::{Batch, Environment, Graph, NodeId, Sinks};
use plane::{Policy, PolicySettings};
use port::{Driver, Packet, Pool, pool};

const IN: PortId = PortId(1);
const OUT: PortId = PortId(2);
const CHUNKS: usize = 2048;
/// Frames of an input at most.
const MOST: usize = 64;

const CONFIGURATION: &str = r#"
[[port]]
name = "inside"
[[port]]
name = "outside"
[flow]
memory = 4
[filter.forward]
policy = "drop"
rules = [
  "accept state established,related",
  "drop state invalid",
  "accept in inside",
  "reject tcp to any port 25",
  "accept out inside to 10.0.0.0/8",
  "accept ip6",
]
[[nat.rule]]
name = "internet"
type = "masquerade"
source = "10.0.0.0/8"
out = "outside"
[[nat.clamp]]
out = "outside"
mss = "path"
"#;

/// Where frames go.
fn tables() -> Tables {
    // Invariants of all `expect`s here: what is so small there is room for.
    let mut tables = Tables::new(Capacity { ipv4: 100, ipv6: 100, next_hops: 16 }, None).expect("tables");
    let flags =
        InterfaceFlags::UP | InterfaceFlags::QUEUE | InterfaceFlags::FORWARD4 | InterfaceFlags::FORWARD6;
    let mut to = [NextHop::None, NextHop::None];
    for (port, to) in [IN, OUT].into_iter().zip(&mut to) {
        let mtu = 1500 - 100 * u32::from(port.0 - 1);
        let entry = InterfaceEntry::of_port(port, port.0.into(), mtu, [2, 0, 0, 0, 1, 1], flags);
        tables.set_interface(port.interface(), Some(entry)).expect("a port");
        let mac = Some([2, 0, 0, 0, 0, port.0 as u8]);
        let adjacency =
            tables.add_adjacency(&Adjacency { interface: port.interface(), mtu, mac }).expect("room");
        *to = NextHop::Forward(vec![Path { adjacency, weight: 1 }]);
    }
    let [inside, outside] = &to;
    for (prefix, hop) in [
        ("10.0.0.0/8", inside),
        ("198.18.0.0/15", outside),
        ("192.0.2.1/32", &NextHop::Local),
        ("198.51.100.0/24", &NextHop::Unreachable),
        ("203.0.113.0/24", &NextHop::Blackhole),
    ] {
        let hop = tables.add_next_hop(hop).expect("room");
        tables.insert4(prefix.parse().expect("a prefix"), hop).expect("room");
    }
    for (prefix, hop) in [("2001:db8:1::/48", inside), ("2001:db8::/32", outside), ("fd00::/8", inside)] {
        let hop = tables.add_next_hop(hop).expect("room");
        tables.insert6(prefix.parse().expect("a prefix"), hop).expect("room");
    }
    tables
}

/// A router, and where its packets end up.
struct Instance {
    graph: Graph,
    entry: NodeId,
    sinks: Sinks,
}

/// What became of a frame: where it left and how, and what was left to Linux.
type Fate = (Vec<(PortId, Vec<u8>)>, Vec<Vec<u8>>);

impl Instance {
    fn new(environment: &Environment, stages: &Stages) -> Instance {
        let registry = elements::registry();
        let program = standard::program(&Hooks::default(), stages, &registry, environment);
        // Invariant: the router's own text is right.
        let program = program.unwrap_or_else(|refusal| panic!("{refusal}"));
        let Standard { graph, entry } =
            standard::instance(&program, environment).unwrap_or_else(|refusal| panic!("{refusal}"));
        let mut sinks = Sinks::new();
        [IN, OUT].into_iter().for_each(|port| sinks.open(port));
        Instance { graph, entry, sinks }
    }

    fn pass(&mut self, input: PortId, frame: &[u8]) -> Fate {
        let Some(mut packet) = Packet::new(frame) else { return Fate::default() };
        packet.input = input.interface();
        let mut batch = Batch::new();
        batch.fill([packet].into_iter());
        self.graph.run(self.entry, &mut batch, &mut self.sinks);
        let mut sent = Vec::new();
        self.sinks.transmit(|port, packets| {
            sent.extend(packets.drain(..).map(|packet| (port, packet.to_vec())));
        });
        (sent, self.sinks.punts().map(|(packet, _, _)| packet.to_vec()).collect())
    }
}

fn router_context(tables: &Tables) -> RouterContext {
    let icmp = IcmpPolicy::of(IcmpSettings::unlimited());
    RouterContext { icmp, ..RouterContext::new(tables.view(), Sources::new(), 1) }
}

/// With filter, flow table and translation.
fn with_policy(tables: &Tables) -> (Instance, SharedContext, Policy) {
    thread_local! {
        // The driver is only asked where flows are to be offloaded to it.
        static DRIVER: RefCell<Option<Driver>> = const { RefCell::new(None) };
    }
    let machine = Machine { cores: Cores(vec![0]) };
    let router = Router::read("fuzz", CONFIGURATION, &machine).unwrap_or_else(|wrong| panic!("{wrong}"));
    let settings = PolicySettings {
        filter: router.filter,
        flows: router.flow,
        nat: router.nat,
        ftp: true,
        ..Default::default()
    };
    let named = |name: &str| match name {
        "inside" => vec![IN.0],
        "outside" => vec![OUT.0],
        _ => Vec::new(),
    };
    let policy = DRIVER.with_borrow_mut(|driver| {
        let few = Capacity { ipv4: 1, ipv6: 1, next_hops: 1 };
        let driver =
            driver.get_or_insert_with(|| Driver::new(&few.sizes()).expect("the driver's maps: as root"));
        Policy::new(settings, 1, driver, named).unwrap_or_else(|error| panic!("{error}"))
    });
    let mut environment = standard::environment(router_context(tables));
    policy.share(&mut environment);
    policy.translate(&[(IN, "inside", "10.0.0.1"), (OUT, "outside", "192.0.2.1")].map(
        |(id, name, address)| nat::Port {
            number: id.0,
            name: name.to_owned(),
            addresses: address.parse().into_iter().collect(),
        },
    ));
    let context = policy.context(0).unwrap_or_else(|error| panic!("{error}"));
    environment.share(context.clone());
    (Instance::new(&environment, &policy.stages()), context, policy)
}

/// Two without a policy, which remember nothing: the long way and the short one.
struct Plain {
    long: Instance,
    short: Instance,
    _tables: Tables,
}

impl Plain {
    fn new() -> Plain {
        let tables = tables();
        let environment = standard::environment(router_context(&tables));
        let long = Instance::new(&environment, &Stages::default());
        let short = Instance::new(&environment, &Stages { fast: true, ..Stages::default() });
        Plain { long, short, _tables: tables }
    }
}

/// Frames, one after the other.
pub fn packets(bytes: &[u8]) {
    thread_local! {
        static PLAIN: RefCell<Option<Plain>> = const { RefCell::new(None) };
    }
    if pool::available() != CHUNKS {
        Pool::heap(CHUNKS).install();
    }
    PLAIN.with_borrow_mut(|plain| pass_all(plain.get_or_insert_with(Plain::new), bytes));
    assert_eq!(pool::available(), CHUNKS, "packets were lost");
}

fn pass_all(plain: &mut Plain, bytes: &[u8]) {
    let tables = tables();
    // What it remembers of one input must not decide on the next.
    let (mut judged, context, _policy) = with_policy(&tables);
    let Plain { long, short, .. } = plain;
    let mut rest = bytes;
    for _ in 0..MOST {
        let Some(([how, high, low], behind)) = rest.split_first_chunk() else { break };
        let length = usize::from(u16::from_be_bytes([*high, *low])).min(behind.len());
        let (frame, behind) = behind.split_at(length);
        rest = behind;
        let input = if how & 1 == 0 { IN } else { OUT };
        if how & 2 != 0 {
            context.maintain(graph::steady_now());
        }
        judged.pass(input, frame);
        assert_eq!(long.pass(input, frame), short.pass(input, frame), "the long way and the short one");
    }
}
