//! Who speaks a routing protocol with this machine: the driver polices what they say apart from
//! what others do.

use std::collections::HashSet;
use std::io;
use std::net::{IpAddr, Ipv6Addr};
use std::os::fd::BorrowedFd;

use abi::driver::MAX_PEERS;

use crate::bpf::sys;

/// A peer that is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Peer {
    /// A session of TCP.
    Session {
        /// The other side's address.
        address: IpAddr,
        /// Its port.
        theirs: u16,
        /// The port on this machine.
        ours: u16,
    },
    /// An address.
    Address(IpAddr),
}

impl Peer {
    /// What the map knows it by.
    fn key(self) -> [u8; size_of::<abi::driver::Peer>()] {
        let (address, theirs, ours) = match self {
            Peer::Session { address, theirs, ours } => (address, theirs, ours),
            Peer::Address(address) => (address, 0, 0),
        };
        let address: Ipv6Addr = match address {
            IpAddr::V4(address) => address.to_ipv6_mapped(),
            IpAddr::V6(address) => address,
        };
        let word =
            |at: usize| u32::from_ne_bytes(std::array::from_fn(|byte| address.octets()[4 * at + byte]));
        abi::driver::Peer { address: std::array::from_fn(word), theirs, ours }.bytes()
    }
}

/// Changes the map from what it holds to what it is to hold.
pub(super) fn change(
    map: BorrowedFd<'_>,
    known: &mut HashSet<Peer>,
    wanted: HashSet<Peer>,
) -> io::Result<()> {
    let gone: Vec<Peer> = known.difference(&wanted).copied().collect();
    for peer in gone {
        known.remove(&peer);
        sys::map_delete(map, &peer.key())?;
    }
    for peer in wanted {
        if known.len() < MAX_PEERS && !known.contains(&peer) {
            sys::map_update(map, &peer.key(), &[1])?;
            known.insert(peer);
        }
    }
    Ok(())
}
