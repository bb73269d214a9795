//! Groups of which workers forward packets, as the driver knows them (`forwarding/bpf/groups.h`).

use std::collections::HashSet;
use std::io;
use std::net::{IpAddr, Ipv6Addr};
use std::os::fd::BorrowedFd;

use abi::driver::{GroupKey, MAX_GROUPS};
use fib::InterfaceId;

use crate::bpf::sys;

/// A group, and an interface by which packets to it come in.
pub type Group = (InterfaceId, IpAddr);

/// What the map knows it by.
fn key((interface, group): Group) -> [u8; size_of::<GroupKey>()] {
    let address: Ipv6Addr = match group {
        IpAddr::V4(address) => address.to_ipv6_mapped(),
        IpAddr::V6(address) => address,
    };
    let word = |at: usize| u32::from_ne_bytes(std::array::from_fn(|byte| address.octets()[4 * at + byte]));
    GroupKey { address: std::array::from_fn(word), interface: interface.0.into() }.bytes()
}

/// Changes the map from what it holds to what it is to hold. Those that it has no room for are
/// Linux's.
pub(super) fn change(
    map: BorrowedFd<'_>,
    known: &mut HashSet<Group>,
    wanted: HashSet<Group>,
) -> io::Result<()> {
    let gone: Vec<Group> = known.difference(&wanted).copied().collect();
    for group in gone {
        known.remove(&group);
        sys::map_delete(map, &key(group))?;
    }
    for group in wanted {
        if known.len() < MAX_GROUPS && !known.contains(&group) {
            sys::map_update(map, &key(group), &[1])?;
            known.insert(group);
        }
    }
    Ok(())
}
