//! The router's own addresses: what ICMP errors are sent from, and what no packet from outside may
//! claim to be.
//!
//! The control thread writes them when Linux's addresses change. Workers ask per packet only the
//! set of addresses ([`Own`]); behind it, and for answers, they take a read lock for a moment: a
//! slow path, rate-limited or an attack.

use std::collections::{HashMap, HashSet};
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::{Arc, PoisonError, RwLock};

use fib::{InterfaceId, TableId};
use graph::BATCH;
use ipnet::{Ipv4Net, Ipv6Net};
use wire::which::{numbers, which};

use super::own::{Near, Own};

/// The router's own addresses. Shared by all workers.
#[derive(Debug)]
pub struct Sources {
    own4: Own,
    addresses: RwLock<Addresses>,
}

#[derive(Debug, Default)]
struct Addresses {
    local4: HashSet<(TableId, u32)>,
    ports: HashMap<InterfaceId, Port>,
}

#[derive(Debug, Default)]
struct Port {
    table: TableId,
    ipv4: Vec<Ipv4Net>,
    ipv6: Vec<Ipv6Net>,
}

impl Sources {
    /// No addresses: every answer is left to Linux.
    pub fn new() -> Arc<Sources> {
        Arc::new(Sources { own4: Own::new(), addresses: RwLock::default() })
    }

    /// Sets the addresses of a port, with their networks, in Linux's order: primary IPv4 addresses,
    /// and global IPv6 addresses that are neither tentative nor deprecated; and the table that
    /// routes what comes in by it. Empty lists and the main table remove the port.
    pub fn set_interface(&self, port: InterfaceId, table: TableId, ipv4: Vec<Ipv4Net>, ipv6: Vec<Ipv6Net>) {
        let mut addresses = self.addresses.write().unwrap_or_else(PoisonError::into_inner);
        if ipv4.is_empty() && ipv6.is_empty() && table == TableId::MAIN {
            addresses.ports.remove(&port);
        } else {
            addresses.ports.insert(port, Port { table, ipv4, ipv6 });
        }
    }

    /// Sets all IPv4 addresses of this machine, of whatever interface, each with the table that
    /// routes what comes in by that.
    pub fn set_local4(&self, local: impl IntoIterator<Item = (TableId, Ipv4Addr)>) {
        let local4: HashSet<(TableId, u32)> =
            local.into_iter().map(|(table, address)| (table, u32::from(address))).collect();
        let mut addresses = self.addresses.write().unwrap_or_else(PoisonError::into_inner);
        self.own4.set(local4.iter().map(|(_, address)| address.to_be_bytes()));
        addresses.local4 = local4;
    }

    /// Whether this is an IPv4 address of this machine for what came in by an interface: one of the
    /// same table.
    #[inline]
    pub fn is_local4(&self, input: InterfaceId, address: u32) -> bool {
        self.may_be_local4(address.to_be_bytes()) && self.is_local4_surely(input, address)
    }

    /// Whether this is an IPv4 address of this machine, in whatever table.
    #[inline(always)]
    pub fn may_be_local4(&self, address: [u8; 4]) -> bool {
        self.own4.has(address)
    }

    /// What may be one, to ask of many addresses at once.
    #[inline(always)]
    pub(super) fn near_local4(&self) -> Near {
        self.own4.near()
    }

    /// Those of some addresses (bits) that are of this machine. `suspects` are those that may be
    /// ([`Sources::near_local4`]).
    #[inline(always)]
    pub(super) fn local4_among(&self, addresses: &[u32; BATCH], suspects: u64) -> u64 {
        /// As many cost as much one by one as all of a batch at once.
        const FEW: u32 = 12;
        let may_be = |n: usize| self.own4.may_have(addresses[n].to_be_bytes());
        let suspects = match suspects.count_ones() {
            0 => return 0,
            1..=FEW => suspects,
            _ => suspects & which(may_be),
        };
        let own = numbers(suspects).filter(|&n| self.own4.has(addresses[n].to_be_bytes()));
        own.fold(0, |own, n| own | 1 << n)
    }

    #[cold]
    fn is_local4_surely(&self, input: InterfaceId, address: u32) -> bool {
        let addresses = self.addresses.read().unwrap_or_else(PoisonError::into_inner);
        let table = addresses.ports.get(&input).map_or(TableId::MAIN, |port| port.table);
        addresses.local4.contains(&(table, address))
    }

    /// The source of an answer that leaves by `port` towards `to`, as Linux chooses it: the port's
    /// address on the same network, else its first. `None` when there is no address, or when only
    /// Linux knows (with several networks on the port and `to` on none of them, it depends on the
    /// gateway).
    pub fn source4(&self, port: InterfaceId, to: Ipv4Addr) -> Option<Ipv4Addr> {
        let addresses = self.addresses.read().unwrap_or_else(PoisonError::into_inner);
        let nets = &addresses.ports.get(&port)?.ipv4;
        match nets.as_slice() {
            [only] => Some(only.addr()),
            nets => nets.iter().find(|net| net.contains(&to)).map(Ipv4Net::addr),
        }
    }

    /// The source of an answer to `to` about a packet that came in by `port`. Linux takes an
    /// address of that interface, wherever the answer leaves: the one that shares the longest
    /// prefix with `to` (RFC 6724, rule 8). `None` when the port has no global address, or several
    /// that are as good: of them Linux takes the newest.
    pub fn source6(&self, port: InterfaceId, to: Ipv6Addr) -> Option<Ipv6Addr> {
        let addresses = self.addresses.read().unwrap_or_else(PoisonError::into_inner);
        let nets = &addresses.ports.get(&port)?.ipv6;
        // Linux compares no more bits than the address's own prefix has.
        let shared = |net: &Ipv6Net| {
            let differ = (net.addr().to_bits() ^ to.to_bits()).leading_zeros() as u8;
            differ.min(net.prefix_len())
        };
        let best = nets.iter().map(shared).max()?;
        let mut alike = nets.iter().filter(|net| shared(net) == best);
        let first = alike.next()?;
        alike.next().is_none().then(|| first.addr())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn local_addresses_are_known_exactly() {
        let sources = Sources::new();
        let port = InterfaceId(1);
        let main = |i: u32| (TableId::MAIN, Ipv4Addr::from(0x0a00_0000 + i * 3));
        sources.set_local4((0..2000).map(main));
        let wrong = (0..9000)
            .filter(|i| sources.is_local4(port, 0x0a00_0000 + i) != (i % 3 == 0 && *i < 6000))
            .count();
        assert_eq!(wrong, 0);
        sources.set_local4((0..4).map(main));
        let near = sources.near_local4();
        let found = (0..9000u32).filter(|i| near.may_be((0x0a00_0000 + i).to_be_bytes())).count();
        assert!((4..1000).contains(&found), "{found} of 9,000");

        // Some of a batch, with few suspects and with nothing but suspects.
        for count in [4, 2000] {
            sources.set_local4((0..count).map(main));
            let batch = std::array::from_fn(|n| 0x0a00_0000 + n as u32);
            let own = which(|n| n % 3 == 0 && (n as u32) < 3 * count);
            assert_eq!(sources.local4_among(&batch, own | 0xf0), own);
            assert_eq!(sources.local4_among(&batch, u64::MAX), own);
            assert_eq!(sources.local4_among(&batch, 0), 0);
        }
        sources.set_local4([]);
        assert!(!sources.is_local4(port, 0x0a00_0000));

        // An address says nothing without its table.
        let (red, own) = (InterfaceId(2), 0x0a00_0001);
        sources.set_interface(red, TableId(5), vec![], vec![]);
        sources.set_local4([(TableId(5), Ipv4Addr::from(own))]);
        assert!(sources.is_local4(red, own) && !sources.is_local4(port, own));
        assert!(!sources.near_local4().may_be([10, 0, 0, 0]));
    }

    #[test]
    fn sources_are_those_that_linux_chooses() {
        let sources = Sources::new();
        let (one, two) = (InterfaceId(1), InterfaceId(2));
        let (first, second) = ("192.0.2.1/24".parse().unwrap(), "198.51.100.1/24".parse().unwrap());
        sources.set_interface(one, TableId::MAIN, vec![first], vec![]);
        sources.set_interface(
            two,
            TableId::MAIN,
            vec![first, second],
            vec!["2001:db8:1::1/64".parse().unwrap(), "2001:db8:2::1/64".parse().unwrap()],
        );
        let source4 = |port, to: &str| sources.source4(port, to.parse().unwrap()).map(|a| a.to_string());
        assert_eq!(source4(one, "203.0.113.9").as_deref(), Some("192.0.2.1"));
        assert_eq!(source4(two, "198.51.100.9").as_deref(), Some("198.51.100.1"));
        assert_eq!(source4(two, "203.0.113.9"), None);
        assert_eq!(source4(InterfaceId(3), "203.0.113.9"), None);
        let source6 = |port, to: &str| sources.source6(port, to.parse().unwrap()).map(|a| a.to_string());
        assert_eq!(source6(two, "2001:db8:2::9").as_deref(), Some("2001:db8:2::1"));
        assert_eq!(source6(two, "2001:db8:1::9").as_deref(), Some("2001:db8:1::1"));
        assert_eq!(source6(one, "2001:db8:1::9"), None);
        assert_eq!(source6(two, "2001:db9::9"), None);
    }
}
