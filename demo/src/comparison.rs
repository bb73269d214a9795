//! How much the router forwards under more load than it can take: Linux alone first, then Bifrost,
//! on the same network.
//!
//! The load is made by the kernel on the first core (`port::traffic`), the router receives on the
//! last one, and what comes out is swallowed at the ISP before Linux spends time on it: what is
//! measured is the router.

use std::{
    net::IpAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use lab::{Host, LabError, Result};
use port::traffic::{Sink, Source};

use crate::stage::Stage;

const WARM_UP: Duration = Duration::from_millis(500);
const WINDOW: Duration = Duration::from_secs(3);
/// Frames a call: a tenth of a second, beside which the milliseconds that the kernel takes to
/// prepare one are little.
const BURST: u32 = 1 << 20;

/// Packets a second forwarded by each.
#[derive(Clone, Copy)]
pub struct Comparison {
    /// Linux alone.
    pub linux: f64,
    /// Bifrost.
    pub bifrost: f64,
}

impl Comparison {
    /// How many times as much as Linux.
    pub fn multiple(&self) -> f64 {
        self.bifrost / self.linux.max(1.0)
    }
}

/// The load, ready.
pub struct Rig {
    source: Arc<Source>,
    /// The customer's and the ISP's interfaces on the router.
    ifindex: [u32; 2],
}

impl Rig {
    /// Prepares the stage for measuring: receive work gets its core.
    pub fn new(stage: &Stage) -> Result<Rig> {
        let (host, customer, isp) = (stage.router.host(), &stage.customer, &stage.isp);
        let last = std::thread::available_parallelism().map_or(1, |n| n.get()) - 1;
        host.receive_on_core("left", last)?;
        host.receive_on_core("right", last)?;
        isp.receive_on_core("uplink", 0)?;
        let destinations: Vec<IpAddr> =
            stage.prefixes.iter().take(65_536).map(|prefix| prefix.network().into()).collect();
        let (from, to) = (octets(&customer.mac("eth0")?), octets(&host.mac("left")?));
        let source = Source::new(from, to, [10, 1, 0, 2].into(), &destinations).map_err(failed)?;
        let ifindex = |host: &Host, interface| host.interface_number(interface, "ifindex").map(|n| n as u32);
        Ok(Rig { source: Arc::new(source), ifindex: [ifindex(customer, "eth0")?, ifindex(isp, "uplink")?] })
    }

    /// The measuring is over: receive work goes where it is done by default.
    pub fn done(self, stage: &Stage) -> Result<()> {
        stage.router.host().receive_anywhere("left")?;
        stage.router.host().receive_anywhere("right")?;
        stage.isp.receive_anywhere("uplink")
    }

    /// Packets a second that come out of the router, under load to addresses all over the table.
    pub fn measure(&self, stage: &Stage) -> Result<f64> {
        // The sink swallows ARP too: both neighbours are to be fresh.
        stage.router.host().reaches("10.9.0.2", WARM_UP)?;
        stage.router.host().reaches("10.1.0.2", WARM_UP)?;
        let [customer, uplink] = self.ifindex;
        let sink = stage.isp.inside(move || Sink::attach(uplink))?;
        let sink = sink.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)).map_err(failed)?;

        let stop = Arc::new(AtomicBool::new(false));
        let (source, stopped) = (self.source.clone(), stop.clone());
        let sender = stage.customer.inside(move || -> std::io::Result<()> {
            lab::run_on_core(0)?;
            while !stopped.load(Relaxed) {
                source.send(customer, BURST)?;
            }
            Ok(())
        })?;
        std::thread::sleep(WARM_UP);
        let measured = sink.packets().and_then(|before| {
            let start = Instant::now();
            std::thread::sleep(WINDOW);
            Ok((sink.packets()? - before) as f64 / start.elapsed().as_secs_f64())
        });
        stop.store(true, Relaxed);
        let sent = sender.join().unwrap_or_else(|_| Err(std::io::Error::other("the sender panicked")));
        sent.and(measured).map_err(|source| LabError::Io { what: "the load".to_owned(), source })
    }
}

fn failed(error: port::DriverError) -> LabError {
    LabError::Io { what: "the load".to_owned(), source: std::io::Error::other(error) }
}

/// The six bytes of an Ethernet address as Linux prints it.
fn octets(mac: &str) -> [u8; 6] {
    let mut bytes = mac.split(':').map(|part| u8::from_str_radix(part, 16).unwrap_or_default());
    std::array::from_fn(|_| bytes.next().unwrap_or_default())
}
