//! Which packets leave the express lane so that somebody can watch them.

use abi::driver::Divert;
use fib::InterfaceId;
use ipnet::IpNet;

use crate::DriverError;

/// Which packets; what is `None` matches everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FlowMatch {
    /// Where it is from.
    pub source: Option<IpNet>,
    /// Where it goes.
    pub destination: Option<IpNet>,
    /// IP protocol, or IPv6 next header.
    pub protocol: Option<u8>,
    /// Of TCP, UDP, SCTP, DCCP and UDP-Lite, where the packet shows it.
    pub source_port: Option<u16>,
    /// As [`FlowMatch::source_port`].
    pub destination_port: Option<u16>,
    /// The port that it came in by.
    pub input: Option<InterfaceId>,
}

impl FlowMatch {
    pub(super) fn encode(&self) -> Result<[u8; size_of::<Divert>()], DriverError> {
        let mut rule = Divert {
            source_port: self.source_port.unwrap_or(0),
            destination_port: self.destination_port.unwrap_or(0),
            interface: self.input.unwrap_or(InterfaceId::NONE).0,
            protocol: self.protocol.unwrap_or(0),
            ..Divert::default()
        };
        let source = (self.source, &mut rule.source, &mut rule.source_mask);
        let destination = (self.destination, &mut rule.destination, &mut rule.destination_mask);
        for (prefix, address, mask) in [source, destination] {
            let Some(prefix) = prefix.map(|prefix| prefix.trunc()) else { continue };
            let family = if matches!(prefix, IpNet::V4(_)) { 4 } else { 6 };
            if rule.version != 0 && rule.version != family {
                return Err(DriverError::MixedFamilies);
            }
            rule.version = family;
            write_address(address, prefix.addr());
            write_address(mask, prefix.netmask());
        }
        Ok(rule.bytes())
    }
}

fn write_address(to: &mut [u8], address: std::net::IpAddr) {
    match address {
        std::net::IpAddr::V4(address) => to[..4].copy_from_slice(&address.octets()),
        std::net::IpAddr::V6(address) => to.copy_from_slice(&address.octets()),
    }
}
