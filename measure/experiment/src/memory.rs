//! The standard router between two ports in memory, on one core: what forwarding costs where no
//! network card is in the way.
//!
//! Each batch is written into a ring of buffers as it is received, as a generator does; what that
//! costs, measured in turns with the router in the same run, is subtracted. All that leaves is
//! looked at once before anything is timed: port, addresses, TTL, checksum; and at the end none may
//! be missing.

use std::sync::Arc;

use elements::router::standard::{self, Hooks, Stages, Standard};
use elements::router::{RouterContext, SharedContext, Sources};
use fib::{
    Adjacency, Capacity, InterfaceEntry, InterfaceFlags, NextHop, NextHopId, Path, PortId, Reader, Tables,
    View,
};
use graph::{BATCH, Batch, Graph, NodeId, Sinks};
use ipnet::Ipv4Net;
use plane::{Policy, PolicySettings};
use port::{Driver, Fresh, Packet, Pool, Prepared, Queue, Sink};
use wire::{Mac, checksum};

use crate::ExperimentError;
use crate::frames::{Flow, Frames};
use crate::measure::{cycles, cycles_per_second, median};
use crate::ruleset::Judge;

const IN: PortId = PortId(1);
const OUT: PortId = PortId(2);
/// The router's two ports.
pub const ROUTER: [Mac; 2] = [Mac([2, 0, 0, 0, 1, 1]), Mac([2, 0, 0, 0, 1, 2])];
/// Who sends.
pub const HOST: Mac = Mac([2, 0, 0, 0, 0, 1]);
/// Its address, 10.99.1.2.
pub const SENDER: u32 = 0x0a63_0102;
/// Neighbours that the routes go by.
const GATEWAYS: usize = 16;
/// Buffers of the generator's ring.
pub const RING: usize = 1024;
/// Packets between two looks at the clock.
const STRETCH: usize = 65_536;
/// Times as many samples as are wanted that may be taken for them.
const TRIES: usize = 5;

fn gateway(number: usize) -> Mac {
    Mac([2, 0, 0, 9, 9, number as u8])
}

/// Tables with these routes by 16 gateways behind the second port, and the sender behind the first.
pub fn tables(routes: &[Ipv4Net]) -> Result<Tables, ExperimentError> {
    let capacity = Capacity { ipv4: routes.len() * 5 / 4 + 1000, ipv6: 1000, next_hops: 1000 };
    let mut tables = Tables::new(capacity, None)?;
    let flags =
        InterfaceFlags::UP | InterfaceFlags::QUEUE | InterfaceFlags::FORWARD4 | InterfaceFlags::FORWARD6;
    for (port, mac) in [IN, OUT].into_iter().zip(ROUTER) {
        let entry = InterfaceEntry::of_port(port, u32::from(port.0), 1500, mac.0, flags);
        tables.set_interface(port.interface(), Some(entry))?;
    }
    let mut hop = |port: PortId, mac: Mac| -> Result<NextHopId, ExperimentError> {
        let adjacency =
            tables.add_adjacency(&Adjacency { interface: port.interface(), mtu: 1500, mac: Some(mac.0) })?;
        Ok(tables.add_next_hop(&NextHop::Forward(vec![Path { adjacency, weight: 1 }]))?)
    };
    let back = hop(IN, HOST)?;
    let hops = (0..GATEWAYS).map(|number| hop(OUT, gateway(number))).collect::<Result<Vec<_>, _>>()?;
    if let Ok(net) = Ipv4Net::new([10, 99, 1, 0].into(), 24) {
        tables.insert4(net, back)?;
    }
    for (number, net) in routes.iter().enumerate() {
        tables.insert4(*net, hops[number % GATEWAYS])?;
    }
    tables.reclaim();
    Ok(tables)
}

/// Frames of 64 bytes, or of these sizes, from the sender through the router's first port.
pub fn frames(flows: Vec<Flow>, sizes: &[u32]) -> Frames {
    Frames::new(HOST, ROUTER[0], SENDER, flows, sizes)
}

/// The standard router, for the thread that made it.
pub struct Router {
    graph: Graph,
    entry: NodeId,
    context: Option<SharedContext>,
    sinks: Sinks,
    batch: Batch,
    reader: Reader,
    /// Kept while its flows are.
    _policy: Option<Policy>,
}

impl Router {
    /// A router on these tables that judges packets. What judges needs the driver's programs, and
    /// with them root.
    pub fn new(view: &View, judge: Judge) -> Result<Router, ExperimentError> {
        let mut environment = standard::environment(RouterContext::new(view.clone(), Sources::new(), 1));
        let (mut policy, mut context) = (None, None);
        if judge != Judge::Nothing {
            // The driver carries nothing here, so it needs no room.
            let mut driver = Driver::new(&Capacity { ipv4: 1, ipv6: 1, next_hops: 1 }.sizes())?;
            let settings = PolicySettings { filter: judge.filter()?, ..PolicySettings::default() };
            let judging = Policy::new(settings, 1, &mut driver, |_| Vec::new())?;
            judging.share(&mut environment);
            let given = judging.context(0)?;
            environment.share(given.clone());
            (policy, context) = (Some(judging), Some(given));
        }
        let stages =
            policy.as_ref().map_or_else(|| Stages { fast: true, ..Stages::default() }, Policy::stages);
        let program = standard::program(&Hooks::default(), &stages, &elements::registry(), &environment)?;
        let Standard { graph, entry } = standard::instance(&Arc::new(program), &environment)?;
        let mut sinks = Sinks::new();
        [IN, OUT].into_iter().for_each(|port| sinks.open(port));
        let reader = view.reader();
        Ok(Router { graph, entry, context, sinks, batch: Batch::new(), reader, _policy: policy })
    }

    /// One batch from a queue, through the graph, to where it goes.
    #[inline]
    fn pass(&mut self, from: &mut dyn Queue, out: &mut Sink, quota: usize) {
        self.batch.receive(from, quota);
        self.graph.run(self.entry, &mut self.batch, &mut self.sinks);
        self.sinks.transmit(|port, packets| {
            if port == OUT {
                out.transmit(packets);
            }
        });
        if let Some(context) = &self.context {
            context.maintain(graph::steady_now());
        }
        self.reader.quiescent();
    }
}

/// How it is measured.
#[derive(Clone, Copy, Debug)]
pub struct How {
    /// Packets of a batch.
    pub batch: usize,
    /// Buffers that the packets lie in: a ring that is written anew as they come, or, when more
    /// than [`RING`], written long before.
    pub buffers: usize,
    /// Samples of 65,536 packets each.
    pub samples: usize,
}

impl How {
    /// Whole batches, warm packets.
    pub fn new(samples: usize) -> How {
        How { batch: BATCH, buffers: RING, samples }
    }
}

/// What a packet costs.
#[derive(Clone, Copy, Debug)]
pub struct Cost {
    /// Cycles a packet, the median.
    pub cycles: f64,
    /// Nanoseconds a packet.
    pub nanoseconds: f64,
}

impl Cost {
    /// Of these samples, in cycles a packet.
    pub fn of(samples: &[f64]) -> Cost {
        let cycles = median(samples);
        Cost { cycles, nanoseconds: cycles / cycles_per_second() * 1e9 }
    }

    /// Thousands of packets a second on a core that does nothing else.
    pub fn kpps(self) -> f64 {
        1e6 / self.nanoseconds
    }
}

/// So many samples of what something costs beyond the making of its packets, which is measured
/// beside it. Where the core was taken away during the making alone, that seems to take longer than
/// both together: then another sample is taken.
pub fn samples(count: usize, mut one: impl FnMut() -> f64) -> Result<Vec<f64>, ExperimentError> {
    let samples: Vec<f64> =
        (0..TRIES * count).map(|_| one()).filter(|&cycles| cycles > 0.0).take(count).collect();
    if samples.len() < count {
        let said = "too busy: making packets takes longer than making and forwarding them".to_owned();
        return Err(ExperimentError::Machine(said));
    }
    Ok(samples)
}

/// What the router's work on a packet costs.
pub fn cost(router: &mut Router, frames: &Frames, how: How) -> Result<Cost, ExperimentError> {
    Pool::heap(2 * how.buffers + 8 * BATCH).install();
    let fresh = if how.buffers > RING { Fresh::OnRewind } else { Fresh::Always };
    let source = || {
        let own = frames.clone();
        let write = move |number: u64, packet: &mut Packet| own.write(number, packet);
        Prepared::new(IN, how.buffers, fresh, write)
            .ok_or_else(|| ExperimentError::Machine("there is no memory for packets".to_owned()))
    };
    let (mut alone, mut routed) = (source()?, source()?);
    let (mut nowhere, mut out) = (alone.sink(OUT), routed.sink(OUT));
    let turns = STRETCH / how.batch;
    // Whole rounds of all flows, so that those that are to be known are.
    out.check(|packet| right(packet.data()));
    for _ in 0..(frames.round().clamp(STRETCH, 1 << 20) / how.batch).max(turns) {
        if fresh == Fresh::OnRewind && out.counters().tx_packets % how.buffers as u64 == 0 {
            routed.rewind();
        }
        router.pass(&mut routed, &mut out, how.batch);
    }
    if out.wrong() > 0 {
        return Err(ExperimentError::Wrong(format!("{} frames left the router wrong", out.wrong())));
    }
    out.count();
    let mut batch: Vec<Packet> = Vec::with_capacity(BATCH);
    let net = samples(how.samples, || {
        if fresh == Fresh::OnRewind {
            alone.rewind();
            routed.rewind();
        }
        let making = cycles(|| {
            for _ in 0..turns {
                alone.receive(&mut batch, how.batch);
                nowhere.transmit(&mut batch);
            }
        });
        let all = cycles(|| (0..turns).for_each(|_| router.pass(&mut routed, &mut out, how.batch)));
        (all - making) / (turns * how.batch) as f64
    })?;
    let (came, left) = (routed.counters().rx_packets, out.counters().tx_packets);
    if came != left {
        return Err(ExperimentError::Wrong(format!("of {came} packets {left} were forwarded")));
    }
    Ok(Cost::of(&net))
}

/// What is right about a frame that has left.
fn right(frame: &[u8]) -> bool {
    let to = (0..GATEWAYS).any(|number| frame[..6] == gateway(number).0);
    to && frame[6..12] == ROUTER[1].0 && frame[22] == 63 && checksum::verify(&frame[14..34])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frames::flows_inside;
    use lab::prefixes::{Random, ipv4};

    #[test]
    fn a_cost_below_nothing_is_no_sample() {
        let mut measured = [-5.0, 3.0, 0.0, 4.0, 7.0].into_iter();
        assert_eq!(samples(2, || measured.next().unwrap()).unwrap(), [3.0, 4.0]);
        let refused = samples(2, || -1.0).unwrap_err();
        assert!(refused.to_string().contains("too busy"), "{refused}");
    }

    #[test]
    fn a_router_forwards_what_it_is_given_and_the_rest_is_an_error() {
        let mut random = Random(1);
        let routes = ipv4(1000, &mut random);
        let tables = tables(&routes).unwrap();
        let mut router = Router::new(&tables.view(), Judge::Nothing).unwrap();
        let flows = flows_inside(&routes, 4096, &mut random);
        for how in [How::new(2), How { batch: 1, ..How::new(1) }, How { buffers: STRETCH, ..How::new(1) }] {
            let cost = cost(&mut router, &frames(flows.clone(), &[64, 1500]), how).unwrap();
            assert!(cost.cycles > 0.0 && cost.kpps() > 1.0, "{cost:?}");
        }
        let nowhere = vec![Flow { destination: 0x7f00_0001, port: 1 }];
        let refused = cost(&mut router, &frames(nowhere, &[64]), How::new(1)).unwrap_err();
        assert!(refused.to_string().contains("were forwarded"), "{refused}");
    }
}
