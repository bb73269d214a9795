//! How much the router forwards under more load than it can take: Linux alone first, then Bifrost, on the same network.

use std::{
    net::{IpAddr, SocketAddr},
    time::{Duration, Instant},
};

use lab::{Flows, Result};

use crate::stage::Stage;

const WARM_UP: Duration = Duration::from_millis(500);
const WINDOW: Duration = Duration::from_secs(3);

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

/// Packets a second that reach the ISP while the customer sends as fast as it can, to addresses all over the table.
pub fn measure(stage: &Stage) -> Result<f64> {
    let addresses = stage.prefixes.iter().take(4096).map(|p| SocketAddr::new(IpAddr::V4(p.network()), 9));
    let _load = Flows::start(&stage.customer, addresses.collect(), 512, 18, u32::MAX)?;
    std::thread::sleep(WARM_UP);
    let count = || stage.isp.interface_number("uplink", "statistics/rx_packets");
    let (start, before) = (Instant::now(), count()?);
    std::thread::sleep(WINDOW);
    Ok((count()? - before) as f64 / start.elapsed().as_secs_f64())
}
