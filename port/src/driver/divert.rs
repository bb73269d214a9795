//! Which packets leave the express lane so that somebody can watch them (`struct divert` in `bpf/abi.h`).

use fib::PortId;
use ipnet::IpNet;

use crate::DriverError;

/// Bytes of `struct divert`.
pub(super) const RULE_BYTES: usize = 72;

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
    pub input: Option<PortId>,
}

impl FlowMatch {
    pub(super) fn encode(&self) -> Result<[u8; RULE_BYTES], DriverError> {
        let mut rule = [0; RULE_BYTES];
        let mut version = 0;
        for (prefix, at) in [(self.source, 0), (self.destination, 32)] {
            let Some(prefix) = prefix.map(|prefix| prefix.trunc()) else { continue };
            let family = if matches!(prefix, IpNet::V4(_)) { 4 } else { 6 };
            if version != 0 && version != family {
                return Err(DriverError::MixedFamilies);
            }
            version = family;
            write_address(&mut rule[at..at + 16], prefix.addr());
            write_address(&mut rule[at + 16..at + 32], prefix.netmask());
        }
        rule[64..66].copy_from_slice(&self.source_port.unwrap_or(0).to_ne_bytes());
        rule[66..68].copy_from_slice(&self.destination_port.unwrap_or(0).to_ne_bytes());
        rule[68..70].copy_from_slice(&self.input.unwrap_or(PortId::NONE).0.to_ne_bytes());
        rule[70] = self.protocol.unwrap_or(0);
        rule[71] = version;
        Ok(rule)
    }
}

fn write_address(to: &mut [u8], address: std::net::IpAddr) {
    match address {
        std::net::IpAddr::V4(address) => to[..4].copy_from_slice(&address.octets()),
        std::net::IpAddr::V6(address) => to.copy_from_slice(&address.octets()),
    }
}
