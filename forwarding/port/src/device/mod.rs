//! Facts about network interfaces, and the few settings that forwarding wants changed.
//!
//! Addresses, link state and everything else that netlink tells a router are the mirror's business;
//! here is what only ethtool and the kernel's `netdev` family know, and how a single link stands,
//! for who has no mirror.

mod ethtool;
mod link;
mod netdev;
mod netlink;

use std::ffi::{CStr, CString};
use std::io;

pub use ethtool::{Channels, Offloads};
pub use link::Link;
pub use netdev::{FeatureWatch, XdpFeatures};

/// Why an interface cannot be asked or set.
#[derive(Debug, thiserror::Error)]
#[error("{interface}: cannot {action}: {source}")]
pub struct DeviceError {
    /// The interface.
    pub interface: String,
    /// What was tried.
    pub action: &'static str,
    /// What the kernel said.
    #[source]
    pub source: io::Error,
}

impl DeviceError {
    /// Whether the device simply has no such thing.
    pub fn is_unsupported(&self) -> bool {
        matches!(self.source.raw_os_error(), Some(libc::EOPNOTSUPP | libc::ENOTTY | libc::ENODEV))
    }
}

/// What an interface is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Device {
    /// Linux's index.
    pub ifindex: u32,
    /// Its name.
    pub name: String,
    /// Its MAC address.
    pub mac: [u8; 6],
    /// Largest IP packet, in bytes.
    pub mtu: u32,
    /// The driver, as ethtool calls it; empty when it does not say.
    pub driver: String,
    /// Receive queues in use, at least 1.
    pub queues: u32,
}

/// Drivers of devices without a wire, which hand packets from one of the machine's stacks to
/// another.
const WITHOUT_WIRE: [&str; 2] = ["veth", "tun"];

impl Device {
    /// Whether frames may arrive by it as the machine's stacks hand them to each other, with
    /// checksums ([`wire::partial`]) and the cutting of long segments ([`wire::joined`]) left to a
    /// NIC, as a `native` program or a generic one sees them. The generic one sees what any driver
    /// has for Linux, and that may trust its sender.
    pub fn passes_partial(&self, native: bool) -> bool {
        !native || WITHOUT_WIRE.contains(&self.driver.as_str())
    }

    /// Asks the kernel about the interface with this name.
    pub fn named(name: &str) -> Result<Device, DeviceError> {
        let failed = |action| move |source| DeviceError { interface: name.to_string(), action, source };
        let ifindex = index_of(name).map_err(failed("find it"))?;
        let handle = ethtool::Handle::new(name).map_err(failed("ask about it"))?;
        Ok(Device {
            ifindex,
            name: name.to_string(),
            mac: handle.mac().map_err(failed("read its MAC address"))?,
            mtu: handle.mtu().map_err(failed("read its MTU"))?,
            driver: handle.driver().unwrap_or_default(),
            queues: handle.channels().map_or(1, |channels| channels.receive()).max(1),
        })
    }
}

fn index_of(name: &str) -> io::Result<u32> {
    let name = CString::new(name).map_err(io::Error::other)?;
    // SAFETY: a valid C string.
    match unsafe { libc::if_nametoindex(name.as_ptr()) } {
        0 => Err(io::Error::last_os_error()),
        index => Ok(index),
    }
}

fn name_of(ifindex: u32) -> Option<String> {
    let mut name = [0u8; libc::IF_NAMESIZE];
    // SAFETY: the kernel's name, and its end, fit in `IF_NAMESIZE` bytes.
    if unsafe { libc::if_indextoname(ifindex, name.as_mut_ptr().cast()) }.is_null() {
        return None;
    }
    CStr::from_bytes_until_nul(&name).ok()?.to_str().ok().map(str::to_owned)
}

fn with_handle<T>(
    name: &str,
    action: &'static str,
    work: impl FnOnce(&ethtool::Handle) -> io::Result<T>,
) -> Result<T, DeviceError> {
    ethtool::Handle::new(name).and_then(|handle| work(&handle)).map_err(|source| DeviceError {
        interface: name.to_string(),
        action,
        source,
    })
}

/// The interface's queues. Unsupported means that it has one.
pub fn channels(name: &str) -> Result<Channels, DeviceError> {
    with_handle(name, "read its queues", ethtool::Handle::channels)
}

/// The receive queue of each slot of the RSS table.
pub fn rss(name: &str) -> Result<Vec<u32>, DeviceError> {
    with_handle(name, "read its RSS table", ethtool::Handle::rss)
}

/// Writes the RSS table back, as [`rss`] gave it.
pub fn set_rss(name: &str, table: &[u32]) -> Result<(), DeviceError> {
    with_handle(name, "write its RSS table", |handle| handle.set_rss(table))
}

/// Spreads RSS evenly over these queues (what `ethtool -X equal` does for the first ones); gives
/// the table as it was.
pub fn spread_rss(name: &str, queues: &[u32]) -> Result<Vec<u32>, DeviceError> {
    let before = rss(name)?;
    let table: Vec<u32> = queues.iter().copied().cycle().take(before.len()).collect();
    if table != before {
        set_rss(name, &table)?;
    }
    Ok(before)
}

/// Offloads that change what XDP sees, or what a redirect can reach.
pub fn offloads(name: &str) -> Result<Offloads, DeviceError> {
    with_handle(name, "read its offloads", ethtool::Handle::offloads)
}

/// Turns off what a device does to frames before XDP sees them: merging them (LRO), and taking off
/// VLAN tags, without which a VLAN's frame looks like one of the untagged network and would be
/// routed as such. Says what was on; [`restore_offloads`] puts it back.
pub fn clear_offloads(name: &str) -> Result<Offloads, DeviceError> {
    let before = offloads(name)?;
    with_handle(name, "turn off LRO and VLAN stripping", |handle| handle.set_receive_offloads(false, false))?;
    Ok(before)
}

/// Puts LRO and VLAN stripping back as [`clear_offloads`] found them.
pub fn restore_offloads(name: &str, before: &Offloads) -> Result<(), DeviceError> {
    with_handle(name, "restore its offloads", |handle| {
        handle.set_receive_offloads(before.lro, before.rx_vlan)
    })
}

/// Turns GRO on or off. A veth with GRO polls, and only then can frames be redirected to its peer.
pub fn set_gro(name: &str, on: bool) -> Result<(), DeviceError> {
    with_handle(name, "set GRO", |handle| handle.set_gro(on))
}

/// How the interface's link stands now.
pub fn link(name: &str) -> Result<Link, DeviceError> {
    let failed =
        |source| DeviceError { interface: name.to_string(), action: "read its link's state", source };
    link::named(name).map_err(failed)
}

/// What the interface can do with XDP, now: a veth's changes with its peer.
pub fn xdp_features(ifindex: u32) -> Result<XdpFeatures, DeviceError> {
    netdev::features(ifindex).map_err(|source| DeviceError {
        interface: format!("interface {ifindex}"),
        action: "read its XDP features",
        source,
    })
}

/// Drivers that Linux 6.1 sends by when a frame is redirected to a device of theirs on which a
/// program runs: those with `ndo_xdp_xmit` in its modules. Those [`WITHOUT_WIRE`] are left out:
/// with them it depends on the other end, of which Linux 6.1 says nothing.
const SEND_REDIRECTED: [&str; 14] = [
    "atlantic",
    "bnxt_en",
    "ena",
    "hv_netvsc",
    "i40e",
    "ice",
    "igb",
    "igc",
    "ixgbe",
    "mana",
    "mlx5_core",
    "qede",
    "sfc",
    "virtio_net",
];

/// Whether the driver can send by the interface, now, if a program runs on it. Linux before 6.3
/// does not tell, and is known by its drivers.
pub fn is_redirect_target(ifindex: u32) -> bool {
    match xdp_features(ifindex) {
        Ok(features) => features.contains(XdpFeatures::REDIRECT_TARGET),
        Err(error) if error.source.kind() == io::ErrorKind::NotFound => name_of(ifindex)
            .and_then(|name| with_handle(&name, "ask for its driver", ethtool::Handle::driver).ok())
            .is_some_and(|driver| SEND_REDIRECTED.contains(&driver.as_str())),
        Err(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interface_has_its_name_by_its_number() {
        let lo = Device::named("lo").unwrap();
        assert_eq!(name_of(lo.ifindex).as_deref(), Some("lo"));
        assert_eq!(name_of(u32::MAX), None);
        assert!(!is_redirect_target(lo.ifindex));
    }

    #[test]
    fn loopback_is_known() {
        let lo = Device::named("lo").unwrap();
        assert_eq!((lo.mac, lo.queues), ([0; 6], 1));
        assert!(lo.mtu >= 1500);
        assert!(rss("lo").unwrap_err().is_unsupported());
        assert!(!xdp_features(lo.ifindex).unwrap().contains(XdpFeatures::REDIRECT_TARGET));
    }

    #[test]
    fn the_link_of_loopback_is_up_and_was_never_lost() {
        let lo = link("lo").unwrap();
        let expected = Device::named("lo").unwrap().ifindex;
        assert_eq!((lo.ifindex, lo.up, lo.running, lo.losses), (expected, true, true, 0));
        assert!(link("no-such-port").unwrap_err().is_unsupported());
    }

    #[test]
    fn an_unknown_interface_is_named_in_the_error() {
        let error = Device::named("no-such-port").unwrap_err();
        assert!(error.to_string().starts_with("no-such-port: cannot find it"), "{error}");
        assert!(Device::named("a-name-longer-than-linux-allows").is_err());
    }
}
