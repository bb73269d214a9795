//! The addresses of this machine's network devices, which may be said by the device's name.

use super::address::Prefix4;
use nix::ifaddrs::{InterfaceAddress, getifaddrs};
use std::net::Ipv4Addr;
use wire::Mac;

/// A device's first IPv4 address.
pub(super) fn ip(name: &str) -> Option<Ipv4Addr> {
    addresses(name)?.find_map(|address| address.address?.as_sockaddr_in().map(|address| address.ip()))
}

/// A device's first IPv4 address with its network.
pub(super) fn prefix(name: &str) -> Option<Prefix4> {
    addresses(name)?.find_map(|address| {
        let [address, mask] = [address.address?, address.netmask?];
        let [address, mask] = [address.as_sockaddr_in()?.ip(), mask.as_sockaddr_in()?.ip()];
        Some(Prefix4 { address, mask })
    })
}

/// A device's Ethernet address.
pub(super) fn ethernet(name: &str) -> Option<Mac> {
    addresses(name)?.find_map(|address| {
        let link = address.address?;
        let link = link.as_link_addr().filter(|link| link.hatype() == libc::ARPHRD_ETHER)?;
        link.addr().map(Mac)
    })
}

/// The gateway of the IPv4 default route by a device.
pub(super) fn gateway(name: &str) -> Option<Ipv4Addr> {
    gateway_in(&std::fs::read_to_string("/proc/net/route").ok()?, name)
}

/// The same from Linux's table in words: device, destination, gateway and flags, as numbers of this
/// machine in hexadecimal.
fn gateway_in(routes: &str, name: &str) -> Option<Ipv4Addr> {
    routes.lines().skip(1).find_map(|line| {
        let mut words = line.split_ascii_whitespace();
        let (device, destination, gateway) = (words.next()?, words.next()?, words.next()?);
        let gateway = u32::from_str_radix(gateway, 16).ok()?;
        let default = device == name && destination == "00000000" && gateway != 0;
        default.then(|| gateway.to_ne_bytes().into())
    })
}

fn addresses(name: &str) -> Option<impl Iterator<Item = InterfaceAddress> + use<>> {
    // What cannot be a device's name isn't worth asking the kernel for.
    let possible = !name.is_empty() && name.len() < libc::IFNAMSIZ && !name.contains(['/', ' ']);
    let name = possible.then(|| name.to_owned())?;
    Some(getifaddrs().ok()?.filter(move |address| address.interface_name == name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_gateway_is_that_of_the_default_route() {
        let number = |address: [u8; 4]| format!("{:08X}", u32::from_ne_bytes(address));
        let line = |device: &str, destination: [u8; 4], gateway: [u8; 4]| {
            format!(
                "{device}\t{}\t{}\t0003\t0\t0\t0\t00000000\t0\t0\t0\n",
                number(destination),
                number(gateway)
            )
        };
        let routes = "Iface\tDestination\tGateway\tFlags\n".to_owned()
            + &line("eth0", [10, 0, 0, 0], [10, 0, 0, 9])
            + &line("eth1", [0; 4], [192, 0, 2, 1])
            + &line("eth0", [0; 4], [0; 4])
            + &line("eth0", [0; 4], [10, 0, 0, 1])
            + "odd\n";
        assert_eq!(gateway_in(&routes, "eth0"), Some(Ipv4Addr::new(10, 0, 0, 1)));
        assert_eq!(gateway_in(&routes, "eth1"), Some(Ipv4Addr::new(192, 0, 2, 1)));
        assert_eq!((gateway_in(&routes, "eth2"), gateway_in("", "eth0")), (None, None));
    }
}
