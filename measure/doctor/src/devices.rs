//! What drivers tell of interfaces.

use std::io::ErrorKind;

use port::device::{self, Channels, DeviceError, XdpFeatures};

use crate::ethtool;

pub use port::device::Offloads;

/// Descriptors of an interface's rings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rings {
    /// Of each receive ring.
    pub rx: u32,
    /// As many as there can be.
    pub rx_max: u32,
    /// Of each transmit ring.
    pub tx: u32,
    /// As many as there can be.
    pub tx_max: u32,
}

/// Flow control (IEEE 802.3x pause frames).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pause {
    /// The interface stops sending when its neighbour asks it to.
    pub rx: bool,
    /// It asks its neighbour to stop.
    pub tx: bool,
}

/// Whoever knows. An error is the reason for not knowing.
pub trait Devices {
    /// The driver's name; empty when it does not say.
    fn driver(&self, port: &str) -> Result<String, String>;
    /// Queues.
    fn channels(&self, port: &str) -> Result<Channels, String>;
    /// The receive queue of each slot of the RSS table.
    fn rss(&self, port: &str) -> Result<Vec<u32>, String>;
    /// Offloads that matter to forwarding.
    fn offloads(&self, port: &str) -> Result<Offloads, String>;
    /// Rings.
    fn rings(&self, port: &str) -> Result<Rings, String>;
    /// Flow control.
    fn pause(&self, port: &str) -> Result<Pause, String>;
    /// What it can do with XDP.
    fn xdp(&self, port: &str) -> Result<XdpFeatures, String>;
}

/// The running kernel.
#[derive(Clone, Copy, Debug, Default)]
pub struct Kernel;

fn why(error: DeviceError) -> String {
    if error.is_unsupported() { "the driver does not tell".to_owned() } else { error.source.to_string() }
}

impl Devices for Kernel {
    fn driver(&self, port: &str) -> Result<String, String> {
        device::Device::named(port).map(|device| device.driver).map_err(why)
    }

    fn channels(&self, port: &str) -> Result<Channels, String> {
        device::channels(port).map_err(why)
    }

    fn rss(&self, port: &str) -> Result<Vec<u32>, String> {
        device::rss(port).map_err(why)
    }

    fn offloads(&self, port: &str) -> Result<Offloads, String> {
        device::offloads(port).map_err(why)
    }

    fn rings(&self, port: &str) -> Result<Rings, String> {
        ethtool::rings(port).map_err(|error| ethtool::why(&error))
    }

    fn pause(&self, port: &str) -> Result<Pause, String> {
        ethtool::pause(port).map_err(|error| ethtool::why(&error))
    }

    fn xdp(&self, port: &str) -> Result<XdpFeatures, String> {
        let device = device::Device::named(port).map_err(why)?;
        device::xdp_features(device.ifindex).map_err(|error| match error.source.kind() {
            // There is nobody in the kernel to be asked.
            ErrorKind::NotFound => "the kernel does not tell (Linux 6.3 and later do)".to_owned(),
            _ => why(error),
        })
    }
}
