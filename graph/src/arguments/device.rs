//! The addresses of this machine's network devices, which may be said by the device's name.

use super::Scope;
use nix::ifaddrs::{InterfaceAddress, getifaddrs};
use std::net::Ipv4Addr;
use wire::Mac;

/// A device's first IPv4 address.
pub(super) fn ip(scope: &Scope<'_>, name: &str) -> Option<Ipv4Addr> {
    addresses(scope, name)?.find_map(|address| address.address?.as_sockaddr_in().map(|address| address.ip()))
}

/// A device's Ethernet address.
pub(super) fn ethernet(scope: &Scope<'_>, name: &str) -> Option<Mac> {
    addresses(scope, name)?.find_map(|address| {
        let link = address.address?;
        let link = link.as_link_addr().filter(|link| link.hatype() == libc::ARPHRD_ETHER)?;
        link.addr().map(Mac)
    })
}

fn addresses(scope: &Scope<'_>, name: &str) -> Option<impl Iterator<Item = InterfaceAddress> + use<>> {
    // What cannot be a device's name isn't worth asking the kernel for.
    let possible = scope.knows_devices()
        && !name.is_empty()
        && name.len() < libc::IFNAMSIZ
        && !name.contains(['/', ' ']);
    let name = possible.then(|| name.to_owned())?;
    Some(getifaddrs().ok()?.filter(move |address| address.interface_name == name))
}
