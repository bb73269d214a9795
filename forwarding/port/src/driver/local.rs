//! This machine's addresses, as the classifier looks them up: hash maps, and before them a filter
//! of one bit an address, so that transit packets hardly ever pay for a hash lookup.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU32, Ordering};

use abi::driver::{LOCAL_BESIDE, LOCAL_FACTOR, LOCAL_MAIN, LOCAL_SHIFT, LOCAL_TUNNEL, LOCAL_VXLAN};

use fib::Locality;

use crate::bpf::map::Mapping;

/// What ends at addresses of this machine.
pub type TunnelEnds = HashMap<IpAddr, TunnelEnd>;

/// Which tunnels end at an address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TunnelEnd {
    /// VXLANs.
    pub vxlan: bool,
    /// Others.
    pub others: bool,
}

/// The filter's bits, and which addresses set them.
pub(super) struct LocalAddresses {
    filter: Mapping,
    known: HashMap<IpAddr, (u32, Locality)>,
    /// Those at which tunnels end that workers open.
    ends: TunnelEnds,
}

impl LocalAddresses {
    pub(super) fn new(filter: Mapping) -> LocalAddresses {
        LocalAddresses { filter, known: HashMap::new(), ends: TunnelEnds::new() }
    }

    pub(super) fn add(&mut self, address: IpAddr, of: Locality) {
        let bit = bit_of(address);
        self.known.insert(address, (bit, of));
        self.word(bit).fetch_or(1 << (bit % 32), Ordering::Release);
    }

    pub(super) fn remove(&mut self, address: IpAddr) {
        let Some((bit, _)) = self.known.remove(&address) else { return };
        if !self.known.values().any(|(other, _)| *other == bit) {
            self.word(bit).fetch_and(!(1 << (bit % 32)), Ordering::Release);
        }
    }

    /// Tunnels end at these addresses; those of which something else is to be said than before.
    pub(super) fn set_ends(&mut self, ends: TunnelEnds) -> Vec<(IpAddr, Locality)> {
        let before = std::mem::replace(&mut self.ends, ends);
        let all = before.keys().chain(self.ends.keys());
        let changed = all.filter(|address| before.get(address) != self.ends.get(address));
        changed.filter_map(|address| Some((*address, self.known.get(address)?.1))).collect()
    }

    /// What the maps say of an address.
    pub(super) fn kinds(&self, address: IpAddr, of: Locality) -> u8 {
        let TunnelEnd { vxlan, others } = self.ends.get(&address).copied().unwrap_or_default();
        (u8::from(of.main) * LOCAL_MAIN)
            | (u8::from(of.vrf) * LOCAL_BESIDE)
            | (u8::from(of.main && others) * LOCAL_TUNNEL)
            | (u8::from(of.main && vxlan) * LOCAL_VXLAN)
    }

    fn word(&self, bit: u32) -> &AtomicU32 {
        let at = bit as usize / 32 * 4;
        assert!(at + 4 <= self.filter.bytes());
        // SAFETY: in the mapping, as just checked, and aligned; the programs only read it.
        unsafe { &*self.filter.base().as_ptr().add(at).cast::<AtomicU32>() }
    }
}

/// `may_be_local` in `forwarding/bpf/classify.h`.
fn bit_of(address: IpAddr) -> u32 {
    let key = match address {
        IpAddr::V4(address) => u64::from(u32::from(address)),
        IpAddr::V6(address) => {
            let octets = address.octets();
            let half = |at: usize| u64::from_ne_bytes(octets[at..at + 8].try_into().expect("8 bytes"));
            half(0) ^ half(8)
        }
    };
    (key.wrapping_mul(LOCAL_FACTOR) >> LOCAL_SHIFT) as u32
}

/// The map that holds an address, and its key there.
pub(super) fn key(address: IpAddr) -> (&'static str, Vec<u8>) {
    match address {
        IpAddr::V4(address) => ("local4", address.octets().to_vec()),
        IpAddr::V6(address) => ("local6", address.octets().to_vec()),
    }
}
