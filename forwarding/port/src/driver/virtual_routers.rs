//! Virtual routers, as the driver knows them (`forwarding/bpf/virtual.h`). Whoever has this may be
//! any thread: it shares nothing with the driver's owner but the map.

use std::io;
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use abi::driver::{VIRTUAL_KIND_ADDRESS, VIRTUAL_KIND_MAC, VirtualKey};
use fib::InterfaceId;

use crate::bpf::sys;
use crate::clock;

/// See the head of this file. What was said holds until it is said otherwise, or the process ends.
#[derive(Debug)]
pub struct VirtualRouters {
    map: OwnedFd,
}

impl VirtualRouters {
    pub(super) fn new(map: OwnedFd) -> VirtualRouters {
        VirtualRouters { map }
    }

    /// Frames to a virtual router's link address are the interface's for so long from now on, and
    /// no longer.
    pub fn lease(&self, interface: InterfaceId, mac: [u8; 6], time: Duration) -> io::Result<()> {
        sys::map_update(self.map.as_fd(), &of_mac(interface, mac), &until(time).to_ne_bytes())
    }

    /// They are nobody's.
    pub fn end(&self, interface: InterfaceId, mac: [u8; 6]) -> io::Result<()> {
        sys::map_delete(self.map.as_fd(), &of_mac(interface, mac))
    }

    /// Linux does not answer who asks for this address by ARP on this interface, for so long.
    pub fn lease_address(&self, interface: InterfaceId, address: Ipv4Addr, time: Duration) -> io::Result<()> {
        let key = key(interface, VIRTUAL_KIND_ADDRESS, address.into());
        sys::map_update(self.map.as_fd(), &key, &until(time).to_ne_bytes())
    }

    /// Linux does not answer who asks for this address by ARP on this interface; or does again.
    pub fn keep_from_linux(&self, interface: InterfaceId, address: Ipv4Addr, keep: bool) -> io::Result<()> {
        let key = key(interface, VIRTUAL_KIND_ADDRESS, address.into());
        match keep {
            true => sys::map_update(self.map.as_fd(), &key, &u64::MAX.to_ne_bytes()),
            false => sys::map_delete(self.map.as_fd(), &key),
        }
    }
}

/// When so much time is over, by the driver's clock.
fn until(time: Duration) -> u64 {
    clock::now() + u64::try_from(time.as_nanos()).unwrap_or(u64::MAX / 2)
}

fn of_mac(interface: InterfaceId, [_, _, a, b, c, d]: [u8; 6]) -> [u8; size_of::<VirtualKey>()] {
    key(interface, VIRTUAL_KIND_MAC, u32::from_be_bytes([a, b, c, d]))
}

fn key(interface: InterfaceId, kind: u16, what: u32) -> [u8; size_of::<VirtualKey>()] {
    VirtualKey { interface: interface.0, kind, what }.bytes()
}
