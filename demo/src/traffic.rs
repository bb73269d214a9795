//! What the hosts say to each other while the demo runs: ping, TCP and many UDP flows, in both
//! families.

use std::{net::SocketAddr, time::Duration};

use lab::{Flows, Iperf, Ping, PingStatistics, Result, Sink};

use crate::stage::{SERVER, Stage};

const UDP_PORT: u16 = 9000;
const UDP_FLOWS: usize = 250;
const UDP_RATE: u32 = 5_000;
const TCP_MEGABITS: u32 = 100;

/// The running traffic.
pub struct Traffic {
    pings: Vec<Ping>,
    tcp: Vec<Iperf>,
    flows: Vec<Flows>,
    sink: Sink,
}

/// What became of it so far.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Ping of each family.
    pub pings: Vec<PingStatistics>,
    /// TCP of both families over the last second, megabits a second.
    pub megabits: f64,
    /// Whether every TCP connection lives.
    pub tcp_lives: bool,
    /// UDP datagrams sent and received.
    pub udp: (u64, u64),
    /// UDP flows.
    pub flows: usize,
}

impl Traffic {
    /// Starts all of it, from the customer to the server.
    pub fn start(stage: &Stage) -> Result<Traffic> {
        let (customer, server) = (&stage.customer, &stage.server);
        let sink = Sink::start(server, UDP_PORT)?;
        let (mut pings, mut tcp, mut flows) = (Vec::new(), Vec::new(), Vec::new());
        for (address, port) in SERVER.into_iter().zip(5201..) {
            pings.push(Ping::start(customer, address, Duration::from_millis(10))?);
            tcp.push(Iperf::start(customer, server, address, port, TCP_MEGABITS)?);
            // Invariant: the server's addresses are written correctly.
            let destination = SocketAddr::new(address.parse().expect("an address"), UDP_PORT);
            flows.push(Flows::start(customer, vec![destination], UDP_FLOWS, 64, UDP_RATE)?);
        }
        Ok(Traffic { pings, tcp, flows, sink })
    }

    /// What became of it so far; datagrams on their way look lost for a moment.
    pub fn so_far(&mut self) -> Outcome {
        Outcome {
            pings: self.pings.iter().map(Ping::statistics).collect(),
            megabits: self
                .tcp
                .iter()
                .filter_map(|tcp| tcp.megabits().last().copied())
                .fold(0.0, |a, b| a + b),
            tcp_lives: self.tcp.iter_mut().all(Iperf::lives),
            udp: (self.flows.iter().map(Flows::sent).sum(), self.sink.received()),
            flows: UDP_FLOWS * self.flows.len(),
        }
    }

    /// Ends it, and waits for what is on its way.
    pub fn stop(mut self) -> Outcome {
        let mut outcome = self.so_far();
        outcome.udp.0 = self.flows.drain(..).map(Flows::stop).sum();
        outcome.pings = self.pings.drain(..).map(Ping::stop).collect();
        let _what_is_lost_never_comes = self.sink.has_received(outcome.udp.0, Duration::from_millis(500));
        outcome.udp.1 = self.sink.received();
        outcome
    }
}
