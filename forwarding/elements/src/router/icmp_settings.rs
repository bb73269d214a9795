//! Which ICMP errors the router sends, and how many: Linux's settings, which hold for Bifrost as
//! well.
//!
//! The control thread sets what it reads in /proc/sys; elements ask for each error, which is a slow
//! path and takes a read lock for a moment.

use std::sync::{Arc, PoisonError, RwLock};

use super::IcmpLimits;
use wire::{icmp4, icmp6};

/// What Linux's sysctls say. The default is Linux's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IcmpSettings {
    /// How many errors, of IPv4 and of IPv6 (`icmp_msgs_per_sec`, `icmp_msgs_burst`,
    /// `icmp_ratelimit`, `icmp/ratelimit`).
    pub limits: [IcmpLimits; 2],
    /// Types of ICMP that are limited, as bits (`net.ipv4.icmp_ratemask`).
    pub mask4: u32,
    /// Types of ICMPv6 that are limited, as bits, lowest word first (`net.ipv6.icmp.ratemask`).
    pub mask6: [u64; 4],
    /// Errors of IPv4 are sent from the address of the interface that the packet came in by
    /// (`net.ipv4.icmp_errors_use_inbound_ifaddr`).
    pub inbound: bool,
}

impl Default for IcmpSettings {
    fn default() -> IcmpSettings {
        IcmpSettings {
            limits: [IcmpLimits::V4, IcmpLimits::V6],
            // Unreachable, source quench, time exceeded, parameter problem.
            mask4: 1 << 3 | 1 << 4 | 1 << 11 | 1 << 12,
            // The errors, but for "packet too big".
            mask6: [!(1 << 2), u64::MAX, 0, 0],
            inbound: false,
        }
    }
}

impl IcmpSettings {
    /// Without any limit.
    pub fn unlimited() -> IcmpSettings {
        IcmpSettings { mask4: 0, mask6: [0; 4], ..IcmpSettings::default() }
    }

    /// Whether errors of this type and code are limited. "Fragmentation needed" is not, whatever
    /// the settings say: path MTU discovery would stall.
    pub(super) fn limits4(&self, icmp_type: u8, code: u8) -> bool {
        let needed = icmp_type == icmp4::UNREACHABLE && code == icmp4::unreachable::FRAGMENTATION_NEEDED;
        !needed && self.mask4.checked_shr(u32::from(icmp_type)).is_some_and(|mask| mask & 1 != 0)
    }

    /// Whether errors of this type are limited.
    pub(super) fn limits6(&self, icmp_type: u8) -> bool {
        debug_assert!(icmp6::is_error(icmp_type));
        self.mask6[usize::from(icmp_type / 64)] >> (icmp_type % 64) & 1 != 0
    }
}

/// The settings in force. Shared by all workers, who share the limits for all.
#[derive(Debug)]
pub struct IcmpPolicy {
    workers: u32,
    settings: RwLock<IcmpSettings>,
}

impl IcmpPolicy {
    /// Linux's defaults.
    pub fn new(workers: usize) -> Arc<IcmpPolicy> {
        let workers = u32::try_from(workers).unwrap_or(u32::MAX);
        let policy = IcmpPolicy { workers, settings: RwLock::default() };
        policy.set(IcmpSettings::default());
        Arc::new(policy)
    }

    /// For one worker.
    pub fn of(settings: IcmpSettings) -> Arc<IcmpPolicy> {
        Arc::new(IcmpPolicy { workers: 1, settings: RwLock::new(settings) })
    }

    /// Puts other settings in force.
    pub fn set(&self, settings: IcmpSettings) {
        let limits = settings.limits.map(|limits| limits.share(self.workers));
        *self.settings.write().unwrap_or_else(PoisonError::into_inner) = IcmpSettings { limits, ..settings };
    }

    /// Each worker's share of what is in force.
    pub(super) fn get(&self) -> IcmpSettings {
        *self.settings.read().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_limited_is_what_linux_limits() {
        let settings = IcmpSettings::default();
        assert!(settings.limits4(3, 1) && settings.limits4(11, 0));
        assert!(!settings.limits4(3, 4) && !settings.limits4(5, 0) && !settings.limits4(40, 0));
        assert!(settings.limits6(1) && settings.limits6(3) && !settings.limits6(2));
        let none = IcmpSettings::unlimited();
        assert!(!none.limits4(11, 0) && !none.limits6(1));
    }

    #[test]
    fn workers_share_the_limits_for_all() {
        let policy = IcmpPolicy::new(4);
        assert_eq!(policy.get().limits[0], IcmpLimits { rate: 250, burst: 13, ..IcmpLimits::V4 });
        policy.set(IcmpSettings { mask4: 0, ..IcmpSettings::default() });
        assert_eq!(policy.get().mask4, 0);
    }
}
